# SPDX-License-Identifier: Apache-2.0
# backends.awk - the backends of the tree, as somebody wants to read them: the rows of plugins.am say which
# there are, plugins/NAME/NAME.info what each is.
#     awk -v as=configure -f plugins/backends.awk                    rows of m4, for configure.ac
#     awk -v as=control -f plugins/backends.awk debian/control.in    with @RECOMMENDED@ and @BACKENDS@ filled in
#     awk -v as=spec -f plugins/backends.awk kt-kernel.spec.in       likewise
# top: the folder of the sources, which is the current one by default.
function fail(text) {
    print "backends.awk: " text >"/dev/stderr"
    failed = 1
    exit 1
}
function read_info(name, file, line, key, status) {
    file = top "plugins/" name "/" name ".info"
    key = ""
    while ((status = (getline line <file)) > 0) {
        if (line ~ /^#/)
            continue
        if (line ~ /^ /) {
            info[name, key] = info[name, key] (info[name, key] == "" ? "" : "\n") line
            continue
        }
        key = line
        sub(/:.*/, "", key)
        if (!match(line, /^[A-Z][a-z]*:/) || index(" Help Summary Host Because Recommended Description ", " " key " ") == 0)
            fail(file ": there is no field like '" line "'")
        sub(/^[^:]*: */, "", line)
        info[name, key] = line
    }
    close(file)
    if (status < 0)
        fail(file " cannot be read")
    if (info[name, "Help"] == "" || info[name, "Summary"] == "" || info[name, "Description"] == "")
        fail(file ": Help, Summary and Description are needed")
    if ((info[name, "Host"] == "") != (info[name, "Because"] == ""))
        fail(file ": Host and Because go together")
}
function read_rows(file, line, part) {
    file = top "plugins/plugins.am"
    while ((getline line <file) > 0)
        if (split(line, part, "/") == 3 && part[1] == "include plugins" && part[2] != "common")
            names[++n] = part[2]
    close(file)
    for (i = 1; i <= n; i++)
        read_info(names[i])
}
function package_of(name) {
    gsub(/_/, "-", name)
    return "kt-kernel-plugin-" name
}
# Where the file changes, configure is made again. Its text goes nowhere.
function depend(file) {
    print "m4_divert_push([KILL])m4_include([" file "])m4_divert_pop([KILL])"
}
function write_configure(name) {
    depend("plugins/" name "/" name ".info")
    printf "KT_BACKEND([%s], [%s]", name, info[name, "Help"]
    if (info[name, "Host"] != "")
        printf ",\n    [AS_IF([test $host_cpu != %s], [kt_missing=\"%s, not $host_cpu\"])]", info[name, "Host"],
            info[name, "Because"]
    print ")"
}
function write_control(name, host) {
    host = info[name, "Host"]
    print "Package: " package_of(name)
    print "Architecture: " (host == "" ? "amd64 arm64" : host == "x86_64" ? "amd64" : host == "aarch64" ? "arm64" : host)
    print "Multi-Arch: same"
    print "Depends: ${ktkernel:Abi}, ${misc:Depends}, ${shlibs:Depends}"
    print "Description: ${source:Synopsis} - backend " name
    print " ${source:Extended-Description}\n .\n" info[name, "Description"]
}
function write_spec(name, host) {
    host = info[name, "Host"]
    if (host != "")
        print "%ifarch " host
    print "%backend " name " - " info[name, "Summary"]
    if (host != "")
        print "%endif"
}
BEGIN {
    top = top == "" ? "" : top "/"
    read_rows()
    if (as == "configure")
        depend("plugins/plugins.am")
    for (i = 1; as == "configure" && i <= n; i++)
        write_configure(names[i])
    if (as == "configure")
        exit
}
/@RECOMMENDED@/ {
    before = substr($0, 1, index($0, "@") - 1)
    for (i = 1; i <= n; i++)
        if (info[names[i], "Recommended"] == "yes") {
            list = list (list == "" ? "" : as == "spec" ? "\n" before : ",\n" sprintf("%" length(before) "s", "")) \
                package_of(names[i])
        }
    print before list
    next
}
$0 == "@BACKENDS@" {
    for (i = 1; i <= n; i++) {
        if (as == "control" && i > 1)
            print ""
        if (as == "control")
            write_control(names[i])
        else
            write_spec(names[i])
    }
    next
}
# The project's home, which configure.ac knows, or not.
/@URL@/ {
    if (url == "")
        next
    sub(/@URL@/, url)
}
{ print }
END { exit failed }

# SPDX-License-Identifier: Apache-2.0
# embed.awk - writes files as arrays of their lines in C, and a table of them. prefix: what goes before their names;
# shipped: names of backends, for a list of their own.
function quote(line, i, c, text) {
    text = ""
    for (i = 1; i <= length(line); i++) {
        c = substr(line, i, 1)
        if (c == "\t")
            c = "\\t"
        else if (c == "\"" || c == "\\" || c == "?")
            c = "\\" c
        text = text c
    }
    return "\"" text "\""
}
BEGIN { print "/* Made by tools/template/embed.awk. */\n#include \"tools/kt/plugin/template.h\"\n" }
FNR == 1 {
    if (n++)
        print "    NULL};"
    name[n] = substr(FILENAME, length(prefix) + 1)
    print "static const char *const file" n "[] = {"
}
{ print "    " quote($0) "," }
END {
    print "    NULL};\n\nconst struct plugin_template plugin_template[] = {"
    for (i = 1; i <= n; i++)
        print "    {\"" name[i] "\", file" i "},"
    print "    {NULL, NULL},\n};\n\nconst char *const plugin_shipped[] = {"
    count = split(shipped, names, " ")
    for (i = 1; i <= count; i++)
        print "    \"" names[i] "\","
    print "    NULL};"
}

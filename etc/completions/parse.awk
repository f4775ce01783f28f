# SPDX-License-Identifier: Apache-2.0
# Reads `values`, and the help texts of kt, each behind a line "@ VERB".
FILENAME == values {
    if ($0 !~ /^#/ && NF > 0)
        read_value()
    next
}
$1 == "@" { verb = $2; part = ""; next }
/^Usage: kt / && verb != "" && !(("", verb) in kind) {
    first = $4
    gsub(/[][.]/, "", first)
    if (first == "OPTION")
        kind["", verb] = "none"
    else if (("", first) in kind)
        kind["", verb] = kind["", first]
    next
}
/^Verbs:$/ { part = "verbs"; next }
/^Options/ { part = "options"; next }
/^ *$/ { if (part == "verbs") part = ""; next }
part == "verbs" && /^  [a-z]/ {
    verbs[++n_verbs] = $1
    text = $0
    sub(/^ *[a-z]* */, "", text)
    summary[$1] = text
    next
}
part == "verbs" { summary[verbs[n_verbs]] = summary[verbs[n_verbs]] " " trim($0); next }
part == "options" && match($0, /^  (-., |    )--[a-z-]+( [^ ]+)?/) {
    add_option(substr($0, RSTART, RLENGTH), trim(substr($0, RLENGTH + 1)))
    next
}
part == "options" && /^          / { about[last] = trim(about[last] " " trim($0)) }

function trim(text)
{
    gsub(/^ +| +$/, "", text)
    return text
}

function read_value(    where, name)
{
    where = ""
    if ($1 !~ /^-/ && $2 ~ /^-/) {
        where = $1
        sub(/^[^ \t]+[ \t]+/, "")
    }
    name = $1
    kind[where, name] = $2
    sub(/^[^ \t]+[ \t]+[^ \t]+[ \t]*/, "")
    words[where, name] = $0
}

# Options of kt itself, verb "", are those of every verb.
function add_option(head, text,    letter, parts, n, name)
{
    letter = head ~ /^  -.,/ ? substr(head, 4, 1) : ""
    sub(/^.*--/, "", head)
    n = split(head, parts, " ")
    name = parts[1]
    last = verb SUBSEP name
    if (verb != "" && (("" SUBSEP name) in about)) {
        last = "again"
        return
    }
    option[verb, ++n_options[verb]] = name
    about[last] = text
    argument[last] = n > 1 ? parts[2] : ""
    letters[last] = letter
    if (n > 1) {
        if (!(("", "--" name) in kind) && ("", parts[2]) in kind) {
            kind["", "--" name] = kind["", parts[2]]
            words["", "--" name] = words["", parts[2]]
        }
        if (!(("", "--" name) in kind))
            fail("what --" name " takes must stand in etc/completions/values")
        if (!(name in takes)) {
            taking[++n_taking] = name
            takes[name] = ""
        }
        if (letter != "")
            takes[name] = letter
    }
}

function fail(text)
{
    print "generate: " text | "cat >&2"
    failed = 1
}

function check_values(    i)
{
    if (n_verbs == 0)
        fail("kt --help names no verbs")
    for (i = 1; i <= n_verbs; i++) {
        if (!(("", verbs[i]) in kind))
            fail("what kt " verbs[i] " takes must stand in etc/completions/values")
    }
}

# Without what stands better in the manual.
function short(text)
{
    sub(/ \(default[^)]*\)/, "", text)
    sub(/;.*$/, "", text)
    return text
}

# Words in lines of at most 100 columns; `end` ends all but the last.
function wrap(text, indent, end,    n, parts, i, line, out)
{
    n = split(text, parts, " ")
    for (i = 1; i <= n; i++) {
        if (line != "" && length(line) + length(parts[i]) + 1 > 100 - length(indent)) {
            out = out line end "\n" indent
            line = ""
        }
        line = line (line == "" ? "" : " ") parts[i]
    }
    return out line
}

function all_verbs(    i, text)
{
    for (i = 1; i <= n_verbs; i++)
        text = text (i > 1 ? " " : "") verbs[i]
    return text
}

# Names of the actions of a verb, or those whose second argument is of that kind.
function actions(verb, of,    n, parts, i, pair, text)
{
    n = split(words["", verb], parts, " ")
    for (i = 1; i <= n; i++) {
        split(parts[i] ":", pair, ":")
        if (of == "" || pair[2] == of)
            text = text (text == "" ? "" : " ") pair[1]
    }
    return text
}

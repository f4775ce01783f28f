# SPDX-License-Identifier: Apache-2.0
# Writes the function _kt of zsh.
function action(name, text)
{
    if (name == "files")
        return "_files"
    if (name == "folders")
        return "_files -/"
    if (name == "plugins")
        return "_files -g \"*.so(-.)\""
    if (name == "backends")
        return " _kt_backends" (text == "" ? "" : " " text)
    if (name == "names" || name == "models")
        return " _kt_" name
    if (name == "settings" || name == "keys")
        return "_kt_" name
    if (name == "words")
        return "(" text ")"
    return " "
}

function quote(text)
{
    gsub(/'/, "'\\''", text)
    return "'" text "'"
}

function spec(verb, name,    key, text, tail, letter, repeated, more)
{
    key = verb SUBSEP name
    text = short(about[key])
    gsub(/[][\\:]/, "\\\\&", text)
    text = "[" text "]"
    if (argument[key] != "") {
        more = verb != "" && ((verb, "--" name) in words) ? " " words[verb, "--" name] : ""
        tail = ":" argument[key] ":" action(kind["", "--" name], words["", "--" name] more)
    }
    letter = letters[key]
    repeated = name == "set" ? "*" : ""
    if (letter == "")
        return quote(repeated "--" name (argument[key] == "" ? "" : "=") text tail)
    return quote("(-" letter " --" name ")") "{-" letter (argument[key] == "" ? "" : "+") ",--" name \
        (argument[key] == "" ? "" : "=") "}" quote(text tail)
}

function write_specs(verb, indent,    i)
{
    for (i = 1; i <= n_options[verb]; i++)
        print indent spec(verb, option[verb, i])
}

# The shared option that has further words in this verb: it stands there again.
function has_further(verb,    i)
{
    for (i = 1; i <= n_options[""]; i++) {
        if ((verb, "--" option["", i]) in kind)
            return option["", i]
    }
    return ""
}

function write_verb(verb,    further, name)
{
    name = kind["", verb]
    further = has_further(verb)
    print "    " verb ")"
    print "        _arguments -C -s " (further == "" ? "$shared" : "${shared:#--" further "=*}") " \\"
    print_specs(verb)
    if (name == "actions")
        print "            '1:action:(" actions(verb, "") ")' '2: :->second' && ret=0"
    else if (name == "none")
        print "            && ret=0"
    else
        print "            " quote("*:" (name == "backends" ? "backend" : name == "models" ? "model" : "file") ":" action(name, words["", verb])) " && ret=0"
    if (name == "actions")
        write_second(verb)
    print "        ;;"
}

function print_specs(verb,    i, name)
{
    for (i = 1; i <= n_options[verb]; i++)
        print "            " spec(verb, option[verb, i]) " \\"
    name = has_further(verb)
    if (name != "") {
        about[verb, name] = about["", name]
        argument[verb, name] = argument["", name]
        letters[verb, name] = letters["", name]
        print "            " spec(verb, name) " \\"
    }
}

function write_second(verb,    n, kinds, j, text)
{
    print "        [[ $state == second ]] && case $line[1] in"
    n = split("files folders plugins backends names models keys", kinds, " ")
    for (j = 1; j <= n; j++) {
        text = actions(verb, kinds[j])
        if (text == "")
            continue
        gsub(/ /, " | ", text)
        print "        " text ") " trim(action(kinds[j], "")) " && ret=0 ;;"
    }
    print "        esac"
}

END {
    check_values()
    if (failed)
        exit 1
    print "    shared=("
    write_specs("", "        ")
    print "    )"
    print "    verbs=("
    for (i = 1; i <= n_verbs; i++)
        print "        " quote(verbs[i] ":" summary[verbs[i]])
    print "        'help:show the help of a verb'"
    print "    )"
    print "    _arguments -C -s -A '-*' $shared '1: :->verb' '*:: :->rest' && ret=0"
    print "    case $state in"
    print "    verb) _describe -t verbs verb verbs && ret=0 ;;"
    print "    rest) verb=$words[1] ;;"
    print "    esac"
    print "    state="
    print "    case $verb in"
    print "    help) _arguments '1: :->verb' && ret=0"
    print "        [[ $state == verb ]] && _describe -t verbs verb verbs && ret=0"
    print "        ;;"
    for (i = 1; i <= n_verbs; i++)
        write_verb(verbs[i])
    print "    esac\n    return ret\n}\n\n_kt \"$@\""
}

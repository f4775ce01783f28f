# SPDX-License-Identifier: Apache-2.0
# Writes the options, values and arguments of kt as functions of bash.
function complete_kind(name, text)
{
    if (name == "files")
        return "_kt_files \"$cur\""
    if (name == "folders")
        return "_kt_files \"$cur\" -d"
    if (name == "plugins")
        return "_kt_plugins \"$cur\""
    if (name == "backends")
        return "_kt_words \"" (text == "" ? "" : wrap(text, "            ", "") " ") "$(_kt_backends \"$1\")\" \"$cur\""
    if (name == "names")
        return "_kt_words \"$(_kt_names \"$1\")\" \"$cur\""
    if (name == "models")
        return "_kt_models \"$1\" \"$cur\""
    if (name == "settings")
        return "_kt_settings \"$1\" \"$cur\" ="
    if (name == "keys")
        return "_kt_settings \"$1\" \"$cur\""
    if (name == "words")
        return "_kt_words \"" wrap(text, "            ", "") "\" \"$cur\""
    return "COMPREPLY=()"
}

function patterns(name)
{
    return "--" name (takes[name] == "" ? "" : " | -" takes[name])
}

# The same for `case OPTION:VERB`: a letter that several options have is that of the verb's.
function verb_patterns(name,    i, n, text)
{
    text = "--" name ":*"
    for (i = 1; i <= n_taking; i++)
        n += takes[taking[i]] == takes[name]
    if (takes[name] != "" && n == 1)
        return text " | -" takes[name] ":*"
    for (i = 1; i <= n_verbs && takes[name] != ""; i++)
        if (letters[verbs[i], name] != "")
            text = text " | -" takes[name] ":" verbs[i]
    return text
}

function write_options(    i, j, text)
{
    print "\n_kt_options()\n{\n    local shared=\"" long_options("") "\"\n    case $1 in"
    for (i = 1; i <= n_verbs; i++) {
        text = long_options(verbs[i])
        print "    " verbs[i] ") echo \"" wrap(text (text == "" ? "" : " ") "$shared", "        ", "") "\" ;;"
    }
    print "    *) echo \"$shared\" ;;\n    esac\n}"
}

function long_options(verb,    i, text)
{
    for (i = 1; i <= n_options[verb]; i++)
        text = text (i > 1 ? " " : "") "--" option[verb, i]
    return text
}

# The older names of options take what the newer ones take.
function write_values(    i, j, name, text, verb)
{
    print "\n# Does the option take a value?\n_kt_takes()\n{\n    case $1 in"
    for (i = 1; i <= n_taking; i++)
        text = text (i > 1 ? " | " : "") patterns(taking[i])
    print "    " wrap(text " | --method | --layer", "        ", " \\") ") return 0 ;;\n    esac\n    return 1\n}"
    print "\n# The value of option $2 of verb $3. $1 is the command.\n_kt_value()\n{\n    case $2:$3 in"
    for (i = 1; i <= n_taking; i++) {
        name = taking[i]
        if (kind["", "--" name] == "none")
            continue
        text = words["", "--" name]
        for (j = 1; j <= n_verbs; j++) {
            verb = verbs[j]
            if ((verb, "--" name) in kind)
                text = text "$([ \"$3\" != " verb " ] || echo \" " words[verb, "--" name] "\")"
        }
        print "    " verb_patterns(name) (name == "backend" ? " | --method:*" : name == "layers" ? " | --layer:*" : "") \
            ") " complete_kind(kind["", "--" name], text) " ;;"
    }
    print "    esac\n}"
}

function write_arguments(    i, j, verb, n, kinds, text)
{
    print "\n# Argument $3 of verb $2, whose first one is $4.\n_kt_argument()\n{\n    case $2:$3:$4 in"
    print "    :* | help:0:) _kt_words \"" wrap(all_verbs() " help", "        ", "") "\" \"$cur\" ;;"
    for (i = 1; i <= n_verbs; i++) {
        verb = verbs[i]
        if (kind["", verb] != "actions") {
            if (kind["", verb] != "none")
                print "    " verb ":*) " complete_kind(kind["", verb], words["", verb]) " ;;"
            continue
        }
        print "    " verb ":0:*) _kt_words \"" actions(verb, "") "\" \"$cur\" ;;"
        n = split("files folders plugins backends names models keys", kinds, " ")
        for (j = 1; j <= n; j++) {
            text = actions(verb, kinds[j])
            if (text == "")
                continue
            gsub(/ /, " | " verb ":1:", text)
            print "    " verb ":1:" text ") " complete_kind(kinds[j], "") " ;;"
        }
    }
    print "    esac\n}"
}

END {
    check_values()
    if (failed)
        exit 1
    write_options()
    write_values()
    write_arguments()
}

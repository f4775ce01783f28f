# SPDX-License-Identifier: Apache-2.0
# Writes the options and arguments of kt as calls of fish's complete.
function quote(text)
{
    gsub(/\\/, "\\\\", text)
    gsub(/'/, "\\'", text)
    return "'" text "'"
}

function offer(name, text)
{
    if (name == "files")
        return "-F"
    if (name == "folders")
        return "-f -a '(__fish_complete_directories)'"
    if (name == "plugins")
        return "-k -a '(__fish_complete_suffix .so)'"
    if (name == "backends")
        return "-f -a '" (text == "" ? "" : text " ") "(__kt_backends)'"
    if (name == "names")
        return "-f -a '(__kt_names)'"
    if (name == "models")
        return "-F -a '(__kt_names)'"
    if (name == "settings")
        return "-f -a '(__kt_settings =)'"
    if (name == "keys")
        return "-f -a '(__kt_settings)'"
    if (name == "words")
        return "-f -a " quote(text)
    return "-f"
}

function write_options(verb,    i, name, key)
{
    for (i = 1; i <= n_options[verb]; i++) {
        name = option[verb, i]
        key = verb SUBSEP name
        print "complete -c kt" (verb == "" ? "" : " -n '__kt_verb " verb "'") \
            (letters[key] == "" ? "" : " -s " letters[key]) " -l " name \
            (argument[key] == "" ? "" : " -r " offer(kind["", "--" name], words["", "--" name])) \
            " -d " quote(short(about[key]))
    }
}

function write_arguments(verb,    n, kinds, i, text)
{
    if (kind["", verb] == "none")
        return
    if (kind["", verb] != "actions") {
        print "complete -c kt -n '__kt_verb " verb "' " offer(kind["", verb], words["", verb])
        return
    }
    print "complete -c kt -n '__kt_at 1 " verb "' -f -a " quote(actions(verb, ""))
    n = split("files folders plugins backends names models keys", kinds, " ")
    for (i = 1; i <= n; i++) {
        text = actions(verb, kinds[i])
        if (text != "")
            print "complete -c kt -n '__kt_at 2 " verb " " text "' " offer(kinds[i], "")
    }
}

END {
    check_values()
    if (failed)
        exit 1
    for (i = 1; i <= n_taking; i++)
        list = list (i > 1 ? " " : "") "--" taking[i] (takes[taking[i]] == "" ? "" : " -" takes[taking[i]])
    print "set -g __kt_takes " list " --method --layer\n"
    print "complete -c kt -f"
    for (i = 1; i <= n_verbs; i++)
        print "complete -c kt -n '__kt_at 0' -a " verbs[i] " -d " quote(summary[verbs[i]])
    print "complete -c kt -n '__kt_at 0' -a help -d 'show the help of a verb'"
    print "complete -c kt -n '__kt_at 1 help' -a " quote(all_verbs())
    write_options("")
    for (i = 1; i <= n_verbs; i++) {
        write_options(verbs[i])
        for (j = 1; j <= n_options[""]; j++) {
            if ((verbs[i], "--" option["", j]) in words)
                print "complete -c kt -n '__kt_verb " verbs[i] "' -l " option["", j] " -r " \
                    offer(kind[verbs[i], "--" option["", j]], words[verbs[i], "--" option["", j]])
        }
        write_arguments(verbs[i])
    }
}

# SPDX-License-Identifier: Apache-2.0
# complete.zsh FOLDER OUTPUT LINE: types LINE and a tab into a zsh whose functions are in FOLDER too, and writes
# what it offers, one a line. A completion needs a line editor, so it runs in a terminal of its own. What zsh finds
# in its folders takes it longest, so that stays in OUTPUT.functions for the next call.
zmodload zsh/zpty || exit 77
folder=$1 output=$2 line=$3
: >$output
cat >$output.setup <<EOF
PROMPT=
fpath=(${(q)folder} \$fpath)
autoload -U compinit && compinit -u -d ${(q)output}.functions
bindkey '^I' complete-word
zstyle ':completion:*' insert-tab false
# Calls with an array are questions of the completion's own.
compadd() {
    if [[ \${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
        builtin compadd "\$@"
        return
    fi
    local -a hits
    builtin compadd -A hits "\$@"
    (( \$#hits )) && print -rl -- \$hits >>${(q)output}
    builtin compadd "\$@"
}
comppostfuncs=(finish)
finish() { : >${(q)output}.end; exit }
EOF
zpty shell zsh -f -i
zpty -w shell "source ${(q)output}.setup"
zpty -w -n shell "$line"$'\t'
repeat 600; do
    [[ -e $output.end ]] && break
    zpty -r -t shell echoed >/dev/null
    sleep 0.05
done
zpty -d shell
[[ -e $output.end ]]

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The completion for bash, zsh and fish: it is made from the help of this kt, and offers all verbs and options.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
completions=$KT_TEST_SOURCE/etc/completions
find_verbs
verbs="$own_verbs $engine_verbs"

# kt as a command, which the completion calls.
mkdir "$dir/bin" "$dir/made"
printf '#!/bin/sh\nLD_LIBRARY_PATH=%s/.libs exec %s %s "$@"\n' "$KT_TEST_BUILD" "${EMULATOR:-}" "$kt_program" >"$dir/bin/kt"
chmod +x "$dir/bin/kt"
PATH=$dir/bin:$PATH
export PATH

# It asks all verbs for their help.
if [ -n "$engine_verbs" ]; then
    command_line="etc/completions/generate"
    sh "$completions/generate" "$dir/bin/kt" "$dir/made" >"$out" 2>"$err"
    code=$?
    exits 0
    is_silent
    for file in kt _kt kt.fish; do
        cmp "$dir/made/$file" "$completions/$file" >"$out" 2>&1 || fail "make completions must be run"
    done
fi

cat >"$dir/complete.bash" <<'END_OF_BASH'
. "$1/kt"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_kt
printf '%s\n' "${COMPREPLY[@]}"
END_OF_BASH

# What the shell $1 offers for the words that follow.
complete()
{
    shell=$1
    shift
    command_line="completion by $shell of: $*"
    case $shell in
    bash) bash "$dir/complete.bash" "$completions" "$@" >"$out" 2>"$err" ;;
    zsh)
        rm -f "$dir/hits.end"
        zsh -f "$KT_TEST_SOURCE/tests/kt/complete.zsh" "$completions" "$dir/hits" "$*" >/dev/null 2>"$err"
        code=$?
        cat "$dir/hits" >"$out"
        return
        ;;
    fish)
        # shellcheck disable=SC2016 # fish's own variables
        fish --no-config -c 'source $argv[1]/kt.fish; complete -C "$argv[2]"' "$completions" "$*" \
            2>"$err" | cut -f1 >"$out"
        ;;
    esac
    code=$?
}

# The long options of `kt $1 --help`, one a line.
help_options()
{
    kt_run "$@" --help | sed -n 's/^  \(-.,\|   \) --\([a-z-]*\).*/--\2/p' | sort
}

offers_everything()
{
    complete "$1" kt ''
    exits 0
    for verb in $verbs help; do
        says "^$verb\$"
    done
    for verb in '' $verbs; do
        # shellcheck disable=SC2086 # no verb is not a word
        [ -f "$dir/help.$verb" ] || help_options $verb >"$dir/help.$verb"
        # shellcheck disable=SC2086
        complete "$1" kt $verb --
        sort "$out" >"$dir/offered"
        cmp -s "$dir/help.$verb" "$dir/offered" || fail "options of --help (<) and completion (>) differ:
$(diff "$dir/help.$verb" "$dir/offered")"
    done
    complete "$1" kt forw
    says '^forward$'
    says_not '^bench$'
    complete "$1" kt help ve
    says '^verify$'
    complete "$1" kt plugin --format t
    says '^tap$'
    complete "$1" kt version --format ''
    says '^json$'
    says_not '^tap$'
    complete "$1" kt plugin n
    says '^new$'
    complete "$1" kt forward --io ''
    says '^read$'
    complete "$1" kt place -p ''
    says '^front-loading$'
    says_not '^30000$'
    complete "$1" kt run -p ''
    says '^30000$'
    complete "$1" kt --format csv config ''
    says '^check$'
    says '^unset$'
    complete "$1" kt config set core.th
    says '^core.threads$'
    complete "$1" kt config set core.threads ''
    says_not 'core.threads'
    complete "$1" kt forward --backend ''
    says '^auto$'
    says '^AMXINT4$'
    says '^reference$'
    complete "$1" kt backends ''
    says '^reference$'
    complete "$1" kt backends --set core.th
    says '^core.threads=\{0,1\}$'
    complete "$1" kt inspect "$dir/mo"
    says 'model.gguf$'
    complete "$1" kt tokenize "$dir/mo"
    says 'model.gguf$'
    complete "$1" kt bench --tokenize "$dir/mo"
    says 'model.gguf$'
    complete "$1" kt plugin check "$dir/plug"
    says 'plugin.so$'
}

touch "$dir/model.gguf" "$dir/plugin.so" "$dir/plugin.txt"
for shell in bash zsh fish; do
    if ! command -v $shell >/dev/null; then
        echo "the completion for $shell is not run: $shell is not here"
    elif [ $shell = zsh ] && ! zsh -f -c 'zmodload zsh/zpty' 2>/dev/null; then
        echo "the completion for zsh is not run: its module zpty is not here"
    else
        offers_everything $shell
    fi
done
if command -v bash >/dev/null; then
    complete bash kt version --format = c
    says '^csv$'
    complete bash kt plugin check "$dir/plug"
    says_not 'plugin.txt'
    touch "$dir/a model.gguf"
    complete bash kt inspect "$dir/a"
    says '/a model.gguf$'
fi
finish

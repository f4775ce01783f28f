#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every kt command and setting in README.md works, in the order of the file.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
readme=$KT_TEST_SOURCE/README.md
with_plugin llamafile || skip "the backend llamafile was not built"
with_plugin amx_int8 || skip "the backend amx_int8 was not built"

# block LANGUAGE: the fenced blocks of code in this language.
block()
{
    awk -v fence="\`\`\`$1" '/^```/ { on = !on && $0 == fence; next } on' "$readme"
}

block sh | sed -n 's/^\(kt [a-z].*\)/\1/p' | sed 's/  *#.*//' >"$dir/commands"
[ "$(wc -l <"$dir/commands")" -ge 15 ] || fail "README.md must show what kt can do"
with_plugin bf16 || skip "the backend bf16 was not built"
with_plugin attention || skip "the plugin attention was not built"
find_verbs
serve=$(dirname "$kt_program")/kt-serve
XDG_DATA_HOME=$dir/data
export XDG_DATA_HOME
module=$dir/plugins/kt_bf16.so
mkdir "$dir/here"
cd "$dir/here" || exit 99
while read -r program words; do
    words=$(echo "$words" | sed "s,MODEL,$data/tiny-moe-q4_k_m.gguf,; s,TRACE,$trace,; s,STORE,$dir/store,
        s,FILE.so,$module,; s,FILE.ini,$KT_TEST_SOURCE/plugins/bf16/bf16.ini,")
    case $words in # as short as can be
    bench*) words="$words --runs 1 --repeats 5 --cycle 8 --min-time 0.002" ;;
    tune*) words="$words --tokens 1 --cycle 8 --min-time 0.002" ;;
    plugin\ check*) words="$words --cases 1 --quick" ;;
    generate*) [ -n "$engine_verbs" ] || continue
               words="$words --tokens 3" ;;
    run\ --engine\ sglang*) continue ;; # needs SGLang
    run*) [ -x "$serve" ] || continue
          words="$words --dry-run" ;; # or it would serve for good
    chat*) [ ! -x "$serve" ] || { # nobody serves here
               kt chat --port 1
               exits 1
               warns 'no server answers'
           }
           continue ;;
    doctor) continue ;; # what it says depends on the machine
    esac
    case $words in # the address sanitizer is a constructor in each plugin, which the check refuses
    plugin\ check*) ! grep -q __asan_init "$module" || continue ;;
    esac
    # shellcheck disable=SC2086 # these words are words
    $program $words
    exits 0
done <"$dir/commands"
kt doctor
[ "$code" -le 1 ] || fail "kt doctor must know what it is asked"

block ini >"$dir/kt.ini"
grep -q '^\[core\]' "$dir/kt.ini" || fail "README.md must show settings"
kt config check --config "$dir/kt.ini"
exits 0
kt explain "$data/tiny-moe-q4_k_m.gguf" --config "$dir/kt.ini"
exits 0
says amx_int8

# The outline of a plugin compiles with the header; its functions are elsewhere.
block c | sed -n '/^#include <kt\/plugin.h>/,$p' |
    sed 's/^static \(void\|enum kt_status\) /extern \1 /' >"$dir/sketch.c"
grep -q KT_PLUGIN_DEFINE "$dir/sketch.c" || fail "README.md must show a plugin"
command_line="${KT_TEST_CC:-cc} sketch.c"
# shellcheck disable=SC2086 # CC may be several words
${KT_TEST_CC:-cc} -std=gnu11 -Wall -Wextra -Werror -fsyntax-only -I"$KT_TEST_SOURCE/include" \
    -I"$KT_TEST_BUILD/include" "$dir/sketch.c" >"$out" 2>"$err"
code=$?
exits 0
finish

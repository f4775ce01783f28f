#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The command line of kt: help, versions, and what is said of a wrong one.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
find_verbs
verbs="$own_verbs $engine_verbs"

kt --help
exits 0
is_silent
for verb in $verbs; do
    says "^  $verb  *[a-z]"
done
kt -h
exits 0
kt --version
exits 0
says '^kt (kt-kernel) [0-9]'
for verb in $verbs; do
    kt "$verb" --help
    exits 0
    is_silent
    says "^Usage: kt $verb"
    says '^  -h, --help '
    kt "$verb" --version
    exits 0
    says '^kt (kt-kernel) [0-9]'
done

kt --help
cp "$out" "$dir/help"
kt help
exits 0
cmp -s "$out" "$dir/help" || fail "kt help must say what kt --help says"
for verb in $verbs; do
    kt $verb --help
    cp "$out" "$dir/help"
    kt --verbose help $verb
    exits 0
    cmp -s "$out" "$dir/help" || fail "kt help $verb must say what kt $verb --help says"
done

kt version
exits 0
says '^libktkernel '
says '^plugin-abi  *1\.'

# What is wrong is named, with the nearest known name, and nothing else is done.
refused()
{
    exits 2
    warns "$1"
    [ ! -s "$out" ] || fail "bad usage must print no data"
}
kt
refused 'a verb is needed'
kt fowrard
refused "^kt: error: unknown verb 'fowrard', did you mean 'forward'?"
kt zzzzzzzz
refused "^kt: error: unknown verb 'zzzzzzzz'$"
kt ''
refused "unknown verb"
kt help fowrard
refused "^kt: error: unknown verb 'fowrard', did you mean 'forward'?"
kt help forward now
refused "'now' is one argument too many"
kt --frmat json version
refused 'unknown option --frmat, did you mean --format?'
kt --format
refused 'kt: error: --format needs a value'
kt version --formt json
refused '^kt version: error: unknown option --formt, did you mean --format?'
kt version --format yaml
refused '--format yaml: one of table|json|csv'
kt version --format ''
refused '--format needs a value'
kt version --verbose=1
refused '--verbose takes no value'
kt version -x
refused 'unknown option -x'
kt version extra
refused "'extra' is one argument too many"
kt version --set
refused '--set needs a value'
kt version --set threads
refused 'SECTION.KEY=VALUE'
kt config
refused 'show, path, check, get, set or unset is missing'
kt config shw
refused "did you mean 'show'?"
kt config show --set core.thread=2
refused 'did you mean threads?'
kt config show --set core.threads=many
refused 'must be a whole number'
for verb in doctor 'config check' 'config path'; do
    # shellcheck disable=SC2086 # a verb and its action
    kt $verb --set core.threads=many
    refused 'must be a whole number'
done
for nodes in -1 0- 0, 1-0 99999999999999999999 1024 some; do
    kt explain --model x --numa-nodes=$nodes
    refused "^kt explain: error: --numa-nodes: numa_nodes = $nodes: all, or numbers up to 1023"
    kt doctor --set core.numa_nodes=$nodes
    refused "^kt doctor: error: --set: numa_nodes = $nodes: all, or numbers"
done
for verb in inspect explain forward convert verify; do
    kt $verb
    refused 'MODEL is missing'
    kt $verb x y
    [ "$code" -eq 2 ] || fail "there is one MODEL"
done
# It may be given by --model, too, wherever it is the argument; help does not say so.
for verb in inspect verify; do
    kt $verb "$data/tiny-moe-q4_k_m.gguf" --format json
    cp "$out" "$dir/argument"
    before=$code
    kt $verb --format json --model "$data/tiny-moe-q4_k_m.gguf"
    [ "$code" -eq "$before" ] && cmp -s "$out" "$dir/argument" || fail "--model is the same as the argument"
    kt $verb --model="$data/tiny-moe-q4_k_m.gguf" x
    refused "'x' is one argument too many"
done
for words in "convert --output $dir/store --backend bf16" "forward --input $trace" explain bench tune; do
    # shellcheck disable=SC2086 # a verb and its options
    kt $words --model "$dir/nothing.gguf"
    exits 1
    warns "$dir/nothing.gguf: "
done
if [ -x "$KT_TEST_BUILD/kt-engine" ]; then
    for words in 'generate --prompt x' tokenize detokenize template 'perplexity x'; do
        # shellcheck disable=SC2086
        kt $words --model "$dir/nothing.gguf"
        warns "$dir/nothing.gguf: "
        kt ${words%% *} --help
        says_not ' --model '
    done
fi

kt inspect --layers -1 "$data/tiny-moe-q4_k_m.gguf"
refused '--layers -1: numbers such as'
kt inspect --layers 99999999999999999999 "$data/tiny-moe-q4_k_m.gguf"
refused 'numbers such as'
kt forward x
refused '--input FILE is needed'
kt convert x --output y
refused '--backend NAME is needed'
for verb in 'explain x' 'forward x --input t' 'convert x --output z' bench; do
    # shellcheck disable=SC2086 # a verb and its options
    kt $verb --backend AMXINT9
    refused "AMXINT9: neither a method of KT-Kernel's nor a backend's name, did you mean AMXINT4?"
done
kt forward --model x --input y --tolerance -1
refused '--tolerance -1: a number that is not negative'
kt forward --model x --input y --tolerance nan
refused 'not negative'
kt forward --model x --input y --threads two
refused '--threads two: a number from 0'
kt forward --model "$data/tiny-moe-q4_k_m.gguf" --input "$trace" --layers 3-1
refused '--layers 3-1: 3-1 runs backwards: 1-3 is that range'
kt forward --model "$data/tiny-moe-q4_k_m.gguf" --input "$trace" --layers 1,
refused 'numbers such as'
kt explain --model x --max-tokens 0
refused '--max-tokens 0: a number from 1'
kt bench --tokens 0
exits 2

# MODEL is the first argument; older names of options go on, and help shows the new ones only.
same()
{
    kt "$@" --format csv
    exits 0
    [ -s "$dir/first" ] || cp "$out" "$dir/first"
    cmp -s "$out" "$dir/first" || fail "another spelling must give the same output"
}
model=$data/tiny-moe-q4_k_m.gguf
same explain "$model" --layers 1 --backend reference
same explain --layers 1 --backend reference "$model"
same explain --model "$model" --layer 1 --backend reference
same explain -m "$model" -l 1 -b reference
same explain "$model" --layer 1 --method reference
rm "$dir/first"
same inspect "$model" --layers 1,3
same inspect "$model" --layer 1,3
[ "$(wc -l <"$out")" -eq 3 ] || fail "two layers are asked for"
rm "$dir/first"
same place "$model" --ratio 0.5
same place --model "$model" --ratio 0.5
for verb in explain forward convert; do
    kt $verb --help
    ! grep -qE -e '--(model|method|layer)( |$)' "$out" || fail "help must show the new names only"
done
if with_plugin amx_int8; then
    for option in --backend --method; do
        kt explain "$model" $option AMXINT8 --format csv
        exits 0
        [ "$(field 0 backend)" = amx_int8 ] || fail "AMXINT8 stands for amx_int8"
    done
    rm "$dir/first"
    kt convert "$model" --output "$dir/new" --backend AMXINT8 --layers 0
    exits 0
    kt convert --input "$model" --output "$dir/old" --method amx_int8 --layer 0
    exits 0
    cmp -s "$dir/new/layer-00000.safetensors" "$dir/old/layer-00000.safetensors" || fail "both must make the same store"
    kt verify "$dir/new"
    exits 0
fi

# No line of help is wider than a terminal, verb or not.
for verb in $verbs; do
    kt $verb --help
    ! grep -q '.\{81\}' "$out" || fail "a line of the help is longer than 80 columns"
done

# The word that is wrong is named, also where another one is missing; KT-Kernel's word for a verb leads to ours.
kt plugin frob
refused "^kt plugin: error: unknown action 'frob': check or new is needed"
kt plugin chek
refused "did you mean 'check'?"
kt plugin check
refused '^kt plugin: error: FILE.so is missing after check'
kt plugin new
refused '^kt plugin: error: NAME is missing after new'
kt model list --hub huggingface
refused '--hub is not an option of kt model list'
kt model info x --kv q8_0
refused '--kv is not an option of kt model info'
kt config show --system
refused '--system is not an option of kt config show'
kt quant
refused "unknown verb 'quant', did you mean 'convert'?"

# Wherever words of a list are taken, the nearest to a wrong one is named.
hints()
{
    word=$1
    shift
    kt "$@"
    exits 2
    warns ", did you mean $word?"
}
hints frequency place --placement frequncy
hints json version --format jsn
hints mmap forward x --input y --io nmap
hints AMXINT4 explain x --backend AMXINT9
hints q4_k bench --source-type q4k
hints q8_0 bench --attention gpt-oss --cache q80
hints gpt-oss bench --attention gpt-os
hints kimi-k2 bench --shape kimi-k3
hints avx512 doctor --set core.cpu_variant=avx51
hints required doctor --set plugin.bf16.module=x --set plugin.bf16.enabled=reqired
hints huggingface model pull x/y --hub hugingface
if [ -x "$KT_TEST_BUILD/kt-engine" ]; then
    hints q8_0 perplexity x y --cache q80
fi
if [ -x "$KT_TEST_BUILD/kt-serve" ]; then
    hints lookup run x --speculate lokup
    hints sglang run x --engine sglan
    hints access run x --log-level acess
    hints bf16 chat --kv bf61
fi
kt backends llamafle --set plugin.llamafile.module=x
exits 1
warns "no backend 'llamafle' is configured, did you mean llamafile?"

# The programs that kt executes are not for people to run.
program=$(dirname "$kt_program")/kt-engine
if [ -n "$engine_verbs" ]; then
    for words in 'bench x' version ''; do
        command_line="kt-engine $words"
        # shellcheck disable=SC2086 # a verb and its argument, or nothing
        LD_LIBRARY_PATH=$KT_TEST_BUILD/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$program" $words >"$out" 2>"$err"
        code=$?
        [ "$code" -ne 0 ] || fail "the exit status must not be 0"
        case $words in bench*) warns 'layers are measured by kt' ;; *) warns 'kt-engine is a part of kt' ;; esac
    done
fi

# A shared option may stand before the verb; an option is given by its whole name.
kt --format json version
exits 0
says '"schema": "kt.version"'
kt version --form=json
refused "unknown option --form, did you mean --format?"
kt --form json version
refused "unknown option --form, did you mean --format?"

# A file that is not there is a problem, not bad usage.
kt inspect "$dir/nothing.gguf"
exits 1
warns '^kt inspect: error: .*nothing.gguf: '
kt --config "$dir/nothing.ini" backends
exits 1
warns 'nothing.ini'

# Text of a file or of the command line cannot steer a terminal.
kt inspect "$dir/$(printf '\033[2Jx')"
exits 1
grep -q "$(printf '\033')" "$err" && fail "an escape character reached standard error"
finish

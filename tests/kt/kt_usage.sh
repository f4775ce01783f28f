#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The command line of kt: help, versions, and what is said of a wrong one.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
verbs="backends bench config doctor explain forward inspect place plugin stats version"

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
refused 'show, path or check is missing'
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
kt inspect
refused 'PATH is missing'
kt inspect --layer -1 "$trace"
refused '--layer -1: a number from 0'
kt inspect --layer 99999999999999999999 "$trace"
refused 'a number from 0'
kt forward
refused '--model PATH is needed'
kt forward --model x
refused '--input FILE is needed'
kt forward --model x --input y --tolerance -1
refused '--tolerance -1: a number that is not negative'
kt forward --model x --input y --tolerance nan
refused 'not negative'
kt forward --model x --input y --threads two
refused '--threads two: a number from 0'
kt forward --model "$data/tiny-moe-q4_k_m.gguf" --input "$trace" --layer 3-1
refused '--layer 3-1: numbers such as'
kt forward --model "$data/tiny-moe-q4_k_m.gguf" --input "$trace" --layer 1,
refused 'numbers such as'
kt explain --model x --max-tokens 0
refused '--max-tokens 0: a number from 1'
kt bench --tokens 0
exits 2

# A shared option may stand before the verb, and options may be shortened.
kt --format json version
exits 0
says '"schema": "kt.version"'
kt version --form=json
exits 0
says '"schema": "kt.version"'

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

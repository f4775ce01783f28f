#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Plugins that take their process with them when they are opened, or keep it: every command names them and goes on.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
mkdir "$dir/plugins"
KT_KERNEL_CORE_PLUGIN_PATH=$dir/plugins
export KT_KERNEL_CORE_PLUGIN_PATH
add()
{
    cp "$KT_TEST_BUILD/tests/plugins/kt_$1.so" "$dir/plugins/"
    chmod 755 "$dir/plugins/kt_$1.so"
    printf '[plugin.%s]\nmodule = kt_%s.so\n' "$1" "$1" >"$dir/shipped/$1.ini"
}
add crashes
add exits
model=$data/tiny-moe-bf16-l0-l3.gguf

# names PLUGIN WORDS: somewhere in what was said.
names()
{
    cat "$out" "$err" | tr '\n' ' ' >"$dir/both"
    grep -q "$1.*$2" "$dir/both" || fail "it must say: $1 $2"
}
goes_on()
{
    kt "$@"
    [ "$code" -le 1 ] || fail "it must go on, or refuse"
    names crashes 'it crashed with SIGABRT when it was opened'
    names exits 'it ended the process with exit status 7 when it was opened'
}
goes_on backends
goes_on doctor
goes_on config check
goes_on explain --model "$model" -v
goes_on forward "$model" --input "$trace" --layer 0
exits 0

# One that hangs has 10 seconds, of which nothing is computed.
add hangs
goes_on backends
names hangs 'it did not come back within 10 seconds when it was opened'
finish

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What -v tells: files, settings, the machine, plugins, memory and the time of each phase.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
model=$data/tiny-moe-bf16-l0-l3.gguf

tells()
{
    for line; do
        warns "^kt [a-z]*: info: $line"
    done
}
tells_not()
{
    ! grep -q -e "$1" "$err" || fail "the messages must not hold: $1"
}

with_plugin llamafile
mkdir -p "$XDG_CONFIG_HOME/kt-kernel"
printf '[core]\nthreads = 2\n' >"$XDG_CONFIG_HOME/kt-kernel/kt.ini"
printf '[plugin.off]\nenabled = no\n' >"$dir/shipped/off.ini"
printf '[plugin.gone]\nmodule = kt_gone.so\n' >"$dir/shipped/gone.ini"

# ---- every phase of a forward, in its order ----
kt forward "$model" --input "$trace" --layers 3 --set core.spin_us=5 -v
exits 0
tells "time open: [0-9.]* ms, $trace" "time open: [0-9.]* ms, $model" \
    "config: read $dir/shipped/off.ini" "config: absent $dir/etc/kt.ini" \
    "config: read $XDG_CONFIG_HOME/kt-kernel/kt.ini" \
    "setting: core.threads = 2, by $XDG_CONFIG_HOME/kt-kernel/kt.ini:2" 'setting: core.spin_us = 5, by parameter' \
    'cpu: level [a-z]' 'threads: 2 on [0-9]* NUMA node' 'node [0-9]*: threads [0-9]*, memory [0-9.]* [KMGT]iB' \
    'memory: [0-9.]* [KMGT]iB free' 'plugin reference: loaded, level scalar, built in' \
    "plugin off: disabled, section $dir/shipped/off.ini:1: " "plugin gone: failed.*: .*kt_gone.so" \
    'time context: [0-9.]* ms, ' 'time plan: [0-9.]* ms, layer 3' 'layer 3: weights [0-9.]* MiB, buffers [0-9.]* ' \
    'time load: [0-9.]* ms, layer 3, ' 'time forward: [0-9.]* ms, layer 3, 128 tokens' \
    'memory: [0-9.]* [KMGT]iB resident, [0-9.]* [KMGT]iB at most' 'time all: [0-9.]* ms$'
tells_not 'core.queue_depth'
sed -n 's/^kt forward: info: time \([a-z]*\):.*/\1/p' "$err" | tr '\n' ' ' >"$dir/phases"
[ "$(cat "$dir/phases")" = 'open open context plan load forward all ' ] || fail "phases in their order"
[ "$(grep -c 'config: .*kt.ini' "$err")" -eq 2 ] || fail "each file stands once"
if [ -n "${built:-}" ] && [ -f "$built" ]; then
    tells "plugin llamafile: loaded, level [a-z0-9_]*, file $dir/plugins/kt_llamafile.so, section $dir/shipped/llamafile.ini:"
fi

# Data stays alone on standard output, and nothing is told without -v.
cp "$out" "$dir/verbose"
says_not 'info:'
kt forward "$model" --input "$trace" --layers 3
exits 0
tells_not 'info:'
kt -v forward "$model" --input "$trace" --layers 3 --format json
exits 0
tells 'time all: '
says_not 'info:'

# ---- a configuration that cannot be read ----
printf '[core]\nthreads = x\n' >"$dir/bad.ini"
kt backends -v --config "$dir/bad.ini"
exits 1
tells "config: failed $dir/bad.ini"
warns 'error: .*bad.ini:2: '
tells 'time all: '

# ---- other verbs ----
kt explain "$model" -v
exits 0
tells 'time context: ' 'time plan: [0-9.]* ms, layer 0' 'time plan: [0-9.]* ms, layer 3'
kt inspect -v "$model"
exits 0
tells 'time open: ' 'memory: ' 'time all: '
kt convert "$model" --output "$dir/store" --backend BF16 -v --layers 0
tells 'time plan: [0-9.]* ms, layer 0'
[ "$code" -ne 0 ] || tells 'time store: [0-9.]* ms, layer 0'
for words in 'version --help' '--version' 'help forward'; do
    # shellcheck disable=SC2086 # words of a command line
    kt -v $words
    exits 0
    is_silent
done
finish

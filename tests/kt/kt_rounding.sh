#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Weights are rounded again only by a backend that was named, and then kt says so.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
with_plugin amx_int8 || skip "the backend amx_int8 was not built"
with_plugin amx_int4 || skip "the backend amx_int4 was not built"
model=$data/tiny-moe-q4_k_m.gguf
bf16=$data/tiny-moe-bf16-l0-l3.gguf

# ---- only such backends are left ----
kt explain "$model" -l 1
exits 1
says 'amx_int8 (int8, a scale for each row), amx_int4 (4 bits, a scale for each 32 columns)'
says '^ *1 *amx_int8  .*refused .*would round the weights again'
kt forward "$model" --input "$trace"
exits 1
warns 'backend = amx_int8 in \[core\]'
kt explain "$model" -l 1 --format json
exits 1

# ---- named ----
kt explain "$model" -l 1 --backend amx_int8
exits 0
says 'ROUNDED TO'
says 'int8, a scale for each row'
kt forward "$bf16" --input "$trace" --backend AMXINT4 --set plugin.amx_int4.group_size=128
exits 0
says '4 bits, a scale for each 128 columns'
kt --set core.backend=amx_int8 forward "$bf16" --input "$trace" --format csv
exits 0
says '"int8, a scale for each row"'

# ---- one that keeps them is there ----
if with_plugin llamafile; then
    kt explain "$model" -l 1
    exits 0
    says ' llamafile '
    says_not 'ROUNDED TO'
    # A wish that no layer can meet is told once, with -v of each layer.
    if with_plugin bf16; then
        for verb in explain "forward --input $trace"; do
            # shellcheck disable=SC2086 # words of a command line
            kt $verb "$model" --backend bf16
            exits 0
            [ "$(grep -c 'layer .*not supported by the preferred backend bf16' "$err")" -eq 1 ] || fail "it is told once"
            [ "$(grep -c 'linear .*not supported by the preferred backend bf16' "$err")" -le 3 ] || fail "once for each type"
            warns 'note: [0-9]* more warnings say the same'
        done
        kt explain "$model" --backend bf16 -v
        [ "$(grep -c 'layer [0-3]: not supported by the preferred backend' "$err")" -eq 4 ] || fail "it is told of each layer"
    fi
    # It cannot be used: nothing else takes its place.
    kt --set plugin.llamafile.level=amx_of_tomorrow explain "$model" -l 1
    exits 1
fi

# ---- what was rounded when it was stored ----
kt convert "$bf16" --output "$dir/store" --backend amx_int8 --layers 3
exits 0
kt explain "$dir/store"
exits 0
says 'int8, a scale for each row'
finish

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Weights that do not fit into memory in the form made for speed get a smaller one; i-quants have two.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
with_plugin llamafile || finish

# ggml's numbers of iq2_xxs, iq2_xs, iq3_xxs, iq1_s, iq3_s, iq2_s, iq1_m and tq1_0
for type in 16 17 18 19 21 22 29 34; do
    model=$dir/type-$type.gguf
    "$KT_TEST_BUILD/tests/kt/retype" "$data/tiny-moe-q4_k_m.gguf" "$model" $type || fail "retype $type"

    # weights in memory: SETTING...
    weighs()
    {
        kt explain "$model" --format csv "$@"
        exits 0
        [ "$(field 0 backend)" = llamafile ] || fail "llamafile takes type $type"
        weights=$(field 0 weight_bytes)
        source=$(field 0 source_bytes)
    }
    weighs --set plugin.llamafile.repack=roomy --set core.memory_mib=1
    roomy=$weights
    compares "$((roomy * 100))" '>=' "$((source * 120))"
    weighs --set plugin.llamafile.repack=yes
    compares "$weights" = "$roomy"
    weighs --set plugin.llamafile.repack=compact
    compact=$weights
    # 1.12 times, and half a line of 64 bytes for 16 rows, as there is one block of 256 columns in a row
    compares "$((compact * 100))" '<=' "$((source * 112 + 8 * 3 * 256 / 16 * 32 * 100))"
    [ -z "$(field 0 compact)" ] || fail "what is asked for needs no reason"

    # auto: 4 layers, which take more than 1 MiB in any form
    weighs
    compares "$weights" = "$roomy"
    [ -z "$(field 0 compact)" ] || fail "there is memory enough"
    weighs --set core.memory_mib=1
    compares "$weights" = "$compact"
    says 'the fast form of all layers would take [0-9]* MiB, 1 MiB are allowed (core.memory_mib)'
    weighs --set core.memory_mib=64
    compares "$weights" = "$roomy"
done
kt explain "$model" --set core.memory_mib=1
exits 0
says 'fast form of all layers'

# What has one form has no reason for another.
kt explain "$data/tiny-moe-q4_k_m.gguf" --format csv --set core.memory_mib=1
exits 0
says_not 'fast form'
kt forward --model "$data/tiny-moe-q4_k_m.gguf" --input "$trace" --check --set core.memory_mib=1 --set plugin.llamafile.repack=compact
exits 0

kt explain "$model" --set plugin.llamafile.repack=small
warns 'auto|roomy|compact|no'
finish

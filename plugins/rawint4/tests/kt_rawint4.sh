#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The backend rawint4 in use: chosen for trained weights of 4 bits, its error on every level, the same bits
# from any threads and from a store.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
with_plugin rawint4 || skip "the backend rawint4 was not built"
find_levels rawint4 "$data/int4-g32-l0"
runs_trained rawint4 int4-g32 int4
runs_trained rawint4 gptq-g128 int4
runs_trained rawint4 mxfp4 f4_e2m1

kt doctor
says '^self-test rawint4  *ok  *int4 f4_e2m1 at '

# What it does not take it names.
for model in "$data/tiny-moe-bf16-l0-l3.gguf" "$data/mxfp8-l0"; do
    kt forward --model "$model" --input "$trace" --backend rawint4 --set core.strict=yes
    exits 1
    warns 'not supported by .*rawint4: the gate projection is .* which is not supported; supported are int4'
    kt explain --model "$model" --format csv
    exits 0
    [ "$(field 0 backend)" = reference ] || fail "the reference is all that is left"
done
kt convert --input "$data/mxfp8-l0" --output "$dir/none" --method rawint4
exits 1
warns 'not supported by .*rawint4: the gate projection is f8_e4m3 with scales in f8_e8m0, which is not supported'
finish

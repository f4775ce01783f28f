#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The backend avx512_fp8 in use: chosen for trained FP8 weights, its error on every level, the same bits
# from any threads and from a store.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
with_plugin avx512_fp8 || skip "the backend avx512_fp8 was not built"
find_levels avx512_fp8 "$data/fp8-block-l0"
runs_trained avx512_fp8 fp8-block f8_e4m3
runs_trained avx512_fp8 fp8-channel f8_e4m3
runs_trained avx512_fp8 mxfp8 f8_e4m3

# What it does not take it names.
for model in "$data/tiny-moe-bf16-l0-l3.gguf" "$data/mxfp4-l0"; do
    kt forward --model "$model" --input "$trace" --backend avx512_fp8 --set core.strict=yes
    exits 1
    warns 'not supported by .*avx512_fp8: the gate projection is .* which is not supported; supported are f8_e4m3'
    kt explain --model "$model" --format csv
    exits 0
    [ "$(field 0 backend)" = reference ] || fail "the reference is all that is left"
done
kt convert --input "$data/mxfp4-l0" --output "$dir/none" --method avx512_fp8
exits 1
warns 'not supported by .*avx512_fp8: the gate projection is f4_e2m1 with scales in f8_e8m0, which is not supported'

# Beside a backend that takes it too, by quantizing it again, it is chosen.
if with_plugin amx_int8; then
    kt forward --model "$data/fp8-block-l0" --input "$trace"
    exits 0
    says ' avx512_fp8 '
fi
finish

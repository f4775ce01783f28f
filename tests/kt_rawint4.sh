#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The backend rawint4 in use: chosen for trained weights of 4 bits, its error on every level, the same bits
# from any threads and from a store.
. "${KT_TEST_SOURCE:?}/tests/kt_lib.sh"
with_plugin rawint4 || skip "the backend rawint4 was not built"
store=$dir/store

# The levels that this CPU has, in $levels.
model=$data/int4-g32-l0
levels=
for level in amx avx512_bf16 avx512 avx2 scalar; do
    [ $level = scalar ] && [ -n "${EMULATOR:-}" ] && continue # minutes, and checkkernel runs it
    kt explain --model "$model" --set plugin.rawint4.level=$level --format csv
    [ "$(field 0 level)" = $level ] && levels="$levels $level"
done
[ -n "$levels" ] || fail "no level can run"

# $1 folder, $2 type, $3 and $4 methods of kt convert
runs()
{
    model=$data/$1-l0
    kt explain --model "$model" --format csv
    exits 0
    [ "$(field 0 backend)" = rawint4 ] || fail "rawint4 must be chosen"
    # Against the reference, and against what these very weights gave in float64: 2^-9 for rounding
    # activations, and weights of many rows; y in bfloat16 adds another 2^-9.
    for level in $levels; do
        for y in f32 bf16; do
            kt forward --model "$model" --input "$trace" --tolerance 4e-3 --set plugin.rawint4.level=$level \
                --set plugin.rawint4.y=$y --expected "$data/$1-l0-output.safetensors" \
                --recorded-tolerance 4e-3 --format csv
            exits 0
            is_silent
            [ "$(field 0 backend),$(field 0 level)" = "rawint4,$level" ] || fail "it runs on $level"
            [ "$(field 0 types)" = "$2" ] || fail "its weights are $2"
        done
    done
    kt forward --model "$model" --input "$trace" --output "$dir/a.safetensors"
    exits 0
    kt forward --model "$model" --input "$trace" --threads 1 --io read --output "$dir/b.safetensors"
    exits 0
    cmp "$dir/a.safetensors" "$dir/b.safetensors" >/dev/null || fail "one thread gives another output"

    # A store has the same weights, on one NUMA node or cut for two.
    for method in $3 rawint4; do
        rm -rf "$store"
        kt convert --input "$model" --output "$store" --method $method
        exits 0
        is_silent
        kt verify "$store"
        exits 0
        says '^ *0  rawint4 .*rawint4-[0-9]* .* ok$'
        kt forward --model "$store" --input "$trace" --output "$dir/b.safetensors"
        exits 0
        cmp "$dir/a.safetensors" "$dir/b.safetensors" >/dev/null || fail "the store gives another output"
    done
    HWLOC_SYNTHETIC='numa:2 core:1 pu:1'
    export HWLOC_SYNTHETIC
    for model in "$store" "$model"; do
        kt forward --model "$model" --input "$trace" --tolerance 4e-3 \
            --expected "$data/$1-l0-output.safetensors" --recorded-tolerance 4e-3
        exits 0
        says '^NUMA nodes: *2'
    done
    unset HWLOC_SYNTHETIC
}
runs int4-g32 int4 RAWINT4
runs gptq-g128 int4 GPTQ_INT4
runs mxfp4 f4_e2m1 MXFP4

# What it does not take it names.
for model in "$data/tiny-moe-bf16-l0-l3.gguf" "$data/mxfp8-l0"; do
    kt forward --model "$model" --input "$trace" --backend rawint4 --set core.strict=yes
    exits 1
    warns 'rawint4: the gate projection is .* which this plugin does not take: it takes int4'
    kt explain --model "$model" --format csv
    exits 0
    [ "$(field 0 backend)" = reference ] || fail "the reference is all that is left"
done
kt convert --input "$data/mxfp8-l0" --output "$dir/none" --method RAWINT4
exits 1
warns 'rawint4: the gate projection is f8_e4m3 with scales in f8_e8m0, which this plugin does not take'
finish

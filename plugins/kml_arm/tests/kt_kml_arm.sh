#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The backend kml_arm in use: the same bits on every level, with any threads, from a store, and as amx_int8.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
with_plugin kml_arm || skip "the backend kml_arm was not built"
model=$data/tiny-moe-bf16-l0-l3.gguf
store=$dir/store
runs="--model $model --input $trace --backend kml_arm"
# shellcheck disable=SC2086 # words of several arguments
{
kt forward $runs --tolerance 5e-2 --check --output "$dir/a.safetensors"
exits 0
says ' kml_arm '
kt forward $runs --threads 1 --set plugin.kml_arm.level=neon --output "$dir/b.safetensors"
exits 0
cmp "$dir/a.safetensors" "$dir/b.safetensors" >/dev/null || fail "level neon gives another output"
}
# The limit of each level is known, and so are its errors.
kt bench --backend kml_arm --levels --shape 256,256,4,2 --tokens 1 --threads 2 --cycle 2 --repeats 3 --runs 1
exits 0
says '^kml_arm  *scalar '
! grep 'is not known' "$err" || fail "a level without a peak"
kt convert --input "$model" --output "$store" --method kml_arm
exits 0
kt verify "$store"
exits 0
says '^ *3  kml_arm  amx_int8-1 .* ok$'
kt forward --model "$store" --input "$trace" --output "$dir/b.safetensors"
exits 0
says ' kml_arm '
cmp "$dir/a.safetensors" "$dir/b.safetensors" >/dev/null || fail "the store gives another output"
HWLOC_SYNTHETIC='numa:2 core:1 pu:1'
export HWLOC_SYNTHETIC
kt forward --model "$store" --input "$trace" --check --tolerance 5e-2
exits 0
says '^NUMA nodes: *2'
unset HWLOC_SYNTHETIC

# Weights of 4 bits: the same, and a store says what it has.
int4="--set plugin.kml_arm.weights=int4"
# shellcheck disable=SC2086
{
kt forward $runs $int4 --tolerance 2e-1 --check --output "$dir/c.safetensors"
exits 0
cmp "$dir/a.safetensors" "$dir/c.safetensors" >/dev/null && fail "int4 gives what int8 gives"
for level in dotprod neon scalar; do
    kt backends kml_arm --set plugin.kml_arm.level=$level --format csv
    [ "$(field kml_arm state)" = loaded ] || continue
    kt forward $runs $int4 --threads 1 --set plugin.kml_arm.level=$level --output "$dir/d.safetensors"
    exits 0
    cmp "$dir/c.safetensors" "$dir/d.safetensors" >/dev/null || fail "int4: level $level gives another output"
done
kt convert --input "$model" --output "$dir/store4" --method kml_arm $int4
exits 0
kt verify "$dir/store4"
exits 0
says '^ *3  kml_arm  amx_int4-g32-3 .* ok$'
for set in "" "$int4" "$int4 --set plugin.kml_arm.group_size=64"; do
    kt forward --model "$dir/store4" --input "$trace" $set --output "$dir/d.safetensors"
    exits 0
    says ' kml_arm '
    cmp "$dir/c.safetensors" "$dir/d.safetensors" >/dev/null || fail "the store of int4 gives another output"
done
}

# Huawei's KML, a stub of it, where it is asked for and fit; kt backends says which, and why not.
kml=$dir/libkml
for variant in good long rounds bare; do
    cp "$KT_TEST_BUILD/plugins/kml_arm/tests/kml_$variant.so" "$kml-$variant.so"
    chmod 755 "$kml-$variant.so"
done
kt backends kml_arm --format csv
own=$(field kml_arm level)
[ "$own" != kml ] || fail "KML is asked for only"
# $1 value of library, $2 level, $3 what is said
takes()
{
    kt backends kml_arm --set "plugin.kml_arm.library=$1" --format csv
    exits 0
    [ "$(field kml_arm level)" = "$2" ] || fail "library = $1: its level is $2"
    says "^kml_arm,loaded,.*$3"
}
kt backends kml_arm --set plugin.kml_arm.level=dotprod --format csv
if [ "$(field kml_arm state)" != loaded ]; then
    takes "$kml-good.so" "$own" ""
else
    takes "$kml-good.so" kml ""
    takes "$kml-long.so" kml ""
    takes none "$own" "not kml: library = none"
    takes "$kml-rounds.so" "$own" "libkml-rounds.so failed its self-test"
    takes "$kml-bare.so" "$own" "libkml-bare.so has no cblas_gemm_s8s8s32"
    takes /nowhere/libkblas.so "$own" "/nowhere/libkblas.so does not exist"
    takes auto "$own" "libkblas.so, /usr/local/kml/"
    # shellcheck disable=SC2086
    {
    for from in "$model" "$store"; do
        kt forward --model "$from" --input "$trace" --backend kml_arm --set "plugin.kml_arm.library=$kml-good.so" \
            --threads 2 --output "$dir/b.safetensors" --format csv
        exits 0
        [ "$(field 0 level)" = kml ] || fail "it runs at level kml"
        cmp "$dir/a.safetensors" "$dir/b.safetensors" >/dev/null || fail "KML gives another output"
    done
    kt forward $runs $int4 --set "plugin.kml_arm.library=$kml-good.so" --output "$dir/d.safetensors"
    exits 0
    cmp "$dir/c.safetensors" "$dir/d.safetensors" >/dev/null || fail "int4 beside KML gives another output"
    }
fi

# amx_int4 and amx_int8 hold the same bytes, and come after it.
if with_plugin amx_int4; then
    kt convert --input "$model" --output "$dir/amx4" --method amx_int4
    exits 0
    for file in "$dir/store4"/layer-*; do
        tail -c 500000 "$file" >"$dir/1"
        tail -c 500000 "$dir/amx4/${file##*/}" >"$dir/2"
        cmp "$dir/1" "$dir/2" || fail "a store of amx_int4 has other bytes"
    done
fi
if with_plugin amx_int8; then
    kt explain --model "$store" --format csv
    exits 0
    [ "$(field 0 backend)" = kml_arm ] || fail "kml_arm goes first"
fi
finish

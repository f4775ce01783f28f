#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The backend kml_arm in use: the same bits on every level, with any threads, from a store, and as amx_int8.
. "${KT_TEST_SOURCE:?}/tests/kt_lib.sh"
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
kt convert --input "$model" --output "$store" --method MOE_INT8
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

# amx_int8 holds the same bytes, and comes after it.
if with_plugin amx_int8; then
    kt explain --model "$store" --format csv
    exits 0
    [ "$(field 0 backend)" = kml_arm ] || fail "kml_arm goes first"
fi
finish

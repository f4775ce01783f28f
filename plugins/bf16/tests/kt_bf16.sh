#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The backend bf16 in use: chosen for BF16, its error, the same bits from any threads and from a store.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
with_plugin bf16 || skip "the backend bf16 was not built"
model=$data/tiny-moe-bf16-l0-l3.gguf
store=$dir/store

kt forward --model "$model" --input "$trace" --check --tolerance 4e-3 --output "$dir/a.safetensors"
exits 0
says ' bf16 '
kt forward --model "$model" --input "$trace" --threads 1 --output "$dir/b.safetensors"
exits 0
cmp "$dir/a.safetensors" "$dir/b.safetensors" >/dev/null || fail "one thread gives another output"

# A store has the same weights, on one NUMA node or cut for two.
kt convert --input "$model" --output "$store" --method bf16
exits 0
kt verify "$store"
exits 0
says '^ *3  bf16 .*bf16-1 .* ok$'
kt forward --model "$store" --input "$trace" --output "$dir/b.safetensors"
exits 0
cmp "$dir/a.safetensors" "$dir/b.safetensors" >/dev/null || fail "the store gives another output"
HWLOC_SYNTHETIC='numa:2 core:1 pu:1'
export HWLOC_SYNTHETIC
kt forward --model "$store" --input "$trace" --check --tolerance 4e-3
exits 0
says '^NUMA nodes: *2'
unset HWLOC_SYNTHETIC

# Beside llamafile it takes what it holds exactly, and leaves GGUF's blocks alone.
if with_plugin llamafile; then
    kt forward --model "$model" --input "$trace"
    exits 0
    says ' bf16 '
    kt forward --model "$data/tiny-moe-q8_0-l0-l3.gguf" --input "$trace"
    exits 0
    says ' llamafile '
    kt bench --backend bf16 --source-type f16 --shape 64,64,2,1 --tokens 1 --min-time 0.01 --runs 1
    exits 2
    warns 'wider = round'
fi
finish

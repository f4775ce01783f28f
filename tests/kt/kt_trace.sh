#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Traces: what kt forward and kt bench record and replay, batches and all, and traces that cannot be.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
q4=$data/tiny-moe-q4_k_m.gguf
own=$dir/own.safetensors
small="--shape 8,8,4,2 --threads 2 --cycle 2 --repeats 3 --runs 2 --backend reference"

# tensor FILE NAME: its bytes.
tensor()
{
    kt inspect "$1" --tensors --format csv
    exits 0
    dd if="$1" bs=1 skip="$(field "$2" offset)" count="$(field "$2" bytes)" 2>/dev/null
}

# ---- what went in comes out ----
kt forward --model "$q4" --input "$trace" --backend reference --record "$dir/again" \
    --output "$dir/first.out" --layer 1,3
exits 0
is_silent
for name in hidden_states topk_ids topk_weights; do
    tensor "$trace" layers.3.$name >"$dir/a"
    tensor "$dir/again" layers.3.$name >"$dir/b"
    cmp -s "$dir/a" "$dir/b" || fail "layers.3.$name must be what was read"
done
[ "$(tensor "$dir/again" layers.1.batch_tokens | od -An -t d8 | tr -d ' ')" = 128 ] || fail "one batch"
kt forward --model "$q4" --input "$dir/again" --backend reference --output "$dir/second.out"
exits 0
warns 'holds 2 of the model.s 4 layers'
cmp -s "$dir/first.out" "$dir/second.out" || fail "the same input must give the same output"

# ---- three batches of one layer: 1, 2 and 1 tokens of two experts, one of them none ----
i64s()
{
    i64 0 1 2 3 1
    printf '\377\377\377\377\377\377\377\377' # -1
    i64 3 0 1 2 1
}
floats()
{
    for i in 1 2 3 4 5 6 7 8; do printf '\0\0\0\77'; done # 0.5
}
# write_trace [MORE]: with hidden states of 8 numbers in F16, the first ones 1.
header='"layers.5.topk_ids":{"dtype":"I64","shape":[4,2],"data_offsets":[0,64]}'
header="$header,"'"layers.5.batch_tokens":{"dtype":"I64","shape":[3],"data_offsets":[64,88]}'
header="$header,"'"layers.5.topk_weights":{"dtype":"F32","shape":[4,2],"data_offsets":[88,120]}'
hidden='"layers.5.hidden_states":{"dtype":"F16","shape":[4,8],"data_offsets":[120,184]}'
states()
{
    for i in 1 2 3 4; do printf '\0\74\0\300\0\64\0\0\1\0\0\0\0\70\0\74'; done
}
{ i64s && floats && states; } | write_tensors "$own" "{$header,$hidden}"
# shellcheck disable=SC2086
kt bench $small --trace "$own" --format csv
exits 0
[ "$(sed 1d "$out" | cut -d, -f7,8 | tr '\n' ' ')" = '2,1 2,2 ' ] || fail "sizes of 1 and 2 tokens, top_k 2"
compares "$(sed -n 2p "$out" | cut -d, -f22)" '<=' 1e-6
compares "$(sed -n 3p "$out" | cut -d, -f22)" '<=' 1e-6
# The experts that are really asked for: 2 of 3 * 8 * 8 weights of 2 bytes for one token, 3 for two of them.
[ "$(sed 1d "$out" | cut -d, -f15 | tr '\n' ' ')" = '768 1152 ' ] || fail "weights of the experts in use"
# shellcheck disable=SC2086
kt bench $small --trace "$own" --tokens 2 --format csv --record "$dir/replayed"
exits 0
[ "$(wc -l <"$out")" -eq 2 ] || fail "one size was asked for"
kt inspect "$dir/replayed" --tensors --format csv
[ "$(field layers.0.hidden_states type)" = f16 ] || fail "hidden states as they were"
kt stats "$dir/replayed"
exits 1
# Routing alone: kt bench draws hidden states, kt forward needs them.
{ i64s && floats; } | write_tensors "$own" "{$header}"
# shellcheck disable=SC2086
kt bench $small --trace "$own" --format json
exits 0
kt forward --model "$q4" --input "$own" --layer 3
exits 1
warns 'layers.3.hidden_states'
sed 's/layers\.5/layers.2/g' "$own" >"$dir/two"
kt forward --model "$q4" --input "$dir/two"
exits 1
warns 'holds no tensor layers.N.hidden_states for a layer of the model; kt bench --trace replays'

# ---- batches are run one by one ----
# Each line of layer 0 of the trace alone gives the same bits as in batches of 100 and 28.
kt inspect "$trace" --tensors --format csv
{
    tensor "$trace" layers.0.topk_ids
    i64 100 28
    tensor "$trace" layers.0.topk_weights
    tensor "$trace" layers.0.hidden_states
} | write_tensors "$own" "$(printf '%s' '{"layers.0.topk_ids":{"dtype":"I64","shape":[128,2],' \
    '"data_offsets":[0,2048]},' \
    '"layers.0.batch_tokens":{"dtype":"I64","shape":[2],"data_offsets":[2048,2064]},' \
    '"layers.0.topk_weights":{"dtype":"F32","shape":[128,2],"data_offsets":[2064,3088]},' \
    '"layers.0.hidden_states":{"dtype":"BF16","shape":[128,256],"data_offsets":[3088,68624]}}')"
kt forward --model "$q4" --input "$own" --backend reference --record "$dir/again" --output "$dir/second.out" \
    --stats "$dir/use"
exits 0
kt forward --model "$q4" --input "$trace" --backend reference --layer 0 --output "$dir/first.out"
cmp -s "$dir/first.out" "$dir/second.out" || fail "batches must not change a token"
[ "$(tensor "$dir/again" layers.0.batch_tokens | od -An -t d8 | tr -s ' ')" = ' 100 28' ] || fail "two"
kt stats "$dir/use" --format csv
[ "$(field 0 n_batches),$(field 0 n_tokens)" = 2,128 ] || fail "two batches were counted"

# ---- a buffer that is too small ----
kt bench --shape 4096,64,4,2 --threads 2 --cycle 2 --repeats 300 --runs 1 --backend reference --tokens 1 \
    --record "$dir/part" --record-size 1
exits 0
warns 'note: [0-9]* of [0-9]* batches did not fit into 1.0 MiB'

# ---- traces that cannot be ----
refused()
{
    exits "$1"
    [ ! -s "$out" ] || fail "there must be no data"
    warns "$2"
}
# edit FROM TO: the trace with another header of the same length.
{ i64s && floats && states; } | write_tensors "$own" "{$header,$hidden}"
edit()
{
    LC_ALL=C sed "s/$1/$2/" "$own" >"$dir/bad"
    cmp -s "$own" "$dir/bad" && fail "nothing was edited"
    # shellcheck disable=SC2086
    kt bench $small --trace "$dir/bad"
}
edit 'topk_ids":{"dtype":"I64"' 'topk_ids":{"dtype":"U64"'
refused 1 'tensor layers.5.topk_ids is u64, but must be i64'
edit 'layers.5.topk_weights' 'layers.5.topk_weightz'
refused 1 'layers.5.topk_weights'
edit 'layers.5.topk_ids' 'layers.5.topk_idz'
refused 1 'holds no tensor layers.N.topk_ids: it is not a trace'
edit 'layers.5.topk_ids' 'layers.05topk_ids'
refused 1 'it is not a trace'
edit '"I64","shape":\[4,2\]' '"I64","shape":[2,4]'
refused 1 'topk_ids has 2 rows, but hidden_states has 4 tokens'
edit '"F32","shape":\[4,2\]' '"F32","shape":[2,4]'
refused 1 'topk_weights has 2 rows'
edit 'batch_tokens":{"dtype":"I64"' 'batch_tokens":{"dtype":"F64"'
refused 1 'batch_tokens has 3 numbers in 1 dimensions of f64'
edit '"F16","shape":\[4,8\]' '"I16","shape":[4,8]'
refused 1 'hidden_states is i16, but must be bf16, f16 or f32'
edit '"F16","shape":\[4,8\]' '"F16","shape":[ 32]'
refused 1 'hidden_states has 1 dimensions or an empty one'
# other HEADER SIZE: a trace of its own, of zeros.
other()
{
    head -c "$2" /dev/zero | write_tensors "$dir/bad" "$1"
    # shellcheck disable=SC2086
    kt bench $small --trace "$dir/bad"
}
layer='"layers.0.topk_ids":{"dtype":"I64","shape":[1,2],"data_offsets":[0,16]}'
other "{$layer,"'"layers.0.topk_weights":{"dtype":"F32","shape":[1,1],"data_offsets":[16,20]}}' 20
refused 1 'layers.0.topk_weights has 1 columns, but must have 2'
layer="$layer,"'"layers.0.topk_weights":{"dtype":"F32","shape":[1,2],"data_offsets":[16,24]}'
layer="$layer,"'"layers.0.hidden_states":{"dtype":"F32","shape":[1,8],"data_offsets":[24,56]}'
layer="$layer,"'"layers.1.topk_ids":{"dtype":"I64","shape":[1,2],"data_offsets":[56,72]}'
other "{$layer,"'"layers.1.topk_weights":{"dtype":"F32","shape":[1,2],"data_offsets":[72,80]}}' 80
refused 1 'hidden states of layer 1 have another size than those of layer 0, or are missing'
layer='"layers.0.topk_ids":{"dtype":"I64","shape":[65537,1],"data_offsets":[0,524296]}'
other "{$layer,"'"layers.0.topk_weights":{"dtype":"F32","shape":[65537,1],"data_offsets":[524296,786444]}}' 786444
refused 2 'holds a batch of 65537 tokens; a call has 1 to 65536'
# poke OFFSET BYTES: other bytes in the data.
poke()
{
    cp "$own" "$dir/bad"
    kt inspect "$own" --tensors --format csv
    # shellcheck disable=SC2059
    printf "$2" | dd of="$dir/bad" bs=1 seek=$(($(field layers.5.topk_ids offset) + $1)) conv=notrunc \
        2>/dev/null
    # shellcheck disable=SC2086
    kt bench $small --trace "$dir/bad"
}
poke 2 '\1'
refused 1 'topk_ids: token 0, slot 0 asks for expert 65536; a layer has at most 65536'
poke 7 '\177'
refused 1 'asks for expert 9151314442816847872'
poke 88 '\0\0\300\177'
refused 1 'topk_weights: token 0, slot 0 is nan; weights must be finite'
poke 116 '\0\0\200\377'
refused 1 'topk_weights: token 3, slot 1 is -inf'
poke 64 '\0'
refused 1 'batch_tokens: batch 0 has 0 tokens; 4 of 4 are left'
poke 72 '\4'
refused 1 'batch_tokens: batch 1 has 4 tokens; 3 of 4 are left'
poke 71 '\377'
refused 1 'batch_tokens: batch 0 has -72057594037927935 tokens'
poke 72 '\1'
refused 1 'batch_tokens: the batches have 3 tokens, but the layer has 4'
head -c 300 "$own" >"$dir/bad"
# shellcheck disable=SC2086
kt bench $small --trace "$dir/bad"
refused 1 'bad'
kt bench --backend reference --trace "$own"
refused 2 'was recorded with hidden size 8, the shape has 2048'
kt bench --backend reference --shape 8,8,1,1 --trace "$own"
refused 2 'asks for 2 experts a token, the shape has 1'
kt bench --backend reference --shape 8,8,2,2 --cycle 2 --trace "$own" --tokens 2
refused 1 'asks for 3 experts, the layer has 2'
# shellcheck disable=SC2086
kt bench $small --trace "$own" --tokens 3
refused 2 'the trace holds no batch of 3 tokens'
# shellcheck disable=SC2086
kt bench $small --trace "$dir/nothing"
refused 1 'nothing'
# shellcheck disable=SC2086
kt bench $small --record "$dir/no/such/folder"
exits 1
warns 'record .*no/such/folder: '
kt bench --backend reference --levels --record "$dir/a"
refused 2 'goes with none of'
finish

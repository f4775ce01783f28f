#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt stats: what kt forward counted, sums of files, and files that cannot be.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
q4=$data/tiny-moe-q4_k_m.gguf
use=$dir/use.safetensors

# ---- what a run has counted is what the trace asks for ----
kt forward --model "$q4" --input "$trace" --backend reference --stats "$use" --check
exits 0
kt inspect "$trace" --tensors --format csv
ids=$(field layers.2.topk_ids offset)
dd if="$trace" bs=1 skip="$ids" count=$((128 * 2 * 8)) 2>/dev/null | od -An -v -t d8 -w8 >"$dir/ids"
kt stats "$use" --experts --format csv
exits 0
is_silent
for expert in 0 1 2 3 4 5 6 7; do
    wanted=$(grep -c "^ *$expert\$" "$dir/ids")
    tr -d '\r' <"$out" | grep -q "^2,$expert,$wanted," || fail "layer 2 asks $wanted times for expert $expert"
done
kt stats "$use" --format csv
exits 0
for layer in 0 1 2 3; do
    [ "$(field $layer n_batches),$(field $layer n_tokens)" = 1,128 ] || fail "one batch of 128 tokens"
    [ "$(field $layer count),$(field $layer computed_share)" = 256,1 ] || fail "two experts a token, all here"
    compares "$(field $layer mean_weight)" '>=' 0.4999 # of two whose weights add up to 1
    compares "$(field $layer mean_weight)" '<=' 0.5001
done

# ---- sums ----
kt stats "$use" "$use" --output "$dir/twice.safetensors" --format csv
exits 0
cp "$out" "$dir/twice.csv"
[ "$(field 3 count)" = 512 ] || fail "twice as much"
kt stats "$dir/twice.safetensors" --format csv
cmp -s "$out" "$dir/twice.csv" || fail "the file must hold the sum"
# To a file that is one of those read.
kt stats "$dir/twice.safetensors" "$use" --output "$use"
exits 0
kt stats "$use" --format csv
[ "$(field 0 count)" = 768 ] || fail "three times as much"

# ---- known counts, from another program ----
# write_counts DTYPE SHAPE SIZE [MORE]: the data comes from standard input.
write_counts()
{
    write_tensors "$dir/own" \
        "{\"counts\":{\"dtype\":\"$1\",\"shape\":[$2],\"data_offsets\":[0,$3]}${4:-}}"
}
i64 1 2 3 4 0 0 0 0 | write_counts I64 2,4 64
kt stats "$dir/own" --format csv
exits 0
[ "$(sed -n 2p "$out" | cut -d, -f1-11)" = '0,0,0,4,4,10,0,3,0.4,0.4,0.25' ] || fail "row of layer 0"
compares "$(field 0 entropy)" '>=' 0.923219
compares "$(field 0 entropy)" '<=' 0.923221
[ "$(tr -d '\r' <"$out" | sed -n 3p)" = '1,0,0,4,0,0,,,,,,,' ] || fail "row of a layer that was never asked"
kt stats "$dir/own"
says '^ *1  *0  *0  *4  *0  *0  *-  *-'

# ---- files that cannot be ----
refused()
{
    exits 1
    [ ! -s "$out" ] || fail "there must be no data"
    warns "^kt stats: error: .*$1"
}
kt stats "$dir/own" "$use"
refused 'use.safetensors: statistics of 8 experts a layer cannot be added to those of 4'
i64 1 2 3 4 | write_counts U64 1,4 32
kt stats "$dir/own"
refused 'own: tensor "counts" is u64, but must be i64'
i64 1 2 3 4 | write_counts I64 4 32
kt stats "$dir/own"
refused '"counts" has 1 dimensions, but must have 2'
: | write_counts I64 0,4 0
kt stats "$dir/own"
refused '"counts" is for 0 layers of 4 experts'
printf '\377\377\377\377\377\377\377\377' | write_counts I64 1,1 8
kt stats "$dir/own"
refused '"counts", element 0 is -1; it must not be negative'
printf '\377\377\377\377\377\377\377\177\0\0\0\0\0\0\0\0' | write_counts I64 1,2 16
kt stats "$dir/own"
exits 0
kt stats "$dir/own" "$dir/own"
refused 'own: statistics: the counts of all layers add up to more than 9223372036854775807'
{ i64 1 2 && printf '\0\0\0\0\0\0\370\177\0\0\0\0\0\0\0\0'; } | write_counts I64 1,2 16 \
    ',"weights":{"dtype":"F64","shape":[1,2],"data_offsets":[16,32]}'
kt stats "$dir/own"
refused '"weights", element 0 is nan; it must be finite'
i64 1 2 | write_counts I64 1,3 24
kt stats "$dir/own"
refused 'truncated or damaged'
head -c 20 "$use" >"$dir/cut"
kt stats "$dir/cut"
refused 'cut'
kt stats "$trace"
refused 'holds no tensor "counts": it is not a file of statistics'
kt stats "$q4"
refused 'not a file of statistics'
kt stats "$dir/nothing"
refused 'nothing'
kt stats "$use" "$dir/nothing"
refused 'nothing'
kt stats
exits 2
warns 'FILE is missing'
kt stats "$use" --output "$dir/no/such/folder"
exits 1
warns 'output .*no/such/folder: '
kt forward --model "$q4" --input "$trace" --backend reference --layer 0 --stats "$dir/no/such/folder"
exits 1
warns 'statistics .*no/such/folder: '
cp "$trace" "$dir/input"
kt forward --model "$q4" --input "$dir/input" --backend reference --layer 0 --stats "$dir/input"
exits 1
warns 'input is the input itself; choose another --stats'
finish

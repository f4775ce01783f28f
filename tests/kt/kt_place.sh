#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt place: masks by every placement, the share of the use on the GPU, swaps, and input that does not fit.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
q4=$data/tiny-moe-q4_k_m.gguf
masks=$dir/masks.safetensors

# Layers 3, 5 and 9 of four experts.
i64 3 5 9 9 1 0 0 2 2 2 2 0 0 1 20 | write_tensors "$dir/use" \
    "$(printf '%s' '{"layers":{"dtype":"I64","shape":[3],"data_offsets":[0,24]},' \
        '"counts":{"dtype":"I64","shape":[3,4],"data_offsets":[24,120]}}')"

# The masks of the file as one line a layer.
read_masks()
{
    kt inspect "$1" --tensors --format csv
    dd if="$1" bs=1 skip="$(field masks offset)" 2>/dev/null | od -An -v -t u1 -w4 | tr -d ' ' >"$dir/rows"
    [ "$(field masks type)" = u8 ] || fail "masks must be bytes"
}
is_placed()
{
    exits 0
    is_silent
    read_masks "$masks"
    [ "$(tr '\n' ' ' <"$dir/rows")" = "$1 " ] || fail "the masks must be $1, not $(cat "$dir/rows")"
}
kt place "$dir/use" --gpu-experts 1 --output "$masks"
is_placed '1000 1000 0001'
kt place "$dir/use" --gpu-experts 1 --format csv
exits 0
[ "$(field 3 count_on_gpu),$(field 5 count_on_gpu)" = 9,2 ] || fail "use on the GPU"
[ "$(field 9 n_on_gpu),$(field 9 count)" = 1,21 ] || fail "layer 9"
compares "$(field 3 share_on_gpu)" '>=' 0.9
kt place "$dir/use" --gpu-experts 1 --format json
says '"placement": "frequency"'
says '"share_on_gpu": 0\.7948'
# The first of equal ones.
kt place "$dir/use" --total 5 --output "$masks"
is_placed '1000 1110 0001'
kt place "$dir/use" --ratio 0.5 --placement uniform --output "$masks"
is_placed '1100 1100 1100'
kt place "$dir/use" --total 5 --placement uniform --output "$masks"
is_placed '1100 1100 1000'
kt place "$dir/use" --ratio 0.5 --placement front-loading --output "$masks"
is_placed '1111 1100 0000'
# 0.7 of 10 is 7, though 0.7 is a little less in binary.
kt place --shape 1,10 --ratio 0.7 --format json
says '"n_on_gpu": 7'
kt place --shape 2,10 --ratio 0.99 --format json
says '"n_on_gpu": 19'
kt place --shape 2,10 --total 0 --format csv
[ "$(field 1 n_on_gpu)" = 0 ] || fail "nothing was asked for"
[ -z "$(field 1 count)" ] || fail "nothing is known of the use"

# Random: the same seed the same masks.
kt place "$dir/use" --total 6 --placement random --output "$masks"
exits 0
cp "$masks" "$dir/first"
kt place "$dir/use" --total 6 --placement random --seed 42 --output "$masks"
cmp -s "$masks" "$dir/first" || fail "42 is the seed"
kt place "$dir/use" --total 6 --placement random --seed 43 --output "$masks"
cmp -s "$masks" "$dir/first" && fail "another seed must give other masks"

# ---- a model says which layers there are ----
kt place --model "$q4" --gpu-experts 2 --format csv --output "$masks"
exits 0
[ "$(wc -l <"$out"),$(field 3 n_on_gpu),$(field 3 n_experts)" = 5,2,8 ] || fail "four layers of eight"
i64 1 2 3 4 5 6 7 8 9 | write_tensors "$dir/two" \
    "$(printf '%s' '{"layers":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},' \
        '"counts":{"dtype":"I64","shape":[1,8],"data_offsets":[8,72]}}')"
kt place "$dir/two" --model "$q4" --total 2 --format csv
exits 0
[ "$(field 0 n_on_gpu),$(field 0 count)" = 0,0 ] || fail "layer 0 was not used"
[ "$(field 1 n_on_gpu),$(field 1 count_on_gpu)" = 2,17 ] || fail "layer 1 was used"

# ---- swaps ----
kt place "$dir/use" --total 6 --placement uniform --output "$masks"
kt place "$dir/use" --update "$masks" --max-moves 2 --format csv
exits 0
[ "$(tr -d '\r' <"$out" | tr '\n' ' ')" = \
    'layer,leaves,leaves_count,comes,comes_count 9,0,0,3,20 9,1,0,2,1 ' ] || fail "the swaps"
is_placed '1100 1100 1100' # without --output nothing is written
kt place "$dir/use" --update "$masks" --max-moves 1 --format json --output "$masks"
says '"n_moves": 1'
says '"share_before": 0\.3589'
says '"share_on_gpu": 0\.8717'
is_placed '1100 1100 0101'
kt place "$dir/use" --update "$masks" --max-moves 4294967295 --output "$masks"
says '^moves: *1'
is_placed '1100 1100 0011'
kt place "$dir/use" --update "$masks" --max-moves 0
exits 0
says '^moves: *0'

# ---- what does not fit ----
refused()
{
    exits 1
    [ ! -s "$out" ] || fail "there must be no data"
    warns "^kt place: error: .*$1"
}
# write_masks DTYPE SHAPE SIZE [MORE]
write_masks()
{
    write_tensors "$dir/own" \
        "{\"masks\":{\"dtype\":\"$1\",\"shape\":[$2],\"data_offsets\":[0,$3]}${4:-}}"
}
u8 0 1 1 2 | write_masks U8 1,4 4
kt place "$dir/use" --update "$dir/own" --max-moves 1
refused 'own: tensor "masks": layer 0, expert 3 is 2, but must be 0 or 1'
u8 0 1 1 0 | write_masks U8 1,4 4
kt place "$dir/use" --update "$dir/own" --max-moves 1
refused 'the statistics are of layer 3 too, for which there is no mask'
u8 0 1 1 0 | write_masks U8 4 4
kt place "$dir/use" --update "$dir/own" --max-moves 1
refused '"masks" has 1 dimensions of u8, but must have 2 of u8'
u8 0 1 1 0 | write_masks BOOL 1,4 4
kt place "$dir/use" --update "$dir/own" --max-moves 1
refused '"masks" has 2 dimensions of bool'
: | write_masks U8 0,4 0
kt place "$dir/use" --update "$dir/own" --max-moves 1
refused '"masks": dimension 0 is 0; 1 to 65536'
{ u8 0 1 1 0 0 0 0 0 && i64 4 4; } | write_masks U8 2,4 8 \
    ',"layers":{"dtype":"I64","shape":[2],"data_offsets":[8,24]}'
kt place "$dir/use" --update "$dir/own" --max-moves 1
refused '"layers", element 1 is 4; numbers must rise'
{ u8 0 1 1 0 0 0 0 0 && i64 4; } | write_masks U8 2,4 8 \
    ',"layers":{"dtype":"I64","shape":[1],"data_offsets":[8,16]}'
kt place "$dir/use" --update "$dir/own" --max-moves 1
refused '"layers" has 1 numbers, but "masks" 2 rows'
kt place "$dir/two" --update "$masks" --max-moves 1
refused 'the statistics are of 8 experts a layer, not 4'
kt place "$dir/use" --update "$trace" --max-moves 1
refused 'masks'
kt place "$dir/use" --shape 4,4 --total 1
refused 'layer 5 too, for which there is no mask'
kt place "$dir/use" --model "$q4" --total 1
refused 'of 4 experts a layer, not 8'
kt place "$dir/nothing" --total 1
refused 'nothing'
kt place "$dir/use" --total 1 --output "$dir/no/such/folder"
refused 'output .*no/such/folder: '
[ ! -e "$dir/no" ] || fail "nothing may be made"

# ---- the command line ----
wrong()
{
    words=$1
    shift
    kt place "$@"
    exits 2
    [ ! -s "$out" ] || fail "there must be no data"
    warns "$words"
}
wrong 'one budget is needed' "$dir/use"
wrong 'one budget is needed' "$dir/use" --total 1 --ratio 0.5
wrong 'must say what experts' --total 1
wrong 'frequency needs a FILE' --shape 3,4 --total 1 --placement frequency
wrong 'both say' --shape 3,4 --model "$q4" --total 1
wrong 'a layer has 4' "$dir/use" --gpu-experts 5
wrong '3 layers of 4 experts have 12' "$dir/use" --total 13
wrong 'must be 0 to 1' "$dir/use" --ratio 1.1
wrong 'two numbers' --shape 3 --total 1
wrong 'two numbers' --shape 3,0 --total 1
wrong 'two numbers' --shape 65537,4 --total 1
wrong 'goes with --update' "$dir/use" --total 1 --max-moves 3
wrong 'needs --max-moves' "$dir/use" --update "$masks"
wrong 'needs --max-moves and a FILE' --update "$masks" --max-moves 3
wrong 'keeps the placement' "$dir/use" --update "$masks" --max-moves 3 --total 1
wrong 'one of uniform' "$dir/use" --total 1 --placement best
finish

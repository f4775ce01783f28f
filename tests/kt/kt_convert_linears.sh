#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt convert --linears: which weights a store gets, what kt says of it, runs that go on, damage.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
with_plugin amx_int8 || skip "the backend amx_int8 was not built"
model=$data/tiny-moe-q4_k_m.gguf
store=$dir/store

n_files()
{
    find "$1" -name "$2" | wc -l
}

# ---- all of them, beside the experts ----
kt convert "$model" --output "$store" --backend AMXINT8 --linears all
exits 0
is_silent
says '^LINEARS  *COUNT  *TYPE  *SHAPE  *SOURCE  *PACKED  *SECONDS  *STATE$'
says '^blk.0-3.attn_q  *4  q4_k  256x256  .* stored$'
says '^output  *1  q6_k  2048x256  .* stored$'
says '^memory for a packed linear:  *520.0 KiB$'
says_not 'ffn_gate_inp\|token_embd\|norm'
[ "$(n_files "$store" 'linear-*.safetensors'),$(n_files "$store" 'layer-*')" = 17,4 ] || fail "17 linears, 4 layers"
[ -f "$store/linear-blk.3.attn_output.safetensors" ] || fail "a file has the name of its linear"
[ "$(find "$store" -type f | wc -l)" -eq 21 ] || fail "a temporary file is left"
kt convert "$model" --output "$dir/plain" --backend AMXINT8
exits 0
says_not LINEARS
for layer in 0 1 2 3; do
    cmp "$store/layer-0000$layer.safetensors" "$dir/plain/layer-0000$layer.safetensors" || fail "layers differ"
done

kt verify "$store"
exits 0
says '^ *3  amx_int8  amx_int8-1 .* ok$'
says '^blk.2.attn_k  *amx_int8  amx_int8-1  *128  *256 .* ok$'
kt verify "$store" --layers 2 --format json
exits 0
[ "$(grep -c '"name": "blk.2\.' "$out"),$(grep -c '"name": ' "$out")" = 4,4 ] || fail "linears of one layer"
kt inspect "$store"
exits 0
says '^packed linears:  *17$'
says '^blk.1.attn_v  *128  *256  q6_k  *amx_int8-1 '
kt explain "$store"
exits 0
says '^blk.0-3.attn_output  *4  amx_int8-1  *amx_int8 '
says '^packed linears:  *1.3 MiB$'
kt explain "$store" --backend reference --set core.strict=yes
exits 1
says 'stored for backend amx_int8, not reference'

# ---- going on, and damage ----
kt convert "$model" --output "$store" --backend AMXINT8 --linears all
exits 1
warns '--resume'
rm "$store/linear-blk.1.attn_v.safetensors"
printf x | dd of="$store/linear-output.safetensors" bs=1 seek=300000 conv=notrunc 2>/dev/null
kt verify "$store"
exits 1
says '^output .* damaged .*linear-output.safetensors: offset [0-9]*: the [0-9]* bytes from there on of linear "output"'
warns '1 of 20 layers and linears are damaged'
kt convert "$model" --output "$store" --backend AMXINT8 --linears all --resume --format json
exits 0
warns 'linear-output.safetensors: offset .* it is made again'
[ "$(grep -c '"state": "kept"' "$out"),$(grep -c '"state": "stored"' "$out")" = 19,2 ] || fail "two are stored again"
kt verify "$store"
exits 0
kt convert "$store" --output "$dir/again" --backend AMXINT8 --linears all
exits 1
warns 'packed already'
mv "$store/linear-output.safetensors" "$store/linear-input.safetensors"
kt verify "$store"
exits 1
warns 'holds linear "output" of a store: call it linear-output.safetensors'
cp "$store/linear-input.safetensors" "$dir/linear-output.safetensors"
truncate -s 100000 "$dir/linear-output.safetensors"
kt verify "$dir/linear-output.safetensors"
exits 1
warns 'ends at byte 532480 of the data, which has'

# ---- only some, and only linears ----
kt convert "$model" --output "$dir/some" --backend AMXINT8 --linears 'blk.*.attn_[kv],output' --no-experts
exits 0
says '^blk.0-3.attn_v '
says_not '^LAYER \|attn_q\|packed experts'
[ "$(n_files "$dir/some" 'linear-*')" -eq 9 ] || fail "9 linears"
for verb in verify inspect explain; do
    kt $verb "$dir/some"
    exits 0
    is_silent
    says '^output '
done
kt convert "$model" --output "$dir/some" --backend AMXINT8 --linears all --layers 1 --resume
exits 0
says '^blk.1.attn_k .* kept$'
says '^blk.1.attn_q .* stored$'
says '^ *1  q4_k .* stored$'
says_not '^output \|blk.0'
kt convert "$data/tiny-moe-bf16-l0-l3.gguf" --output "$dir/some" --backend AMXINT8 --resume
exits 1
warns 'another checkpoint'
kt convert "$model" --output "$dir/none" --backend AMXINT8 --linears 'nobody,blk.9.*'
exits 1
warns 'no linear that --linears nobody,blk.9.\* names'
[ ! -e "$dir/none" ] || fail "a folder was made"
kt convert "$model" --output "$dir/none" --backend AMXINT8 --no-experts
exits 2
warns '--no-experts needs --linears'
kt convert "$model" --output "$dir/none" --backend reference --linears all --no-experts
exits 1
warns 'reference can store none of these linears; .*cannot be stored'

# A router is stored if it is named.
kt convert "$model" --output "$dir/router" --backend AMXINT8 --linears '*.ffn_gate_inp' --no-experts
[ "$code" -eq 1 ] || says '^blk.0-3.ffn_gate_inp  *4  f32 '

# ---- a backend for the experts, another for the linears ----
if with_plugin rawint4 && with_plugin bf16; then
    cp -r "$data/int4-g32-l0" "$dir/mixed"
    chmod -R u+w "$dir/mixed"
    rm -f "$dir/mixed/model.safetensors.index.json"
    mv "$dir/mixed/model.safetensors" "$dir/mixed/experts.safetensors" # beside it no other file counts
    head -c 33280 /dev/zero | write_tensors "$dir/mixed/own.safetensors" \
        '{"model.layers.0.self_attn.q_proj.weight":{"dtype":"BF16","shape":[128,128],"data_offsets":[0,32768]},'\
'"model.layers.0.self_attn.q_proj.bias":{"dtype":"F32","shape":[128],"data_offsets":[32768,33280]}}'
    kt convert "$dir/mixed" --output "$dir/two" --backend RAWINT4 --linears all
    exits 0
    says '^model.layers.0.self_attn.q_proj  *1  bf16  128x128 .* refused$'
    says 'Refused linears are to be loaded from the checkpoint itself'
    [ "$(n_files "$dir/two" 'linear-*')" -eq 0 ] || fail "a refused linear has a file"
    kt convert "$dir/mixed" --output "$dir/two" --backend BF16 --linears all --no-experts --resume
    exits 0
    says ' stored$'
    kt verify "$dir/two"
    exits 0
    says '^ *0  rawint4 .* ok$'
    says '^model.layers.0.self_attn.q_proj  *bf16 .* ok$'
    kt inspect "$dir/two"
    says '^model.layers.0.self_attn.q_proj  *128  *128  bf16  yes '
fi

# ---- killed at any time: no file with its own name is less than whole ----
if [ -z "${EMULATOR:-}" ]; then
    for delay in 0.004 0.008 0.012 0.016 0.022 0.030 0.040; do
        command_line="kt convert --linears, killed after $delay s"
        (uncounted && LD_LIBRARY_PATH=$KT_TEST_BUILD/.libs timeout -s KILL $delay "$KT_TEST_BUILD/.libs/kt" convert "$model" \
            --output "$dir/killed" --backend AMXINT8 --linears all --no-experts --resume >/dev/null 2>&1) 2>/dev/null
        [ -z "$(ls "$dir/killed" 2>/dev/null)" ] || {
            kt verify "$dir/killed"
            exits 0
        }
    done
    kt_after_kill convert "$model" --output "$dir/killed" --backend AMXINT8 --linears all --no-experts --resume
    exits 0
    [ "$(find "$dir/killed" -type f | wc -l)" -eq 17 ] || fail "a temporary file is left"
fi
command_line="kt convert --linears on a full disk"
(uncounted && ulimit -f 200 && kt_run convert "$model" --output "$dir/full" --backend AMXINT8 --linears output --no-experts) \
    >"$out" 2>"$err"
code=$?
exits 1
warns 'linear-output.part: cannot be'
[ -z "$(ls -A "$dir/full")" ] || fail "a part of a file is left"
finish

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Folders of safetensors files: kt inspect, kt explain and kt forward on trained FP8 weights.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
block=$data/fp8-block-l0
channel=$data/fp8-channel-l0

# ---- what the formats' own weights give, as float64 computed it ----
for format in block channel; do
    for io in mmap read; do
        kt forward --model "$data/fp8-$format-l0" --input "$trace" --backend reference --io $io \
            --expected "$data/fp8-$format-l0-output.safetensors" --recorded-tolerance 1e-4 \
            --format csv
        exits 0
        [ "$(field 0 result)" = ok ] || fail "layer 0 must be within 1e-4"
        [ "$(field 0 types)" = f8_e4m3 ] || fail "its weights are FP8"
        compares "$(field 0 recorded_error)" '<=' 1e-6
    done
done
# Against the unquantized model's output that is the error of FP8 itself.
kt forward --model "$block" --input "$trace" --backend reference --check --format csv
exits 0
compares "$(field 0 recorded_error)" '>=' 0.005
compares "$(field 0 recorded_error)" '<=' 0.03
# One format's weights do not give the other's output.
kt forward --model "$block" --input "$trace" --backend reference \
    --expected "$data/fp8-channel-l0-output.safetensors" --recorded-tolerance 1e-4
exits 1
warns '1 of 1 layers are above the tolerance'
kt forward --model "$block" --input "$trace" --expected "$block/model-00001-of-00003.safetensors"
exits 1
warns 'layers.0.output'
kt forward --model "$block" --input "$trace" --expected "$dir/nosuch"
exits 1
warns 'nosuch'

# ---- what stands for the folder ----
for path in "$block" "$block/" "$block/config.json" "$block/model.safetensors.index.json" \
    "$block/model-00002-of-00003.safetensors"; do
    kt inspect "$path" --format csv
    exits 0
    is_silent
    [ "$(wc -l <"$out")" -eq 2 ] || fail "there is one layer"
    [ "$(field 0 n_experts)" = 8 ] || fail "layer 0 has 8 experts"
    [ "$(field 0 top_k)" = 2 ] || fail "layer 0 uses 2"
    [ "$(field 0 gate)" = f8_e4m3 ] || fail "its gate projection is FP8"
done
kt inspect "$block"
exits 0
says '^architecture:  *qwen3_moe$'
says '^files:  *3$'
kt inspect "$block" --tensors --format csv
exits 0
says '^model.layers.0.mlp.experts.7.down_proj.weight,f8_e4m3,256x256,.*,model-00003-of-00003.safetensors'
kt inspect "$channel"
exits 0
says_not '^files:'
# A file that no index lists is opened alone, and reads the config.json beside it.
kt inspect "$channel/model.safetensors" --format csv
exits 0
[ "$(field 0 top_k)" = 2 ] || fail "config.json says that layer 0 uses 2"
kt explain --model "$block" --format csv
exits 0
[ "$(field 0 backend)" = reference ] || fail "nothing but the reference is configured"

# ---- folders that are wrong ----
cp "$channel"/* "$dir/etc/"
chmod u+w "$dir"/etc/*
model=$dir/etc
sed 's/"num_experts": 8/"num_experts": 9/' "$channel/config.json" >"$model/config.json"
kt inspect "$model"
exits 1
warns 'config.json: key "num_experts" is 9, but layer 0 has number of experts 8'
sed 's/"silu"/"gelu"/' "$channel/config.json" >"$model/config.json"
kt inspect "$model"
exits 0
warns 'the experts use the activation "gelu"'
kt forward --model "$model" --input "$trace"
exits 1
warns 'the experts use the activation "gelu"'
cp "$channel/config.json" "$model/config.json"
LC_ALL=C sed 's/proj.weight_scale"/proj.weight_zeros"/g' "$channel/model.safetensors" \
    >"$model/model.safetensors"
kt explain --model "$model"
exits 1
warns 'an unsupported format, a kind that is not known'
kt inspect "$model" --tensors --format csv
exits 0
says 'weight_zeros,f32,256x1,'
rm "$model/model.safetensors"
kt inspect "$model"
exits 0
says '^format:  config.json alone, no weights$'
kt explain "$model"
exits 1
warns 'the folder holds no .safetensors and no .gguf file'

# The output never becomes a file of the model.
cp "$channel"/* "$model/"
kt forward --model "$model" --input "$trace" --output "$model/output.safetensors"
exits 1
warns 'would lie in the folder of the model'
[ ! -e "$model/output.safetensors" ] || fail "nothing may be written"
command_line="kt forward --model . --output output.safetensors"
(cd "$model" && kt_run forward --model . --input "$trace" --output output.safetensors) \
    >"$out" 2>"$err"
code=$?
exits 1
warns 'would lie in the folder of the model'
[ ! -e "$model/output.safetensors" ] || fail "nothing may be written"
ln "$model/model.safetensors" "$dir/hard"
for path in "$model" "$model/config.json" "$model/model.safetensors"; do
    kt forward --model "$path" --input "$trace" --output "$dir/hard"
    exits 1
    warns 'hard is the model itself'
done
cmp "$channel/model.safetensors" "$dir/hard" || fail "nothing may be written"
cp "$data/fp8-channel-l0-output.safetensors" "$dir/expected"
chmod u+w "$dir/expected"
kt forward --model "$model" --input "$trace" --expected "$dir/expected" --output "$dir/expected"
exits 1
warns 'expected is the expected output itself'
finish

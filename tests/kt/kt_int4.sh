#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt inspect, kt explain and kt forward on trained weights of 4 bits, and on MXFP8.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"

# $1 folder, $2 type, $3 least and $4 largest error against the unquantized model
reads()
{
    for io in mmap read; do
        kt forward --model "$data/$1-l0" --input "$trace" --backend reference --io $io \
            --expected "$data/$1-l0-output.safetensors" --recorded-tolerance 1e-4 --format csv
        exits 0
        is_silent
        [ "$(field 0 result)" = ok ] || fail "layer 0 must be within 1e-4"
        [ "$(field 0 types)" = "$2" ] || fail "its weights are $2"
        compares "$(field 0 recorded_error)" '<=' 1e-6
    done
    kt forward --model "$data/$1-l0" --input "$trace" --backend reference --check --format csv
    exits 0
    compares "$(field 0 recorded_error)" '>=' "$3"
    compares "$(field 0 recorded_error)" '<=' "$4"
    kt inspect "$data/$1-l0" --format csv
    exits 0
    is_silent
    [ "$(field 0 gate)" = "$2" ] || fail "gate is $2"
    [ "$(field 0 down)" = "$2" ] || fail "down is $2"
    [ "$(field 0 hidden_size)" = 256 ] || fail "the hidden size is 256"
    [ "$(field 0 n_experts)" = 8 ] || fail "layer 0 has 8 experts"
    [ "$(field 0 bytes)" = "$5" ] || fail "its experts take $5 bytes"
    kt explain --model "$data/$1-l0" --format csv
    exits 0
    [ "$(field 0 backend)" = reference ] || fail "nothing but the reference is configured"
}

# 24 matrices of 65536 weights, and their scales: 2 bytes for 32, 2 for 128 with 1/2 for the zero, 1 for 32.
reads int4-g32 int4 0.01 0.2 $((24 * 65536 / 2 + 24 * 65536 / 16))
reads gptq-g128 int4 0.01 0.2 $((24 * 65536 / 2 + 24 * 512 * 2 + 24 * 512 / 2))
reads mxfp4 f4_e2m1 0.01 0.3 $((24 * 65536 / 2 + 24 * 65536 / 32))
reads mxfp8 f8_e4m3 0.005 0.05 $((24 * 65536 + 24 * 65536 / 32))

# One format's weights do not give another's output.
kt forward --model "$data/int4-g32-l0" --input "$trace" --backend reference \
    --expected "$data/gptq-g128-l0-output.safetensors" --recorded-tolerance 1e-4
exits 1
warns '1 of 1 layers are above the tolerance'

# The nodes' shards are cut on groups.
HWLOC_SYNTHETIC='numa:2 core:1 pu:1'
export HWLOC_SYNTHETIC
for format in int4-g32 gptq-g128 mxfp4 mxfp8; do
    kt forward --model "$data/$format-l0" --input "$trace" --backend reference \
        --expected "$data/$format-l0-output.safetensors" --recorded-tolerance 1e-6
    exits 0
    says '^NUMA nodes: *2'
done
unset HWLOC_SYNTHETIC

# ---- contradictions of config.json with the tensors ----
model=$dir/model
mkdir "$model"
# $1 folder, $2 sed of its config.json, $3 exit status of inspect, $4 message
contradicts()
{
    rm -f "$model"/*
    cp "$data/$1-l0/model.safetensors" "$model/"
    sed "$2" "$data/$1-l0/config.json" >"$model/config.json"
    kt inspect "$model"
    exits "$3"
    warns "$4"
    kt forward --model "$model" --input "$trace" --backend reference
    exits 1
    warns "$4"
}
contradicts int4-g32 's/"group_size": 32/"group_size": 64/' 1 \
    'config.json: key "group_size" makes groups of 64 columns, but tensor "model.layers.0.mlp.experts.0.gate_proj.weight_scale" in .*model.safetensors is \[256\]\[8\]: groups of 32'
contradicts int4-g32 's/"symmetric": true/"symmetric": false/' 0 'config.json: key "symmetric" is false: such weights'
contradicts gptq-g128 's/"sym": true/"sym": false/' 0 'config.json: key "sym" is false: such weights'
contradicts gptq-g128 's/"desc_act": false/"desc_act": true/' 0 'config.json: key "desc_act" is true: such weights'
contradicts gptq-g128 's/"bits": 4/"bits": 8/' 0 'config.json: key "bits" is 8: packed weights of 4 bits'
contradicts gptq-g128 's/"gptq"/"awq"/' 1 'config.json: key "quant_method" is awq, but tensor .*qweight" is int4 of GPTQ'
contradicts mxfp4 's/"mxfp4"/"gptq"/' 1 'config.json: key "quant_method" is gptq, but tensor .*w1.weight" is MXFP4'

# Zeros of version 2 are not stored minus one: these are wrong in it.
rm -f "$model"/*
cp "$data/gptq-g128-l0/model.safetensors" "$model/"
sed 's/"bits": 4/"checkpoint_format": "gptq_v2", "bits": 4/' "$data/gptq-g128-l0/config.json" \
    >"$model/config.json"
kt inspect "$model"
exits 0
kt forward --model "$model" --input "$trace" --backend reference
exits 1
warns 'gate_proj.qzeros": the zero of row 0, column 0 on is stored as 7, not 8: GPTQ weights with zeros'
finish

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt reads what KT-Kernel's converter wrote, here of the trained model, and converts it.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
with_plugin amx_int8 || skip "the backend amx_int8 was not built"
model=$data/tiny-moe-bf16-l0-l3.gguf
recorded=$dir/recorded.safetensors
pack=$KT_TEST_BUILD/tests/support/ktkernel_pack

kt forward --model "$model" --input "$trace" --backend reference --output "$recorded"
exits 0

# $1 method, $2 NUMA parts, $3 container, $4 largest error against the bf16 model
imported()
{
    folder=$dir/$1-$2-$3
    mkdir "$folder"
    command_line="ktkernel_pack $1 $2 $3"
    ${EMULATOR:-} "$pack" "$model" "$folder" "$1" "$2" "$3" >"$out" 2>"$err" || fail "it must succeed"
    echo '{"model_type": "qwen3_moe", "num_experts_per_tok": 2, "num_experts": 8}' >"$folder/config.json"
    [ "$3" = files ] || echo '{"metadata": {"total_size": 0}}' >"$folder/model.safetensors.index.json"
    kt inspect "$folder"
    exits 0
    is_silent
    says '^architecture: *qwen3_moe'
    says '^layers with experts: *2'
    says '^ *3  *8  *2  *256  *256  i8  *i8  *i8 '
    kt forward --model "$folder" --input "$trace" --backend reference --expected "$recorded" \
        --recorded-tolerance "$4" --check
    exits 0
    says '^ *0  i8  *reference '
    # Rows with one scale each are copied. Rows of down that were cut for NUMA nodes have a scale each part.
    kt explain "$folder"
    if [ "$2" -eq 1 ]; then
        exits 0
        says ' amx_int8 '
        says_not 'ROUNDED TO'
    else
        exits 1
        says 'would round the weights again support it: amx_int8 '
    fi
    kt convert --input "$folder" --output "$folder-store" --method AMXINT8
    exits 0
    is_silent
    says '^ *3  i8 .* stored$'
    kt verify "$folder-store"
    exits 0
    kt forward --model "$folder-store" --input "$trace" --expected "$recorded" --recorded-tolerance "$4"
    exits 0
    says '^ *3  .*amx_int8 '
}

imported INT8 1 tensors 0.02
imported INT8 4 files 0.02
imported INT4 2 files 0.12
imported INT4 1 tensors 0.12
imported MOE_INT8 2 files 0.02
imported MOE_INT8 1 tensors 0.02

# On more nodes than the converter cut for, and on fewer.
HWLOC_SYNTHETIC='numa:2 core:1 pu:1'
export HWLOC_SYNTHETIC
for folder in "$dir/INT8-1-tensors" "$dir/INT8-4-files"; do
    kt forward --model "$folder" --input "$trace" --backend amx_int8 --expected "$recorded" \
        --recorded-tolerance 0.02
    exits 0
    says '^NUMA nodes: *2'
done
unset HWLOC_SYNTHETIC

# A file that is one of its own.
kt inspect "$dir/INT8-1-tensors/model-00003.safetensors"
exits 0
says '^layers with experts: *1'

# Experts of two layouts in one folder: those that are left out are not left out in silence.
cp -r "$dir/INT8-1-tensors" "$dir/mixed"
cp "$KT_TEST_DATA/tiny-moe/int4-g32-l0/model.safetensors" "$dir/mixed/original.safetensors"
kt inspect "$dir/mixed"
exits 0
warns "in the layout of KT-Kernel's converter and in that of a known family of models, which are left out"

# What cannot be read says so.
rm "$dir/INT8-4-files/_layer_3/_numa_2/"INT8_up_5_*Byte_scale_.kt
kt inspect "$dir/INT8-4-files"
exits 1
warns '_layer_3/_numa_2/INT8_up_5_\*Byte_scale_.kt is missing'
mkdir "$dir/unknown"
${EMULATOR:-} "$pack" "$model" "$dir/unknown" MOE_INT4 1 files
kt convert --input "$dir/unknown" --output "$dir/no" --method AMXINT8
exits 1
warns 'MOE_INT4 is not known here'
finish

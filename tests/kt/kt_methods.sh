#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# KT-Kernel's names of methods, in kt convert: each makes the store that its backend's own name makes.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"

# $1 backend, $2 model, then the methods; $setting: what they say of the backend
setting=
methods()
{
    backend=$1 model=$data/$2
    shift 2
    with_plugin "$backend" || return 0
    kt convert --input "$model" --output "$dir/$backend" --method "$backend" --layers 0 ${setting:+--set "$setting"}
    exits 0
    for method; do
        rm -rf "$dir/store"
        kt convert --input "$model" --output "$dir/store" --method "$method" --layers 0
        exits 0
        is_silent
        kt verify "$dir/store"
        exits 0
        says "^ *0  $backend .* ok$"
        diff -r "$dir/$backend" "$dir/store" >/dev/null || fail "the store must be that of --method $backend"
        echo "$method" >>"$dir/tried"
    done
    rm -rf "${dir:?}/$backend" "$dir/store"
}
: >"$dir/tried"
bf16=tiny-moe-bf16-l0-l3.gguf
# On ARM these two are kml_arm's, and say what it makes; the others are the same there.
if with_plugin kml_arm; then
    setting=plugin.kml_arm.weights=int8
    KT_KERNEL_PLUGIN_KML_ARM_WEIGHTS=int4
    export KT_KERNEL_PLUGIN_KML_ARM_WEIGHTS
    methods kml_arm $bf16 MOE_INT8
    setting=plugin.kml_arm.weights=int4
    KT_KERNEL_PLUGIN_KML_ARM_WEIGHTS=int8
    methods kml_arm $bf16 MOE_INT4
    finish
fi
methods blis_int8 $bf16 MOE_INT8
methods amx_int4 $bf16 MOE_INT4
methods amx_int4 $bf16 AMXINT4
methods amx_int8 $bf16 AMXINT8
methods bf16 $bf16 BF16
methods rawint4 int4-g32-l0 RAWINT4
methods rawint4 gptq-g128-l0 GPTQ_INT4
methods rawint4 mxfp4-l0 MXFP4
methods avx512_fp8 fp8-block-l0 FP8
methods avx512_fp8 fp8-channel-l0 FP8_PERCHANNEL
methods avx512_fp8 mxfp8-l0 MXFP8
[ -s "$dir/tried" ] || skip "no backend that has a method was built"
sed 's/^/tried: /' "$dir/tried"
finish

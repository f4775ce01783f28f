/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin avx512_fp8: weights of 8 bits as they were published. */
#include "plugins/avx512_fp8/avx512_fp8.h"

#include "plugins/common/plugin/levels.h"

#include "plugins/common/plugin/options_tmpl.h"

/* Cooper Lake has BF16 but no VBMI: level avx512 there. */
static const struct kt_level *const levels[] = {
#ifdef LEVEL_AMX
    LEVEL(amx, NEEDS_AMX_BF16 | KT_CPU_AVX512_VBMI, "tdpbf16ps"),
#endif
#ifdef LEVEL_AVX512_BF16
    LEVEL(avx512_bf16, NEEDS_AVX512_BF16 | KT_CPU_AVX512_VBMI, "vdpbf16ps"),
#endif
#ifdef LEVEL_AVX512
    LEVEL(avx512, NEEDS_AVX512, "vfmadd"),
#endif
#ifdef LEVEL_AVX2
    LEVEL(avx2, NEEDS_AVX2, "vfmadd"),
#endif
    LEVEL(scalar, 0, "scalar"),
};

KT_PLUGIN_DEFINE(avx512_fp8) = {
    KT_PLUGIN_HEADER(avx512_fp8),
    .description =
        "FP8 weights as published, with scales for blocks, rows or groups (MXFP8), never quantized again",
    .formats = "f8_e4m3",
    PLUGIN_PARTS,
};

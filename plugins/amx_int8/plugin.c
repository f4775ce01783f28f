/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin amx_int8: weights as int8 with a scale per row, on AMX or less. */
#include "plugins/amx_int8/amx_int8.h"

#include "plugins/common/plugin/levels.h"

#include "plugins/common/plugin/options_tmpl.h"

static const struct kt_level *const levels[] = {
#ifdef LEVEL_AMX
    LEVEL(amx, NEEDS_AMX_INT8, "tdpbssd"),
#endif
#ifdef LEVEL_AVX512_VNNI
    LEVEL(avx512_vnni, NEEDS_AVX512_VNNI, "vpdpbusd"),
#endif
#ifdef LEVEL_AVX512
    LEVEL(avx512, NEEDS_AVX512, "vpmaddubsw"),
#endif
#ifdef LEVEL_AVX_VNNI
    LEVEL(avx_vnni, NEEDS_AVX_VNNI, "vpdpbusd"),
#endif
#ifdef LEVEL_AVX2
    LEVEL(avx2, NEEDS_AVX2, "vpmaddubsw"),
#endif
    LEVEL(scalar, 0, "scalar"),
};

KT_PLUGIN_DEFINE(amx_int8) = {
    KT_PLUGIN_HEADER(amx_int8),
    .description = "int8 weights with a scale per row, quantized from any source; int8 activations",
    .formats = "bf16 f16 f32 f64 f8_e4m3 f8_e5m2 and GGUF's blocks",
    PLUGIN_PARTS,
};

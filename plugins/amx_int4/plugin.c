/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin amx_int4: weights of 4 bits with group scales, on AMX or less. */
#include "plugins/amx_int4/amx_int4.h"

#include "plugins/common/plugin/levels.h"

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

enum { OPTION_GROUP_SIZE, OPTION_Y };
static const struct kt_option options[] = {
    [OPTION_GROUP_SIZE] = OPTION_GROUP4_SIZE,
    [OPTION_Y] = OPTION_ROW_Y,
};

static void read_options(struct int4_instance *self, const struct kt_caps *caps,
                         const struct kt_option_value *values)
{
    (void)caps;
    self->group_size = UINT32_C(32) << values[OPTION_GROUP_SIZE].number;
}

#define INSTANCE struct int4_instance
#include "plugins/common/plugin/options_tmpl.h"

KT_PLUGIN_DEFINE(amx_int4) = {
    KT_PLUGIN_HEADER(amx_int4),
    .description = "4-bit weights with group scales, quantized from any source; int8 activations",
    .formats = "bf16 f16 f32 f64 f8_e4m3 f8_e5m2 and GGUF's blocks",
    PLUGIN_PARTS,
};

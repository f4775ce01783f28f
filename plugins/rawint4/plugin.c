/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin rawint4: weights of 4 bits as they were published. */
#include "plugins/rawint4/rawint4.h"

#include "plugins/common/plugin/levels.h"

static const struct kt_level *const levels[] = {
#ifdef LEVEL_AMX
    LEVEL(amx, NEEDS_AMX_BF16, "tdpbf16ps"),
#endif
#ifdef LEVEL_AVX512_BF16
    LEVEL(avx512_bf16, NEEDS_AVX512_BF16, "vdpbf16ps"),
#endif
#ifdef LEVEL_AVX512
    LEVEL(avx512, NEEDS_AVX512, "vfmadd"),
#endif
#ifdef LEVEL_AVX2
    LEVEL(avx2, NEEDS_AVX2, "vfmadd"),
#endif
    LEVEL(scalar, 0, "scalar"),
};

enum { OPTION_Y };
static const struct kt_option options[] = {
    [OPTION_Y] = OPTION_ROW_Y,
    {
        .key = "activations",
        .type = KT_OPTION_ENUM,
        .default_text = "bf16",
        .choices = "bf16|int8",
        .help = "int8: rounded to 8 bits, 32 with one scale: faster, and less exact; level amx keeps bf16",
    },
};

static void read_options(struct rawint4_instance *self, const struct kt_caps *caps,
                         const struct kt_option_value *values)
{
    (void)caps;
    self->int8_rows = values[1].number != 0;
}

#define INSTANCE struct rawint4_instance
#include "plugins/common/plugin/options_tmpl.h"

KT_PLUGIN_DEFINE(rawint4) = {
    KT_PLUGIN_HEADER(rawint4),
    .description = "4-bit weights as published, never quantized again: compressed-tensors, GPTQ, AWQ, MXFP4",
    .formats = "int4 f4_e2m1",
    PLUGIN_PARTS,
};

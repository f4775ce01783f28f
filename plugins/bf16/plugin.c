/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin bf16: weights and activations as bfloat16, sums in float32. */
#include "plugins/bf16/bf16.h"

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
#ifdef LEVEL_ARM_BF16
    LEVEL(arm_bf16, NEEDS_I8MM | KT_CPU_ARM_BF16, "bfmmla"),
#endif
#ifdef LEVEL_NEON
    LEVEL(neon, KT_CPU_NEON, "fmla"),
#endif
    LEVEL(scalar, 0, "scalar"),
};

enum { OPTION_Y, OPTION_WIDER };
static const struct kt_option options[] = {
    [OPTION_Y] = OPTION_ROW_Y,
    [OPTION_WIDER] =
        {
            .key = "wider",
            .type = KT_OPTION_ENUM,
            .default_text = "refuse",
            .choices = "round|refuse",
            .help = "weights in f16 or f32: round them to bf16 where this backend is named, or refuse them",
        },
};

static void read_options(struct bf16_instance *self, const struct kt_caps *caps,
                         const struct kt_option_value *values)
{
    (void)caps;
    self->refuses_wider = values[OPTION_WIDER].number != 0;
}

#define INSTANCE struct bf16_instance
#include "plugins/common/plugin/options_tmpl.h"

KT_PLUGIN_DEFINE(bf16) = {
    KT_PLUGIN_HEADER(bf16),
    .description = "bfloat16 weights and activations, sums in float32; f16 and f32 by option",
    .formats = "bf16 f16 f32",
    PLUGIN_PARTS,
};

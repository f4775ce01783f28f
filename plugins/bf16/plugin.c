/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin bf16: weights and activations as bfloat16, sums in float32. */
#include "plugins/bf16/bf16.h"

#include "plugins/common/plugin/levels.h"

#include <kt/version.h>

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

static enum kt_status open_instance(const struct kt_host *host, const struct kt_caps *caps,
                                    const struct kt_option_value *values, void **instance,
                                    struct kt_error *error)
{
    enum kt_status status =
        new_instance(BACKEND, sizeof(struct bf16_instance), host, caps, &values[OPTION_Y], instance, error);
    if (status)
        return status;
    struct bf16_instance *self = *instance;
    self->refuses_wider = values[OPTION_WIDER].number != 0;
    return KT_OK;
}

static void close_instance(void *instance)
{
    free_instance(instance, sizeof(struct bf16_instance));
}

KT_PLUGIN_DEFINE(bf16) = {
    KT_PLUGIN_HEADER(bf16),
    .version = KT_VERSION,
    .description = "bfloat16 weights and activations, sums in float32; f16 and f32 by option",
    .formats = "bf16 f16 f32",
    .sources = "part of kt-kernel, Apache-2.0",
    .levels = levels,
    .n_levels = sizeof levels / sizeof *levels,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .open = open_instance,
    .close = close_instance,
};

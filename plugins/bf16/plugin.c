/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin bf16: weights and activations as bfloat16, sums in float32. */
#include "plugins/bf16/bf16.h"

#include "plugins/common/instance8.h"

#include <kt/version.h>

#ifdef LEVEL_AMX
DEFINE_LEVEL(amx, NEEDS_AVX512 | KT_CPU_AVX512_VNNI | KT_CPU_AVX512_BF16 | KT_CPU_AMX_TILE | KT_CPU_AMX_BF16,
             "tdpbf16ps");
#endif
#ifdef LEVEL_AVX512_BF16
DEFINE_LEVEL(avx512_bf16, NEEDS_AVX512 | KT_CPU_AVX512_VNNI | KT_CPU_AVX512_BF16, "vdpbf16ps");
#endif
#ifdef LEVEL_AVX512
DEFINE_LEVEL(avx512, NEEDS_AVX512, "vfmadd");
#endif
#ifdef LEVEL_AVX2
DEFINE_LEVEL(avx2, NEEDS_AVX2, "vfmadd");
#endif
DEFINE_LEVEL(scalar, 0, "scalar");

static const struct kt_level *const levels[] = {
#ifdef LEVEL_AMX
    &level_amx,
#endif
#ifdef LEVEL_AVX512_BF16
    &level_avx512_bf16,
#endif
#ifdef LEVEL_AVX512
    &level_avx512,
#endif
#ifdef LEVEL_AVX2
    &level_avx2,
#endif
    &level_scalar,
};

enum { OPTION_Y, OPTION_WIDER };
static const struct kt_option options[] = {
    [OPTION_Y] = OPTION_ROW_Y,
    [OPTION_WIDER] = {
        .key = "wider",
        .type = KT_OPTION_ENUM,
        .default_text = "refuse",
        .choices = "round|refuse",
        .help = "weights in f16 or f32: round them to bf16, or leave them to another backend",
    },
};

static enum kt_status open_instance(const struct kt_host *host, const struct kt_caps *caps,
                                    const struct kt_option_value *values, void **instance,
                                    struct kt_error *error)
{
    struct instance8 *self = NULL;
    enum kt_status status = open_instance8(host, caps, &values[OPTION_Y], &self, error);

    if (status)
        return status;
    self->refuses_wider = values[OPTION_WIDER].number != 0;
    *instance = self;
    return KT_OK;
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

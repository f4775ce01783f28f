/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin amx_int8: weights as int8 with a scale per row, on AMX or less. */
#include "plugins/amx_int8/amx_int8.h"

#include <kt/version.h>

#define NEEDS_AVX2 (KT_CPU_AVX | KT_CPU_AVX2 | KT_CPU_FMA | KT_CPU_F16C)
#define NEEDS_AVX512 \
    (NEEDS_AVX2 | KT_CPU_AVX512F | KT_CPU_AVX512BW | KT_CPU_AVX512VL | KT_CPU_AVX512DQ)

/* A level's struct kt_level. */
#define LEVEL(level, needs, bound)                   \
    static const struct kt_level level_##level = {   \
        .struct_size = sizeof(struct kt_level),      \
        .name = #level,                              \
        .cpu = (needs),                              \
        .instruction = (bound),                      \
        .ops = &amx_int8_ops_##level,                \
    }

#ifdef AMX_INT8_AMX
LEVEL(amx, NEEDS_AVX512 | KT_CPU_AVX512_VNNI | KT_CPU_AMX_TILE | KT_CPU_AMX_INT8, "tdpbssd");
#endif
#ifdef AMX_INT8_AVX512_VNNI
LEVEL(avx512_vnni, NEEDS_AVX512 | KT_CPU_AVX512_VNNI, "vpdpbusd");
#endif
#ifdef AMX_INT8_AVX512
LEVEL(avx512, NEEDS_AVX512, "vpmaddubsw");
#endif
#ifdef AMX_INT8_AVX_VNNI
LEVEL(avx_vnni, NEEDS_AVX2 | KT_CPU_AVX_VNNI, "vpdpbusd");
#endif
#ifdef AMX_INT8_AVX2
LEVEL(avx2, NEEDS_AVX2, "vpmaddubsw");
#endif
LEVEL(scalar, 0, "scalar");

static const struct kt_level *const levels[] = {
#ifdef AMX_INT8_AMX
    &level_amx,
#endif
#ifdef AMX_INT8_AVX512_VNNI
    &level_avx512_vnni,
#endif
#ifdef AMX_INT8_AVX512
    &level_avx512,
#endif
#ifdef AMX_INT8_AVX_VNNI
    &level_avx_vnni,
#endif
#ifdef AMX_INT8_AVX2
    &level_avx2,
#endif
    &level_scalar,
};

enum { OPTION_Y };
static const struct kt_option options[] = {
    [OPTION_Y] = {
        .key = "y",
        .type = KT_OPTION_ENUM,
        .default_text = "f32",
        .choices = "f32|bf16",
        .help = "form of an expert's output before the weighted sum; bf16 halves its memory traffic",
    },
};

static enum kt_status open_instance(const struct kt_host *host, const struct kt_caps *caps,
                                    const struct kt_option_value *values, void **instance,
                                    struct kt_error *error)
{
    struct amx_int8 *self = host->allocate(host, sizeof *self);

    if (!self)
        return kt_plugin_fail(error, KT_E_NOMEM, "amx_int8: no memory for an instance");
    self->host = host;
    self->l2_size = caps->l2_size ? caps->l2_size : UINT64_C(1) << 20;
    self->y_dtype = values[OPTION_Y].number ? KT_DTYPE_BF16 : KT_DTYPE_F32;
    *instance = self;
    return KT_OK;
}

static void close_instance(void *instance)
{
    struct amx_int8 *self = instance;
    self->host->release(self->host, self, sizeof *self);
}

KT_PLUGIN_DEFINE(amx_int8) = {
    KT_PLUGIN_HEADER(amx_int8),
    .version = KT_VERSION,
    .description = "int8 weights with a scale per row, quantised from any source; int8 activations",
    .formats = "bf16 f16 f32 f64 f8_e4m3 f8_e5m2 and GGUF's blocks",
    .sources = "part of kt-kernel, Apache-2.0",
    .levels = levels,
    .n_levels = sizeof levels / sizeof *levels,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .open = open_instance,
    .close = close_instance,
};

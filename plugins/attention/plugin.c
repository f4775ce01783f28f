/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin attention: attention over a cache. */
#include "plugins/attention/attention.h"
#include "plugins/common/plugin/levels.h"

#include <kt/version.h>

#define ATTENTION_LEVEL(level, needs, bound)                                                            \
    &(const struct kt_level)                                                                            \
    {                                                                                                   \
        .struct_size = sizeof(struct kt_level), .name = #level, .cpu = (needs), .instruction = (bound), \
        .attention = &attention_ops_##level, .rows = &attention_rows_##level,                           \
    }

static const struct kt_level *const levels[] = {
#ifdef LEVEL_AMX
    ATTENTION_LEVEL(amx, NEEDS_AMX_BF16, "tdpbf16ps"),
#endif
#ifdef LEVEL_AVX512_BF16
    ATTENTION_LEVEL(avx512_bf16, NEEDS_AVX512_BF16, "vdpbf16ps"),
#endif
#ifdef LEVEL_AVX512
    ATTENTION_LEVEL(avx512, NEEDS_AVX512, "vfmadd"),
#endif
#ifdef LEVEL_AVX2
    ATTENTION_LEVEL(avx2, NEEDS_AVX2, "vfmadd"),
#endif
#ifdef LEVEL_ARM_BF16
    ATTENTION_LEVEL(arm_bf16, NEEDS_I8MM | KT_CPU_ARM_BF16, "bfdot"),
#endif
#ifdef LEVEL_NEON
    ATTENTION_LEVEL(neon, KT_CPU_NEON, "fmla"),
#endif
    ATTENTION_LEVEL(scalar, 0, "scalar"),
};

KT_PLUGIN_DEFINE(attention) = {
    KT_PLUGIN_HEADER(attention),
    .version = KT_VERSION,
    .description = "attention over caches of keys and values, latents among them",
    .formats = "f32 bf16 q8_0",
    .sources = "part of kt-kernel, Apache-2.0",
    .levels = levels,
    .n_levels = sizeof levels / sizeof *levels,
};

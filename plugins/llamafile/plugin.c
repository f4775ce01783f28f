/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin llamafile: GGUF's weight formats as they are, on any CPU. */
#include "plugins/llamafile/llamafile.h"

#include <kt/version.h>

#define NEEDS_AVX2 (KT_CPU_AVX | KT_CPU_AVX2 | KT_CPU_FMA | KT_CPU_F16C)
#define NEEDS_AVX512 \
    (NEEDS_AVX2 | KT_CPU_AVX512F | KT_CPU_AVX512BW | KT_CPU_AVX512VL | KT_CPU_AVX512DQ)

#ifdef LLAMAFILE_AVX512_VBMI
static const struct kt_level level_avx512_vbmi = {
    .struct_size = sizeof(struct kt_level),
    .name = "avx512_vbmi",
    .cpu = NEEDS_AVX512 | KT_CPU_AVX512_VNNI | KT_CPU_AVX512_VBMI,
    .instruction = "vpdpbusd",
    .ops = &llamafile_ops_avx512_vbmi,
};
#endif

#ifdef LLAMAFILE_AVX512_VNNI
static const struct kt_level level_avx512_vnni = {
    .struct_size = sizeof(struct kt_level),
    .name = "avx512_vnni",
    .cpu = NEEDS_AVX512 | KT_CPU_AVX512_VNNI,
    .instruction = "vpdpbusd",
    .ops = &llamafile_ops_avx512_vnni,
};
#endif

#ifdef LLAMAFILE_AVX512
static const struct kt_level level_avx512 = {
    .struct_size = sizeof(struct kt_level),
    .name = "avx512",
    .cpu = NEEDS_AVX512,
    .instruction = "vpmaddubsw",
    .ops = &llamafile_ops_avx512,
};
#endif

#ifdef LLAMAFILE_AVX2
static const struct kt_level level_avx2 = {
    .struct_size = sizeof(struct kt_level),
    .name = "avx2",
    .cpu = NEEDS_AVX2,
    .instruction = "vpmaddubsw",
    .ops = &llamafile_ops_avx2,
};
#endif

#ifdef LLAMAFILE_DOTPROD
static const struct kt_level level_dotprod = {
    .struct_size = sizeof(struct kt_level),
    .name = "dotprod",
    .cpu = KT_CPU_NEON | KT_CPU_DOTPROD,
    .instruction = "sdot",
    .ops = &llamafile_ops_dotprod,
};
#endif

#ifdef LLAMAFILE_NEON
static const struct kt_level level_neon = {
    .struct_size = sizeof(struct kt_level),
    .name = "neon",
    .cpu = KT_CPU_NEON,
    .instruction = "smull",
    .ops = &llamafile_ops_neon,
};
#endif

static const struct kt_level level_scalar = {
    .struct_size = sizeof(struct kt_level),
    .name = "scalar",
    .instruction = "scalar",
    .ops = &llamafile_ops_scalar,
};

static const struct kt_level *const levels[] = {
#ifdef LLAMAFILE_AVX512_VBMI
    &level_avx512_vbmi,
#endif
#ifdef LLAMAFILE_AVX512_VNNI
    &level_avx512_vnni,
#endif
#ifdef LLAMAFILE_AVX512
    &level_avx512,
#endif
#ifdef LLAMAFILE_AVX2
    &level_avx2,
#endif
#ifdef LLAMAFILE_DOTPROD
    &level_dotprod,
#endif
#ifdef LLAMAFILE_NEON
    &level_neon,
#endif
    &level_scalar,
};

static enum kt_status open_instance(const struct kt_host *host, const struct kt_caps *caps,
                                    const struct kt_option_value *values, void **instance,
                                    struct kt_error *error)
{
    struct llamafile *self = host->allocate(host, sizeof *self);

    (void)values;
    if (!self)
        return kt_plugin_fail(error, KT_E_NOMEM, "llamafile: no memory for an instance");
    *self = (struct llamafile){ .host = host, .ahead = caps->stream_ahead ? caps->stream_ahead : 1024 };
    *instance = self;
    return KT_OK;
}

static void close_instance(void *instance)
{
    struct llamafile *self = instance;
    self->host->release(self->host, self, sizeof *self);
}

KT_PLUGIN_DEFINE(llamafile) = {
    KT_PLUGIN_HEADER(llamafile),
    .version = KT_VERSION,
    .description = "GGUF block formats, kept bit for bit; activations as int8 in groups of 32",
    .formats = "f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs mxfp4 "
               "iq1_s iq1_m iq2_xxs iq2_xs iq2_s iq3_xxs iq3_s tq1_0 tq2_0 nvfp4 "
               "q1_0 q2_0",
    .sources = "part of kt-kernel, Apache-2.0",
    .levels = levels,
    .n_levels = sizeof levels / sizeof *levels,
    .open = open_instance,
    .close = close_instance,
};

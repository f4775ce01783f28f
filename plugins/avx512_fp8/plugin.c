/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin avx512_fp8: weights of 8 bits as they were published. */
#include "plugins/avx512_fp8/avx512_fp8.h"

#include "plugins/common/instance8.h"

#include <kt/version.h>

/* Cooper Lake has BF16 but no VBMI: level avx512 there. */
#define NEEDS_BF16 (NEEDS_AVX512 | KT_CPU_AVX512_VNNI | KT_CPU_AVX512_VBMI | KT_CPU_AVX512_BF16)

#ifdef LEVEL_AMX
DEFINE_LEVEL(amx, NEEDS_BF16 | KT_CPU_AMX_TILE | KT_CPU_AMX_BF16, "tdpbf16ps");
#endif
#ifdef LEVEL_AVX512_BF16
DEFINE_LEVEL(avx512_bf16, NEEDS_BF16, "vdpbf16ps");
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

static const struct kt_option options[] = { OPTION_ROW_Y };

static enum kt_status open_instance(const struct kt_host *host, const struct kt_caps *caps,
                                    const struct kt_option_value *values, void **instance,
                                    struct kt_error *error)
{
    struct instance8 *self = NULL;
    enum kt_status status = open_instance8(host, caps, &values[0], &self, error);

    if (!status)
        *instance = self;
    return status;
}

KT_PLUGIN_DEFINE(avx512_fp8) = {
    KT_PLUGIN_HEADER(avx512_fp8),
    .version = KT_VERSION,
    .description = "FP8 weights as published, with scales for blocks, rows or groups (MXFP8), never quantised again",
    .formats = "f8_e4m3",
    .sources = "part of kt-kernel, Apache-2.0",
    .levels = levels,
    .n_levels = sizeof levels / sizeof *levels,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .open = open_instance,
    .close = close_instance,
};

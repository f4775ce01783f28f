/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin avx512_fp8: weights of 8 bits as they were published. */
#include "plugins/avx512_fp8/avx512_fp8.h"

/* Cooper Lake has BF16 but no VBMI: level avx512 there. */
#define NEEDS_PAIRS (NEEDS_AVX512 | KT_CPU_AVX512_VNNI | KT_CPU_AVX512_VBMI | KT_CPU_AVX512_BF16)
#include "plugins/common/plugin/levels16.h"

#include "plugins/common/plugin/options.h"

#include <kt/version.h>

KT_PLUGIN_DEFINE(avx512_fp8) = {
    KT_PLUGIN_HEADER(avx512_fp8),
    .version = KT_VERSION,
    .description =
        "FP8 weights as published, with scales for blocks, rows or groups (MXFP8), never quantised again",
    .formats = "f8_e4m3",
    .sources = "part of kt-kernel, Apache-2.0",
    .levels = levels,
    .n_levels = sizeof levels / sizeof *levels,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .open = open_instance,
    .close = close_instance,
};

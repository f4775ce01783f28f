/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin llamafile: GGUF's weight formats as they are, on any CPU. */
#include "plugins/llamafile/llamafile.h"

#define AMX_NEEDS (NEEDS_VBMI | KT_CPU_AVX512_BF16 | KT_CPU_AMX_TILE | KT_CPU_AMX_BF16)
#define AMX_INSTRUCTION "tdpbf16ps"
#include "plugins/common/plugin/levels8.h"

#include <kt/version.h>

static const struct kt_option options[] = {
    OPTION_ROW_Y,
    {.key = "repack",
     .type = KT_OPTION_BOOL,
     .default_text = "yes",
     .help = "no: weights stay in the mapped file and no copy is made of them, but a forward takes many "
             "times longer"},
};

static enum kt_status open_instance(const struct kt_host *host, const struct kt_caps *caps,
                                    const struct kt_option_value *values, void **instance,
                                    struct kt_error *error)
{
    struct instance8 *self = NULL;
    enum kt_status status = open_instance8(host, caps, &values[0], &self, error);
    if (status)
        return status;
    self->in_place = values[1].number == 0;
    *instance = self;
    return KT_OK;
}

KT_PLUGIN_DEFINE(llamafile) = {
    KT_PLUGIN_HEADER(llamafile),
    .version = KT_VERSION,
    .description = "GGUF block formats, kept bit for bit; activations as int8 in groups of 32, on amx many "
                   "rows as bfloat16",
    .formats = "f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs mxfp4 "
               "iq1_s iq1_m iq2_xxs iq2_xs iq2_s iq3_xxs iq3_s tq1_0 tq2_0 nvfp4 "
               "q1_0 q2_0",
    .sources = "part of kt-kernel, Apache-2.0",
    .levels = levels,
    .n_levels = sizeof levels / sizeof *levels,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .open = open_instance,
    .close = close_instance,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin rawint4: weights of 4 bits as they were published. */
#include "plugins/rawint4/rawint4.h"

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
    LEVEL(scalar, 0, "scalar"),
};

static const struct kt_option options[] = {
    OPTION_ROW_Y,
    {
        .key = "activations",
        .type = KT_OPTION_ENUM,
        .default_text = "bf16",
        .choices = "bf16|int8",
        .help = "int8: rounded to 8 bits, 32 with one scale: faster, and less exact; level amx keeps bf16",
    },
};

static enum kt_status open_instance(const struct kt_host *host, const struct kt_caps *caps,
                                    const struct kt_option_value *values, void **instance,
                                    struct kt_error *error)
{
    enum kt_status status =
        new_instance(BACKEND, sizeof(struct rawint4_instance), host, caps, &values[0], instance, error);
    if (status)
        return status;
    struct rawint4_instance *self = *instance;
    self->int8_rows = values[1].number != 0;
    return KT_OK;
}

static void close_instance(void *instance)
{
    free_instance(instance, sizeof(struct rawint4_instance));
}

KT_PLUGIN_DEFINE(rawint4) = {
    KT_PLUGIN_HEADER(rawint4),
    .version = KT_VERSION,
    .description = "4-bit weights as published, never quantized again: compressed-tensors, GPTQ, AWQ, MXFP4",
    .formats = "int4 f4_e2m1",
    .sources = "part of kt-kernel, Apache-2.0",
    .levels = levels,
    .n_levels = sizeof levels / sizeof *levels,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .open = open_instance,
    .close = close_instance,
};

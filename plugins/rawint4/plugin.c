/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin rawint4: weights of 4 bits as they were published. */
#include "plugins/rawint4/rawint4.h"

#include "plugins/common/plugin/levels16.h"

#include <kt/version.h>

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
    struct instance8 *self = NULL;
    enum kt_status status = open_instance8(host, caps, &values[0], &self, error);
    if (status)
        return status;
    self->int8_rows = values[1].number != 0;
    *instance = self;
    return KT_OK;
}

KT_PLUGIN_DEFINE(rawint4) = {
    KT_PLUGIN_HEADER(rawint4),
    .version = KT_VERSION,
    .description = "4-bit weights as published, never quantised again: compressed-tensors, GPTQ, AWQ, MXFP4",
    .formats = "int4 f4_e2m1",
    .sources = "part of kt-kernel, Apache-2.0",
    .levels = levels,
    .n_levels = sizeof levels / sizeof *levels,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .open = open_instance,
    .close = close_instance,
};

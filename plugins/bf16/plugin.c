/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin bf16: weights and activations as bfloat16, sums in float32. */
#include "plugins/bf16/bf16.h"

#include "plugins/common/plugin/levels16.h"

#include <kt/version.h>

enum { OPTION_Y, OPTION_WIDER };
static const struct kt_option options[] = {
    [OPTION_Y] = OPTION_ROW_Y,
    [OPTION_WIDER] =
        {
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

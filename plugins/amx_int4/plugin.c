/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin amx_int4: weights of 4 bits with group scales, on AMX or less. */
#include "plugins/amx_int4/amx_int4.h"

#include "plugins/common/plugin/levels8.h"

#include <kt/version.h>

enum { OPTION_GROUP_SIZE, OPTION_Y };
static const struct kt_option options[] = {
    [OPTION_GROUP_SIZE] = OPTION_GROUP4_SIZE,
    [OPTION_Y] = OPTION_ROW_Y,
};

static enum kt_status open_instance(const struct kt_host *host, const struct kt_caps *caps,
                                    const struct kt_option_value *values, void **instance,
                                    struct kt_error *error)
{
    struct instance8 *self = NULL;
    enum kt_status status = open_instance8(host, caps, &values[OPTION_Y], &self, error);
    if (status)
        return status;
    self->group_size = UINT32_C(32) << values[OPTION_GROUP_SIZE].number;
    *instance = self;
    return KT_OK;
}

KT_PLUGIN_DEFINE(amx_int4) = {
    KT_PLUGIN_HEADER(amx_int4),
    .version = KT_VERSION,
    .description = "4-bit weights with group scales, quantised from any source; int8 activations",
    .formats = "bf16 f16 f32 f64 f8_e4m3 f8_e5m2 and GGUF's blocks",
    .sources = "part of kt-kernel, Apache-2.0",
    .levels = levels,
    .n_levels = sizeof levels / sizeof *levels,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .open = open_instance,
    .close = close_instance,
};

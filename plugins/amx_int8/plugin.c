/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin amx_int8: weights as int8 with a scale per row, on AMX or less. */
#include "plugins/amx_int8/amx_int8.h"

#include "plugins/common/plugin/levels8.h"

#include "plugins/common/plugin/options.h"

#include <kt/version.h>

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

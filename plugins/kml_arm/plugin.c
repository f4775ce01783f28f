/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin kml_arm: weights as int8 with a scale per row, on ARM. */
#include "plugins/kml_arm/kml_arm.h"

#include "plugins/common/levels8.h"

#include "plugins/common/row_option.h"

#include <kt/version.h>

KT_PLUGIN_DEFINE(kml_arm) = {
    KT_PLUGIN_HEADER(kml_arm),
    .version = KT_VERSION,
    .description = "int8 weights with a scale per row, quantised from any source, on ARM; int8 activations",
    .formats = "bf16 f16 f32 f64 f8_e4m3 f8_e5m2 and GGUF's blocks",
    .sources = "part of kt-kernel, Apache-2.0",
    .levels = levels,
    .n_levels = sizeof levels / sizeof *levels,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .open = open_instance,
    .close = close_instance,
};

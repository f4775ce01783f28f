/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin rawint4: weights of 4 bits as they were published. */
#include "plugins/rawint4/rawint4.h"

#include "plugins/common/levels16.h"

#include "plugins/common/row_option.h"

#include <kt/version.h>

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

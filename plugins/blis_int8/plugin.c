/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin blis_int8: weights as int8 with a scale per row, by AMD's AOCL or own kernels. */
#include "plugins/blis_int8/blis_int8.h"

#include "plugins/common/plugin/levels8.h"

#include <kt/version.h>

enum { OPTION_LIBRARY, OPTION_Y };
static const struct kt_option options[] = {
    [OPTION_LIBRARY] =
        {
            .key = "library",
            .type = KT_OPTION_STRING,
            .default_text = LIBRARY_AUTO,
            .help =
                "AMD's AOCL for level aocl: auto, none, an absolute path or a name for the dynamic linker",
        },
    [OPTION_Y] = OPTION_ROW_Y,
};

static enum kt_status open_instance(const struct kt_host *host, const struct kt_caps *caps,
                                    const struct kt_option_value *values, void **instance,
                                    struct kt_error *error)
{
    struct blis_instance *self = host->allocate(host, sizeof *self);
    if (!self)
        return kt_plugin_fail(error, KT_E_NOMEM, BACKEND ": no memory for an instance");
    *self = (struct blis_instance){.library = values[OPTION_LIBRARY].text};
    self->common = make_instance8(host, caps, &values[OPTION_Y]);
    *instance = self;
    return KT_OK;
}

static void close_blis(void *instance)
{
    struct blis_instance *self = instance;
    self->common.host->release(self->common.host, self, sizeof *self);
}

/* Not before level aocl is to be taken: a library that nobody uses is not even opened. */
enum kt_status blis_int8_check_aocl(void *instance, struct kt_error *error)
{
    struct blis_instance *self = instance;
    return aocl_open(self->common.host, self->library, &self->aocl, error);
}

KT_PLUGIN_DEFINE(blis_int8) = {
    KT_PLUGIN_HEADER(blis_int8),
    .version = KT_VERSION,
    .description = "int8 weights with a scale per row, quantised from any source, by AMD's AOCL or its own "
                   "kernels; int8 activations",
    .formats = "bf16 f16 f32 f64 f8_e4m3 f8_e5m2 and GGUF's blocks",
    .sources = "part of kt-kernel, Apache-2.0",
    .levels = levels,
    .n_levels = sizeof levels / sizeof *levels,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .open = open_instance,
    .close = close_blis,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin/options_tmpl.h - open and close of a backend, and what all backends have in KT_PLUGIN_DEFINE.
 *
 * Parameters  BACKEND   its name, for messages
 *             INSTANCE  its instance, whose first part is a struct instance; by default that alone, and y is
 *                       the only option
 * Wanted      levels; with INSTANCE also OPTION_Y, the number of option y, options, and read_options, which
 *             fills in the rest of an instance
 */
#ifndef KT_PLUGINS_COMMON_PLUGIN_OPTIONS_TMPL_H
#define KT_PLUGINS_COMMON_PLUGIN_OPTIONS_TMPL_H

#ifndef BACKEND
#error "plugin/options_tmpl.h: define BACKEND"
#endif

#include "plugins/common/plugin/instance.h"

#include <kt/version.h>

#ifndef INSTANCE
#define INSTANCE struct instance
enum { OPTION_Y };
static const struct kt_option options[] = {[OPTION_Y] = OPTION_ROW_Y};

static void read_options(struct instance *self, const struct kt_caps *caps,
                         const struct kt_option_value *values)
{
    (void)self;
    (void)caps;
    (void)values;
}
#endif

static enum kt_status open_instance(const struct kt_host *host, const struct kt_caps *caps,
                                    const struct kt_option_value *values, void **instance,
                                    struct kt_error *error)
{
    enum kt_status status =
        new_instance(BACKEND, sizeof(INSTANCE), host, caps, &values[OPTION_Y], instance, error);
    if (status == KT_OK)
        read_options(*instance, caps, values);
    return status;
}

static void close_instance(void *instance)
{
    free_instance(instance, sizeof(INSTANCE));
}

#define PLUGIN_PARTS                                                                     \
    .version = KT_VERSION, .sources = "part of kt-kernel, Apache-2.0", .levels = levels, \
    .n_levels = sizeof levels / sizeof *levels, .options = options,                      \
    .n_options = sizeof options / sizeof *options, .open = open_instance, .close = close_instance

#endif

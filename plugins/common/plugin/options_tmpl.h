/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin/options_tmpl.h - options, open and close of a backend that has no option but y.
 *
 * Parameter  BACKEND  its name, for messages
 */
#ifndef KT_PLUGINS_COMMON_PLUGIN_OPTIONS_TMPL_H
#define KT_PLUGINS_COMMON_PLUGIN_OPTIONS_TMPL_H

#ifndef BACKEND
#error "plugin/options_tmpl.h: define BACKEND"
#endif

#include "plugins/common/plugin/instance.h"

static const struct kt_option options[] = {OPTION_ROW_Y};

static enum kt_status open_instance(const struct kt_host *host, const struct kt_caps *caps,
                                    const struct kt_option_value *values, void **instance,
                                    struct kt_error *error)
{
    return new_instance(BACKEND, sizeof(struct instance), host, caps, &values[0], instance, error);
}

static void close_instance(void *instance)
{
    free_instance(instance, sizeof(struct instance));
}

#endif

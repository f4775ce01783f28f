/* SPDX-License-Identifier: Apache-2.0 */
/* plugin/options.h - options and open of a backend that has no option but y. Include plugin/instance.h first.
 */
#ifndef KT_PLUGINS_COMMON_PLUGIN_OPTIONS_H
#define KT_PLUGINS_COMMON_PLUGIN_OPTIONS_H

static const struct kt_option options[] = {OPTION_ROW_Y};

static enum kt_status open_instance(const struct kt_host *host, const struct kt_caps *caps,
                                    const struct kt_option_value *values, void **instance,
                                    struct kt_error *error)
{
    struct instance8 *self = NULL;
    enum kt_status status = open_instance8(host, caps, &values[0], &self, error);
    if (status == KT_OK)
        *instance = self;
    return status;
}

#endif

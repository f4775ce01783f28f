/* SPDX-License-Identifier: Apache-2.0 */
/* config_dropin.h - drop-ins, which are read into a configuration of their own first: the draft. */
#ifndef KT_CORE_CONFIG_CONFIG_DROPIN_H
#define KT_CORE_CONFIG_CONFIG_DROPIN_H

#include "core/config/config_data.h"

/* Takes all of the draft or, where one of its plugins stands in another drop-in of its layer, nothing. */
enum kt_status kt_config_merge(struct kt_config *config, const struct kt_config *draft,
                               struct kt_error *error);

/* Marks the plugins of the draft's sections as broken, with the message as the reason; a draft without
 * sections: the plugin that has the file's name. */
enum kt_status kt_config_blame(struct kt_config *config, const struct kt_config *draft,
                               enum config_layer layer, const char *path, const char *message,
                               struct kt_error *error);

#endif

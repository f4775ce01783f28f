/* SPDX-License-Identifier: Apache-2.0 */
/* config_store.h - the growing configuration. Messages do not name the origin of a setting. */
#ifndef KT_CORE_CONFIG_CONFIG_STORE_H
#define KT_CORE_CONFIG_CONFIG_STORE_H

#include "core/config/config_data.h"

/* The setting, or NULL if it is not set. */
const struct kt_setting *kt_config_lookup(const struct kt_config *config, const char *section,
                                          const char *key);

enum kt_status kt_config_put(struct kt_config *config, enum config_layer layer, const char *section,
                             const char *key, const char *value, const char *origin, struct kt_error *error);

/* Adds a plugin whose section is in `file` ("": in no file), with the defaults of its keys. Two drop-ins of
 * one folder with the same section are an error. */
enum kt_status kt_config_declare(struct kt_config *config, enum config_layer layer, const char *name,
                                 const char *file, const char *origin, struct kt_error *error);

struct stored_plugin *kt_config_find_plugin(const struct kt_config *config, const char *name);

void kt_config_free(struct kt_config *config);

#endif

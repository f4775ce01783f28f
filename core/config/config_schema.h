/* SPDX-License-Identifier: Apache-2.0 */
/* config_schema.h - what may be set. */
#ifndef KT_CORE_CONFIG_CONFIG_SCHEMA_H
#define KT_CORE_CONFIG_CONFIG_SCHEMA_H

#include "core/config/config_data.h"

#include <kt/plugin.h>

extern const struct kt_option kt_config_core_options[];

extern const size_t kt_config_n_core_options;

extern const struct kt_option kt_config_plugin_options[]; /* of every [plugin.NAME] */

extern const size_t kt_config_n_plugin_options;

/* NAME of "plugin.NAME", or NULL if the section is not of that form. */
const char *kt_config_plugin_of(const char *section);

/* NAME of "tuned.NAME", or NULL. */
const char *kt_config_tuned_of(const char *section);

/* Is there such a section? The error suggests the nearest known plugin. */
enum kt_status kt_config_check_section(const struct kt_config *config, const char *section,
                                       struct kt_error *error);

/* Checks key and value: all of [core]; in a plugin's section only keys that the core reads. *help is the help
 * text of the option, or "". */
enum kt_status kt_config_check_setting(const char *section, const char *key, const char *value,
                                       const char **help, struct kt_error *error);

#endif

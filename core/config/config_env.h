/* SPDX-License-Identifier: Apache-2.0 */
/* config_env.h - settings of the environment, and "section.key=value" texts. */
#ifndef KT_CORE_CONFIG_CONFIG_ENV_H
#define KT_CORE_CONFIG_CONFIG_ENV_H

#include "core/config/config_data.h"

/* An environment variable that is set, not empty and may be trusted, or NULL. */
const char *kt_config_environment(const char *name);

enum kt_status kt_config_declare_texts(struct kt_config *config, const char *const *texts, size_t n,
                                       struct kt_error *error);

enum kt_status kt_config_read_texts(struct kt_config *config, const char *const *texts, size_t n,
                                    struct kt_error *error);

enum kt_status kt_config_read_environment(struct kt_config *config, struct kt_error *error);

#endif

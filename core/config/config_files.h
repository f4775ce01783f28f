/* SPDX-License-Identifier: Apache-2.0 */
/* config_files.h - the settings of files, one layer after another. */
#ifndef KT_CORE_CONFIG_CONFIG_FILES_H
#define KT_CORE_CONFIG_CONFIG_FILES_H

#include "core/config/config_data.h"

struct config_visit {
    void (*file)(void *data, const struct kt_config_file *file); /* NULL: stop at the first error */
    void *data;
};

/* Reads all files; params->file, if not NULL, replaces the last three layers. Returns the first error. */
enum kt_status kt_config_read_files(struct kt_config *config, const struct kt_config_params *params,
                                    const struct config_visit *visit, struct kt_error *error);

#endif

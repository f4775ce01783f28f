/* SPDX-License-Identifier: Apache-2.0 */
/* names.h - names of models in the place of paths. */
#ifndef KT_TOOL_MODEL_NAMES_H
#define KT_TOOL_MODEL_NAMES_H

#include "tools/kt/base/cli.h"

/* For kt_cli.models: then arguments and options that are called MODEL may be names. */
extern const struct kt_cli_models kt_models;

/* Where there is no file `*path`, but a model is registered by this name: sets *path to its path, and
 * cli->model. False after a message: the registry cannot be read. */
bool model_find_path(struct kt_cli *cli, const char **path);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* alone.h - a config.json without weights. */
#ifndef KT_TOOL_ALONE_H
#define KT_TOOL_ALONE_H

#include "tools/kt/base/cli.h"

/* The config.json that `path` is, or has, if there are no files of weights beside it; else NULL. Allocated.
 */
char *kt_config_alone(const struct kt_cli *cli, const char *path);
/* Shows what it says. Returns an exit code. */
int kt_inspect_config(struct kt_cli *cli, const char *path);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* stats.h - files of statistics, for the verbs that read them. */
#ifndef KT_TOOL_STATS_H
#define KT_TOOL_STATS_H

#include "tools/kt/base/cli.h"

/* Reads `n` files, at least one, and adds them up. Returns an exit code. */
int kt_stats_read(const struct kt_cli *cli, char *const *paths, int n, struct kt_stats **stats);

#endif

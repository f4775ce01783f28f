/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - whether SGLang, by what it logs, has its experts computed by kt_kernel. */
#ifndef KT_ENGINE_LAUNCH_WATCH_H
#define KT_ENGINE_LAUNCH_WATCH_H

#include "tools/kt/base/cli.h"

struct kt_watch {
    const struct kt_cli *cli;
    bool expects; /* its log would say so: level info, and the machine of rank 0 */
    bool is_active, is_ready, is_told;
    char cause[512]; /* a line that says why it is not */
};

/* A kt_process_line of a struct kt_watch: says it once the server is ready. */
void kt_watch_line(void *watch, const char *line);
/* When it has ended: says it again. */
void kt_watch_end(struct kt_watch *watch);

#endif

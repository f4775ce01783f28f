/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - other programs: what they print, and one that serves until it ends. */
#ifndef KT_ENGINE_LAUNCH_PROCESS_H
#define KT_ENGINE_LAUNCH_PROCESS_H

#include "tools/kt/base/cli.h"

/* Instead of an exit status: there is no such program. */
enum { KT_PROCESS_MISSING = -1 };

struct kt_captured {
    char *text; /* standard output; free() */
    size_t length;
    int status; /* exit status, 128 and the number of the signal that ended it, or KT_PROCESS_MISSING */
};

/* Runs a program, which `words[0]` names as execvp takes it, with `input` as its standard input, nothing
 * where that is NULL. Its messages are shown with -v only. The command ends if memory or processes run out.
 */
void kt_process_capture(const struct kt_cli *cli, const char *const *words, const char *input, size_t length,
                        struct kt_captured *captured);

/* Gets each line of either output, without its end, cut at 4 KiB; NULL when all there is has been read. */
typedef void kt_process_line(void *data, const char *line);

/* Runs a program whose outputs are this one's, byte for byte and at once. Signals that end programs are
 * handed on, and it is told to end if this process is killed. Returns its status, as above; a message was
 * printed where it could not be run. */
int kt_process_run(const struct kt_cli *cli, const char *const *words, kt_process_line *line, void *data);

#endif

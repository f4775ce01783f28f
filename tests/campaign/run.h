/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - runs of a command under attack, and what came of them. */
#ifndef KT_TESTS_CAMPAIGN_RUN_H
#define KT_TESTS_CAMPAIGN_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KT_MEMORY_KB = 64 << 10 };

struct bytes {
    uint8_t *data;
    size_t size;
    bool there;
};

/* What came of a run. */
struct outcome {
    int status;
    bool late;
    double cpu;
    long memory; /* KB */
    char words[4096];
};

struct tally {
    unsigned long tried, crashes, hangs, wrong, left;
};
extern struct tally kt_tally;
extern double kt_cpu_seconds; /* that a changed file may take; a hang is 30 times that */

double kt_now(void);
struct bytes kt_read_all(const char *path);
void kt_write_all(const char *path, const void *data, size_t size);
bool kt_is_same(const struct bytes *a, const struct bytes *b);

/* A run; `delay` not 0: killed after so many seconds. One that is late runs once more, four times as long: a
 * machine that stood still is no hang. */
struct outcome kt_run(char **command, double delay);
void kt_tell(const char *what, unsigned long long seed, const struct outcome *outcome);
/* Crashes and hangs; false: there is nothing more to say of this run. */
bool kt_judge(const struct outcome *outcome, unsigned long long seed);

/* power.c: `command`, which changes `folder`, runs until the power fails, between any two events of its
 * writers that shim.c notes in `notes`, and then once more. Not 0: it cannot be tried. */
int kt_power(const char *notes, const char *folder, char **command);

#endif

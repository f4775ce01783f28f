/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - what kt tune was asked for, and its rows. */
#ifndef KT_TOOL_TUNE_RUN_H
#define KT_TOOL_TUNE_RUN_H

#include "tools/kt/bench/run.h"
#include "tools/kt/tune/tune.h"

#define TUNE_MAX_LEVELS 16

/* The level to be kept for a backend; "": its own order. */
struct tune_choice {
    char backend[32], level[16];
};

/* What kt tune --attention was asked for. */
struct tune_attention {
    const char *shapes; /* a list of names; NULL: weights are tuned */
    const char *caches; /* of forms */
    uint64_t context;   /* tokens before those of a call */
};

/* kt bench's choice of weights and backends, and what is kt tune's own. */
struct tuning {
    struct bench bench; /* first: its function run gets this */
    double seconds;
    bool levels;
    struct tune_attention attention;
    const char *heads; /* of attention, the shape that is tuned */
    struct tune_choice choices[BENCH_MAX_NAMES];
    size_t n_choices;
};

/* Packs the weights. Returns an exit code, or BENCH_REFUSED. */
int tune_make_set(struct bench *bench, const char *backend, const struct bench_source *source,
                  struct bench_set *set);

/* Searches, keeps what is faster, and adds a row. */
int tune_subject(struct tuning *tuning, const struct tune_subject *subject);
int tune_set(struct tuning *tuning, const struct bench_set *set, const char *type);

/* A row for the second level, compared with the first. */
void tune_add_level(struct tuning *tuning, const char *backend, const char *const level[2], const char *type,
                    const struct tune_result *result);

/* ---- levels.c ---- */

/* Tunes the backend at each of its levels and compares them; notes in tuning->choices which is best. */
int tune_levels(struct tuning *tuning, const char *backend, const struct bench_source *source);

/* ---- attention.c ---- */

/* Each shape and form of the cache, on the backend that was named or the one that comes first. Returns an
 * exit code. */
int tune_attention(struct tuning *tuning);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* forward.h - a run of kt forward, and one layer of it. */
#ifndef KT_TOOLS_FORWARD_H
#define KT_TOOLS_FORWARD_H

#include "tools/kt/forward/record.h"
#include "tools/kt/forward/trace.h"

struct args {
    const char *model;
    const char *layers;
    const char *input;
    const char *output;
    const char *expected;
    const char *stats;
    const char *record;
    bool check;
    double tolerance, recorded_tolerance; /* < 0: not given */
};

/* The state of one run of the verb. */
struct forward_run {
    struct kt_cli *cli;
    struct args args;
    struct kt_checkpoint *model, *input, *expected; /* expected NULL: it is in the input */
    struct kt_context *context;
    uint64_t *layers;
    size_t n_layers;
    struct kt_output *output;
    struct kt_table *table;
    struct kt_save *save;
    struct kt_keeping keeping;
    size_t n_bad;
};

/* The result of a layer. */
struct forward_outcome {
    char backend[32], level[16];
    bool fallback;
    char rounding[48]; /* kt_plan.rounding */
    bool once;         /* run once only: neither time nor statistics are wanted */
    double us_per_token;
    float *values; /* [n_tokens][hidden_size] */
};

/* Runs the trace's batches through the model's layer with `backend`; NULL: the configured one. */
int forward_backend(struct forward_run *run, const struct kt_moe_info *moe, const struct kt_trace *trace,
                    const char *backend, struct forward_outcome *outcome);

#endif

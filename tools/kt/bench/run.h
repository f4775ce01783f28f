/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - what `kt bench` was asked for, and its output. */
#ifndef KT_TOOL_BENCH_RUN_H
#define KT_TOOL_BENCH_RUN_H

#include "tools/kt/bench/bench.h"
#include "tools/kt/forward/record.h"
#include "tools/kt/base/table.h"

#define BENCH_MAX_TOKEN_COUNTS 64
#define BENCH_MAX_NAMES 32

/* The command line's requests, checked. */
struct bench {
    /* Runs these weights on a backend: bench_backend, or kt tune's. */
    int (*run)(struct bench *bench, const char *backend, const struct bench_source *source);
    struct kt_cli *cli;
    struct kt_context *context;
    struct kt_context_info info;
    struct bench_shape shape;
    struct bench_shape linears[BENCH_MAX_NAMES]; /* of --linear */
    size_t n_linears;
    bool has_shapes;    /* of several: rows have their own */
    bool has_ended;     /* standard output takes no more */
    bool tells_levels;  /* of --levels: why one cannot run, which is told once */
    const char *layers; /* of the model, "0-3,5", that are like the one that runs; NULL: no model */
    struct bench_schedule schedule;
    uint64_t cycle_size;
    uint64_t tokens[BENCH_MAX_TOKEN_COUNTS];
    size_t n_token_counts;
    uint32_t activation;                                    /* of random experts */
    const struct bench_source_type *types[BENCH_MAX_NAMES]; /* none: the backend's usual one */
    size_t n_types;
    const char *backends[BENCH_MAX_NAMES];
    size_t n_backends;
    bool explicit_backends, levels;
    bool loads;                /* --load: packing is timed, not layers */
    bool asks_plan;            /* a model's layers run on the backend that would run them */
    char *names;               /* the text that `backends` points into */
    struct bench_trace *trace; /* NULL: calls are drawn */
    struct kt_keeping keeping;
    struct kt_output *output;
    struct kt_table *rows, *limits;
    size_t n_rows;
};

/* Makes the output's tables. */
void bench_begin(struct bench *bench);
/* Runs these weights on a backend, at each of its levels with --levels, and writes a row for each batch size.
 * A backend that was not named may refuse them. Returns an exit code, or BENCH_REFUSED after a message: a
 * named one does not take the model's layers. */
int bench_backend(struct bench *bench, const char *backend, const struct bench_source *source);

/* A backend does not take the weights, and the library has warned why: returns what bench_backend does. */
int bench_refuse(const struct bench *bench, const char *backend, const struct bench_source *source);

/* ---- load.c ---- */

/* The table of --load, and a row of it; as bench_backend. */
void bench_load_begin(struct bench *bench);
int bench_load(struct bench *bench, const char *backend, const struct bench_source *source);

/* ---- choose.c: what is to run. Functions return exit codes ---- */

/* Of the command line; NULL: not given. */
struct bench_request {
    const char *model, *layers, *shape, *linear, *trace, *tokens, *source_type, *backend, *level;
    uint32_t activation; /* enum kt_activation: 0, the usual one, if not given */
    size_t most;         /* numbers of tokens */
};

struct bench_model;

/* Splits "a,b" in place; the count, or 0 if a name is empty or there are too many. */
size_t bench_split(char *text, const char **names, size_t max);
/* The layers, sizes, formats and backends, and a context for them. bench_end either way. */
int bench_choose(struct bench *bench, const struct bench_request *request, struct bench_model *model);
void bench_end(struct bench *bench, struct bench_model *model);
/* Those that were named, or all that are loaded. */
int bench_find_backends(struct bench *bench, bool with_reference);
/* Each source type on each backend; that for each matrix. */
int bench_run_types(struct bench *bench);
int bench_run_linears(struct bench *bench);

/* ---- model.c: the layers of a checkpoint ---- */

/* Layers of one shape and one source format. */
struct bench_group {
    struct kt_moe_info moe;
    uint64_t layer; /* the first: its weights run */
    char *layers;
};

struct bench_model {
    struct kt_checkpoint *checkpoint;
    struct bench_group *groups;
    size_t n_groups;
};

/* Opens the checkpoint and groups its layers, those of the list or all. Returns an exit code. */
int bench_model_open(struct kt_cli *cli, const char *path, const char *layers, struct bench_model *model);
void bench_model_shape(const struct bench_group *group, struct bench_shape *shape);
void bench_model_close(struct bench_model *model);
/* Runs every group on the named backends, or on the one that would run it; one that cannot run leaves the
 * others to run. Returns an exit code. */
int bench_model_run(struct bench *bench, const struct bench_model *model);

#endif

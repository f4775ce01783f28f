/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weights.c - packed layers and linears for kt tune. As in kt bench, experts take turns, too; what a
 * call does are the experts that it touches, which routing draws.
 */
#include "tools/kt/tune/tune.h"

#include <stdlib.h>
#include <string.h>

/* Calls of one batch size. */
struct point {
    struct bench_calls calls;
    void *output;
};

struct weights {
    const struct bench_set *set;
    struct point point[TUNE_MAX_POINTS];
    size_t n_points;
};

static enum kt_status ask(void *data, uint32_t index, struct kt_tunable_info *info, struct kt_error *error)
{
    const struct bench_set *set = ((struct weights *)data)->set;
    return set->layers ? kt_layer_tunable(set->layers[0], index, info, error)
                       : kt_linear_tunable(set->linears[0], index, info, error);
}

static enum kt_status set_value(void *data, const char *name, uint64_t value, struct kt_error *error)
{
    const struct bench_set *set = ((struct weights *)data)->set;
    enum kt_status status = KT_OK;
    for (uint32_t i = 0; i < set->n_copies && status == KT_OK; i++)
        status = set->layers ? kt_layer_tune(set->layers[i], name, value, error)
                             : kt_linear_tune(set->linears[i], name, value, error);
    return status;
}

static enum kt_status call(void *data, size_t p, double *time, double *amount, struct kt_error *error)
{
    struct weights *weights = data;
    struct point *point = &weights->point[p];
    uint32_t copy = bench_calls_next(&point->calls);
    double begin = bench_now();
    enum kt_status status = bench_set_forward(weights->set, copy, &point->calls.forward, error);
    *time = bench_now() - begin;
    *amount = point->calls.n_touched ? point->calls.n_touched : 1;
    return status;
}

static void make_point(const struct kt_cli *cli, const struct bench_set *set, uint64_t n_tokens,
                       struct point *point)
{
    size_t size = (size_t)n_tokens * set->output_size * sizeof(float);
    bench_calls_create(cli, set, NULL, set->n_copies, (uint32_t)n_tokens, &point->calls);
    point->output = kt_cli_alloc(cli, size, 1);
    memset(point->output, 1, size);
    point->calls.forward.output = point->output;
    point->calls.forward.output_dtype = set->linears != NULL ? KT_DTYPE_F32 : KT_DTYPE_BF16;
}

void tune_weights_create(const struct kt_cli *cli, const struct bench_set *set, const char *format,
                         const uint64_t *tokens, size_t n_points, struct tune_subject *subject)
{
    struct weights *weights = kt_cli_alloc(cli, 1, sizeof *weights);
    weights->set = set;
    weights->n_points = n_points;
    for (size_t p = 0; p < n_points; p++)
        make_point(cli, set, tokens[p], &weights->point[p]);
    *subject = (struct tune_subject){.data = weights,
                                     .n_copies = set->n_copies,
                                     .backend = set->backend,
                                     .level = set->level,
                                     .format = format,
                                     .tunable = ask,
                                     .tune = set_value,
                                     .call = call};
}

void tune_weights_destroy(struct tune_subject *subject)
{
    struct weights *weights = subject->data;
    for (size_t p = 0; weights && p < weights->n_points; p++) {
        bench_calls_destroy(&weights->point[p].calls);
        free(weights->point[p].output);
    }
    free(weights);
    subject->data = NULL;
}

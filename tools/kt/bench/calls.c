/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls.c - the calls of the layer: drawn at random, or from a trace.
 *
 * The ids of a recorded batch say which tokens share an expert. As in route.c, each call replaces
 * them by the least recently used experts of the copy. So each expert gets as many rows as were recorded,
 * and weights come from memory, as in a model of many layers.
 */
#include "tools/kt/bench/bench.h"

#include <stdlib.h>

void bench_calls_create(const struct kt_cli *cli, const struct bench_set *set,
                        const struct bench_trace *trace, uint32_t n_copies, uint32_t n_tokens,
                        struct bench_calls *calls)
{
    size_t choices = (size_t)n_tokens * set->top_k;
    *calls = (struct bench_calls){.trace = trace, .forward = KT_FORWARD_INIT};
    bench_route_create(cli, &calls->route, set->n_experts, set->top_k, n_copies);
    calls->ids = kt_cli_alloc(cli, choices, sizeof *calls->ids);
    if (trace != NULL)
        bench_route_widen(cli, &calls->route, trace->n_labels);
    else
        calls->weights = kt_cli_alloc(cli, choices, sizeof *calls->weights);
    if (trace == NULL || !trace->has_input) {
        calls->input = kt_cli_alloc(cli, (size_t)n_tokens * set->input_size, sizeof *calls->input);
        bench_inputs(n_tokens, set->input_size, calls->input);
    }
    calls->forward.n_tokens = n_tokens;
    calls->forward.top_k = set->top_k;
    calls->forward.expert_ids = calls->ids;
    calls->forward.router_weights = calls->weights;
    calls->forward.input = calls->input;
    calls->forward.input_dtype = KT_DTYPE_BF16;
}

void bench_calls_destroy(struct bench_calls *calls)
{
    bench_route_destroy(&calls->route);
    free(calls->ids);
    free(calls->weights);
    free(calls->input);
    *calls = (struct bench_calls){.trace = NULL};
}

/* The next recorded batch of this size; there is one. */
static const struct bench_batch *find_batch(struct bench_calls *calls)
{
    const struct bench_trace *trace = calls->trace;
    const struct bench_batch *batch;
    do
        batch = &trace->batches[calls->next++ % trace->n_batches];
    while (batch->n_tokens != calls->forward.n_tokens);
    return batch;
}

uint32_t bench_calls_next(struct bench_calls *calls)
{
    struct kt_forward *forward = &calls->forward;
    uint32_t copy;
    if (calls->trace == NULL) {
        calls->n_touched =
            bench_route_next(&calls->route, forward->n_tokens, calls->ids, calls->weights, &copy);
        calls->n_rows = (uint64_t)forward->n_tokens * forward->top_k;
        return copy;
    }
    const struct bench_batch *batch = find_batch(calls);
    const struct kt_trace *layer = batch->layer;
    uint64_t n = (uint64_t)batch->n_tokens * layer->top_k, first = batch->first * layer->top_k;
    calls->n_touched = bench_route_replay(&calls->route, layer->ids + first, n, calls->ids, &copy);
    calls->n_rows = 0;
    for (uint64_t i = 0; i < n; i++)
        calls->n_rows += calls->ids[i] >= 0;
    forward->top_k = layer->top_k;
    forward->router_weights = layer->weights + first;
    if (calls->input == NULL) {
        uint64_t element = layer->input_dtype == KT_DTYPE_F32 ? 4 : 2;
        forward->input = (const char *)layer->input + batch->first * layer->hidden_size * element;
        forward->input_dtype = layer->input_dtype;
    }
    return copy;
}

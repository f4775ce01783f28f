/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - recorded batches for kt bench: their sizes, and whether they fit the layer. */
#include "tools/kt/bench/bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LABELS 65536 /* experts that a layer may have */
#define MAX_BATCH_TOKENS 65536

/* By batch, then by layer: the order in which a model computes them. */
static void list_batches(const struct kt_cli *cli, struct bench_trace *trace)
{
    uint32_t longest = 0;
    size_t n = 0;
    uint64_t *first = kt_cli_alloc(cli, trace->n_layers, sizeof *first);
    for (size_t l = 0; l < trace->n_layers; l++) {
        n += trace->layers[l].n_batches;
        longest = trace->layers[l].n_batches > longest ? trace->layers[l].n_batches : longest;
    }
    trace->batches = kt_cli_alloc(cli, n, sizeof *trace->batches);
    for (uint32_t b = 0; b < longest; b++)
        for (size_t l = 0; l < trace->n_layers; l++) {
            const struct kt_trace *layer = &trace->layers[l];
            if (b >= layer->n_batches)
                continue;
            trace->batches[trace->n_batches++] =
                (struct bench_batch){.layer = layer, .first = first[l], .n_tokens = layer->batch[b]};
            first[l] += layer->batch[b];
        }
    free(first);
}

/* Checks what all layers must have in common. */
static int describe(const struct kt_cli *cli, const char *path, struct bench_trace *trace)
{
    trace->has_input = trace->layers[0].input != NULL;
    trace->hidden_size = trace->layers[0].hidden_size;
    for (size_t l = 0; l < trace->n_layers; l++) {
        const struct kt_trace *layer = &trace->layers[l];
        if ((layer->input != NULL) != trace->has_input || layer->hidden_size != trace->hidden_size)
            return kt_cli_error(cli,
                                "%s: hidden states of layer %" PRIu64 " have another size than those of "
                                "layer %" PRIu64 ", or are missing",
                                path, layer->layer, trace->layers[0].layer);
        trace->top_k = layer->top_k > trace->top_k ? layer->top_k : trace->top_k;
        for (uint64_t i = 0; i < (uint64_t)layer->n_tokens * layer->top_k; i++) {
            if (layer->ids[i] >= MAX_LABELS)
                return kt_cli_error(cli,
                                    "%s: tensor layers.%" PRIu64 ".topk_ids: token %" PRIu64 ", slot %" PRIu64
                                    " asks for expert %" PRId64 "; a layer has at most %d",
                                    path, layer->layer, i / layer->top_k, i % layer->top_k, layer->ids[i],
                                    MAX_LABELS);
            if (layer->ids[i] >= (int64_t)trace->n_labels)
                trace->n_labels = (uint32_t)layer->ids[i] + 1;
        }
    }
    return KT_EXIT_OK;
}

static int open_trace(struct kt_cli *cli, const char *path, struct bench_trace *trace)
{
    struct kt_checkpoint *file;
    uint64_t *layers;
    int code = kt_cli_checkpoint(cli, path, &file);
    if (code != KT_EXIT_OK)
        return code;
    *trace = (struct bench_trace){.n_labels = 1};
    size_t n = kt_trace_layers(cli, file, &layers);
    if (n == 0)
        code = kt_cli_error(cli, "%s holds no tensor layers.N.topk_ids: it is not a trace", path);
    else
        trace->layers = kt_cli_alloc(cli, n, sizeof *trace->layers);
    for (size_t l = 0; l < n && code == KT_EXIT_OK; l++) {
        code = kt_trace_read_routing(cli, file, layers[l], &trace->layers[l]);
        trace->n_layers += code == KT_EXIT_OK;
    }
    free(layers);
    kt_checkpoint_close(file);
    if (code == KT_EXIT_OK)
        code = describe(cli, path, trace);
    if (code == KT_EXIT_OK)
        list_batches(cli, trace);
    else
        bench_trace_close(trace);
    return code;
}

void bench_trace_close(struct bench_trace *trace)
{
    for (size_t l = 0; l < trace->n_layers; l++)
        kt_trace_free(&trace->layers[l]);
    free(trace->layers);
    free(trace->batches);
    *trace = (struct bench_trace){.n_layers = 0};
}

/* Collects the sizes in the trace, ascending; returns their number, or max + 1. */
static size_t list_sizes(const struct bench_trace *trace, uint64_t *sizes, size_t max)
{
    size_t n = 0;
    for (size_t b = 0; b < trace->n_batches; b++) {
        size_t at = 0;
        while (at < n && sizes[at] < trace->batches[b].n_tokens)
            at++;
        if (at < n && sizes[at] == trace->batches[b].n_tokens)
            continue;
        if (n == max)
            return max + 1;
        memmove(sizes + at + 1, sizes + at, (n - at) * sizeof *sizes);
        sizes[at] = trace->batches[b].n_tokens;
        n++;
    }
    return n;
}

static bool has_size(const struct bench_trace *trace, uint64_t n_tokens)
{
    for (size_t b = 0; b < trace->n_batches; b++)
        if (trace->batches[b].n_tokens == n_tokens)
            return true;
    return false;
}

/* Puts all sizes of the trace into `sizes`, or checks the requested ones. */
static int choose_sizes(const struct kt_cli *cli, const struct bench_trace *trace, uint64_t *sizes,
                        size_t max, size_t *n)
{
    for (size_t i = 0; i < *n; i++)
        if (!has_size(trace, sizes[i]))
            return kt_cli_usage(cli, "--tokens: the trace holds no batch of %" PRIu64 " tokens", sizes[i]);
    if (*n == 0)
        *n = list_sizes(trace, sizes, max);
    if (*n > max)
        return kt_cli_usage(cli, "the trace holds batches of over %zu sizes: choose some by --tokens", max);
    for (size_t i = 0; i < *n; i++)
        if (sizes[i] > MAX_BATCH_TOKENS)
            return kt_cli_usage(cli,
                                "the trace holds a batch of %" PRIu64 " tokens; a call has 1 to %d: choose "
                                "others by --tokens",
                                sizes[i], MAX_BATCH_TOKENS);
    return KT_EXIT_OK;
}

int bench_trace_choose(struct kt_cli *cli, const char *path, struct bench_trace *trace,
                       struct bench_shape *shape, uint64_t *sizes, size_t max, size_t *n)
{
    int code = open_trace(cli, path, trace);
    if (code == KT_EXIT_OK)
        code = choose_sizes(cli, trace, sizes, max, n);
    if (code != KT_EXIT_OK)
        return code;
    if (trace->has_input && trace->hidden_size != shape->hidden_size)
        return kt_cli_usage(cli,
                            "%s was recorded with hidden size %" PRIu64 ", the shape has %" PRIu64
                            ": give the model's by --shape H,I,E,K",
                            path, trace->hidden_size, shape->hidden_size);
    if (trace->top_k > shape->n_experts)
        return kt_cli_usage(cli,
                            "%s asks for %" PRIu32 " experts a token, the shape has %" PRIu32
                            ": give the model's by --shape H,I,E,K",
                            path, trace->top_k, shape->n_experts);
    shape->top_k = trace->top_k;
    return KT_EXIT_OK;
}

/* The number of experts that the batch asks for; `seen` has a byte for each label, 0 before and after. */
static uint32_t count_touched(const struct bench_batch *batch, uint8_t *seen)
{
    const int64_t *ids = batch->layer->ids + batch->first * batch->layer->top_k;
    uint64_t n = (uint64_t)batch->n_tokens * batch->layer->top_k;
    uint32_t touched = 0;
    for (uint64_t i = 0; i < n; i++)
        if (ids[i] >= 0 && !seen[ids[i]]) {
            seen[ids[i]] = 1;
            touched++;
        }
    for (uint64_t i = 0; i < n; i++)
        if (ids[i] >= 0)
            seen[ids[i]] = 0;
    return touched;
}

int bench_trace_fit(const struct kt_cli *cli, const struct bench_trace *trace, const uint64_t *sizes,
                    size_t n_sizes, uint32_t n_experts)
{
    uint8_t *seen = kt_cli_alloc(cli, trace->n_labels, 1);
    uint32_t most = 0;
    for (size_t b = 0; b < trace->n_batches; b++)
        for (size_t i = 0; i < n_sizes; i++)
            if (sizes[i] == trace->batches[b].n_tokens) {
                uint32_t touched = count_touched(&trace->batches[b], seen);
                most = touched > most ? touched : most;
            }
    free(seen);
    if (most <= n_experts)
        return KT_EXIT_OK;
    return kt_cli_error(cli,
                        "a batch of the trace asks for %" PRIu32 " experts, the layer has %" PRIu32
                        ": give more by --shape H,I,E,K, or take smaller batches by --tokens",
                        most, n_experts);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* delta.h - states of Gated DeltaNet that come from memory, and calls of the gated delta rule. */
#ifndef KT_TOOL_BENCH_DELTA_H
#define KT_TOOL_BENCH_DELTA_H

#include "tools/kt/bench/cache.h"

/* Layers of one cache in turn. Of the shape kv_heads are heads of queries and keys, n_heads those of values.
 */
struct bench_delta {
    struct kt_cli *cli;
    struct kt_context *context;
    const struct bench_heads *shape;
    uint32_t n_sequences, n_tokens, n_layers;
    const struct kt_rows *rows;
    struct kt_kv *kv;
    struct kt_kv_sequence **sequences;
    struct kt_error *errors; /* of each thread */
    float *keys, *values;    /* queries are the keys; both the same for all sequences */
    float *factors, *outputs;
    char *memory, *scratch;
    uint64_t scratch_size; /* of each thread */
    uint32_t n_threads;
};

/* Bytes of a layer's states, which a call reads and writes, and its operations: of each number of a state the
 * decay and its part of S^T k, k d^T and S^T q count as three products and sums for a token. */
uint64_t bench_delta_bytes(const struct bench_delta *work);
double bench_delta_operations(const struct bench_delta *work);
uint32_t bench_delta_layers(const struct bench_delta *work, uint64_t cycle_size);

/* As those of cache.h. */
enum kt_status bench_delta_create(struct bench_delta *work, const char *backend, struct kt_error *error);
void bench_delta_destroy(struct bench_delta *work);
enum kt_status bench_delta_run(void *work, uint64_t i, double *time, struct kt_error *error);

#endif

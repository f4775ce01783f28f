/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce.c - output[t] = sum over shards, then over slots k in ascending order, of weight[t][k] * y[t][k]:
 * the same order for any number of threads, so the same bits. A block of 512 sums stays in L1. The loops are
 * simple, so that the compiler vectorises them; this stage is bound by memory.
 */
#include "core/forward/reduce.h"

#include "core/context/context.h"
#include "core/weights/decode/decode.h"
#include "core/weights/decode/encode.h"

#define BLOCK 512

static void add_f32(float *sum, const float *y, float weight, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        sum[i] += weight * y[i];
}

static void add_bf16(float *sum, const uint16_t *y, float weight, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        sum[i] += weight * kt_bf16_float(y[i]);
}

static void load(float *sum, const char *out, uint32_t dtype, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        sum[i] = dtype == KT_DTYPE_F32    ? ((const float *)(const void *)out)[i]
                 : dtype == KT_DTYPE_BF16 ? kt_bf16_float(((const uint16_t *)(const void *)out)[i])
                                          : kt_f16_float(((const uint16_t *)(const void *)out)[i]);
}

static void store(const float *sum, char *out, uint32_t dtype, uint64_t n)
{
    if (dtype == KT_DTYPE_F32)
        memcpy(out, sum, n * sizeof *sum);
    else if (dtype == KT_DTYPE_BF16)
        for (uint64_t i = 0; i < n; i++)
            ((uint16_t *)(void *)out)[i] = kt_to_bf16(sum[i]);
    else
        for (uint64_t i = 0; i < n; i++)
            ((uint16_t *)(void *)out)[i] = kt_to_f16(sum[i]);
}

static void add_before(float *sum, const char *rows, uint32_t dtype, uint64_t n)
{
    float before[BLOCK];
    load(before, rows, dtype, n);
    for (uint64_t i = 0; i < n; i++)
        sum[i] = before[i] + sum[i];
}

static void reduce_block(const struct kt_reduce *reduce, uint32_t token, uint64_t col, uint64_t n)
{
    const struct kt_layer *layer = reduce->layer;
    const struct kt_forward *forward = reduce->forward;
    uint32_t top_k = forward->top_k;
    uint64_t element = forward->output_dtype == KT_DTYPE_F32 ? 4 : 2;
    const float *weight = forward->router_weights + ((uint64_t)reduce->first_token + token) * top_k;
    char *out = (char *)forward->output +
                (int64_t)(reduce->first_token + (uint64_t)token) * forward->output_stride +
                (int64_t)(col * element);
    _Alignas(64) float sum[BLOCK];
    memset(sum, 0, n * sizeof *sum);
    for (uint32_t s = 0; s < layer->n_shards; s++) {
        const struct kt_shard *shard = &layer->shard[s];
        if (shard->begin == shard->end)
            continue;
        const char *y = (const char *)layer->context->arena.node[s].data + shard->buffers.y;
        for (uint32_t k = 0; k < top_k; k++) {
            uint32_t slot = token * top_k + k;
            const void *row = y + slot * shard->y_row_size;
            if (!reduce->route->used[slot])
                continue;
            if (shard->layout.y_dtype == KT_DTYPE_BF16)
                add_bf16(sum, (const uint16_t *)row + col, weight[k], n);
            else
                add_f32(sum, (const float *)row + col, weight[k], n);
        }
    }
    if (reduce->added)
        add_before(sum,
                   (const char *)reduce->added +
                       ((reduce->first_token + (uint64_t)token) * layer->params.hidden_size + col) * element,
                   forward->output_dtype, n);
    if (forward->accumulate)
        add_before(sum, out, forward->output_dtype, n);
    store(sum, out, forward->output_dtype, n);
}

void kt_reduce_part(const struct kt_reduce *reduce, uint32_t thread, uint32_t n_threads)
{
    uint64_t hidden = reduce->layer->params.hidden_size;
    uint64_t blocks = (hidden + BLOCK - 1) / BLOCK;
    uint64_t units = blocks * reduce->n_tokens;
    for (uint64_t u = units * thread / n_threads; u < units * (thread + 1) / n_threads; u++) {
        uint64_t col = u % blocks * BLOCK;
        reduce_block(reduce, (uint32_t)(u / blocks), col, hidden - col < BLOCK ? hidden - col : BLOCK);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce.c - output[t] = sum over shards, then over slots k in ascending order, of weight[t][k] * y[t][k]:
 * the same order for any number of threads, so the same bits. This stage is bound by memory.
 */
#include "core/forward/reduce.h"

#include "core/context/context.h"
#include "core/forward/sum.h"

#include <string.h>

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
    _Alignas(64) float sum[KT_SUM_BLOCK];
    memset(sum, 0, n * sizeof *sum);
    if (forward->accumulate)
        kt_sum_fetch(out, n * element);
    for (uint32_t s = 0; s < layer->n_shards; s++) {
        const struct kt_shard *shard = &layer->shard[s];
        if (shard->begin == shard->end)
            continue;
        const char *y = (const char *)layer->context->arena.node[s].data + shard->buffers.y;
        uint64_t y_element = shard->layout.y_dtype == KT_DTYPE_BF16 ? 2 : 4;
        for (uint32_t k = 0; k < top_k; k++) {
            uint32_t slot = token * top_k + k;
            const char *row = y + slot * shard->y_row_size;
            if (!reduce->route->used[slot])
                continue;
            kt_sum_fetch(row + shard->y_row_size + col * y_element, n * y_element); /* the next one */
            kt_sum_add(sum, row + col * y_element, shard->layout.y_dtype, weight[k], n);
        }
    }
    if (reduce->added)
        kt_sum_add_before(sum,
                          (const char *)reduce->added +
                              ((reduce->first_token + (uint64_t)token) * layer->params.hidden_size + col) *
                                  element,
                          forward->output_dtype, n);
    kt_sum_store(sum, out, forward->output_dtype, forward->accumulate != 0, n);
}

void kt_reduce_part(const struct kt_reduce *reduce, uint32_t thread, uint32_t n_threads)
{
    uint64_t hidden = reduce->layer->params.hidden_size;
    uint64_t blocks = (hidden + KT_SUM_BLOCK - 1) / KT_SUM_BLOCK;
    uint64_t units = blocks * reduce->n_tokens;
    for (uint64_t u = units * thread / n_threads; u < units * (thread + 1) / n_threads; u++) {
        uint64_t col = u % blocks * KT_SUM_BLOCK;
        reduce_block(reduce, (uint32_t)(u / blocks), col,
                     hidden - col < KT_SUM_BLOCK ? hidden - col : KT_SUM_BLOCK);
    }
}

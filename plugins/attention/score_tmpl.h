/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention/score_tmpl.h - scores by which rows are selected, in float32: of a block of 16 keys and a group
 * of heads the products, then their sum over the heads. Parameters: those of attention/product_tmpl.h.
 *
 * A token's queries stay in L1 or L2 while the keys of a job go by, which do the same for the next token.
 */
#ifndef KT_PLUGINS_ATTENTION_SCORE_TMPL_H
#define KT_PLUGINS_ATTENTION_SCORE_TMPL_H

#include "plugins/attention/product_tmpl.h"
#include "plugins/attention/unpack_tmpl.h"

#define SCORE_HEADS 32 /* of a group: their products with a block take 2 KB */

/* Adds n heads to the sums of a block. */
static void add_heads(const float *products, const float *weights, uint32_t n, float *sums)
{
    const vf zero = vf_set(0.0f);
    vf sum[VEC_PARTS];
    UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++)
        sum[v] = vf_load(sums + v * VEC_ROWS);
    for (uint32_t h = 0; h < n; h++, products += LINE) {
        const vf weight = vf_set(weights[h]);
        UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++)
            sum[v] = vf_fma(vf_max(vf_load(products + v * VEC_ROWS), zero), weight, sum[v]);
    }
    UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++)
        vf_store(sums + v * VEC_ROWS, sum[v]);
}

/* Scores of the block of rows at `row`. */
static void score_block(const struct kt_score *job, const float *queries, const float *weights, uint64_t row,
                        float *scores)
{
    const struct kt_kv_field *field = &job->keys->field;
    const uint64_t size = key_block_size(field);
    _Alignas(64) float products[SCORE_HEADS * LINE], sums[LINE] = {0};
    const uint8_t *block = find_page(job->keys, job->pages, row) + row % KT_KV_PAGE / LINE * size;
    for (uint32_t h = 0, n; h < job->n_heads; h += n) {
        n = job->n_heads - h < SCORE_HEADS ? job->n_heads - h : SCORE_HEADS;
        const struct product product = {
            .a = queries + (uint64_t)h * job->size,
            .a_stride = job->size,
            .b = block,
            .b_stride = 64,
            .c = products,
            .c_stride = LINE,
            .n = job->size,
            .segment = job->size,
            .pairs = field->dtype == KT_DTYPE_BF16,
            .ahead = block + size, /* the next block, or what follows in the page */
            .ahead_step = 64,
        };
        multiply(&product, n);
        add_heads(products, weights + h, n, sums);
    }
    memcpy(scores, sums, sizeof sums);
}

static void score_rows(void *instance, const struct kt_score *job)
{
    (void)instance;
    for (uint32_t t = 0; t < job->n_tokens; t++) {
        const float *queries =
            (const float *)(const void *)((const uint8_t *)job->queries + t * job->query_stride);
        const float *weights =
            (const float *)(const void *)((const uint8_t *)job->weights + t * job->weight_stride);
        float *scores = (float *)(void *)((uint8_t *)job->scores + t * job->score_stride);
        for (uint64_t row = job->begin; row < job->end; row += LINE)
            score_block(job, queries, weights, row, scores + (row - job->begin));
    }
}

#endif

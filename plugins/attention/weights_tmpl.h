/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention/weights_tmpl.h - queries as float32, and what scores become. Parameters: those of simd/simd.h.
 */
#ifndef KT_PLUGINS_ATTENTION_WEIGHTS_TMPL_H
#define KT_PLUGINS_ATTENTION_WEIGHTS_TMPL_H

#include "plugins/attention/attention.h"
#include "plugins/common/gemm/glu.h"
#include "plugins/common/simd/simd.h"

#include <math.h>

INLINE vf load_query_part(const uint8_t *from, uint32_t dtype)
{
    return dtype == KT_DTYPE_F32    ? vf_load(from)
           : dtype == KT_DTYPE_BF16 ? vf_from_bf16(from)
                                    : vf_from_half(from);
}

/* Query `query` of a job, which is head query % n_heads of token query / n_heads, times the scale; what is
 * left of `size` numbers is 0. */
static void load_query(const struct kt_attend *job, uint32_t query, uint64_t size, float *out)
{
    const struct kt_attention_shape *shape = &job->layout->shape;
    uint64_t element = job->query_dtype == KT_DTYPE_F32 ? 4 : 2, head = query % job->n_heads;
    uint32_t whole = shape->key_size / VEC_ROWS * VEC_ROWS, rest = shape->key_size - whole;
    const vf scale = vf_set(shape->scale);
    const uint8_t *from = (const uint8_t *)job->queries + query / job->n_heads * job->query_stride +
                          head * shape->key_size * element;
    memset(out + whole, 0, (size - whole) * sizeof *out);
    for (uint32_t i = 0; i < whole; i += VEC_ROWS)
        vf_store(out + i, vf_mul(load_query_part(from + i * element, job->query_dtype), scale));
    if (rest > 0) {
        uint8_t end[4 * LINE] = {0};
        memcpy(end, from + whole * element, rest * element);
        vf_store(out + whole, vf_mul(load_query_part(end, job->query_dtype), scale));
    }
}

/* cap * tanh(s / cap), by tanh x = 1 - 2 / (e^2x + 1): off by 2^-22 cap at most. */
INLINE vf cap_score(vf s, float cap)
{
    vf e = vf_exp(vf_mul(s, vf_set(2 / cap)));
    vf rest = vf_div(vf_set(2 * cap), vf_add(e, vf_set(1.0f)));
    return vf_sub(vf_set(cap), rest);
}

/* Scores first .. end - 1 of the chunk as they are compared: capped, -INFINITY where the query does not see
 * the key. Whole lines are read. Returns the largest; NaN counts as none. */
static float prepare_scores(const struct kt_attention_shape *shape, struct visible seen, uint32_t first,
                            uint32_t end, float *scores)
{
    for (uint32_t i = first; shape->softcap > 0 && i < end; i += VEC_ROWS)
        vf_store(scores + i, cap_score(vf_load(scores + i), shape->softcap));
    for (uint32_t i = first; i < seen.first; i++)
        scores[i] = -INFINITY;
    for (uint32_t i = seen.end; i < end; i++)
        scores[i] = -INFINITY;
    vf max = vf_set(-INFINITY);
    for (uint32_t i = first; i < end; i += VEC_ROWS)
        max = vf_max(vf_load(scores + i), max);
    float lanes[LINE], most = -INFINITY;
    vf_store(lanes, max);
    for (int i = 0; i < VEC_ROWS; i++)
        most = lanes[i] > most ? lanes[i] : most;
    return most;
}

/* e^x for x up to 0, as exact as vf_exp down to -87, and 2^-126 below. NaN is kept. */
INLINE vf exp_below_0(vf x)
{
    vf magic, rest = vf_exp_rest(vf_max(vf_set(-87.0f), x), &magic);
    return vf_scale_power(rest, magic);
}

/* Of scores of which none is a number above -INFINITY: NaN stays, others become 0. */
static float keep_nan(float *scores, uint32_t first, uint32_t end)
{
    float sum = 0;
    for (uint32_t i = first; i < end; i++) {
        scores[i] = isnan(scores[i]) ? scores[i] : 0;
        sum += scores[i];
    }
    return sum;
}

/* Lines from first to below end of a row: scores become weights. Their sum is that of vectors line by line,
 * then of the numbers in order. */
static float weigh_scores(float *scores, uint32_t first, uint32_t end, float most)
{
    const vf base = vf_set(most);
    vf sum[VEC_PARTS];
    float lanes[LINE], total = 0;
    for (unsigned v = 0; v < VEC_PARTS; v++)
        sum[v] = vf_set(0.0f);
    for (uint32_t i = first; i < end; i += LINE)
        UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++) {
            vf weight = exp_below_0(vf_sub(vf_load(scores + i + v * VEC_ROWS), base));
            vf_store(scores + i + v * VEC_ROWS, weight);
            sum[v] = vf_add(sum[v], weight);
        }
    for (unsigned v = 0; v < VEC_PARTS; v++)
        vf_store(lanes + v * VEC_ROWS, sum[v]);
    for (int i = 0; i < LINE; i++)
        total += lanes[i];
    return total;
}

/* A row of scores becomes weights; those of keys that the query does not see, and of what is left of the last
 * block, are 0. What they were in the sum is nothing beside the weight of the largest score, which is 1. */
static void make_weights(const struct kt_attend *job, uint32_t query, float *scores)
{
    const struct kt_attention_layout *layout = job->layout;
    struct partial *partial = (void *)((char *)job->partial + query * layout->partial_stride);
    struct visible seen = find_visible(job, query / job->n_heads);
    uint64_t start = job->begin / CHUNK * CHUNK;
    uint32_t first = seen.first / LINE * LINE, end = (uint32_t)round_up(seen.end, LINE);
    float most = prepare_scores(&layout->shape, seen, first, end, scores);
    *partial = (struct partial){
        .max = most,
        .sum = most > -INFINITY ? weigh_scores(scores, first, end, most)
                                : keep_nan(scores, seen.first, seen.end),
    };
    for (uint32_t i = (uint32_t)(job->begin - start); i < seen.first; i++)
        scores[i] = 0;
    for (uint32_t i = seen.end; i < round_up(job->end - start, LINE); i++)
        scores[i] = 0;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention/level_tmpl.h - sums of partial results, outputs, and a level's struct kt_attention_ops.
 * Parameters: those of simd/simd.h. Wanted: MOST_ACROSS_STRIPS, if fetch_strips is a tunable of the level:
 * the most of them.
 */
#ifndef KT_PLUGINS_ATTENTION_LEVEL_TMPL_H
#define KT_PLUGINS_ATTENTION_LEVEL_TMPL_H

#include "plugins/attention/attention.h"
#include "plugins/common/gemm/glu.h"
#include "plugins/common/simd/simd.h"

#include <math.h>
#include <stdbool.h>

static float exp_of(float x)
{
    float lanes[LINE];
    vf_store(lanes, vf_exp(vf_set(x)));
    return lanes[0];
}

static void merge_one(const struct kt_attention_layout *layout, struct partial *first,
                      const struct partial *second, float own, float other)
{
    if (second->sum == 0)
        return;
    if (first->sum == 0) {
        memcpy(first, second, layout->partial_stride);
        return;
    }
    float max = first->max > second->max ? first->max : second->max;
    float *to = (float *)(void *)((char *)first + PARTIAL_OUTPUT);
    const float *from = (const float *)(const void *)((const char *)second + PARTIAL_OUTPUT);
    for (uint32_t i = 0; i < layout->shape.value_size; i += VEC_ROWS)
        vf_store(to + i, vf_fma(vf_load(from + i), vf_set(other), vf_mul(vf_load(to + i), vf_set(own))));
    *first = (struct partial){max, first->sum * own + second->sum * other};
}

static void merge(void *instance, const struct kt_attention_merge *job)
{
    const uint64_t stride = job->layout->partial_stride;
    (void)instance;
    for (uint32_t q = 0, n; q < job->n_queries; q += n) {
        char *first = (char *)job->first + q * stride;
        const char *second = (const char *)job->second + q * stride;
        float less[LINE] = {0}, factor[LINE]; /* exp of the smaller maximum, without the larger one */
        n = job->n_queries - q < LINE ? job->n_queries - q : LINE;
        for (uint32_t i = 0; i < n; i++)
            less[i] = -fabsf(((const struct partial *)(const void *)(first + i * stride))->max -
                             ((const struct partial *)(const void *)(second + i * stride))->max);
        for (uint32_t i = 0; i < LINE; i += VEC_ROWS)
            vf_store(factor + i, vf_exp(vf_load(less + i)));
        for (uint32_t i = 0; i < n; i++) {
            struct partial *to = (struct partial *)(void *)(first + i * stride);
            const struct partial *from = (const struct partial *)(const void *)(second + i * stride);
            bool larger = from->max > to->max;
            merge_one(job->layout, to, from, larger ? factor[i] : 1, larger ? 1 : factor[i]);
        }
    }
}

/* n numbers of a row, which is filled up to whole lines. */
static void store_output(const float *row, uint32_t n, uint32_t dtype, uint8_t *out)
{
    uint8_t line[2 * LINE];
    if (dtype == KT_DTYPE_F32)
        memcpy(out, row, n * sizeof *row);
    for (uint32_t i = 0; dtype == KT_DTYPE_BF16 && i < n; i += LINE) {
        for (uint32_t v = 0; v < LINE; v += VEC_ROWS)
            vf_store_bf16(line + 2 * v, vf_load(row + i + v));
        memcpy(out + 2 * i, line, n - i < LINE ? 2 * (n - i) : sizeof line);
    }
    for (uint32_t i = 0; dtype == KT_DTYPE_F16 && i < n; i++)
        store_u16(out + 2 * i, round_to_half(row[i]));
}

/* o / l of a query whose weights have the sum l, with a sink or -INFINITY. */
static void finish_one(const struct kt_attention_finish *job, const struct partial *partial, float sink,
                       uint8_t *out)
{
    _Alignas(64) float row[1024 + LINE];
    uint32_t n = job->layout->shape.value_size;
    const float *from = (const float *)(const void *)((const char *)partial + PARTIAL_OUTPUT);
    if (partial->sum != 0) {
        float max = sink > partial->max ? sink : partial->max, own = 1, sum = partial->sum;
        if (sink != -INFINITY) {
            own = exp_of(partial->max - max);
            sum = sum * own + exp_of(sink - max);
        }
        const vf factor = vf_set(own / sum);
        memset(row + (n - 1) / LINE * LINE, 0, LINE * sizeof *row);
        for (uint32_t i = 0; i < n; i += VEC_ROWS)
            vf_store(row + i, vf_mul(vf_load(from + i), factor));
    } else {
        memset(row, 0, round_up(n, LINE) * sizeof *row);
    }
    store_output(row, n, job->output_dtype, out);
}

static void finish_query(const struct kt_attention_finish *job, uint32_t query, const struct partial *partial)
{
    uint64_t size = job->layout->shape.value_size * (job->output_dtype == KT_DTYPE_F32 ? 4u : 2u);
    uint32_t token = query / job->n_heads, head = query % job->n_heads;
    finish_one(job, partial, job->sinks ? job->sinks[head] : -INFINITY,
               (uint8_t *)job->output + token * job->output_stride + head * size);
}

static void finish(void *instance, const struct kt_attention_finish *job)
{
    (void)instance;
    for (uint32_t q = 0; q < job->n_tokens * job->n_heads; q++)
        finish_query(job, q, (const void *)((const char *)job->partial + q * job->layout->partial_stride));
}

static const struct kt_tunable tunables[] = {
    [TUNED_QUERIES] = TUNABLE_QUERIES,
#ifdef MOST_ACROSS_STRIPS
    [TUNED_STRIPS] = TUNABLE_STRIPS(MOST_ACROSS_STRIPS),
#endif
};
#define TUNABLES .tunables = tunables, .n_tunables = sizeof tunables / sizeof *tunables

/* A level that computes all in float32: includer's functions lay_out_floats() and attend_floats(). */
#define ATTENTION_OPS(level)                                \
    const struct kt_attention_ops attention_ops_##level = { \
        .struct_size = sizeof(struct kt_attention_ops),     \
        .layout = lay_out_floats,                           \
        .attend = attend_floats,                            \
        .merge = merge,                                     \
        .finish = finish,                                   \
        .score = score_rows,                                \
        TUNABLES,                                           \
    }

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* rows_norm.h - norms and gates. <kt/rows.h> has the formulas. */
#ifndef KT_PLUGINS_ATTENTION_ROWS_NORM_H
#define KT_PLUGINS_ATTENTION_ROWS_NORM_H

#include "plugins/attention/rows_block.h"
#include "plugins/common/gemm/glu.h"

#include <math.h>

#define NORM_SUMS 4 /* additions that do not wait for each other */

/* What is normed: the input, or the residual once the input is added. */
struct norm_part {
    const uint8_t *input, *gate;
    uint8_t *output, *residual;
    const uint8_t *x;
    uint32_t x_dtype;
    const uint8_t *next, *next_output; /* of a part that comes soon, or NULL */
};

#define NORM_AHEAD 4096 /* bytes of parts until that one */
#define NORM_LINE 64

/* Rows are in other cores' caches, as a rule: both what is read and what is written. */
INLINE void fetch_block(const uint8_t *at, uint32_t dtype, uint32_t c, uint32_t n, bool writes)
{
    const uint32_t size = (uint32_t)number_size(dtype);
    for (uint32_t i = c * size; at && i < (c + n) * size; i += NORM_LINE) {
        if (writes)
            PREFETCH_WRITE(at + i);
        else
            PREFETCH(at + i);
    }
}

/* residual += input for n numbers from c on. */
static inline void add_residual(const struct kt_rows_norm *job, const struct norm_part *part, uint32_t c,
                                uint32_t n)
{
    float copy[3][ROW_BLOCK];
    uint8_t *to = part->residual + 4 * (uint64_t)c;
    const float *x =
        read_block(part->input + c * number_size(job->input.dtype), job->input.dtype, n, 0.0f, copy[0]);
    const float *old = read_block(to, KT_DTYPE_F32, n, 0.0f, copy[1]);
    float *sum = begin_block(to, KT_DTYPE_F32, n, copy[2]);
    for (uint32_t i = 0; i < n; i += VEC_ROWS)
        vf_store(sum + i, vf_add(vf_load(old + i), vf_load(x + i)));
    end_block(to, KT_DTYPE_F32, n, sum);
}

/* The sum of all x - mean, or of their squares; adds the input to the residual first, where `add`. */
static inline float sum_part(const struct kt_rows_norm *job, const struct norm_part *part, bool squares,
                             float mean, bool add)
{
    float copy[ROW_BLOCK];
    vf sum[NORM_SUMS], shift = vf_set(mean);
    UNROLL_FOR (unsigned i = 0; i < NORM_SUMS; i++)
        sum[i] = vf_set(0.0f);
    for (uint32_t c = 0; c < job->size; c += ROW_BLOCK) {
        uint32_t n = ROW_BLOCK_OF(job->size - c), v = 0;
        if (add)
            add_residual(job, part, c, n);
        if (squares)
            fetch_block(part->next, job->input.dtype, c, n, part->next == part->next_output);
        const float *x = read_block(part->x + c * number_size(part->x_dtype), part->x_dtype, n, mean, copy);
        for (; v + NORM_SUMS <= ROW_VECTORS(n); v += NORM_SUMS)
            UNROLL_FOR (unsigned i = 0; i < NORM_SUMS; i++) {
                vf d = vf_sub(vf_load(x + (v + i) * VEC_ROWS), shift);
                sum[i] = squares ? vf_fma(d, d, sum[i]) : vf_add(sum[i], d);
            }
        for (; v < ROW_VECTORS(n); v++) {
            vf d = vf_sub(vf_load(x + v * VEC_ROWS), shift);
            sum[0] = squares ? vf_fma(d, d, sum[0]) : vf_add(sum[0], d);
        }
    }
    return vf_fold(vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
}

/* A block's numbers; weight, bias and gate may be NULL. */
struct norm_block {
    const float *x, *weight, *bias, *gate;
    float *y;
    uint32_t n;
};

/* plain: weights without an offset, and nothing else. */
INLINE void norm_block(const struct norm_block *b, float mean, float factor, float offset, bool plain)
{
    vf shift = vf_set(mean), times = vf_set(factor), more = vf_set(offset);
    for (uint32_t i = 0; i < b->n; i += VEC_ROWS) {
        vf y = vf_load(b->x + i);
        if (plain) {
            vf_store(b->y + i, vf_mul(vf_mul(y, times), vf_load(b->weight + i)));
            continue;
        }
        y = vf_mul(vf_sub(y, shift), times);
        if (b->weight)
            y = vf_mul(y, vf_add(more, vf_load(b->weight + i)));
        if (b->bias)
            y = vf_add(y, vf_load(b->bias + i));
        if (b->gate)
            y = vf_mul(y, vf_sigmoid_times(vf_load(b->gate + i), 1.0f));
        vf_store(b->y + i, y);
    }
}

static inline void scale_part(const struct kt_rows_norm *job, const struct norm_part *part, float mean,
                              float factor)
{
    float copy[5][ROW_BLOCK];
    bool plain =
        job->norm != KT_NORM_LAYER && job->weight && job->weight_offset == 0.0f && !job->bias && !part->gate;
    for (uint32_t c = 0; c < job->size; c += ROW_BLOCK) {
        uint32_t n = ROW_BLOCK_OF(job->size - c);
        uint8_t *to = part->output + c * number_size(job->output.dtype);
        if (part->next != part->next_output)
            fetch_block(part->next_output, job->output.dtype, c, n, true);
        struct norm_block b = {
            .x = read_block(part->x + c * number_size(part->x_dtype), part->x_dtype, n, 0.0f, copy[0]),
            .weight = job->weight ? read_block(job->weight + c, KT_DTYPE_F32, n, 0.0f, copy[1]) : NULL,
            .bias = job->bias ? read_block(job->bias + c, KT_DTYPE_F32, n, 0.0f, copy[2]) : NULL,
            .gate = part->gate ? read_block(part->gate + c * number_size(job->gate.dtype), job->gate.dtype, n,
                                            0.0f, copy[3])
                               : NULL,
            .y = begin_block(to, job->output.dtype, n, copy[4]),
            .n = n,
        };
        if (plain)
            norm_block(&b, mean, factor, job->weight_offset, true);
        else
            norm_block(&b, mean, factor, job->weight_offset, false);
        end_block(to, job->output.dtype, n, b.y);
    }
}

static void rows_norm(void *instance, const struct kt_rows_norm *job)
{
    (void)instance;
    bool adds = job->residual.data != NULL, layer = job->norm == KT_NORM_LAYER;
    float divisor = job->norm == KT_NORM_L2 ? 1.0f : (float)job->size;
    const uint64_t n = (uint64_t)job->n_rows * job->n_parts;
    const uint32_t ahead = 1 + NORM_AHEAD / (4 * job->size);
    for (uint32_t r = 0; r < job->n_rows; r++)
        for (uint32_t p = 0; p < job->n_parts; p++) {
            struct norm_part part = {
                .input = input_part(&job->input, r, p),
                .gate = job->gate.data ? input_part(&job->gate, r, p) : NULL,
                .output = output_part(&job->output, r, p),
                .residual = adds ? output_part(&job->residual, r, p) : NULL,
            };
            const uint64_t next = (uint64_t)r * job->n_parts + p + ahead;
            if (next < n) {
                const uint32_t row = (uint32_t)(next / job->n_parts), at = (uint32_t)(next % job->n_parts);
                part.next = input_part(&job->input, row, at);
                part.next_output = output_part(&job->output, row, at);
            }
            part.x = adds ? part.residual : part.input;
            part.x_dtype = adds ? KT_DTYPE_F32 : job->input.dtype;
            float mean = layer ? sum_part(job, &part, false, 0.0f, adds) / divisor : 0.0f;
            float squares = sum_part(job, &part, true, mean, adds && !layer);
            scale_part(job, &part, mean, job->scale / sqrtf(squares / divisor + job->eps));
        }
}

INLINE vf apply_gating(uint32_t gating, vf g)
{
    if (gating == KT_GATING_PLAIN)
        return g;
    if (gating == KT_GATING_SILU)
        return vf_sigmoid_times(g, 1.0f);
    if (gating == KT_GATING_GELU) { /* (1 + tanh x) / 2 = 1 / (1 + exp(-2x)); of 2 sqrt(2 / pi) */
        vf x =
            vf_mul(vf_mul(g, vf_set(-1.5957691216f)), vf_fma(vf_mul(g, g), vf_set(0.044715f), vf_set(1.0f)));
        return vf_div(g, vf_add(vf_set(1.0f), vf_exp(x)));
    }
    return vf_div(vf_set(1.0f), vf_add(vf_set(1.0f), vf_exp(vf_sub(vf_set(0.0f), g))));
}

/* One number gates all of a part. */
static inline vf gate_of_part(const struct kt_rows_gate *job, uint32_t row, uint32_t part)
{
    float lane[VEC_ROWS];
    if (!job->gate.data)
        return vf_set(1.0f);
    vf_store(lane, load_some(input_part(&job->gate, row, part), job->gate.dtype, 1));
    return apply_gating(job->gating, vf_set(lane[0]));
}

/* Numbers c .. c + n of a part; g: its gate, if it has one of its own. */
static inline void gate_block(const struct kt_rows_gate *job, uint32_t row, uint32_t part, uint32_t c,
                              uint32_t n, vf g)
{
    float copy[4][ROW_BLOCK];
    bool each = job->gate.data && !job->one_gate;
    uint8_t *to = output_part(&job->output, row, part) + c * number_size(job->output.dtype);
    const float *x = read_block(input_part(&job->input, row, part) + c * number_size(job->input.dtype),
                                job->input.dtype, n, 0.0f, copy[0]);
    const float *gate = each
                            ? read_block(input_part(&job->gate, row, part) + c * number_size(job->gate.dtype),
                                         job->gate.dtype, n, 0.0f, copy[1])
                            : NULL;
    const float *old = job->accumulate ? read_block(to, job->output.dtype, n, 0.0f, copy[2]) : NULL;
    float *y = begin_block(to, job->output.dtype, n, copy[3]);
    for (uint32_t i = 0; i < n; i += VEC_ROWS) {
        vf f = gate ? apply_gating(job->gating, vf_load(gate + i)) : g, v = vf_load(x + i);
        vf_store(y + i, old ? vf_fma(v, f, vf_load(old + i)) : vf_mul(v, f));
    }
    end_block(to, job->output.dtype, n, y);
}

static void rows_gate(void *instance, const struct kt_rows_gate *job)
{
    (void)instance;
    for (uint32_t r = 0; r < job->n_rows; r++)
        for (uint32_t p = 0; p < job->n_parts; p++) {
            vf g = job->one_gate || !job->gate.data ? gate_of_part(job, r, p) : vf_set(0.0f);
            for (uint32_t c = 0; c < job->size; c += ROW_BLOCK)
                gate_block(job, r, p, c, ROW_BLOCK_OF(job->size - c), g);
        }
}

#endif

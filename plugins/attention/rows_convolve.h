/* SPDX-License-Identifier: Apache-2.0 */
/* rows_convolve.h - causal convolutions, and the decays of Gated DeltaNet. <kt/rows.h> has the formulas. */
#ifndef KT_PLUGINS_ATTENTION_ROWS_CONVOLVE_H
#define KT_PLUGINS_ATTENTION_ROWS_CONVOLVE_H

#include "plugins/attention/rows_block.h"
#include "plugins/common/gemm/glu.h"

#define CONVOLVE_WIDTH 8

INLINE float *state_row(const struct kt_rows_convolve *job, uint32_t i, uint32_t c)
{
    return (float *)(void *)((uint8_t *)job->state + (int64_t)i * job->state_stride) + c;
}

/* Inputs of channels c .. c + n at row t, which is the state's below 0. */
static inline const float *find_inputs(const struct kt_rows_convolve *job, int64_t t, uint32_t c, uint32_t n,
                                       float *copy)
{
    if (t < 0)
        return read_block(state_row(job, (uint32_t)(t + job->width - 1), c), KT_DTYPE_F32, n, 0.0f, copy);
    return read_block(input_part(&job->input, (uint32_t)t, 0) + c * number_size(job->input.dtype),
                      job->input.dtype, n, 0.0f, copy);
}

/* What stands still while rows pass: n channels' weights, and bias or zeros. */
struct taps {
    float weight_copy[CONVOLVE_WIDTH][ROW_BLOCK], bias_copy[ROW_BLOCK];
    const float *weight[CONVOLVE_WIDTH], *bias;
};

static inline void find_taps(const struct kt_rows_convolve *job, uint32_t c, uint32_t n, struct taps *taps)
{
    for (uint32_t i = 0; i < job->width; i++) {
        const uint8_t *weight = (const uint8_t *)job->weight + (int64_t)i * job->weight_stride;
        taps->weight[i] = read_block(weight + 4 * (uint64_t)c, KT_DTYPE_F32, n, 0.0f, taps->weight_copy[i]);
    }
    memset(taps->bias_copy, 0, sizeof taps->bias_copy);
    taps->bias = taps->bias_copy;
    if (job->bias)
        taps->bias = read_block(job->bias + c, KT_DTYPE_F32, n, 0.0f, taps->bias_copy);
}

INLINE void convolve_block(const struct taps *taps, const float *const *x, uint32_t n, unsigned width,
                           bool plain, float *y)
{
    for (uint32_t i = 0; i < n; i += VEC_ROWS) {
        vf sum = vf_load(taps->bias + i);
        UNROLL_FOR (unsigned j = 0; j < width; j++)
            sum = vf_fma(vf_load(taps->weight[j] + i), vf_load(x[j] + i), sum);
        vf_store(y + i, plain ? sum : vf_sigmoid_times(sum, 1.0f));
    }
}

/* The last width - 1 inputs become the state: row i of it is older than what it is made of. */
static inline void keep_inputs(const struct kt_rows_convolve *job, uint32_t c, uint32_t n)
{
    float copy[ROW_BLOCK];
    for (uint32_t i = 0; i + 1 < job->width; i++) {
        const float *x = find_inputs(job, (int64_t)job->n_rows - job->width + 1 + i, c, n, copy);
        memmove(state_row(job, i, c), x, n * sizeof *x);
    }
}

static void rows_convolve(void *instance, const struct kt_rows_convolve *job)
{
    (void)instance;
    float copy[CONVOLVE_WIDTH][ROW_BLOCK], result[ROW_BLOCK];
    const float *x[CONVOLVE_WIDTH];
    struct taps taps;
    for (uint32_t c = 0; c < job->n_channels; c += ROW_BLOCK) {
        const uint32_t n = ROW_BLOCK_OF(job->n_channels - c);
        find_taps(job, c, n, &taps);
        for (uint32_t t = 0; t < job->n_rows; t++) {
            uint8_t *to = output_part(&job->output, t, 0) + c * number_size(job->output.dtype);
            float *y = begin_block(to, job->output.dtype, n, result);
            for (uint32_t j = 0; j < job->width; j++)
                x[j] = find_inputs(job, (int64_t)t - job->width + 1 + j, c, n, copy[j]);
            if (job->width == 4)
                convolve_block(&taps, x, n, 4, job->plain != 0, y);
            else
                convolve_block(&taps, x, n, job->width, job->plain != 0, y);
            end_block(to, job->output.dtype, n, y);
        }
        keep_inputs(job, c, n);
    }
}

/* ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|). With u = e^-|x| and s = u / (2 + u), at most 1/3, ln(1 + u) is
 * 2 (s + s^3 / 3 + s^5 / 5 + ...): the first term that is left out is below 2^-29 of the sum. */
INLINE vf vf_softplus(vf x)
{
    vf zero = vf_set(0.0f), u = vf_exp(vf_sub(zero, vf_max(x, vf_sub(zero, x))));
    vf s = vf_div(u, vf_add(vf_set(2.0f), u)), square = vf_mul(s, s);
    vf sum = vf_set(1.0f / 15);
    for (int i = 13; i > 0; i -= 2)
        sum = vf_fma(sum, square, vf_set(1.0f / (float)i));
    return vf_fma(vf_add(s, s), sum, vf_max(zero, x)); /* max gives x if that is NaN */
}

static inline void decay_block(const struct kt_rows_decay *job, uint32_t row, uint32_t c, uint32_t n)
{
    float copy[6][ROW_BLOCK];
    float *log_to = (float *)(void *)((uint8_t *)job->log_decay + (int64_t)row * job->log_decay_stride) + c;
    float *beta_to = (float *)(void *)((uint8_t *)job->beta + (int64_t)row * job->beta_stride) + c;
    const float *x = read_block(input_part(&job->x, row, 0) + c * number_size(job->x.dtype), job->x.dtype, n,
                                0.0f, copy[0]);
    const float *y = read_block(input_part(&job->y, row, 0) + c * number_size(job->y.dtype), job->y.dtype, n,
                                0.0f, copy[1]);
    const float *a = read_block(job->a + c, KT_DTYPE_F32, n, 0.0f, copy[2]);
    const float *dt = read_block(job->dt_bias + c, KT_DTYPE_F32, n, 0.0f, copy[3]);
    float *log_decay = begin_block(log_to, KT_DTYPE_F32, n, copy[4]);
    float *beta = begin_block(beta_to, KT_DTYPE_F32, n, copy[5]);
    for (uint32_t i = 0; i < n; i += VEC_ROWS) {
        vf plus = vf_softplus(vf_add(vf_load(x + i), vf_load(dt + i)));
        vf down = vf_exp(vf_sub(vf_set(0.0f), vf_load(y + i)));
        vf_store(log_decay + i, vf_mul(vf_load(a + i), plus));
        vf_store(beta + i, vf_div(vf_set(1.0f), vf_add(vf_set(1.0f), down)));
    }
    end_block(log_to, KT_DTYPE_F32, n, log_decay);
    end_block(beta_to, KT_DTYPE_F32, n, beta);
}

static void rows_decay(void *instance, const struct kt_rows_decay *job)
{
    (void)instance;
    for (uint32_t r = 0; r < job->n_rows; r++)
        for (uint32_t c = 0; c < job->n_heads; c += ROW_BLOCK)
            decay_block(job, r, c, ROW_BLOCK_OF(job->n_heads - c));
}

#endif

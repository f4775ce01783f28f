/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_multiply.h - products in float32, of routers. <kt/rows.h> has the formula.
 *
 * Of few rows the weights' reading is the limit: eight rows of weights are read at once, each by a stream of
 * its own, so that no sum waits for itself. More rows share the weights, three by three. Both add a sum's
 * products in the same order, vector after vector.
 */
#ifndef KT_PLUGINS_ATTENTION_ROWS_MULTIPLY_H
#define KT_PLUGINS_ATTENTION_ROWS_MULTIPLY_H

#include "plugins/attention/rows_block.h"

#define GEMV_OUTPUTS 8
#define GEMM_OUTPUTS 4
#define GEMM_ROWS 3
#define MULTIPLY_SUMS (GEMM_OUTPUTS * GEMM_ROWS) /* the most of both */
#define MULTIPLY_AHEAD 1024                      /* bytes of a row of weights that are prefetched */

/* One block of columns: adds to n_outputs x n_rows sums. */
INLINE void multiply_block(const uint8_t *const *weight, uint32_t dtype, const float *const *x, uint32_t n,
                           unsigned n_outputs, unsigned n_rows, vf *total)
{
    const uint64_t step = dtype == KT_DTYPE_F32 ? 4 : 2;
    vf sum[MULTIPLY_SUMS];
    uint32_t i = 0;
    UNROLL_FOR (unsigned j = 0; j < n_outputs * n_rows; j++)
        sum[j] = total[j];
    for (; i + VEC_ROWS <= n; i += VEC_ROWS) {
        UNROLL_FOR (unsigned o = 0; o < n_outputs; o++) {
            vf w = load_numbers(weight[o] + i * step, dtype);
            if (n_rows == 1 && i * step % 64 == 0)
                PREFETCH(weight[o] + i * step + MULTIPLY_AHEAD);
            UNROLL_FOR (unsigned r = 0; r < n_rows; r++)
                sum[o * n_rows + r] = vf_fma(w, vf_load(x[r] + i), sum[o * n_rows + r]);
        }
    }
    if (i < n)
        UNROLL_FOR (unsigned o = 0; o < n_outputs; o++) {
            vf w = load_some(weight[o] + i * step, dtype, n - i);
            UNROLL_FOR (unsigned r = 0; r < n_rows; r++)
                sum[o * n_rows + r] = vf_fma(w, vf_load(x[r] + i), sum[o * n_rows + r]);
        }
    UNROLL_FOR (unsigned j = 0; j < n_outputs * n_rows; j++)
        total[j] = sum[j];
}

INLINE void multiply_dtype(const uint8_t *const *weight, uint32_t dtype, const float *const *x, uint32_t n,
                           bool many, vf *total)
{
    if (many)
        multiply_block(weight, dtype, x, n, GEMM_OUTPUTS, GEMM_ROWS, total);
    else
        multiply_block(weight, dtype, x, n, GEMV_OUTPUTS, 1, total);
}

/* Outputs from `output` on of rows from `row` on: GEMM_ROWS of them, or one. */
static inline void multiply_group(const struct kt_rows_multiply *job, uint32_t row, uint32_t output,
                                  bool many)
{
    const uint32_t n_outputs = many ? GEMM_OUTPUTS : GEMV_OUTPUTS, n_rows = many ? GEMM_ROWS : 1;
    const uint8_t *weight[GEMV_OUTPUTS];
    const float *x[GEMM_ROWS];
    float copy[GEMM_ROWS][ROW_BLOCK];
    vf sum[MULTIPLY_SUMS];
    for (uint32_t j = 0; j < n_outputs * n_rows; j++)
        sum[j] = vf_set(0.0f);
    for (uint32_t c = 0; c < job->size; c += ROW_BLOCK) {
        uint32_t n = ROW_BLOCK_OF(job->size - c);
        /* Behind the last output, that one again. */
        for (uint32_t o = 0; o < n_outputs; o++) {
            uint32_t number = output + o < job->n_outputs ? output + o : job->n_outputs - 1;
            weight[o] = (const uint8_t *)job->weight + (int64_t)number * job->weight_stride +
                        c * number_size(job->weight_dtype);
        }
        for (uint32_t r = 0; r < n_rows; r++)
            x[r] = read_block(input_part(&job->input, row + r, 0) + c * number_size(job->input.dtype),
                              job->input.dtype, n, 0.0f, copy[r]);
        if (job->weight_dtype == KT_DTYPE_F32)
            multiply_dtype(weight, KT_DTYPE_F32, x, n, many, sum);
        else if (job->weight_dtype == KT_DTYPE_BF16)
            multiply_dtype(weight, KT_DTYPE_BF16, x, n, many, sum);
        else
            multiply_dtype(weight, KT_DTYPE_F16, x, n, many, sum);
    }
    for (uint32_t o = 0; o < n_outputs && output + o < job->n_outputs; o++)
        for (uint32_t r = 0; r < n_rows; r++) {
            float *to = (float *)(void *)((uint8_t *)job->output + (int64_t)(row + r) * job->output_stride);
            to[output + o] = vf_fold(sum[o * n_rows + r]) + (job->bias ? job->bias[output + o] : 0.0f);
        }
}

/* Weights are outside: they are read once for all rows while these stay in the caches. */
static void rows_multiply(void *instance, const struct kt_rows_multiply *job)
{
    (void)instance;
    const uint32_t whole = job->n_rows - job->n_rows % GEMM_ROWS;
    for (uint32_t output = 0; output < job->n_outputs; output += GEMV_OUTPUTS) {
        for (uint32_t row = 0; row < whole; row += GEMM_ROWS)
            for (uint32_t o = output; o < output + GEMV_OUTPUTS && o < job->n_outputs; o += GEMM_OUTPUTS)
                multiply_group(job, row, o, true);
        for (uint32_t row = whole; row < job->n_rows; row++)
            multiply_group(job, row, output, false);
    }
}

#endif

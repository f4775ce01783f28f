/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_multiply.h - products in float32, of routers. <kt/rows.h> has the formula.
 *
 * Of few rows the weights' reading is the limit: eight rows of weights are read at once, each by a stream of
 * its own, so that no sum waits for itself. More rows share the weights, in tiles whose numbers stay in the
 * first cache: a block of columns after the other, with the sums, still vectors, in memory between them. Both
 * add a sum's products in the same order, vector after vector.
 */
#ifndef KT_PLUGINS_ATTENTION_ROWS_MULTIPLY_H
#define KT_PLUGINS_ATTENTION_ROWS_MULTIPLY_H

#include "plugins/attention/rows_block.h"

#define GEMV_OUTPUTS 8
#define GEMM_OUTPUTS 4
#define GEMM_ROWS (VEC_ROWS >= 16 ? 6 : 3)   /* levels of 16 numbers have 32 registers */
#define GEMM_SUMS (GEMM_OUTPUTS * GEMM_ROWS) /* of a group, in registers */
#define TILE_ROWS (2 * GEMM_ROWS)
#define TILE_OUTPUTS (8 * GEMM_OUTPUTS)
#define MULTIPLY_AHEAD 1024 /* bytes of a row of weights that are prefetched */

/* One block of columns: adds to n_outputs x n_rows sums. */
INLINE void multiply_block(const uint8_t *const *weight, uint32_t dtype, const float *const *x, uint32_t n,
                           unsigned n_outputs, unsigned n_rows, vf *total)
{
    const uint64_t step = dtype == KT_DTYPE_F32 ? 4 : 2;
    vf sum[GEMV_OUTPUTS][GEMM_ROWS];
    uint32_t i = 0;
    UNROLL_FOR (unsigned o = 0; o < n_outputs; o++)
        UNROLL_FOR (unsigned r = 0; r < n_rows; r++)
            sum[o][r] = total[o * n_rows + r];
    for (; i + VEC_ROWS <= n; i += VEC_ROWS) {
        UNROLL_FOR (unsigned o = 0; o < n_outputs; o++) {
            vf w = load_numbers(weight[o] + i * step, dtype);
            if (n_rows == 1 && i * step % 64 == 0)
                PREFETCH(weight[o] + i * step + MULTIPLY_AHEAD);
            UNROLL_FOR (unsigned r = 0; r < n_rows; r++)
                sum[o][r] = vf_fma(w, vf_load(x[r] + i), sum[o][r]);
        }
    }
    if (i < n)
        UNROLL_FOR (unsigned o = 0; o < n_outputs; o++) {
            vf w = load_some(weight[o] + i * step, dtype, n - i);
            UNROLL_FOR (unsigned r = 0; r < n_rows; r++)
                sum[o][r] = vf_fma(w, vf_load(x[r] + i), sum[o][r]);
        }
    UNROLL_FOR (unsigned o = 0; o < n_outputs; o++)
        UNROLL_FOR (unsigned r = 0; r < n_rows; r++)
            total[o * n_rows + r] = sum[o][r];
}

INLINE void multiply_dtype(const uint8_t *const *weight, uint32_t dtype, const float *const *x, uint32_t n,
                           bool many, vf *total)
{
    if (many)
        multiply_block(weight, dtype, x, n, GEMM_OUTPUTS, GEMM_ROWS, total);
    else
        multiply_block(weight, dtype, x, n, GEMV_OUTPUTS, 1, total);
}

/* The same for n_outputs from `output` on, of which the last one stands for those behind it, and columns from
 * `c` on. */
static inline void multiply_columns(const struct kt_rows_multiply *job, uint32_t output, uint32_t c,
                                    const float *const *x, uint32_t n, bool many, vf *total)
{
    const uint8_t *weight[GEMV_OUTPUTS];
    for (uint32_t o = 0; o < (many ? GEMM_OUTPUTS : GEMV_OUTPUTS); o++) {
        uint32_t number = output + o < job->n_outputs ? output + o : job->n_outputs - 1;
        weight[o] = (const uint8_t *)job->weight + (int64_t)number * job->weight_stride +
                    c * number_size(job->weight_dtype);
    }
    if (job->weight_dtype == KT_DTYPE_F32)
        multiply_dtype(weight, KT_DTYPE_F32, x, n, many, total);
    else if (job->weight_dtype == KT_DTYPE_BF16)
        multiply_dtype(weight, KT_DTYPE_BF16, x, n, many, total);
    else
        multiply_dtype(weight, KT_DTYPE_F16, x, n, many, total);
}

static inline void store_product(const struct kt_rows_multiply *job, uint32_t row, uint32_t output, vf sum)
{
    float *to = (float *)(void *)((uint8_t *)job->output + (int64_t)row * job->output_stride);
    if (output < job->n_outputs)
        to[output] = vf_fold(sum) + (job->bias ? job->bias[output] : 0.0f);
}

/* GEMV_OUTPUTS outputs from `output` on of one row. */
static inline void multiply_row(const struct kt_rows_multiply *job, uint32_t row, uint32_t output)
{
    float copy[ROW_BLOCK];
    vf sum[GEMV_OUTPUTS];
    for (uint32_t o = 0; o < GEMV_OUTPUTS; o++)
        sum[o] = vf_set(0.0f);
    for (uint32_t c = 0; c < job->size; c += ROW_BLOCK) {
        uint32_t n = ROW_BLOCK_OF(job->size - c);
        const float *x = read_block(input_part(&job->input, row, 0) + c * number_size(job->input.dtype),
                                    job->input.dtype, n, 0.0f, copy);
        multiply_columns(job, output, c, &x, n, false, sum);
    }
    for (uint32_t o = 0; o < GEMV_OUTPUTS; o++)
        store_product(job, row, output + o, sum[o]);
}

/* Up to TILE_OUTPUTS outputs from `output` on of n_rows rows from `row` on: TILE_ROWS or GEMM_ROWS of them.
 */
static inline void multiply_tile(const struct kt_rows_multiply *job, uint32_t row, uint32_t n_rows,
                                 uint32_t output)
{
    float copy[TILE_ROWS][ROW_BLOCK];
    const float *x[TILE_ROWS];
    vf sum[TILE_OUTPUTS / GEMM_OUTPUTS][2][GEMM_SUMS];
    uint32_t left = job->n_outputs - output;
    uint32_t n_outputs = left < TILE_OUTPUTS ? left : TILE_OUTPUTS;
    for (uint32_t o = 0; o < TILE_OUTPUTS / GEMM_OUTPUTS; o++)
        for (uint32_t j = 0; j < 2 * GEMM_SUMS; j++)
            sum[o][j / GEMM_SUMS][j % GEMM_SUMS] = vf_set(0.0f);
    for (uint32_t c = 0; c < job->size; c += ROW_BLOCK) {
        uint32_t n = ROW_BLOCK_OF(job->size - c);
        for (uint32_t r = 0; r < n_rows; r++)
            x[r] = read_block(input_part(&job->input, row + r, 0) + c * number_size(job->input.dtype),
                              job->input.dtype, n, 0.0f, copy[r]);
        for (uint32_t o = 0; o < n_outputs; o += GEMM_OUTPUTS)
            for (uint32_t r = 0; r < n_rows; r += GEMM_ROWS)
                multiply_columns(job, output + o, c, x + r, n, true, sum[o / GEMM_OUTPUTS][r / GEMM_ROWS]);
    }
    for (uint32_t o = 0; o < n_outputs; o++)
        for (uint32_t r = 0; r < n_rows; r++)
            store_product(job, row + r, output + o,
                          sum[o / GEMM_OUTPUTS][r / GEMM_ROWS][o % GEMM_OUTPUTS * GEMM_ROWS + r % GEMM_ROWS]);
}

/* Weights of few rows are outside: they are read once for all rows while these stay in the caches. */
static void rows_multiply(void *instance, const struct kt_rows_multiply *job)
{
    (void)instance;
    const uint32_t whole = job->n_rows - job->n_rows % GEMM_ROWS;
    for (uint32_t row = 0; row < whole;) {
        uint32_t n = whole - row < TILE_ROWS ? GEMM_ROWS : TILE_ROWS;
        for (uint32_t output = 0; output < job->n_outputs; output += TILE_OUTPUTS)
            multiply_tile(job, row, n, output);
        row += n;
    }
    for (uint32_t output = 0; output < job->n_outputs && whole < job->n_rows; output += GEMV_OUTPUTS)
        for (uint32_t row = whole; row < job->n_rows; row++)
            multiply_row(job, row, output);
}

#endif

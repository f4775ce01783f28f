/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention/product_tmpl.h - products of float32 rows with lines of 16 numbers.
 *
 * Parameters  MOST_ROWS  rows of a microkernel: as many as registers hold sums for
 * and those of simd/simd.h.
 *
 * Each sum is one chain in the order of the lines, whatever number of rows there is.
 */
#ifndef KT_PLUGINS_ATTENTION_PRODUCT_TMPL_H
#define KT_PLUGINS_ATTENTION_PRODUCT_TMPL_H

#ifndef MOST_ROWS
#error "attention/product_tmpl.h: define MOST_ROWS"
#endif

#include "plugins/attention/attention.h"
#include "plugins/common/simd/simd.h"

#include <stdbool.h>

_Static_assert(VEC_ROWS *VEC_PARTS == LINE, "a line is VEC_PARTS vectors");

/*
 * c[r][0..15] = sum over i of a[r][i] * b[i][0..15], added to what c holds if `add`. i runs over `n` lines in
 * segments of `segment`; a row of a goes on a_next numbers behind the beginning of its last segment.
 */
struct product {
    const float *a;
    uint64_t a_stride, a_next;
    const float *b;
    uint64_t b_stride;
    float *c;
    uint64_t c_stride;
    uint32_t n, segment;
    bool add;
};

INLINE void multiply_rows(const struct product *p, uint32_t row, unsigned rows)
{
    const float *a = p->a + row * p->a_stride, *b = p->b;
    float *c = p->c + row * p->c_stride;
    vf sum[MOST_ROWS][VEC_PARTS];
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++)
            sum[r][v] = p->add ? vf_load(c + r * p->c_stride + v * VEC_ROWS) : vf_set(0.0f);
    for (uint32_t left = p->n, n; left > 0; left -= n, a += p->a_next) {
        n = left < p->segment ? left : p->segment;
        for (uint32_t i = 0; i < n; i++, b += p->b_stride) {
            vf line[VEC_PARTS];
            UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++)
                line[v] = vf_load(b + v * VEC_ROWS);
            UNROLL_FOR (unsigned r = 0; r < rows; r++) {
                vf one = vf_splat(a + r * p->a_stride + i);
                UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++)
                    sum[r][v] = vf_fma(line[v], one, sum[r][v]);
            }
        }
    }
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++)
            vf_store(c + r * p->c_stride + v * VEC_ROWS, sum[r][v]);
}

#define MULTIPLY_ROWS(n)                                                     \
    static NOINLINE void multiply_##n(const struct product *p, uint32_t row) \
    {                                                                        \
        multiply_rows(p, row, (n) < MOST_ROWS ? (n) : MOST_ROWS);            \
    }
MULTIPLY_ROWS(1)
MULTIPLY_ROWS(2)
MULTIPLY_ROWS(3)
MULTIPLY_ROWS(4)
MULTIPLY_ROWS(5)
MULTIPLY_ROWS(6)
MULTIPLY_ROWS(7)
MULTIPLY_ROWS(8)
MULTIPLY_ROWS(9)
MULTIPLY_ROWS(10)
MULTIPLY_ROWS(11)
MULTIPLY_ROWS(12)

/* All rows, in groups of about the same size. */
static void multiply(const struct product *p, uint32_t rows)
{
    static void (*const microkernel[])(const struct product *, uint32_t) = {
        multiply_1, multiply_2, multiply_3, multiply_4,  multiply_5,  multiply_6,
        multiply_7, multiply_8, multiply_9, multiply_10, multiply_11, multiply_12,
    };
    _Static_assert(MOST_ROWS <= 12, "there are microkernels for up to 12 rows");
    uint32_t groups = (rows + MOST_ROWS - 1) / MOST_ROWS;
    for (uint32_t g = 0, row = 0, next; g < groups; g++, row = next) {
        next = rows * (g + 1) / groups;
        microkernel[next - row - 1](p, row);
    }
}

#endif

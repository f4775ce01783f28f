/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention/product_tmpl.h - products of float32 rows with lines of 16 numbers.
 *
 * Parameters  MOST_ROWS       rows of a microkernel for lines of float32: as many as registers hold sums for
 *             MOST_PAIR_ROWS  the same for lines of pairs, which are widened in registers
 * Wanted      ROUNDED_PAIRS   1: rows may be bfloat16, too, which VEC_BF16 multiplies pair by pair
 * and those of simd/simd.h.
 *
 * Each sum is one chain in the order of the lines, whatever number of rows there is.
 */
#ifndef KT_PLUGINS_ATTENTION_PRODUCT_TMPL_H
#define KT_PLUGINS_ATTENTION_PRODUCT_TMPL_H

#ifndef MOST_ROWS
#error "attention/product_tmpl.h: define MOST_ROWS"
#endif
#ifndef MOST_PAIR_ROWS
#error "attention/product_tmpl.h: define MOST_PAIR_ROWS"
#endif

#ifndef ROUNDED_PAIRS
#define ROUNDED_PAIRS 0
#endif

#include "plugins/attention/attention.h"
#include "plugins/common/simd/simd.h"

#include <stdbool.h>

_Static_assert(VEC_ROWS *VEC_PARTS == LINE, "a line is VEC_PARTS vectors");

/*
 * c[r][0..15] = sum over i of a[r][i] * b[i][0..15], added to what c holds if `add`. i runs over `n` lines in
 * segments of `segment`; a row of a goes on a_next numbers behind the beginning of its last segment. Lines of
 * b are b_stride bytes apart: of float32, or with `pairs` each of two, as 16 pairs of bfloat16; then a has an
 * even number of numbers, of which the last may be one of 0 more than n. With `rounded` these are bfloat16;
 * distances of a still count float32.
 */
struct product {
    const float *a;
    uint64_t a_stride, a_next;
    const uint8_t *b;
    uint64_t b_stride;
    float *c;
    uint64_t c_stride;
    uint32_t n, segment;
    bool add, pairs, rounded;
    const uint8_t *ahead; /* with pairs: memory that is read later, a line of it fetched with each line */
    uint64_t ahead_step;
};

/* Number `at` of each row with a line. */
INLINE void add_line(const vf line[VEC_PARTS], const float *const row[MOST_ROWS], uint64_t at, unsigned rows,
                     vf sum[MOST_ROWS][VEC_PARTS])
{
    UNROLL_FOR (unsigned r = 0; r < rows; r++) {
        vf one = vf_splat(row[r] + at);
        UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++)
            sum[r][v] = vf_fma(line[v], one, sum[r][v]);
    }
}

INLINE void add_floats(const struct product *p, const float *const row[MOST_ROWS], unsigned rows,
                       vf sum[MOST_ROWS][VEC_PARTS])
{
    const uint8_t *b = p->b;
    const uint64_t n = p->n, segment = p->segment, stride = p->b_stride;
    for (uint64_t done = 0, at = 0; done < n; done += segment, at += p->a_next)
        for (uint64_t i = 0, end = n - done < segment ? n - done : segment; i < end; i++, b += stride) {
            vf line[VEC_PARTS];
            UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++)
                line[v] = vf_load(b + v * 4 * VEC_ROWS);
            add_line(line, row, at + i, rows, sum);
        }
}

/* A line of pairs, widened, with numbers `at` and at + 1 of each row. */
INLINE void add_widened(const vi pair[VEC_PARTS], const float *const row[MOST_ROWS], uint64_t at,
                        unsigned rows, vf sum[MOST_ROWS][VEC_PARTS])
{
    vf line[VEC_PARTS];
    UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++)
        line[v] = vf_from_bf16_even(pair[v]);
    add_line(line, row, at, rows, sum);
    UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++)
        line[v] = vf_from_bf16_odd(pair[v]);
    add_line(line, row, at + 1, rows, sum);
}

#if ROUNDED_PAIRS
/* The same of rows in bfloat16, multiplied as it is. */
INLINE void add_rounded(const vi pair[VEC_PARTS], const float *const row[MOST_ROWS], uint64_t at,
                        unsigned rows, vf sum[MOST_ROWS][VEC_PARTS])
{
    UNROLL_FOR (unsigned r = 0; r < rows; r++) {
        vi both = vi_splat32((int32_t)load_u32((const uint8_t *)row[r] + 2 * at));
        UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++)
            sum[r][v] = vf_add_pairs(sum[r][v], pair[v], both);
    }
}
#else
#define add_rounded add_widened /* no row is rounded */
#endif

INLINE void add_pairs(const struct product *p, const float *const row[MOST_ROWS], unsigned rows, bool rounded,
                      vf sum[MOST_ROWS][VEC_PARTS])
{
    const bool first = row[0] == p->a; /* other rows find lines fetched */
    const uint8_t *b = p->b, *ahead = first ? p->ahead : b;
    const uint64_t n = p->n, stride = p->b_stride, step = first ? p->ahead_step : stride;
    for (uint64_t i = 0; i < n; i += 2, b += stride, ahead += step) {
        PREFETCH(ahead);
        vi pair[VEC_PARTS];
        UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++)
            pair[v] = vi_keep(vi_load(b + v * 4 * VEC_ROWS));
        if (rounded)
            add_rounded(pair, row, i, rows, sum);
        else
            add_widened(pair, row, i, rows, sum);
    }
}

INLINE void multiply_rows(const struct product *p, uint32_t row, unsigned rows, bool pairs, bool rounded)
{
    const float *a[MOST_ROWS] = {p->a}; /* at -O1 gcc does not see that all that are used are set */
    float *c = p->c + row * p->c_stride;
    vf sum[MOST_ROWS][VEC_PARTS];
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        a[r] = p->a + (row + r) * p->a_stride;
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++)
            sum[r][v] = p->add ? vf_load(c + r * p->c_stride + v * VEC_ROWS) : vf_set(0.0f);
    if (pairs)
        add_pairs(p, a, rows, rounded, sum);
    else
        add_floats(p, a, rows, sum);
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++)
            vf_store(c + r * p->c_stride + v * VEC_ROWS, sum[r][v]);
}

#define MULTIPLY_ROWS(rows)                                                              \
    static NOINLINE void multiply_floats_##rows(const struct product *p, uint32_t row)   \
    {                                                                                    \
        multiply_rows(p, row, (rows) < MOST_ROWS ? (rows) : MOST_ROWS, false, false);    \
    }                                                                                    \
    static NOINLINE void multiply_pairs_##rows(const struct product *p, uint32_t row)    \
    {                                                                                    \
        if (ROUNDED_PAIRS && p->rounded)                                                 \
            multiply_rows(p, row, (rows) < MOST_ROWS ? (rows) : MOST_ROWS, true, true);  \
        else                                                                             \
            multiply_rows(p, row, (rows) < MOST_ROWS ? (rows) : MOST_ROWS, true, false); \
    }
MULTIPLY_ROWS(1)
MULTIPLY_ROWS(2)
MULTIPLY_ROWS(3)
MULTIPLY_ROWS(4)
MULTIPLY_ROWS(5)
MULTIPLY_ROWS(6)
MULTIPLY_ROWS(7)
MULTIPLY_ROWS(8)

typedef void (*microkernel)(const struct product *product, uint32_t row);

/* All rows, in groups of about the same size. */
static void multiply(const struct product *p, uint32_t rows)
{
    static const microkernel floats[] = {multiply_floats_1, multiply_floats_2, multiply_floats_3,
                                         multiply_floats_4, multiply_floats_5, multiply_floats_6,
                                         multiply_floats_7, multiply_floats_8};
    static const microkernel pairs[] = {multiply_pairs_1, multiply_pairs_2, multiply_pairs_3,
                                        multiply_pairs_4, multiply_pairs_5, multiply_pairs_6,
                                        multiply_pairs_7, multiply_pairs_8};
    _Static_assert(MOST_ROWS <= 8 && MOST_PAIR_ROWS <= MOST_ROWS, "there are microkernels for up to 8 rows");
    uint32_t most = p->pairs ? MOST_PAIR_ROWS : MOST_ROWS, groups = (rows + most - 1) / most;
    for (uint32_t g = 0, row = 0, next; g < groups; g++, row = next) {
        next = rows * (g + 1) / groups;
        (p->pairs ? pairs : floats)[next - row - 1](p, row);
    }
}

#endif

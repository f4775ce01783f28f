/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/mmla_tmpl.h - microkernels with ARM's instructions that multiply two rows of weights with two of
 * activations, 8 bytes of each: usmmla for int8, bfmmla for bfloat16. simd/neon_int8.h has
 *
 *   mm_add(sum, w, x)    adds the products of weights 0 and 1 with rows 0 and 1
 *
 * Weights and activations have 4 bytes of a row side by side, so two zips join each two vectors of weights,
 * for all rows of activations, and one zip each vector of activations. Hence many rows of activations and
 * few of weights: 8 x 8 are 16 sums, and 16 products take 4 zips for weights and 4 for activations; 4 x 16
 * would take 8 and 2.
 *
 * Parameters  those of gemm/microkernel_tmpl.h
 */
#ifndef KT_PLUGINS_COMMON_GEMM_MMLA_TMPL_H
#define KT_PLUGINS_COMMON_GEMM_MMLA_TMPL_H

#include "plugins/common/gemm/microkernel_tmpl.h"

#if SIMD_NUMBER(SIMD) != SIMD_neon || !(VEC_I8MM || VEC_BF16)
#error "gemm/mmla_tmpl.h: wants SIMD neon with VEC_I8MM or VEC_BF16"
#endif

#define MAX_ROW_PAIRS 4

INLINE vi load_zipped(uint32x4_t first, uint32x4_t second, bool high)
{
    return vreinterpretq_s32_u32(high ? vzip2q_u32(first, second) : vzip1q_u32(first, second));
}

/* A vector's 4 rows of weights, which stand in two lines, with `pairs` pairs of rows. */
INLINE void add_lines(const uint8_t *line, const vi x[MAX_ROW_PAIRS], unsigned pairs,
                      vi sum[MAX_ROW_PAIRS][2])
{
    uint32x4_t first = vreinterpretq_u32_u8(vld1q_u8(line));
    uint32x4_t second = vreinterpretq_u32_u8(vld1q_u8(line + 64));
    vi low = load_zipped(first, second, false), high = load_zipped(first, second, true);

    UNROLL_FOR (unsigned p = 0; p < pairs; p++) {
        sum[p][0] = mm_add(sum[p][0], low, x[p]);
        sum[p][1] = mm_add(sum[p][1], high, x[p]);
    }
}

/* 16 bytes of each pair of rows: two vectors, 8 bytes of both rows in each. */
INLINE void load_pairs(const struct act_rows *x, uint64_t at, unsigned pairs, vi to[2][MAX_ROW_PAIRS])
{
    UNROLL_FOR (unsigned p = 0; p < pairs; p++) {
        int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(x->x[2 * p] + at));
        int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(x->x[2 * p + 1] + at));
        to[0][p] = vreinterpretq_s32_s64(vzip1q_s64(a, b));
        to[1][p] = vreinterpretq_s32_s64(vzip2q_s64(a, b));
    }
}

/* The sums of 2 * pairs rows and vectors first..first+n-1 of a panel. */
INLINE void multiply_mmla(const struct panel *panel, const struct act_rows *x, unsigned pairs, unsigned first,
                          unsigned n, struct prefetcher *prefetcher, ACC out[MAX_ROWS][PANEL_ROWS])
{
    const uint8_t *pair = panel->codes;
    vi sum[VECS][MAX_ROW_PAIRS][2];
    UNROLL_FOR (unsigned v = 0; v < n; v++)
        UNROLL_FOR (unsigned p = 0; p < pairs; p++)
            sum[v][p][0] = sum[v][p][1] = vi_splat32(0);
    for (uint64_t t = 0; t < panel->tiles; t++, pair += PAIR_SIZE) {
        prefetcher_step(prefetcher);
        for (unsigned q = 0; q < 16; q += 4) {
            vi both[2][MAX_ROW_PAIRS];
            load_pairs(x, t * X_STEP + 4 * q, pairs, both);
            UNROLL_FOR (unsigned v = 0; v < n; v++) {
                const uint8_t *line = find_vector(pair, first + v) + 64 * q;
                add_lines(line, both[0], pairs, sum[v]);
                add_lines(line + 128, both[1], pairs, sum[v]);
            }
        }
    }
    UNROLL_FOR (unsigned v = 0; v < n; v++)
        UNROLL_FOR (unsigned p = 0; p < pairs; p++) {
            vi_store(&out[2 * p][(first + v) * VEC_ROWS], vuzp1q_s32(sum[v][p][0], sum[v][p][1]));
            vi_store(&out[2 * p + 1][(first + v) * VEC_ROWS], vuzp2q_s32(sum[v][p][0], sum[v][p][1]));
        }
}

/* A microkernel of 2 * pairs rows, n vectors of the panel at a time. */
#define DEFINE_MMLA_MICROKERNEL(name, pairs, n)                                                          \
    static void name(const struct panel *panel, const struct act_rows *x, struct prefetcher *prefetcher, \
                     ACC out[MAX_ROWS][PANEL_ROWS])                                                      \
    {                                                                                                    \
        UNROLL_FOR (unsigned first = 0; first < VECS; first += n)                                        \
            multiply_mmla(panel, x, pairs, first, n, prefetcher, out);                                   \
    }
DEFINE_MMLA_MICROKERNEL(mmla_8, 4, 2)
DEFINE_MMLA_MICROKERNEL(mmla_4, 2, 4)
DEFINE_MMLA_MICROKERNEL(mmla_2, 1, 8)

/* One row, taken twice: the sums of floats must not depend on how many rows are left. */
static void mmla_1(const struct panel *panel, const struct act_rows *x, struct prefetcher *prefetcher,
                   ACC out[MAX_ROWS][PANEL_ROWS])
{
    const struct act_rows twice = {.x = {x->x[0], x->x[0]}};
    mmla_2(panel, &twice, prefetcher, out);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8/microkernel_tmpl.h - microkernels for panels of int8 tiles, on vectors.
 *
 * Parameters  those of gemm/microkernels_tmpl.h but MULTIPLY
 */
#ifndef KT_PLUGINS_COMMON_INT8_MICROKERNEL_TMPL_H
#define KT_PLUGINS_COMMON_INT8_MICROKERNEL_TMPL_H

#ifndef EPILOGUE_H
#define EPILOGUE_H "plugins/common/int8/epilogue_tmpl.h"
#endif
#include "plugins/common/gemm/microkernel_tmpl.h"

/* A line of one tile, 4 columns of its 16 rows of weights. */
INLINE void add_line_int8(const uint8_t *line, const struct act_rows *x, uint64_t at, unsigned rows,
                          vi sum[MAX_ROWS][VECS])
{
    UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++) {
        vi w = w8_ready(vi_load(line + v * (4 * VEC_ROWS)));
        UNROLL_FOR (unsigned r = 0; r < rows; r++)
            sum[r][v] = w8_add(sum[r][v], w, x8_splat(x->x[r] + at));
    }
}

/* Vectors first..first+n-1 of a pair of tiles with `rows` rows. rows, first and n are constants in each
 * instance, so sums are registers. The step for the 4 columns of a line: `rows` broadcasts, n loads of
 * weights, rows * n products. Only one vector of weights is held at a time: with 16 registers there is no
 * room for more beside the sums. */
INLINE void add_pair_int8(const uint8_t *pair, const struct act_rows *x, uint64_t at, unsigned rows,
                          unsigned first, unsigned n, vi sum[MAX_ROWS][VECS])
{
    for (unsigned q = 0; q < 16; q++) {
        x8 a[MAX_ROWS];
        UNROLL_FOR (unsigned r = 0; r < rows; r++)
            a[r] = x8_splat(x->x[r] + at + 4 * q);
        UNROLL_FOR (unsigned v = first; v < first + n; v++) {
            vi w = w8_ready(vi_load(find_vector(pair, v) + 64 * q));
            UNROLL_FOR (unsigned r = 0; r < rows; r++)
                sum[r][v] = w8_add(sum[r][v], w, a[r]);
        }
    }
}

/* One tile, line after line; what lies `distance` ahead is prefetched meanwhile. */
INLINE void add_tile_int8(const uint8_t *tile, const struct act_rows *x, uint64_t at, unsigned rows,
                          uint64_t distance, vi even[MAX_ROWS][VECS], vi odd[MAX_ROWS][VECS])
{
    for (unsigned q = 0; q < 16; q += 2) {
        PREFETCH_LINE((uintptr_t)tile + 64 * q + distance);
        add_line_int8(tile + 64 * q, x, at + 4 * q, rows, even);
        PREFETCH_LINE((uintptr_t)tile + 64 * q + 64 + distance);
        add_line_int8(tile + 64 * q + 64, x, at + 4 * q + 4, rows, odd);
    }
}

INLINE void clear_int8(unsigned rows, vi sum[MAX_ROWS][VECS])
{
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++)
            sum[r][v] = vi_splat32(0);
}

/* A few rows at the speed of memory: the panel is read as it lies, tile after tile, since taking turns
 * between the lines of both would be two streams. With one or two rows, even and odd lines have sums of
 * their own: additions that wait for each other would hold up the loads. Where that is faster than memory,
 * a short distance is best; 8 rows, whose own streams distract the hardware prefetcher, and vectors of 256
 * bits want the machine's. */
INLINE void multiply_int8_streamed(const struct panel *panel, const struct act_rows *x, unsigned rows,
                                   int32_t out[MAX_ROWS][PANEL_ROWS])
{
    const uint64_t distance = VEC_PARTS > 1 || rows > 2 ? panel->distance : STREAMED_DISTANCE;
    const bool turns = rows * VECS <= 4;
    const uint8_t *pair = panel->codes;
    vi sum[2][2][MAX_ROWS][VECS];
    UNROLL_FOR (unsigned i = 0; i < 2; i++) {
        clear_int8(rows, sum[0][i]);
        clear_int8(rows, sum[1][i]);
    }
    for (uint64_t t = 0; t < panel->tiles; t++, pair += PAIR_SIZE) {
        add_tile_int8(pair, x, t * X_STEP, rows, distance, sum[0][0], sum[turns][0]);
        add_tile_int8(pair + TILE_SIZE, x, t * X_STEP, rows, distance, sum[0][1], sum[turns][1]);
    }
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        UNROLL_FOR (unsigned v = 0; v < VECS; v++) {
            vi total = sum[0][v / VEC_PARTS][r][v % VEC_PARTS];
            if (turns)
                total = vi_add32(total, sum[1][v / VEC_PARTS][r][v % VEC_PARTS]);
            vi_store(&out[r][v * VEC_ROWS], total);
        }
}

/* The sums of `rows` rows and vectors first..first+n-1 of a panel. */
INLINE void multiply_int8(const struct panel *panel, const struct act_rows *x, unsigned rows, unsigned first,
                          unsigned n, bool streamed, struct prefetcher *prefetcher,
                          int32_t out[MAX_ROWS][PANEL_ROWS])
{
    const uint8_t *pair = panel->codes;
    vi sum[MAX_ROWS][VECS];
    if (streamed) {
        multiply_int8_streamed(panel, x, rows, out);
        return;
    }
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        UNROLL_FOR (unsigned v = first; v < first + n; v++)
            sum[r][v] = vi_splat32(0);
    for (uint64_t t = 0; t < panel->tiles; t++, pair += PAIR_SIZE) {
        prefetcher_step(prefetcher);
        add_pair_int8(pair, x, t * X_STEP, rows, first, n, sum);
    }
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        UNROLL_FOR (unsigned v = first; v < first + n; v++)
            vi_store(&out[r][v * VEC_ROWS], sum[r][v]);
}

#define MULTIPLY multiply_int8
#include "plugins/common/gemm/microkernels_tmpl.h"

#endif

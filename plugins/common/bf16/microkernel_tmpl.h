/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bf16/microkernel_tmpl.h - microkernels for panels of bfloat16 tiles, on vectors.
 *
 * Parameters  TUNING  prefetch_bytes, of streamed microkernels of one or two rows; 0: the panel's
 * and those of gemm/microkernel_tmpl.h and bf16/activations_tmpl.h.
 */
#ifndef KT_PLUGINS_COMMON_BF16_MICROKERNEL_TMPL_H
#define KT_PLUGINS_COMMON_BF16_MICROKERNEL_TMPL_H

#ifndef EPILOGUE_H
#define EPILOGUE_H "plugins/common/bf16/epilogue.h"
#endif

#include "plugins/common/bf16/activations_tmpl.h"
#include "plugins/common/gemm/microkernel_tmpl.h"
#include "plugins/common/gemm/tuning_tmpl.h"

_Static_assert(TILE_COLUMNS == 32,
               "the backend's header defines TILE_COLUMNS as 32 before it includes anything");

#if VEC_BF16
/* Two columns of `rows` rows and n vectors: their products are added in one instruction. */
INLINE void add_line(const vi *w, const struct act_rows *x, uint64_t at, unsigned rows, unsigned n,
                     vf even[MAX_ROWS][VECS], vf odd[MAX_ROWS][VECS])
{
    (void)odd;
    UNROLL_FOR (unsigned r = 0; r < rows; r++) {
        vi pair = vi_splat32((int32_t)load_u32(x->x[r] + at));
        UNROLL_FOR (unsigned v = 0; v < n; v++)
            even[r][v] = vf_add_pairs(even[r][v], w[v], pair);
    }
}
#else
/* Two columns of `rows` rows and n vectors, the even one first; both sums may be the same. */
INLINE void add_line(const vi *w, const struct act_rows *x, uint64_t at, unsigned rows, unsigned n,
                     vf even[MAX_ROWS][VECS], vf odd[MAX_ROWS][VECS])
{
    vf column[VECS];
    UNROLL_FOR (unsigned v = 0; v < n; v++)
        column[v] = vf_from_bf16_even(w[v]);
    UNROLL_FOR (unsigned r = 0; r < rows; r++) {
        vf one = vf_splat(x->x[r] + at);
        UNROLL_FOR (unsigned v = 0; v < n; v++)
            even[r][v] = vf_fma_bf16(column[v], one, even[r][v]);
    }
    UNROLL_FOR (unsigned v = 0; v < n; v++)
        column[v] = vf_from_bf16_odd(w[v]);
    UNROLL_FOR (unsigned r = 0; r < rows; r++) {
        vf one = vf_splat(x->x[r] + at + 4);
        UNROLL_FOR (unsigned v = 0; v < n; v++)
            odd[r][v] = vf_fma_bf16(column[v], one, odd[r][v]);
    }
}
#endif

/* A line of tiles as they are stored, vectors first..first+n-1. */
INLINE void add_columns(const uint8_t *line, const struct act_rows *x, uint64_t at, unsigned rows,
                        unsigned first, unsigned n, vf even[MAX_ROWS][VECS], vf odd[MAX_ROWS][VECS])
{
    vi w[VECS];
    UNROLL_FOR (unsigned v = 0; v < n; v++)
        w[v] = vi_load(find_vector(line, first + v));
    add_line(w, x, at, rows, n, even, odd);
}

#define LINES (TILE_COLUMNS / 2)
#define LINE_STEP (VEC_BF16 ? 4u : 8u) /* of activations */

INLINE void clear(unsigned rows, unsigned n, vf sum[MAX_ROWS][VECS])
{
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        UNROLL_FOR (unsigned v = 0; v < n; v++)
            sum[r][v] = vf_set(0.0f);
}

INLINE void store_sums(unsigned rows, unsigned first, unsigned n, vf sum[MAX_ROWS][VECS],
                       float out[MAX_ROWS][PANEL_ROWS])
{
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        UNROLL_FOR (unsigned v = 0; v < n; v++)
            vf_store(&out[r][(first + v) * VEC_ROWS], sum[r][v]);
}

/* The sums of a tile form a chain of their own: chains of one tile and the next overlap, and a row has the
 * same sums in a microkernel of one row as in one of eight. */
INLINE void add_tile_sums(unsigned rows, unsigned n, vf own[MAX_ROWS][VECS], vf sum[MAX_ROWS][VECS])
{
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        UNROLL_FOR (unsigned v = 0; v < n; v++)
            sum[r][v] = vf_add(sum[r][v], own[r][v]);
}

/* A panel from memory with `rows` rows: tile after tile, as it lies. Taking turns between the lines of both
 * tiles would spare loads of activations, but makes two streams, which are half as fast. One or two rows
 * wait for memory, and a short distance is best; what takes longer wants the machine's (struct
 * kt_caps.stream_ahead). */
INLINE void multiply_bf16_streamed(const struct panel *panel, const struct act_rows *x, unsigned rows,
                                   float out[MAX_ROWS][PANEL_ROWS])
{
    const uint64_t few = panel->few_distance ? panel->few_distance : tuning.prefetch_bytes;
    const uint64_t distance = rows <= 2 && few > 0 ? few : panel->distance;
    const uint8_t *tile = panel->codes;
    vf sum[2][MAX_ROWS][VECS];
    clear(rows, VEC_PARTS, sum[0]);
    clear(rows, VEC_PARTS, sum[1]);
    for (uint64_t t = 0; t < panel->tiles; t++) {
        UNROLL_FOR (unsigned half = 0; half < 2; half++, tile += TILE_SIZE) {
            vf own[MAX_ROWS][VECS];
            clear(rows, VEC_PARTS, own);
            for (unsigned q = 0; q < LINES; q++) {
                PREFETCH(tile + 64 * q + distance);
                add_columns(tile + 64 * q, x, t * X_STEP + q * LINE_STEP, rows, 0, VEC_PARTS, own, own);
            }
            add_tile_sums(rows, VEC_PARTS, own, sum[half]);
        }
    }
    store_sums(rows, 0, VEC_PARTS, sum[0], out);
    store_sums(rows, VEC_PARTS, VEC_PARTS, sum[1], out);
}

/* The sums of `rows` rows and vectors first..first+n-1 of a panel, all constants in each instance, so
 * sum is registers. */
INLINE void multiply_bf16(const struct panel *panel, const struct act_rows *x, unsigned rows, unsigned first,
                          unsigned n, bool streamed, struct prefetcher *prefetcher,
                          float out[MAX_ROWS][PANEL_ROWS])
{
    const uint8_t *pair = panel->codes;
    vf sum[MAX_ROWS][VECS];
    if (streamed) {
        multiply_bf16_streamed(panel, x, rows, out);
        return;
    }
    clear(rows, n, sum);
    for (uint64_t t = 0; t < panel->tiles; t++, pair += PAIR_SIZE) {
        vf own[MAX_ROWS][VECS];
        prefetcher_step(prefetcher);
        clear(rows, n, own);
        for (unsigned q = 0; q < LINES; q++)
            add_columns(pair + 64 * q, x, t * X_STEP + q * LINE_STEP, rows, first, n, own, own);
        add_tile_sums(rows, n, own, sum);
    }
    store_sums(rows, first, n, sum, out);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8/microkernel_sve_tmpl.h - int8/microkernel_tmpl.h with ARM's SVE: sdot on 32 or 64 bytes of weights.
 * All but the product is NEON's.
 *
 * Parameters  those of gemm/microkernels_tmpl.h but MULTIPLY
 */
#ifndef KT_PLUGINS_COMMON_INT8_MICROKERNEL_SVE_TMPL_H
#define KT_PLUGINS_COMMON_INT8_MICROKERNEL_SVE_TMPL_H

#ifndef EPILOGUE_H
#define EPILOGUE_H "plugins/common/int8/epilogue_tmpl.h"
#endif
#include "plugins/common/gemm/microkernel_tmpl.h"
#include "plugins/common/simd/sve.h"

/* Vectors first..first+n-1 of a line of a pair of tiles. */
struct sve_range {
    unsigned first, n;
};

/* 16 columns of a pair of tiles: four lines. */
INLINE void add_lines_sve(const uint8_t *pair, const struct act_rows *x, uint64_t at, unsigned rows,
                          struct sve_range range, uint64_t distance, unsigned turns,
                          sv32 sum[4][MAX_ROWS][2 * SVE_PARTS])
{
    sv8 a[MAX_ROWS];
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        a[r] = sve_repeat16(x->x[r] + at);
    UNROLL_FOR (unsigned i = 0; i < 4; i++)
        UNROLL_FOR (unsigned v = range.first; v < range.first + range.n; v++) {
            const uint8_t *from = pair + v / SVE_PARTS * TILE_SIZE + v % SVE_PARTS * SVE_SIZE + 64 * i;
            if (distance && v % SVE_PARTS == 0)
                PREFETCH_LINE((uintptr_t)from + distance);
            sv8 w = svreinterpret_s8_u8(sveor_n_u8_x(svptrue_b8(), sve_load(from), 128));
            UNROLL_FOR (unsigned r = 0; r < rows; r++)
                sum[i % turns][r][v] = sve_add_quad(sum[i % turns][r][v], w, a[r], i);
        }
}

/* As multiply_int8; first and n count vectors of 16 bytes. If streamed, tiles are read one after the other.
 */
INLINE void multiply_sve(const struct panel *panel, const struct act_rows *x, unsigned rows, unsigned first,
                         unsigned n, bool streamed, struct prefetcher *prefetcher,
                         int32_t out[MAX_ROWS][PANEL_ROWS])
{
    const struct sve_range all = {first * 16 / SVE_SIZE, n * 16 / SVE_SIZE};
    const struct sve_range tiles[2] = {{0, SVE_PARTS}, {SVE_PARTS, SVE_PARTS}};
    const unsigned parts = streamed ? 2 : 1;
    const uint64_t distance = !streamed ? 0 : rows > 2 ? panel->distance : STREAMED_DISTANCE;
    const unsigned turns = sve_turns(rows * SVE_PARTS);
    const uint8_t *pair = panel->codes;
    sv32 sum[4][MAX_ROWS][2 * SVE_PARTS];
    UNROLL_FOR (unsigned i = 0; i < turns; i++)
        UNROLL_FOR (unsigned r = 0; r < rows; r++)
            UNROLL_FOR (unsigned v = all.first; v < all.first + all.n; v++)
                sum[i][r][v] = svdup_s32(0);
    for (uint64_t t = 0; t < panel->tiles; t++, pair += PAIR_SIZE) {
        if (!streamed)
            prefetcher_step(prefetcher);
        UNROLL_FOR (unsigned part = 0; part < parts; part++)
            for (unsigned q = 0; q < 16; q += 4)
                add_lines_sve(pair + 64 * q, x, t * X_STEP + 4 * q, rows, streamed ? tiles[part] : all,
                              distance, turns, sum);
    }
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        UNROLL_FOR (unsigned v = all.first; v < all.first + all.n; v++) {
            sv32 total = sum[0][r][v];
            UNROLL_FOR (unsigned i = 1; i < turns; i++)
                total = svadd_s32_x(svptrue_b32(), total, sum[i][r][v]);
            svst1_s32(svptrue_b32(), &out[r][v * (SVE_SIZE / 4)], total);
        }
}

#define MULTIPLY multiply_sve
#include "plugins/common/gemm/microkernels_tmpl.h"

#endif

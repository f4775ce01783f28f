/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int4_group/dequantize_tmpl.h - codes of 4 bits to the int8 tiles of int8/rows.h, where these are
 * multiplied faster.
 *
 * Parameters  those of gemm/microkernel_tmpl.h
 */
#ifndef KT_PLUGINS_COMMON_INT4_GROUP_DEQUANTIZE_TMPL_H
#define KT_PLUGINS_COMMON_INT4_GROUP_DEQUANTIZE_TMPL_H

#ifndef EPILOGUE_H
#define EPILOGUE_H "plugins/common/int8/epilogue_tmpl.h"
#endif
#include "plugins/common/gemm/microkernel_tmpl.h"
#include "plugins/common/int4_group/weights.h"

#if !VEC_VNNI && !VEC_DOTPROD
#error \
    "int4_group/dequantize_tmpl.h: wants VEC_VNNI or VEC_DOTPROD: without, products of codes take fewer instructions"
#endif

/* Tiles t..stop-1 of both columns of a panel to `to`. */
static void dequantize_pairs(const struct panel *panel, uint64_t t, uint64_t stop, bool streamed, uint8_t *to)
{
    for (; t < stop; t++, to += PAIR_SIZE) {
        const uint8_t *pair = panel->codes + pair_offset(panel->group_shift, t);
        if (streamed)
            prefetch_streamed(pair);
        for (unsigned half = 0; half < 2; half++) {
            const uint8_t *group = panel->codes + group_offset(panel->group_shift, 2 * t + half);
            UNROLL_FOR (unsigned v = 0; v < VECS; v++) {
                const uint8_t *bytes = group + v / VEC_PARTS * TILE_ROWS;
                vi scales = g4_scales(bytes, (int)(v % VEC_PARTS));
                vi offsets = g4_offsets(g4_zeros(bytes, (int)(v % VEC_PARTS)), scales);
                const uint8_t *from = find_codes(pair + half * CODES_SIZE, v);
                uint8_t *line =
                    to + v / VEC_PARTS * TILE_SIZE + half * (TILE_SIZE / 2) + v % VEC_PARTS * (4 * VEC_ROWS);
                UNROLL_FOR (unsigned i = 0; i < 4; i++, from += 128, line += 128) {
                    vi codes = vi_load(from);
                    vi low = vi_and(codes, vi_set_u8(15)), high = vi_high4(codes);
                    vi_store(line, g4_dequantize(low, scales, offsets));
                    vi_store(line + 64, g4_dequantize(high, scales, offsets));
                }
            }
        }
    }
}

#endif

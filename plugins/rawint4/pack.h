/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - packs rows of 4-bit codes into tiles. */
#ifndef KT_PLUGINS_RAWINT4_PACK_H
#define KT_PLUGINS_RAWINT4_PACK_H

#include "plugins/rawint4/rawint4.h"

#define SOURCE_BLOCK 4
#include "plugins/common/coded/pack_tmpl.h"

INLINE vi swap_fields(vi v, int bits, uint32_t lower)
{
    vi low = vi_splat32((int32_t)lower), high = vi_splat32((int32_t)(lower << bits));
    vi others = vi_splat32((int32_t) ~(lower | lower << bits));
    return vi_or(vi_and(v, others), vi_or(vi_and(vi_shl32(v, bits), high), vi_and(vi_shr32(v, bits), low)));
}

/* Codes 0 1 2 3 4 5 6 7 of a lane, first lowest, to 0 2 4 6 1 3 5 7: layout.c's join_columns backwards. */
static unsigned order_codes(uint8_t *lines)
{
    for (unsigned at = 0; at < TILE_SIZE; at += 4 * VEC_ROWS) {
        vi v = swap_fields(vi_load(lines + at), 4, 0x00f000f0);
        vi_store(lines + at, swap_fields(v, 8, 0x0000ff00));
    }
    return 0;
}

#endif

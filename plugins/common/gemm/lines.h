/* SPDX-License-Identifier: Apache-2.0 */
/* gemm/lines.h - where vectors of a line are. A line is 64 bytes of each of the two tiles of a panel. */
#ifndef KT_PLUGINS_COMMON_GEMM_LINES_H
#define KT_PLUGINS_COMMON_GEMM_LINES_H

#include "plugins/common/gemm/geometry.h"
#include "plugins/common/simd/simd.h"

#define VECS (2 * VEC_PARTS) /* of a panel: 32 rows */

/* Vector v of a line of a pair of tiles, one after the other. */
INLINE const uint8_t *find_vector(const uint8_t *pair, unsigned v)
{
    return pair + v / VEC_PARTS * TILE_SIZE + v % VEC_PARTS * (4 * VEC_ROWS);
}

/* Vector v of a line of codes, which stand side by side: 64 bytes of one tile, then 64 of the other. */
INLINE const uint8_t *find_codes(const uint8_t *codes, unsigned v)
{
    return codes + v / VEC_PARTS * 64 + v % VEC_PARTS * (4 * VEC_ROWS);
}

#endif

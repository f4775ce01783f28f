/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int4_group/weights.h - weights of 4 bits with integer scales of groups.
 *
 *   Numbers   w = unit * scale * (code - zero): a float32 unit for each row; for each group of 32, 64 or
 *             128 columns a scale of 1..16 and a zero of 0..15; for each weight a code of 0..15. scale *
 *             (code - zero) is an int8 for every code: y = (scale_x * unit) * (sum of q_x * scale * (code -
 *             zero) over all of K, exact in 32 bits), and codes can be dequantized to the int8 tiles of
 *             int8/rows.h, so that products of many rows run as fast as those of int8. With float scales of
 *             groups, products would need a conversion of sums every 32 columns, which AMX tiles cannot do.
 *             Errors are compared in plugins/amx_int4/README.
 *   Panels    Blocks of two groups, read as they lie: a byte [group][32 rows], scale - 1 | zero << 4; then
 *             codes [8 columns][2 tiles][64 bytes]: byte 4r + b of line i is column 8i + b of row r in its
 *             low half, column 8i + 4 + b in its high one. After the blocks 32 float32 units. K is filled
 *             up with weight 0, rows with weight and unit 0. Scales stand with their codes since the
 *             hardware prefetcher follows one stream best.
 */
#ifndef KT_PLUGINS_COMMON_INT4_GROUP_WEIGHTS_H
#define KT_PLUGINS_COMMON_INT4_GROUP_WEIGHTS_H

#include "plugins/common/gemm/geometry.h"

#define ROW_SUMS 1 /* of activations, see int8/activations_tmpl.h */

#define CODES_SIZE (TILE_SIZE / 2)   /* of a tile */
#define GROUPS_SIZE (2 * PANEL_ROWS) /* of a block's scales and zeros */
#define MIN_GROUP 32
#define MAX_GROUP 128

static inline unsigned group_shift(const struct kt_layout *layout)
{
    return (unsigned)layout->words[WORD_GROUP_SHIFT];
}

/* Offsets in a panel: of pair t of tiles; of the scales and zeros of columns 32 * part to 32 * part + 31. A
 * block is 1 << shift pairs. */
static inline uint64_t pair_offset(unsigned shift, uint64_t t)
{
    return t * 2 * CODES_SIZE + ((t >> shift) + 1) * GROUPS_SIZE;
}

static inline uint64_t group_offset(unsigned shift, uint64_t part)
{
    uint64_t group = part >> shift, block_size = GROUPS_SIZE + (UINT64_C(2) * CODES_SIZE << shift);
    return group / 2 * block_size + group % 2 * PANEL_ROWS;
}

static inline uint64_t panel_size(const struct kt_layout *layout, enum kt_stage stage)
{
    uint64_t tiles = stage_tiles(layout, stage);
    uint64_t blocks = round_up(tiles, UINT64_C(1) << group_shift(layout)) >> group_shift(layout);
    return tiles * 2 * CODES_SIZE + blocks * GROUPS_SIZE + SCALES_SIZE;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int4_group/weights.h - weights of 4 bits with group scales: how the backends that have them hold them.
 *
 * Numbers   w = unit * scale * (code - zero): a float32 unit per row; per group of 32, 64 or 128 columns a
 *           scale of 1..16 and a zero of 0..15; per weight a code of 0..15. scale * (code - zero) is an
 *           int8 for every code: y = (scale_x * unit) * (sum of q_x * scale * (code - zero) over all of
 *           K, exact in 32 bits), and codes can become the int8 tiles of gemm/geometry.h, so that products
 *           of many rows run as fast as those of int8.
 *           With groups of 32 that is 4.25 bits a weight. Their relative RMS error on Gaussian weights
 *           is 0.079; with a float16 scale per group and codes -8..7 it would be 0.080 (0.085 without
 *           choosing the scale's sign) in 4.5 bits, and every 32 columns of a product would cost a
 *           conversion to float, which AMX tiles cannot do: 16 of 64 columns' products. Without the
 *           zeros, the same byte per group gives 0.087. Groups of 64: 0.088; of 128: 0.094.
 * Panels    Blocks of two groups, read as they lie: a byte [group][32 rows], scale - 1 | zero << 4; then
 * codes [8 columns][2 tiles][64 bytes]: byte 4r + b of line i is column 8i + b of row r in its low half,
 *           column 8i + 4 + b in its high one. After the blocks 32 float units. K is filled up with
 *           weight 0, rows with weight and unit 0. Were the scales of all groups in a place of their own,
 *           a processor, which follows one ascending stream from memory, would read half as fast.
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

/* Offsets in a panel: of the pair of tiles t; of the scales and zeros of columns 32 * part to 32 * part + 31.
 * A block is 1 << shift pairs. */
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

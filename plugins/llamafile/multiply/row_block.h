/* SPDX-License-Identifier: Apache-2.0 */
/*
 * row_block.h - rows of activations that lie together, for products of several rows (row_block_avx2.h,
 * row_block_vnni.h). Rows by a pointer each do not fit into the general registers, so a product copies the
 * rows of a row block into its scratch: blocks of 8 rows (of 4 where vectors have 8 rows of weights: as many
 * as registers have sums for), of each group of 32 columns all rows, with all that a group needs at constant
 * offsets from one pointer.
 */
#ifndef KT_PLUGINS_LLAMAFILE_MULTIPLY_ROW_BLOCK_H
#define KT_PLUGINS_LLAMAFILE_MULTIPLY_ROW_BLOCK_H

#include "plugins/llamafile/llamafile.h"
#include "plugins/llamafile/multiply/dots.h"

#include "plugins/common/simd/simd.h"

#include <string.h>

#define BLOCKS_OF_8 (VEC_DOT_WIDE && VEC_PARTS == 1)
#define BLOCKED_ROWS (BLOCKS_OF_8 ? 8u : 4u)

/* A group of 32 columns of a block of n = BLOCKED_ROWS rows: offsets in bytes of what row 0 has. NEG is minus
 * the sum of q; in blocks of 4, those of places 0,1 and of places 2,3 of 4. */
#define BLOCK_Q 0                       /* int8[n][32] */
#define BLOCK_SCALE (32 * BLOCKED_ROWS) /* float[n] */
#define BLOCK_NEG32 (36 * BLOCKED_ROWS) /* int32[n] or int16[n][2]: of the group */
#define BLOCK_NEG16 (40 * BLOCKED_ROWS) /* int32[n][2] or int16[n][2][2]: of its halves */
#define BLOCK_SUM32 (48 * BLOCKED_ROWS) /* float[n]: scale * sum of q */
#define BLOCK_SUM16 (52 * BLOCKED_ROWS) /* float[n][2] */
/* In blocks of 8: float[n][2], START_BASE + 32 * NEG of halves, at which dot products of q6_k start. */
#define BLOCK_START (60 * BLOCKED_ROWS)
#define BLOCK_GROUP ((BLOCKS_OF_8 ? 68 : 60) * BLOCKED_ROWS)

/* Of rows whose sums are bounded, in blocks of 4, behind q and scales: int16[n][4][2], ACT_START. */
#define BLOCK_BOUNDED (36 * BLOCKED_ROWS)

/* Bytes of a block with K columns. */
INLINE uint64_t size_block(uint64_t k)
{
    return k / GROUP * BLOCK_GROUP;
}

/* Rows of an expert lie anywhere in a batch: while a superblock is copied, that of the next row is asked for.
 */
INLINE void ask_for_next(const uint8_t *next, uint64_t g)
{
    UNROLL_FOR (unsigned i = 0; i < ACT_SIZE / 64; i++)
        __builtin_prefetch(next + g / 8 * ACT_SIZE + 64 * i);
}

/* Row r of a block, whose groups are `groups`; `next`: the row that is copied after it. */
INLINE void copy_row(const uint8_t *act, const uint8_t *next, uint64_t groups, unsigned r, uint8_t *to)
{
    for (uint64_t g = 0; g < groups; g++, to += BLOCK_GROUP) {
        const uint8_t *from = act + g / 8 * ACT_SIZE;
        const unsigned i = (unsigned)(g % 8);
        if (i == 0)
            ask_for_next(next, g);
        int16_t pair[4];
        int32_t sums[2], sum;
        float starts[2];
        memcpy(to + BLOCK_Q + GROUP * r, from + ACT_Q + GROUP * i, GROUP);
        memcpy(to + BLOCK_SCALE + 4 * r, from + ACT_SCALE + 4 * i, 4);
        memcpy(to + BLOCK_SUM32 + 4 * r, from + ACT_SUM32 + 4 * i, 4);
        memcpy(to + BLOCK_SUM16 + 8 * r, from + ACT_SUM16 + 8 * i, 8);
        if (!BLOCKS_OF_8) {
            memcpy(to + BLOCK_NEG32 + 4 * r, from + ACT_PAIR32 + 4 * i, 4);
            memcpy(to + BLOCK_NEG16 + 8 * r, from + ACT_PAIR16 + 8 * i, 8);
            continue;
        }
        memcpy(pair, from + ACT_PAIR16 + 8 * i, sizeof pair);
        sums[0] = pair[0] + pair[1];
        sums[1] = pair[2] + pair[3];
        sum = sums[0] + sums[1];
        memcpy(to + BLOCK_NEG32 + 4 * r, &sum, sizeof sum);
        memcpy(to + BLOCK_NEG16 + 8 * r, sums, sizeof sums);
        UNROLL_FOR (int half = 0; half < 2; half++)
            starts[half] = (float)(START_BASE + 32 * sums[half]);
        memcpy(to + BLOCK_START + 8 * r, starts, sizeof starts);
    }
}

/* ... of a row whose sums are bounded. */
INLINE void copy_bounded_row(const uint8_t *act, const uint8_t *next, uint64_t groups, unsigned r,
                             uint8_t *to)
{
    for (uint64_t g = 0; g < groups; g++, to += BLOCK_GROUP) {
        const uint8_t *from = act + g / 8 * ACT_SIZE;
        const unsigned i = (unsigned)(g % 8);
        if (i == 0)
            ask_for_next(next, g);
        memcpy(to + BLOCK_Q + GROUP * r, from + ACT_Q + GROUP * i, GROUP);
        memcpy(to + BLOCK_SCALE + 4 * r, from + ACT_SCALE + 4 * i, 4);
        memcpy(to + BLOCK_BOUNDED + 16 * r, from + ACT_START + 16 * i, 16);
    }
}

#endif

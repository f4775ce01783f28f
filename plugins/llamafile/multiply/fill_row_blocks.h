/* SPDX-License-Identifier: Apache-2.0 */
/* fill_row_blocks.h - a product's rows of activations as blocks in its scratch, in the form that its formats
 * want.
 */
#ifndef KT_PLUGINS_LLAMAFILE_MULTIPLY_FILL_ROW_BLOCKS_H
#define KT_PLUGINS_LLAMAFILE_MULTIPLY_FILL_ROW_BLOCKS_H

#include "plugins/common/simd/simd.h"

#if VEC_DOT_WIDE && VEC_PARTS == 1
#include "plugins/llamafile/multiply/row_block_vnni.h"
#else
#include "plugins/llamafile/multiply/row_block_avx2.h"
#endif
#ifdef ROWS_SHARE_SCALE
#include "plugins/llamafile/multiply/row_block_shared_scale.h"
#endif

/* Bytes of a block of a stage. */
INLINE uint64_t size_stage_block(const struct kt_layout *layout, enum kt_stage stage)
{
    uint64_t k = stage_k(layout, stage);
#ifdef ROWS_SHARE_SCALE
    if (has_shared_scales(layout, stage))
        return size_shared_scale_block(k);
#endif
    return size_block(k);
}

/* Where blocks begin in a product's scratch: behind tables of sums. */
INLINE uint64_t blocks_offset(const struct kt_product *job, enum kt_stage stage)
{
    return round_up(size_row_block(job, stage) * size_sums(job->layout, stage), 64);
}

INLINE const uint8_t *find_act_row(const struct kt_product *job, enum kt_stage stage, uint32_t row)
{
    return (const uint8_t *)job->act +
           (job->index ? job->index[row] : row) * job->layout->act_row_size[stage];
}

/* Rows begin..end-1 of a product, to its scratch. One row by itself is multiplied where it is, or is a block
 * of one row. */
static void make_blocks(const struct kt_product *job, enum kt_stage stage, uint32_t begin, uint32_t end)
{
    const struct kt_layout *layout = job->layout;
    const bool shared = has_shared_scales(layout, stage);
    const uint64_t groups = stage_k(layout, stage) / GROUP, size = size_stage_block(layout, stage);
    uint8_t *blocks = (uint8_t *)job->scratch + blocks_offset(job, stage);
    if (!has_part(layout, stage, false) || (end - begin == 1 && !shared))
        return;
    for (uint32_t row = begin; row < end; row++) {
        const unsigned i = row - begin, r = i % BLOCKED_ROWS;
        const uint8_t *from = find_act_row(job, stage, row),
                      *next = row + 1 < end ? find_act_row(job, stage, row + 1) : from;
        uint8_t *to = blocks + i / BLOCKED_ROWS * size;
#ifdef ROWS_SHARE_SCALE
        if (shared) {
            copy_shared_scale_row(from, next, groups, r, end - begin - (i - r) == 1 ? 1 : BLOCKED_ROWS, to);
            continue;
        }
#endif
        if (has_bounded_sums(layout, stage))
            copy_bounded_row(from, next, groups, r, to);
        else
            copy_row(from, next, groups, r, to);
    }
}

#ifdef ROWS_SHARE_SCALE
/* Superblocks share a scale where all projections of a stage have the same format and that multiplies pairs.
 */
static void choose_shared_scales(struct kt_layout *layout)
{
    const struct kt_format *format = layout->shape.format;
    layout->words[WORD_SHARED] = 0;
    if (!is_linear(&layout->shape) && format[first_projection(&layout->shape)].dtype == format[KT_UP].dtype &&
        dtype_shares_scale(format[KT_UP].dtype))
        layout->words[WORD_SHARED] |= 1u << KT_STAGE_GATE_UP;
    if (dtype_shares_scale(format[KT_DOWN].dtype))
        layout->words[WORD_SHARED] |= 1u << KT_STAGE_DOWN;
}

#endif

#ifdef ROWS_BOUNDED
/* Sums are bounded where all projections of a stage have the same format and that wants it. */
static void choose_bounded_sums(struct kt_layout *layout)
{
    const struct kt_format *format = layout->shape.format;
    layout->words[WORD_BOUNDED] = 0;
    if (!is_linear(&layout->shape) && format[first_projection(&layout->shape)].dtype == format[KT_UP].dtype &&
        dtype_is_bounded(format[KT_UP].dtype))
        layout->words[WORD_BOUNDED] |= 1u << (BOUNDED_SHIFT + KT_STAGE_GATE_UP);
    if (dtype_is_bounded(format[KT_DOWN].dtype))
        layout->words[WORD_BOUNDED] |= 1u << (BOUNDED_SHIFT + KT_STAGE_DOWN);
}
#endif

/* Room in scratch for a row block of either stage, of `most` rows at most. */
static void lay_out_blocks(struct kt_layout *layout, uint64_t most)
{
    uint64_t room = 0;
#ifdef ROWS_SHARE_SCALE
    choose_shared_scales(layout);
#endif
#ifdef ROWS_BOUNDED
    choose_bounded_sums(layout);
#endif
    for (int stage = first_stage(&layout->shape); stage <= KT_STAGE_DOWN; stage++) {
        uint64_t rows = layout->words[WORD_ROW_BLOCK + stage];
        rows = round_up(rows < most ? rows : most, 32);
        uint64_t size = rows / BLOCKED_ROWS * size_stage_block(layout, (enum kt_stage)stage);
        if (has_part(layout, (enum kt_stage)stage, false) && size > room)
            room = size;
    }
    layout->scratch_size += round_up(room, 64);
}

#endif

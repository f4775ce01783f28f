/* SPDX-License-Identifier: Apache-2.0 */
/* block_rows.h - a product's rows of activations as blocks in its scratch, in the form that its formats want.
 */
#ifndef KT_PLUGINS_LLAMAFILE_BLOCK_ROWS_H
#define KT_PLUGINS_LLAMAFILE_BLOCK_ROWS_H

#include "plugins/llamafile/blocks.h"
#include "plugins/llamafile/paired.h"

/* Bytes of a block of a stage. */
INLINE uint64_t size_stage_block(const struct kt_layout *layout, enum kt_stage stage)
{
    uint64_t k = stage_k(layout, stage);
    return has_shared_scales(layout, stage) ? size_paired_block(k) : size_block(k);
}

/* Rows begin..end-1 of a product, to its scratch. One row by itself is multiplied where it is, or is a block
 * of one row. */
static void make_blocks(const struct kt_product *job, enum kt_stage stage, uint32_t begin, uint32_t end)
{
    const struct kt_layout *layout = job->layout;
    const bool shared = has_shared_scales(layout, stage);
    const uint64_t groups = stage_k(layout, stage) / GROUP, size = size_stage_block(layout, stage);
    const struct llamafile_format *format =
        layout_format(layout, layout->shape.format[stage == KT_STAGE_DOWN ? KT_DOWN : KT_GATE].dtype);
    if (!has_part(layout, stage, false) || (end - begin == 1 && !shared))
        return;
    for (uint32_t row = begin; row < end; row++) {
        const unsigned i = row - begin, r = i % BLOCK_ROWS, last = end - begin - (i - r) == 1;
        const uint8_t *from =
            (const uint8_t *)job->act + (job->index ? job->index[row] : row) * layout->act_row_size[stage];
        uint8_t *to = (uint8_t *)job->scratch + i / BLOCK_ROWS * size;
        if (shared)
            copy_paired_row(format, from, groups, r, last ? 1 : BLOCK_ROWS, to);
        else
            copy_row(from, groups, r, to);
    }
}

/* Superblocks share a scale where all projections of a stage have the same format and that multiplies pairs.
 */
static void choose_shared_scales(struct kt_layout *layout)
{
    const struct kt_format *format = layout->shape.format;
    layout->words[WORD_SHARED] = 0;
    if (!is_linear(&layout->shape) && format[KT_GATE].dtype == format[KT_UP].dtype &&
        dtype_is_paired(format[KT_GATE].dtype))
        layout->words[WORD_SHARED] |= 1u << KT_STAGE_GATE_UP;
    if (dtype_is_paired(format[KT_DOWN].dtype))
        layout->words[WORD_SHARED] |= 1u << KT_STAGE_DOWN;
}

/* Room in scratch for a row block of either stage. */
static void lay_out_blocks(struct kt_layout *layout)
{
    uint64_t room = 0;
    choose_shared_scales(layout);
    for (int stage = first_stage(&layout->shape); stage <= KT_STAGE_DOWN; stage++) {
        uint64_t rows = round_up(layout->words[WORD_ROW_BLOCK + stage], 32);
        uint64_t size = rows / BLOCK_ROWS * size_stage_block(layout, (enum kt_stage)stage);
        if (has_part(layout, (enum kt_stage)stage, false) && size > room)
            room = size;
    }
    layout->scratch_size += round_up(room, 64);
}

#endif

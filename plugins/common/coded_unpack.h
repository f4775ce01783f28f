/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coded_unpack.h - panels of codes (coded16.h) back to rows of their source, bit for bit. Include the
 * backend's header and coded_layout.h first. The backend says
 *
 *   unpack_codes(codes, row, begin, end, to)  columns begin..end-1 of 32, whole bytes, of a row of a tile
 */
#ifndef KT_PLUGINS_CODED_UNPACK_H
#define KT_PLUGINS_CODED_UNPACK_H

#include "plugins/common/coded16.h"
#include "plugins/common/half.h"

/* Columns of a row, then those of the next row: what is read of a panel then stays in L1. */
#define UNPACK_COLUMNS 512

/* A value as the source had it: where all rows of a tile have one scale, it was widened to float32. */
static void unpack_scale(const struct coded *coded, uint32_t dtype, const uint8_t *scales, uint64_t place,
                         uint8_t *to)
{
    uint64_t size = scale_bytes(coded->form);

    if (coded->form != SCALE_ONE) {
        memcpy(to, scales + place * size, size);
        return;
    }
    float value = load_f32(scales + place / TILE_ROWS * sizeof value);
    if (dtype == KT_DTYPE_F16)
        store_u16(to, float_to_half(value));
    else if (dtype == KT_DTYPE_BF16)
        store_u16(to, (uint16_t)(float_to_bits(value) >> 16));
    else if (dtype == KT_DTYPE_F8_E8M0)
        *to = (uint8_t)(float_to_bits(value) >> 23);
    else
        memcpy(to, &value, sizeof value);
}

static uint64_t source_scale_bytes(uint32_t dtype)
{
    return dtype == KT_DTYPE_F8_E8M0 ? 1 : dtype == KT_DTYPE_F16 || dtype == KT_DTYPE_BF16 ? 2 : 4;
}

/* Where a row of the job's projection is. */
static const uint8_t *find_unpacked(const struct kt_unpack *job, uint64_t row, uint64_t *place)
{
    enum kt_stage stage = job->projection == KT_DOWN ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
    uint64_t step = job->layout->panel_rows[stage];

    *place = row % step + (job->projection == KT_UP ? TILE_ROWS : 0);
    return (const uint8_t *)job->packed + row / step * panel_size(job->layout, stage);
}

/* Scales and zeros of the groups of columns that the job touches, of the group of rows that `row` is in. */
static void unpack_groups(const struct kt_unpack *job, const struct coded *coded, uint64_t row, uint64_t n)
{
    const struct kt_format *format = &job->layout->shape.format[job->projection];
    uint64_t first = job->col_begin / format->group_cols, last = (job->col_end - 1) / format->group_cols;
    uint64_t size = source_scale_bytes(format->scale_dtype), place;
    const uint8_t *panel = find_unpacked(job, row, &place), *zeros = panel + coded->scales_size;

    for (uint64_t g = first; g <= last; g++) {
        if (job->scales)
            unpack_scale(coded, format->scale_dtype, panel + g * coded->scales_step, place,
                         (uint8_t *)job->scales + (int64_t)n * job->scales_stride + (g - first) * size);
        if (job->zeros && coded->has_zeros)
            ((uint8_t *)job->zeros)[(int64_t)n * job->zeros_stride + (int64_t)(g - first)] =
                zeros[g * PANEL_ROWS + place];
    }
}

/* Columns begin..end-1 of a row. */
static void unpack_row(const struct kt_unpack *job, const struct coded *coded, uint64_t row, uint64_t begin,
                       uint64_t end)
{
    uint64_t place;
    const uint8_t *panel = find_unpacked(job, row, &place);
    const uint8_t *codes = panel + coded->scales_size + coded->zeros_size + place / TILE_ROWS * 64;
    uint8_t *to = (uint8_t *)job->codes + (int64_t)(row - job->row_begin) * job->codes_stride;

    for (uint64_t c = begin, next; c < end; c = next) {
        uint64_t t = c / TILE_COLUMNS, stop = (t + 1) * TILE_COLUMNS;
        next = stop < end ? stop : end;
        unpack_codes(codes + t * 2 * CODES_SIZE, place % TILE_ROWS, c % TILE_COLUMNS,
                     next - t * TILE_COLUMNS,
                     to + (c - job->col_begin) * CODES_SIZE / (TILE_ROWS * TILE_COLUMNS));
    }
}

static void unpack_weights(const struct kt_unpack *job)
{
    enum kt_stage stage = job->projection == KT_DOWN ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
    struct coded coded = find_coded(job->layout, stage);
    uint64_t step = job->layout->panel_rows[stage], rows = job->layout->shape.format[job->projection].group_rows;

    if (job->row_begin == job->row_end || job->col_begin == job->col_end)
        return;
    for (uint64_t g = job->row_begin / rows, n = 0; g <= (job->row_end - 1) / rows; g++, n++)
        unpack_groups(job, &coded, g * rows < job->row_begin ? job->row_begin : g * rows, n);
    for (uint64_t row = job->row_begin, next; row < job->row_end; row = next) {
        uint64_t left = job->row_end - row, rest = step - row % step;
        next = row + (left < rest ? left : rest);
        for (uint64_t c = job->col_begin, end; c < job->col_end; c = end) {
            end = job->col_end - c < UNPACK_COLUMNS ? job->col_end : c + UNPACK_COLUMNS;
            for (uint64_t r = row; r < next; r++)
                unpack_row(job, &coded, r, c, end);
        }
    }
}

#endif

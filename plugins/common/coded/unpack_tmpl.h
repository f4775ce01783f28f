/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coded/unpack_tmpl.h - copies panels of codes (coded/geometry_tmpl.h) back to rows of their source, bit
 * for bit.
 *
 * Parameters  those of coded/geometry_tmpl.h
 * Wanted      unpack_codes
 */
#ifndef KT_PLUGINS_COMMON_CODED_UNPACK_TMPL_H
#define KT_PLUGINS_COMMON_CODED_UNPACK_TMPL_H

#include "plugins/common/coded/geometry_tmpl.h"

/* Columns begin..end-1 of 32, whole bytes, of a row of the tile whose codes begin at `codes`. */
static inline void unpack_codes(const uint8_t *codes, uint64_t row, uint64_t begin, uint64_t end,
                                uint8_t *to);

/* So many columns of a row, then those of the next row: what is read of a panel then stays in L1. */
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

/* A job, and what follows from its layout. */
struct unpacking {
    const struct kt_unpack *job;
    const struct kt_format *format;
    struct coded coded;
    uint64_t step, size; /* rows and bytes of a panel */
};

/* Where a row of the job's projection is. */
static const uint8_t *find_unpacked(const struct unpacking *unpacking, uint64_t row, uint64_t *place)
{
    *place = panel_place(&unpacking->job->layout->shape, unpacking->job->projection, row);
    return (const uint8_t *)unpacking->job->packed + row / unpacking->step * unpacking->size;
}

/* Scales and zeros of the groups of columns that the job touches, for the group of rows that `row` is in,
 * the n-th that the job touches. */
static void unpack_groups(const struct unpacking *unpacking, uint64_t row, uint64_t n)
{
    const struct kt_unpack *job = unpacking->job;
    const struct coded *coded = &unpacking->coded;
    uint32_t dtype = unpacking->format->scale_dtype;
    uint64_t columns = unpacking->format->group_cols, place;
    uint64_t first = job->col_begin / columns, last = (job->col_end - 1) / columns;
    const uint8_t *panel = find_unpacked(unpacking, row, &place);
    const uint8_t *zeros = panel + coded->scales_size + place;
    if (job->scales) {
        uint8_t *to = (uint8_t *)job->scales + (int64_t)n * job->scales_stride;
        for (uint64_t g = first; g <= last; g++, to += source_scale_bytes(dtype))
            unpack_scale(coded, dtype, panel + g * coded->scales_step, place, to);
    }
    if (job->zeros && coded->has_zeros) {
        uint8_t *to = (uint8_t *)job->zeros + (int64_t)n * job->zeros_stride;
        for (uint64_t g = first; g <= last; g++)
            *to++ = zeros[g * PANEL_ROWS];
    }
}

/* Columns begin..end-1 of a row. */
static void unpack_row(const struct unpacking *unpacking, uint64_t row, uint64_t begin, uint64_t end)
{
    const struct kt_unpack *job = unpacking->job;
    const struct coded *coded = &unpacking->coded;
    uint64_t place;
    const uint8_t *panel = find_unpacked(unpacking, row, &place);
    const uint8_t *codes = panel + coded->scales_size + coded->zeros_size + place / TILE_ROWS * 64;
    uint8_t *to = (uint8_t *)job->codes + (int64_t)(row - job->row_begin) * job->codes_stride +
                  (begin - job->col_begin) * CODES_SIZE / (TILE_ROWS * TILE_COLUMNS);
    for (uint64_t c = begin, n; c < end; c += n, to += n * CODES_SIZE / (TILE_ROWS * TILE_COLUMNS)) {
        uint64_t first = c % TILE_COLUMNS, left = end - c;
        const uint8_t *tile = codes + c / TILE_COLUMNS * 2 * CODES_SIZE;
        if (first == 0 && left >= TILE_COLUMNS) {
            n = TILE_COLUMNS;
            unpack_codes(tile, place % TILE_ROWS, 0, TILE_COLUMNS, to);
        } else {
            n = left < TILE_COLUMNS - first ? left : TILE_COLUMNS - first;
            unpack_codes(tile, place % TILE_ROWS, first, first + n, to);
        }
    }
}

static void unpack_weights(const struct kt_unpack *job)
{
    enum kt_stage stage = job->projection == KT_DOWN ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
    const struct unpacking unpacking = {
        .job = job,
        .format = &job->layout->shape.format[job->projection],
        .coded = find_coded(job->layout, stage),
        .step = job->layout->panel_rows[stage],
        .size = panel_size(job->layout, stage),
    };
    uint64_t rows = unpacking.format->group_rows;
    if (job->row_begin == job->row_end || job->col_begin == job->col_end)
        return;
    for (uint64_t g = job->row_begin / rows, n = 0; g <= (job->row_end - 1) / rows; g++, n++)
        unpack_groups(&unpacking, g * rows < job->row_begin ? job->row_begin : g * rows, n);
    for (uint64_t row = job->row_begin, next; row < job->row_end; row = next) {
        uint64_t left = job->row_end - row, rest = unpacking.step - row % unpacking.step;
        next = row + (left < rest ? left : rest);
        for (uint64_t c = job->col_begin, end; c < job->col_end; c = end) {
            end = job->col_end - c < UNPACK_COLUMNS ? job->col_end : c + UNPACK_COLUMNS;
            for (uint64_t r = row; r < next; r++)
                unpack_row(&unpacking, r, c, end);
        }
    }
}

#endif

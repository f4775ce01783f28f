/* SPDX-License-Identifier: Apache-2.0 */
/* scaled.c - random weights with scales, and zeros, in groups beside them, laid out as checkpoints do. */
#include "tools/check/check.h"

#include <kt/kt.h>
#include <stdlib.h>
#include <string.h>

/* Every form of scales meets every size of groups as `kind` counts up: 4, 5 or 7, and 3 have no common
 * factor. */
void random_format(uint64_t *state, unsigned kind, uint32_t dtype, uint64_t rows, uint64_t cols,
                   struct kt_format *format)
{
    static const uint32_t forms[4] = {KT_DTYPE_BF16, KT_DTYPE_F16, KT_DTYPE_F32, KT_DTYPE_F8_E8M0};
    static const uint64_t columns[5] = {32, 128, UINT64_MAX, 64, 96};
    static const uint64_t fine[7] = {32, 16, UINT64_MAX, 48, 128, 8, 72};
    static const uint64_t tall[4] = {16, 128, UINT64_MAX, 24};
    uint64_t group_cols = dtype == KT_DTYPE_INT4 ? fine[kind % 7] : columns[kind % 5], group_rows = 1;
    if (kind % 3 == 2)
        group_rows = tall[random_below(state, 4)];
    format->dtype = dtype;
    format->scale_dtype = forms[kind % 4];
    format->zero_dtype = dtype == KT_DTYPE_INT4 && kind / 4 % 2 ? KT_DTYPE_U8 : KT_DTYPE_NONE;
    format->group_cols = group_cols == UINT64_MAX ? cols : group_cols;
    format->group_rows = group_rows == UINT64_MAX ? rows : group_rows;
}

/* A grid of units in memory: the allocation, and the first unit in it. */
struct grid {
    uint8_t *first;
    uint64_t size; /* counted from the lowest byte */
    int64_t row_stride, col_stride;
};

/* Row after row with gaps; column after column, as GPTQ has it; every other row, as gpt-oss has gate
 * and up; or from the last row up. */
static bool place(uint64_t *state, uint64_t rows, uint64_t cols, uint64_t bytes, struct grid *grid,
                  struct guarded *data)
{
    uint32_t way = random_below(state, 4);
    uint64_t col = bytes * (random_below(state, 4) ? 1 : 2),
             row = cols * col + bytes * random_below(state, 5);
    if (way == 1) {
        row = bytes;
        col = rows * bytes;
    } else if (way == 2) {
        row = 2 * cols * col;
    }
    grid->size = (rows - 1) * row + (cols - 1) * col + bytes;
    if (!guard_create("the source's weights or scales", grid->size, bytes, random_below(state, 2), data))
        return false;
    grid->first = data->data + (way == 3 ? (rows - 1) * row : 0);
    grid->row_stride = way == 3 ? -(int64_t)row : (int64_t)row;
    grid->col_stride = (int64_t)col;
    return true;
}

/* A scale between 2^-19 and 2^-4, or one of the smallest possible, of either sign if the format has one. */
static void random_scale(uint64_t *state, uint32_t dtype, uint8_t *to)
{
    uint32_t bits = (uint32_t)random_next(state);
    if (dtype == KT_DTYPE_F8_E8M0)
        *to = (uint8_t)(bits & 15 ? 108 + (bits >> 4 & 15) : bits >> 4 & 1);
    else
        random_floats(state, dtype, to, 1);
}

/* Weights that are numbers without scales have one for all of them: a power of two, 2^-7 to 1, of either
 * sign, which commutes with every rounding of the weights. */
static void random_power(uint64_t *state, uint32_t dtype, uint8_t *to)
{
    uint32_t bits = (uint32_t)random_next(state);
    write_number(to, dtype, bits_float((bits & 0x80000000) | (120 + (bits & 7)) << 23));
}

bool needs_scales(uint32_t dtype)
{
    return dtype == KT_DTYPE_I8 || dtype == KT_DTYPE_F8_E4M3 || dtype == KT_DTYPE_INT4 ||
           dtype == KT_DTYPE_F4_E2M1;
}

static bool create_values(uint64_t *state, const struct kt_view *view, const struct kt_format *format,
                          uint32_t dtype, struct kt_scales *values, struct guarded *data)
{
    uint64_t rows = (view->rows - 1) / format->group_rows + 1;
    uint64_t cols = (view->cols - 1) / format->group_cols + 1;
    uint32_t elements, bytes;
    struct grid grid;
    kt_dtype_block(dtype, &elements, &bytes);
    if (!place(state, rows, cols, bytes, &grid, data))
        return false;
    *values = (struct kt_scales){.data = grid.first,
                                 .size = grid.size,
                                 .dtype = dtype,
                                 .group_rows = format->group_rows,
                                 .group_cols = format->group_cols,
                                 .row_stride = grid.row_stride,
                                 .col_stride = grid.col_stride};
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < cols; c++) {
            uint8_t *to = grid.first + (int64_t)r * grid.row_stride + (int64_t)c * grid.col_stride;
            if (dtype == KT_DTYPE_U8)
                *to = (uint8_t)random_below(state, 17); /* GPTQ's reach from 1 to 16 */
            else if (needs_scales(format->dtype))
                random_scale(state, dtype, to);
            else
                random_power(state, dtype, to);
        }
    return true;
}

/* One matrix in 8 has up to 3 NaNs; most products must be free of them. */
static void scatter_nan(uint64_t *state, const struct grid *grid, uint64_t rows, uint64_t cols)
{
    uint32_t n = random_below(state, 8) ? 0 : 1 + random_below(state, 3);
    for (; n > 0; n--)
        grid->first[(int64_t)random_below(state, (uint32_t)rows) * grid->row_stride +
                    (int64_t)random_below(state, (uint32_t)cols) * grid->col_stride] =
            random_below(state, 2) ? 0x7f : 0xff;
}

/* One row in four of 4-bit weights has only the lowest or only the highest quant, to make sums saturate. */
static void fill_row(uint64_t *state, uint32_t dtype, uint64_t n, uint8_t *blocks, int64_t stride)
{
    static const uint8_t extreme[4] = {0x00, 0x77, 0x88, 0xff};
    bool fill = (dtype == KT_DTYPE_INT4 || dtype == KT_DTYPE_F4_E2M1) && random_below(state, 4) == 0;
    uint8_t filler = extreme[random_below(state, 4)];
    for (uint64_t b = 0; b < n; b++, blocks += stride) {
        random_blocks(state, dtype, blocks, 1);
        if (fill)
            memset(blocks, filler, 4);
    }
}

bool create_scaled_view(uint64_t *state, const struct kt_format *format, uint64_t rows, uint64_t cols,
                        struct kt_view *view, struct guarded data[3])
{
    uint32_t elements, bytes;
    struct grid grid;
    kt_dtype_block(format->dtype, &elements, &bytes);
    if (!place(state, rows, cols / elements, bytes, &grid, &data[0]))
        return false;
    *view = (struct kt_view)KT_VIEW_INIT;
    view->dtype = format->dtype;
    view->data = grid.first;
    view->size = grid.size;
    view->rows = rows;
    view->cols = cols;
    view->row_stride = grid.row_stride;
    view->block_stride = grid.col_stride;
    for (uint64_t r = 0; r < rows; r++)
        fill_row(state, format->dtype, cols / elements, grid.first + (int64_t)r * grid.row_stride,
                 grid.col_stride);
    if (format->dtype == KT_DTYPE_F8_E4M3)
        scatter_nan(state, &grid, rows, cols);
    return create_values(state, view, format, format->scale_dtype, &view->scales, &data[1]) &&
           (!format->zero_dtype ||
            create_values(state, view, format, format->zero_dtype, &view->zeros, &data[2]));
}

/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/support/own_view.h"

#include <stddef.h>
#include <sys/mman.h>

enum { PAGE = 65536 }; /* no machine has larger ones by default */

/* Memory of OWN_MOST bytes between two pages that fault, or NULL. */
static uint8_t *between_pages(void)
{
    uint8_t *start =
        mmap(NULL, OWN_MOST + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED || mprotect(start + PAGE, OWN_MOST, PROT_READ | PROT_WRITE) != 0)
        return NULL;
    return start + PAGE;
}

/* A grid of units as its strides lay it, and where its first unit is. */
struct laid {
    uint8_t *low;
    uint64_t size;
    const uint8_t *first;
    int64_t row_stride, col_stride;
};

static bool lay(uint8_t **memory, uint64_t rows, uint64_t cols, uint64_t bytes, unsigned way,
                struct laid *laid)
{
    uint64_t gap = way & OWN_GAPS ? 5 : 0, inner = bytes + gap;
    uint64_t outer = (way & OWN_TURNED ? rows : cols) * inner + 3 * gap;
    uint64_t row = way & OWN_TURNED ? inner : outer, col = way & OWN_TURNED ? outer : inner;
    laid->size = (rows - 1) * row + (cols - 1) * col + bytes;
    if (laid->size > OWN_MOST || (!*memory && !(*memory = between_pages())))
        return false;
    laid->low = *memory + (way & OWN_FIRST ? 0 : OWN_MOST - laid->size);
    laid->first = laid->low + (way & OWN_BACK ? (rows - 1) * row : 0);
    laid->row_stride = way & OWN_BACK ? -(int64_t)row : (int64_t)row;
    laid->col_stride = (int64_t)col;
    if (way & OWN_GAPS && rows == 1) /* not needed, so any number will do */
        laid->row_stride = INT64_MAX - 2;
    if (way & OWN_GAPS && cols == 1)
        laid->col_stride = INT64_MIN + 2;
    return true;
}

/* The last byte of each plain number has the exponent of a small one, whatever floating-point type it is. */
static void fill(const struct laid *laid, uint64_t rows, uint64_t cols, uint64_t bytes, bool wild,
                 uint64_t *state)
{
    for (uint64_t i = 0; i < laid->size; i++) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        laid->low[i] = (uint8_t)(*state >> 40);
    }
    for (uint64_t r = 0; r < rows && !wild; r++)
        for (uint64_t c = 0; c < cols; c++)
            ((uint8_t *)(uintptr_t)laid->first)[(int64_t)r * laid->row_stride +
                                                (int64_t)c * laid->col_stride + (int64_t)bytes - 1] = 0x3c;
}

static bool own_scales(uint8_t **memory, const struct own_shape *shape, uint32_t dtype, uint64_t *state,
                       struct kt_scales *scales)
{
    uint64_t rows = (shape->rows - 1) / shape->group_rows + 1;
    uint64_t cols = (shape->cols - 1) / shape->group_cols + 1;
    uint32_t elements, bytes;
    struct laid laid;
    if (dtype == KT_DTYPE_NONE)
        return true;
    kt_dtype_block(dtype, &elements, &bytes);
    bytes = bytes ? bytes : 1; /* of a number that is not a dtype */
    if (!lay(memory, rows, cols, bytes, shape->scale_way, &laid))
        return false;
    fill(&laid, rows, cols, bytes, shape->wild, state);
    *scales = (struct kt_scales){.data = laid.first,
                                 .size = laid.size,
                                 .dtype = dtype,
                                 .group_rows = shape->group_rows,
                                 .group_cols = shape->group_cols,
                                 .row_stride = laid.row_stride,
                                 .col_stride = laid.col_stride};
    return true;
}

bool own_view(unsigned slot, const struct own_shape *shape, uint64_t *state, struct kt_view *view)
{
    static uint8_t *memory[OWN_VIEWS][3];
    uint32_t elements, bytes;
    struct laid laid;
    kt_dtype_block(shape->dtype, &elements, &bytes);
    elements = elements ? elements : 1;
    bytes = bytes ? bytes : 1;
    uint64_t blocks = (shape->cols - 1) / elements + 1;
    if (!lay(&memory[slot][0], shape->rows, blocks, bytes, shape->way, &laid))
        return false;
    fill(&laid, shape->rows, blocks, bytes, shape->wild || elements > 1, state);
    *view = (struct kt_view)KT_VIEW_INIT;
    view->dtype = shape->dtype;
    view->data = laid.first;
    view->size = laid.size;
    view->rows = shape->rows;
    view->cols = shape->cols;
    view->row_stride = laid.row_stride;
    view->block_stride = laid.col_stride;
    return own_scales(&memory[slot][1], shape, shape->scale_dtype, state, &view->scales) &&
           own_scales(&memory[slot][2], shape, shape->zero_dtype, state, &view->zeros);
}

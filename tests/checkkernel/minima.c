/* SPDX-License-Identifier: Apache-2.0 */
/*
 * minima.c - what is added to each weight of a quantized format, whatever its code: the weight of code 0. And
 * what a code is multiplied by: by how much the weight of the next code differs.
 *
 * Kernels multiply the codes, which are not negative, and then add the first times the sum of x. Both are
 * found by the format's own decoding, of blocks whose codes are made 0, and the highest ones.
 */
#include "core/weights/decode/dequantize.h"
#include "tests/checkkernel/check.h"
#include "tools/check/format.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* NULL: its codes do not stand apart. */
static const struct block_format *find_codes(uint32_t dtype)
{
    const struct block_format *format = block_format(dtype);
    return format && format->end > 0 ? format : NULL;
}

/* A row whose bytes of codes are all `filler`. */
static void decode_row(struct check *check, const struct kt_view *view, const struct block_format *codes,
                       uint8_t filler, uint64_t row, uint8_t *blocks, float *out)
{
    struct kt_view one = *view;
    struct kt_error error = {KT_OK, ""};
    uint32_t elements, size;
    kt_dtype_block(view->dtype, &elements, &size);
    uint64_t n = view->cols / elements;
    for (uint64_t b = 0; b < n; b++) {
        memcpy(blocks + b * size,
               (const uint8_t *)view->data + (int64_t)row * view->row_stride +
                   (int64_t)b * view->block_stride,
               size);
        memset(blocks + b * size + codes->codes, filler, codes->end - codes->codes);
    }
    one.data = blocks;
    one.size = n * size;
    one.rows = 1;
    one.row_stride = (int64_t)one.size;
    one.block_stride = size;
    if (kt_view_dequantize(&one, 0, 0, view->cols, out, &error))
        check_fail(check, "minima: %s", error.message);
}

/* All rows, with `filler` for each byte of codes; no code of these formats takes more than two bytes. */
static float *decode(struct check *check, const struct kt_view *view, const struct block_format *codes,
                     uint8_t filler)
{
    float *out = check_need(malloc(view->rows * view->cols * sizeof *out));
    uint8_t *blocks = check_need(malloc(view->cols * 2));
    for (uint64_t r = 0; r < view->rows; r++)
        decode_row(check, view, codes, filler, r, blocks, out + r * view->cols);
    free(blocks);
    return out;
}

void check_minima(struct check *check)
{
    for (int p = 0; p < 3; p++) {
        const struct kt_view *view = check_view(check, (enum kt_projection)p);
        const struct block_format *codes = find_codes(view->dtype);
        if (codes)
            check->minima[p] = decode(check, view, codes, 0);
    }
}

float *minima_find_steps(struct check *check, enum kt_projection projection)
{
    const struct kt_view *view = check_view(check, projection);
    const struct block_format *codes = find_codes(view->dtype);
    if (!codes || !codes->highest)
        return NULL;
    float *steps = decode(check, view, codes, 0xff);
    for (uint64_t i = 0; i < view->rows * view->cols; i++)
        steps[i] = (float)(fabs((double)steps[i] - (double)check->minima[projection][i]) / codes->highest);
    return steps;
}

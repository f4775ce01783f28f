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

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where a block keeps its codes, and nothing else; `highest`: the code of all bits, where a minimum stands
 * beside codes. */
static const struct codes {
    uint32_t dtype, begin, end, highest;
} formats[] = {
    {KT_DTYPE_Q4_0, 2, 18, 0},    {KT_DTYPE_Q4_1, 4, 20, 15},   {KT_DTYPE_Q5_0, 2, 22, 0},
    {KT_DTYPE_Q5_1, 4, 24, 31},   {KT_DTYPE_Q2_K, 16, 80, 3},   {KT_DTYPE_Q3_K, 0, 96, 0},
    {KT_DTYPE_Q4_K, 16, 144, 15}, {KT_DTYPE_Q5_K, 16, 176, 31}, {KT_DTYPE_Q6_K, 0, 192, 0},
    {KT_DTYPE_TQ1_0, 0, 52, 0},   {KT_DTYPE_TQ2_0, 0, 64, 0},   {KT_DTYPE_Q2_0, 2, 18, 0},
};

static const struct codes *find_codes(uint32_t dtype)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].dtype == dtype)
            return &formats[i];
    return NULL;
}

/* A row whose bytes of codes are all `filler`. */
static void decode_row(struct check *check, const struct kt_view *view, const struct codes *codes,
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
        memset(blocks + b * size + codes->begin, filler, codes->end - codes->begin);
    }
    one.data = blocks;
    one.size = n * size;
    one.rows = 1;
    one.row_stride = (int64_t)one.size;
    one.block_stride = size;
    if (kt_view_dequantize(&one, 0, 0, view->cols, out, &error))
        check_fail(check, "minima: %s", error.message);
}

static const struct kt_view *find_view(const struct check *check, int projection)
{
    const struct kt_expert *expert = &check->source.expert;
    const struct kt_view *views[3] = {&expert->gate, &expert->up, &expert->down};
    return views[projection];
}

/* All rows, with `filler` for each byte of codes; no code of these formats takes more than two bytes. */
static float *decode(struct check *check, const struct kt_view *view, const struct codes *codes,
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
        const struct kt_view *view = find_view(check, p);
        const struct codes *codes = find_codes(view->dtype);
        if (codes)
            check->minima[p] = decode(check, view, codes, 0);
    }
}

float *minima_find_steps(struct check *check, enum kt_projection projection)
{
    const struct kt_view *view = find_view(check, (int)projection);
    const struct codes *codes = find_codes(view->dtype);
    if (!codes || !codes->highest)
        return NULL;
    float *steps = decode(check, view, codes, 0xff);
    for (uint64_t i = 0; i < view->rows * view->cols; i++)
        steps[i] = (float)(fabs((double)steps[i] - (double)check->minima[projection][i]) / codes->highest);
    return steps;
}

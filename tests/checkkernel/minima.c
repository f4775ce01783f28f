/* SPDX-License-Identifier: Apache-2.0 */
/*
 * minima.c - what is added to each weight of a quantised format, whatever its code: the weight of code 0.
 *
 * Kernels multiply the codes, which are not negative, and then add this times the sum of x. It is found by
 * the format's own decoding, of blocks whose codes are made 0.
 */
#include "core/weights/decode/dequantize.h"
#include "tests/checkkernel/check.h"

#include <stdlib.h>
#include <string.h>

/* Where a block keeps its codes, and nothing else. */
static const struct codes {
    uint32_t dtype, begin, end;
} formats[] = {
    {KT_DTYPE_Q4_0, 2, 18},  {KT_DTYPE_Q4_1, 4, 20},  {KT_DTYPE_Q5_0, 2, 22},   {KT_DTYPE_Q5_1, 4, 24},
    {KT_DTYPE_Q2_K, 16, 80}, {KT_DTYPE_Q3_K, 0, 96},  {KT_DTYPE_Q4_K, 16, 144}, {KT_DTYPE_Q5_K, 16, 176},
    {KT_DTYPE_Q6_K, 0, 192}, {KT_DTYPE_TQ1_0, 0, 52}, {KT_DTYPE_TQ2_0, 0, 64},  {KT_DTYPE_Q2_0, 2, 18},
};

static const struct codes *find_codes(uint32_t dtype)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].dtype == dtype)
            return &formats[i];
    return NULL;
}

static void decode_row(struct check *check, const struct kt_view *view, const struct codes *codes,
                       uint64_t row, uint8_t *blocks, float *minima)
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
        memset(blocks + b * size + codes->begin, 0, codes->end - codes->begin);
    }
    one.data = blocks;
    one.size = n * size;
    one.rows = 1;
    one.row_stride = (int64_t)one.size;
    one.block_stride = size;
    if (kt_view_dequantize(&one, 0, 0, view->cols, minima, &error))
        check_fail(check, "minima: %s", error.message);
}

void check_minima(struct check *check)
{
    const struct kt_expert *expert = &check->source.expert;
    const struct kt_view *views[3] = {&expert->gate, &expert->up, &expert->down};
    for (int p = 0; p < 3; p++) {
        const struct kt_view *view = views[p];
        const struct codes *codes = find_codes(view->dtype);
        if (!codes)
            continue;
        uint8_t *blocks = check_need(malloc(view->cols * 2)); /* no code of these takes more */
        check->minima[p] = check_need(malloc(view->rows * view->cols * sizeof(float)));
        for (uint64_t r = 0; r < view->rows; r++)
            decode_row(check, view, codes, r, blocks, check->minima[p] + r * view->cols);
        free(blocks);
    }
}

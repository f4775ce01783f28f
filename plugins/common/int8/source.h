/* SPDX-License-Identifier: Apache-2.0 */
/* int8/source.h - 16 rows of a source view and their scales. */
#ifndef KT_PLUGINS_COMMON_INT8_SOURCE_H
#define KT_PLUGINS_COMMON_INT8_SOURCE_H

#include "plugins/common/gemm/packing.h"
#include "plugins/common/int8/kept.h"
#include "plugins/common/simd/numbers.h"

/* How many rows ahead memory is prefetched: 8 rows of 4 KB are 32 KB, which stay in L2 until they are read.
 * Closer than 4 rows, packing waits for memory. */
#define PREFETCH_ROWS 8

/* 16 rows of plain numbers, or of int8 whose scales the view has. */
struct plain_rows {
    const uint8_t *first;
    int64_t stride;
    uint32_t dtype;
    uint64_t n;                 /* that are there */
    const struct kt_view *kept; /* of int8, from row `begin` on; NULL: plain numbers */
    uint64_t begin;
};

/* The view's own rows, or what the core makes of them. */
static enum kt_status find_source(const struct packing *packing, const struct kt_view *view, uint64_t begin,
                                  struct plain_rows *rows, struct kt_error *error)
{
    *rows = (struct plain_rows){.begin = begin};
    rows->n = begin < view->rows ? view->rows - begin : 0;
    rows->n = rows->n < TILE_ROWS ? rows->n : TILE_ROWS;
    rows->kept = is_kept(view->dtype, view->scales.data ? view->scales.dtype : (uint32_t)KT_DTYPE_NONE,
                         view->zeros.data ? view->zeros.dtype : (uint32_t)KT_DTYPE_NONE,
                         view->scales.group_cols, packing->k)
                     ? view
                     : NULL;
    if (rows->kept)
        return KT_OK;
    if (is_plain(view)) {
        rows->first = (const uint8_t *)view->data + (int64_t)begin * view->row_stride;
        rows->stride = view->row_stride;
        rows->dtype = view->dtype;
        return KT_OK;
    }
    rows->first = (const uint8_t *)packing->rows;
    rows->stride = (int64_t)(packing->stride * sizeof(float));
    rows->dtype = KT_DTYPE_F32;
    for (uint64_t i = 0; i < rows->n; i++) {
        enum kt_status status =
            read_row(packing, view, begin + i, packing->rows + i * packing->stride, error);
        if (status)
            return status;
    }
    return KT_OK;
}

static struct q8_scale scale_plain(const struct packing *packing, const uint8_t *row, uint32_t dtype)
{
    uint64_t whole = packing->k / Q8_STEP * Q8_STEP, c = 0;
    uint64_t element = dtype == KT_DTYPE_F32 ? 4 : 2;
    uint32_t most = 0;
    vi max = vi_splat32(0);
    if (dtype == KT_DTYPE_BF16) {
        most = vec_absmax_bf16(row, whole);
        c = whole;
    }
    for (; c < packing->width; c += Q8_STEP) {
        _Alignas(64) float x[Q8_STEP];
        q8_read(row + c * element, dtype, packing->k - c, x);
        max = q8_max(x, max);
    }
    uint32_t rest = (uint32_t)q8_fold(max);
    return q8_make_scale((int32_t)(most > rest ? most : rest));
}

/* The row's numbers to q + 128, filled up with 0, while a later row is prefetched into L2. */
INLINE void code_plain(const struct packing *packing, const struct plain_rows *rows, const uint8_t *row,
                       uint32_t dtype, float inverse, uint8_t *codes)
{
    uint64_t element = dtype == KT_DTYPE_F32 ? 4 : 2;
    for (uint64_t c = 0; c < packing->width; c += Q8_STEP) {
        const uint8_t *from = row + c * element;
        _Alignas(64) float x[Q8_STEP];
        for (uint64_t line = 0; line < Q8_STEP * element; line += 64)
            PREFETCH((const void *)((uintptr_t)from + PREFETCH_ROWS * (uint64_t)rows->stride + line));
        if (dtype == KT_DTYPE_BF16 && packing->k - c >= Q8_STEP) {
            vec_codes64_bf16(from, inverse, codes + c);
            continue;
        }
        q8_read(from, dtype, packing->k - c, x);
        q8_quantize(x, inverse, (int8_t *)codes + c);
        vec_flip64((int8_t *)codes + c);
    }
}

/* The row's codes q + 128, filled up with 0, and its scale, as the source has them. */
static void copy_row(const struct packing *packing, const struct plain_rows *rows, unsigned i,
                     uint8_t *scales, uint8_t *codes)
{
    const struct kt_view *view = rows->kept;
    uint64_t row = rows->begin + i;
    const uint8_t *from = (const uint8_t *)view->data + (int64_t)row * view->row_stride;
    const uint8_t *group = (const uint8_t *)view->scales.data +
                           (int64_t)(row / view->scales.group_rows) * view->scales.row_stride;
    float scale;
    if (view->scales.dtype == KT_DTYPE_F32)
        memcpy(&scale, group, sizeof scale);
    else
        scale = view->scales.dtype == KT_DTYPE_F16 ? half_to_float(load_u16(group))
                                                   : bf16_to_float(load_u16(group));
    memcpy(scales + 4 * i, &scale, sizeof scale);
    for (uint64_t c = 0; c < packing->k; c++)
        codes[c] = from[(int64_t)c * view->block_stride] ^ 0x80;
    memset(codes + packing->k, 0x80, packing->width - packing->k);
}

/* Row i of 16: its scale, and its codes q + 128, which may overwrite its numbers. A row that is 0 or
 * missing has codes of 0. */
static void code_row(const struct packing *packing, const struct plain_rows *rows, unsigned i,
                     uint8_t *scales, uint8_t *codes)
{
    struct q8_scale scale = {0.0f, 0.0f};
    if (rows->kept && i < rows->n) {
        copy_row(packing, rows, i, scales, codes);
        return;
    }
    const uint8_t *row = rows->first + (int64_t)i * rows->stride;
    if (i < rows->n)
        scale = scale_plain(packing, row, rows->dtype);
    memcpy(scales + 4 * i, &scale.scale, sizeof scale.scale);
    if (!(scale.inverse > 0.0f))
        memset(codes, 128, packing->width);
    else if (rows->dtype == KT_DTYPE_BF16) /* the usual source: without a branch for every number */
        code_plain(packing, rows, row, KT_DTYPE_BF16, scale.inverse, codes);
    else
        code_plain(packing, rows, row, rows->dtype, scale.inverse, codes);
}

#endif

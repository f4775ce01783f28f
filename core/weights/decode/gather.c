/* SPDX-License-Identifier: Apache-2.0 */
/* gather.c - some rows of a view, dequantized, as of an embedding. */
#include "core/base/error.h"
#include "core/weights/decode/dequantize.h"
#include "core/weights/decode/encode.h"
#include "core/weights/decode/view.h"

#include <inttypes.h>
#include <kt/model.h>
#include <kt/kt.h>
#include <string.h>

/* Numbers that are dequantized at a time: whole blocks of every format. */
enum { CHUNK = 1024 };

static enum kt_status check(const struct kt_view *view, const int64_t *ids, uint64_t n, uint32_t dtype,
                            const void *out, struct kt_error *error)
{
    if (!view || (n && (!ids || !out)))
        return kt_fail(error, KT_E_INVALID, "the %s is NULL",
                       !view  ? "view"
                       : !ids ? "array of ids"
                              : "output");
    if (dtype != KT_DTYPE_F32 && dtype != KT_DTYPE_F16 && dtype != KT_DTYPE_BF16)
        return kt_fail(error, KT_E_INVALID, "rows can be gathered as f32, f16 or bf16, not as %s",
                       kt_dtype_name(dtype));
    enum kt_status status = kt_view_check(view, error);
    if (status != KT_OK)
        return status;
    for (uint64_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint64_t)ids[i] >= view->rows)
            return kt_fail(error, KT_E_RANGE, "ids[%" PRIu64 "] is %" PRId64 "; %s has rows 0 to %" PRIu64, i,
                           ids[i], view->name ? view->name : "the view", view->rows - 1);
    return KT_OK;
}

static void store(const float *numbers, uint64_t n, uint32_t dtype, uint8_t *to)
{
    if (dtype == KT_DTYPE_F32) {
        memcpy(to, numbers, (size_t)n * sizeof *numbers);
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        uint16_t half = dtype == KT_DTYPE_BF16 ? kt_to_bf16(numbers[i]) : kt_to_f16(numbers[i]);
        memcpy(to + 2 * i, &half, sizeof half);
    }
}

static enum kt_status gather_row(const struct kt_view *view, uint64_t row, uint32_t dtype, uint8_t *to,
                                 struct kt_error *error)
{
    uint64_t element = dtype == KT_DTYPE_F32 ? 4 : 2;
    float numbers[CHUNK];
    enum kt_status status = KT_OK;
    for (uint64_t c = 0; c < view->cols && status == KT_OK; c += CHUNK) {
        uint64_t n = view->cols - c < CHUNK ? view->cols - c : CHUNK;
        status = kt_view_dequantize(view, row, c, n, numbers, error);
        if (status == KT_OK)
            store(numbers, n, dtype, to + c * element);
    }
    return status;
}

enum kt_status kt_view_gather(const struct kt_view *view, const int64_t *ids, uint64_t n_ids,
                              uint32_t out_dtype, void *out, int64_t out_stride, struct kt_error *error)
{
    enum kt_status status = check(view, ids, n_ids, out_dtype, out, error);
    if (status == KT_OK && out_stride == 0)
        out_stride = (int64_t)(view->cols * (out_dtype == KT_DTYPE_F32 ? 4 : 2));
    for (uint64_t i = 0; i < n_ids && status == KT_OK; i++)
        status =
            gather_row(view, (uint64_t)ids[i], out_dtype, (uint8_t *)out + (int64_t)i * out_stride, error);
    return status;
}

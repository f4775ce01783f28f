/* SPDX-License-Identifier: Apache-2.0 */
/* dequantize.c - a run of weights of any view as float32. */
#include "core/weights/decode/dequantize.h"

#include "core/weights/decode/view.h"

#include "core/base/error.h"
#include "core/weights/decode/decode.h"
#include "core/weights/decode/dtype.h"

#include <inttypes.h>
#include <kt/kt.h>

enum { CHUNK = 64, LARGEST_BLOCK = 256 };

typedef void (*plain_fn)(const uint8_t *source, uint64_t n, float *out);
typedef void (*blocks_fn)(const uint8_t *block, int64_t stride, uint64_t n, float *out);

static void decode_i8(const uint8_t *source, uint64_t n, float *out)
{
    for (uint64_t i = 0; i < n; i++)
        out[i] = (float)(int8_t)source[i];
}

static const plain_fn plain_decoders[] = {
    [KT_DTYPE_F32] = kt_decode_f32,      [KT_DTYPE_F16] = kt_decode_f16,
    [KT_DTYPE_BF16] = kt_decode_bf16,    [KT_DTYPE_F64] = kt_decode_f64,
    [KT_DTYPE_F8_E4M3] = kt_decode_e4m3, [KT_DTYPE_F8_E5M2] = kt_decode_e5m2,
    [KT_DTYPE_F8_E8M0] = kt_decode_e8m0, [KT_DTYPE_I8] = decode_i8,
};

static const blocks_fn block_decoders[] = {
    [KT_DTYPE_Q4_0] = kt_decode_q4_0,       [KT_DTYPE_Q4_1] = kt_decode_q4_1,
    [KT_DTYPE_Q5_0] = kt_decode_q5_0,       [KT_DTYPE_Q5_1] = kt_decode_q5_1,
    [KT_DTYPE_Q8_0] = kt_decode_q8_0,       [KT_DTYPE_Q2_K] = kt_decode_q2_k,
    [KT_DTYPE_Q3_K] = kt_decode_q3_k,       [KT_DTYPE_Q4_K] = kt_decode_q4_k,
    [KT_DTYPE_Q5_K] = kt_decode_q5_k,       [KT_DTYPE_Q6_K] = kt_decode_q6_k,
    [KT_DTYPE_IQ4_NL] = kt_decode_iq4_nl,   [KT_DTYPE_IQ4_XS] = kt_decode_iq4_xs,
    [KT_DTYPE_MXFP4] = kt_decode_mxfp4,     [KT_DTYPE_INT4] = kt_decode_int4,
    [KT_DTYPE_F4_E2M1] = kt_decode_e2m1,    [KT_DTYPE_IQ1_S] = kt_decode_iq1_s,
    [KT_DTYPE_IQ1_M] = kt_decode_iq1_m,     [KT_DTYPE_IQ2_XXS] = kt_decode_iq2_xxs,
    [KT_DTYPE_IQ2_XS] = kt_decode_iq2_xs,   [KT_DTYPE_IQ2_S] = kt_decode_iq2_s,
    [KT_DTYPE_IQ3_XXS] = kt_decode_iq3_xxs, [KT_DTYPE_IQ3_S] = kt_decode_iq3_s,
    [KT_DTYPE_TQ1_0] = kt_decode_tq1_0,     [KT_DTYPE_TQ2_0] = kt_decode_tq2_0,
    [KT_DTYPE_NVFP4] = kt_decode_nvfp4,     [KT_DTYPE_Q1_0] = kt_decode_q1_0,
    [KT_DTYPE_Q2_0] = kt_decode_q2_0,
};

static plain_fn plain_decoder(uint32_t dtype)
{
    return dtype < sizeof plain_decoders / sizeof plain_decoders[0] ? plain_decoders[dtype] : NULL;
}

static blocks_fn block_decoder(uint32_t dtype)
{
    return dtype < sizeof block_decoders / sizeof block_decoders[0] ? block_decoders[dtype] : NULL;
}

/* Copies numbers that are `stride` bytes apart to a dense array. */
static void collect(const uint8_t *source, int64_t stride, uint32_t bytes, uint64_t n, uint8_t *to)
{
    switch (bytes) {
    case 1:
        for (uint64_t i = 0; i < n; i++, source += stride)
            to[i] = *source;
        break;
    case 2:
        for (uint64_t i = 0; i < n; i++, source += stride)
            memcpy(to + 2 * i, source, 2);
        break;
    case 4:
        for (uint64_t i = 0; i < n; i++, source += stride)
            memcpy(to + 4 * i, source, 4);
        break;
    default:
        for (uint64_t i = 0; i < n; i++, source += stride)
            memcpy(to + 8 * i, source, 8);
        break;
    }
}

static void decode_plain(plain_fn decode, const uint8_t *source, int64_t stride, uint32_t bytes, uint64_t n,
                         float *out)
{
    if (stride == (int64_t)bytes) {
        decode(source, n, out);
        return;
    }
    uint8_t dense[CHUNK * sizeof(double)];
    for (uint64_t done = 0; done < n; done += CHUNK) {
        uint64_t count = n - done < CHUNK ? n - done : CHUNK;
        collect(source + (int64_t)done * stride, stride, bytes, count, dense);
        decode(dense, count, out + done);
    }
}

static void decode_blocks(blocks_fn decode, const uint8_t *block, int64_t stride, uint32_t elements,
                          uint64_t n, float *out)
{
    uint64_t whole = n / elements, rest = n % elements;
    decode(block, stride, whole, out);
    if (rest) {
        float last[LARGEST_BLOCK];
        decode(block + (int64_t)whole * stride, stride, 1, last);
        memcpy(out + whole * elements, last, rest * sizeof *out);
    }
}

static void multiply(const struct kt_view *view, plain_fn decode, uint64_t row, uint64_t col, uint64_t n,
                     float *out)
{
    const struct kt_scales *scales = &view->scales;
    const uint8_t *line =
        (const uint8_t *)scales->data + (int64_t)(row / scales->group_rows) * scales->row_stride;
    for (uint64_t done = 0; done < n;) {
        uint64_t group = (col + done) / scales->group_cols;
        uint64_t left = scales->group_cols - (col + done) % scales->group_cols;
        uint64_t count = n - done < left ? n - done : left;
        float scale;
        decode(line + (int64_t)group * scales->col_stride, 1, &scale);
        for (uint64_t i = 0; i < count; i++)
            out[done + i] *= scale;
        done += count;
    }
}

/* int4 was decoded with KT_INT4_ZERO; the difference to the real zero is exact. */
static void shift_zeros(const struct kt_view *view, uint64_t row, uint64_t col, uint64_t n, float *out)
{
    const struct kt_scales *zeros = &view->zeros;
    const uint8_t *line =
        (const uint8_t *)zeros->data + (int64_t)(row / zeros->group_rows) * zeros->row_stride;
    for (uint64_t done = 0; done < n;) {
        uint64_t group = (col + done) / zeros->group_cols;
        uint64_t left = zeros->group_cols - (col + done) % zeros->group_cols;
        uint64_t count = n - done < left ? n - done : left;
        float shift = (float)(KT_INT4_ZERO - line[(int64_t)group * zeros->col_stride]);
        for (uint64_t i = 0; i < count; i++)
            out[done + i] += shift;
        done += count;
    }
}

static enum kt_status check_run(const struct kt_view *view, uint64_t row, uint64_t col, uint64_t n,
                                const float *out, struct kt_error *error)
{
    enum kt_status status = kt_view_check(view, error);
    if (status != KT_OK)
        return status;
    const char *name = view->name ? view->name : "a matrix";
    const struct kt_dtype_info *info = kt_dtype_find(view->dtype);
    if (!out)
        return kt_fail(error, KT_E_INVALID, "%s: the output is NULL", name);
    if (row >= view->rows || col > view->cols || n > view->cols - col)
        return kt_fail(error, KT_E_RANGE,
                       "%s: %" PRIu64 " weights from row %" PRIu64 ", column %" PRIu64
                       " on are not inside its %" PRIu64 " x %" PRIu64,
                       name, n, row, col, view->rows, view->cols);
    if (col % info->elements != 0)
        return kt_fail(error, KT_E_INVALID,
                       "%s: column %" PRIu64 " is inside a block of %s, %" PRIu32 " weights", name, col,
                       info->name, info->elements);
    if (!plain_decoder(view->dtype) && !block_decoder(view->dtype))
        return kt_fail(error, KT_E_UNSUPPORTED, "%s: weights of type %s cannot be decoded", name, info->name);
    if (kt_dtype_needs_scales(view->dtype) && !view->scales.data)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: weights of type %s cannot be decoded without scales; set view.scales", name,
                       info->name);
    return KT_OK;
}

enum kt_status kt_view_dequantize(const struct kt_view *view, uint64_t row, uint64_t col, uint64_t n,
                                  float *out, struct kt_error *error)
{
    enum kt_status status = check_run(view, row, col, n, out, error);
    if (status != KT_OK || n == 0)
        return status;
    const struct kt_dtype_info *info = kt_dtype_find(view->dtype);
    const uint8_t *source = (const uint8_t *)view->data + (int64_t)row * view->row_stride +
                            (int64_t)(col / info->elements) * view->block_stride;
    /* Of a single block it may be any number, and decoders move their pointer on behind the last one. */
    int64_t stride = view->cols > info->elements ? view->block_stride : (int64_t)info->bytes;
    plain_fn plain = plain_decoder(view->dtype);
    if (plain)
        decode_plain(plain, source, stride, info->bytes, n, out);
    else
        decode_blocks(block_decoder(view->dtype), source, stride, info->elements, n, out);
    if (view->zeros.data)
        shift_zeros(view, row, col, n, out);
    if (view->scales.data)
        multiply(view, plain_decoder(view->scales.dtype), row, col, n, out);
    return KT_OK;
}

enum kt_status kt_view_row(const struct kt_view *view, uint64_t row, float *out, struct kt_error *error)
{
    if (!view)
        return kt_fail(error, KT_E_INVALID, "the view is NULL");
    return kt_view_dequantize(view, row, 0, view->cols, out, error);
}

float kt_dtype_number(uint32_t dtype, const uint8_t *number)
{
    float value;
    plain_decoders[dtype](number, 1, &value);
    return value;
}

bool kt_dtype_decodes(uint32_t dtype)
{
    return plain_decoder(dtype) || block_decoder(dtype);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding: bit for bit what ggml decodes, all codes of the small floats, scales, runs. */
#include "core/weights/decode/dequantize.h"

#include "core/weights/decode/decode.h"
#include "core/weights/decode/dtype.h"
#include "tests/support/gguf_build.h"
#include "tests/support/suite.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#if defined __SSE__
#include <xmmintrin.h>
#endif

static struct kt_error error;

static struct kt_checkpoint *open_types(enum kt_io io)
{
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    struct kt_checkpoint *checkpoint;
    char *path = data_path("block-types.gguf");
    params.io = io;
    ck_assert_msg(kt_checkpoint_open(path, &params, &checkpoint, &error) == KT_OK, "%s", error.message);
    free(path);
    return checkpoint;
}

static struct kt_view get_view(struct kt_checkpoint *checkpoint, const char *name)
{
    struct kt_view view = KT_VIEW_INIT;
    struct kt_tensor_info info;
    const void *data;
    uint64_t index;
    ck_assert_msg(kt_checkpoint_find(checkpoint, name, &index, &error) == KT_OK, "%s", error.message);
    ck_assert_int_eq(kt_checkpoint_tensor(checkpoint, index, &info, &error), KT_OK);
    ck_assert_int_eq(kt_checkpoint_data(checkpoint, index, &data, &error), KT_OK);
    ck_assert_uint_eq(info.n_dims, 2);
    ck_assert_msg(kt_view_dense(&view, info.dtype, data, info.size, info.dims[0], info.dims[1], &error) ==
                      KT_OK,
                  "%s: %s", name, error.message);
    view.name = info.name;
    return view;
}

/* What XXH3 (64 bits) makes of each row that ggml decoded. */
static void get_hashes(struct kt_checkpoint *checkpoint, const char *name, uint64_t hashes[8])
{
    struct kt_tensor_info info;
    const void *data;
    uint64_t index;
    ck_assert_msg(kt_checkpoint_find(checkpoint, name, &index, &error) == KT_OK, "%s", error.message);
    ck_assert_int_eq(kt_checkpoint_tensor(checkpoint, index, &info, &error), KT_OK);
    ck_assert_int_eq(kt_checkpoint_data(checkpoint, index, &data, &error), KT_OK);
    ck_assert_uint_eq(info.size, 8 * sizeof *hashes);
    memcpy(hashes, data, info.size);
}

/* Names as the file has them, with the dtype that each must be. */
static const struct {
    const char *name;
    enum kt_dtype dtype;
} types[] = {
    {"f16", KT_DTYPE_F16},         {"bf16", KT_DTYPE_BF16},     {"q4_0", KT_DTYPE_Q4_0},
    {"q4_1", KT_DTYPE_Q4_1},       {"q5_0", KT_DTYPE_Q5_0},     {"q5_1", KT_DTYPE_Q5_1},
    {"q8_0", KT_DTYPE_Q8_0},       {"q2_K", KT_DTYPE_Q2_K},     {"q3_K", KT_DTYPE_Q3_K},
    {"q4_K", KT_DTYPE_Q4_K},       {"q5_K", KT_DTYPE_Q5_K},     {"q6_K", KT_DTYPE_Q6_K},
    {"iq4_nl", KT_DTYPE_IQ4_NL},   {"iq4_xs", KT_DTYPE_IQ4_XS}, {"mxfp4", KT_DTYPE_MXFP4},
    {"iq2_xxs", KT_DTYPE_IQ2_XXS}, {"iq2_xs", KT_DTYPE_IQ2_XS}, {"iq2_s", KT_DTYPE_IQ2_S},
    {"iq3_xxs", KT_DTYPE_IQ3_XXS}, {"iq3_s", KT_DTYPE_IQ3_S},   {"iq1_s", KT_DTYPE_IQ1_S},
    {"iq1_m", KT_DTYPE_IQ1_M},     {"tq1_0", KT_DTYPE_TQ1_0},   {"tq2_0", KT_DTYPE_TQ2_0},
    {"nvfp4", KT_DTYPE_NVFP4},     {"q1_0", KT_DTYPE_Q1_0},     {"q2_0", KT_DTYPE_Q2_0},
};

enum { N_TYPES = sizeof types / sizeof types[0], ROWS = 8, COLS = 512 };

START_TEST(same_bits_as_ggml)
{
    struct kt_checkpoint *checkpoint = open_types((enum kt_io)_i);
    float out[COLS];
    for (int t = 0; t < N_TYPES; t++) {
        char name[32];
        struct kt_view view = get_view(checkpoint, types[t].name);
        ck_assert_uint_eq(view.dtype, types[t].dtype);
        ck_assert_uint_eq(view.rows, ROWS);
        ck_assert_uint_eq(view.cols, COLS);
        ck_assert(kt_dtype_decodes(view.dtype));
        snprintf(name, sizeof name, "%s.hashes", types[t].name);
        uint64_t hashes[ROWS];
        get_hashes(checkpoint, name, hashes);
        for (uint64_t row = 0; row < ROWS; row++) {
            memset(out, 0x55, sizeof out);
            ck_assert_int_eq(kt_view_row(&view, row, out, &error), KT_OK);
            ck_assert_msg(XXH3_64bits(out, sizeof out) == hashes[row], "%s, row %d", types[t].name, (int)row);
        }
    }
    kt_checkpoint_close(checkpoint);
}
END_TEST

static bool is_listed(const char *name, size_t length)
{
    for (int t = 0; t < N_TYPES; t++)
        if (strlen(types[t].name) == length && strncmp(types[t].name, name, length) == 0)
            return true;
    return false;
}

static bool has_dtype(uint32_t dtype)
{
    for (int t = 0; t < N_TYPES; t++)
        if (types[t].dtype == dtype)
            return true;
    return false;
}

/* No two dtypes are one number of GGUF's, and all blocks that GGUF has and we decode are compared. */
START_TEST(numbers_of_gguf)
{
    for (uint32_t dtype = 0; dtype < 256; dtype++) {
        const struct kt_dtype_info *info = kt_dtype_find(dtype);
        if (!info || info->ggml < 0)
            continue;
        ck_assert_int_eq(kt_dtype_from_ggml((uint32_t)info->ggml), dtype);
        ck_assert_msg(!info->blocks || has_dtype(dtype), "%s is not compared", info->name);
    }
}
END_TEST

/* Each matrix of the file is one of `types`, and each of these has its hashes there. */
START_TEST(no_type_left_out)
{
    struct kt_checkpoint *checkpoint = open_types(KT_IO_MMAP);
    struct kt_checkpoint_info info;
    int matrices = 0, hashes = 0;
    kt_checkpoint_info(checkpoint, &info);
    for (uint64_t i = 0; i < info.n_tensors; i++) {
        struct kt_tensor_info tensor;
        ck_assert_int_eq(kt_checkpoint_tensor(checkpoint, i, &tensor, &error), KT_OK);
        const char *point = strstr(tensor.name, ".hashes");
        size_t length = point ? (size_t)(point - tensor.name) : strlen(tensor.name);
        ck_assert_msg(is_listed(tensor.name, length), "%s is not compared", tensor.name);
        matrices += !point;
        hashes += point != NULL;
    }
    ck_assert_int_eq(matrices, N_TYPES);
    ck_assert_int_eq(hashes, N_TYPES);
    kt_checkpoint_close(checkpoint);
}
END_TEST

START_TEST(runs)
{
    struct kt_checkpoint *checkpoint = open_types(KT_IO_MMAP);
    for (int t = 0; t < N_TYPES; t++) {
        struct kt_view view = get_view(checkpoint, types[t].name);
        uint32_t block;
        float whole[COLS], out[COLS + 1];
        kt_dtype_block(view.dtype, &block, NULL);
        ck_assert_int_eq(kt_view_row(&view, 5, whole, &error), KT_OK);
        for (uint64_t col = 0; col < COLS; col += block)
            for (uint64_t n = 0; n <= COLS - col; n += n < 70 ? 1 : 61) {
                memset(out, 0x55, sizeof out);
                ck_assert_int_eq(kt_view_dequantize(&view, 5, col, n, out, &error), KT_OK);
                ck_assert_int_eq(memcmp(out, whole + col, n * sizeof *out), 0);
                ck_assert_uint_eq(kt_float_bits(out[n]), 0x55555555);
                if (block == 1 && n > 40)
                    break;
            }
        ck_assert_int_eq(kt_view_dequantize(&view, 8, 0, 1, out, &error), KT_E_RANGE);
        ck_assert_int_eq(kt_view_dequantize(&view, 0, 0, COLS + 1, out, &error), KT_E_RANGE);
        ck_assert_int_eq(kt_view_dequantize(&view, 0, COLS, 1, out, &error), KT_E_RANGE);
        ck_assert_int_eq(kt_view_dequantize(&view, 0, UINT64_MAX - block + 1, block, out, &error),
                         KT_E_RANGE);
        ck_assert_int_eq(kt_view_dequantize(&view, 0, COLS, 0, out, &error), KT_OK);
        if (block > 1)
            ck_assert_int_eq(kt_view_dequantize(&view, 0, block / 2, 1, out, &error), KT_E_INVALID);
    }
    kt_checkpoint_close(checkpoint);
}
END_TEST

/* Blocks that do not lie side by side decode as if they did; the columns run backwards here. */
START_TEST(strided_blocks)
{
    struct kt_checkpoint *checkpoint = open_types(KT_IO_MMAP);
    for (int t = 0; t < N_TYPES; t++) {
        struct kt_view view = get_view(checkpoint, types[t].name), turned;
        uint32_t block, bytes;
        float whole[COLS], out[COLS];
        kt_dtype_block(view.dtype, &block, &bytes);
        uint64_t n = COLS / block;
        turned = view;
        turned.data = (const char *)view.data + (n - 1) * bytes;
        turned.block_stride = -(int64_t)bytes;
        ck_assert_int_eq(kt_view_row(&view, 6, whole, &error), KT_OK);
        ck_assert_msg(kt_view_row(&turned, 6, out, &error) == KT_OK, "%s", error.message);
        for (uint64_t b = 0; b < n; b++)
            ck_assert_int_eq(memcmp(out + b * block, whole + (n - 1 - b) * block, 4 * block), 0);
    }
    kt_checkpoint_close(checkpoint);
}
END_TEST

/* The value of a small float by its definition. */
static double define(unsigned code, int exponent_bits, int mantissa_bits, int bias)
{
    int sign = code >> (exponent_bits + mantissa_bits) & 1;
    int exponent = (int)(code >> mantissa_bits & ((1u << exponent_bits) - 1));
    double mantissa = ldexp((double)(code & ((1u << mantissa_bits) - 1)), -mantissa_bits);
    double value = exponent ? ldexp(1 + mantissa, exponent - bias) : ldexp(mantissa, 1 - bias);
    return sign ? -value : value;
}

static void expect_code(enum kt_dtype dtype, unsigned code, unsigned bytes, double value)
{
    uint8_t data[2] = {(uint8_t)code, (uint8_t)(code >> 8)};
    struct kt_view view;
    float out;
    ck_assert_int_eq(kt_view_dense(&view, dtype, data, bytes, 1, 1, &error), KT_OK);
    ck_assert_int_eq(kt_view_row(&view, 0, &out, &error), KT_OK);
    if (isnan(value))
        ck_assert_msg(isnan(out) && !signbit(out) == !signbit(value), "%s 0x%x is %g", kt_dtype_name(dtype),
                      code, (double)out);
    else
        ck_assert_msg((double)out == value && !signbit(out) == !signbit(value), "%s 0x%x is %a, not %a",
                      kt_dtype_name(dtype), code, (double)out, value);
}

static void expect_all_codes(void)
{
    for (unsigned code = 0; code < 256; code++) {
        double sign = code & 0x80 ? -1 : 1, nan_value = copysign((double)NAN, sign);
        double e4m3 = (code & 0x7f) == 0x7f ? nan_value : define(code, 4, 3, 7);
        double e5m2 = (code & 0x7f) > 0x7c    ? nan_value
                      : (code & 0x7f) == 0x7c ? sign * (double)INFINITY
                                              : define(code, 5, 2, 15);
        double e8m0 = code == 255 ? (double)NAN : ldexp(1, (int)code - 127);
        expect_code(KT_DTYPE_F8_E4M3, code, 1, e4m3);
        expect_code(KT_DTYPE_F8_E5M2, code, 1, e5m2);
        expect_code(KT_DTYPE_F8_E8M0, code, 1, e8m0);
    }
    for (unsigned code = 0; code < 65536; code++) {
        double sign = code & 0x8000 ? -1 : 1, nan_value = copysign((double)NAN, sign);
        double f16 = (code & 0x7fff) > 0x7c00    ? nan_value
                     : (code & 0x7fff) == 0x7c00 ? sign * (double)INFINITY
                                                 : define(code, 5, 10, 15);
        expect_code(KT_DTYPE_F16, code, 2, f16);
    }
}

START_TEST(every_code)
{
    expect_all_codes();
    for (unsigned code = 0; code < 65536; code++) {
        uint8_t data[2] = {(uint8_t)code, (uint8_t)(code >> 8)};
        struct kt_view view;
        float out;
        ck_assert_int_eq(kt_view_dense(&view, KT_DTYPE_BF16, data, 2, 1, 1, &error), KT_OK);
        ck_assert_int_eq(kt_view_row(&view, 0, &out, &error), KT_OK);
        ck_assert_uint_eq(kt_float_bits(out), code << 16);
    }
}
END_TEST

START_TEST(every_code_while_denormals_are_flushed)
{
#if defined __SSE__
    unsigned saved = _mm_getcsr();
    float out[2];
    uint8_t data[] = {0x01, 0x00, 0xff, 0x03, 0x01, 0x04};
    struct kt_view half, small;
    ck_assert_int_eq(kt_view_dense(&half, KT_DTYPE_F16, data, 4, 1, 2, &error), KT_OK);
    ck_assert_int_eq(kt_view_dense(&small, KT_DTYPE_F8_E4M3, data + 4, 2, 1, 2, &error), KT_OK);
    _mm_setcsr(saved | 0x8040);
    enum kt_status status = kt_view_row(&half, 0, out, &error);
    uint32_t bits[2] = {kt_float_bits(out[0]), kt_float_bits(out[1])};
    status |= kt_view_row(&small, 0, out, &error);
    _mm_setcsr(saved);
    ck_assert_int_eq(status, KT_OK);
    ck_assert_uint_eq(bits[0], kt_float_bits(0x1p-24f));
    ck_assert_uint_eq(bits[1], kt_float_bits(1023 * 0x1p-24f));
    ck_assert_uint_eq(kt_float_bits(out[0]), kt_float_bits(0x1p-9f));
    ck_assert_uint_eq(kt_float_bits(out[1]), kt_float_bits(4 * 0x1p-9f));
#else
    expect_all_codes();
#endif
}
END_TEST

START_TEST(doubles_round_once)
{
    double values[] = {1 + 0x1p-24, 1 + 0x1p-24 + 0x1p-50, -3.5, 1e300, 0x1p-149};
    struct kt_view view;
    float out[5];
    ck_assert_int_eq(kt_view_dense(&view, KT_DTYPE_F64, values, 40, 1, 5, &error), KT_OK);
    ck_assert_int_eq(kt_view_row(&view, 0, out, &error), KT_OK);
    ck_assert_float_eq(out[0], 1);
    ck_assert_float_eq(out[1], 1 + 0x1p-23f);
    ck_assert_float_eq(out[2], -3.5f);
    ck_assert(isinf(out[3]));
    ck_assert_float_eq(out[4], 0x1p-149f);
}
END_TEST

/* Plain numbers of every size, every third column, forwards and backwards. */
START_TEST(strided_numbers)
{
    static const enum kt_dtype plain[] = {KT_DTYPE_F8_E5M2, KT_DTYPE_BF16, KT_DTYPE_F32, KT_DTYPE_F64};
    enum { N = 150 };
    for (int t = 0; t < 4; t++) {
        uint8_t data[3 * N * 8];
        float whole[3 * N], out[N];
        struct kt_view view, strided;
        uint32_t bytes;
        kt_dtype_block(plain[t], NULL, &bytes);
        for (unsigned i = 0; i < sizeof data; i++)
            data[i] = (uint8_t)(i * 13 % 120);
        ck_assert_int_eq(kt_view_dense(&view, plain[t], data, 3 * N * bytes, 1, 3 * N, &error), KT_OK);
        ck_assert_int_eq(kt_view_row(&view, 0, whole, &error), KT_OK);
        strided = view;
        strided.cols = N;
        strided.block_stride = 3 * (int64_t)bytes;
        ck_assert_int_eq(kt_view_row(&strided, 0, out, &error), KT_OK);
        for (int i = 0; i < N; i++)
            ck_assert_uint_eq(kt_float_bits(out[i]), kt_float_bits(whole[3 * i]));
        strided.data = data + (3 * N - 1) * bytes;
        strided.block_stride = -strided.block_stride;
        ck_assert_int_eq(kt_view_row(&strided, 0, out, &error), KT_OK);
        for (int i = 0; i < N; i++)
            ck_assert_uint_eq(kt_float_bits(out[i]), kt_float_bits(whole[3 * (N - i) - 1]));
    }
}
END_TEST

enum { R = 37, C = 211 };

/* Every scale dtype and group size, dense and transposed scales: one product, rounded once. */
static void expect_scaled(enum kt_dtype dtype, enum kt_dtype scale_dtype, uint64_t group_rows,
                          uint64_t group_cols, int transposed)
{
    static uint8_t codes[R * C], scales[R * C * 4];
    static float numbers[R * C];
    uint64_t lines = (R - 1) / group_rows + 1, columns = (C - 1) / group_cols + 1;
    uint32_t bytes;
    kt_dtype_block(scale_dtype, NULL, &bytes);
    for (unsigned i = 0; i < sizeof codes; i++)
        codes[i] = (uint8_t)((i * 97 + i / 7) % 120 | (i & 128));
    for (uint64_t i = 0; i < lines * columns; i++) {
        uint32_t bits = 0x3f000000 + ((uint32_t)(i * 2654435761u) >> 9);
        if (scale_dtype == KT_DTYPE_F32) {
            memcpy(scales + 4 * i, &bits, 4);
        } else if (scale_dtype == KT_DTYPE_F8_E8M0) {
            scales[i] = (uint8_t)(100 + i % 60);
        } else {
            uint16_t half =
                (uint16_t)(scale_dtype == KT_DTYPE_BF16 ? bits >> 16 : 0x3000 + (bits >> 11) % 0x1000);
            memcpy(scales + 2 * i, &half, 2);
        }
        struct kt_view one;
        ck_assert_int_eq(kt_view_dense(&one, scale_dtype, scales + bytes * i, bytes, 1, 1, &error), KT_OK);
        ck_assert_int_eq(kt_view_row(&one, 0, &numbers[i], &error), KT_OK);
    }
    struct kt_view view, plain;
    float out[C], bare[C];
    ck_assert_int_eq(kt_view_dense(&view, dtype, codes, R * C, R, C, &error), KT_OK);
    plain = view;
    view.scales = (struct kt_scales){
        .data = scales,
        .size = lines * columns * bytes,
        .dtype = scale_dtype,
        .group_rows = group_rows,
        .group_cols = group_cols,
        .row_stride = (int64_t)(transposed ? bytes : columns * bytes),
        .col_stride = (int64_t)(transposed ? lines * bytes : bytes),
    };
    for (uint64_t r = 0; r < R; r++) {
        ck_assert_msg(kt_view_row(&view, r, out, &error) == KT_OK, "%s", error.message);
        ck_assert_int_eq(kt_view_row(&plain, r, bare, &error), KT_OK);
        for (uint64_t c = 0; c < C; c++) {
            uint64_t line = r / group_rows, column = c / group_cols;
            uint64_t index = transposed ? column * lines + line : line * columns + column;
            float expected = (float)((double)bare[c] * (double)numbers[index]);
            ck_assert_msg(out[c] == expected, "row %d column %d: %a, not %a", (int)r, (int)c, (double)out[c],
                          (double)expected);
        }
        float run[60];
        ck_assert_int_eq(kt_view_dequantize(&view, r, 13, 60, run, &error), KT_OK);
        ck_assert_mem_eq(run, out + 13, sizeof run);
    }
}

START_TEST(scaled_fp8)
{
    static const uint64_t groups[][2] = {{1, 32},  {128, 128}, {1, C}, {R, C},   {7, 13},
                                         {5, 211}, {37, 1},    {1, 1}, {36, 210}};
    static const enum kt_dtype scales[] = {KT_DTYPE_F32, KT_DTYPE_BF16, KT_DTYPE_F16, KT_DTYPE_F8_E8M0};
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++)
        for (int s = 0; s < 4; s++)
            for (int turn = 0; turn < 2; turn++) {
                expect_scaled(KT_DTYPE_F8_E4M3, scales[s], groups[g][0], groups[g][1], turn);
                expect_scaled(KT_DTYPE_F8_E5M2, scales[s], groups[g][0], groups[g][1], turn);
            }
}
END_TEST

START_TEST(what_cannot_be_decoded)
{
    uint8_t data[8] = {0};
    float out[8];
    struct kt_view view;
    ck_assert_int_eq(kt_view_dense(&view, KT_DTYPE_I8, data, 8, 1, 8, &error), KT_OK);
    ck_assert_int_eq(kt_view_row(&view, 0, out, &error), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "type i8"));
    view.dtype = KT_DTYPE_F8_E4M3;
    view.scales =
        (struct kt_scales){.data = data, .size = 8, .dtype = KT_DTYPE_I32, .group_rows = 1, .group_cols = 8};
    ck_assert_int_eq(kt_view_row(&view, 0, out, &error), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "its scales are of dtype i32"));
    view.zeros = view.scales;
    view.scales.data = NULL;
    ck_assert_int_eq(kt_view_row(&view, 0, out, &error), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "only int4 weights may have zeros"));
    ck_assert(!kt_dtype_decodes(KT_DTYPE_NONE) && !kt_dtype_decodes(UINT32_MAX));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("dequantize");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, same_bits_as_ggml, KT_IO_MMAP, KT_IO_READ + 1);
    tcase_add_test(tests, numbers_of_gguf);
    tcase_add_test(tests, no_type_left_out);
    tcase_add_test(tests, runs);
    tcase_add_test(tests, strided_blocks);
    tcase_add_test(tests, strided_numbers);
    tcase_add_test(tests, every_code);
    tcase_add_test(tests, every_code_while_denormals_are_flushed);
    tcase_add_test(tests, doubles_round_once);
    tcase_add_test(tests, scaled_fp8);
    tcase_add_test(tests, what_cannot_be_decoded);
    return run_tests("dequantize", tests);
}

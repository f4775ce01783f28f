/* SPDX-License-Identifier: Apache-2.0 */
/* Views: what they may reach, strides of every kind, parts. */
#include "core/weights/decode/view.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <stdbool.h>

static struct kt_error error;

static struct kt_view dense(uint32_t dtype, const void *data, uint64_t size, uint64_t rows, uint64_t cols)
{
    struct kt_view view = KT_VIEW_INIT;
    ck_assert_msg(kt_view_dense(&view, dtype, data, size, rows, cols, &error) == KT_OK, "%s", error.message);
    return view;
}

static void expect(enum kt_status found, enum kt_status status, const char *fragment)
{
    ck_assert_msg(found == status && error.status == status, "%s: %s instead of %s: %s", fragment,
                  kt_status_name(found), kt_status_name(status), error.message);
    ck_assert_msg(strstr(error.message, fragment) != NULL, "\"%s\" is not in: %s", fragment, error.message);
}

static void expect_row(const struct kt_view *view, uint64_t row, const float *values)
{
    float out[64];
    ck_assert_uint_le(view->cols, 64);
    ck_assert_msg(kt_view_row(view, row, out, &error) == KT_OK, "%s", error.message);
    for (uint64_t c = 0; c < view->cols; c++)
        ck_assert_msg(out[c] == values[c], "row %d column %d: %g, not %g", (int)row, (int)c, (double)out[c],
                      (double)values[c]);
}

static void fill(float *values, int n)
{
    for (int i = 0; i < n; i++)
        values[i] = (float)i;
}

START_TEST(dense_sizes)
{
    float values[12];
    struct kt_view view = KT_VIEW_INIT, untouched = view;
    fill(values, 12);
    view = dense(KT_DTYPE_F32, values, 48, 3, 4);
    ck_assert_uint_eq(kt_view_bytes(&view), 48);
    expect_row(&view, 2, (float[]){8, 9, 10, 11});
    view = untouched;
    expect(kt_view_dense(&view, KT_DTYPE_F32, values, 47, 3, 4, &error), KT_E_INVALID, "48 bytes");
    expect(kt_view_dense(&view, KT_DTYPE_F32, values, 49, 3, 4, &error), KT_E_INVALID,
           "takes 48 bytes, but 49");
    expect(kt_view_dense(&view, KT_DTYPE_F32, NULL, 48, 3, 4, &error), KT_E_INVALID, "NULL");
    expect(kt_view_dense(&view, 9999, values, 48, 3, 4, &error), KT_E_INVALID, "9999 is not a dtype");
    expect(kt_view_dense(&view, KT_DTYPE_NONE, values, 48, 3, 4, &error), KT_E_INVALID, "not a dtype");
    expect(kt_view_dense(&view, KT_DTYPE_F32, values, 48, 0, 4, &error), KT_E_INVALID, "0 x 4");
    expect(kt_view_dense(&view, KT_DTYPE_F32, values, 48, 4, 0, &error), KT_E_INVALID, "4 x 0");
    expect(kt_view_dense(&view, KT_DTYPE_Q4_K, values, 48, 1, 100, &error), KT_E_INVALID, "multiple of 256");
    expect(kt_view_dense(NULL, KT_DTYPE_F32, values, 48, 3, 4, &error), KT_E_INVALID, "NULL");
    ck_assert_mem_eq(&view, &untouched, sizeof view);
    ck_assert_int_eq(kt_view_dense(&view, KT_DTYPE_F32, values, 47, 3, 4, NULL), KT_E_INVALID);
}
END_TEST

START_TEST(shapes_that_overflow)
{
    static const uint8_t byte[1];
    int accepted = 0;
    for (int a = 1; a < 63; a++)
        for (int b = 1; b < 63; b++)
            for (int d = 0; d < 9; d++) {
                struct kt_view view = KT_VIEW_INIT;
                uint64_t rows = (UINT64_C(1) << a) + (uint64_t)(d / 3) - 1;
                uint64_t cols = (UINT64_C(1) << b) + (uint64_t)(d % 3) - 1;
                unsigned __int128 bytes = (unsigned __int128)rows * cols * 4;
                enum kt_status status =
                    kt_view_dense(&view, KT_DTYPE_F32, byte, (uint64_t)bytes, rows, cols, &error);
                bool fits = bytes <= INT64_MAX;
                ck_assert_msg(status == (fits ? KT_OK : KT_E_INVALID), "%d %d %d: %s", a, b, d,
                              error.message);
                accepted += fits;
                ck_assert_uint_eq(kt_view_bytes(&view), fits ? (uint64_t)bytes : 0);
            }
    ck_assert_int_gt(accepted, 0);
}
END_TEST

START_TEST(strides)
{
    float values[24];
    fill(values, 24);
    /* Transposed: 4 x 3 seen as 3 x 4. */
    struct kt_view view = dense(KT_DTYPE_F32, values, 48, 3, 4);
    view.rows = 4;
    view.cols = 3;
    view.row_stride = 4;
    view.block_stride = 16;
    expect_row(&view, 1, (float[]){1, 5, 9});
    /* Interleaved: every other row, as gate and up of some models. */
    view = dense(KT_DTYPE_F32, values, 96, 6, 4);
    view.rows = 3;
    view.row_stride = 32;
    ck_assert_int_eq(kt_view_check(&view, &error), KT_OK);
    expect_row(&view, 2, (float[]){16, 17, 18, 19});
    view.data = values + 4;
    ck_assert_int_eq(kt_view_check(&view, &error), KT_OK);
    view.size = 79;
    expect(kt_view_check(&view, &error), KT_E_INVALID, "reaches over 80 bytes, but 79");
    view.size = 80;
    expect_row(&view, 0, (float[]){4, 5, 6, 7});
    /* Backwards in both directions: size counts from the lowest byte. */
    view = dense(KT_DTYPE_F32, values, 48, 3, 4);
    view.data = values + 11;
    view.row_stride = -16;
    view.block_stride = -4;
    expect_row(&view, 0, (float[]){11, 10, 9, 8});
    expect_row(&view, 2, (float[]){3, 2, 1, 0});
    view.size = 47;
    expect(kt_view_check(&view, &error), KT_E_INVALID, "reaches over 48 bytes, but 47");
}
END_TEST

START_TEST(strides_that_make_no_sense)
{
    float values[12];
    fill(values, 12);
    struct kt_view good = dense(KT_DTYPE_F32, values, 48, 3, 4), view = good;
    view.row_stride = 0;
    expect(kt_view_check(&view, &error), KT_E_INVALID, "row stride of the matrix is 0");
    view = good;
    view.block_stride = 3;
    expect(kt_view_check(&view, &error), KT_E_INVALID, "column stride of the matrix is 3");
    view = good;
    view.block_stride = -3;
    expect(kt_view_check(&view, &error), KT_E_INVALID, "-3");
    static const int64_t large[] = {INT64_MAX, INT64_MIN, INT64_MIN + 1, INT64_MAX / 2 + 1};
    for (int i = 0; i < 4; i++) {
        view = good;
        view.size = UINT64_MAX;
        view.row_stride = large[i];
        expect(kt_view_check(&view, &error), KT_E_INVALID, "overflows");
        view.row_stride = 16;
        view.block_stride = large[i];
        expect(kt_view_check(&view, &error), KT_E_INVALID, "overflows");
    }
    view = good;
    view.rows = UINT64_MAX;
    expect(kt_view_check(&view, &error), KT_E_INVALID, "overflows");
    view = good;
    view.struct_size = 8;
    expect(kt_view_check(&view, &error), KT_E_INVALID, "KT_VIEW_INIT");
    view = good;
    view.name = "blk.7.x";
    view.size = 1;
    expect(kt_view_check(&view, &error), KT_E_INVALID, "blk.7.x");
    expect(kt_view_check(NULL, &error), KT_E_INVALID, "NULL");
    expect(kt_view_row(NULL, 0, values, &error), KT_E_INVALID, "NULL");
    expect(kt_view_row(&good, 0, NULL, &error), KT_E_INVALID, "NULL");
    ck_assert_uint_eq(kt_view_bytes(NULL), 0);
    /* One row and one column: strides are not used. */
    view = dense(KT_DTYPE_F32, values, 4, 1, 1);
    view.row_stride = view.block_stride = 0;
    ck_assert_int_eq(kt_view_check(&view, &error), KT_OK);
}
END_TEST

/* A stride of a single row or block may be any number: nothing is ever moved by it. */
START_TEST(strides_that_are_not_needed)
{
    static uint8_t codes[34], numbers[16];
    struct kt_view view = dense(KT_DTYPE_Q8_0, codes, sizeof codes, 1, 32), part;
    float out[32];
    view.row_stride = INT64_MIN;
    view.block_stride = INT64_MAX;
    ck_assert_int_eq(kt_view_row(&view, 0, out, &error), KT_OK);
    ck_assert_int_eq(kt_view_slice(&view, 0, 1, 0, 32, &part, &error), KT_OK);
    ck_assert(part.row_stride == 34 && part.block_stride == 34);
    view = dense(KT_DTYPE_F8_E4M3, numbers, sizeof numbers, 4, 4);
    view.scales = (struct kt_scales){.data = numbers,
                                     .size = 2,
                                     .dtype = KT_DTYPE_F16,
                                     .group_rows = 4,
                                     .group_cols = 4,
                                     .row_stride = INT64_MAX,
                                     .col_stride = INT64_MIN};
    ck_assert_int_eq(kt_view_row(&view, 3, out, &error), KT_OK);
    ck_assert_int_eq(kt_view_slice(&view, 2, 2, 0, 1, &part, &error), KT_OK);
    ck_assert(part.row_stride == 4 && part.block_stride == 1);
    ck_assert(part.scales.row_stride == 2 && part.scales.col_stride == 2);
}
END_TEST

START_TEST(scales_are_checked)
{
    static const uint8_t codes[6 * 10];
    static const float scales[4 * 4];
    struct kt_view good = dense(KT_DTYPE_F8_E4M3, codes, 60, 6, 10), view;
    good.scales = (struct kt_scales){.data = scales,
                                     .size = 32,
                                     .dtype = KT_DTYPE_F32,
                                     .group_rows = 4,
                                     .group_cols = 3,
                                     .row_stride = 16,
                                     .col_stride = 4};
    ck_assert_int_eq(kt_view_check(&good, &error), KT_OK);
    ck_assert_uint_eq(kt_view_bytes(&good), 60 + 8 * 4);
    view = good;
    view.scales.size = 31;
    expect(kt_view_check(&view, &error), KT_E_INVALID, "scales, 2 x 4 units of 4 bytes, reaches over 32");
    view = good;
    view.scales.group_rows = 0;
    expect(kt_view_check(&view, &error), KT_E_INVALID, "group of its scales is 0 x 3");
    view = good;
    view.scales.group_cols = 0;
    expect(kt_view_check(&view, &error), KT_E_INVALID, "group of its scales is 4 x 0");
    view = good;
    view.scales.dtype = KT_DTYPE_Q4_0;
    expect(kt_view_check(&view, &error), KT_E_INVALID, "q4_0");
    view = good;
    view.scales.dtype = 77;
    expect(kt_view_check(&view, &error), KT_E_INVALID, "77");
    view = good;
    view.scales.dtype = KT_DTYPE_U8; /* a number, but none that a scale can be */
    expect(kt_view_check(&view, &error), KT_E_UNSUPPORTED,
           "its scales are of dtype u8; they must be f32, f16, bf16, f64, f8_e4m3, f8_e5m2 or f8_e8m0");
    view = good;
    view.scales.col_stride = 2;
    expect(kt_view_check(&view, &error), KT_E_INVALID, "column stride of scales is 2");
    view = good;
    view.dtype = KT_DTYPE_INT4;
    view.cols = 8;
    view.row_stride = view.block_stride = 4;
    view.scales.group_cols = 8;
    view.zeros = view.scales;
    expect(kt_view_check(&view, &error), KT_E_UNSUPPORTED, "its zeros are of dtype f32; they must be u8");
    view.zeros.dtype = KT_DTYPE_U8;
    ck_assert_int_eq(kt_view_check(&view, &error), KT_OK);
    view.zeros.size = 1;
    expect(kt_view_check(&view, &error), KT_E_INVALID, "zeros");
    view.dtype = KT_DTYPE_F8_E4M3;
    expect(kt_view_check(&view, &error), KT_E_UNSUPPORTED, "only int4 weights may have zeros");
    view = good;
    view.scales.group_rows = view.scales.group_cols = UINT64_MAX;
    view.scales.size = 4;
    ck_assert_int_eq(kt_view_check(&view, &error), KT_OK);
}
END_TEST

START_TEST(formats_and_units)
{
    static const uint8_t codes[768 * 4];
    static const float scales[64];
    struct kt_format format;
    struct kt_view view = dense(KT_DTYPE_F8_E4M3, codes, 768 * 4, 4, 768);
    kt_view_format(&view, &format);
    ck_assert_uint_eq(format.dtype, KT_DTYPE_F8_E4M3);
    ck_assert_uint_eq(format.scale_dtype, KT_DTYPE_NONE);
    ck_assert_uint_eq(format.group_rows, 0);
    ck_assert_uint_eq(kt_view_col_unit(&view), 1);
    view.scales = (struct kt_scales){.data = scales,
                                     .size = sizeof scales,
                                     .dtype = KT_DTYPE_F32,
                                     .group_rows = 1,
                                     .group_cols = 128,
                                     .row_stride = 24,
                                     .col_stride = 4};
    kt_view_format(&view, &format);
    ck_assert_uint_eq(format.scale_dtype, KT_DTYPE_F32);
    ck_assert_uint_eq(format.group_rows, 1);
    ck_assert_uint_eq(format.group_cols, 128);
    ck_assert_uint_eq(kt_view_col_unit(&view), 128);
    view.scales.group_cols = 768;
    ck_assert_uint_eq(kt_view_col_unit(&view), 1);
    view = dense(KT_DTYPE_Q4_K, codes, 3 * 144, 1, 768);
    ck_assert_uint_eq(kt_view_col_unit(&view), 256);
    view.scales = (struct kt_scales){.data = scales, .group_rows = 1, .group_cols = 384};
    ck_assert_uint_eq(kt_view_col_unit(&view), 768);
}
END_TEST

START_TEST(slices)
{
    float values[24];
    fill(values, 24);
    struct kt_view view = dense(KT_DTYPE_F32, values, 96, 4, 6), part, again;
    ck_assert_int_eq(kt_view_slice(&view, 1, 2, 2, 3, &part, &error), KT_OK);
    ck_assert_uint_eq(part.rows, 2);
    ck_assert_uint_eq(part.cols, 3);
    ck_assert_uint_eq(part.size, 24 + 12);
    expect_row(&part, 0, (float[]){8, 9, 10});
    expect_row(&part, 1, (float[]){14, 15, 16});
    ck_assert_int_eq(kt_view_slice(&part, 1, 1, 1, 2, &again, &error), KT_OK);
    expect_row(&again, 0, (float[]){15, 16});
    static const uint64_t wrong[][4] = {{4, 1, 0, 1},          {0, 5, 0, 1},          {0, 0, 0, 1},
                                        {0, 1, 6, 1},          {0, 1, 0, 7},          {0, 1, 0, 0},
                                        {3, UINT64_MAX, 0, 1}, {0, 1, 5, UINT64_MAX}, {UINT64_MAX, 2, 0, 1}};
    again = part;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        expect(kt_view_slice(&view, wrong[i][0], wrong[i][1], wrong[i][2], wrong[i][3], &part, &error),
               KT_E_RANGE, "is not inside its 4 x 6");
    ck_assert_mem_eq(&again, &part, sizeof part);
    expect(kt_view_slice(&view, 0, 1, 0, 1, NULL, &error), KT_E_INVALID, "NULL");
    expect(kt_view_slice(NULL, 0, 1, 0, 1, &part, &error), KT_E_INVALID, "NULL");
    /* A part of a matrix that runs backwards. */
    view.data = values + 23;
    view.row_stride = -24;
    view.block_stride = -4;
    ck_assert_int_eq(kt_view_slice(&view, 1, 2, 2, 3, &part, &error), KT_OK);
    expect_row(&part, 1, (float[]){9, 8, 7});
    ck_assert_int_eq(kt_view_check(&part, &error), KT_OK);
}
END_TEST

START_TEST(slices_of_blocks)
{
    static uint8_t blocks[2 * 3 * 34];
    float whole[96], half[32];
    for (size_t i = 0; i < sizeof blocks; i++)
        blocks[i] = (uint8_t)(i % 34 == 1 ? 0x3c : i % 34 ? i * 5 : 0);
    struct kt_view view = dense(KT_DTYPE_Q8_0, blocks, sizeof blocks, 2, 96), part;
    ck_assert_int_eq(kt_view_slice(&view, 1, 1, 64, 32, &part, &error), KT_OK);
    ck_assert_uint_eq(part.size, 34);
    ck_assert_int_eq(kt_view_row(&view, 1, whole, &error), KT_OK);
    ck_assert_int_eq(kt_view_row(&part, 0, half, &error), KT_OK);
    ck_assert_mem_eq(half, whole + 64, sizeof half);
    ck_assert_float_ne(half[3], half[4]);
    expect(kt_view_slice(&view, 0, 1, 16, 32, &part, &error), KT_E_INVALID, "cut a block of q8_0");
    expect(kt_view_slice(&view, 0, 1, 32, 40, &part, &error), KT_E_INVALID, "cut a block of q8_0");
}
END_TEST

START_TEST(slices_with_scales)
{
    uint8_t codes[8 * 12];
    float scales[2 * 3], whole[12], some[12];
    memset(codes, 0x38, sizeof codes); /* 1.0 */
    for (int i = 0; i < 6; i++)
        scales[i] = (float)(i + 1);
    struct kt_view view = dense(KT_DTYPE_F8_E4M3, codes, sizeof codes, 8, 12), part;
    view.scales = (struct kt_scales){.data = scales,
                                     .size = sizeof scales,
                                     .dtype = KT_DTYPE_F32,
                                     .group_rows = 5,
                                     .group_cols = 5,
                                     .row_stride = 12,
                                     .col_stride = 4};
    ck_assert_int_eq(kt_view_slice(&view, 5, 3, 5, 7, &part, &error), KT_OK);
    ck_assert_uint_eq(part.scales.size, 8);
    expect_row(&part, 2, (float[]){5, 5, 5, 5, 5, 6, 6});
    /* Within one group a part may begin anywhere. */
    ck_assert_int_eq(kt_view_slice(&view, 6, 2, 7, 3, &part, &error), KT_OK);
    expect_row(&part, 1, (float[]){5, 5, 5});
    ck_assert_uint_eq(part.scales.size, 4);
    expect(kt_view_slice(&view, 4, 2, 0, 5, &part, &error), KT_E_INVALID, "cuts its scales");
    expect(kt_view_slice(&view, 0, 2, 3, 5, &part, &error), KT_E_INVALID, "cuts its scales");
    /* Parts put together give the whole. */
    ck_assert_int_eq(kt_view_row(&view, 7, whole, &error), KT_OK);
    for (uint64_t col = 0; col < 12; col += 5) {
        uint64_t n = 12 - col < 5 ? 12 - col : 5;
        ck_assert_int_eq(kt_view_slice(&view, 5, 3, col, n, &part, &error), KT_OK);
        ck_assert_int_eq(kt_view_row(&part, 2, some + col, &error), KT_OK);
    }
    ck_assert_mem_eq(whole, some, sizeof whole);
}
END_TEST

START_TEST(dtypes)
{
    uint32_t elements = 9, bytes = 9, known = 0;
    for (uint32_t dtype = 0; dtype < 256; dtype++) {
        const char *name = kt_dtype_name(dtype);
        kt_dtype_block(dtype, &elements, &bytes);
        if (strcmp(name, "?") == 0) {
            ck_assert_uint_eq(elements, 0);
            ck_assert_uint_eq(bytes, 0);
            continue;
        }
        known++;
        ck_assert_uint_gt(elements, 0);
        ck_assert_uint_gt(bytes, 0);
        ck_assert_uint_eq(kt_dtype_parse(name), dtype);
    }
    ck_assert_uint_eq(known, 45);
    ck_assert_int_eq(kt_dtype_parse("Q4_k"), KT_DTYPE_Q4_K);
    ck_assert_int_eq(kt_dtype_parse("q4"), KT_DTYPE_NONE);
    ck_assert_int_eq(kt_dtype_parse(""), KT_DTYPE_NONE);
    ck_assert_int_eq(kt_dtype_parse(NULL), KT_DTYPE_NONE);
    kt_dtype_block(KT_DTYPE_Q6_K, NULL, &bytes);
    ck_assert_uint_eq(bytes, 210);
    kt_dtype_block(KT_DTYPE_Q6_K, &elements, NULL);
    ck_assert_uint_eq(elements, 256);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("view");
    tcase_add_test(tests, dense_sizes);
    tcase_add_test(tests, shapes_that_overflow);
    tcase_add_test(tests, strides);
    tcase_add_test(tests, strides_that_make_no_sense);
    tcase_add_test(tests, strides_that_are_not_needed);
    tcase_add_test(tests, scales_are_checked);
    tcase_add_test(tests, formats_and_units);
    tcase_add_test(tests, slices);
    tcase_add_test(tests, slices_of_blocks);
    tcase_add_test(tests, slices_with_scales);
    tcase_add_test(tests, dtypes);
    return run_tests("view", tests);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of four bits, int4 and f4_e2m1: every code, scales, zeros, both orders of packing, parts. */
#include "core/weights/decode/view.h"
#include "core/weights/decode/dequantize.h"
#include "tests/support/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { R = 24, C = 96, MOST = R * C };

static struct kt_error error;
static uint8_t codes[R][C];
static double scale_values[MOST], zero_values[MOST];

/* E2M1 by its definition: two bits of exponent with bias 1, one of mantissa. */
static double define_e2m1(unsigned code)
{
    unsigned exponent = code >> 1 & 3, mantissa = code & 1;
    double size = exponent ? ldexp(1 + mantissa / 2.0, (int)exponent - 1) : mantissa / 2.0;
    return code & 8 ? -size : size;
}

/* Writes codes[][] as a matrix: rows of nibbles, or turned, as GPTQ packs it along the columns. */
static void pack(uint32_t dtype, int turned, uint8_t bytes[MOST / 2], struct kt_view *view)
{
    memset(bytes, 0, MOST / 2);
    for (unsigned r = 0; r < R; r++)
        for (unsigned c = 0; c < C; c++) {
            unsigned nibble = turned ? (c / 8 * R + r) * 8 + c % 8 : r * C + c;
            codes[r][c] = (uint8_t)((r * 7 + c * 5 + r * c / 3) % 16);
            bytes[nibble / 2] |= (uint8_t)(codes[r][c] << (nibble % 2 ? 4 : 0));
        }
    ck_assert_int_eq(kt_view_dense(view, dtype, bytes, MOST / 2, R, C, &error), KT_OK);
    if (!turned)
        return;
    view->row_stride = 4;
    view->block_stride = 4 * R;
}

static unsigned bytes_of(uint32_t dtype)
{
    uint32_t bytes;
    kt_dtype_block(dtype, NULL, &bytes);
    return bytes;
}

/* Number i of the scales, and what it is. */
static double put_scale(uint32_t dtype, unsigned i, uint8_t *to)
{
    uint32_t bits = 0x3c000000u + ((i * 2654435761u) >> 6 & 0x3ffffff);
    uint16_t half = (uint16_t)(dtype == KT_DTYPE_BF16 ? bits >> 16 : 0x2c00 + (bits & 0x7ff));
    float value;
    memcpy(&value, &bits, 4);
    switch (dtype) {
    case KT_DTYPE_F32:
        memcpy(to, &bits, 4);
        return (double)value;
    case KT_DTYPE_BF16:
        bits = (uint32_t)half << 16;
        memcpy(&value, &bits, 4);
        memcpy(to, &half, 2);
        return (double)value;
    case KT_DTYPE_F16:
        memcpy(to, &half, 2);
        return ldexp(1024 + (half & 1023), (half >> 10) - 25);
    default:
        *to = (uint8_t)(110 + i % 30);
        return ldexp(1, *to - 127);
    }
}

/* Scales or zeros of one value in [group_rows][group_cols], rows or columns of groups side by side. */
static void lay(struct kt_scales *scales, uint32_t dtype, const uint8_t *data, uint64_t group_rows,
                uint64_t group_cols, int turned)
{
    uint64_t lines = (R - 1) / group_rows + 1, columns = (C - 1) / group_cols + 1;
    unsigned bytes = bytes_of(dtype);
    *scales = (struct kt_scales){.data = data,
                                 .size = lines * columns * bytes,
                                 .dtype = dtype,
                                 .group_rows = group_rows,
                                 .group_cols = group_cols,
                                 .row_stride = (int64_t)(turned ? bytes : columns * bytes),
                                 .col_stride = (int64_t)(turned ? lines * bytes : bytes)};
}

static uint64_t index_of(const struct kt_scales *scales, uint64_t r, uint64_t c)
{
    uint64_t at = r / scales->group_rows * (uint64_t)scales->row_stride +
                  c / scales->group_cols * (uint64_t)scales->col_stride;
    return at / bytes_of(scales->dtype);
}

/* What the weight is, in float64 rounded once. */
static float expect(const struct kt_view *view, uint64_t r, uint64_t c)
{
    double value = define_e2m1(codes[r][c]);
    if (view->dtype == KT_DTYPE_INT4)
        value = codes[r][c] - (view->zeros.data ? zero_values[index_of(&view->zeros, r, c)] : 8);
    return (float)(value * (view->scales.data ? scale_values[index_of(&view->scales, r, c)] : 1));
}

/* All of it, a run that begins and ends inside groups, and a part cut out of it. */
static void check(const struct kt_view *view)
{
    float out[C + 1], some[C];
    struct kt_view part;
    ck_assert_msg(kt_view_check(view, &error) == KT_OK, "%s", error.message);
    for (uint64_t r = 0; r < R; r++) {
        out[C] = 77;
        ck_assert_msg(kt_view_row(view, r, out, &error) == KT_OK, "%s", error.message);
        for (uint64_t c = 0; c < C; c++) /* libcheck writes every assertion to a file */
            if (out[c] != expect(view, r, c))
                ck_abort_msg("row %d column %d: %g, not %g", (int)r, (int)c, (double)out[c],
                             (double)expect(view, r, c));
        ck_assert(out[C] == 77);
        ck_assert_int_eq(kt_view_dequantize(view, r, 24, 51, some, &error), KT_OK);
        ck_assert_mem_eq(some, out + 24, 51 * sizeof *out);
    }
    /* The last rows, on a group's border. */
    uint64_t unit = kt_view_col_unit(view), group = view->scales.data ? view->scales.group_rows : 1;
    uint64_t row = (R - 5) / group * group, rows = R - row;
    for (uint64_t col = 0; col < C; col += unit) {
        ck_assert_msg(kt_view_slice(view, row, rows, col, unit, &part, &error) == KT_OK, "%s", error.message);
        ck_assert_msg(kt_view_check(&part, &error) == KT_OK, "%s", error.message);
        ck_assert_int_eq(kt_view_row(&part, rows - 1, some, &error), KT_OK);
        ck_assert_int_eq(kt_view_row(view, row + rows - 1, out, &error), KT_OK);
        ck_assert_mem_eq(some, out + col, unit * sizeof *out);
    }
}

static const uint64_t groups[][2] = {{1, 32}, {1, 8}, {1, C}, {1, 48}, {8, 16}, {R, C}, {1, 16}, {R, 32}};
enum { N_GROUPS = sizeof groups / sizeof groups[0] };

START_TEST(scales_of_every_kind)
{
    static const uint32_t kinds[] = {KT_DTYPE_F32, KT_DTYPE_F16, KT_DTYPE_BF16, KT_DTYPE_F8_E8M0};
    static uint8_t scales[4 * MOST];
    uint8_t bytes[MOST / 2];
    for (int kind = 0; kind < 4; kind++)
        for (int turned = 0; turned < 2; turned++)
            for (int d = KT_DTYPE_INT4; d <= KT_DTYPE_F4_E2M1; d++) {
                struct kt_view view;
                pack((uint32_t)d, turned, bytes, &view);
                lay(&view.scales, kinds[kind], scales, groups[_i][0], groups[_i][1], turned);
                for (unsigned i = 0; i < view.scales.size / bytes_of(kinds[kind]); i++)
                    scale_values[i] = put_scale(kinds[kind], i, scales + i * bytes_of(kinds[kind]));
                check(&view);
            }
}
END_TEST

START_TEST(zeros)
{
    static uint8_t scales[2 * MOST], numbers[MOST];
    uint8_t bytes[MOST / 2];
    for (int turned = 0; turned < 4; turned++) {
        struct kt_view view;
        pack(KT_DTYPE_INT4, turned & 1, bytes, &view);
        lay(&view.scales, KT_DTYPE_F16, scales, groups[_i][0], groups[_i][1], turned & 1);
        lay(&view.zeros, KT_DTYPE_U8, numbers, groups[_i][0], groups[_i][1], turned >> 1);
        for (unsigned i = 0; i < view.zeros.size; i++) {
            scale_values[i] = put_scale(KT_DTYPE_F16, i, scales + 2 * i);
            numbers[i] = (uint8_t)(i == 3 ? 255 : (i * 11 + 5) % 16);
            zero_values[i] = numbers[i];
        }
        check(&view);
        ck_assert_uint_eq(kt_view_bytes(&view), MOST / 2 + 3 * view.zeros.size);
    }
}
END_TEST

START_TEST(without_scales)
{
    uint8_t bytes[MOST / 2];
    struct kt_view view;
    pack(KT_DTYPE_F4_E2M1, 0, bytes, &view);
    check(&view);
    float out[16];
    static const uint8_t all[8] = {0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe};
    ck_assert_int_eq(kt_view_dense(&view, KT_DTYPE_F4_E2M1, all, 8, 1, 16, &error), KT_OK);
    ck_assert_int_eq(kt_view_row(&view, 0, out, &error), KT_OK);
    for (unsigned code = 0; code < 16; code++)
        ck_assert((double)out[code] == define_e2m1(code) && !signbit(out[code]) == (code < 8));
    pack(KT_DTYPE_INT4, 0, bytes, &view);
    ck_assert_int_eq(kt_view_row(&view, 0, out, &error), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "type int4 cannot be decoded without scales"));
    ck_assert(kt_dtype_needs_scales(KT_DTYPE_INT4) && !kt_dtype_needs_scales(KT_DTYPE_F4_E2M1));
    ck_assert(kt_dtype_decodes(KT_DTYPE_INT4) && kt_dtype_decodes(KT_DTYPE_F4_E2M1));
}
END_TEST

static void refuse(const struct kt_view *view, enum kt_status status, const char *fragment)
{
    float out[C];
    ck_assert_int_eq(kt_view_row(view, 0, out, &error), status);
    ck_assert_msg(strstr(error.message, fragment) != NULL, "\"%s\" is not in: %s", fragment, error.message);
}

START_TEST(what_is_refused)
{
    static uint8_t scales[4 * MOST];
    uint8_t bytes[MOST / 2];
    struct kt_view good, view, part;
    pack(KT_DTYPE_INT4, 0, bytes, &good);
    lay(&good.scales, KT_DTYPE_F16, scales, 1, 32, 0);
    lay(&good.zeros, KT_DTYPE_U8, scales, 1, 32, 0);
    view = good;
    view.zeros.dtype = KT_DTYPE_I8;
    refuse(&view, KT_E_UNSUPPORTED, "its zeros are of dtype i8; they must be u8");
    view = good;
    view.dtype = KT_DTYPE_F4_E2M1;
    refuse(&view, KT_E_UNSUPPORTED, "only int4 weights may have zeros; these are f4_e2m1");
    view = good;
    lay(&view.zeros, KT_DTYPE_U8, scales, 1, 16, 0);
    refuse(&view, KT_E_INVALID, "scales stand for 1 x 32 weights each, its zeros for 1 x 16");
    view = good;
    view.zeros.size--;
    refuse(&view, KT_E_INVALID, "zeros, 24 x 3 units of 1 bytes, reaches over 72");
    view = good;
    view.cols = 92;
    refuse(&view, KT_E_INVALID, "columns a multiple of 8");
    view = good;
    view.row_stride = 3;
    refuse(&view, KT_E_INVALID, "row stride of the matrix is 3");
    /* Turned: one byte more than the last word would be outside. */
    pack(KT_DTYPE_INT4, 1, bytes, &view);
    view.scales = good.scales;
    ck_assert_int_eq(kt_view_check(&view, &error), KT_OK);
    view.size--;
    refuse(&view, KT_E_INVALID, "reaches over 1152 bytes, but 1151");
    ck_assert_int_eq(kt_view_slice(&good, 0, R, 16, 32, &part, &error), KT_E_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "cuts its scales, one for 1 x 32"));
    ck_assert_int_eq(kt_view_slice(&good, 0, R, 4, 8, &part, &error), KT_E_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "cut a block of int4, 8 weights"));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("nibbles");
    tcase_add_loop_test(tests, scales_of_every_kind, 0, N_GROUPS);
    tcase_add_loop_test(tests, zeros, 0, N_GROUPS);
    tcase_add_test(tests, without_scales);
    tcase_add_test(tests, what_is_refused);
    return run_tests("nibbles", tests);
}

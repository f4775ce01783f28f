/* SPDX-License-Identifier: Apache-2.0 */
/* The codebooks of the i-quants, and blocks of any bytes of the formats whose codes name something. */
#include "core/weights/decode/grids.h"
#include "core/weights/decode/dequantize.h"
#include "tests/support/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct kt_error error;

struct grid {
    const char *name;
    const uint16_t *point;
    size_t n;
    unsigned bits; /* of a digit */
    unsigned largest;
    bool even; /* an even number of the digits of each point is 1 */
};

static const struct grid grids[] = {
    {"iq2xxs", kt_iq2xxs_grid, sizeof kt_iq2xxs_grid / 2, 2, 2, true},
    {"iq2xs", kt_iq2xs_grid, sizeof kt_iq2xs_grid / 2, 2, 2, true},
    {"iq2s", kt_iq2s_grid, sizeof kt_iq2s_grid / 2, 2, 2, true},
    {"iq1s", kt_iq1s_grid, sizeof kt_iq1s_grid / 2, 2, 2, false},
    {"iq3xxs", kt_iq3xxs_grid, sizeof kt_iq3xxs_grid / 2, 4, 7, false},
    {"iq3s", kt_iq3s_grid, sizeof kt_iq3s_grid / 2, 4, 7, false},
};

enum { N_GRIDS = sizeof grids / sizeof grids[0] };

/* A wrong digit of a table breaks one of these: points ascend, and are made of digits. */
START_TEST(points)
{
    const struct grid *grid = &grids[_i];
    ck_assert_uint_eq(grid->point[0], 0);
    for (size_t i = 0; i < grid->n; i++) {
        unsigned ones = 0, point = grid->point[i];
        for (unsigned at = 0; at < 16; at += grid->bits) {
            unsigned digit = point >> at & ((1u << grid->bits) - 1);
            ck_assert_msg(digit <= grid->largest, "%s, point %d: 0x%04x", grid->name, (int)i, point);
            ones += digit == 1;
        }
        ck_assert_msg(i == 0 || grid->point[i - 1] < point, "%s, point %d: 0x%04x", grid->name, (int)i,
                      point);
        ck_assert_msg(!grid->even || ones % 2 == 0, "%s, point %d: 0x%04x", grid->name, (int)i, point);
    }
}
END_TEST

/* A format with d = 1: what its weights can be, what a block of set bits holds. */
struct format {
    enum kt_dtype dtype;
    int d; /* byte of the float16 d; -1: the quarters of IQ1_M, -2: none */
    float least, most;
    float first, last; /* of the block of set bits */
};

/* The last points are 0xa904 of IQ2_XXS, 0xaaaa of IQ2_XS, IQ2_S and IQ1, 0x7630 and 0x7700 of IQ3. Eight
 * signs of IQ2_XXS, IQ2_XS and IQ3_XXS: seven that are set ask for the eighth. */
static const struct format formats[] = {
    {KT_DTYPE_IQ2_XXS, 0, 1, 166.625f, -31, -166.625f},
    {KT_DTYPE_IQ2_XS, 0, 1, 166.625f, -166.625f, -166.625f},
    {KT_DTYPE_IQ2_S, 0, 1, 166.625f, -166.625f, -166.625f},
    {KT_DTYPE_IQ3_XXS, 0, 1, 480.5f, -31, -480.5f},
    {KT_DTYPE_IQ3_S, 0, 1, 465, -31, -465},
    {KT_DTYPE_IQ1_S, 0, 0.125f, 16.875f, 13.125f, 13.125f},
    {KT_DTYPE_IQ1_M, -1, 0.125f, 16.875f, 13.125f, 13.125f},
    {KT_DTYPE_TQ1_0, 52, 0, 1, 1, 1},
    {KT_DTYPE_TQ2_0, 64, 0, 2, 2, 2},
    {KT_DTYPE_Q1_0, 0, 1, 1, 1, 1},
    {KT_DTYPE_Q2_0, 0, 0, 2, 2, 2},
    {KT_DTYPE_NVFP4, -2, 0, 2880, -2880, -2880},
};

enum { N_FORMATS = sizeof formats / sizeof formats[0], BLOCKS = 3000 };

static void set_scale(const struct format *format, uint8_t *block)
{
    if (format->d >= 0) {
        block[format->d] = 0x00;
        block[format->d + 1] = 0x3c;
    } else if (format->d == -1) {
        static const uint8_t quarters[] = {0x0, 0x0, 0xc, 0x3};
        for (int i = 0; i < 4; i++)
            block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 15) | quarters[i] << 4);
    }
}

static void decode(const struct format *format, const uint8_t *block, float *out)
{
    uint32_t elements, bytes;
    struct kt_view view;
    kt_dtype_block(format->dtype, &elements, &bytes);
    ck_assert_int_eq(kt_view_dense(&view, format->dtype, block, bytes, 1, elements, &error), KT_OK);
    ck_assert_int_eq(kt_view_row(&view, 0, out, &error), KT_OK);
}

START_TEST(set_bits)
{
    const struct format *format = &formats[_i];
    uint32_t elements, bytes;
    float out[256];
    kt_dtype_block(format->dtype, &elements, &bytes);
    uint8_t *block = malloc(bytes); /* an address checker sees its end */
    ck_assert_ptr_nonnull(block);
    memset(block, 0xff, bytes);
    set_scale(format, block);
    decode(format, block, out);
    ck_assert_float_eq(out[0], format->first);
    ck_assert_float_eq(out[elements - 1], format->last);
    free(block);
}
END_TEST

/* Random bytes: every index, every scale, and never a value that the format does not have. */
START_TEST(any_bytes)
{
    const struct format *format = &formats[_i];
    uint32_t elements, bytes, state = 12345;
    float out[256], least = INFINITY, most = 0;
    kt_dtype_block(format->dtype, &elements, &bytes);
    uint8_t *block = malloc(bytes);
    ck_assert_ptr_nonnull(block);
    for (int b = 0; b < BLOCKS; b++) {
        for (uint32_t i = 0; i < bytes; i++) {
            state = state * 1664525 + 1013904223;
            block[i] = (uint8_t)(state >> 24);
        }
        set_scale(format, block);
        decode(format, block, out);
        for (uint32_t i = 0; i < elements; i++) {
            least = fminf(least, fabsf(out[i]));
            most = fmaxf(most, fabsf(out[i]));
            if (!isfinite(out[i]))
                ck_abort_msg("block %d, weight %d: %g", b, (int)i, (double)out[i]);
        }
    }
    ck_assert_float_eq(least, format->least);
    ck_assert_float_eq(most, format->most);
    free(block);
}
END_TEST

/* Every scale of NVFP4, 16 weights of 6 (code 7) after it. */
START_TEST(nvfp4_scales)
{
    for (unsigned code = 0; code < 256; code++) {
        int exponent = code >> 3 & 15, mantissa = code & 7;
        double scale = exponent ? ldexp(1 + mantissa / 8.0, exponent - 7) : ldexp(mantissa, -9);
        uint8_t block[36];
        float out[64];
        memset(block, 0x77, sizeof block);
        for (unsigned group = 0; group < 4; group++)
            block[group] = (uint8_t)(group == code % 4 ? code : 0);
        decode(&formats[N_FORMATS - 1], block, out);
        for (unsigned i = 0; i < 64; i++)
            ck_assert_float_eq(out[i], (float)(i / 16 == code % 4 && code != 0x7f ? 6 * scale : 0));
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("grids");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, points, 0, N_GRIDS);
    tcase_add_loop_test(tests, set_bits, 0, N_FORMATS);
    tcase_add_loop_test(tests, any_bytes, 0, N_FORMATS);
    tcase_add_test(tests, nvfp4_scales);
    return run_tests("grids", tests);
}

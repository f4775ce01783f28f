/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of outputs: the bits of one number after the other, at every length and alignment. */
#include "core/forward/sum.h"
#include "core/weights/decode/decode.h"
#include "core/weights/decode/encode.h"
#include "tests/support/suite.h"
#include <check.h>
#include <kt/types.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 71 };

static const uint32_t dtypes[] = {KT_DTYPE_F32, KT_DTYPE_BF16, KT_DTYPE_F16};

static uint32_t next_random(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 32);
}

/* Numbers of all sizes, and some NaN, infinities and halves between two bfloat16. */
static float draw(uint64_t *random)
{
    static const uint32_t special[] = {0x7fc00000, 0xff800000, 0x3f808000, 0x3f818000,
                                       0x7f7fffff, 0x7fffffff, 0x80000000, 0x00000001};
    uint32_t bits = next_random(random);
    if (bits % 8 == 0)
        bits = special[next_random(random) % 8];
    else
        bits &= 0xbfffffff;
    return kt_bits_float(bits);
}

static float read_at(const void *y, uint32_t dtype, uint64_t i)
{
    return dtype == KT_DTYPE_F32    ? ((const float *)y)[i]
           : dtype == KT_DTYPE_BF16 ? kt_bf16_float(((const uint16_t *)y)[i])
                                    : kt_f16_float(((const uint16_t *)y)[i]);
}

static void write_at(void *y, uint32_t dtype, uint64_t i, float value)
{
    if (dtype == KT_DTYPE_F32)
        ((float *)y)[i] = value;
    else
        ((uint16_t *)y)[i] = dtype == KT_DTYPE_BF16 ? kt_to_bf16(value) : kt_to_f16(value);
}

static void expect_same(float got, float wanted, uint64_t n, uint64_t i)
{
    bool same = isnan(wanted) ? isnan(got) : kt_float_bits(got) == kt_float_bits(wanted);
    ck_assert_msg(same, "of %u numbers, number %u is %a, not %a", (unsigned)n, (unsigned)i, (double)got,
                  (double)wanted);
}

START_TEST(adds_as_one_by_one)
{
    uint64_t random = 11 + (uint64_t)_i;
    for (uint64_t n = 0; n <= MOST; n++) {
        _Alignas(64) float y[MOST + 1] = {0}, sum[MOST + 2], wanted[MOST];
        for (uint64_t i = 0; i < n; i++) {
            sum[i + 1] = wanted[i] = draw(&random);
            write_at(y, dtypes[_i], i + 1, draw(&random));
        }
        sum[n + 1] = 42;
        float weight = 0.3f;
        kt_sum_add(sum + 1, (const char *)y + (_i ? 2 : 4), dtypes[_i], weight, n); /* not aligned */
        for (uint64_t i = 0; i < n; i++) {
            float product = weight * read_at(y, dtypes[_i], i + 1);
            expect_same(sum[i + 1], wanted[i] + product, n, i);
        }
        ck_assert(sum[n + 1] == 42);
    }
}
END_TEST

START_TEST(rounds_as_one_by_one)
{
    uint64_t random = 21 + (uint64_t)_i;
    for (uint64_t n = 0; n <= MOST; n++) {
        float sum[MOST], out[MOST + 1];
        for (uint64_t i = 0; i < n; i++)
            sum[i] = draw(&random);
        memset(out, 0x5a, sizeof out);
        kt_sum_store(sum, out, dtypes[_i], false, n);
        for (uint64_t i = 0; i < n; i++) {
            float one;
            write_at(&one, dtypes[_i], 0, sum[i]);
            expect_same(read_at(out, dtypes[_i], i), read_at(&one, dtypes[_i], 0), n, i);
        }
        ck_assert(((const uint8_t *)out)[n * (_i ? 2 : 4)] == 0x5a);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("sums");
    tcase_add_loop_test(tests, adds_as_one_by_one, 0, 2); /* y is float32 or bfloat16 */
    tcase_add_loop_test(tests, rounds_as_one_by_one, 0, 3);
    return run_tests("sums of outputs", tests);
}

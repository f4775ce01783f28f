/* SPDX-License-Identifier: Apache-2.0 */
/* test_numbers.c - numbers of 16 bits as the checkers and generators make and read them. */
#include "tools/check/number.h"

#include <math.h>
#include <stdio.h>

static int n_wrong;

static void expect(bool right, const char *what, uint32_t bits)
{
    if (right)
        return;
    printf("%s is wrong for %08x\n", what, bits);
    n_wrong++;
}

/* Values that IEEE 754 gives: ties, the ends of the range, subnormals, NaN. */
static void check_values(void)
{
    static const struct {
        uint32_t from;
        uint16_t bf16, f16;
    } rows[] = {
        {0x00000000, 0x0000, 0x0000}, {0x80000000, 0x8000, 0x8000}, {0x3f800000, 0x3f80, 0x3c00},
        {0x3f808000, 0x3f80, 0x3c04}, {0x3f818000, 0x3f82, 0x3c0c}, {0x3f808001, 0x3f81, 0x3c04},
        {0x3f801000, 0x3f80, 0x3c00}, {0x3f803000, 0x3f80, 0x3c02}, {0x477fefff, 0x4780, 0x7bff},
        {0x477ff000, 0x4780, 0x7c00}, {0xc77ff000, 0xc780, 0xfc00}, {0x7f7fffff, 0x7f80, 0x7c00},
        {0x7f800000, 0x7f80, 0x7c00}, {0xff800000, 0xff80, 0xfc00}, {0x7f800001, 0x7fc0, 0x7e00},
        {0x7fffffff, 0x7fff, 0x7e00}, {0xff80ffff, 0xffc0, 0xfe00}, {0x33000000, 0x3300, 0x0000},
        {0x33000001, 0x3300, 0x0001}, {0x33c00000, 0x33c0, 0x0002}, {0x387fe000, 0x3880, 0x0400},
        {0x00000001, 0x0000, 0x0000}, {0x00018000, 0x0002, 0x0000}, {0x807fffff, 0x8080, 0x8000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect(to_bf16(bits_float(rows[i].from)) == rows[i].bf16, "to_bf16", rows[i].from);
        expect(to_f16(bits_float(rows[i].from)) == rows[i].f16, "to_f16", rows[i].from);
    }
}

/* What a number of 16 bits is, by its exponent and fraction. */
static double value_of(uint16_t bits, int fraction_bits, int bias)
{
    int exponent = (bits & 0x7fff) >> fraction_bits, one = 1 << fraction_bits, fraction = bits & (one - 1);
    if (exponent == 0x7fff >> fraction_bits)
        return fraction ? NAN : bits & 0x8000 ? -INFINITY : INFINITY;
    double size = ldexp(fraction + (exponent ? one : 0), (exponent ? exponent : 1) - bias - fraction_bits);
    return bits & 0x8000 ? -size : size;
}

static bool comes_back(uint32_t dtype, uint16_t bits, double value)
{
    uint16_t again;
    float read = read_number(&bits, dtype);
    write_number(&again, dtype, read);
    return isnan(value) ? isnan(read) && isnan(read_number(&again, dtype)) && !((again ^ bits) & 0x8000)
                        : (double)read == value && again == bits;
}

int main(void)
{
    check_values();
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint16_t half = (uint16_t)bits;
        expect(comes_back(KT_DTYPE_BF16, half, value_of(half, 7, 127)), "bf16", bits);
        expect(comes_back(KT_DTYPE_F16, half, value_of(half, 10, 15)), "f16", bits);
    }
    return n_wrong > 0;
}

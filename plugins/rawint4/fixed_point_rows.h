/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fixed_point_rows.h - rows of activations as fixed-point numbers of 15 bits, beside float32.
 *
 * 32 columns of a row are q * unit, unit a power of two and |q| <= 16320: bfloat16 numbers down to 2^-6 of
 * the largest are exact, smaller ones are at most half a unit off, 2^-14 of it. q is 256 * high + low, two
 * int8. Behind the sums of a row (unit * a sum of q, exact) stand the units, then for each tile 32 bytes of
 * high and 32 of low parts; each 8 columns are in the order of their codes: 0 4 1 5 2 6 3 7.
 */
#ifndef KT_PLUGINS_RAWINT4_FIXED_POINT_ROWS_H
#define KT_PLUGINS_RAWINT4_FIXED_POINT_ROWS_H

#include "plugins/rawint4/rawint4.h"

#include "plugins/common/simd/simd.h"

/* The unit for 32 numbers, the largest of which has these bits; NaN if one is not finite. */
INLINE uint32_t choose_unit(uint32_t max_bits)
{
    uint32_t exponent = max_bits >> 23;
    if (exponent == 255)
        return 0x7fc00000;
    return (exponent > 14 ? exponent - 13 : 1) << 23;
}

/* Tile t of a row whose columns stand at x, bfloat16 as float32, and its n sums. */
INLINE void store_extra(const uint8_t *x, unsigned n, float *sums, float *units, uint64_t filled, uint64_t t)
{
    static const uint8_t place[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    uint32_t max = 0, unit;
    int32_t sum[TILE_COLUMNS / CODE_COLUMNS] = {0};
    int8_t *high = (int8_t *)(units + filled) + t * FIXED_POINT_BYTES, *low = high + TILE_COLUMNS;
    for (unsigned i = 0; i < TILE_COLUMNS; i++) {
        uint32_t bits = load_u32(x + 4 * i) & 0x7fffffff;
        max = bits > max ? bits : max;
    }
    unit = choose_unit(max);
    /* 2^-126 to 2^114, and its inverse; q is 0 where a number is not finite. */
    float inverse = unit == 0x7fc00000 ? 0.0f : bits_to_float((UINT32_C(254) << 23) - unit);
    for (unsigned i = 0; i < TILE_COLUMNS; i++) {
        /* Adding 1.5 * 2^23 rounds to an integer, ties to even. */
        float shifted = (inverse > 0 ? load_f32(x + 4 * i) * inverse : 0.0f) + 0x1.8p23f;
        int32_t q = (int32_t)(float_to_bits(shifted) - 0x4b400000);
        unsigned to = i / 8 * 8 + place[i % 8];
        high[to] = (int8_t)((q + 128) >> 8);
        low[to] = (int8_t)(q - high[to] * 256);
        sum[i * n / TILE_COLUMNS] += q;
    }
    for (unsigned i = 0; i < n; i++)
        sums[i] = bits_to_float(unit) * (float)sum[i];
    units[t] = bits_to_float(unit);
}

#endif

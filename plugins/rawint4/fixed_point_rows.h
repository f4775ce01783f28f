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

/* 32 numbers as integers of a unit, whose inverse is given. */
INLINE void round_to_unit(const float *x, float inverse, int32_t *q)
{
    /* Adding 1.5 * 2^23 rounds to an integer, ties to even. */
    const vf magic = vf_set(0x1.8p23f);
    UNROLL_FOR (unsigned i = 0; i < TILE_COLUMNS; i += VEC_ROWS) {
        vi shifted = vi_from_bits(vf_fma(vf_load(x + i), vf_set(inverse), magic));
        vi_store(q + i, vi_sub32(shifted, vi_splat32(0x4b400000)));
    }
}

/* Byte `shift` / 8 of all q, each 8 in the order of their codes. Plain loops of known length, which compilers
 * make vectors of. */
INLINE void store_bytes(const int32_t *q, int32_t add, unsigned shift, uint8_t *to)
{
    uint8_t byte[TILE_COLUMNS];
    uint64_t eight[TILE_COLUMNS / 8];
    for (unsigned i = 0; i < TILE_COLUMNS; i++)
        byte[i] = (uint8_t)((uint32_t)(q[i] + add) >> shift);
    memcpy(eight, byte, sizeof eight);
    for (unsigned i = 0; i < TILE_COLUMNS / 8; i++) {
        uint64_t word = eight[i], swap = (word ^ word >> 16) & 0xffff0000;
        word ^= swap ^ swap << 16;
        swap = (word ^ word >> 8) & 0x0000ff000000ff00;
        eight[i] = word ^ swap ^ swap << 8;
    }
    memcpy(to, eight, sizeof eight);
}

/* Tile t of a row whose columns stand at x, bfloat16 as float32, and its n sums. */
INLINE void store_extra(const float *x, unsigned n, float *sums, float *units, uint64_t filled, uint64_t t)
{
    const uint32_t bits = choose_unit(vec_absmax32(x));
    const float unit = bits_to_float(bits);
    uint8_t *high = (uint8_t *)(units + filled) + t * FIXED_POINT_BYTES;
    _Alignas(64) int32_t q[TILE_COLUMNS] = {0};
    int32_t sum[TILE_COLUMNS / CODE_COLUMNS] = {0};

    /* 2^-126 to 2^114, and its inverse; q is 0 where a number is not finite. */
    if (bits != 0x7fc00000)
        round_to_unit(x, bits_to_float((UINT32_C(254) << 23) - bits), q);
    store_bytes(q, 128, 8, high);
    store_bytes(q, 0, 0, high + TILE_COLUMNS);
    for (unsigned s = 0; s < TILE_COLUMNS / CODE_COLUMNS; s++)
        for (unsigned i = 0; i < CODE_COLUMNS; i++)
            sum[s] += q[s * CODE_COLUMNS + i];
    for (unsigned i = 0; i < n; i++)
        sums[i] = unit * (float)(n == 1 ? sum[0] + sum[1] + sum[2] + sum[3] : sum[i]);
    units[t] = unit;
}

#endif

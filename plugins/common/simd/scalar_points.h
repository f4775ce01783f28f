/* SPDX-License-Identifier: Apache-2.0 */
/* simd/scalar_points.h - weights that are points of a grid, and lines by columns, in plain C: each function
 * says what those of the other sets must do. */
#ifndef KT_PLUGINS_COMMON_SIMD_SCALAR_POINTS_H
#define KT_PLUGINS_COMMON_SIMD_SCALAR_POINTS_H

#include "plugins/common/simd/scalar.h"
#include "plugins/common/simd/points.h"

/* The point of each row, 8 bytes: the first four in w[0], the others in w[1]. Of the 16 rows those
 * of `part` count. */
INLINE void vi_points8(const uint64_t *points, struct numbers index, int part, vi w[2])
{
    (void)part;
    for (int i = 0; i < 16; i++) {
        w[0].u32[i] = (uint32_t)points[number_of(index, i)];
        w[1].u32[i] = (uint32_t)(points[number_of(index, i)] >> 32);
    }
}

/* The same with points of 4 bytes. */
INLINE vi vi_points4(const uint32_t *points, struct numbers index, int part)
{
    vi w;
    (void)part;
    for (int i = 0; i < 16; i++)
        w.u32[i] = points[number_of(index, i)];
    return w;
}

/* Bytes of w, with the other sign where bit `bit` of the byte of `bits` is set. */
INLINE vi vi_negate(vi w, vi bits, int bit)
{
    for (int i = 0; i < 64; i++)
        w.s8[i] = (int8_t)(bits.u8[i] >> bit & 1 ? -w.s8[i] : w.s8[i]);
    return w;
}

/* All bits of a row's lane where bit `bit` of its byte at p is set, else none. */
INLINE vi vi_spread_bit(const uint8_t *p, int bit, int part)
{
    vi v;
    (void)part;
    for (int i = 0; i < 16; i++)
        v.u32[i] = p[i] >> bit & 1 ? UINT32_MAX : 0;
    return v;
}

/* Sums of bytes. */
INLINE vi vi_add8(vi a, vi b)
{
    for (int i = 0; i < 64; i++)
        a.u8[i] = (uint8_t)(a.u8[i] + b.u8[i]);
    return a;
}

/* Four times 16 bytes, one of each row, row r's being number 4 * (r % 4) + r / 4: the four of a row in its
 * lane, the first one lowest. */
INLINE vi vi_load_turned(const uint8_t *line, int part)
{
    vi v;
    (void)part;
    for (int i = 0; i < 64; i++)
        v.u8[i] = line[i % 4 * 16 + i / 4 % 4 * 4 + i / 16];
    return v;
}

#endif

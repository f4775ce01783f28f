/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simd/scalar_int8.h - what backends with int8 weights need beside simd/scalar.h, in plain C: each function
 * says what those of the other sets must do.
 *
 * Weights are stored as codes w + 128, unsigned, because the instructions that add to int32 (vpdpbusd,
 * tdpbsud) want one unsigned factor, and signed activations have padding of 0.
 */
#ifndef KT_PLUGINS_COMMON_SIMD_SCALAR_INT8_H
#define KT_PLUGINS_COMMON_SIMD_SCALAR_INT8_H

#include "plugins/common/simd/scalar.h"

/* 1: sums are of code * x, and 128 * sum(x) is still to be taken off; 0: of w * x. */
#define W8_SUMS_CODES 0

/* Four activations, ready to be multiplied with every lane. */
typedef struct {
    int8_t x[4];
} x8;

INLINE x8 x8_splat(const int8_t *p)
{
    x8 x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* Codes, prepared once for any number of rows of activations. */
INLINE vi w8_ready(vi code)
{
    for (int i = 0; i < 64; i++)
        code.u8[i] ^= 0x80;
    return code;
}

/* Adds 4 products in each lane; sums wrap, only the last one must fit. */
INLINE vi w8_add(vi sum, vi w, x8 x)
{
    for (int i = 0; i < 16; i++)
        for (int b = 0; b < 4; b++)
            sum.u32[i] += (uint32_t)(w.s8[4 * i + b] * x.x[b]);
    return sum;
}

/* ---- weights of 4 bits in groups: scale * (code - zero), code and zero 0..15, scale 1..16. A group's
 * byte is scale - 1 | zero << 4, for each of 16 rows. */

/* The zeros and scales of `part` of the 16 bytes at p, in a form of the level's own. */
INLINE vi g4_zeros(const uint8_t *p, int part)
{
    vi v;
    (void)part;
    for (int i = 0; i < 16; i++)
        v.s32[i] = p[i] >> 4;
    return v;
}

INLINE vi g4_scales(const uint8_t *p, int part)
{
    vi v;
    (void)part;
    for (int i = 0; i < 16; i++)
        v.s32[i] = (p[i] & 15) + 1;
    return v;
}

/* A vector's sums while a group is added up. */
typedef vi g4_sum;

/* 32 columns of a group begin with -zero * sum(x), given the negated sums of int8/activations_tmpl.h ... */
INLINE g4_sum g4_start(vi zeros, const int16_t *sums)
{
    for (int i = 0; i < 16; i++)
        zeros.s32[i] *= sums[0] + sums[1];
    return zeros;
}

/* ... continue with 4 products of codes and activations in each lane, 8 times ... */
INLINE g4_sum g4_add(g4_sum sum, vi code, x8 x)
{
    for (int i = 0; i < 16; i++)
        for (int b = 0; b < 4; b++)
            sum.s32[i] += code.u8[4 * i + b] * x.x[b];
    return sum;
}

/* ... and end in total + scale * sum. */
INLINE vi g4_finish(vi total, g4_sum sum, vi scales)
{
    for (int i = 0; i < 16; i++)
        total.s32[i] += sum.s32[i] * scales.s32[i];
    return total;
}

/* ---- for packing ---- */

INLINE vi vi_shl32(vi v, int bits)
{
    for (int i = 0; i < 16; i++)
        v.u32[i] <<= bits;
    return v;
}

/* The bits of floats. */
INLINE vi vi_from_bits(vf v)
{
    vi bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* x where a < b, else y. */
INLINE vf vf_pick(vf a, vf b, vf x, vf y)
{
    VF_EACH(a.f[i] < b.f[i] ? x.f[i] : y.f[i]);
}

INLINE void vi_store(void *p, vi v)
{
    memcpy(p, &v, sizeof v);
}

INLINE vi vi_splat32(int32_t value)
{
    vi v;
    for (int i = 0; i < 16; i++)
        v.s32[i] = value;
    return v;
}

INLINE vi vi_sub32(vi a, vi b)
{
    for (int i = 0; i < 16; i++)
        a.u32[i] -= b.u32[i];
    return a;
}

/* The larger one, as signed numbers. */
INLINE vi vi_max32(vi a, vi b)
{
    for (int i = 0; i < 16; i++)
        a.s32[i] = a.s32[i] > b.s32[i] ? a.s32[i] : b.s32[i];
    return a;
}

/* VEC_ROWS bf16 in a row. */
INLINE vf vf_from_bf16(const void *p)
{
    VF_EACH(bf16_to_float(load_u16((const uint8_t *)p + 2 * i)));
}

/* The sum of 32 numbers. */
INLINE int32_t vec_sum32(const int8_t *q)
{
    int32_t sum = 0;
    for (int i = 0; i < 32; i++)
        sum += q[i];
    return sum;
}

/* To the nearest bf16, ties to even; NaN stays NaN. */
INLINE void vf_store_bf16(void *p, vf v)
{
    for (int i = 0; i < VEC_ROWS; i++) {
        uint32_t bits = float_to_bits(v.f[i]);
        uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
        if ((bits & 0x7fffffff) > 0x7f800000)
            rounded = bits | 0x400000;
        store_u16((uint8_t *)p + 2 * i, (uint16_t)(rounded >> 16));
    }
}

/* Copies a line of 64 bytes between aligned addresses, past the caches where the CPU can; such lines
 * are ordered before what follows by vec_stream_end. */
INLINE void vec_stream64(void *to, const void *from)
{
    memcpy(to, from, 64);
}

INLINE void vec_stream_end(void)
{
}

/* 16 rows of 64 bytes, `stride` apart, to a tile: lane c of line q is bytes 4q..4q+3 of row c. */
INLINE void vec_make_tile(const uint8_t *rows, uint64_t stride, uint8_t *tile)
{
    for (unsigned c = 0; c < 16; c++)
        for (unsigned q = 0; q < 16; q++)
            memcpy(tile + 64 * q + 4 * c, rows + c * stride + 4 * q, 4);
}

/* The low 16 bits of a line's lanes, then the high ones; to may be the line. */
INLINE void vec_part_halves(const uint8_t *line, uint8_t *to)
{
    uint16_t half[2][16];
    for (unsigned c = 0; c < 16; c++)
        for (unsigned i = 0; i < 2; i++)
            half[i][c] = load_u16(line + 4 * c + 2 * i);
    memcpy(to, half, sizeof half);
}

/* A line's bytes 0 of all rows, then bytes 1, 2 and 3. */
INLINE void vec_part_bytes(const uint8_t *line, uint8_t *to)
{
    for (unsigned i = 0; i < 4; i++)
        for (unsigned c = 0; c < 16; c++)
            to[16 * i + c] = line[4 * c + i];
}

#endif

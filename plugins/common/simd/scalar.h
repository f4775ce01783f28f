/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simd/scalar.h - the vector functions in plain C: for every CPU, and the reference of the other sets, so
 * each function here says what theirs must do.
 *
 * A vi has VEC_ROWS lanes of 4 bytes, one lane for each row of weights; a vf has VEC_ROWS floats. A line of
 * a tile, 16 rows, is VEC_PARTS vectors; `part` picks one.
 */
#ifndef KT_PLUGINS_COMMON_SIMD_SCALAR_H
#define KT_PLUGINS_COMMON_SIMD_SCALAR_H

#define VEC_PLAIN
#include "plugins/common/simd/attributes.h"
#include "plugins/common/simd/features.h"
#include "plugins/common/simd/numbers.h"

#include <math.h>

#define VEC_ROWS 16
#define VEC_PARTS 1
/* A dot accumulator holds any sum of 32 products; 0: it holds two int16, see simd/avx2.h. */
#define VEC_DOT_WIDE 1
/* What vi_dot_add multiplies with, as the peak of kt bench is called. */
#define VEC_INT8_DOT "scalar"
#define VEC_FLOAT_FMA "scalar"
#define PREFETCH(address) ((void)(address))

/* Four vectors of 16 bytes, which compilers keep in registers: SSE2 and NEON have them, and elsewhere they
 * are four numbers. An array of 16 numbers would go through memory between any two functions. */
typedef float vf4 __attribute__((vector_size(16)));
typedef uint32_t vi4 __attribute__((vector_size(16)));
typedef struct {
    union {
        uint8_t u8[64];
        int8_t s8[64];
        int32_t s32[16];
        uint32_t u32[16];
        struct {
            vi4 a, b, c, d;
        } q;
    };
} vi;

typedef struct {
    union {
        float f[16];
        struct {
            vf4 a, b, c, d;
        } q;
    };
} vf;

/* A dot accumulator: what vi_dot_* make of products of weights and activations. */
typedef vi vdot;

/* ---- integers ---- */

INLINE vi vi_load(const void *from)
{
    vi v;
    memcpy(&v, from, sizeof v);
    return v;
}

INLINE vi vi_keep(vi v)
{
    return v;
}

INLINE vi vi_in_order(vi v)
{
    return v;
}

INLINE vi vi_set_u8(uint8_t value)
{
    vi v;
    memset(&v, value, sizeof v);
    return v;
}

INLINE vi vi_and(vi a, vi b)
{
    for (int i = 0; i < 16; i++)
        a.u32[i] &= b.u32[i];
    return a;
}

INLINE vi vi_or(vi a, vi b)
{
    for (int i = 0; i < 16; i++)
        a.u32[i] |= b.u32[i];
    return a;
}

/* a's bits where the mask has ones, b's where it has zeros. */
INLINE vi vi_select(vi mask, vi a, vi b)
{
    for (int i = 0; i < 16; i++)
        a.u32[i] = (a.u32[i] & mask.u32[i]) | (b.u32[i] & ~mask.u32[i]);
    return a;
}

/* Shifts of lanes or of 16-bit halves, as a level likes: bits that cross a byte are masked off by the
 * caller. */
INLINE vi vi_shr(vi v, int bits)
{
    for (int i = 0; i < 16; i++)
        v.u32[i] >>= bits;
    return v;
}

/* The upper 4 bits of each byte. */
INLINE vi vi_high4(vi v)
{
    return vi_and(vi_shr(v, 4), vi_set_u8(15));
}

INLINE vi vi_shl(vi v, int bits)
{
    for (int i = 0; i < 16; i++)
        v.u32[i] <<= bits;
    return v;
}

INLINE vi vi_add32(vi a, vi b)
{
    for (int i = 0; i < 16; i++)
        a.u32[i] += b.u32[i];
    return a;
}

/* A table of 16 bytes, for vi_lookup_*. */
INLINE vi vi_table(const void *table)
{
    vi v;
    for (int i = 0; i < 4; i++)
        memcpy(v.u8 + 16 * i, table, 16);
    return v;
}

/* table[code] for the code in each byte's low or high 4 bits. */
INLINE vi vi_lookup_low4(vi table, vi codes)
{
    for (int i = 0; i < 64; i++)
        codes.u8[i] = table.u8[codes.u8[i] & 15];
    return codes;
}

INLINE vi vi_lookup_high4(vi table, vi codes)
{
    return vi_lookup_low4(table, vi_shr(codes, 4));
}

/* For codes in bits 0 to 2 and 3 to 5; the table's second half must be as its first. */
INLINE vi vi_lookup_low3(vi table, vi codes)
{
    return vi_lookup_low4(table, codes);
}

INLINE vi vi_lookup_next3(vi table, vi codes)
{
    return vi_lookup_low4(table, vi_shr(codes, 3));
}

/* The bytes of `part` at p (one per row of the panel), each in its own 32-bit lane. */
INLINE vi vi_widen_u8(const uint8_t *p, int part)
{
    vi v;
    (void)part;
    for (int i = 0; i < 16; i++)
        v.s32[i] = p[i];
    return v;
}

/* Scales of the panel's 16 rows in the form that vi_dot_scale takes: uint8, int8, the low nibble. */
INLINE vi vi_scale_u8(const uint8_t *p, int part)
{
    return vi_widen_u8(p, part);
}

INLINE vi vi_scale_s8(const uint8_t *p, int part)
{
    vi v;
    (void)part;
    for (int i = 0; i < 16; i++)
        v.s32[i] = (int8_t)p[i];
    return v;
}

INLINE vi vi_scale_u4(const uint8_t *p, int part)
{
    vi v;
    (void)part;
    for (int i = 0; i < 16; i++)
        v.s32[i] = p[i] & 15;
    return v;
}

/* ---- dot products: 4 weights of each row with the same 4 activations (int8, within +-127) ---- */

INLINE vdot vi_dot_zero(void)
{
    return vi_set_u8(0);
}

/* -offset * (sum of the activations), given minus their sums as two int16: so that products with
 * weights stored as w + offset come out as if with w. */
INLINE vdot vi_dot_start(const void *pair, int offset)
{
    vdot v;
    int32_t sum = (int16_t)load_u16(pair) + (int16_t)load_u16((const uint8_t *)pair + 2);
    for (int i = 0; i < 16; i++)
        v.s32[i] = offset * sum;
    return v;
}

/* Adds unsigned weights * activations. At most 64 * 2 * 127 in an int16 pair is safe in one step. */
INLINE vdot vi_dot_add(vdot sum, vi w, const int8_t *x)
{
    for (int i = 0; i < 16; i++)
        sum.s32[i] +=
            w.u8[4 * i] * x[0] + w.u8[4 * i + 1] * x[1] + w.u8[4 * i + 2] * x[2] + w.u8[4 * i + 3] * x[3];
    return sum;
}

INLINE vi vi_dot_sum(vdot sum)
{
    return sum;
}

INLINE vi vi_dot_scale(vdot sum, vi scale)
{
    for (int i = 0; i < 16; i++)
        sum.s32[i] *= scale.s32[i];
    return sum;
}

/* Signed weights: prepared once, started with the sums of the activations, then added. */
INLINE vi vi_signed_ready(vi w)
{
    return w;
}

INLINE vi vi_signed_start(const void *pair)
{
    (void)pair;
    return vi_set_u8(0);
}

INLINE vi vi_signed_add(vi sum, vi w, const int8_t *x)
{
    for (int i = 0; i < 16; i++)
        sum.s32[i] +=
            w.s8[4 * i] * x[0] + w.s8[4 * i + 1] * x[1] + w.s8[4 * i + 2] * x[2] + w.s8[4 * i + 3] * x[3];
    return sum;
}

/* sum * scale with 32-bit scales: vi_wide_scale_s8. */
INLINE vi vi_wide_scale_s8(const uint8_t *p, int part)
{
    return vi_scale_s8(p, part);
}

INLINE vi vi_mul32(vi a, vi b)
{
    for (int i = 0; i < 16; i++)
        a.s32[i] *= b.s32[i];
    return a;
}

/* ---- floats ---- */

#define VF_EACH(expression)                \
    do {                                   \
        vf result_;                        \
        for (int i = 0; i < VEC_ROWS; i++) \
            result_.f[i] = (expression);   \
        return result_;                    \
    } while (0)

INLINE vf vf_set(float value)
{
    const vf4 four = {value, value, value, value};
    return (vf){.q = {four, four, four, four}};
}

/* The float at an address in all lanes. */
INLINE vf vf_splat(const void *p)
{
    return vf_set(load_f32(p));
}

INLINE vf vf_load(const void *p)
{
    vf v;
    memcpy(&v.q.a, p, sizeof v.q.a);
    memcpy(&v.q.b, (const uint8_t *)p + 16, sizeof v.q.b);
    memcpy(&v.q.c, (const uint8_t *)p + 32, sizeof v.q.c);
    memcpy(&v.q.d, (const uint8_t *)p + 48, sizeof v.q.d);
    return v;
}

INLINE void vf_store(void *p, vf v)
{
    memcpy(p, &v.q.a, sizeof v.q.a);
    memcpy((uint8_t *)p + 16, &v.q.b, sizeof v.q.b);
    memcpy((uint8_t *)p + 32, &v.q.c, sizeof v.q.c);
    memcpy((uint8_t *)p + 48, &v.q.d, sizeof v.q.d);
}

INLINE vf vf_add(vf x, vf y)
{
    return (vf){.q = {x.q.a + y.q.a, x.q.b + y.q.b, x.q.c + y.q.c, x.q.d + y.q.d}};
}

INLINE vf vf_sub(vf x, vf y)
{
    return (vf){.q = {x.q.a - y.q.a, x.q.b - y.q.b, x.q.c - y.q.c, x.q.d - y.q.d}};
}

INLINE vf vf_mul(vf x, vf y)
{
    return (vf){.q = {x.q.a * y.q.a, x.q.b * y.q.b, x.q.c * y.q.c, x.q.d * y.q.d}};
}

INLINE vf vf_div(vf x, vf y)
{
    return (vf){.q = {x.q.a / y.q.a, x.q.b / y.q.b, x.q.c / y.q.c, x.q.d / y.q.d}};
}

INLINE vf4 fma_4(vf4 x, vf4 y, vf4 z)
{
    return (vf4){fmaf(x[0], y[0], z[0]), fmaf(x[1], y[1], z[1]), fmaf(x[2], y[2], z[2]),
                 fmaf(x[3], y[3], z[3])};
}

/* x * y + z and z - x * y, rounded once. */
INLINE vf vf_fma(vf x, vf y, vf z)
{
    return (vf){.q = {fma_4(x.q.a, y.q.a, z.q.a), fma_4(x.q.b, y.q.b, z.q.b), fma_4(x.q.c, y.q.c, z.q.c),
                      fma_4(x.q.d, y.q.d, z.q.d)}};
}

/* The same of bfloat16 numbers x and y, whose product float64 holds exactly; and rounding to float64 first
 * does not change how a sum of two numbers of at most 24 bits is rounded to float32. Without an instruction
 * for it fmaf is a call. */
#ifdef FP_FAST_FMAF
INLINE vf vf_fma_bf16(vf x, vf y, vf z)
{
    return vf_fma(x, y, z);
}
#else
typedef double vd2 __attribute__((vector_size(16)));

INLINE vd2 low_doubles(vf4 v)
{
    return (vd2){(double)v[0], (double)v[1]};
}

INLINE vd2 high_doubles(vf4 v)
{
    return (vd2){(double)v[2], (double)v[3]};
}

INLINE vf4 fma_4_bf16(vf4 x, vf4 y, vf4 z)
{
    vd2 low = low_doubles(x) * low_doubles(y) + low_doubles(z);
    vd2 high = high_doubles(x) * high_doubles(y) + high_doubles(z);
    return (vf4){(float)low[0], (float)low[1], (float)high[0], (float)high[1]};
}

INLINE vf vf_fma_bf16(vf x, vf y, vf z)
{
    return (vf){.q = {fma_4_bf16(x.q.a, y.q.a, z.q.a), fma_4_bf16(x.q.b, y.q.b, z.q.b),
                      fma_4_bf16(x.q.c, y.q.c, z.q.c), fma_4_bf16(x.q.d, y.q.d, z.q.d)}};
}
#endif

INLINE vf vf_fnma(vf x, vf y, vf z)
{
    x = (vf){.q = {-x.q.a, -x.q.b, -x.q.c, -x.q.d}};
    return vf_fma(x, y, z);
}

/* As minps and maxps: the second operand if either is NaN. */
INLINE vf vf_min(vf a, vf b)
{
    VF_EACH(a.f[i] < b.f[i] ? a.f[i] : b.f[i]);
}

INLINE vf vf_max(vf a, vf b)
{
    VF_EACH(a.f[i] > b.f[i] ? a.f[i] : b.f[i]);
}

/* Lanes in which a is not less than b, as bits; a NaN is in none. */
INLINE uint32_t vf_at_least(vf a, vf b)
{
    uint32_t lanes = 0;
    for (unsigned i = 0; i < VEC_ROWS; i++)
        lanes |= (uint32_t)(a.f[i] >= b.f[i]) << i;
    return lanes;
}

INLINE vf vf_from_int(vi v)
{
    VF_EACH((float)v.s32[i]);
}

/* The high nibbles of `part` of the 16 bytes at p. */
INLINE vf vf_from_high4(const uint8_t *p, int part)
{
    (void)part;
    VF_EACH((float)(p[i] >> 4));
}

INLINE vf vf_from_half(const void *p)
{
    VF_EACH(half_to_float(load_u16((const uint8_t *)p + 2 * i)));
}

/* To the nearest float16, ties to even; NaN stays NaN. */
INLINE void vf_store_half(void *p, vf v)
{
    for (int i = 0; i < VEC_ROWS; i++)
        store_u16((uint8_t *)p + 2 * i, round_to_half(v.f[i]));
}

/* Lanes 2i and 2i + 1 exchanged. */
INLINE vf vf_swap(vf v)
{
    VF_EACH(v.f[i ^ 1]);
}

/* The sum of all lanes: the upper half is added to the lower one until one is left, on all levels alike. */
INLINE float vf_fold(vf v)
{
    for (int n = VEC_ROWS / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            v.f[i] += v.f[i + n];
    return v.f[0];
}

/* Lanes hold two bf16: the low one (even) and the high one. */
INLINE vf vf_from_bf16_even(vi v)
{
    return (vf){.q = {(vf4)(v.q.a << 16), (vf4)(v.q.b << 16), (vf4)(v.q.c << 16), (vf4)(v.q.d << 16)}};
}

INLINE vf vf_from_bf16_odd(vi v)
{
    const vi4 mask = {0xffff0000, 0xffff0000, 0xffff0000, 0xffff0000};
    return (vf){.q = {(vf4)(v.q.a & mask), (vf4)(v.q.b & mask), (vf4)(v.q.c & mask), (vf4)(v.q.d & mask)}};
}

/* Byte `byte`, signed, of each lane. */
INLINE vf vf_from_s8(vi v, unsigned byte)
{
    VF_EACH((float)v.s8[4 * i + (int)byte]);
}

/* e8m0_half_to_float of `part` of the 16 bytes at p. */
INLINE vf vf_from_e8m0_half(const uint8_t *p, int part)
{
    (void)part;
    VF_EACH(e8m0_half_to_float(p[i]));
}

/* v * 2^n, for n an integer within +-252 held in the low bits of `magic` = n + 1.5 * 2^23. In two steps, so
 * that results are right down to subnormals and overflow gives infinity. */
INLINE vf vf_scale_magic(vf v, vf magic)
{
    for (int i = 0; i < VEC_ROWS; i++) {
        int32_t n = (int32_t)(float_to_bits(magic.f[i]) - UINT32_C(0x4b400000));
        int32_t half = n >> 1;
        v.f[i] *= bits_to_float((uint32_t)(half + 127) << 23);
        v.f[i] *= bits_to_float((uint32_t)((int64_t)n - half + 127) << 23);
    }
    return v;
}

/* The same where v is within 0.5 .. 2 and n from -125 to 0: v * 2^n is a normal number. NaN is kept. */
INLINE vf vf_scale_power(vf v, vf magic)
{
    for (int i = 0; i < VEC_ROWS; i++)
        v.f[i] = bits_to_float(float_to_bits(v.f[i]) + (float_to_bits(magic.f[i]) << 23));
    return v;
}

/* ---- quantizing 32 activations ---- */

/* The largest |x|, as the bits of a float: above 0x7f7fffff if one is infinite or NaN. */
INLINE uint32_t vec_absmax32(const float *x)
{
    uint32_t max = 0;
    for (int i = 0; i < 32; i++) {
        uint32_t bits = float_to_bits(x[i]) & 0x7fffffff;
        max = bits > max ? bits : max;
    }
    return max;
}

/* The same of n bfloat16. */
INLINE uint32_t vec_absmax_bf16(const uint8_t *from, uint64_t n)
{
    uint32_t max = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits = load_u16(from + 2 * i) & 0x7fff;
        max = bits > max ? bits : max;
    }
    return max << 16;
}

/* 64 int8 q to q + 128. */
INLINE void vec_flip64(int8_t *q)
{
    for (int i = 0; i < 64; i++)
        q[i] = (int8_t)((uint8_t)q[i] ^ 128);
}

/* q = x * scale to the nearest integer, ties to even; |x * scale| < 127.5. */
INLINE void vec_quantize32(const float *x, float scale, int8_t *q)
{
    for (int i = 0; i < 32; i++) {
        float magic = x[i] * scale + 12582912.0f;
        q[i] = (int8_t)((int32_t)float_to_bits(magic) - 0x4b400000);
    }
}

/* 64 bfloat16 to q + 128, where q = x * scale as above. */
INLINE void vec_codes64_bf16(const uint8_t *from, float scale, uint8_t *codes)
{
    for (int i = 0; i < 64; i++) {
        float x = bits_to_float((uint32_t)load_u16(from + 2 * i) << 16);
        codes[i] = (uint8_t)float_to_bits(x * scale + (12582912.0f + 128.0f));
    }
}

/* For each half of 16 values: the sums of those at places 0 and 1, and 2 and 3, of each four. */
INLINE void vec_pair_sums32(const int8_t *q, int16_t *pair)
{
    for (int half = 0; half < 2; half++)
        for (int place = 0; place < 2; place++) {
            int sum = 0;
            for (int i = 16 * half + 2 * place; i < 16 * half + 16; i += 4)
                sum += q[i] + q[i + 1];
            pair[2 * half + place] = (int16_t)sum;
        }
}

#endif

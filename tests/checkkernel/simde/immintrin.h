/* SPDX-License-Identifier: Apache-2.0 */
/*
 * immintrin.h - stands before the compiler's own when AVX-512 kernels are compiled for CPUs with AVX2
 * only: SIMDe does in AVX2 what AVX-512 would. What its version 0.7.4 lacks, or does not round as the
 * instruction does, follows below, by halves.
 */
#ifndef KT_TESTS_SIMDE_IMMINTRIN_H
#define KT_TESTS_SIMDE_IMMINTRIN_H

#include_next <immintrin.h>

#define SIMDE_ENABLE_NATIVE_ALIASES
#ifdef __clang__ /* SIMDe asks for vectors where none can be made; that is told at the end of the file */
#pragma clang diagnostic ignored "-Wpass-failed"
#endif
#if defined __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wundef"
#endif
#include <simde/x86/avx512.h>
#if defined __GNUC__
#pragma GCC diagnostic pop
#endif

static inline simde__m512 join_ps(__m256 low, __m256 high)
{
    simde__m512_private v;
    v.m256[0] = low;
    v.m256[1] = high;
    return simde__m512_from_private(v);
}

static inline simde__m512i join_si(__m256i low, __m256i high)
{
    simde__m512i_private v;
    v.m256i[0] = low;
    v.m256i[1] = high;
    return simde__m512i_from_private(v);
}

static inline __m256 half_ps(simde__m512 v, int i)
{
    return simde__m512_to_private(v).m256[i];
}

static inline __m256i half_si(simde__m512i v, int i)
{
    return simde__m512i_to_private(v).m256i[i];
}

/* SIMDe may multiply and add with two roundings. */
static inline simde__m512 fmadd_ps(simde__m512 a, simde__m512 b, simde__m512 c)
{
    return join_ps(_mm256_fmadd_ps(half_ps(a, 0), half_ps(b, 0), half_ps(c, 0)),
                   _mm256_fmadd_ps(half_ps(a, 1), half_ps(b, 1), half_ps(c, 1)));
}

static inline simde__m512 fnmadd_ps(simde__m512 a, simde__m512 b, simde__m512 c)
{
    return join_ps(_mm256_fnmadd_ps(half_ps(a, 0), half_ps(b, 0), half_ps(c, 0)),
                   _mm256_fnmadd_ps(half_ps(a, 1), half_ps(b, 1), half_ps(c, 1)));
}

/* The second operand if either is NaN, as the instructions say. */
static inline simde__m512 min_ps(simde__m512 a, simde__m512 b)
{
    return join_ps(_mm256_min_ps(half_ps(a, 0), half_ps(b, 0)), _mm256_min_ps(half_ps(a, 1), half_ps(b, 1)));
}

static inline simde__m512 max_ps(simde__m512 a, simde__m512 b)
{
    return join_ps(_mm256_max_ps(half_ps(a, 0), half_ps(b, 0)), _mm256_max_ps(half_ps(a, 1), half_ps(b, 1)));
}

static inline simde__m512 cvtepi32_ps(simde__m512i v)
{
    return join_ps(_mm256_cvtepi32_ps(half_si(v, 0)), _mm256_cvtepi32_ps(half_si(v, 1)));
}

static inline simde__m512 cvtph_ps(__m256i v)
{
    return join_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(v)),
                   _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1)));
}

/* To nearest, whatever is asked for: nothing else is. */
static inline __m256i cvtps_ph(simde__m512 v, int rounding)
{
    (void)rounding;
    return _mm256_set_m128i(_mm256_cvtps_ph(half_ps(v, 1), _MM_FROUND_TO_NEAREST_INT),
                            _mm256_cvtps_ph(half_ps(v, 0), _MM_FROUND_TO_NEAREST_INT));
}

static inline simde__m512 swap_ps(simde__m512 v, int order)
{
    (void)order; /* 0xb1 */
    return join_ps(_mm256_permute_ps(half_ps(v, 0), 0xb1), _mm256_permute_ps(half_ps(v, 1), 0xb1));
}

static inline simde__m512i cvtepu8_epi32(__m128i v)
{
    return join_si(_mm256_cvtepu8_epi32(v), _mm256_cvtepu8_epi32(_mm_srli_si128(v, 8)));
}

static inline simde__m512i cvtepi8_epi32(__m128i v)
{
    return join_si(_mm256_cvtepi8_epi32(v), _mm256_cvtepi8_epi32(_mm_srli_si128(v, 8)));
}

static inline simde__m512i cvtepu16_epi32(__m256i v)
{
    return join_si(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(v)),
                   _mm256_cvtepu16_epi32(_mm256_extracti128_si256(v, 1)));
}

static inline __m256i cvtepi32_epi16(simde__m512i v)
{
    int32_t x[16];
    int16_t low[16];
    simde_mm512_storeu_si512(x, v);
    for (int i = 0; i < 16; i++)
        low[i] = (int16_t)x[i];
    return _mm256_loadu_si256((const void *)low);
}

static inline simde__m512i inserti32x4(simde__m512i v, __m128i quarter, int place)
{
    __m128i x[4];
    simde_mm512_storeu_si512(x, v);
    x[place] = quarter;
    return simde_mm512_loadu_si512(x);
}

static inline simde__m512i madd_epi16(simde__m512i a, simde__m512i b)
{
    return join_si(_mm256_madd_epi16(half_si(a, 0), half_si(b, 0)),
                   _mm256_madd_epi16(half_si(a, 1), half_si(b, 1)));
}

/* SIMDe adds and multiplies narrow numbers as C does, where too large a sum is not a number. */
static inline simde__m512i add_epi8(simde__m512i a, simde__m512i b)
{
    return join_si(_mm256_add_epi8(half_si(a, 0), half_si(b, 0)),
                   _mm256_add_epi8(half_si(a, 1), half_si(b, 1)));
}

static inline simde__m512i add_epi16(simde__m512i a, simde__m512i b)
{
    return join_si(_mm256_add_epi16(half_si(a, 0), half_si(b, 0)),
                   _mm256_add_epi16(half_si(a, 1), half_si(b, 1)));
}

static inline simde__m512i mullo_epi16(simde__m512i a, simde__m512i b)
{
    return join_si(_mm256_mullo_epi16(half_si(a, 0), half_si(b, 0)),
                   _mm256_mullo_epi16(half_si(a, 1), half_si(b, 1)));
}

static inline simde__m512i srai_epi32(simde__m512i v, int bits)
{
    return join_si(_mm256_srai_epi32(half_si(v, 0), bits), _mm256_srai_epi32(half_si(v, 1), bits));
}

/* Exact, unlike vpmaddubsw: even and odd bytes apart. */
static inline __m256i dot_bytes(__m256i u, __m256i s)
{
    __m256i even = _mm256_madd_epi16(_mm256_and_si256(u, _mm256_set1_epi16(255)),
                                     _mm256_srai_epi16(_mm256_slli_epi16(s, 8), 8));
    __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(u, 8), _mm256_srai_epi16(s, 8));
    return _mm256_add_epi32(even, odd);
}

/* SIMDe's own are right, but take the compiler minutes. */
static inline simde__m512i dpbusd(simde__m512i sum, simde__m512i u, simde__m512i s)
{
    return join_si(_mm256_add_epi32(half_si(sum, 0), dot_bytes(half_si(u, 0), half_si(s, 0))),
                   _mm256_add_epi32(half_si(sum, 1), dot_bytes(half_si(u, 1), half_si(s, 1))));
}

static inline simde__m512i dpwssd(simde__m512i sum, simde__m512i a, simde__m512i b)
{
    return simde_mm512_add_epi32(sum, madd_epi16(a, b));
}

static inline __m256 flush(__m256 v)
{
    __m256 above = _mm256_cmp_ps(v, _mm256_set1_ps(-0x1p-126f), _CMP_GT_OQ);
    __m256 below = _mm256_cmp_ps(v, _mm256_set1_ps(0x1p-126f), _CMP_LT_OQ);
    return _mm256_andnot_ps(_mm256_and_ps(above, below), v);
}

/* Lane by lane the odd product, then the even one, each added with one rounding; subnormals are 0. */
static inline __m256 dot_bf16(__m256 sum, __m256i a, __m256i b)
{
    const __m256i odd = _mm256_set1_epi32((int)0xffff0000);
    __m256 x = _mm256_castsi256_ps(_mm256_and_si256(a, odd));
    __m256 y = _mm256_castsi256_ps(_mm256_and_si256(b, odd));
    sum = flush(_mm256_fmadd_ps(flush(x), flush(y), flush(sum)));
    x = _mm256_castsi256_ps(_mm256_slli_epi32(a, 16));
    y = _mm256_castsi256_ps(_mm256_slli_epi32(b, 16));
    return flush(_mm256_fmadd_ps(flush(x), flush(y), sum));
}

static inline simde__m512 dpbf16(simde__m512 sum, simde__m512i a, simde__m512i b)
{
    return join_ps(dot_bf16(half_ps(sum, 0), half_si(a, 0), half_si(b, 0)),
                   dot_bf16(half_ps(sum, 1), half_si(a, 1), half_si(b, 1)));
}

/* In the low half of each lane. */
static inline __m256i bf16_bits(__m256 v)
{
    __m256i bits = _mm256_castps_si256(flush(v)), high = _mm256_srli_epi32(bits, 16);
    __m256i nan = _mm256_cmpgt_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff)),
                                     _mm256_set1_epi32(0x7f800000));
    __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    return _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), _mm256_or_si256(high, _mm256_set1_epi32(0x40)),
                              nan);
}

static inline __m256i pack_bf16(simde__m512 v)
{
    __m256i halves = _mm256_packus_epi32(bf16_bits(half_ps(v, 0)), bf16_bits(half_ps(v, 1)));
    return _mm256_permute4x64_epi64(halves, 0xd8);
}

/* To bfloat16, ties to even, the second operand in the low half; subnormals are 0. */
static inline simde__m512i cvtne2ps_pbh(simde__m512 high, simde__m512 low)
{
    return join_si(pack_bf16(low), pack_bf16(high));
}

/* SIMDe's own of the following are right, but loops over elements, and half the time of all emulated tests.
 */
static inline simde__m512i set1_epi32(int value)
{
    return join_si(_mm256_set1_epi32(value), _mm256_set1_epi32(value));
}

static inline simde__m512 set1_ps(float value)
{
    return join_ps(_mm256_set1_ps(value), _mm256_set1_ps(value));
}

static inline simde__mmask64 movepi8_mask(simde__m512i v)
{
    uint32_t low = (uint32_t)_mm256_movemask_epi8(half_si(v, 0));
    uint32_t high = (uint32_t)_mm256_movemask_epi8(half_si(v, 1));
    return (simde__mmask64)high << 32 | low;
}

/* Bytes of ones where a bit is set. */
static inline __m256i mask_bytes(uint32_t mask)
{
    const __m256i place = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int)mask), place);
    return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
}

static inline simde__m512i mask_sub_epi8(simde__m512i v, simde__mmask64 mask, simde__m512i a, simde__m512i b)
{
    __m256i low = _mm256_sub_epi8(half_si(a, 0), half_si(b, 0));
    __m256i high = _mm256_sub_epi8(half_si(a, 1), half_si(b, 1));
    return join_si(_mm256_blendv_epi8(half_si(v, 0), low, mask_bytes((uint32_t)mask)),
                   _mm256_blendv_epi8(half_si(v, 1), high, mask_bytes((uint32_t)(mask >> 32))));
}

/* 6 bits of each byte of index: 4 within a quarter of the table, bits 4 and 5 choose the quarter. */
static inline __m256i look_up_bytes(__m256i index, simde__m512i table)
{
    __m256i part[4], low = _mm256_and_si256(index, _mm256_set1_epi8(15));
    for (int i = 0; i < 2; i++) {
        __m256i half = half_si(table, i);
        part[2 * i] = _mm256_shuffle_epi8(_mm256_permute4x64_epi64(half, 0x44), low);
        part[2 * i + 1] = _mm256_shuffle_epi8(_mm256_permute4x64_epi64(half, 0xee), low);
    }
    __m256i bit4 = _mm256_slli_epi16(index, 3), bit5 = _mm256_slli_epi16(index, 2);
    return _mm256_blendv_epi8(_mm256_blendv_epi8(part[0], part[1], bit4),
                              _mm256_blendv_epi8(part[2], part[3], bit4), bit5);
}

static inline simde__m512i permutexvar_epi8(simde__m512i index, simde__m512i table)
{
    return join_si(look_up_bytes(half_si(index, 0), table), look_up_bytes(half_si(index, 1), table));
}

/* Indices of int16 to those of their bytes. */
static inline __m256i byte_places(__m256i index)
{
    index = _mm256_mullo_epi16(_mm256_and_si256(index, _mm256_set1_epi16(31)), _mm256_set1_epi16(0x0202));
    return _mm256_add_epi16(index, _mm256_set1_epi16(0x0100));
}

static inline simde__m512i permutexvar_epi16(simde__m512i index, simde__m512i table)
{
    return join_si(look_up_bytes(byte_places(half_si(index, 0)), table),
                   look_up_bytes(byte_places(half_si(index, 1)), table));
}

static inline simde__mmask16 testn_epi32_mask(simde__m512i a, simde__m512i b)
{
    return simde_mm512_cmpeq_epi32_mask(simde_mm512_and_si512(a, b), simde_mm512_setzero_si512());
}

/* SIMDe's own shifts 1, an int, by 31. */
static inline simde__mmask32 test_epi16_mask(simde__m512i a, simde__m512i b)
{
    uint16_t x[32];
    simde__mmask32 mask = 0;
    simde_mm512_storeu_si512(x, simde_mm512_and_si512(a, b));
    for (int i = 0; i < 32; i++)
        mask |= (simde__mmask32)(x[i] != 0) << i;
    return mask;
}

static inline simde__mmask32 cmpeq_epi16_mask(simde__m512i a, simde__m512i b)
{
    uint16_t x[32], y[32];
    simde__mmask32 mask = 0;
    simde_mm512_storeu_si512(x, a);
    simde_mm512_storeu_si512(y, b);
    for (int i = 0; i < 32; i++)
        mask |= (simde__mmask32)(x[i] == y[i]) << i;
    return mask;
}

/* The same for AVX-VNNI. */
static inline __m256i dpbusd_avx(__m256i sum, __m256i u, __m256i s)
{
    return _mm256_add_epi32(sum, dot_bytes(u, s));
}

static inline __m256i dpwssd_avx(__m256i sum, __m256i a, __m256i b)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}

/* y - floor(y), of infinities 0. */
static inline simde__m512 reduce_floor_ps(simde__m512 v)
{
    float y[16];
    memcpy(y, &v, sizeof y);
    for (int i = 0; i < 16; i++)
        y[i] = __builtin_isinf(y[i]) ? 0.0f : y[i] - __builtin_floorf(y[i]);
    memcpy(&v, y, sizeof y);
    return v;
}

static inline float reduce_add_ps(simde__m512 v)
{
    float y[16];
    memcpy(y, &v, sizeof y);
    for (int n = 8; n; n /= 2)
        for (int i = 0; i < n; i++)
            y[i] += y[i + n];
    return y[0];
}

static inline float reduce_max_ps(simde__m512 v)
{
    float y[16];
    memcpy(y, &v, sizeof y);
    for (int n = 8; n; n /= 2)
        for (int i = 0; i < n; i++)
            y[i] = y[i] > y[i + n] ? y[i] : y[i + n];
    return y[0];
}

static inline void mask_storeu_ps(void *to, uint16_t mask, simde__m512 v)
{
    float y[16];
    memcpy(y, &v, sizeof y);
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            memcpy((char *)to + 4 * i, &y[i], 4);
}

static inline simde__m512 maskz_loadu_ps(uint16_t mask, const void *from)
{
    float y[16] = {0};
    simde__m512 v;
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            memcpy(&y[i], (const char *)from + 4 * i, 4);
    memcpy(&v, y, sizeof v);
    return v;
}

static inline simde__m512i mask_alignr_epi8(simde__m512i src, uint64_t mask, simde__m512i high,
                                            simde__m512i low, int bytes)
{
    uint8_t out[64], from[2][64];
    memcpy(out, &src, 64);
    memcpy(from[0], &low, 64);
    memcpy(from[1], &high, 64);
    for (int i = 0; i < 64; i++) {
        int place = i % 16 + bytes;
        if (mask >> i & 1)
            out[i] = from[place / 16][i / 16 * 16 + place % 16];
    }
    memcpy(&src, out, 64);
    return src;
}

static inline simde__m512i i32gather_epi32(simde__m512i index, const void *from, int scale)
{
    uint32_t x[16];
    simde_mm512_storeu_si512(x, index);
    for (int i = 0; i < 16; i++)
        memcpy(&x[i], (const char *)from + (int64_t)(int32_t)x[i] * scale, 4);
    return simde_mm512_loadu_si512(x);
}

static inline simde__m512i i32gather_epi64(__m256i index, const void *from, int scale)
{
    int32_t place[8];
    uint64_t x[8];
    memcpy(place, &index, sizeof place);
    for (int i = 0; i < 8; i++)
        memcpy(&x[i], (const char *)from + (int64_t)place[i] * scale, 8);
    return simde_mm512_loadu_si512(x);
}

#undef _mm256_dpbusd_avx_epi32
#undef _mm256_dpwssd_avx_epi32
#undef _mm512_cvtepu16_epi32
#undef _mm512_cvtepi32_epi16
#undef _mm512_inserti32x4
#undef _mm512_stream_si512
#define _mm256_dpbusd_avx_epi32 dpbusd_avx
#define _mm256_dpwssd_avx_epi32 dpwssd_avx
#define _mm512_cvtepu16_epi32 cvtepu16_epi32
#define _mm512_cvtepi32_epi16 cvtepi32_epi16
#define _mm512_inserti32x4 inserti32x4
#define _mm512_stream_si512(to, v) simde_mm512_storeu_si512((to), (v))
#undef _mm512_dpbusd_epi32
#undef _mm512_dpwssd_epi32
#define _mm512_dpbusd_epi32 dpbusd
#define _mm512_dpwssd_epi32 dpwssd
#undef _mm512_add_epi8
#undef _mm512_add_epi16
#undef _mm512_mullo_epi16
#define _mm512_add_epi8 add_epi8
#define _mm512_add_epi16 add_epi16
#define _mm512_mullo_epi16 mullo_epi16
#undef _mm512_madd_epi16
#undef _mm512_srai_epi32
#define _mm512_madd_epi16 madd_epi16
#define _mm512_srai_epi32 srai_epi32
#undef _mm512_dpbf16_ps
#define _mm512_dpbf16_ps(sum, a, b) dpbf16((sum), (simde__m512i)(a), (simde__m512i)(b))
#undef _mm512_cvtne2ps_pbh
#undef _mm512_testn_epi32_mask
#define _mm512_cvtne2ps_pbh cvtne2ps_pbh
#define _mm512_testn_epi32_mask testn_epi32_mask
#undef _mm512_test_epi16_mask
#define _mm512_test_epi16_mask test_epi16_mask
#undef _mm512_cmpeq_epi16_mask
#define _mm512_cmpeq_epi16_mask cmpeq_epi16_mask
#undef _mm512_fmadd_ps
#undef _mm512_fnmadd_ps
#undef _mm512_min_ps
#undef _mm512_max_ps
#undef _mm512_cvtepi32_ps
#undef _mm512_cvtph_ps
#undef _mm512_cvtps_ph
#undef _mm512_permute_ps
#undef _mm512_cvtepu8_epi32
#undef _mm512_cvtepi8_epi32
#define _mm512_fmadd_ps fmadd_ps
#define _mm512_fnmadd_ps fnmadd_ps
#define _mm512_min_ps min_ps
#define _mm512_max_ps max_ps
#define _mm512_cvtepi32_ps cvtepi32_ps
#define _mm512_cvtph_ps cvtph_ps
#define _mm512_cvtps_ph cvtps_ph
#define _mm512_permute_ps swap_ps
#define _mm512_cvtepu8_epi32 cvtepu8_epi32
#define _mm512_cvtepi8_epi32 cvtepi8_epi32

#undef _mm512_set1_epi32
#undef _mm512_set1_ps
#undef _mm512_movepi8_mask
#undef _mm512_mask_sub_epi8
#undef _mm512_permutexvar_epi8
#undef _mm512_permutexvar_epi16
#undef _mm512_mask_alignr_epi8
#undef _mm512_i32gather_epi32
#undef _mm512_i32gather_epi64
#define _mm512_i32gather_epi32 i32gather_epi32
#define _mm512_i32gather_epi64 i32gather_epi64
#undef _mm512_mask_storeu_ps
#undef _mm512_maskz_loadu_ps
#define _mm512_mask_storeu_ps mask_storeu_ps
#define _mm512_maskz_loadu_ps maskz_loadu_ps
#undef _mm512_reduce_add_ps
#undef _mm512_reduce_max_ps
#define _mm512_reduce_add_ps reduce_add_ps
#define _mm512_reduce_max_ps reduce_max_ps
#undef _mm512_reduce_ps
#define _mm512_reduce_ps(v, control) reduce_floor_ps(v) /* control is 1 */
#define _mm512_mask_alignr_epi8 mask_alignr_epi8
#define _mm512_set1_epi32 set1_epi32
#define _mm512_set1_ps set1_ps
#define _mm512_movepi8_mask movepi8_mask
#define _mm512_mask_sub_epi8 mask_sub_epi8
#define _mm512_permutexvar_epi8 permutexvar_epi8
#define _mm512_permutexvar_epi16 permutexvar_epi16

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention/pairs_codes.h - products with the codes of a cache in Q8_0 as they are, on AVX-512 with VNNI and
 * bfloat16. Parameters: those of simd/simd.h.
 *
 *     scores     codes as int16, queries as int16 with a scale for each group: sums of a group are exact
 *     outputs    codes as bfloat16, which is exact, and weights times the values' scales as bfloat16
 *
 * A line has 4 codes of each of 16 columns: of a key, or of 4 tokens.
 */
#ifndef KT_PLUGINS_ATTENTION_PAIRS_CODES_H
#define KT_PLUGINS_ATTENTION_PAIRS_CODES_H

#include "plugins/attention/pairs.h"

#define GROUP_LINES (KT_KV_GROUP / 4)
#define LARGEST_CODE 32767.0f
#define SMALLEST_QUERY 0x1p-100f /* of a group whose numbers are all smaller, codes are 0 */
#define TOP 0x1p24f              /* what a code in the top byte of an int32 is multiplied by */

_Static_assert(KT_KV_GROUP == STEP, "a step of a tile is a group");

/* ---- scores ---- */

/* Numbers 4 i, 4 i + 2, 4 i + 1 and 4 i + 3, as shifts leave the codes. */
static const uint16_t code_order[2 * LINE] = {
#define QUAD(i) 2 * (i), 2 * (i) + 4, 2 * (i) + 2, 2 * (i) + 6
    QUAD(0), QUAD(4), QUAD(8), QUAD(12), QUAD(16), QUAD(20), QUAD(24), QUAD(28),
#undef QUAD
};

/* |v|, where NaN counts as infinite. */
INLINE vi magnitude_of(vf v)
{
    return _mm512_min_epi32(_mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff)),
                            _mm512_set1_epi32(0x7f800000));
}

/* A group of a query as int16, and its scale: NaN if one of its numbers is none or infinite. Adding 1.5 *
 * 2^23 rounds to a whole number in the low bits. */
INLINE float quantize_query(vf low, vf high, uint8_t *to)
{
    float largest =
        _mm512_reduce_max_ps(_mm512_castsi512_ps(_mm512_max_epi32(magnitude_of(low), magnitude_of(high))));
    const vf factor = vf_set(largest >= SMALLEST_QUERY ? LARGEST_CODE / largest : 0);
    const vf magic = vf_set(0x1.8p23f);
    vi first = _mm512_castps_si512(vf_fma(low, factor, magic));
    vi second = _mm512_castps_si512(vf_fma(high, factor, magic));
    _mm512_storeu_si512(to, _mm512_permutex2var_epi16(first, vi_load(code_order), second));
    return largest < INFINITY ? largest / LARGEST_CODE : NAN;
}

/* Scales of a strip of keys, and of the queries. */
struct score_scales {
    const uint8_t *keys;
    uint64_t next;        /* bytes to those of the second block */
    const float *queries; /* [steps][MOST] */
};

/* Of the lines that a step fetches, so many with line k. */
INLINE uint32_t share_of(uint32_t lines, uint32_t k)
{
    return lines * (k + 1) / GROUP_LINES - lines * k / GROUP_LINES;
}

/* Rows `row` and those after it, both blocks of a strip. */
INLINE void score_rows_of(const struct tiles *p, const struct score_scales *scales, uint32_t row,
                          unsigned rows)
{
    const uint8_t *a = p->a + row / LINE * p->a_next + row % LINE * p->a_stride, *b = p->b;
    uint8_t *c = p->c + row / LINE * p->c_down + row % LINE * p->c_stride;
    const uint64_t a_stride = p->a_stride, b_next = p->b_next, c_stride = p->c_stride, right = p->c_right;
    const uint32_t share = row == 0 ? p->share : 0;
    for (uint32_t s = 0; s < p->steps; s++, a += p->a_step) {
        struct stretch ahead = take_lines(p->fetcher, share);
        vi sum[8][2];
        UNROLL_FOR (unsigned r = 0; r < rows; r++)
            UNROLL_FOR (unsigned j = 0; j < 2; j++)
                sum[r][j] = _mm512_setzero_si512();
        for (uint32_t k = 0; k < GROUP_LINES; k++, b += 64) {
            vi even[2], odd[2];
            fetch_some(&ahead, share_of(share, k));
            UNROLL_FOR (unsigned j = 0; j < 2; j++) {
                vi codes = vi_load(b + j * b_next);
                even[j] = _mm512_srai_epi16(_mm512_slli_epi16(codes, 8), 8);
                odd[j] = _mm512_srai_epi16(codes, 8);
            }
            UNROLL_FOR (unsigned r = 0; r < rows; r++) {
                vi first = splat4(a + r * a_stride + k * 8), second = splat4(a + r * a_stride + k * 8 + 4);
                UNROLL_FOR (unsigned j = 0; j < 2; j++)
                    sum[r][j] = vi_add_products16(sum[r][j], even[j], first);
                UNROLL_FOR (unsigned j = 0; j < 2; j++)
                    sum[r][j] = vi_add_products16(sum[r][j], odd[j], second);
            }
        }
        const uint8_t *keys = scales->keys + s * (2 * LINE);
        const float *queries = scales->queries + s * MOST + row;
        const vf scale[2] = {vf_from_half(keys), vf_from_half(keys + scales->next)};
        UNROLL_FOR (unsigned r = 0; r < rows; r++)
            UNROLL_FOR (unsigned j = 0; j < 2; j++) {
                uint8_t *to = c + r * c_stride + j * right;
                vf part = vf_mul(vf_from_int(sum[r][j]), scale[j]), query = vf_splat(queries + r);
                vf_store(to, s == 0 ? vf_mul(part, query) : vf_fma(part, query, vf_load(to)));
            }
    }
}

static NOINLINE void score_4(const struct tiles *p, const struct score_scales *scales, uint32_t row)
{
    score_rows_of(p, scales, row, 4);
}

static NOINLINE void score_8(const struct tiles *p, const struct score_scales *scales, uint32_t row)
{
    score_rows_of(p, scales, row, 8);
}

/* The scores of 32 keys from token `token` on. */
static void score_codes(const struct pairs *work, const struct tiles *p, const float *query_scales,
                        uint64_t token)
{
    const struct kt_kv_place *place = work->job->keys;
    const uint64_t next = work->steps * (2 * LINE);
    const struct score_scales scales = {
        .keys = find_page(place, work->job->pages, token) + place->scales + token % KT_KV_PAGE / LINE * next,
        .next = next,
        .queries = query_scales,
    };
    for (uint32_t row = 0; row < p->rows; row += 8)
        (p->rows - row > 4 ? score_8 : score_4)(p, &scales, row);
}

/* ---- outputs ---- */

/* Codes in the top bytes become pairs of bfloat16: exact, times TOP. Pairs of the first two tokens and of the
 * last two. */
INLINE void widen_codes(vi codes, vi *first, vi *second)
{
    const vi top = _mm512_set1_epi32((int)0xff000000);
    const vi byte1 = _mm512_broadcast_i32x4(_mm_setr_epi32(0x01808080, 0x05808080, 0x09808080, 0x0d808080));
    const vi byte2 = _mm512_broadcast_i32x4(_mm_setr_epi32(0x02808080, 0x06808080, 0x0a808080, 0x0e808080));
    const vi upper = _mm512_broadcast_i32x4(_mm_setr_epi32(0x0302, 0x0706, 0x0b0a, 0x0f0e));
    vi number[4] = {_mm512_slli_epi32(codes, 24), _mm512_shuffle_epi8(codes, byte1),
                    _mm512_shuffle_epi8(codes, byte2), _mm512_and_si512(codes, top)};
    UNROLL_FOR (unsigned k = 0; k < 4; k++)
        number[k] = _mm512_castps_si512(_mm512_cvtepi32_ps(number[k]));
    *first = _mm512_mask_shuffle_epi8(number[1], 0x3333333333333333, number[0], upper);
    *second = _mm512_mask_shuffle_epi8(number[3], 0x3333333333333333, number[2], upper);
}

/* Outputs of some rows, whose first p->a is, in n lines of columns. */
INLINE void add_rows_of(const struct tiles *p, uint32_t row, unsigned rows, unsigned n)
{
    const uint8_t *a = p->a;
    uint8_t *c = p->c + row / LINE * p->c_down + row % LINE * p->c_stride;
    const uint64_t a_stride = p->a_stride, b_stride = p->b_stride;
    const uint32_t share = row == 0 ? p->share : 0;
    vf sum[8][2];
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        UNROLL_FOR (unsigned j = 0; j < n; j++)
            sum[r][j] = vf_set(0.0f);
    for (uint32_t s = 0; s < p->steps; s++, a += p->a_step) {
        const uint8_t *b = find_step(p, s);
        struct stretch ahead = take_lines(p->fetcher, share);
        for (uint32_t k = 0; k < GROUP_LINES; k++, b += b_stride) {
            vi first[2], second[2];
            fetch_some(&ahead, share_of(share, k));
            UNROLL_FOR (unsigned j = 0; j < n; j++)
                widen_codes(vi_load(b + j * 64), &first[j], &second[j]);
            UNROLL_FOR (unsigned r = 0; r < rows; r++) {
                vi one = splat4(a + r * a_stride + k * 8), two = splat4(a + r * a_stride + k * 8 + 4);
                UNROLL_FOR (unsigned j = 0; j < n; j++)
                    sum[r][j] = vf_add_pairs(sum[r][j], first[j], one);
                UNROLL_FOR (unsigned j = 0; j < n; j++)
                    sum[r][j] = vf_add_pairs(sum[r][j], second[j], two);
            }
        }
    }
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        UNROLL_FOR (unsigned j = 0; j < n; j++)
            vf_store(c + r * p->c_stride + j * p->c_right, vf_mul(sum[r][j], vf_set(1 / TOP)));
}

#define ADD_ROWS_OF(rows, n)                                                      \
    static NOINLINE void add_##rows##_by_##n(const struct tiles *p, uint32_t row) \
    {                                                                             \
        add_rows_of(p, row, rows, n);                                             \
    }
ADD_ROWS_OF(4, 1)
ADD_ROWS_OF(4, 2)
ADD_ROWS_OF(8, 1)
ADD_ROWS_OF(8, 2)

/* Weights of n rows times the scales of a group of columns, as bfloat16 in work->weights. */
static NOINLINE void scale_weights(const struct pairs *work, const struct some *some, uint32_t group,
                                   uint32_t row, uint32_t n)
{
    const struct kt_kv_place *place = work->job->values;
    for (uint32_t at = some->begin; at < some->end; at += STEP) {
        const uint64_t token = work->start + at;
        const uint8_t *scales = find_page(place, work->job->pages, token) + place->scales +
                                2 * (group * (uint64_t)KT_KV_PAGE + token % KT_KV_PAGE);
        const vf low = vf_from_half(scales), high = vf_from_half(scales + 2 * LINE);
        const float *from = work->floats + (uint64_t)row * FLOATS_ROW + at;
        uint8_t *to = work->weights + 2 * at;
        for (uint32_t r = 0; r < n; r++, from += FLOATS_ROW, to += WEIGHTS_ROW)
            _mm512_storeu_si512(to, (vi)_mm512_cvtne2ps_pbh(vf_mul(vf_load(from + LINE), high),
                                                            vf_mul(vf_load(from), low)));
    }
}

/* Group `group` of the columns, n lines of it. */
static void add_codes(const struct pairs *work, const struct some *some, const struct tiles *p,
                      uint32_t group, uint32_t n)
{
    for (uint32_t row = 0; row < p->rows; row += 8) {
        const uint32_t rows = p->rows - row < 8 ? p->rows - row : 8;
        scale_weights(work, some, group, row, rows);
        if (rows > 4)
            (n > 1 ? add_8_by_2 : add_8_by_1)(p, row);
        else
            (n > 1 ? add_4_by_2 : add_4_by_1)(p, row);
    }
}

#endif

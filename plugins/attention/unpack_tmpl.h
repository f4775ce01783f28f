/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention/unpack_tmpl.h - keys and values of the cache as lines of 16 float32. Parameters: those of
 * simd/simd.h. <kt/kv.h> says how they lie.
 */
#ifndef KT_PLUGINS_ATTENTION_UNPACK_TMPL_H
#define KT_PLUGINS_ATTENTION_UNPACK_TMPL_H

#include "plugins/attention/attention.h"
#include "plugins/common/simd/simd.h"

#include <stdbool.h>

#define VECTOR (4u * VEC_ROWS) /* bytes */

/* Memory that will be read next: a line of it is fetched with each line of work. NULL: there is none. */
struct ahead {
    const uint8_t *at;
    uint64_t step;
};

INLINE void fetch_line(struct ahead *ahead)
{
    PREFETCH(ahead->at);
    ahead->at += ahead->step;
}

/* The next n lines at once. */
static void fetch_lines(struct ahead ahead, uint32_t n)
{
    const uint8_t *at = ahead.at;
    for (uint32_t i = 0; i < n; i++, at += ahead.step)
        PREFETCH(at);
}

/* Bytes of a block of keys, scales not counted, and of a row of scales. */
static inline uint64_t key_block_size(const struct kt_kv_field *field)
{
    uint64_t numbers = field->dtype == KT_DTYPE_F32 ? 1 : field->dtype == KT_DTYPE_BF16 ? 2 : 4;
    return (field->width + numbers - 1) / numbers * 64;
}

static void unpack_keys_bf16(const uint8_t *block, uint32_t width, float *out, struct ahead *ahead)
{
    for (uint32_t i = 0; i < width; i += 2, block += 64, out += 2 * LINE) {
        UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++) {
            vi pairs = vi_load(block + v * VECTOR);
            vf_store(out + v * VEC_ROWS, vf_from_bf16_even(pairs));
            vf_store(out + LINE + v * VEC_ROWS, vf_from_bf16_odd(pairs));
        }
        fetch_line(ahead);
    }
}

static void unpack_keys_q8(const uint8_t *block, const uint8_t *scales, uint32_t width, float *out,
                           struct ahead *ahead)
{
    for (uint32_t i = 0; i < width; i += 4, block += 64, out += 4 * LINE) {
        const uint8_t *scale = scales + i / KT_KV_GROUP * (2 * LINE);
        UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++) {
            vi codes = vi_load(block + v * VECTOR);
            vf one = vf_from_half(scale + v * 2 * VEC_ROWS);
            UNROLL_FOR (unsigned k = 0; k < 4; k++)
                vf_store(out + k * LINE + v * VEC_ROWS, vf_mul(vf_from_s8(codes, k), one));
        }
        fetch_line(ahead);
    }
}

/* A block of 16 keys as [width, rounded up to 4][16] at `out`. */
static void unpack_keys(const struct kt_kv_place *place, const uint8_t *page, uint32_t block, float *out,
                        struct ahead *ahead)
{
    const struct kt_kv_field *field = &place->field;
    const uint8_t *from = page + block * key_block_size(field);
    uint64_t scales = (uint64_t)block * ((field->width + KT_KV_GROUP - 1) / KT_KV_GROUP) * (2 * LINE);
    if (field->dtype == KT_DTYPE_F32)
        memcpy(out, from, field->width * 64);
    else if (field->dtype == KT_DTYPE_BF16)
        unpack_keys_bf16(from, field->width, out, ahead);
    else
        unpack_keys_q8(from, page + place->scales + scales, field->width, out, ahead);
}

/* Columns column .. column + 15 of n values of a page, as [n, rounded up to 4][16] at `out`. */
static void unpack_values(const struct kt_kv_place *place, const uint8_t *page, uint32_t column, uint32_t n,
                          float *out, struct ahead *ahead)
{
    const struct kt_kv_field *field = &place->field;
    uint32_t width = field->width, pack = field->dtype == KT_DTYPE_F32    ? 1
                                          : field->dtype == KT_DTYPE_BF16 ? 2
                                                                          : 4;
    bool whole = column + LINE <= width;
    const uint8_t *from = page + (uint64_t)column * 4;
    const uint8_t *scales = page + place->scales + (uint64_t)(column / KT_KV_GROUP) * (2 * KT_KV_PAGE);
    for (uint32_t t = 0; t < n; t += pack, from += (uint64_t)width * 4, out += pack * LINE) {
        _Alignas(64) uint8_t line[64] = {0};
        const uint8_t *numbers = from;
        if (!whole)
            numbers = memcpy(line, from, (width - column) * 4);
        UNROLL_FOR (unsigned v = 0; v < VEC_PARTS; v++) {
            vi codes = vi_load(numbers + v * VECTOR);
            float *to = out + v * VEC_ROWS;
            if (pack == 1) {
                vf_store(to, vf_load(numbers + v * VECTOR));
            } else if (pack == 2) {
                vf_store(to, vf_from_bf16_even(codes));
                vf_store(to + LINE, vf_from_bf16_odd(codes));
            } else {
                for (unsigned k = 0; k < 4; k++)
                    vf_store(to + k * LINE, vf_mul(vf_from_s8(codes, k),
                                                   vf_set(half_to_float(load_u16(scales + 2 * (t + k))))));
            }
        }
        fetch_line(ahead);
    }
}

#endif

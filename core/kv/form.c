/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kv/form.h"

#include "core/base/size.h"
#include "core/weights/decode/encode.h"

#include <string.h>

/* Where a row's numbers are: number i at first + i / pack * outer + i % pack * inner, its scale number g at
 * scale + g * scale_step. */
struct places {
    uint64_t first, outer, inner, scale, scale_step;
};

static struct places find_places(const struct kt_kv_spot *spot, uint32_t t)
{
    uint64_t width = spot->field.width, pack = spot->pack, groups = (width + KT_KV_GROUP - 1) / KT_KV_GROUP;
    uint64_t block = t / KT_KV_BLOCK, lane = t % KT_KV_BLOCK;
    uint64_t packs = (spot->page_rows + pack - 1) / pack;
    switch (spot->field.layout) {
    case KT_KV_KEY:
        return (struct places){(block * ((width + pack - 1) / pack) * KT_KV_BLOCK + lane) * pack,
                               KT_KV_BLOCK * pack, 1, block * groups * KT_KV_BLOCK + lane, KT_KV_BLOCK};
    case KT_KV_VALUE:
        return (struct places){t / pack * width * pack + t % pack, pack * pack, pack, t, packs * pack};
    default:
        return (struct places){t * width, pack, 1, t * groups, 1};
    }
}

/* The smallest float16 that is not below m / 127, or NaN: then float16 cannot hold it. */
static uint16_t choose_scale(float m)
{
    float scale = m / 127;
    if (!(scale <= 65504))
        return 0x7e00;
    uint16_t half = kt_to_f16(scale);
    return (uint16_t)(half + (kt_f16_float(half) < scale));
}

/* A group of numbers as int8; gives their scale. */
static uint16_t quantize(const float from[KT_KV_GROUP], int8_t to[KT_KV_GROUP])
{
    int32_t m = 0; /* the bits of magnitudes are in their order, infinities and NaN behind all numbers */
    for (uint32_t i = 0; i < KT_KV_GROUP; i++) {
        int32_t magnitude = (int32_t)(kt_float_bits(from[i]) & 0x7fffffff);
        m = magnitude > m ? magnitude : m;
    }
    uint16_t half = choose_scale(kt_bits_float((uint32_t)m));
    float scale = kt_f16_float(half);
    if (!(scale > 0)) {
        memset(to, 0, KT_KV_GROUP);
        return half;
    }
    /* Adding 1.5 * 2^23 rounds to a whole number, ties to even, in the low bits. */
    for (uint32_t i = 0; i < KT_KV_GROUP; i++)
        to[i] = (int8_t)(int32_t)(kt_float_bits(from[i] / scale + 12582912.0f) - 0x4b400000);
    return half;
}

/* A group of a row as float32, zeros behind its end. */
static void widen(const void *from, uint32_t dtype, uint64_t begin, uint32_t n, float to[KT_KV_GROUP])
{
    if (n < KT_KV_GROUP || !from)
        memset(to, 0, KT_KV_GROUP * sizeof *to);
    if (!from)
        return;
    if (dtype == KT_DTYPE_F32 && n == KT_KV_GROUP) { /* of a constant size: a few vectors */
        memcpy(to, (const char *)from + sizeof *to * begin, KT_KV_GROUP * sizeof *to);
        return;
    }
    if (dtype == KT_DTYPE_BF16)
        kt_decode_bf16((const uint8_t *)from + 2 * begin, n, to);
    else if (dtype == KT_DTYPE_F16)
        kt_decode_f16((const uint8_t *)from + 2 * begin, n, to);
    else
        memcpy(to, (const char *)from + sizeof *to * begin, n * sizeof *to);
}

static uint64_t place_of(const struct places *places, const struct kt_kv_spot *spot, uint64_t i)
{
    return places->first + i / spot->pack * places->outer + i % spot->pack * places->inner;
}

/* A group's numbers in the field's dtype, and its scale to where it belongs. */
static void encode(const struct kt_kv_spot *spot, const struct places *places, uint64_t begin,
                   const float numbers[KT_KV_GROUP], char *head, uint32_t codes[KT_KV_GROUP])
{
    if (spot->field.dtype == KT_DTYPE_F32) {
        memcpy(codes, numbers, KT_KV_GROUP * sizeof *codes);
    } else if (spot->field.dtype == KT_DTYPE_BF16) {
        uint16_t halves[KT_KV_GROUP];
        for (uint32_t i = 0; i < KT_KV_GROUP; i++)
            halves[i] = kt_to_bf16(numbers[i]);
        memcpy(codes, halves, sizeof halves);
    } else {
        uint16_t *scales = (uint16_t *)(void *)(head + spot->scales);
        int8_t bytes[KT_KV_GROUP];
        scales[places->scale + begin / KT_KV_GROUP * places->scale_step] = quantize(numbers, bytes);
        memcpy(codes, bytes, sizeof bytes);
    }
}

void kt_kv_row_put(const struct kt_kv_spot *spot, char *head, uint32_t t, const void *from, uint32_t dtype)
{
    struct places places = find_places(spot, t);
    uint64_t size = 4 / spot->pack, step = places.inner * size;
    float numbers[KT_KV_GROUP];
    uint32_t codes[KT_KV_GROUP];
    for (uint64_t begin = 0; begin < spot->field.width; begin += KT_KV_GROUP) {
        uint64_t left = spot->field.width - begin;
        uint32_t n = left < KT_KV_GROUP ? (uint32_t)left : KT_KV_GROUP;
        char *to = head + place_of(&places, spot, begin) * size;
        widen(from, dtype, begin, n, numbers);
        encode(spot, &places, begin, numbers, head, codes);
        if (spot->field.layout == KT_KV_KEY) /* packs are whole: what pads the last one is zero */
            for (uint32_t i = 0; i * spot->pack < n; i++)
                ((uint32_t *)(void *)to)[(uint64_t)i * KT_KV_BLOCK] = codes[i];
        else if (step == size)
            memcpy(to, codes, n * size);
        else if (spot->pack == 2)
            for (uint32_t i = 0; i < n; i++)
                memcpy(to + i * step, (const char *)codes + 2 * i, 2);
        else
            for (uint32_t i = 0; i < n; i++)
                to[i * step] = ((const char *)codes)[i];
    }
}

void kt_kv_row_get(const struct kt_kv_spot *spot, const char *head, uint32_t t, float *to)
{
    struct places places = find_places(spot, t);
    const uint16_t *halves = (const uint16_t *)(const void *)head;
    const uint16_t *scales = (const uint16_t *)(const void *)(head + spot->scales);
    for (uint64_t i = 0; i < spot->field.width; i++) {
        uint64_t place = place_of(&places, spot, i);
        if (spot->field.dtype == KT_DTYPE_F32)
            memcpy(&to[i], head + 4 * place, 4);
        else if (spot->field.dtype == KT_DTYPE_BF16)
            to[i] = kt_bf16_float(halves[place]);
        else
            to[i] = (float)(int8_t)head[place] *
                    kt_f16_float(scales[places.scale + i / KT_KV_GROUP * places.scale_step]);
    }
}

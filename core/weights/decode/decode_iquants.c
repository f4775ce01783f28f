/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode_iquants.c - GGUF's blocks of 256 weights that are points of a codebook.
 *
 * An index selects a point, which is 4 or 8 weights; IQ2 and IQ3 store signs separately. All products are
 * exact: 11 bits of d, at most 5 of the group's scale and 6 of the point.
 */
#include "core/weights/decode/decode.h"
#include "core/weights/decode/grids.h"

enum { BLOCK = 256 };

static const float levels_iq2[4] = {8, 25, 43, 0};
static const float levels_iq3_xxs[8] = {4, 12, 20, 28, 36, 44, 52, 62};

static uint32_t load32(const uint8_t *bytes)
{
    return (uint32_t)kt_load16(bytes) | (uint32_t)kt_load16(bytes + 2) << 16;
}

/* Eight signs in seven bits: the number of negative weights is always even. */
static unsigned complete_signs(uint32_t index)
{
    unsigned signs = index & 127, parity = signs ^ signs >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return signs | (parity & 1) << 7;
}

/* Eight weights of IQ2; bit j of signs: weight j is negative. */
static void put_iq2(unsigned point, unsigned signs, float scale, float *restrict out)
{
    for (int j = 0; j < 8; j++) {
        float weight = scale * levels_iq2[point >> 2 * j & 3];
        out[j] = signs >> j & 1 ? -weight : weight;
    }
}

/* d, then for each group of 32: four indices of 8 bits, four of 7 bits for signs, a scale of 4. */
void kt_decode_iq2_xxs(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride) {
        float d = kt_f16_float(kt_load16(block)) * 0.25f;
        const uint8_t *group = block + 2;
        for (int g = 0; g < BLOCK / 32; g++, group += 8) {
            uint32_t rest = load32(group + 4);
            float scale = d * (0.5f + (float)(rest >> 28));
            for (int i = 0; i < 4; i++, out += 8)
                put_iq2(kt_iq2xxs_grid[group[i]], complete_signs(rest >> 7 * i), scale, out);
        }
    }
}

/* d, 32 words (an index of 9 bits, one of 7 for signs), a 4-bit scale for each 16 weights. */
void kt_decode_iq2_xs(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride) {
        float d = kt_f16_float(kt_load16(block)) * 0.25f;
        const uint8_t *words = block + 2, *scales = block + 66;
        for (int i = 0; i < BLOCK / 8; i++, out += 8) {
            unsigned word = kt_load16(words + 2 * i);
            float scale = d * (0.5f + (float)(scales[i / 4] >> i / 2 % 2 * 4 & 15));
            put_iq2(kt_iq2xs_grid[word & 511], complete_signs(word >> 9), scale, out);
        }
    }
}

/* d, low bytes of 32 indices, 32 bytes of signs, the indices' upper 2 bits, scales as IQ2_XS. */
void kt_decode_iq2_s(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride) {
        float d = kt_f16_float(kt_load16(block)) * 0.25f;
        const uint8_t *low = block + 2, *signs = block + 34, *high = block + 66;
        const uint8_t *scales = block + 74;
        for (int i = 0; i < BLOCK / 8; i++, out += 8) {
            unsigned index = low[i] | ((unsigned)high[i / 4] >> i % 4 * 2 & 3) << 8;
            float scale = d * (0.5f + (float)(scales[i / 4] >> i / 2 % 2 * 4 & 15));
            put_iq2(kt_iq2s_grid[index], signs[i], scale, out);
        }
    }
}

/* d, 64 indices of 4 weights each; a word for each 32 weights: signs and scale as IQ2_XXS. */
void kt_decode_iq3_xxs(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride) {
        float d = kt_f16_float(kt_load16(block)) * 0.5f;
        const uint8_t *indices = block + 2, *words = block + 66;
        for (int i = 0; i < BLOCK / 4; i++, out += 4) {
            uint32_t word = load32(words + i / 8 * 4);
            unsigned signs = complete_signs(word >> i / 2 % 4 * 7) >> i % 2 * 4;
            unsigned point = kt_iq3xxs_grid[indices[i]];
            float scale = d * (0.5f + (float)(word >> 28));
            for (int j = 0; j < 4; j++) {
                float weight = scale * levels_iq3_xxs[point >> 4 * j & 7];
                out[j] = signs >> j & 1 ? -weight : weight;
            }
        }
    }
}

/* d, low bytes of 64 indices, their ninth bits, signs, a 4-bit scale for each 32 weights. */
void kt_decode_iq3_s(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride) {
        float d = kt_f16_float(kt_load16(block));
        const uint8_t *low = block + 2, *high = block + 66, *signs = block + 74;
        const uint8_t *scales = block + 106;
        for (int i = 0; i < BLOCK / 4; i++, out += 4) {
            unsigned index = low[i] | ((unsigned)high[i / 8] >> i % 8 & 1) << 8;
            unsigned point = kt_iq3s_grid[index], sign = (unsigned)signs[i / 2] >> i % 2 * 4;
            float scale = d * (float)(1 + 2 * (scales[i / 16] >> i / 8 % 2 * 4 & 15));
            for (int j = 0; j < 4; j++) {
                float weight = scale * (float)(1 + 2 * (point >> 4 * j & 7));
                out[j] = sign >> j & 1 ? -weight : weight;
            }
        }
    }
}

/* Eight weights of IQ1, all shifted up or down by an eighth. */
static void put_iq1(unsigned point, unsigned down, float scale, float *restrict out)
{
    float shift = down ? -1.125f : -0.875f;
    for (int j = 0; j < 8; j++)
        out[j] = scale * ((float)(point >> 2 * j & 3) + shift);
}

/* d, low bytes of 32 indices; a word for each 32 weights: upper 3 bits of four indices, a 3-bit
 * scale, the direction of the shift. */
void kt_decode_iq1_s(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride) {
        float d = kt_f16_float(kt_load16(block));
        const uint8_t *low = block + 2, *words = block + 34;
        for (int i = 0; i < BLOCK / 8; i++, out += 8) {
            unsigned word = kt_load16(words + i / 4 * 2);
            unsigned index = low[i] | (word >> i % 4 * 3 & 7) << 8;
            put_iq1(kt_iq1s_grid[index], word >> 15, d * (float)(1 + 2 * (word >> 12 & 7)), out);
        }
    }
}

/* Low bytes of 32 indices; a nibble for each: its upper 3 bits, the direction of the shift; four
 * words: 3-bit scales of four groups of 16 and a quarter of the float16 d. */
void kt_decode_iq1_m(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride) {
        const uint8_t *low = block, *high = block + 32, *words = block + 48;
        unsigned bits = 0;
        for (int i = 0; i < 4; i++)
            bits |= (unsigned)(words[2 * i + 1] >> 4) << 4 * i;
        float d = kt_f16_float((uint16_t)bits);
        for (int i = 0; i < BLOCK / 8; i++, out += 8) {
            unsigned nibble = (unsigned)high[i / 2] >> i % 2 * 4 & 15;
            unsigned index = low[i] | (nibble & 7) << 8;
            unsigned scale = (unsigned)kt_load16(words + i / 8 * 2) >> i / 2 % 4 * 3 & 7;
            put_iq1(kt_iq1s_grid[index], nibble >> 3, d * (float)(1 + 2 * scale), out);
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* decode_blocks.c - GGUF's blocks of 32 or 64: scales, sometimes an offset, and 4, 5 or 8 bits a weight.
 */
#include "core/weights/decode/decode.h"

enum { BLOCK = 32, HALF = BLOCK / 2 };

const int8_t kt_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/* Twice the values of FP4 E2M1: the scale is halved instead. Code 8 is +0, as in ggml. */
static const int8_t fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static uint32_t load32(const uint8_t *bytes)
{
    return (uint32_t)kt_load16(bytes) | (uint32_t)kt_load16(bytes + 2) << 16;
}

/* Byte j holds weight j in its low nibble and weight j + 16 in its high one. */
void kt_decode_q4_0(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride, out += BLOCK) {
        float d = kt_f16_float(kt_load16(block));
        for (int j = 0; j < HALF; j++) {
            out[j] = (float)((block[2 + j] & 15) - 8) * d;
            out[j + HALF] = (float)((block[2 + j] >> 4) - 8) * d;
        }
    }
}

void kt_decode_q4_1(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride, out += BLOCK) {
        float d = kt_f16_float(kt_load16(block)), m = kt_f16_float(kt_load16(block + 2));
        for (int j = 0; j < HALF; j++) {
            out[j] = (float)(block[4 + j] & 15) * d + m;
            out[j + HALF] = (float)(block[4 + j] >> 4) * d + m;
        }
    }
}

/* Bit j of the 32-bit word before the nibbles is the fifth bit of weight j. */
void kt_decode_q5_0(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride, out += BLOCK) {
        float d = kt_f16_float(kt_load16(block));
        uint32_t high = load32(block + 2);
        for (int j = 0; j < HALF; j++) {
            int low = block[6 + j];
            out[j] = (float)(((low & 15) | (int)(high >> j & 1) << 4) - 16) * d;
            out[j + HALF] = (float)((low >> 4 | (int)(high >> (j + HALF) & 1) << 4) - 16) * d;
        }
    }
}

void kt_decode_q5_1(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride, out += BLOCK) {
        float d = kt_f16_float(kt_load16(block)), m = kt_f16_float(kt_load16(block + 2));
        uint32_t high = load32(block + 4);
        for (int j = 0; j < HALF; j++) {
            int low = block[8 + j];
            out[j] = (float)((low & 15) | (int)(high >> j & 1) << 4) * d + m;
            out[j + HALF] = (float)(low >> 4 | (int)(high >> (j + HALF) & 1) << 4) * d + m;
        }
    }
}

void kt_decode_q8_0(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride, out += BLOCK) {
        float d = kt_f16_float(kt_load16(block));
        for (int j = 0; j < BLOCK; j++)
            out[j] = (float)(int8_t)block[2 + j] * d;
    }
}

void kt_decode_iq4_nl(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride, out += BLOCK) {
        float d = kt_f16_float(kt_load16(block));
        for (int j = 0; j < HALF; j++) {
            out[j] = (float)kt_iq4_values[block[2 + j] & 15] * d;
            out[j + HALF] = (float)kt_iq4_values[block[2 + j] >> 4] * d;
        }
    }
}

void kt_decode_mxfp4(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride, out += BLOCK) {
        /* 2^(e - 128). e = 255 is NaN in the OCP specification, but 2^127 in ggml, whose format this is. */
        uint32_t e = block[0];
        float d = kt_bits_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);
        for (int j = 0; j < HALF; j++) {
            out[j] = (float)fp4_values[block[1 + j] & 15] * d;
            out[j + HALF] = (float)fp4_values[block[1 + j] >> 4] * d;
        }
    }
}

/* Half an unsigned E4M3, as ggml reads it: 0x7f is 0 and the sign is ignored, so 0xff is no NaN but the
 * number that would follow 448. */
static float half_scale(uint8_t code)
{
    if ((code & 0x7f) == 0x7f)
        return code == 0x7f ? 0 : 240;
    return 0.5f * kt_e4m3_float(code & 0x7f);
}

/* Four scales, then for each 16 weights 8 bytes: weight j in a low nibble, j + 8 in the high one. */
void kt_decode_nvfp4(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride) {
        const uint8_t *quants = block + 4;
        for (int group = 0; group < 4; group++, quants += 8, out += 16) {
            float d = half_scale(block[group]);
            for (int j = 0; j < 8; j++) {
                out[j] = (float)fp4_values[quants[j] & 15] * d;
                out[j + 8] = (float)fp4_values[quants[j] >> 4] * d;
            }
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* decode_blocks.c - GGUF's blocks of 32: a scale, sometimes an offset, and 4, 5 or 8 bits a weight.
 */
#include "core/weights/decode.h"

enum { BLOCK = 32, HALF = BLOCK / 2 };

const int8_t kt_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};

/* Twice the values of FP4 E2M1: the scale is halved instead. Code 8 is +0, as in ggml. */
static const int8_t mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

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

void kt_decode_iq4_nl(const uint8_t *restrict block, int64_t stride, uint64_t n,
                      float *restrict out)
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
        /* 2^(e - 128); e = 255, NaN in the OCP text, is 2^127 as in ggml, whose format this is. */
        uint32_t e = block[0];
        float d = kt_bits_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);
        for (int j = 0; j < HALF; j++) {
            out[j] = (float)mxfp4_values[block[1 + j] & 15] * d;
            out[j + HALF] = (float)mxfp4_values[block[1 + j] >> 4] * d;
        }
    }
}

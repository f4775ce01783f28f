/* SPDX-License-Identifier: Apache-2.0 */
/* decode_ternary.c - GGUF's blocks of one or two bits or of base-3 digits and a float16 scale. */
#include "core/weights/decode/decode.h"

/* A byte is a fraction of 256 with base-3 digits; multiplied by power = 3^p, its digit p is the integer part.
 */
static float trit(unsigned byte, unsigned power, float d)
{
    unsigned rest = byte * power & 255;
    return (float)((int)(rest * 3 >> 8) - 1) * d;
}

/* digits[48], 5 to a byte: 32 bytes hold runs of 32 weights, 16 runs of 16; last[4], 4 to a byte; d.
 */
void kt_decode_tq1_0(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    static const unsigned powers[] = {1, 3, 9, 27, 81};
    for (; n; n--, block += stride) {
        float d = kt_f16_float(kt_load16(block + 52));
        for (int p = 0; p < 5; p++)
            for (int j = 0; j < 32; j++)
                *out++ = trit(block[j], powers[p], d);
        for (int p = 0; p < 5; p++)
            for (int j = 32; j < 48; j++)
                *out++ = trit(block[j], powers[p], d);
        for (int p = 0; p < 4; p++)
            for (int j = 48; j < 52; j++)
                *out++ = trit(block[j], powers[p], d);
    }
}

/* quants[64], d: 32 bytes hold four runs of 32 weights of 2 bits, biased by 1. */
void kt_decode_tq2_0(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride) {
        float d = kt_f16_float(kt_load16(block + 64));
        for (int run = 0; run < 8; run++, out += 32) {
            const uint8_t *q = block + run / 4 * 32;
            int shift = run % 4 * 2;
            for (int j = 0; j < 32; j++)
                out[j] = (float)((q[j] >> shift & 3) - 1) * d;
        }
    }
}

/* d, 128 bits, the lowest first: d or -d. */
void kt_decode_q1_0(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride, out += 128) {
        float d = kt_f16_float(kt_load16(block));
        for (int j = 0; j < 128; j++)
            out[j] = block[2 + j / 8] >> j % 8 & 1 ? d : -d;
    }
}

/* d, 64 weights of 2 bits, the lowest first, biased by 1. */
void kt_decode_q2_0(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride, out += 64) {
        float d = kt_f16_float(kt_load16(block));
        for (int j = 0; j < 64; j++)
            out[j] = (float)((block[2 + j / 4] >> j % 4 * 2 & 3) - 1) * d;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* decode_kquants.c - GGUF's blocks of 256: groups of 16 or 32 with small integer scales of their
 * own. */
#include "core/weights/decode/decode.h"

/* scales[16] (4-bit scale, 4-bit minimum), quants[64], d, dmin: groups of 16 weights of 2 bits. */
void kt_decode_q2_k(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride) {
        const uint8_t *scales = block, *quants = block + 16;
        float d = kt_f16_float(kt_load16(block + 80)), dmin = kt_f16_float(kt_load16(block + 82));
        for (int group = 0; group < 16; group++, out += 16) {
            /* 128 weights share 32 bytes: 2 bits each of four runs of 32. */
            const uint8_t *q = quants + group / 8 * 32 + group % 2 * 16;
            int shift = group % 8 / 2 * 2;
            float scale = d * (float)(scales[group] & 15), minimum = dmin * (float)(scales[group] >> 4);
            for (int j = 0; j < 16; j++)
                out[j] = scale * (float)(q[j] >> shift & 3) - minimum;
        }
    }
}

/* Sixteen 6-bit scales, biased by 32: the low nibbles of bytes 0..7, then their high ones;
 * bytes 8..11 hold the upper two bits of scales g, g + 4, g + 8 and g + 12. */
static int scale_q3_k(const uint8_t *scales, int group)
{
    int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
    int high = scales[8 + group % 4] >> (group / 4 * 2) & 3;
    return (low | high << 4) - 32;
}

/* high[32], quants[64], scales[12], d: groups of 16 weights of 3 bits; a clear high bit means -4.
 */
void kt_decode_q3_k(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride) {
        float d = kt_f16_float(kt_load16(block + 108));
        for (int group = 0; group < 16; group++, out += 16) {
            const uint8_t *high = block + group % 2 * 16;
            const uint8_t *q = block + 32 + group / 8 * 32 + group % 2 * 16;
            int shift = group % 8 / 2 * 2, bit = group / 2;
            float scale = d * (float)scale_q3_k(block + 96, group);
            for (int j = 0; j < 16; j++)
                out[j] = scale * (float)((q[j] >> shift & 3) - 4 * (~high[j] >> bit & 1));
        }
    }
}

/* Eight 6-bit scales and eight 6-bit minima in 12 bytes: 0..3 in bytes 0..3 and 4..7; of 4..7 the
 * low nibbles in bytes 8..11, the upper two bits above those of 0..3. */
static void scale_q4_k(const uint8_t *scales, int group, int *scale, int *minimum)
{
    if (group < 4) {
        *scale = scales[group] & 63;
        *minimum = scales[group + 4] & 63;
    } else {
        *scale = (scales[group + 4] & 15) | scales[group - 4] >> 6 << 4;
        *minimum = scales[group + 4] >> 4 | scales[group] >> 6 << 4;
    }
}

/* d, dmin, scales[12], quants[128]: groups of 32 weights of 4 bits, two groups share 32 bytes. */
void kt_decode_q4_k(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride) {
        float d = kt_f16_float(kt_load16(block)), dmin = kt_f16_float(kt_load16(block + 2));
        for (int group = 0; group < 8; group++, out += 32) {
            const uint8_t *q = block + 16 + group / 2 * 32;
            int scale, minimum, shift = group % 2 * 4;
            scale_q4_k(block + 4, group, &scale, &minimum);
            float s = d * (float)scale, m = dmin * (float)minimum;
            for (int j = 0; j < 32; j++)
                out[j] = s * (float)(q[j] >> shift & 15) - m;
        }
    }
}

/* d, dmin, scales[12], high[32], quants[128]: as Q4_K, bit `group` of high[j] is the fifth bit. */
void kt_decode_q5_k(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride) {
        float d = kt_f16_float(kt_load16(block)), dmin = kt_f16_float(kt_load16(block + 2));
        const uint8_t *high = block + 16;
        for (int group = 0; group < 8; group++, out += 32) {
            const uint8_t *q = block + 48 + group / 2 * 32;
            int scale, minimum, shift = group % 2 * 4;
            scale_q4_k(block + 4, group, &scale, &minimum);
            float s = d * (float)scale, m = dmin * (float)minimum;
            for (int j = 0; j < 32; j++)
                out[j] = s * (float)((q[j] >> shift & 15) | (high[j] >> group & 1) << 4) - m;
        }
    }
}

/* low[128], high[64], scales[16] signed, d: groups of 16 weights of 6 bits, biased by 32. */
void kt_decode_q6_k(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride) {
        float d = kt_f16_float(kt_load16(block + 208));
        for (int group = 0; group < 16; group++, out += 16) {
            /* Of 128 weights the runs of 32 are: low nibbles of bytes 0..31, of 32..63, then the
             * high. */
            int run = group % 8 / 2, odd = group % 2 * 16;
            const uint8_t *low = block + group / 8 * 64 + run % 2 * 32 + odd;
            const uint8_t *high = block + 128 + group / 8 * 32 + odd;
            int low_shift = run / 2 * 4, high_shift = run * 2;
            float scale = d * (float)(int8_t)block[192 + group];
            for (int j = 0; j < 16; j++)
                out[j] =
                    scale * (float)(((low[j] >> low_shift & 15) | (high[j] >> high_shift & 3) << 4) - 32);
        }
    }
}

/* d, scales_high (2 bits a group), scales_low[4] (4 bits a group), quants[128]: groups of 32. */
void kt_decode_iq4_xs(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride) {
        float d = kt_f16_float(kt_load16(block));
        int scales_high = kt_load16(block + 2);
        for (int group = 0; group < 8; group++, out += 32) {
            const uint8_t *q = block + 8 + group * 16;
            int low = block[4 + group / 2] >> (group % 2 * 4) & 15;
            float scale = d * (float)((low | (scales_high >> (group * 2) & 3) << 4) - 32);
            for (int j = 0; j < 16; j++) {
                out[j] = scale * (float)kt_iq4_values[q[j] & 15];
                out[j + 16] = scale * (float)kt_iq4_values[q[j] >> 4];
            }
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* decode_nibbles.c - weights of 4 bits without scales, the first one in the low nibble. A block is 8 weights
 * in 4 bytes, so that a matrix packed along rows or along columns is a plain view. */
#include "core/weights/decode/decode.h"

enum { BLOCK = 8 };

static const float e2m1_values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                      -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

void kt_decode_int4(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride, out += BLOCK)
        for (int j = 0; j < BLOCK; j += 2) {
            out[j] = (float)((block[j / 2] & 15) - KT_INT4_ZERO);
            out[j + 1] = (float)((block[j / 2] >> 4) - KT_INT4_ZERO);
        }
}

void kt_decode_e2m1(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out)
{
    for (; n; n--, block += stride, out += BLOCK)
        for (int j = 0; j < BLOCK; j += 2) {
            out[j] = e2m1_values[block[j / 2] & 15];
            out[j + 1] = e2m1_values[block[j / 2] >> 4];
        }
}

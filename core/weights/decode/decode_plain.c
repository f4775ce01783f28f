/* SPDX-License-Identifier: Apache-2.0 */
/* decode_plain.c - plain numbers: floats of 64, 32, 16 and 8 bits. */
#include "core/weights/decode/decode.h"

/* Loops of a fixed length are vectorized at -O2, too. */
enum { CHUNK = 32 };

#define DECODE(name, type, convert)                                            \
    void name(const uint8_t *restrict source, uint64_t n, float *restrict out) \
    {                                                                          \
        type values[CHUNK];                                                    \
        for (; n >= CHUNK; n -= CHUNK) {                                       \
            memcpy(values, source, sizeof values);                             \
            for (int i = 0; i < CHUNK; i++)                                    \
                out[i] = convert(values[i]);                                   \
            source += sizeof values;                                           \
            out += CHUNK;                                                      \
        }                                                                      \
        memcpy(values, source, n * sizeof values[0]);                          \
        for (uint64_t i = 0; i < n; i++)                                       \
            out[i] = convert(values[i]);                                       \
    }

DECODE(kt_decode_f16, uint16_t, kt_f16_float)
DECODE(kt_decode_bf16, uint16_t, kt_bf16_float)
DECODE(kt_decode_f64, double, (float))
DECODE(kt_decode_i8, int8_t, (float))
DECODE(kt_decode_e4m3, uint8_t, kt_e4m3_float)
DECODE(kt_decode_e5m2, uint8_t, kt_e5m2_float)
DECODE(kt_decode_e8m0, uint8_t, kt_e8m0_float)

void kt_decode_f32(const uint8_t *restrict source, uint64_t n, float *restrict out)
{
    memcpy(out, source, n * sizeof *out);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* decode_scalar.h - codes to bfloat16 in plain C: what each decode_*.h must do.
 *
 *   SCALED_TABLES  1: make_scaled(scale) makes a decoder of numbers times scale, rounded to bfloat16
 *   decode         a vector of codes to the two lines of the tile that they stand for
 */
#ifndef KT_PLUGINS_AVX512_FP8_DECODE_SCALAR_H
#define KT_PLUGINS_AVX512_FP8_DECODE_SCALAR_H

#include "plugins/avx512_fp8/avx512_fp8.h"

#include "plugins/common/simd/simd.h"

#define SCALED_TABLES 0

struct decoder {
    int none;
};

INLINE struct decoder make_decoder(int encoding)
{
    return (struct decoder){encoding};
}

INLINE void decode(vi codes, const struct decoder *decoder, int encoding, vi *w)
{
    (void)decoder;
    (void)encoding;
    for (unsigned row = 0; row < TILE_ROWS; row++)
        for (unsigned i = 0; i < 2; i++) {
            uint32_t low = bf16_of_codes[codes.u8[find_code(row, 2 * i)] & 0x7f];
            uint32_t high = bf16_of_codes[codes.u8[find_code(row, 2 * i + 1)] & 0x7f];
            low |= (codes.u8[find_code(row, 2 * i)] & 0x80u) << 8;
            high |= (codes.u8[find_code(row, 2 * i + 1)] & 0x80u) << 8;
            w[i].u32[row] = low | high << 16;
        }
}

#endif

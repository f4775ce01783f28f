/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bounded_sums.h - rows of activations whose sums of |q| are bounded (WORD_BOUNDED), and their products with
 * formats whose weights are looked up in a table of signed bytes, for AVX2.
 *
 * vpmaddubsw multiplies unsigned bytes by signed ones and adds two products up as an int16, which saturates.
 * So a weight w, -127..113, is looked up as w + 127, 0..240. A lane of 4 columns has two int16, of places 0,
 * 1 and of places 2, 3; those of columns 8c..8c+3 and 8c+4..8c+7 are added up before they are widened, which
 * halves the instructions that widen. It is exact if
 *   - no product saturates: 240 * |q0 + q1| <= 32767 of two places with one sign (with two signs the
 *     larger one alone is at most 240 * 127), that is |q0 + q1| <= 136 (BOUNDED_TWO)
 *   - the sum fits: vpaddw wraps, so only what is left in the end counts, the sum of w * q over 4 columns,
 *     which starts at -127 times the sum of those q: 127 * sum|q| <= 32767, or sum|q| <= 258 (BOUNDED_FOUR).
 * Rounding adds up to half a unit to each q; so a group's scale is the largest of max|x| / 127,
 * |x0 + x1| / (BOUNDED_TWO - 1) and sum|x| / (BOUNDED_FOUR - 2). Integers are those of any other way to
 * multiply such rows, and so are the bits.
 */
#ifndef KT_PLUGINS_LLAMAFILE_PACK_BOUNDED_SUMS_H
#define KT_PLUGINS_LLAMAFILE_PACK_BOUNDED_SUMS_H

#include "plugins/llamafile/llamafile.h"

#include "plugins/common/simd/simd.h"

#include <string.h>

INLINE void quantize_bounded_group(const float *x, uint8_t *block, unsigned g)
{
    int8_t *q = (int8_t *)block + ACT_Q + GROUP * g;
    const uint32_t max_bits = vec_absmax32(x);
    const float max = bits_to_float(max_bits);
    float scale = max_bits > 0x7f7fffff ? bits_to_float(0x7fc00000) : 0.0f;
    int16_t starts[8] = {0};
    if (max_bits > 0x7f7fffff || max < 0x1p-118f) {
        memset(q, 0, GROUP);
    } else {
        const float bound = vec_abs_fours32(x, 1.0f / (BOUNDED_TWO - 1), 1.0f / (BOUNDED_FOUR - 2));
        scale = max / 127.0f;
        scale = scale < bound ? bound : scale;
        vec_quantize32(x, 1.0f / scale, q);
        vec_four_sums32(q, -BOUNDED_OFFSET, starts);
    }
    memcpy(block + ACT_SCALE + 4 * g, &scale, sizeof scale);
    memcpy(block + ACT_START + 16 * g, starts, sizeof starts);
}

INLINE void quantize_bounded(const float *x, uint8_t *block)
{
    memset(block + ACT_SCALE, 0, ACT_SIZE - ACT_SCALE);
    for (unsigned g = 0; g < SUPERBLOCK / GROUP; g++)
        quantize_bounded_group(x + GROUP * g, block, g);
}

#endif

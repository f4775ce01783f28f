/* SPDX-License-Identifier: Apache-2.0 */
/* encoding.h - the encodings of codes, and how they become bfloat16: what coded/gemv_tmpl.h asks. */
#ifndef KT_PLUGINS_RAWINT4_ENCODING_H
#define KT_PLUGINS_RAWINT4_ENCODING_H

#include "plugins/rawint4/rawint4.h"

#include "plugins/common/simd/simd.h"

/* Bits of encodings for activations that are integers (fixed_point_tmpl.h): of 15 bits, or of 8. */
#define ENCODING_FIXED_POINT 2
#define ENCODING_INT8 6
#define ENCODING_EXPANDED 16 /* dequantized by expand.h */

struct decoder {
    lookup16 e2m1;
    vi fixed_point_e2m1;
};

INLINE struct decoder make_decoder(int encoding)
{
    static const uint16_t table[16] = E2M1_TABLE;
    static const uint8_t doubled_plus_12[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
    (void)encoding;
    return (struct decoder){make_lookup16(table), vi_table(doubled_plus_12)};
}

/* int4 as 128 + code, which is exact: 0x4300 is 128, and the lowest bit of its fraction is 1. */
INLINE void decode(vi codes, const struct decoder *decoder, int encoding, vi *w)
{
    const vi low = vi_splat32(0x000f000f), offset = vi_splat32(0x43004300);
    UNROLL_FOR (int i = 0; i < 4; i++) {
        vi shifted = i ? vi_shr32(codes, 4 * i) : codes;
        w[i] = (encoding & 1) == ENCODING_INT4 ? vi_and_or(shifted, low, offset)
                                               : vi_lookup16(decoder->e2m1, shifted);
    }
}

#define OFFSETS(encoding) ((encoding) != ENCODING_E2M1)
#define HAS_SUBTILE_GROUPS(encoding) ((encoding)&SUBTILE_GROUPS)
#define IS_FIXED_POINT(encoding) ((encoding)&ENCODING_FIXED_POINT)
#define IS_INT8(encoding) (((encoding)&ENCODING_INT8) == ENCODING_INT8)
#define DOUBLED(encoding) (((encoding)&1) == ENCODING_E2M1 && IS_FIXED_POINT(encoding))
#define CODE_ZERO(encoding) \
    (((encoding) & ~SUBTILE_GROUPS) == ENCODING_INT4 ? 128.0f : DOUBLED(encoding) ? 12.0f : 0.0f)
#define FIND_SUMS(encoding, x, r, filled) (IS_INT8(encoding) ? INT8_SUMS((x)->x[r], filled) : (x)->sums[r])

#endif

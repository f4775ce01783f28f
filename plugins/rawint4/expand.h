/* SPDX-License-Identifier: Apache-2.0 */
/* expand.h - int4 with scales of 16 bits to lines of bfloat16, by simd/avx512_expand.h: exact before the one
 * rounding. */
#ifndef KT_PLUGINS_RAWINT4_EXPAND_H
#define KT_PLUGINS_RAWINT4_EXPAND_H

#include "plugins/rawint4/encoding.h"

#include "plugins/common/simd/avx512_expand.h"

#define DEQUANTIZES_CODES(encoding) ((encoding)&ENCODING_EXPANDED)

/* A line of codes, 8 columns of 16 rows, to 4 lines at `to`; `zero`: what codes are taken from. */
INLINE void dequantize_codes(vi codes, vf scale, vf zero, uint8_t *to)
{
    const vf offset[2] = {vf_mul(vf_sub(vf_set(-CODE_BASE(NIBBLE_LOW)), zero), scale),
                          vf_mul(vf_sub(vf_set(-CODE_BASE(NIBBLE_HIGH)), zero), scale)};
    UNROLL_FOR (unsigned i = 0; i < 4; i++, to += 64) {
        vf w[2];
        UNROLL_FOR (unsigned odd = 0; odd < 2; odd++)
            w[odd] = vf_fma(vf_nibble(codes, i + 4 * odd), scale, offset[i % 2]);
        vi_store(to, vf_round_pairs(w[0], w[1]));
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shifted_rows.h - rows of activations for shifted_tmpl.h, beside float32: behind a row's columns stand the
 * units of each 32, powers of two, then the columns again, times 2^120 / unit. No product of one of these
 * and a number times 2^-120 overflows, and what is lost is below 2^-90 of the largest of the 32.
 */
#ifndef KT_PLUGINS_AVX512_FP8_SHIFTED_ROWS_H
#define KT_PLUGINS_AVX512_FP8_SHIFTED_ROWS_H

#include "plugins/avx512_fp8/avx512_fp8.h"

#include "plugins/common/simd/simd.h"

INLINE float *find_shifted(float *units, uint64_t filled, uint64_t t)
{
    return units + filled + t * TILE_COLUMNS;
}

/* Tile t of a row whose columns stand at x, bfloat16 as float32. There are no sums. */
INLINE void store_extra(const float *x, unsigned n, float *sums, float *units, uint64_t filled, uint64_t t)
{
    (void)n;
    (void)sums;
    float *to = find_shifted(units, filled, t);
    /* The largest one's: from 2^-7 on, so that there is a float32 for 2^120 / unit. */
    uint32_t exponent = vec_absmax32(x) >> 23;

    exponent = exponent < 120 ? 120 : exponent > 254 ? 254 : exponent;
    units[t] = bits_to_float(exponent << 23);
    vf inverse = vf_set(bits_to_float((374 - exponent) << 23));
    UNROLL_FOR (unsigned i = 0; i < TILE_COLUMNS; i += VEC_ROWS)
        vf_store(to + i, vf_mul(vf_load(x + i), inverse));
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared_scale.h - packing of activation rows whose superblocks share a scale (WORD_SHARED).
 *
 * Group g of 32 columns has the scale unit * n of its superblock, n = 1..16: the least that holds its largest
 * number, max|x| / 127, and the sums of |q| that pairs of int16 can take, rounded up to a sixteenth of the
 * largest group's. So integer scales of weights take n as a factor, and only superblocks have float parts.
 * A superblock with an infinity or NaN gets q = 0 and a unit of NaN, one below 2^-110 is zero.
 */
#ifndef KT_PLUGINS_LLAMAFILE_PACK_SHARED_SCALE_H
#define KT_PLUGINS_LLAMAFILE_PACK_SHARED_SCALE_H

#include "plugins/llamafile/llamafile.h"

#include "plugins/common/simd/simd.h"

#include <float.h>
#include <string.h>

/* Of each group, in both its lanes, the least scale: sums of |q| over it, or over each of its halves, stay at
 * SHARED_SUM32 or SHARED_SUM16, with half a unit of rounding for each q. False: a number is infinite or NaN,
 * or about to be. */
INLINE bool find_least_scales(const float *x, bool halves, vf *scales)
{
    const float factor = halves ? 1.0f / (SHARED_SUM16 - 8) : 1.0f / (SHARED_SUM32 - 16);
    vf sums, largest;
    vf_measure_halves(x, factor, &sums, &largest);
    sums = halves ? vf_max(sums, vf_swap(sums)) : vf_add(sums, vf_swap(sums));
    const vf least = vf_div(vf_max(largest, vf_swap(largest)), vf_set(127.0f));
    *scales = vf_max(least, sums);
    return (vf_at_least(vf_set(FLT_MAX), largest) & vf_at_least(vf_set(0x1p127f), *scales)) == 0xffff;
}

/* What blocks of rows take as it is (ACT_PAIRS): a row is copied for each of its experts and threads, but
 * quantized once. `sums` of q over halves, `factors` in both lanes of a group. */
INLINE void store_pairs(bool halves, int offset, vi sums, vi factors, uint8_t *block)
{
    const vi starts = vi_sub32(vi_even_odd(vi_set32(0), vi_set32(0x8000)), vi_mul32(sums, vi_set32(offset)));
    const vi scaled = vi_mul32(factors, sums), low = vi_set32(0xffff);
    vi first = factors, first_sums = vi_swap(scaled), second_sums = scaled;
    if (!halves) {
        second_sums = vi_add32(scaled, vi_swap(scaled));
        first_sums = vi_first_of_4(second_sums);
        first = vi_first_of_4(factors);
    }
    const vi pairs = vi_or(factors, vi_to_upper16(first));
    const vi pair_sums = vi_or(vi_and(second_sums, low), vi_to_upper16(first_sums));
    vi_store_twos(block + ACT_PAIRS, starts, vi_even_odd(pairs, pair_sums));
}

/* `halves`: pairs are the halves of a group. `offset` of the weights' codes. */
INLINE void quantize_superblock(const float *x, bool halves, int offset, uint8_t *block)
{
    int8_t *q = (int8_t *)block + ACT_Q;
    vf scales, largest, unit = vf_set(0.0f), factors = vf_set(1.0f);
    vi sums = vi_set32(0);
    const bool valid = find_least_scales(x, halves, &scales);
    largest = vf_largest(scales);
    memset(block, 0, ACT_SIZE);
    if (!valid) {
        unit = vf_set(bits_to_float(0x7fc00000));
    } else if (vf_at_least(largest, vf_set(0x1p-117f))) {
        unit = vf_mul(largest, vf_set(1.0f / 16.0f));
        factors = vf_round_up(vf_mul(scales, vf_div(vf_set(16.0f), largest)));
        factors = vf_min(vf_max(factors, vf_set(1.0f)), vf_set(16.0f));
        vec_quantize_halves(x, vf_div(vf_set(1.0f), vf_mul(unit, factors)), q);
        sums = vi_add_pairs16(vi_pair_sums_halves(q));
    }
    const float one = vf_lowest_lane(unit);
    memcpy(block + ACT_UNIT, &one, sizeof one);
    vi_store_even_bytes(block + ACT_FACTOR, vi_from_whole(factors));
    vi_store_int16(block + ACT_HALF_SUM, sums);
    store_pairs(halves, offset, sums, vi_from_whole(factors), block);
}

#endif

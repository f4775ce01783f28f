/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared.h - packing of activation rows whose superblocks share a scale (WORD_SHARED).
 *
 * Group g of 32 columns has the scale unit * n of its superblock, n = 1..16: the least that holds its largest
 * number, max|x| / 127, and the sums of |q| that pairs of int16 can take, rounded up to a sixteenth of the
 * largest group's. So integer scales of weights take n as a factor, and only superblocks have float parts.
 * A superblock with an infinity or NaN gets q = 0 and a unit of NaN, one below 2^-110 is zero.
 */
#ifndef KT_PLUGINS_LLAMAFILE_SHARED_H
#define KT_PLUGINS_LLAMAFILE_SHARED_H

#include "plugins/llamafile/llamafile.h"

#include "plugins/common/simd/simd.h"

#include <string.h>

/* The least scale of a group: sums of |q| over it, or over each of its halves, stay at SHARED_SUM32 or
 * SHARED_SUM16, with half a unit of rounding for each q. NaN, if a number is infinite or NaN. */
INLINE float find_least_scale(const float *x, bool halves)
{
    const float factor = halves ? 1.0f / (SHARED_SUM16 - 8) : 1.0f / (SHARED_SUM32 - 16);
    const uint32_t max_bits = vec_absmax32(x);
    float low = vec_abs_sum16(x, factor), high = vec_abs_sum16(x + 16, factor);
    float sum = !halves ? low + high : low < high ? high : low, least = bits_to_float(max_bits) / 127.0f;
    if (max_bits > 0x7f7fffff)
        return bits_to_float(0x7fc00000);
    return least < sum ? sum : least;
}

/* n of a group: scale <= n / 16 of the largest. */
INLINE unsigned find_factor(float scale, float largest)
{
    float ratio = scale * (16.0f / largest);
    unsigned n = (unsigned)ratio;
    n += (float)n < ratio;
    return n < 1 ? 1 : n > 16 ? 16 : n;
}

INLINE void store_pair(uint8_t *to, int first, int second)
{
    int16_t pair[2] = {(int16_t)second, (int16_t)first};
    memcpy(to, pair, sizeof pair);
}

/* What blocks of rows take as it is: a row is copied for each of its experts and threads, but quantised once.
 */
INLINE void prepare_pairs(bool halves, int offset, uint8_t *block)
{
    for (unsigned g = 0; g < SUPERBLOCK / GROUP; g++) {
        const unsigned before = halves ? g : g & 6;
        const int factor = block[ACT_FACTOR + g], first = block[ACT_FACTOR + before];
        uint8_t *to = block + ACT_PAIRS + PAIRS_SIZE * g;
        int16_t sum[2], last[2];
        memcpy(sum, block + ACT_HALF_SUM + 4 * g, sizeof sum);
        memcpy(last, block + ACT_HALF_SUM + 4 * before, sizeof last);
        const int32_t start[2] = {-offset * sum[0], 0x8000 - offset * sum[1]};
        memcpy(to + PAIRS_START, start, sizeof start);
        store_pair(to + PAIRS_FACTOR, first, factor);
        if (halves)
            store_pair(to + PAIRS_SUM, factor * sum[0], factor * sum[1]);
        else
            store_pair(to + PAIRS_SUM, first * (last[0] + last[1]), factor * (sum[0] + sum[1]));
    }
}

/* `halves`: pairs are the halves of a group. `offset` of the weights' codes. */
INLINE void quantize_superblock(const float *x, bool halves, int offset, uint8_t *block)
{
    float scales[SUPERBLOCK / GROUP], largest = 0.0f, unit;
    bool valid = true;
    memset(block, 0, ACT_SIZE);
    for (unsigned g = 0; g < SUPERBLOCK / GROUP; g++) {
        scales[g] = find_least_scale(x + GROUP * g, halves);
        valid = valid && scales[g] <= 0x1p127f;
        largest = scales[g] > largest ? scales[g] : largest;
        block[ACT_FACTOR + g] = 1;
    }
    unit = largest / 16.0f;
    if (!valid || largest < 0x1p-117f) {
        unit = valid ? 0.0f : bits_to_float(0x7fc00000);
        memcpy(block + ACT_UNIT, &unit, sizeof unit);
        prepare_pairs(halves, offset, block);
        return;
    }
    memcpy(block + ACT_UNIT, &unit, sizeof unit);
    for (unsigned g = 0; g < SUPERBLOCK / GROUP; g++) {
        unsigned n = find_factor(scales[g], largest);
        int16_t pair[4];
        vec_quantize32(x + GROUP * g, 1.0f / (unit * (float)n), (int8_t *)block + ACT_Q + GROUP * g);
        vec_pair_sums32((int8_t *)block + ACT_Q + GROUP * g, pair);
        pair[0] = (int16_t)(pair[0] + pair[1]);
        pair[1] = (int16_t)(pair[2] + pair[3]);
        memcpy(block + ACT_HALF_SUM + 4 * g, pair, 4);
        block[ACT_FACTOR + g] = (uint8_t)n;
    }
    prepare_pairs(halves, offset, block);
}

#endif

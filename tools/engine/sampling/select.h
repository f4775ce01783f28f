/* SPDX-License-Identifier: Apache-2.0 */
/*
 * select.h - the k smallest of n keys, or the fewest smallest ones that weigh enough, without sorting.
 *
 * A key is 64 bits: how a token is ranked in the upper half, lower first, and its index in the lower half, so
 * that no two are equal.
 */
#ifndef KT_ENGINE_SAMPLING_SELECT_H
#define KT_ENGINE_SAMPLING_SELECT_H

#include <stdint.h>
#include <string.h>

/** The likeliest first, then the lower index. */
static inline uint64_t kt_key_of_logit(float logit, uint64_t index)
{
    uint32_t bits;
    logit += 0.0f; /* -0 is 0 */
    memcpy(&bits, &logit, sizeof(bits));
    bits = bits >> 31 ? ~bits : bits | 0x80000000u; /* numbers in ascending order */
    return (uint64_t)~bits << 32 | index;
}

/** The nearest to 0 first; distance >= 0. */
static inline uint64_t kt_key_of_distance(float distance, uint64_t index)
{
    uint32_t bits;
    memcpy(&bits, &distance, sizeof(bits));
    return (uint64_t)bits << 32 | index;
}

static inline uint32_t kt_key_index(uint64_t key)
{
    return (uint32_t)key;
}

/** The key up to which, in ascending order, weights[index] add up to `enough`; the last key if all do not.
 * weights NULL: each weighs 1. n > 0. Permutes the keys: those up to it come first. */
uint64_t kt_select(uint64_t *keys, uint64_t n, const float *weights, double enough);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vector.h - passes over the logits of a vocabulary.
 *
 * They are written with vectors of four, which every CPU has, and with an exponential of their own: results
 * have the same bits everywhere, which those of libm do not.
 */
#ifndef KT_ENGINE_SAMPLING_VECTOR_H
#define KT_ENGINE_SAMPLING_VECTOR_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/** The maxima of blocks of so many logits are kept: they say where in the vocabulary to look. */
#define KT_LOGIT_BLOCK 64
#define KT_LOGIT_BLOCKS(n) (((n) + KT_LOGIT_BLOCK - 1) / KT_LOGIT_BLOCK)

/** The maximum of each block, and of all; -inf of nothing else. False: there are NaN or +inf. */
bool kt_logits_scan(const float *logits, uint64_t n, float *block_max, float *max);
/** The same of one block. */
float kt_logits_block_max(const float *logits, uint64_t n, uint64_t block);

/** weights[i] = exp((logits[i] - max) * scale), at most 3 units in the last place off and 0 below exp(-87);
 * no logit is above max. Returns the sum. */
double kt_logits_weights(const float *logits, uint64_t n, float max, float scale, float *weights);
/** Sums of those weights by blocks, and of all. */
double kt_logits_sums(const float *logits, uint64_t n, float max, float scale, const float *block_max,
                      double *sums);
/** Sum of weight times (logit - max), scale 1; logits of -inf count as nothing. */
double kt_logits_moment(const float *logits, uint64_t n, float max);
/** The standard deviation of the logits that are not -inf. */
double kt_logits_deviation(const float *logits, uint64_t n, float max);

/** A logit that was computed, as a float that is not +inf, and -inf only if it was that before. */
static inline float kt_logit_of(double logit)
{
    if (logit > (double)FLT_MAX)
        return FLT_MAX;
    return (float)(logit > -INFINITY && logit < -(double)FLT_MAX ? -(double)FLT_MAX : logit);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filter.h - the tokens that may yet be drawn, and what the filters take out of them.
 *
 * Candidates stand in the order of their ids, always: so a filter that takes nothing out changes no choice.
 */
#ifndef KT_ENGINE_SAMPLING_FILTER_H
#define KT_ENGINE_SAMPLING_FILTER_H

#include <stdint.h>

/** Logits of a vocabulary and what is known of them. */
struct kt_logits {
    const float *values; /**< neither NaN nor +inf */
    uint64_t n;
    const float *block_max; /**< vector.h */
    float max;              /**< not -inf */
};

struct kt_candidates {
    uint64_t n;
    int32_t *ids;
    float *logits;
    float *weights; /**< exp(logit - the vocabulary's largest) */
    double total;   /**< of the weights of all tokens that the filters so far left: while the vocabulary is
                       being searched from the top on, of more than there are candidates */
    uint64_t *keys; /**< scratch */
};

/** All tokens with logits of at least `cut`, -inf excepted. Sets total to the sum of their weights. */
void kt_candidates_gather(struct kt_candidates *c, const struct kt_logits *logits, float cut);
/** A bound which at least k tokens reach, and few others where k is small. */
float kt_candidates_bound(struct kt_candidates *c, const struct kt_logits *logits, uint64_t k);

void kt_filter_top_k(struct kt_candidates *c, uint64_t k);
void kt_filter_top_p(struct kt_candidates *c, double p);
/** `mean` of logits, weighted by their probabilities. */
void kt_filter_typical(struct kt_candidates *c, double p, double mean);
void kt_filter_min_p(struct kt_candidates *c, double p);
void kt_filter_xtc(struct kt_candidates *c, double threshold);

/** Those filters for which the vocabulary need not be sorted: gathers from the top on until there is enough,
 * and filters. `sums`: scratch, [KT_LOGIT_BLOCKS]. */
void kt_gather_top_p(struct kt_candidates *c, const struct kt_logits *logits, double p, double *sums);
void kt_gather_typical(struct kt_candidates *c, const struct kt_logits *logits, double p, double *sums);

#endif

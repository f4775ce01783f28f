/* SPDX-License-Identifier: Apache-2.0 */
/* sampling_model.h - what <kt/sampling.h> says, in float64, each step by the book and by sorting. */
#ifndef KT_TESTS_ENGINE_SAMPLING_MODEL_H
#define KT_TESTS_ENGINE_SAMPLING_MODEL_H

#include <kt/sampling.h>
#include <stdbool.h>

#define MODEL_MOST 3100 /* tokens of a vocabulary, and of a history */

struct sampling_model {
    const struct kt_sampling_params *params;
    int n;
    double logits[MODEL_MOST];
    bool is_in[MODEL_MOST];
    double p[MODEL_MOST]; /* at the end: what is drawn from */
    int n_left;
    /* Decisions that float32 may take otherwise; such cases prove nothing. */
    bool is_close;
    /* history */
    int32_t ids[MODEL_MOST];
    bool is_generated[MODEL_MOST];
    int n_ids;
};

/* All steps. The history is set; does_xtc: the coin fell so. */
void model_run(struct sampling_model *m, const float *logits, const uint64_t *allowed, bool does_xtc);
/* The token at which probabilities by ids add up to more than u; sets is_close near a border. */
int model_draw(struct sampling_model *m, double u);

/* Philox4x32-10 by the paper. */
void model_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
double model_random(uint64_t seed, uint64_t position, uint32_t stream);

#endif

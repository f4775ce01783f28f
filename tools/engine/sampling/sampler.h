/* SPDX-License-Identifier: Apache-2.0 */
/* sampler.h - a sampler: settings, history, scratch. */
#ifndef KT_ENGINE_SAMPLING_SAMPLER_H
#define KT_ENGINE_SAMPLING_SAMPLER_H

#include "tools/engine/sampling/filter.h"
#include "tools/engine/sampling/history.h"

struct kt_sampler {
    uint64_t vocabulary;
    struct kt_sampling_params params; /**< as kt_params_resolve has them; its arrays are not used */
    struct kt_logit_bias *bias;       /**< [params.n_logit_bias] */
    struct kt_history history;
    /* Scratch, which is touched only as far as it is needed: of the larger ones that is often little. */
    float *adjusted;                 /**< [vocabulary]: logits after bias, penalties and DRY */
    float *block_max;                /**< [blocks] */
    uint8_t *changed;                /**< [blocks]: the maximum is to be computed again */
    double *sums;                    /**< [blocks] */
    struct kt_candidates candidates; /**< [vocabulary] */
    struct kt_logprob top[KT_MAX_TOP];
};

/** Checks the caller's settings, and copies them with what 0 stands for put in: 1 for top_p, typical_p and
 * repetition_penalty, the vocabulary for top_k, the defaults of XTC and DRY. */
enum kt_status kt_params_resolve(const struct kt_sampling_params *given, uint64_t vocabulary,
                                 struct kt_sampling_params *params, struct kt_error *error);

/** How likely the model finds `id` at a position, whatever the settings but n_top say: id, logprob and top of
 * `found`. KT_E_BACKEND: the logits are broken. */
enum kt_status kt_sampler_score(struct kt_sampler *sampler, const float *logits, uint64_t position,
                                int32_t id, struct kt_choice *found, struct kt_error *error);

/** Whether a step from bias to DRY is on. */
bool kt_sampler_adjusts(const struct kt_sampler *sampler);

#endif

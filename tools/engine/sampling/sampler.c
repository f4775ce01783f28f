/* SPDX-License-Identifier: Apache-2.0 */
/* sampler.c - samplers and their memory. */
#include "tools/engine/base/fail.h"
#include "tools/engine/sampling/sampler.h"
#include "tools/engine/sampling/vector.h"

#include <stdlib.h>
#include <string.h>

bool kt_sampler_adjusts(const struct kt_sampler *sampler)
{
    return sampler->params.n_logit_bias > 0 || sampler->history.has_penalties || sampler->history.has_dry;
}

/* Overflows nothing: a vocabulary has less than 2^31 tokens. */
static bool allocate(struct kt_sampler *s)
{
    size_t n = (size_t)s->vocabulary, n_blocks = (size_t)KT_LOGIT_BLOCKS(s->vocabulary);
    uint64_t n_bias = s->params.n_logit_bias;
    bool has_history = kt_history_init(&s->history, s->vocabulary, &s->params);
    s->adjusted = malloc(n * sizeof(*s->adjusted));
    s->block_max = malloc(n_blocks * sizeof(*s->block_max));
    s->changed = malloc(n_blocks * sizeof(*s->changed));
    s->sums = malloc(n_blocks * sizeof(*s->sums));
    s->candidates.ids = malloc(n * sizeof(*s->candidates.ids));
    s->candidates.logits = malloc(n * sizeof(*s->candidates.logits));
    s->candidates.weights = malloc(n * sizeof(*s->candidates.weights));
    s->candidates.keys = malloc(n * sizeof(*s->candidates.keys));
    if (n_bias > 0 && n_bias <= SIZE_MAX / sizeof(*s->bias))
        s->bias = malloc((size_t)n_bias * sizeof(*s->bias));
    if (s->bias)
        memcpy(s->bias, s->params.logit_bias, (size_t)n_bias * sizeof(*s->bias));
    return has_history && s->adjusted && s->block_max && s->changed && s->sums && s->candidates.ids &&
           s->candidates.logits && s->candidates.weights && s->candidates.keys && (s->bias || n_bias == 0);
}

enum kt_status kt_sampler_create(uint64_t vocabulary, const struct kt_sampling_params *params,
                                 struct kt_sampler **sampler, struct kt_error *error)
{
    struct kt_sampling_params own;
    if (!sampler)
        return kt_engine_fail(error, KT_E_INVALID, "kt_sampler_create: sampler is NULL");
    if (vocabulary == 0 || vocabulary > INT32_MAX)
        return kt_engine_fail(error, KT_E_INVALID,
                              "kt_sampler_create: a vocabulary of %llu tokens; it must be from 1 to %d",
                              (unsigned long long)vocabulary, INT32_MAX);
    enum kt_status status = kt_params_resolve(params, vocabulary, &own, error);
    if (status != KT_OK)
        return status;
    struct kt_sampler *made = calloc(1, sizeof(*made));
    if (made) {
        made->vocabulary = vocabulary;
        made->params = own;
    }
    if (!made || !allocate(made)) {
        kt_sampler_destroy(made);
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a sampler of %llu tokens",
                              (unsigned long long)vocabulary);
    }
    made->params.logit_bias = NULL;
    made->params.dry_breakers = NULL;
    *sampler = made;
    return KT_OK;
}

void kt_sampler_destroy(struct kt_sampler *sampler)
{
    if (!sampler)
        return;
    kt_history_free(&sampler->history);
    free(sampler->bias);
    free(sampler->adjusted);
    free(sampler->block_max);
    free(sampler->changed);
    free(sampler->sums);
    free(sampler->candidates.ids);
    free(sampler->candidates.logits);
    free(sampler->candidates.weights);
    free(sampler->candidates.keys);
    free(sampler);
}

enum kt_status kt_sampler_accept(struct kt_sampler *sampler, const int32_t *ids, uint64_t n_ids,
                                 uint32_t origin, struct kt_error *error)
{
    if (!sampler || (!ids && n_ids > 0) || origin > KT_ORIGIN_GENERATED)
        return kt_engine_fail(error, KT_E_INVALID, "kt_sampler_accept: %s",
                              !sampler                       ? "sampler is NULL"
                              : origin > KT_ORIGIN_GENERATED ? "origin is not an enum kt_token_origin"
                                                             : "ids is NULL");
    for (uint64_t i = 0; i < n_ids; i++)
        if (ids[i] < 0 || (uint64_t)ids[i] >= sampler->vocabulary)
            return kt_engine_fail(error, KT_E_RANGE,
                                  "kt_sampler_accept: %d is not a token; ids are 0 to %llu", ids[i],
                                  (unsigned long long)sampler->vocabulary - 1);
    if (!kt_history_add(&sampler->history, ids, n_ids, origin == KT_ORIGIN_GENERATED))
        return kt_engine_fail(error, KT_E_NOMEM,
                              "no memory for the history of a sampler, which is now empty");
    return KT_OK;
}

void kt_sampler_reset(struct kt_sampler *sampler)
{
    kt_history_reset(&sampler->history);
}

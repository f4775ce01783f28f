/* SPDX-License-Identifier: Apache-2.0 */
/* params.c - settings: their ranges, and what 0 stands for. */
#include "tools/engine/base/fail.h"
#include "tools/engine/sampling/reals.h"
#include "tools/engine/sampling/sampler.h"

#include <math.h>
#include <string.h>

static enum kt_status check_range(const char *name, double value, double least, double most,
                                  struct kt_error *error)
{
    if (value >= least && value <= most)
        return KT_OK;
    return kt_engine_fail(error, KT_E_INVALID, "%s is %g, and must be from %g to %g", name, value, least,
                          most);
}

static enum kt_status check_ranges(const struct kt_sampling_params *p, struct kt_error *error)
{
    enum kt_status status = KT_OK;
    if (p->dry_base != 0 && !(p->dry_base >= 1 && p->dry_base <= KT_SAMPLING_MOST))
        return kt_engine_fail(error, KT_E_INVALID, "dry_base is %g, and must be 0 (1.75) or from 1 to %g",
                              p->dry_base, KT_SAMPLING_MOST);
#define CHECK(name, least, most, ...) \
    if (status == KT_OK)              \
        status = check_range(#name, p->name, least, most, error);
    KT_SAMPLING_REALS(CHECK)
#undef CHECK
    return status == KT_OK ? check_range("n_top", p->n_top, 0, KT_MAX_TOP, error) : status;
}

static enum kt_status check_arrays(const struct kt_sampling_params *p, uint64_t vocabulary,
                                   struct kt_error *error)
{
    if ((p->n_logit_bias > 0 && !p->logit_bias) || (p->n_dry_breakers > 0 && !p->dry_breakers))
        return kt_engine_fail(error, KT_E_INVALID, "%s is NULL, but its number is not 0",
                              p->n_logit_bias > 0 && !p->logit_bias ? "logit_bias" : "dry_breakers");
    for (uint64_t i = 0; i < p->n_logit_bias; i++) {
        if (p->logit_bias[i].id < 0 || (uint64_t)p->logit_bias[i].id >= vocabulary)
            return kt_engine_fail(error, KT_E_RANGE, "logit_bias: %d is not a token; ids are 0 to %llu",
                                  p->logit_bias[i].id, (unsigned long long)vocabulary - 1);
        if (!(p->logit_bias[i].bias < INFINITY))
            return kt_engine_fail(error, KT_E_INVALID,
                                  "logit_bias of token %d is %g, and must be a number or -inf",
                                  p->logit_bias[i].id, (double)p->logit_bias[i].bias);
    }
    for (uint64_t i = 0; i < p->n_dry_breakers; i++)
        if (p->dry_breakers[i] < 0 || (uint64_t)p->dry_breakers[i] >= vocabulary)
            return kt_engine_fail(error, KT_E_RANGE, "dry_breakers: %d is not a token; ids are 0 to %llu",
                                  p->dry_breakers[i], (unsigned long long)vocabulary - 1);
    return KT_OK;
}

enum kt_status kt_params_resolve(const struct kt_sampling_params *given, uint64_t vocabulary,
                                 struct kt_sampling_params *params, struct kt_error *error)
{
    if (given && given->struct_size < sizeof(given->struct_size))
        return kt_engine_fail(error, KT_E_INVALID,
                              "params->struct_size is %zu; start with KT_SAMPLING_PARAMS_INIT",
                              given->struct_size);
    memset(params, 0, sizeof(*params));
    if (given)
        memcpy(params, given, given->struct_size < sizeof(*params) ? given->struct_size : sizeof(*params));
    enum kt_status status = check_ranges(params, error);
    if (status == KT_OK)
        status = check_arrays(params, vocabulary, error);
    if (status != KT_OK)
        return status;
    params->struct_size = sizeof(*params);
    params->top_p = params->top_p > 0 ? params->top_p : 1;
    params->typical_p = params->typical_p > 0 ? params->typical_p : 1;
    params->xtc_threshold = params->xtc_threshold > 0 ? params->xtc_threshold : 0.1;
    params->repetition_penalty = params->repetition_penalty > 0 ? params->repetition_penalty : 1;
    params->dry_base = params->dry_base > 0 ? params->dry_base : 1.75;
    params->dry_allowed_length = params->dry_allowed_length > 0 ? params->dry_allowed_length : 2;
    if (params->top_k == 0 || params->top_k > vocabulary)
        params->top_k = (uint32_t)vocabulary;
    return KT_OK;
}

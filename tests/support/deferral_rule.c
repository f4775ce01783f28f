/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/deferral_rule.h"

/* Is slot k among the n of highest weight? As many slots are higher as come before it in order. */
static bool is_high(const float *weights, uint32_t top_k, uint32_t k, uint32_t n)
{
    uint32_t before = 0;
    for (uint32_t other = 0; other < top_k; other++)
        before += weights[other] > weights[k] || (other < k && !(weights[other] < weights[k]));
    return before < n;
}

bool rule_is_immediate(const struct kt_forward *forward, uint32_t t, uint32_t k, uint32_t n_protected,
                       bool per_token)
{
    uint32_t top_k = forward->top_k;
    if (per_token)
        return is_high(forward->router_weights + t * top_k, top_k, k, n_protected);
    for (uint32_t other = 0; other < forward->n_tokens; other++)
        for (uint32_t j = 0; j < top_k; j++)
            if (forward->expert_ids[other * top_k + j] == forward->expert_ids[t * top_k + k] &&
                is_high(forward->router_weights + other * top_k, top_k, j, n_protected))
                return true;
    return false;
}

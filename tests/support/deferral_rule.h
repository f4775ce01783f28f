/* SPDX-License-Identifier: Apache-2.0 */
/* deferral_rule.h - which experts are deferred, said again: by counting, as slowly as the definition. */
#ifndef KT_TESTS_SUPPORT_DEFERRAL_RULE_H
#define KT_TESTS_SUPPORT_DEFERRAL_RULE_H

#include <kt/kt.h>
#include <stdbool.h>

/* Is slot k of token t computed at once, where each token has n_protected slots? */
bool rule_is_immediate(const struct kt_forward *forward, uint32_t t, uint32_t k, uint32_t n_protected,
                       bool per_token);

#endif

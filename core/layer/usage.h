/* SPDX-License-Identifier: Apache-2.0 */
/* usage.h - how often each expert of a layer was requested. Forwards write it one after another, under the
 * pool's lock; any thread may read it meanwhile. */
#ifndef KT_CORE_LAYER_USAGE_H
#define KT_CORE_LAYER_USAGE_H

#include <kt/kt.h>
#include <stdatomic.h>

struct kt_usage {
    atomic_uint_fast64_t n_batches, n_tokens;
    atomic_uint_fast64_t *asked;    /* [n_experts] */
    atomic_uint_fast64_t *computed; /* [n_experts]: of these, the ones not masked; counted by route.c */
    _Atomic double *weight;         /* [n_experts]: sum of router weights */
};

enum kt_status kt_usage_create(struct kt_usage *usage, uint32_t n_experts, struct kt_error *error);
void kt_usage_destroy(struct kt_usage *usage);

/* Counts a batch; its ids have been checked. */
void kt_usage_count(struct kt_usage *usage, const struct kt_forward *forward);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.h - the weighted sum of the experts' outputs, in a fixed order. */
#ifndef KT_CORE_FORWARD_REDUCE_H
#define KT_CORE_FORWARD_REDUCE_H

#include "core/layer/route.h"

struct kt_reduce {
    const struct kt_layer *layer;
    const struct kt_route *route;
    const struct kt_forward *forward; /* complete: strides and top_k are set */
    const void *added;                /* see struct kt_extra */
    uint32_t first_token;             /* of the batch: where this chunk starts */
    uint32_t n_tokens;
};

/* Computes the share of one of n_threads threads. */
void kt_reduce_part(const struct kt_reduce *reduce, uint32_t thread, uint32_t n_threads);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* forward.h - one forward of a layer: its checks, then its run. */
#ifndef KT_CORE_FORWARD_FORWARD_H
#define KT_CORE_FORWARD_FORWARD_H

#include "core/layer/layer.h"

#include <kt/kt.h>
#include <stdbool.h>

/* Extra arguments of forwards with deferred experts. */
struct kt_extra {
    const void *added; /* [n_tokens][hidden_size] of output_dtype, dense, added to the sum; or NULL */
    const struct kt_forward *asked; /* the engine's request, for statistics; NULL: it was counted before */
    bool no_mask;                   /* masked experts have been taken out already */
};

/* Runs a checked forward; the caller does not hold the pool's lock. `extra` may be NULL. */
enum kt_status kt_forward_run(struct kt_layer *layer, const struct kt_forward *forward,
                              const struct kt_extra *extra, struct kt_error *error);

/* Does every expert exist? */
enum kt_status kt_forward_check_ids(const struct kt_layer *layer, const struct kt_forward *forward,
                                    struct kt_error *error);

/* Sets the defaults (top_k, strides) of a forward and checks all that does not depend on the content of the
 * batch. */
enum kt_status kt_forward_check(const struct kt_layer *layer, const struct kt_forward *given,
                                struct kt_forward *forward, struct kt_error *error);

/* Is the output of a forward with its defaults apart from all that is read? Rows of a batch are written while
 * later ones, and their ids, are still to be read. */
enum kt_status kt_forward_check_overlap(const struct kt_layer *layer, const struct kt_forward *forward,
                                        struct kt_error *error);

#endif

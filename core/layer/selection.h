/* SPDX-License-Identifier: Apache-2.0 */
/* selection.h - the backend that takes a layer, and how it would hold it. */
#ifndef KT_CORE_LAYER_SELECTION_H
#define KT_CORE_LAYER_SELECTION_H

#include "core/layer/lay_out.h"
#include "core/layer/layer.h"

#include <kt/kt.h>
#include <kt/plugin.h>
#include <stdbool.h>

/* A backend and how it would hold the layer. */
struct kt_selection {
    const struct kt_backend *backend;
    uint32_t n_shards;
    struct kt_shard shard[KT_MAX_NODES]; /* begin, end, layout and the sizes that follow from them */
    uint64_t nominal_size;
    char compact[112]; /* kt_plan.compact */
    bool fallback;
    char rounding[KT_ROUNDING_SIZE]; /* kt_plan.rounding */
};

/* Chooses the backend; lists the candidates in `plan` unless that is NULL. kt_selection_release frees the
 * layouts, unless a layer took them. */
enum kt_status kt_selection_make(const struct kt_layer *layer, const struct kt_selection_request *request,
                                 struct kt_selection *selection, struct kt_plan *plan,
                                 struct kt_error *error);

/* The sizes that follow from a shard's layout, for the threads of its node. */
enum kt_status kt_selection_size_shard(const struct kt_layer *layer, const struct kt_backend *backend,
                                       struct kt_shard *shard, uint32_t n_threads, struct kt_error *error);

void kt_selection_release(struct kt_selection *selection);

#endif

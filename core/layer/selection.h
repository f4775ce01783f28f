/* SPDX-License-Identifier: Apache-2.0 */
/* selection.h - the backend that takes a layer, and how it would hold it. */
#ifndef KT_CORE_LAYER_SELECTION_H
#define KT_CORE_LAYER_SELECTION_H

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

/* The weights that a backend is to take. */
struct kt_selection_request {
    const struct kt_checkpoint *checkpoint; /* whose layer this is one of, or NULL */
    const struct kt_expert *example;        /* formats and sizes; its data is not read */
    const char *backend;                    /* the only one that may take it; NULL: as the layer wishes */
    const char *form;                       /* of objects in a store; NULL: weights are to be packed */
    bool whole;                             /* do not cut over the nodes */
    bool stored;                            /* a store is to be made of the objects */
};

/* Chooses the backend; lists the candidates in `plan` unless that is NULL. kt_selection_release frees the
 * layouts, unless a layer took them. */
enum kt_status kt_selection_make(const struct kt_layer *layer, const struct kt_selection_request *request,
                                 struct kt_selection *selection, struct kt_plan *plan,
                                 struct kt_error *error);

void kt_selection_release(struct kt_selection *selection);

#endif

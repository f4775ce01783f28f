/* SPDX-License-Identifier: Apache-2.0 */
/* lay_out.h - the layout of a layer by a backend, with the values of its tunables. */
#ifndef KT_CORE_LAYER_LAY_OUT_H
#define KT_CORE_LAYER_LAY_OUT_H

#include "core/backend/tuned.h"
#include "core/layer/layer.h"

/* The weights that a backend is to take. */
struct kt_selection_request {
    const struct kt_checkpoint *checkpoint; /* whose layer this is one of, or NULL */
    const struct kt_expert *example;        /* formats and sizes; its data is not read */
    const char *backend;                    /* the only one that may take it; NULL: as the layer wishes */
    const char *form;                       /* of objects in a store; NULL: weights are to be packed */
    bool whole;                             /* do not cut over the nodes */
    bool stored;                            /* a store is to be made of the objects */
};

/* Lays out intermediate_size rows of the layer; kt_layout_release frees the layout. */
enum kt_status kt_lay_out(const struct kt_backend *backend, const struct kt_layer *layer,
                          const struct kt_selection_request *request, uint64_t intermediate_size,
                          bool compact, struct kt_layout *layout, struct kt_error *error);

/* The same for a shape, into a layout that is zero but for what its weights are for (stored, compact). `form`
 * NULL: any. */
enum kt_status kt_lay_out_shape(const struct kt_backend *backend, const struct kt_layer *layer,
                                const struct kt_shape *shape, const char *form, struct kt_layout *layout,
                                struct kt_error *error);

void kt_layout_release(const struct kt_backend *backend, struct kt_layout *layout);

/* What keys of [tuned.NAME] call this layer. */
void kt_layer_tuned_subject(const struct kt_layer *layer, const struct kt_backend *backend,
                            const struct kt_shape *shape, struct kt_tuned_subject *subject);

#endif

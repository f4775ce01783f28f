/* SPDX-License-Identifier: Apache-2.0 */
/* store_choose.h - what is asked of a call that stores, and the backend that packs. */
#ifndef KT_CORE_LAYER_STORE_CHOOSE_H
#define KT_CORE_LAYER_STORE_CHOOSE_H

#include "core/layer/layer.h"
#include "core/layer/selection.h"

#include <kt/kt.h>

/* Has the call of `function` what it needs? `layer` may be a linear; source: what is to be stored. */
enum kt_status kt_store_check(const char *function, const struct kt_layer *layer, const void *source,
                              const struct kt_store_params *params, struct kt_error *error);

/* Selects the layer's backend for uncut experts like `example`, in a form that can be stored; the caller
 * releases the selection. */
enum kt_status kt_store_choose(const struct kt_layer *layer, const struct kt_expert *example,
                               struct kt_selection *selection, struct kt_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* store_load_linear.h - the packed object of a linear in a store: reading, checking and copying it. */
#ifndef KT_CORE_LAYER_STORE_LOAD_LINEAR_H
#define KT_CORE_LAYER_STORE_LOAD_LINEAR_H

#include "core/layer/store_cut.h"

/* Compares the object in the mapped file with its checksums, which also reads it from the disk. */
enum kt_status kt_linear_check_stored(struct kt_layer *layer, struct kt_stored_source *source,
                                      struct kt_error *error);

/* For kt_fill_source.run, with a struct kt_stored_source: compares the object and gives each node its part.
 */
enum kt_status kt_linear_copy_stored(struct kt_layer *layer, void *source, struct kt_error *error);

#endif

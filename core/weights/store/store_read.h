/* SPDX-License-Identifier: Apache-2.0 */
/* store_read.h - the packed weights of layers and linears in a store: finding and checking them. */
#ifndef KT_CORE_WEIGHTS_STORE_STORE_READ_H
#define KT_CORE_WEIGHTS_STORE_STORE_READ_H

#include "core/weights/store/store.h"
#include "core/weights/table/mapper.h"

#include <stdbool.h>

extern const struct kt_mapper kt_mapper_store;

/* NULL: the layer's weights are in their source format. */
const struct kt_stored *kt_checkpoint_stored(const struct kt_checkpoint *checkpoint, uint64_t layer);

/* KT_E_FORMAT if the bytes of an expert's object are not those that were stored. */
enum kt_status kt_stored_check(const struct kt_checkpoint *checkpoint, const struct kt_stored *stored,
                               uint32_t expert, enum kt_stage stage, const void *object,
                               struct kt_error *error);

/* ---- linears ---- */

/* NULL: there is no packed linear of this name. */
const struct kt_stored *kt_stored_linear(const struct kt_checkpoint *checkpoint, const char *name);

/* Its format and sizes without data, and a copy of its bias. */
enum kt_status kt_stored_weight(struct kt_checkpoint *checkpoint, const struct kt_stored *stored,
                                struct kt_weight *weight, struct kt_error *error);

/* KT_E_FORMAT if the bytes of a piece are not those that were stored. */
enum kt_status kt_stored_check_piece(const struct kt_checkpoint *checkpoint, const struct kt_stored *stored,
                                     uint64_t piece, const void *bytes, struct kt_error *error);

#endif

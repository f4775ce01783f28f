/* SPDX-License-Identifier: Apache-2.0 */
/* store_read.h - the packed weights of layers and linears in a store: finding and checking them. */
#ifndef KT_CORE_WEIGHTS_STORE_STORE_READ_H
#define KT_CORE_WEIGHTS_STORE_STORE_READ_H

#include "core/weights/store/store.h"
#include "core/weights/store/store_linear.h"
#include "core/weights/table/mapper.h"

#include <stdbool.h>

extern const struct kt_mapper kt_mapper_store;

/* NULL: the layer's weights are in their source format. */
const struct kt_stored *kt_checkpoint_stored(const struct kt_checkpoint *checkpoint, uint64_t layer);

/* KT_E_FORMAT if the bytes of an expert's object are not those that were stored. */
enum kt_status kt_stored_check(const struct kt_checkpoint *checkpoint, const struct kt_stored *stored,
                               uint32_t expert, enum kt_stage stage, const void *object,
                               struct kt_error *error);

#endif

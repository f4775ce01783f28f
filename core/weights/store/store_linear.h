/* SPDX-License-Identifier: Apache-2.0 */
/* store_linear.h - the packed linears of a store. */
#ifndef KT_CORE_WEIGHTS_STORE_STORE_LINEAR_H
#define KT_CORE_WEIGHTS_STORE_STORE_LINEAR_H

#include "core/weights/store/store.h"

/* NULL: there is no packed linear of this name. */
const struct kt_stored *kt_stored_linear(const struct kt_checkpoint *checkpoint, const char *name);

/* Its format and sizes without data, and a copy of its bias. */
enum kt_status kt_stored_weight(struct kt_checkpoint *checkpoint, const struct kt_stored *stored,
                                struct kt_weight *weight, struct kt_error *error);

/* KT_E_FORMAT if the bytes of a piece are not those that were stored. */
enum kt_status kt_stored_check_piece(const struct kt_checkpoint *checkpoint, const struct kt_stored *stored,
                                     uint64_t piece, const void *bytes, struct kt_error *error);

#endif

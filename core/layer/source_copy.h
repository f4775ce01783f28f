/* SPDX-License-Identifier: Apache-2.0 */
/* source_copy.h - a copy of the caller's weights. */
#ifndef KT_CORE_LAYER_SOURCE_COPY_H
#define KT_CORE_LAYER_SOURCE_COPY_H

#include "core/layer/layer.h"

/* Moves the shards' views from the caller's memory, which may be freed after load, into our own. */
enum kt_status kt_layer_copy_source(struct kt_layer *layer, struct kt_error *error);

#endif

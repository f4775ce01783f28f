/* SPDX-License-Identifier: Apache-2.0 */
/* source_copy.h - copies the caller's weights for a backend that reads its source in each forward. */
#ifndef KT_CORE_LAYER_SOURCE_COPY_H
#define KT_CORE_LAYER_SOURCE_COPY_H

#include "core/layer/layer.h"

/* Copies what the views of all shards show: the caller may free its weights after loading. */
enum kt_status kt_layer_copy_source(struct kt_layer *layer, struct kt_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - making the parts of a model whose configuration is known. */
#ifndef KT_ENGINE_MODEL_MODEL_H
#define KT_ENGINE_MODEL_MODEL_H

#include "tools/engine/model/block/block.h"

enum kt_status kt_model_load(struct kt_model *model, struct kt_error *error);

#endif

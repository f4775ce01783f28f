/* SPDX-License-Identifier: Apache-2.0 */
/* rounding.h - does packing keep the source's weights, or round them once more? */
#ifndef KT_CORE_LAYER_ROUNDING_H
#define KT_CORE_LAYER_ROUNDING_H

#include "core/backend/backend.h"
#include "core/layer/layer.h"

#include <kt/plugin.h>

/* Fills `rounding` as kt_plan.rounding says. A plugin older than kt_layout.rounding keeps the formats that
 * kt_plugin.formats names; of others it is not known. */
void kt_rounding_find(const struct kt_backend *backend, const struct kt_layout *layout,
                      char rounding[KT_ROUNDING_SIZE]);

#endif

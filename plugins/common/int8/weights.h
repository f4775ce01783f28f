/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8/weights.h - weights as int8 with a scale per row: how the backends that have them hold them;
 * gemm/geometry.h says the rest. Include it from the backend's header, which says
 *
 *   BACKEND          its name, for messages
 *   OPS_NAME(level)  the name of a level's struct kt_ops
 *   OWN(function)    the name of a function that its levels share
 *
 * Numbers   w = scale * q per row of weights, q within +-127: y = (scale_x * scale_w) * (sum of
 *           q_x * q_w over all of K, exact in 32 bits).
 * Panels    [64 columns][2 tiles of 1 KB], then 32 float scales. K is filled up with code 128 (weight
 *           0), rows with weight and scale 0.
 */
#ifndef KT_PLUGINS_COMMON_INT8_WEIGHTS_H
#define KT_PLUGINS_COMMON_INT8_WEIGHTS_H

#include "plugins/common/plugin/ops.h"
#include "plugins/common/gemm/geometry.h"

/* kt_layout.form: another number where a packed byte means something else. It has the name of the
 * backend that was there first; all of them make the same bytes. */
#define FORM "amx_int8-1"
#define ROW_SUMS 0

static inline uint64_t panel_size(const struct kt_layout *layout, enum kt_stage stage)
{
    return stage_tiles(layout, stage) * PAIR_SIZE + SCALES_SIZE;
}

#endif

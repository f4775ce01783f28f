/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8/weights.h - weights as int8 with a scale per row.
 *
 *   Numbers   w = scale * q, q within +-127: y = (scale_x * scale_w) * (sum of q_x * q_w over all of K,
 *             exact in 32 bits).
 *   Panels    [64 columns][2 tiles of 1 KB], then 32 float32 scales. K is filled up with code 128 (weight
 *             0), rows with weight and scale 0.
 */
#ifndef KT_PLUGINS_COMMON_INT8_WEIGHTS_H
#define KT_PLUGINS_COMMON_INT8_WEIGHTS_H

#include "plugins/common/gemm/geometry.h"

#define ROW_SUMS 0 /* of activations, see int8/activations_tmpl.h */

static inline uint64_t panel_size(const struct kt_layout *layout, enum kt_stage stage)
{
    return stage_tiles(layout, stage) * PAIR_SIZE + SCALES_SIZE;
}

#endif

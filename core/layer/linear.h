/* SPDX-License-Identifier: Apache-2.0 */
/* linear.h - a linear: a layer of one expert that is its down projection alone. */
#ifndef KT_CORE_LAYER_LINEAR_H
#define KT_CORE_LAYER_LINEAR_H

#include "core/layer/layer.h"

#include <kt/linear.h>

struct kt_linear {
    struct kt_layer *layer;
    struct kt_checkpoint *checkpoint; /* retained if forwards read it, else NULL */
};

/* A view as the expert that is its down projection alone. */
static inline struct kt_expert kt_linear_expert(const struct kt_view *weight, const float *bias)
{
    return (struct kt_expert){.gate = KT_VIEW_INIT, .up = KT_VIEW_INIT, .down = *weight, .down_bias = bias};
}

#endif

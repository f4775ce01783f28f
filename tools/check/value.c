/* SPDX-License-Identifier: Apache-2.0 */
/* value.c - a float64 value with a bound for the error of float32. */
#include "tools/check/exact.h"

#include <math.h>

#define HALF_ULP 0x1p-24

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* What the gate and up become before they are multiplied, by the formulas of enum kt_activation. Returns how
 * many half units float32 may be off in their product: exp by 2 units, its argument by 2^-24 of itself for
 * each rounding, by which silu is scaled, and tanh by 4 units. */
static double activate(const struct kt_shape *shape, double *gate, double *up)
{
    double limit = (double)shape->limit, alpha = (double)shape->alpha, g = *gate, t = g;
    double clamped = fmax(fmin(*up, limit), -limit);
    switch (shape->activation) {
    case KT_ACTIVATION_SWIGLU:
        *up = clamped;
        t = g = fmin(g, limit);
        break;
    case KT_ACTIVATION_SWIGLUOAI:
        *up = clamped + 1;
        g = fmin(g, limit);
        t = alpha * g;
        break;
    case KT_ACTIVATION_GELU_TANH:
        t = sqrt(8 / acos(-1)) * (g + 0.044715 * g * g * g);
        *gate = g * sigmoid(t);
        return 16 + 4 * fabs(t);
    case KT_ACTIVATION_SWIGLUSTEP:
        *up = clamped;
        *gate = fmin(g * sigmoid(g), limit);
        return 16 + 2 * fabs(g);
    case KT_ACTIVATION_SITU:
        *gate = alpha * tanh(g / alpha) * sigmoid(g);
        if (limit > 0)
            *up = limit * tanh(*up / limit);
        return 40 + 2 * fabs(g);
    }
    *gate = g * sigmoid(t);
    return 16 + 2 * fabs(t);
}

/* The slope of what the gate becomes is within +-1.1 where a sigmoid scales it, for every alpha, and of GELU
 * within +-1.13; that of up within +-1. */
struct value value_activation(const struct kt_shape *shape, struct value gate, struct value up)
{
    double g = gate.value, u = up.value;
    if (isnan(g) || isnan(u))
        return (struct value){NAN, 0};
    if (shape->activation == KT_ACTIVATION_RELU2) {
        u = fmax(u, 0);
        return (struct value){u * u, (2 * u + up.bound) * up.bound + HALF_ULP * u * u + 0x1p-120};
    }
    double steps = activate(shape, &g, &u);
    double bound = 1.13 * gate.bound * (fabs(u) + up.bound) + fabs(g) * up.bound;
    return (struct value){g * u, bound + steps * HALF_ULP * fabs(g * u) + 0x1p-120};
}

/* SPDX-License-Identifier: Apache-2.0 */
/* value.c - a float64 value with a bound for the error of float32. */
#include "tools/check/exact.h"

#include <math.h>

#define HALF_ULP 0x1p-24

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* x * sigmoid(alpha x) has a slope within +-1.1 for every alpha. */
struct value value_activation(const struct kt_shape *shape, struct value gate, struct value up)
{
    double limit = (double)shape->limit, alpha = 1, g = gate.value, u = up.value;
    if (isnan(g) || isnan(u))
        return (struct value){NAN, 0};
    if (shape->activation != KT_ACTIVATION_SILU) {
        g = fmin(g, limit);
        u = fmax(fmin(u, limit), -limit);
    }
    if (shape->activation == KT_ACTIVATION_SWIGLUOAI) {
        alpha = (double)shape->alpha;
        u += 1;
    }
    double s = g * sigmoid(alpha * g);
    double bound = 1.1 * gate.bound * (fabs(u) + up.bound) + fabs(s) * up.bound;
    /* exp may be off by 2 units, and its argument is rounded: 2^-24 |alpha g| of a value that silu scales */
    double steps = 16 + 2 * fabs(alpha * g);
    return (struct value){s * u, bound + steps * HALF_ULP * fabs(s * u) + 0x1p-120};
}

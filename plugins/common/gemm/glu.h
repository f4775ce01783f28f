/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/glu.h - the activation function between the two products, on vectors.
 *
 * Each step is one IEEE operation, in the same order on every level, so levels agree to the bit. NaN is
 * kept; infinities give what the formula gives, or 0 where exp overflows.
 */
#ifndef KT_PLUGINS_COMMON_GEMM_GLU_H
#define KT_PLUGINS_COMMON_GEMM_GLU_H

#include "plugins/common/simd/simd.h"

#include <kt/plugin.h>

/*
 * e^r, and n in the low bits of *magic: x = n ln 2 + r with |r| <= 0.347, and e^r by its Taylor series to the
 * 7th power, whose next term is below 2^-27. ln 2 in two parts, the first short enough that n times it is
 * exact.
 */
INLINE vf vf_exp_rest(vf x, vf *magic)
{
    *magic = vf_fma(x, vf_set(0x1.715476p+0f), vf_set(12582912.0f));
    vf n = vf_sub(*magic, vf_set(12582912.0f));
    vf r = vf_fnma(n, vf_set(0x1.62ep-1f), x);
    r = vf_fnma(n, vf_set(0x1.0bfbe8p-15f), r);
    vf sum = vf_fma(r, vf_set(1.0f / 5040), vf_set(1.0f / 720));
    sum = vf_fma(sum, r, vf_set(1.0f / 120));
    sum = vf_fma(sum, r, vf_set(1.0f / 24));
    sum = vf_fma(sum, r, vf_set(1.0f / 6));
    sum = vf_fma(sum, r, vf_set(0.5f));
    sum = vf_fma(sum, r, vf_set(1.0f));
    return vf_fma(sum, r, vf_set(1.0f));
}

/* e^x within 0.85 units in the last place (measured), 0 below -104, infinity above 88.73. */
INLINE vf vf_exp(vf x)
{
    x = vf_min(vf_set(89.0f), x);
    x = vf_max(vf_set(-105.0f), x);
    vf magic, rest = vf_exp_rest(x, &magic);
    return vf_scale_magic(rest, magic);
}

/* x / (1 + e^-(alpha x)) */
INLINE vf vf_sigmoid_times(vf x, float alpha)
{
    vf e = vf_exp(vf_mul(x, vf_set(-alpha)));
    return vf_div(x, vf_add(vf_set(1.0f), e));
}

/* What kt_activation says of gate g and up u. The first operand of min and max is the limit, so that NaN is
 * kept. */
INLINE vf vf_glu(const struct kt_shape *shape, vf g, vf u)
{
    if (shape->activation == KT_ACTIVATION_SILU)
        return vf_mul(vf_sigmoid_times(g, 1.0f), u);
    g = vf_min(vf_set(shape->limit), g);
    u = vf_max(vf_set(-shape->limit), vf_min(vf_set(shape->limit), u));
    if (shape->activation == KT_ACTIVATION_SWIGLU)
        return vf_mul(vf_sigmoid_times(g, 1.0f), u);
    return vf_mul(vf_sigmoid_times(g, shape->alpha), vf_add(u, vf_set(1.0f)));
}

#endif

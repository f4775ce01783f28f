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
#include <stdbool.h>

/*
 * (e^r - 1) / r, and n in the low bits of *magic: x = n ln 2 + r with |r| <= 0.347, and e^r by its Taylor
 * series to the 7th power, whose next term is below 2^-27. ln 2 in two parts, the first short enough that n
 * times it is exact.
 */
INLINE vf vf_exp_series(vf x, vf *magic, vf *rest)
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
    *rest = r;
    return vf_fma(sum, r, vf_set(1.0f));
}

/* e^r, and n. */
INLINE vf vf_exp_rest(vf x, vf *magic)
{
    vf r, sum = vf_exp_series(x, magic, &r);
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

/* x / 2 (1 + tanh(t / 2)) = x / (1 + e^-t) with t = 2 sqrt(2 / pi) (x + 0.044715 x^3). Within 1.75 units in
 * the last place where x is above 0; below, t is rounded in four steps of up to 2^-24 |t|, which e^-t scales
 * with: within 2 + 2.3 |t| units (both measured). */
INLINE vf vf_gelu_tanh(vf x)
{
    vf cubic = vf_fma(vf_mul(x, x), vf_set(-0x1.2444f2p-4f), vf_set(-0x1.988454p+0f));
    return vf_div(x, vf_add(vf_set(1.0f), vf_exp(vf_mul(x, cubic))));
}

/* x / cap, by a product where the inverse of cap is a number: divisions take longer than all else here. */
INLINE vf vf_over(vf x, float cap)
{
    const float inverse = 1.0f / cap;
    return inverse < 0x1p126f ? vf_mul(x, vf_set(inverse)) : vf_div(x, vf_set(cap));
}

/* z = e^2x - 1 = 2^n (e^r - 1) + (2^n - 1), which is exact for small x, too: tanh x = z / (z + 2). That is 1
 * in float32 from 9.02. */
INLINE vf vf_tanh_part(vf x)
{
    x = vf_min(vf_set(10.0f), x);
    x = vf_max(vf_set(-10.0f), x);
    vf magic, r, sum = vf_exp_series(vf_add(x, x), &magic, &r);
    vf power = vf_scale_magic(vf_set(1.0f), magic);
    return vf_fma(vf_mul(sum, r), power, vf_sub(power, vf_set(1.0f)));
}

/* cap * tanh(x / cap); the quotient is within 3.1 units in the last place of tanh (measured). */
INLINE vf vf_cap(vf x, float cap)
{
    vf z = vf_tanh_part(vf_over(x, cap));
    return vf_mul(vf_set(cap), vf_div(z, vf_add(z, vf_set(2.0f))));
}

/* alpha * tanh(x / alpha) / (1 + e^-x), the two quotients as one */
INLINE vf vf_situ(vf x, float alpha)
{
    vf z = vf_tanh_part(vf_over(x, alpha)), e = vf_exp(vf_sub(vf_set(0.0f), x));
    vf below = vf_mul(vf_add(z, vf_set(2.0f)), vf_add(vf_set(1.0f), e));
    return vf_mul(vf_set(alpha), vf_div(z, below));
}

/* max(x, 0)^2 */
INLINE vf vf_relu2(vf x)
{
    x = vf_max(vf_set(0.0f), x);
    return vf_mul(x, x);
}

/* Is the activation one that few models have, or is there no gate? It is computed in a function by itself, so
 * that the code of the others keeps its registers. */
INLINE bool is_rare(const struct kt_shape *shape)
{
    return shape->activation > KT_ACTIVATION_NONE;
}

/* These, of gate g and up u. */
INLINE vf vf_glu_rare(const struct kt_shape *shape, vf g, vf u)
{
    const vf limit = vf_set(shape->limit);
    if (shape->activation == KT_ACTIVATION_GELU_TANH)
        return vf_mul(vf_gelu_tanh(g), u);
    if (shape->activation == KT_ACTIVATION_SWIGLUSTEP) {
        u = vf_max(vf_set(-shape->limit), vf_min(limit, u));
        return vf_mul(vf_min(limit, vf_sigmoid_times(g, 1.0f)), u);
    }
    /* SITU */
    if (shape->limit > 0)
        u = vf_cap(u, shape->limit);
    return vf_mul(vf_situ(g, shape->alpha), u);
}

/* What kt_activation says of gate g and up u, but for rare ones. The first operand of min and max is the
 * limit, so that NaN is kept. */
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

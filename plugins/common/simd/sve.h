/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simd/sve.h - ARM's SVE for products of int8, at the vector length that the compiler was told
 * (-msve-vector-bits): then vectors are types like others, and sums can stand in arrays. simd/sve_length.h
 * tells a CPU's.
 */
#ifndef KT_PLUGINS_COMMON_SIMD_SVE_H
#define KT_PLUGINS_COMMON_SIMD_SVE_H

#include "plugins/common/simd/attributes.h"

#include <arm_sve.h>
#include <stdint.h>

#define SVE_SIZE (__ARM_FEATURE_SVE_BITS / 8)
#define SVE_PARTS (64 / SVE_SIZE) /* of a line of a tile */

typedef svint8_t sv8 __attribute__((arm_sve_vector_bits(__ARM_FEATURE_SVE_BITS)));
typedef svuint8_t sv_u8 __attribute__((arm_sve_vector_bits(__ARM_FEATURE_SVE_BITS)));
typedef svint32_t sv32 __attribute__((arm_sve_vector_bits(__ARM_FEATURE_SVE_BITS)));

INLINE sv_u8 sve_load(const uint8_t *from)
{
    return svld1_u8(svptrue_b8(), from);
}

/* The same 16 activations in each 16 bytes. */
INLINE sv8 sve_repeat16(const int8_t *from)
{
    return svld1rq_s8(svptrue_b8(), from);
}

/* Adds the products of w with quad `quad` of 16 activations. */
INLINE sv32 sve_add_quad(sv32 sum, sv8 w, sv8 x, unsigned quad)
{
    switch (quad) {
    case 0:
        return svdot_lane_s32(sum, w, x, 0);
    case 1:
        return svdot_lane_s32(sum, w, x, 1);
    case 2:
        return svdot_lane_s32(sum, w, x, 2);
    default:
        return svdot_lane_s32(sum, w, x, 3);
    }
}

/* Into how many sums each sum is split: additions that wait for each other would hold up loads. */
INLINE unsigned sve_turns(unsigned sums)
{
    return sums <= 2 ? 4 : sums <= 4 ? 2 : 1;
}

#endif

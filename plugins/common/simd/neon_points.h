/* SPDX-License-Identifier: Apache-2.0 */
/* simd/neon_points.h - weights that are points of a grid, and lines by columns, for ARM. simd/scalar_points.h
 * says what each function does. */
#ifndef KT_PLUGINS_COMMON_SIMD_NEON_POINTS_H
#define KT_PLUGINS_COMMON_SIMD_NEON_POINTS_H

#include "plugins/common/simd/neon.h"
#include "plugins/common/simd/points.h"

/* Rows first and first + 1. */
INLINE int32x4_t pick_points8(const uint64_t *points, struct numbers index, int first)
{
    uint64x2_t pair = vld1q_lane_u64(points + number_of(index, first + 1),
                                     vld1q_dup_u64(points + number_of(index, first)), 1);
    return vreinterpretq_s32_u64(pair);
}

INLINE void vi_points8(const uint64_t *points, struct numbers index, int part, vi w[2])
{
    int32x4_t a = pick_points8(points, index, 4 * part), b = pick_points8(points, index, 4 * part + 2);
    w[0] = vuzp1q_s32(a, b);
    w[1] = vuzp2q_s32(a, b);
}

INLINE vi vi_points4(const uint32_t *points, struct numbers index, int part)
{
    uint32x4_t w = vld1q_dup_u32(points + number_of(index, 4 * part));
    w = vld1q_lane_u32(points + number_of(index, 4 * part + 1), w, 1);
    w = vld1q_lane_u32(points + number_of(index, 4 * part + 2), w, 2);
    return vreinterpretq_s32_u32(vld1q_lane_u32(points + number_of(index, 4 * part + 3), w, 3));
}

INLINE vi vi_negate(vi w, vi bits, int bit)
{
    uint8x16_t set = vtstq_u8(vi_bytes(bits), vdupq_n_u8((uint8_t)(1u << bit)));
    return vi_from_bytes(vsubq_u8(veorq_u8(vi_bytes(w), set), set));
}

INLINE vi vi_spread_bit(const uint8_t *p, int bit, int part)
{
    uint32x4_t lanes = vreinterpretq_u32_s32(vi_widen_u8(p, part));
    return vreinterpretq_s32_u32(vtstq_u32(lanes, vdupq_n_u32(1u << bit)));
}

INLINE vi vi_add8(vi a, vi b)
{
    return vi_from_bytes(vaddq_u8(vi_bytes(a), vi_bytes(b)));
}

INLINE vi vi_load_turned(const uint8_t *line, int part)
{
    static const uint8_t order[16] = {0, 16, 32, 48, 4, 20, 36, 52, 8, 24, 40, 56, 12, 28, 44, 60};
    return vi_from_bytes(vqtbl4q_u8(vld1q_u8_x4(line), vaddq_u8(vld1q_u8(order), vdupq_n_u8((uint8_t)part))));
}

#endif

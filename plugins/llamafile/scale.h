/* SPDX-License-Identifier: Apache-2.0 */
/* scale.h - the float parts of a product: scales and minima of a group, applied to its dot products. */
#ifndef KT_PLUGINS_LLAMAFILE_SCALE_H
#define KT_PLUGINS_LLAMAFILE_SCALE_H

#include "plugins/llamafile/dots.h"
#include "plugins/llamafile/llamafile.h"

/* ---- half panels of 32-column formats: total += dot * (d_weight * d_x), + m * sum(x) ---- */

/* Has each group a number that is added to its weights? */
INLINE bool has_offsets(struct traits t)
{
    return t.dtype == KT_DTYPE_Q4_1 || t.dtype == KT_DTYPE_Q5_1;
}

INLINE vf load_d(struct traits t, const uint8_t *scales, unsigned g, int part)
{
    const uint8_t *from = scales + g / group_share(t) * t.scale_bytes * TILE_ROWS;
    if (t.dtype == KT_DTYPE_MXFP4)
        return vf_from_e8m0_half(from, part);
    if (t.dtype == KT_DTYPE_NVFP4) /* in the dots already */
        return vf_set(1.0f);
    return vf_from_half(from + part * 2 * VEC_ROWS);
}

INLINE void add_group_32(struct traits t, int rows, const uint8_t *scales, unsigned g,
                         const uint8_t *const *x, uint64_t at, int part, vf dots[][VEC_PARTS],
                         vf total[][VEC_PARTS])
{
    vf d = load_d(t, scales, g, part), m = vf_set(0.0f);
    if (has_offsets(t))
        m = vf_from_half(scales + (4 * g + 2) * TILE_ROWS + (unsigned)part * 2 * VEC_ROWS);
    UNROLL_FOR (int r = 0; r < rows; r++) {
        const uint8_t *block = x[r] + at;
        vf factor = vf_mul(d, vf_splat(block + ACT_SCALE + 4 * g));
        total[r][part] = vf_fma(dots[r][part], factor, total[r][part]);
        if (has_offsets(t))
            total[r][part] = vf_fma(m, vf_splat(block + ACT_SUM32 + 4 * g), total[r][part]);
    }
}

/* ---- half panels of 256-column formats: total += d * sum(dot * d_x) - dmin * sum(min * sum(x)) ---- */

INLINE void add_minima(struct traits t, int rows, const uint8_t *scales, unsigned g, const uint8_t *const *x,
                       uint64_t at, int part, vf minima[][VEC_PARTS])
{
    if (t.dtype == KT_DTYPE_Q2_K) {
        vf low = vf_from_high4(scales + 32 * g, part);
        vf high = vf_from_high4(scales + 32 * g + 16, part);
        UNROLL_FOR (int r = 0; r < rows; r++) {
            const uint8_t *sums = x[r] + at + ACT_SUM16 + 8 * g;
            minima[r][part] = vf_fma(low, vf_splat(sums), minima[r][part]);
            minima[r][part] = vf_fma(high, vf_splat(sums + 4), minima[r][part]);
        }
    } else {
        vf min = vf_from_int(vi_widen_u8(scales + 128 + 16 * g, part));
        UNROLL_FOR (int r = 0; r < rows; r++)
            minima[r][part] = vf_fma(min, vf_splat(x[r] + at + ACT_SUM32 + 4 * g), minima[r][part]);
    }
}

INLINE void add_group_256(struct traits t, int rows, const uint8_t *scales, unsigned g,
                          const uint8_t *const *x, uint64_t at, int part, vf dots[][VEC_PARTS],
                          vf sums[][VEC_PARTS], vf minima[][VEC_PARTS])
{
    UNROLL_FOR (int r = 0; r < rows; r++)
        sums[r][part] = vf_fma(dots[r][part], vf_splat(x[r] + at + ACT_SCALE + 4 * g), sums[r][part]);
    if (has_minima(t.dtype))
        add_minima(t, rows, scales, g, x, at, part, minima);
}

INLINE void add_floats(struct traits t, int rows, const uint8_t *scales, unsigned g, const uint8_t *const *x,
                       uint64_t at, int part, vf dots[][VEC_PARTS], vf total[][VEC_PARTS],
                       vf sums[][VEC_PARTS], vf minima[][VEC_PARTS])
{
    if (t.block == SUPERBLOCK)
        add_group_256(t, rows, scales, g, x, at, part, dots, sums, minima);
    else
        add_group_32(t, rows, scales, g, x, at, part, dots, total);
}

/* ---- dot products of int32 in several rows: they become float32 by where they start ---- */

/* 1.5 * 2^23, where the next numbers of float32 are the next integers, and its bits. */
#define START_BASE 12582912
#define START_BITS 0x4b400000

INLINE vf take_as_float(vi v)
{
    vf f;
    memcpy(&f, &v, sizeof f);
    return f;
}

/* Scales of a group's dot products, two of those of halves; false: it has none. */
INLINE bool load_float_scales(struct traits t, struct group view, int part, vf scale[2])
{
    const uint8_t *halves = view.scales + 4 * TILE_ROWS * view.g + part * 2 * VEC_ROWS;
    vi whole[2];
    if (t.dtype == KT_DTYPE_NVFP4) {
        scale[0] = vf_from_half(halves);
        scale[1] = vf_from_half(halves + 2 * TILE_ROWS);
        return true;
    }
    if (t.block == GROUP || t.scale_bytes == 0 || has_trits(t))
        return false;
    load_scale(t, view, part, whole);
    scale[0] = vf_from_int(whole[0]);
    if (has_half_groups(t.dtype))
        scale[1] = vf_from_int(whole[1]);
    return true;
}

/* The scales of dot products that begin at START_BITS. */
struct based_scales {
    vf scale[2], less; /* less: minus the first scale times START_BASE */
    bool scaled;
};

INLINE struct based_scales load_based_scales(struct traits t, struct group view, int part)
{
    struct based_scales scales = {{vf_set(0.0f), vf_set(0.0f)}, vf_set(0.0f), false};
    scales.scaled = load_float_scales(t, view, part, scales.scale);
    scales.less = vf_mul(scales.scale[0], vf_set(-(float)START_BASE));
    return scales;
}

/* A group's dot products, or those of its halves, scaled: exact but for NVFP4, whose scales are floats. */
INLINE vf scale_based(struct traits t, vi first, vi second, const struct based_scales *scales)
{
    const vf base = vf_set((float)START_BASE);
    vf out = take_as_float(first);
    if (t.dtype == KT_DTYPE_NVFP4)
        out = vf_mul(vf_sub(out, base), scales->scale[0]);
    else
        out = scales->scaled ? vf_fma(out, scales->scale[0], scales->less) : vf_sub(out, base);
    if (has_half_groups(t.dtype))
        out = vf_fma(vf_sub(take_as_float(second), base), scales->scale[1], out);
    return out;
}

/* ---- half panels of floats ---- */

/* Two columns of a float half panel. */
INLINE void load_floats(uint32_t dtype, const uint8_t *from, int part, vf w[2])
{
    if (dtype == KT_DTYPE_BF16) {
        vi both = vi_load(from + part * 4 * VEC_ROWS);
        w[0] = vf_from_bf16_even(both);
        w[1] = vf_from_bf16_odd(both);
    } else if (dtype == KT_DTYPE_F16) {
        w[0] = vf_from_half(from + part * 2 * VEC_ROWS);
        w[1] = vf_from_half(from + 2 * TILE_ROWS + part * 2 * VEC_ROWS);
    } else {
        w[0] = vf_load(from + part * 4 * VEC_ROWS);
        w[1] = vf_load(from + 4 * TILE_ROWS + part * 4 * VEC_ROWS);
    }
}

#endif

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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * row_block_shared_scale.h - the products of a half panel with 1 to 8 rows of activations whose superblocks
 * share a scale (shared_scale.h), for AVX-512 with VNNI and formats whose superblocks have integer scales;
 * and of both half panels of a panel with 8 rows, as in row_block_vnni.h.
 *
 * vpdpbusd, vpmulld, vpdpwssd and FMA take turns in one unit, so what counts is how few of them are not
 * vpdpbusd. The dot products of two groups, or of both halves of a group, fit into int16: the first is
 * shifted to the upper half of its lane, the second adds up in the lower one. Then one vpdpwssd multiplies
 * both by their scales. The lower half starts at 2^15, which keeps it from borrowing, and one xor takes that
 * away again: all integers are exact, and so is their sum over a superblock, whose float parts come last.
 */
#ifndef KT_PLUGINS_LLAMAFILE_MULTIPLY_ROW_BLOCK_SHARED_SCALE_H
#define KT_PLUGINS_LLAMAFILE_MULTIPLY_ROW_BLOCK_SHARED_SCALE_H

#include "plugins/llamafile/multiply/row_block_vnni.h"

/* A group of a block of n rows, 8 or, of a row by itself, 1: offsets in bytes of what row 0 has, n times. */
#define SHARED_SCALE_Q BLOCK_Q /* int8[n][32] */
#define SHARED_SCALE_FACTOR 32 /* uint16[n][2]: of the scales, the second of a pair first */
#define SHARED_SCALE_START 36  /* int32[n][2]: where the dot products of halves start */
#define SHARED_SCALE_SUM 44    /* int16[n][2]: factor * sum of q, in the order of factors */
#define SHARED_SCALE_UNIT 48   /* float[n] */
#define SHARED_SCALE_SIZE 52

INLINE uint64_t size_shared_scale_block(uint64_t k)
{
    return k / GROUP * SHARED_SCALE_SIZE * BLOCKED_ROWS;
}

/* ---- copies ---- */

/* Row r of a block of n rows, as copy_row. */
INLINE void copy_shared_scale_row(const uint8_t *act, const uint8_t *next, uint64_t groups, unsigned r,
                                  unsigned n, uint8_t *to)
{
    for (uint64_t g = 0; g < groups; g++, to += n * SHARED_SCALE_SIZE) {
        const uint8_t *from = act + g / 8 * ACT_SIZE;
        const uint8_t *pairs = from + ACT_PAIRS + PAIRS_SIZE * (g % 8);
        if (g % 8 == 0)
            ask_for_next(next, g);
        memcpy(to + n * SHARED_SCALE_Q + GROUP * r, from + ACT_Q + GROUP * (g % 8), GROUP);
        memcpy(to + n * SHARED_SCALE_FACTOR + 4 * r, pairs + PAIRS_FACTOR, 4);
        memcpy(to + n * SHARED_SCALE_START + 8 * r, pairs + PAIRS_START, 8);
        memcpy(to + n * SHARED_SCALE_SUM + 4 * r, pairs + PAIRS_SUM, 4);
        memcpy(to + n * SHARED_SCALE_UNIT + 4 * r, from + ACT_UNIT, 4);
    }
}

/* ---- products ---- */

/* The scales of groups g and g + 1, or of the halves of group g: the first ones in the upper int16. */
INLINE vi load_pair_scales(struct traits t, struct group view)
{
    const uint8_t *from = find_scales(t, view, has_half_groups(t.dtype));
    if (t.dtype == KT_DTYPE_Q4_K)
        return vi_join16(vi_widen_u8(from, 0), vi_widen_u8(from + 16, 0));
    if (t.dtype == KT_DTYPE_Q2_K)
        return vi_join16(vi_scale_u4(from, 0), vi_scale_u4(from + 16, 0));
    return vi_join16(vi_wide_scale_s8(from, 0), vi_wide_scale_s8(from + 16, 0));
}

/* Adds both dot products of each row, times scales and factors, which are at `factors`. */
INLINE void add_pairs(int panels, int rows, const vi scales[2], vi dots[][8], const uint8_t *factors,
                      vi *sums)
{
    if (panels == 2)
        sums = hide_place(sums);
    UNROLL_FOR (int r = 0; r < rows; r++) {
        const vi factor = vi_broadcast(factors + 4 * r);
        UNROLL_FOR (int p = 0; p < panels; p++) {
            vi pair = vi_xor(dots[p][r], vi_set32(0x8000)), *sum = &sums[8 * p + r];
            *sum = vi_add_products16(*sum, pair, vi_mul16(scales[p], factor));
        }
    }
}

/* A group whose halves are a pair; groups g and g + 1. `views`, `sums`: of one half panel or two; those of
 * two wait in memory, as registers are scarce. */
INLINE void add_half_pair(struct traits t, int panels, int rows, const struct group *views,
                          const uint8_t *group, vi *sums)
{
    const unsigned n = rows == 1 ? 1 : BLOCKED_ROWS;
    const uint8_t *starts = group + n * SHARED_SCALE_START;
    struct planes planes[2] = {{.one = vi_dot_zero()}};
    vi dots[2][8], scales[2];
    UNROLL_FOR (int p = 0; p < panels; p++) {
        planes[p] = load_planes(t, views[p], 0);
        UNROLL_FOR (int r = 0; r < rows; r++)
            dots[p][r] = t.offset ? vi_broadcast(starts + 8 * r) : vi_dot_zero();
    }
    add_panels_columns(t, panels, rows, views, planes, group, 0, 2, dots);
    UNROLL_FOR (int p = 0; p < panels; p++) {
        UNROLL_FOR (int r = 0; r < rows; r++)
            dots[p][r] = vi_add32(vi_to_upper16(dots[p][r]),
                                  t.offset ? vi_broadcast(starts + 8 * r + 4) : vi_set32(0x8000));
    }
    add_panels_columns(t, panels, rows, views, planes, group, 2, 4, dots);
    UNROLL_FOR (int p = 0; p < panels; p++)
        scales[p] = load_pair_scales(t, views[p]);
    add_pairs(panels, rows, scales, dots, group + n * SHARED_SCALE_FACTOR, sums);
}

INLINE void add_group_pair(struct traits t, int panels, int rows, const struct group *views,
                           const uint8_t *group, vi *sums)
{
    const unsigned n = rows == 1 ? 1 : BLOCKED_ROWS;
    struct group next[2];
    struct planes planes[2] = {{.one = vi_dot_zero()}};
    vi dots[2][8], scales[2];
    UNROLL_FOR (int p = 0; p < panels; p++) {
        scales[p] = load_pair_scales(t, views[p]);
        planes[p] = load_planes(t, views[p], 0);
        UNROLL_FOR (int r = 0; r < rows; r++)
            dots[p][r] = vi_dot_zero();
    }
    add_panels_columns(t, panels, rows, views, planes, group, 0, 4, dots);
    group += n * SHARED_SCALE_SIZE;
    UNROLL_FOR (int p = 0; p < panels; p++) {
        next[p] = views[p];
        next[p].codes += 64 * t.bits;
        next[p].g++;
        planes[p] = load_planes(t, next[p], 0);
        UNROLL_FOR (int r = 0; r < rows; r++)
            dots[p][r] = vi_or(vi_to_upper16(dots[p][r]), vi_set32(0x8000));
    }
    add_panels_columns(t, panels, rows, next, planes, group, 0, 4, dots);
    add_pairs(panels, rows, scales, dots, group + n * SHARED_SCALE_FACTOR, sums);
}

/* The sums of a superblock's minima, whose groups are at `group`: exact in float32, being below 2^24. */
INLINE void add_pair_minima(struct traits t, int rows, const uint8_t *scales, const uint8_t *group,
                            vi minima[8])
{
    const unsigned n = rows == 1 ? 1 : BLOCKED_ROWS, step = has_half_groups(t.dtype) ? 1 : 2;
    UNROLL_FOR (int r = 0; r < rows; r++)
        minima[r] = vi_dot_zero();
    for (unsigned g = 0; g < 8; g += step, group += step * n * SHARED_SCALE_SIZE) {
        const uint8_t *from = scales + 128 + 16 * g,
                      *sums = group + (step - 1) * n * SHARED_SCALE_SIZE + n * SHARED_SCALE_SUM;
        vi min = step == 2 ? vi_join16(vi_widen_u8(from, 0), vi_widen_u8(from + 16, 0)) : vi_dot_zero();
        if (t.dtype == KT_DTYPE_Q2_K)
            min = vi_join16(vi_high_u4(scales + 32 * g), vi_high_u4(scales + 32 * g + 16));
        UNROLL_FOR (int r = 0; r < rows; r++)
            minima[r] = vi_add_products16(minima[r], min, vi_broadcast(sums + 4 * r));
    }
}

/* out += unit * (d * sums - dmin * minima): totals wait there, registers are scarce. */
INLINE void end_pairs(struct traits t, int rows, const uint8_t *head, const uint8_t *scales,
                      const uint8_t *group, const vi *sums, float *out)
{
    const unsigned n = rows == 1 ? 1 : BLOCKED_ROWS;
    vf d = vf_from_half(head), dmin = vf_set(0.0f), total[8];
    UNROLL_FOR (int r = 0; r < rows; r++)
        total[r] = vf_mul(d, vf_from_int(sums[r]));
    if (has_minima(t.dtype)) {
        vi minima[8];
        add_pair_minima(t, rows, scales, group, minima);
        dmin = vf_from_half(head + 2 * TILE_ROWS);
        UNROLL_FOR (int r = 0; r < rows; r++)
            total[r] = vf_fnma(dmin, vf_from_int(minima[r]), total[r]);
    }
    UNROLL_FOR (int r = 0; r < rows; r++)
        vf_store(out + r * PANEL_ROWS, vf_fma(total[r], vf_splat(group + n * SHARED_SCALE_UNIT + 4 * r),
                                              vf_load(out + r * PANEL_ROWS)));
}

/* Half panels, one or two; `second` is the offset of the other. */
INLINE void multiply_pairs(struct traits t, int panels, int rows, const uint8_t *half_panel, uint64_t second,
                           uint64_t k, const uint8_t *block, uint64_t distance, float *out)
{
    const unsigned step = has_half_groups(t.dtype) ? 1 : 2,
                   size = SHARED_SCALE_SIZE * (rows == 1 ? 1 : BLOCKED_ROWS);
    const uint8_t *scales = half_panel, *head = NULL;
    vi registers[2 * 8], *sums = registers;
    if (panels == 2)
        sums = hide_place(sums);
    UNROLL_FOR (int p = 0; p < panels; p++) {
        UNROLL_FOR (int r = 0; r < rows; r++)
            vf_store(out + r * PANEL_ROWS + p * TILE_ROWS, vf_set(0.0f));
    }
    for (uint64_t s = 0; s < k / SUPERBLOCK; s++) {
        const uint8_t *heads = scales + size_scales(t, 8), *codes = heads + size_heads(t, s);
        head = codes > heads ? heads : head + t.head_bytes * TILE_ROWS;
        for (const uint8_t *line = scales; line < codes; line += 64)
            bring_panels(line, second, panels, distance, 1);
        UNROLL_FOR (int i = 0; i < 8 * panels; i++)
            sums[i] = vi_dot_zero();
        for (unsigned g = 0; g < 8; g += step, codes += 64 * step * t.bits, block += step * size) {
            const struct group views[2] = {{.codes = codes, .scales = scales, .g = g},
                                           {.codes = codes + second, .scales = scales + second, .g = g}};
            bring_panels(codes, second, panels, distance, step * t.bits);
            if (step == 2)
                add_group_pair(t, panels, rows, views, block, sums);
            else
                add_half_pair(t, panels, rows, views, block, sums);
        }
        UNROLL_FOR (int p = 0; p < panels; p++) {
            const uint64_t at = p ? second : 0;
            end_pairs(t, rows, head + at, scales + at, block - 8 * size, sums + 8 * p, out + p * TILE_ROWS);
        }
        scales = codes;
    }
}

#endif

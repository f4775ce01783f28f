/* SPDX-License-Identifier: Apache-2.0 */
/*
 * few_rows.h - the products of a half panel with a few rows of activations: out[r * PANEL_ROWS + i]. A row's
 * result does not depend on the rows beside it, nor on their number. Integer parts are exact, and float
 * parts have one order on all levels, so results agree to the bit; rows whose superblocks share a scale are
 * multiplied elsewhere (row_block_shared_scale.h), and those whose sums are bounded have scales of their own
 * (bounded_sums.h).
 *
 * LIGHT_AHEAD: 1 where a row or two of whole bytes or floats prefetch as far ahead as others; default 0.
 */
#ifndef KT_PLUGINS_LLAMAFILE_MULTIPLY_FEW_ROWS_H
#define KT_PLUGINS_LLAMAFILE_MULTIPLY_FEW_ROWS_H

#ifndef LIGHT_AHEAD
#define LIGHT_AHEAD 0
#endif

#include "plugins/common/gemm/prefetch.h"
#include "plugins/llamafile/multiply/prefetch.h"
#include "plugins/llamafile/multiply/dots.h"
#include "plugins/llamafile/llamafile.h"
#include "plugins/llamafile/pack/activations.h"
#include "plugins/llamafile/multiply/lookup_sums.h"
#ifdef ROWS_BOUNDED
#include "plugins/llamafile/multiply/bounded_dots.h"
#endif

INLINE void add_superblock(struct traits t, int rows, const uint8_t *head, vf total[][VEC_PARTS],
                           vf sums[][VEC_PARTS], vf minima[][VEC_PARTS])
{
    UNROLL_FOR (int part = 0; part < VEC_PARTS; part++) {
        vf d = vf_from_half(head + part * 2 * VEC_ROWS);
        if (format_unit(t.dtype) != 1.0f)
            d = vf_mul(d, vf_set(format_unit(t.dtype)));
        vf dmin = vf_set(0.0f);
        if (has_minima(t.dtype))
            dmin = vf_from_half(head + 2 * TILE_ROWS + part * 2 * VEC_ROWS);
        UNROLL_FOR (int r = 0; r < rows; r++) {
            total[r][part] = vf_fma(d, sums[r][part], total[r][part]);
            if (has_minima(t.dtype))
                total[r][part] = vf_fnma(dmin, minima[r][part], total[r][part]);
        }
    }
}

/* ---- one half panel ---- */

INLINE void clear_parts(int rows, vf sums[][VEC_PARTS])
{
    UNROLL_FOR (int r = 0; r < rows; r++) {
        UNROLL_FOR (int part = 0; part < VEC_PARTS; part++)
            sums[r][part] = vf_set(0.0f);
    }
}

INLINE void store(int rows, vf sums[][VEC_PARTS], float *out)
{
    UNROLL_FOR (int r = 0; r < rows; r++) {
        UNROLL_FOR (int part = 0; part < VEC_PARTS; part++)
            vf_store(out + r * PANEL_ROWS + part * VEC_ROWS, sums[r][part]);
    }
}

#ifdef DOTS_SMMLA
#include "plugins/llamafile/multiply/smmla.h"
#endif

INLINE void add_group(struct traits t, int rows, struct group group, const uint8_t *const *x, uint64_t at,
                      vf total[][VEC_PARTS], vf sums[][VEC_PARTS], vf minima[][VEC_PARTS])
{
    const uint8_t *scales = group.scales;
    const unsigned g = group.g;
    vf dots[8][VEC_PARTS];
    vi scale[VEC_PARTS][2];
    if (rows == 1) {
        UNROLL_FOR (int part = 0; part < VEC_PARTS; part++)
            load_scale(t, group, part, scale[part]);
#ifdef ROWS_BOUNDED
        if (is_bounded(t))
            dot_one_bounded(t, group, scale, x[0] + at, dots[0]);
        else
#endif
            dot_one(t, group, scale, x[0] + at, dots[0]);
        UNROLL_FOR (int part = 0; part < VEC_PARTS; part++)
            add_floats(t, rows, scales, g, x, at, part, dots, total, sums, minima);
        return;
    }
#ifdef DOTS_SMMLA
    add_group_pairs(t, rows, group, x, at, total, sums, minima);
#else
    /* A real loop, whose count compilers do not know: if it is unrolled, they keep the activations of the
     * first part for the second, for which there are no registers. */
    int parts = VEC_PARTS;
    if (VEC_PARTS > 1)
        __asm__("" : "+r"(parts));
    for (int part = 0; part < parts; part++) {
        load_scale(t, group, part, scale[0]);
        dot_rows(t, rows, group, scale[0], x, at, part, dots);
        add_floats(t, rows, scales, g, x, at, part, dots, total, sums, minima);
    }
#endif
}

/* A row or two of whole bytes are multiplied faster than memory delivers them: then AMD's hardware prefetcher
 * is always ahead, and distant prefetches only disturb it. */
INLINE uint64_t choose_distance(bool light, uint64_t distance)
{
    return light && !LIGHT_AHEAD && distance > STREAMED_DISTANCE ? STREAMED_DISTANCE : distance;
}

INLINE void multiply_quants(struct traits t, int rows, const uint8_t *half_panel, uint64_t k,
                            const uint8_t *const *x, const uint8_t *const *tables, uint64_t asked, float *out)
{
    vf total[8][VEC_PARTS], sums[8][VEC_PARTS], minima[8][VEC_PARTS];
    /* what is looked up takes longer, for its bytes, than what is multiplied */
    const uint64_t distance = choose_distance(t.bits == 8 && rows <= 2 && VEC_DOT_WIDE,
                                              has_sums(t.dtype, t.compact) ? 2 * asked : asked);
    const unsigned step = has_sums(t.dtype, t.compact) ? 2 : 1;
    uint64_t groups = k / GROUP, at = 0, sums_at = 0;
    const uint8_t *scales = half_panel, *head = NULL;
    clear_parts(rows, total);
    for (uint64_t s = 0; groups > 0; s++, at += ACT_SIZE) {
        unsigned n = groups < 8 ? (unsigned)groups : 8;
        const uint8_t *heads = scales + size_scales(t, n), *group = heads + size_heads(t, s);
        head = group > heads ? heads : head + t.head_bytes * TILE_ROWS;
        for (const uint8_t *line = scales; line < group; line += 64)
            bring(line, distance, 1);
        if (t.block == SUPERBLOCK) {
            clear_parts(rows, sums);
            clear_parts(rows, minima);
        }
        for (unsigned g = 0; g < n; g += step) {
            struct found found;
            struct group view = {.codes = group,
                                 .scales = scales,
                                 .g = g,
                                 .found = &found,
                                 .sums = tables,
                                 .sums_at = sums_at};
            if (has_sums(t.dtype, t.compact)) {
                bring(group, distance, step * t.bits);
                add_two_groups(t, rows, view, x, at, total, sums);
            } else if (t.compact && g < compact_coded(t.dtype)) {
                bring(group, distance, t.bits + 1);
                find_points(make_coded(t), view, &found);
                add_group(make_coded(t), rows, view, x, at, total, sums, minima);
            } else {
                bring(group, distance, t.bits);
                find_points(t, view, &found);
                add_group(t, rows, view, x, at, total, sums, minima);
            }
            group += size_groups(t, g + step) - size_groups(t, g);
            sums_at += step * size_group_sums(t.dtype);
        }
        if (t.block == SUPERBLOCK)
            add_superblock(t, rows, head, total, sums, minima);
        scales = group;
        groups -= n;
    }
    store(rows, total, out);
}

/* Even and odd columns have sums of their own, so that additions overlap. The odd column after the
 * last is zero in the half panel and in x. */
INLINE void multiply_floats(uint32_t dtype, int rows, const uint8_t *half_panel, uint64_t k,
                            const uint8_t *const *x, uint64_t asked, float *out)
{
    const uint64_t distance = choose_distance(rows == 1 && VEC_ROWS == 16, asked);
    vf even[8][VEC_PARTS], odd[8][VEC_PARTS];
    unsigned step = dtype == KT_DTYPE_F32 ? 128 : 64;
    clear_parts(rows, even);
    clear_parts(rows, odd);
    for (uint64_t c = 0; c < k; c += 2, half_panel += step) {
        bring(half_panel, distance, step / 64);
        UNROLL_FOR (int part = 0; part < VEC_PARTS; part++) {
            vf w[2];
            load_floats(dtype, half_panel, part, w);
            UNROLL_FOR (int r = 0; r < rows; r++) {
                even[r][part] = vf_fma(w[0], vf_splat(x[r] + 4 * c), even[r][part]);
                odd[r][part] = vf_fma(w[1], vf_splat(x[r] + 4 * c + 4), odd[r][part]);
            }
        }
    }
    UNROLL_FOR (int r = 0; r < rows; r++) {
        UNROLL_FOR (int part = 0; part < VEC_PARTS; part++)
            even[r][part] = vf_add(even[r][part], odd[r][part]);
    }
    store(rows, even, out);
}

#endif

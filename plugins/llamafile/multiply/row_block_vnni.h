/* SPDX-License-Identifier: Apache-2.0 */
/*
 * row_block_vnni.h - the products of a half panel with 2 to 8 rows of a block, for AVX-512 with VNNI: the
 * same numbers in the same order as few_rows.h's, so a row has the same bits. vpdpbusd takes a quad of
 * activations from memory and broadcasts it. `panels` is 1, or 2: both half panels of a panel, with 8 rows;
 * then a quad is loaded once for both, as a CPU that multiplies twice a cycle loads no more than that, too.
 * Arrays of 8 are those of a half panel's rows.
 */
#ifndef KT_PLUGINS_LLAMAFILE_MULTIPLY_ROW_BLOCK_VNNI_H
#define KT_PLUGINS_LLAMAFILE_MULTIPLY_ROW_BLOCK_VNNI_H

#include "plugins/llamafile/multiply/row_block.h"
#include "plugins/llamafile/multiply/few_rows.h"

/* Vectors that wait in memory, as registers are scarce: if the compiler knew where, it would choose others.
 */
INLINE void *hide_place(void *place)
{
    __asm__("" : "+r"(place));
    return place;
}

/* Prefetches n lines of a half panel, and of the other, which lies `second` behind it. */
INLINE void bring_panels(const uint8_t *from, uint64_t second, int panels, uint64_t distance, unsigned n)
{
    bring(from, distance, n);
    if (panels == 2)
        bring(from + second, distance, n);
}

/* How the format's codes are multiplied here: those of MXFP4 as signed ones, whose offset is a power of two.
 */
INLINE struct traits make_blocked(struct traits t)
{
    if (t.dtype == KT_DTYPE_MXFP4)
        t.offset = 0;
    return t;
}

/* Do dot products become float32 by where they start? */
INLINE bool starts_as_float(struct traits t)
{
    return t.dtype == KT_DTYPE_Q6_K;
}

/* The start of row r's dot products, over half a group where these have scales of their own: minus what the
 * offset of the codes adds. */
INLINE vi start_row(struct traits t, const uint8_t *group, int r, int half)
{
    const int offset = is_signed(t) ? 128 : t.offset;
    if (starts_as_float(t))
        return vi_broadcast(group + BLOCK_START + 8 * r + 4 * half);
    if (offset == 0)
        return vi_dot_zero();
    if (has_half_groups(t.dtype))
        return vi_broadcast_times(group + BLOCK_NEG16 + 8 * r + 4 * half, offset);
    return vi_broadcast_times(group + BLOCK_NEG32 + 4 * r, offset);
}

/* Adds the products of columns 8 * begin.. to 8 * end of a group, whose activations come first. */
INLINE void add_columns(struct traits t, int rows, struct group view, const struct planes *planes,
                        const uint8_t *group, int begin, int end, vi sum[8])
{
    const bool two_chains = rows < 4;
    vi second[8];
    UNROLL_FOR (int r = 0; r < rows; r++)
        second[r] = vi_dot_zero();
    UNROLL_FOR (int c = begin; c < end; c++) {
        vi w[2];
        decode_weights(t, view, planes, c, 0, w);
        UNROLL_FOR (int i = 0; i < 2; i++) {
            UNROLL_FOR (int r = 0; r < rows; r++) {
                const int8_t *quad = (const int8_t *)group + BLOCK_Q + GROUP * r + 8 * c + 4 * i;
                if (two_chains && i)
                    second[r] = vi_dot_add_at(second[r], w[i], quad);
                else
                    sum[r] = vi_dot_add_at(sum[r], w[i], quad);
            }
        }
    }
    UNROLL_FOR (int r = 0; r < rows; r++)
        sum[r] = two_chains ? vi_add32(sum[r], second[r]) : sum[r];
}

/* ... of two half panels: a quad is broadcast once for both. */
INLINE void add_columns_twice(struct traits t, int rows, const struct group views[2],
                              const struct planes planes[2], const uint8_t *group, int begin, int end,
                              vi sum[2][8])
{
    UNROLL_FOR (int c = begin; c < end; c++) {
        vi w[2][2];
        UNROLL_FOR (int p = 0; p < 2; p++)
            decode_weights(t, views[p], &planes[p], c, 0, w[p]);
        UNROLL_FOR (int i = 0; i < 2; i++) {
            UNROLL_FOR (int r = 0; r < rows; r++) {
                const vi quad = vi_broadcast(group + BLOCK_Q + GROUP * r + 8 * c + 4 * i);
                UNROLL_FOR (int p = 0; p < 2; p++)
                    sum[p][r] = vi_dot_add_quads(sum[p][r], w[p][i], quad);
            }
        }
    }
}

/* ... of one half panel or two. */
INLINE void add_panels_columns(struct traits t, int panels, int rows, const struct group *views,
                               const struct planes *planes, const uint8_t *group, int begin, int end,
                               vi sum[][8])
{
    if (panels == 1)
        add_columns(t, rows, views[0], planes, group, begin, end, sum[0]);
    else
        add_columns_twice(t, rows, views, planes, group, begin, end, sum);
}

/* Adds columns 16 * half.. of a group, and where a group has but one sum, `sum` goes on. */
INLINE void add_half(struct traits t, int panels, int rows, const struct group *views,
                     const struct planes *planes, const uint8_t *group, int half, vi sum[][8])
{
    const bool begins = half == 0 || has_half_groups(t.dtype);
    UNROLL_FOR (int p = 0; p < panels; p++) {
        UNROLL_FOR (int r = 0; r < rows; r++)
            sum[p][r] = begins ? start_row(t, group, r, half) : sum[p][r];
    }
    add_panels_columns(t, panels, rows, views, planes, group, 2 * half, 2 * half + 2, sum);
}

/*
 * The dot products of a group, scaled. Products with integer scales are exact in float32: they are below 2^23
 * (q5_k, q6_k), 127 * 127 * 32 columns * 32 of iq4_xs. So two halves are rounded once, as the sum of their
 * integers is. Intel's CPUs multiply int32 in two steps, on the ports that vpdpbusd wants. Integers behind
 * START_BASE are float32 as they stand; the base, times the first scale, is exact, too.
 */
INLINE void dot_block(struct traits t, int panels, int rows, const struct group *views, const uint8_t *group,
                      vf out[][8])
{
    struct planes planes[2] = {{.one = vi_dot_zero()}};
    const bool halves = has_half_groups(t.dtype);
    const vf base = vf_set((float)START_BASE);
    vf scale[2][2];
    bool scaled = false;
    vi sum[2][8];
    UNROLL_FOR (int p = 0; p < panels; p++) {
        planes[p] = load_planes(t, views[p], 0);
        scale[p][0] = scale[p][1] = vf_set(0.0f);
        scaled = load_float_scales(t, views[p], 0, scale[p]);
    }
    add_half(t, panels, rows, views, planes, group, 0, sum);
    UNROLL_FOR (int p = 0; p < panels; p++) {
        const vf less = vf_mul(scale[p][0], vf_set(-(float)START_BASE));
        UNROLL_FOR (int r = 0; r < rows; r++) {
            if (starts_as_float(t))
                out[p][r] = vf_fma(take_as_float(sum[p][r]), scale[p][0], less);
            else
                out[p][r] = halves ? vf_mul(vf_from_int(sum[p][r]), scale[p][0]) : vf_set(0.0f);
        }
    }
    add_half(t, panels, rows, views, planes, group, 1, sum);
    UNROLL_FOR (int p = 0; p < panels; p++) {
        UNROLL_FOR (int r = 0; r < rows; r++) {
            if (starts_as_float(t))
                out[p][r] = vf_fma(vf_sub(take_as_float(sum[p][r]), base), scale[p][1], out[p][r]);
            else if (halves)
                out[p][r] = vf_fma(vf_from_int(sum[p][r]), scale[p][1], out[p][r]);
            else
                out[p][r] = scaled ? vf_mul(vf_from_int(sum[p][r]), scale[p][0]) : vf_from_int(sum[p][r]);
        }
    }
}

/* ---- scales: the float parts, in dots.h's order ---- */

/* Sums of two half panels wait in memory, at `sums`: registers are scarce. */
INLINE void add_block_group(struct traits t, int panels, int rows, const struct group *views,
                            const uint8_t *group, vf *sums)
{
    vf dots[2][8];
    dot_block(t, panels, rows, views, group, dots);
    if (panels == 2)
        sums = hide_place(sums);
    UNROLL_FOR (int p = 0; p < panels; p++) {
        const struct group view = views[p];
        vf d = vf_set(0.0f), m = vf_set(0.0f);
        if (t.block != SUPERBLOCK)
            d = load_d(t, view.scales, view.g, 0);
        if (has_offsets(t))
            m = vf_from_half(view.scales + (4 * view.g + 2) * TILE_ROWS);
        UNROLL_FOR (int r = 0; r < rows; r++) {
            vf scale = vf_splat(group + BLOCK_SCALE + 4 * r), *sum = &sums[8 * p + r];
            *sum = vf_fma(dots[p][r], t.block == SUPERBLOCK ? scale : vf_mul(d, scale), *sum);
            if (has_offsets(t))
                *sum = vf_fma(m, vf_splat(group + BLOCK_SUM32 + 4 * r), *sum);
        }
    }
}

/* Of a superblock, whose groups are at `group`. */
INLINE void add_block_minima(struct traits t, int rows, const uint8_t *scales, const uint8_t *group,
                             vf minima[8])
{
    UNROLL_FOR (int r = 0; r < rows; r++)
        minima[r] = vf_set(0.0f);
    for (unsigned g = 0; g < 8; g++, group += BLOCK_GROUP) {
        if (t.dtype == KT_DTYPE_Q2_K) {
            vf low = vf_from_high4(scales + 32 * g, 0), high = vf_from_high4(scales + 32 * g + 16, 0);
            UNROLL_FOR (int r = 0; r < rows; r++) {
                minima[r] = vf_fma(low, vf_splat(group + BLOCK_SUM16 + 8 * r), minima[r]);
                minima[r] = vf_fma(high, vf_splat(group + BLOCK_SUM16 + 8 * r + 4), minima[r]);
            }
        } else {
            vf min = vf_from_int(vi_widen_u8(scales + 128 + 16 * g, 0));
            UNROLL_FOR (int r = 0; r < rows; r++)
                minima[r] = vf_fma(min, vf_splat(group + BLOCK_SUM32 + 4 * r), minima[r]);
        }
    }
}

/* Adds a superblock's sums to `out`, where totals wait: registers are scarce. */
INLINE void end_superblock(struct traits t, int rows, const uint8_t *head, const uint8_t *scales,
                           const uint8_t *group, const vf *sums, float *out)
{
    vf d = vf_from_half(head), dmin = vf_set(0.0f), minima[8];
    if (format_unit(t.dtype) != 1.0f)
        d = vf_mul(d, vf_set(format_unit(t.dtype)));
    UNROLL_FOR (int r = 0; r < rows; r++)
        vf_store(out + r * PANEL_ROWS, vf_fma(d, sums[r], vf_load(out + r * PANEL_ROWS)));
    if (!has_minima(t.dtype))
        return;
    add_block_minima(t, rows, scales, group, minima);
    dmin = vf_from_half(head + 2 * TILE_ROWS);
    UNROLL_FOR (int r = 0; r < rows; r++)
        vf_store(out + r * PANEL_ROWS, vf_fnma(dmin, minima[r], vf_load(out + r * PANEL_ROWS)));
}

/* Half panels, one or two; `second` is the offset of the other. */
INLINE void multiply_panels(struct traits format, int panels, int rows, const uint8_t *half_panel,
                            uint64_t second, uint64_t k, const uint8_t *block, uint64_t distance, float *out)
{
    const struct traits t = make_blocked(format);
    const int ending = t.block == SUPERBLOCK ? panels : 0; /* half panels whose superblocks end in float32 */
    const uint8_t *scales = half_panel, *head = NULL;
    uint64_t groups = k / GROUP;
    vf registers[2 * 8], *sums = registers;
    if (panels == 2)
        sums = hide_place(sums);
    UNROLL_FOR (int p = 0; p < panels; p++) {
        UNROLL_FOR (int r = 0; r < rows; r++) {
            sums[8 * p + r] = vf_set(0.0f);
            vf_store(out + r * PANEL_ROWS + p * TILE_ROWS, vf_set(0.0f));
        }
    }
    for (uint64_t s = 0; groups > 0; s++) {
        unsigned n = groups < 8 ? (unsigned)groups : 8;
        const uint8_t *heads = scales + size_scales(t, n), *codes = heads + size_heads(t, s);
        head = codes > heads ? heads : head + t.head_bytes * TILE_ROWS;
        for (const uint8_t *line = scales; line < codes; line += 64)
            bring_panels(line, second, panels, distance, 1);
        for (unsigned g = 0; g < n; g++, codes += 64 * t.bits, block += BLOCK_GROUP) {
            const struct group views[2] = {{.codes = codes, .scales = scales, .g = g},
                                           {.codes = codes + second, .scales = scales + second, .g = g}};
            bring_panels(codes, second, panels, distance, t.bits);
            add_block_group(t, panels, rows, views, block, sums);
        }
        UNROLL_FOR (int p = 0; p < ending; p++) {
            const uint64_t at = p ? second : 0;
            end_superblock(t, rows, head + at, scales + at, block - 8 * BLOCK_GROUP, sums + 8 * p,
                           out + p * TILE_ROWS);
            UNROLL_FOR (int r = 0; r < rows; r++)
                sums[8 * p + r] = vf_set(0.0f);
        }
        scales = codes;
        groups -= n;
    }
    UNROLL_FOR (int p = 0; p < panels - ending; p++) {
        UNROLL_FOR (int r = 0; r < rows; r++)
            vf_store(out + r * PANEL_ROWS + p * TILE_ROWS, sums[8 * p + r]);
    }
}

#endif

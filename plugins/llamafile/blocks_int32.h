/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocks_int32.h - the products of a half panel with 2 to 8 rows of a block, for AVX-512 with VNNI: the same
 * numbers in the same order as product.h's, so a row has the same bits. vpdpbusd takes a quad of activations
 * from memory and broadcasts it, which costs nothing beside the product.
 */
#ifndef KT_PLUGINS_LLAMAFILE_BLOCKS_INT32_H
#define KT_PLUGINS_LLAMAFILE_BLOCKS_INT32_H

#include "plugins/llamafile/blocks.h"
#include "plugins/llamafile/product.h"

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

/* Adds columns 16 * half.. of a group, and where a group has but one sum, `sum` goes on. */
INLINE void add_half(struct traits t, int rows, struct group view, const struct planes *planes,
                     const uint8_t *group, int half, vi sum[8])
{
    const bool begins = half == 0 || has_half_groups(t.dtype);
    UNROLL_FOR (int r = 0; r < rows; r++)
        sum[r] = begins ? start_row(t, group, r, half) : sum[r];
    add_columns(t, rows, view, planes, group, 2 * half, 2 * half + 2, sum);
}

/*
 * The dot products of a group, scaled. Products with integer scales are exact in float32: they are below 2^23
 * (q5_k, q6_k), 127 * 127 * 32 columns * 32 of iq4_xs. So two halves are rounded once, as the sum of their
 * integers is. Intel's CPUs multiply int32 in two steps, on the ports that vpdpbusd wants. Integers behind
 * START_BASE are float32 as they stand; the base, times the first scale, is exact, too.
 */
INLINE void dot_block(struct traits t, int rows, struct group view, const uint8_t *group, vf out[8])
{
    const struct planes planes = load_planes(t, view, 0);
    const bool halves = has_half_groups(t.dtype);
    vf scale[2] = {vf_set(0.0f), vf_set(0.0f)};
    const bool scaled = load_float_scales(t, view, 0, scale);
    const vf base = vf_set((float)START_BASE), less = vf_mul(scale[0], vf_set(-(float)START_BASE));
    vi sum[8];
    add_half(t, rows, view, &planes, group, 0, sum);
    UNROLL_FOR (int r = 0; r < rows; r++) {
        if (starts_as_float(t))
            out[r] = vf_fma(take_as_float(sum[r]), scale[0], less);
        else
            out[r] = halves ? vf_mul(vf_from_int(sum[r]), scale[0]) : vf_set(0.0f);
    }
    add_half(t, rows, view, &planes, group, 1, sum);
    UNROLL_FOR (int r = 0; r < rows; r++) {
        if (starts_as_float(t))
            out[r] = vf_fma(vf_sub(take_as_float(sum[r]), base), scale[1], out[r]);
        else if (halves)
            out[r] = vf_fma(vf_from_int(sum[r]), scale[1], out[r]);
        else
            out[r] = scaled ? vf_mul(vf_from_int(sum[r]), scale[0]) : vf_from_int(sum[r]);
    }
}

/* ---- scales: the float parts, in scale.h's order ---- */

INLINE void add_block_group(struct traits t, int rows, struct group view, const uint8_t *group, vf sums[8])
{
    vf dots[8];
    dot_block(t, rows, view, group, dots);
    if (t.block == SUPERBLOCK) {
        UNROLL_FOR (int r = 0; r < rows; r++)
            sums[r] = vf_fma(dots[r], vf_splat(group + BLOCK_SCALE + 4 * r), sums[r]);
        return;
    }
    vf d = load_d(t, view.scales, view.g, 0), m = vf_set(0.0f);
    if (has_offsets(t))
        m = vf_from_half(view.scales + (4 * view.g + 2) * TILE_ROWS);
    UNROLL_FOR (int r = 0; r < rows; r++) {
        sums[r] = vf_fma(dots[r], vf_mul(d, vf_splat(group + BLOCK_SCALE + 4 * r)), sums[r]);
        if (has_offsets(t))
            sums[r] = vf_fma(m, vf_splat(group + BLOCK_SUM32 + 4 * r), sums[r]);
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
                           const uint8_t *group, const vf sums[8], float *out)
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

INLINE void multiply_blocked(struct traits format, int rows, const uint8_t *half_panel, uint64_t k,
                             const uint8_t *block, uint64_t distance, float *out)
{
    const struct traits t = make_blocked(format);
    const uint8_t *scales = half_panel, *head = NULL;
    uint64_t groups = k / GROUP;
    vf sums[8];
    UNROLL_FOR (int r = 0; r < rows; r++) {
        sums[r] = vf_set(0.0f);
        vf_store(out + r * PANEL_ROWS, sums[r]);
    }
    for (uint64_t s = 0; groups > 0; s++) {
        unsigned n = groups < 8 ? (unsigned)groups : 8;
        const uint8_t *heads = scales + size_scales(t, n), *codes = heads + size_heads(t, s);
        head = codes > heads ? heads : head + t.head_bytes * TILE_ROWS;
        for (const uint8_t *line = scales; line < codes; line += 64)
            bring(line, distance, 1);
        for (unsigned g = 0; g < n; g++, codes += 64 * t.bits, block += BLOCK_GROUP) {
            bring(codes, distance, t.bits);
            add_block_group(t, rows, (struct group){.codes = codes, .scales = scales, .g = g}, block, sums);
        }
        if (t.block == SUPERBLOCK) {
            end_superblock(t, rows, head, scales, block - 8 * BLOCK_GROUP, sums, out);
            UNROLL_FOR (int r = 0; r < rows; r++)
                sums[r] = vf_set(0.0f);
        }
        scales = codes;
        groups -= n;
    }
    const int waiting = t.block == SUPERBLOCK ? 0 : rows;
    UNROLL_FOR (int r = 0; r < waiting; r++)
        vf_store(out + r * PANEL_ROWS, sums[r]);
}

#endif

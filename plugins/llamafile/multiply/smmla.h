/* SPDX-License-Identifier: Apache-2.0 */
/*
 * smmla.h - a group of 32 columns with 2 or 4 rows of activations, by ARM's smmla: two rows of weights with
 * two of activations, 8 columns of each. Weights are decoded 4 columns at a time, so two zips join two
 * vectors of them, for all rows; rows are zipped once for the 16 rows of weights.
 */
#ifndef KT_PLUGINS_LLAMAFILE_MULTIPLY_SMMLA_H
#define KT_PLUGINS_LLAMAFILE_MULTIPLY_SMMLA_H

#include "plugins/llamafile/multiply/dots.h"

/* 8 columns of two rows of activations in each vector. */
struct row_pair {
    int8x16_t columns[4];
};

INLINE struct row_pair load_row_pair(const int8_t *first, const int8_t *second)
{
    struct row_pair pair;
    UNROLL_FOR (int i = 0; i < 2; i++) {
        int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(first + 16 * i));
        int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(second + 16 * i));
        pair.columns[2 * i] = vreinterpretq_s8_s64(vzip1q_s64(a, b));
        pair.columns[2 * i + 1] = vreinterpretq_s8_s64(vzip2q_s64(a, b));
    }
    return pair;
}

/* Columns 8c..8c+7 of rows 0 and 1 of the weights of `part`, and of rows 2 and 3. */
INLINE void decode_pairs(struct traits t, struct group group, int part, int8x16_t w[4][2])
{
    struct planes planes = load_planes(t, group, part);
    UNROLL_FOR (int c = 0; c < 4; c++) {
        vi quads[2];
        decode_weights(t, group, &planes, c, part, quads);
        w[c][0] = vreinterpretq_s8_s32(vzip1q_s32(quads[0], quads[1]));
        w[c][1] = vreinterpretq_s8_s32(vzip2q_s32(quads[0], quads[1]));
    }
}

/* Adds the products to the dots of both rows. */
INLINE void add_pair(struct traits t, int8x16_t w[4][2], const struct row_pair *x, struct dots dots[2])
{
    vi sum[2][2] = {{vi_dot_zero(), vi_dot_zero()}, {vi_dot_zero(), vi_dot_zero()}};
    const int cost = has_two_sums(t) ? 2 : 1;
    UNROLL_FOR (int c = 0; c < 4; c++) {
        vi *to = sum[c * cost / 4];
        to[0] = vmmlaq_s32(to[0], w[c][0], x->columns[c]);
        to[1] = vmmlaq_s32(to[1], w[c][1], x->columns[c]);
    }
    UNROLL_FOR (int i = 0; i < cost; i++) {
        dots[0].half[i] = vi_add32(dots[0].half[i], vuzp1q_s32(sum[i][0], sum[i][1]));
        dots[1].half[i] = vi_add32(dots[1].half[i], vuzp2q_s32(sum[i][0], sum[i][1]));
    }
}

INLINE void add_group_pairs(struct traits t, int rows, struct group group, const uint8_t *const *x,
                            uint64_t at, vf total[][VEC_PARTS], vf sums[][VEC_PARTS], vf minima[][VEC_PARTS])
{
    const unsigned g = group.g;
    struct row_pair pair[4];
    vf out[8][VEC_PARTS];
    vi scale[2];
    for (int r = 0; r < rows; r += 2)
        pair[r / 2] = load_row_pair((const int8_t *)x[r] + at + ACT_Q + GROUP * g,
                                    (const int8_t *)x[r + 1] + at + ACT_Q + GROUP * g);
    int parts = VEC_PARTS; /* see add_group */
    __asm__("" : "+r"(parts));
    for (int part = 0; part < parts; part++) {
        int8x16_t w[4][2];
        load_scale(t, group, part, scale);
        decode_pairs(t, group, part, w);
        UNROLL_FOR (int r = 0; r < rows; r += 2) {
            struct dots dots[2] = {begin_dots(t, x[r] + at, g), begin_dots(t, x[r + 1] + at, g)};
            add_pair(t, w, &pair[r / 2], dots);
            out[r][part] = finish_dots(t, dots[0], scale, group, part);
            out[r + 1][part] = finish_dots(t, dots[1], scale, group, part);
        }
        add_floats(t, rows, group.scales, g, x, at, part, out, total, sums, minima);
    }
}

#endif

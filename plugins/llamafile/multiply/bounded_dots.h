/* SPDX-License-Identifier: Apache-2.0 */
/* bounded_dots.h - dot products of rows whose sums are bounded (bounded_sums.h), which fit into int16 by
 * twos. */
#ifndef KT_PLUGINS_LLAMAFILE_MULTIPLY_BOUNDED_DOTS_H
#define KT_PLUGINS_LLAMAFILE_MULTIPLY_BOUNDED_DOTS_H

#include "plugins/llamafile/multiply/dots.h"

/* What is multiplied with columns 8c..8c+7: quads of q, and where their sum starts. */
struct bounded_quads {
    vi first, second, start;
};

INLINE struct bounded_quads load_bounded(const uint8_t *q, const uint8_t *start)
{
    return (struct bounded_quads){vi_keep(vi_splat4(q)), vi_keep(vi_splat4(q + 4)),
                                  vi_keep(vi_splat4(start))};
}

/* Adds those columns, scaled, to a group's dot products; `begins`: they are the first. */
INLINE vi add_bounded(struct traits t, vi sum, bool begins, const vi w[2], struct bounded_quads quads,
                      vi scale)
{
    vdot dots = vi_keep(vi_dot_add_quad(quads.start, w[0], quads.first));
    dots = vi_keep(vi_dot_add_quad(dots, w[1], quads.second));
    vi scaled = t.block == GROUP ? vi_dot_sum(dots) : vi_dot_scale(dots, scale);
    return vi_keep(begins ? scaled : vi_add32(sum, scaled));
}

/* As dot_one. */
INLINE void dot_one_bounded(struct traits t, struct group group, const vi scale[][2], const uint8_t *x,
                            vf out[VEC_PARTS])
{
    const struct planes none = {{vi_dot_zero(), vi_dot_zero()}, vi_dot_zero()};
    vi sum[VEC_PARTS];
    UNROLL_FOR (int part = 0; part < VEC_PARTS; part++)
        sum[part] = vi_dot_zero();
    UNROLL_FOR (int c = 0; c < 4; c++) {
        const struct bounded_quads quads =
            load_bounded(x + ACT_Q + GROUP * group.g + 8 * c, x + ACT_START + 16 * group.g + 4 * c);
        UNROLL_FOR (int part = 0; part < VEC_PARTS; part++) {
            vi w[2];
            decode_weights(t, group, &none, c, part, w);
            sum[part] = add_bounded(t, sum[part], c == 0, w, quads, scale[part][0]);
        }
    }
    UNROLL_FOR (int part = 0; part < VEC_PARTS; part++)
        out[part] = vf_from_int(sum[part]);
}

#endif

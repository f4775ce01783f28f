/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coded/dequantize_tmpl.h - tiles of codes to tiles of bfloat16, with their scales: for many rows, which
 * then pass over them as over weights that are bfloat16. A weight is rounded once, to 2^-9 of itself at
 * most.
 *
 * Parameters  DEQUANTIZES_CODES(encoding)   has the backend dequantize_codes for it? It takes scales and
 *                 offsets as load_scale and load_offset give them; default 0
 * and those of coded/gemv_tmpl.h.
 */
#ifndef KT_PLUGINS_COMMON_CODED_DEQUANTIZE_TMPL_H
#define KT_PLUGINS_COMMON_CODED_DEQUANTIZE_TMPL_H

#include "plugins/common/coded/gemv_tmpl.h"

#ifndef DEQUANTIZES_CODES
#define DEQUANTIZES_CODES(encoding) 0
#define dequantize_codes(...) (void)0
#endif

/* A line of codes of both tiles, all of it in one group, whose scales and offsets are given. */
INLINE void dequantize_line(const uint8_t *codes, const vf *scale, const vf *offset, int encoding,
                            const struct decoder *decoder, uint8_t *to)
{
    UNROLL_FOR (unsigned v = 0; v < VECS; v++) {
        uint8_t *line = to + v / VEC_PARTS * TILE_SIZE + v % VEC_PARTS * (4 * VEC_ROWS);
        vi w[CODE_LINES];
        if (DEQUANTIZES_CODES(encoding)) {
            dequantize_codes(vi_load(find_codes(codes, v)), scale[v], offset[v], line);
            continue;
        }
        decode(vi_load_once(find_codes(codes, v)), decoder, encoding, w);
        UNROLL_FOR (unsigned i = 0; i < CODE_LINES; i++) {
            vf even = vf_from_bf16_even(w[i]), odd = vf_from_bf16_odd(w[i]);
            if (OFFSETS(encoding)) {
                even = vf_sub(even, offset[v]);
                odd = vf_sub(odd, offset[v]);
            }
            vi_store(line + 64 * i, vf_make_pairs(vf_mul(even, scale[v]), vf_mul(odd, scale[v])));
        }
    }
}

/* Tiles t..stop-1 of both columns of a panel to `to`. */
INLINE void dequantize_tiles(const struct coded_panel *panel, uint64_t t, uint64_t stop, int encoding,
                             bool streamed, uint8_t *to)
{
    const struct coded *coded = &panel->coded;
    const struct decoder decoder = make_decoder(encoding);
    const unsigned lines = HAS_SUBTILE_GROUPS(encoding) ? 1 : CODE_VECTORS; /* of a step */
    const uint8_t *codes = panel->codes + t * 2 * CODES_SIZE;
    uint64_t at = t * CODE_VECTORS / lines, last = stop * CODE_VECTORS / lines;
    for (uint64_t group = at / coded->group_steps; at < last; group++) {
        const uint8_t *scales = panel->scales + group * coded->scales_step;
        uint64_t end = (group + 1) * coded->group_steps;
        vf scale[VECS], offset[VECS];
        UNROLL_FOR (unsigned v = 0; v < VECS; v++) {
            scale[v] = load_scale(coded->form, scales, v);
            offset[v] = load_offset(coded, panel->zeros + group * PANEL_ROWS, v, encoding);
        }
        for (; at < end && at < last; at++, codes += lines * 128) {
            uint64_t first = lines * at % CODE_VECTORS;
            for (unsigned i = 0; streamed && first == 0 && i < 2 * CODES_SIZE; i += 64)
                PREFETCH(codes + i + panel->distance);
            for (unsigned q = 0; q < lines; q++)
                dequantize_line(codes + 128 * q, scale, offset, encoding, &decoder,
                                to + (first + q) * CODE_LINES * 64);
            to += first + lines == CODE_VECTORS ? PAIR_SIZE : 0;
        }
    }
}

#endif

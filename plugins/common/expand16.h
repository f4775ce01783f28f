/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expand16.h - tiles of codes to tiles of bfloat16, scale and all: for many rows, which then pass over
 * them as over weights that are bfloat16 already. A weight is rounded once, to 2^-9 of itself at most.
 * Include few16.h first.
 */
#ifndef KT_PLUGINS_EXPAND16_H
#define KT_PLUGINS_EXPAND16_H

/* A tile pair's 32 columns; all of it in one group, whose scales and offsets are at hand. */
INLINE void expand_pair(const uint8_t *codes, const vf *scale, const vf *offset, int kind,
                        const struct decoder *decoder, uint8_t *to)
{
    for (unsigned q = 0; q < CODE_VECTORS; q++) {
        UNROLL
        for (unsigned v = 0; v < VECS; v++) {
            uint8_t *line = to + v / VEC_PARTS * TILE_SIZE + v % VEC_PARTS * (4 * VEC_ROWS) +
                            q * CODE_LINES * 64;
            vi w[CODE_LINES];
            decode(vi_load_once(find_codes(codes + 128 * q, v)), decoder, kind, w);
            UNROLL
            for (unsigned i = 0; i < CODE_LINES; i++) {
                vf even = vf_from_bf16_even(w[i]), odd = vf_from_bf16_odd(w[i]);
                if (OFFSETS(kind)) {
                    even = vf_sub(even, offset[v]);
                    odd = vf_sub(odd, offset[v]);
                }
                vi_store(line + 64 * i, vf_make_pairs(vf_mul(even, scale[v]), vf_mul(odd, scale[v])));
            }
        }
    }
}

/* Tiles t..stop-1 of both columns of a panel to `to`. */
INLINE void expand_tiles(const struct coded_panel *panel, uint64_t t, uint64_t stop, int kind, bool near,
                         uint8_t *to)
{
    const struct coded *coded = &panel->coded;
    const struct decoder decoder = make_decoder(kind);

    for (uint64_t group = t / coded->group_tiles; t < stop; group++) {
        const uint8_t *scales = panel->scales + group * coded->scales_step;
        uint64_t end = (group + 1) * coded->group_tiles;
        vf scale[VECS], offset[VECS];
        UNROLL
        for (unsigned v = 0; v < VECS; v++) {
            scale[v] = load_scale(coded->form, scales, v);
            offset[v] = load_offset(coded, panel->zeros + group * PANEL_ROWS, v, kind);
        }
        for (; t < end && t < stop; t++, to += PAIR_SIZE) {
            const uint8_t *codes = panel->codes + t * 2 * CODES_SIZE;
            for (unsigned i = 0; near && i < 2 * CODES_SIZE; i += 64)
                PREFETCH(codes + i + panel->ahead);
            expand_pair(codes, scale, offset, kind, &decoder, to);
        }
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * halves.h - a panel of codes with a few rows, where codes become float16 on their way to float32:
 * without AVX512_VBMI that takes the fewest instructions. Include few16.h and a decode_*.h first.
 *
 * A code in the high byte of a half, moved one bit to the right, its sign kept, is the number / 256 as
 * float16, subnormal numbers as well; but for NaN, so that panels whose mark says so take longer. The
 * conversion leaves float32 of two columns side by side, row after row: they are multiplied by pairs of
 * columns, and neighbours added up at the end of a group. A decode_*.h has for this
 *
 *   vi_interleave(a, b, high)      bytes of a and b by turns, of each 16 bytes the low or high 8
 *   make_half(codes, kind)         codes in high bytes to float16 / 256
 *   vf_from_halves(halves, high)   the first or last halves as float32
 *   vf_splat_pair(from)            two float32 in all lanes by turns
 *   vf_fold_pairs(low, high)       sums of two neighbours, in order
 */
#ifndef KT_PLUGINS_AVX512_FP8_HALVES_H
#define KT_PLUGINS_AVX512_FP8_HALVES_H

/* Tiles of 32 columns after which sums may leave their registers for those of the other vectors. */
#define CHUNK_TILES 4

/* Vectors first..first+n-1 of tiles t..end-1; the first ones bring what lies `ahead`. */
INLINE void add_halves(const uint8_t *codes, uint64_t ahead, const struct rows8 *x, uint64_t t, uint64_t end,
                       unsigned rows, unsigned first, unsigned n, int kind, vf sum[MAX_ROWS][VECS][2])
{
    const vi zero = vi_splat32(0);

    for (const uint8_t *stop = codes + (end - t) * 2 * CODES_SIZE; codes < stop; t++) {
        UNROLL
        for (unsigned i = 0; first == 0 && i < 2 * CODES_SIZE; i += 64)
            PREFETCH(codes + i + ahead);
        for (unsigned q = 0; q < CODE_VECTORS; q++, codes += 128) {
            UNROLL
            for (unsigned i = 0; i < 2; i++) {
                uint64_t line = t * X_STEP + (q * CODE_LINES + i) * LINE_STEP;
                vf w[VECS][2];
                UNROLL
                for (unsigned v = 0; v < n; v++) {
                    vi half = make_half(vi_interleave(zero, vi_load(find_codes(codes, first + v)), (int)i), kind);
                    w[v][0] = vf_from_halves(half, 0);
                    w[v][1] = vf_from_halves(half, 1);
                }
                UNROLL
                for (unsigned r = 0; r < rows; r++) {
                    vf pair = vf_splat_pair(x->x[r] + line);
                    UNROLL
                    for (unsigned v = 0; v < n; v++) {
                        sum[r][first + v][0] = vf_fma(w[v][0], pair, sum[r][first + v][0]);
                        sum[r][first + v][1] = vf_fma(w[v][1], pair, sum[r][first + v][1]);
                    }
                }
            }
        }
    }
}

/* `together`: vectors at a time. */
INLINE void multiply_halves(const struct coded_panel *panel, const struct rows8 *x, unsigned rows,
                            unsigned together, int kind, float out[MAX_ROWS][PANEL_ROWS])
{
    const struct coded *coded = &panel->coded;
    const uint8_t *scales = panel->scales, *codes = panel->codes;

    for (unsigned r = 0; r < rows; r++)
        memset(out[r], 0, sizeof out[r]);
    for (uint64_t t = 0; t < coded->tiles; scales += coded->scales_step) {
        uint64_t end = coded->tiles - t < coded->group_tiles ? coded->tiles : t + coded->group_tiles;
        vf sum[MAX_ROWS][VECS][2];
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            UNROLL
            for (unsigned v = 0; v < VECS; v++)
                sum[r][v][0] = sum[r][v][1] = vf_set(0.0f);
        while (t < end) {
            uint64_t stop = together < VECS && end - t > CHUNK_TILES ? t + CHUNK_TILES : end;
            UNROLL
            for (unsigned first = 0; first < VECS; first += together)
                add_halves(codes, panel->ahead, x, t, stop, rows, first, together, kind, sum);
            codes += (stop - t) * 2 * CODES_SIZE;
            t = stop;
        }
        UNROLL
        for (unsigned v = 0; v < VECS; v++) {
            vf scale = load_scale(coded->form, scales, v);
            UNROLL
            for (unsigned r = 0; r < rows; r++) {
                vf add = vf_mul(vf_fold_pairs(sum[r][v][0], sum[r][v][1]), vf_set(256.0f));
                float *to = &out[r][v * VEC_ROWS];
                vf_store(to, vf_fma(add, scale, vf_load(to)));
            }
        }
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shifted_tmpl.h - a panel of codes with a few rows, where codes become float32 by shifting their bits:
 * without AVX512_VBMI that takes the fewest instructions, two for each vector of numbers and a half for
 * unpacking; conversions of float16 take four.
 *
 * A code whose exponent and fraction stand where float32 has them is the number times 2^-120, also if it is
 * subnormal. NaN is not, so panels whose flag says that they have one take longer. Activations are
 * multiplied by 2^120 / unit of their 32 (shifted_rows.h), and their sum by the unit. Four columns of four
 * rows lie in 16 bytes, which become four vectors: of columns 0 and 2, then of 1 and 3, rows 0 and 2 or
 * rows 1 and 3 of each. A decode_*.h has for this
 *
 *   shift_codes(codes, odd)        bytes with even or odd places as int16, times 16
 *       vf_from_shifted(shifted, high) the low or high ones of each two as float32
 *   vf_from_nan(shifted, high)     the same, with NaN
 *   vf_load_columns(from, odd)     of four float32 the ones at even or odd places, each twice, in all 16
 *       bytes
 *   vf_fold_columns(low, high)     sums of both columns, rows in order
 *
 * Parameters  those of coded/gemv_tmpl.h
 */
#ifndef KT_PLUGINS_AVX512_FP8_SHIFTED_TMPL_H
#define KT_PLUGINS_AVX512_FP8_SHIFTED_TMPL_H

#include "plugins/avx512_fp8/avx512_fp8.h"
#include "plugins/avx512_fp8/shifted_rows.h"

#include "plugins/common/coded/gemv_tmpl.h"

/* Tiles of 32 columns after which sums may leave their registers for those of the other vectors. */
#define CHUNK_TILES 4

/* A program may have set subnormal numbers to be read as 0, which subnormal codes would be here. Returns
 * its mode. */
static inline uint32_t keep_subnormal(void)
{
    uint32_t mode = _mm_getcsr();
    _mm_setcsr(mode & ~UINT32_C(0x40));
    return mode;
}

/* Four columns of vectors first..first+n-1. */
INLINE void add_four(const uint8_t *codes, const float *const *x, unsigned rows, unsigned first, unsigned n,
                     int encoding, vf sum[MAX_ROWS][VECS][2])
{
    vf columns[MAX_ROWS][2];
    /* With one vector, numbers stay in registers while rows change; with more, rows stay. */
    UNROLL_FOR (int odd = 0; n == 1 && odd < 2; odd++) {
        vi shifted = shift_codes(vi_load(find_codes(codes, first)), odd);
        vf low = encoding == ENCODING_NAN ? vf_from_nan(shifted, 0) : vf_from_shifted(shifted, 0);
        vf high = encoding == ENCODING_NAN ? vf_from_nan(shifted, 1) : vf_from_shifted(shifted, 1);
        UNROLL_FOR (unsigned r = 0; r < rows; r++) {
            vf column = vf_load_columns(x[r], odd);
            sum[r][0][0] = vf_fma(low, column, sum[r][0][0]);
            sum[r][0][1] = vf_fma(high, column, sum[r][0][1]);
        }
    }
    if (n == 1)
        return;
    UNROLL_FOR (unsigned i = 0; i < 2 * rows; i++)
        columns[i / 2][i % 2] = vf_load_columns(x[i / 2], (int)(i % 2));
    UNROLL_FOR (unsigned v = 0; v < n; v++) {
        vi line = vi_load_once(find_codes(codes, first + v));
        UNROLL_FOR (int i = 0; i < 4; i++) {
            int odd = i / 2, high = i % 2;
            vi shifted = shift_codes(line, odd);
            vf w = encoding == ENCODING_NAN ? vf_from_nan(shifted, high) : vf_from_shifted(shifted, high);
            UNROLL_FOR (unsigned r = 0; r < rows; r++)
                sum[r][v][high] = vf_fma(w, columns[r][odd], sum[r][v][high]);
        }
    }
}

/* Vectors first..first+n-1 of tiles t..end-1; the first ones prefetch what lies `distance` ahead. */
INLINE void add_shifted(const uint8_t *codes, uint64_t distance, const struct act_rows *x, uint64_t filled,
                        uint64_t t, uint64_t end, unsigned rows, unsigned first, unsigned n, int encoding,
                        vf sum[MAX_ROWS][VECS][2])
{
    for (; t < end; t++) {
        vf own[MAX_ROWS][VECS][2];
        const float *at[MAX_ROWS];
        UNROLL_FOR (unsigned i = 0; first == 0 && i < 2 * CODES_SIZE; i += 64)
            PREFETCH(codes + i + distance);
        UNROLL_FOR (unsigned r = 0; r < rows; r++)
            at[r] = find_shifted((float *)(uintptr_t)(x->x[r] + filled * ROW_STEP), filled, t);
        UNROLL_FOR (unsigned i = 0; i < rows * n; i++)
            own[i / n][i % n][0] = own[i / n][i % n][1] = vf_set(0.0f);
        for (unsigned q = 0; q < CODE_VECTORS; q++, codes += 128) {
            add_four(codes, at, rows, first, n, encoding, own);
            UNROLL_FOR (unsigned r = 0; r < rows; r++)
                at[r] += 4;
        }
        UNROLL_FOR (unsigned r = 0; r < rows; r++) {
            vf unit = vf_splat(x->x[r] + filled * ROW_STEP + t * sizeof(float));
            UNROLL_FOR (unsigned v = 0; v < n; v++) {
                sum[r][first + v][0] = vf_fma(own[r][v][0], unit, sum[r][first + v][0]);
                sum[r][first + v][1] = vf_fma(own[r][v][1], unit, sum[r][first + v][1]);
            }
        }
    }
}

/* `together`: vectors at a time. */
INLINE void multiply_shifted(const struct coded_panel *panel, const struct act_rows *x, unsigned rows,
                             unsigned together, int encoding, float out[MAX_ROWS][PANEL_ROWS])
{
    const struct coded *coded = &panel->coded;
    const uint8_t *scales = panel->scales, *codes = panel->codes;
    const uint64_t filled = coded->tiles + coded->tiles % 2;
    for (unsigned r = 0; r < rows; r++)
        memset(out[r], 0, sizeof out[r]);
    for (uint64_t t = 0; t < coded->tiles; scales += coded->scales_step) {
        uint64_t end = coded->tiles - t < coded->group_steps ? coded->tiles : t + coded->group_steps;
        vf sum[MAX_ROWS][VECS][2];
        UNROLL_FOR (unsigned r = 0; r < rows; r++)
            UNROLL_FOR (unsigned v = 0; v < VECS; v++)
                sum[r][v][0] = sum[r][v][1] = vf_set(0.0f);
        while (t < end) {
            uint64_t stop = together < VECS && end - t > CHUNK_TILES ? t + CHUNK_TILES : end;
            UNROLL_FOR (unsigned first = 0; first < VECS; first += together)
                add_shifted(codes, panel->distance, x, filled, t, stop, rows, first, together, encoding, sum);
            codes += (stop - t) * 2 * CODES_SIZE;
            t = stop;
        }
        UNROLL_FOR (unsigned v = 0; v < VECS; v++) {
            vf scale = load_scale(coded->form, scales, v);
            UNROLL_FOR (unsigned r = 0; r < rows; r++) {
                float *to = &out[r][v * VEC_ROWS];
                vf_store(to, vf_fma(vf_fold_columns(sum[r][v][0], sum[r][v][1]), scale, vf_load(to)));
            }
        }
    }
}

#endif

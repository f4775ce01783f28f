/* SPDX-License-Identifier: Apache-2.0 */
/*
 * product_tmpl.h - GEMV with FP8 codes, and panels dequantized to bfloat16.
 *
 * Parameters  GEMV_MAX_ROWS  MR of the largest microkernel
 *             ROW_EXTRA      1: few rows go by shifted_tmpl.h; default 0: by coded/gemv_tmpl.h
 *             SHIFTED_VECS   where ROW_EXTRA is 1: vectors at a time with 2 rows and more
 *             SUM_SCALES     1: of many rows scales multiply the sums of 32 columns, so that weights are
 * decoded without them and never rounded; default 0: they multiply weights DECODER_H      the header of the
 * level's decoder and those of coded/gemv_tmpl.h.
 */
#ifndef KT_PLUGINS_AVX512_FP8_PRODUCT_TMPL_H
#define KT_PLUGINS_AVX512_FP8_PRODUCT_TMPL_H

#ifndef GEMV_MAX_ROWS
#error "avx512_fp8/product_tmpl.h: define GEMV_MAX_ROWS"
#endif
#ifndef ROW_EXTRA
#define ROW_EXTRA 0
#endif
#ifndef SUM_SCALES
#define SUM_SCALES 0
#endif
#if ROW_EXTRA && !defined SHIFTED_VECS
#error "avx512_fp8/product_tmpl.h: define SHIFTED_VECS, since ROW_EXTRA is 1"
#endif

#include "plugins/avx512_fp8/shifted_rows.h"
#include "plugins/avx512_fp8/pack.h"

#include "plugins/common/coded/dequantize_tmpl.h"

#if ROW_EXTRA
#include "plugins/avx512_fp8/shifted_tmpl.h"

/* Not inlined, so that nothing that they compute is moved out of the mode that they are called in. */
#define DEFINE_SHIFTED(name, rows, together)                                                             \
    static NOINLINE void name##_numbers(const struct coded_panel *panel, const struct act_rows *x,       \
                                        float out[MAX_ROWS][PANEL_ROWS])                                 \
    {                                                                                                    \
        multiply_shifted(panel, x, rows, together, ENCODING_NUMBERS, out);                               \
    }                                                                                                    \
    static NOINLINE void name##_nan(const struct coded_panel *panel, const struct act_rows *x,           \
                                    float out[MAX_ROWS][PANEL_ROWS])                                     \
    {                                                                                                    \
        multiply_shifted(panel, x, rows, together, ENCODING_NAN, out);                                   \
    }                                                                                                    \
    static void name(const struct panel *panel, const struct act_rows *x, struct prefetcher *prefetcher, \
                     float out[MAX_ROWS][PANEL_ROWS])                                                    \
    {                                                                                                    \
        uint32_t mode = keep_subnormal();                                                                \
        (void)prefetcher;                                                                                \
        if (panel->own.scales[panel->own.coded.scales_size - 1])                                         \
            name##_nan(&panel->own, x, out);                                                             \
        else                                                                                             \
            name##_numbers(&panel->own, x, out);                                                         \
        _mm_setcsr(mode);                                                                                \
    }

DEFINE_SHIFTED(gemv_1, 1, VECS)
DEFINE_SHIFTED(gemv_2, 2, SHIFTED_VECS)
#if GEMV_MAX_ROWS >= 4
DEFINE_SHIFTED(gemv_4, 4, SHIFTED_VECS)
#endif
#if GEMV_MAX_ROWS >= 8
DEFINE_SHIFTED(gemv_8, 8, SHIFTED_VECS)
#endif
#else
DEFINE_GEMV(gemv_1, 1, ENCODING_NUMBERS)
DEFINE_GEMV(gemv_2, 2, ENCODING_NUMBERS)
#if GEMV_MAX_ROWS >= 4
DEFINE_GEMV(gemv_4, 4, ENCODING_NUMBERS)
#endif
#if GEMV_MAX_ROWS >= 8
DEFINE_GEMV(gemv_8, 8, ENCODING_NUMBERS)
#endif
#endif

static const struct microkernel *list_gemv(const struct kt_product *job, enum kt_stage stage)
{
    static const struct microkernel gemv_microkernels[] = {
#if GEMV_MAX_ROWS >= 8
        {8, 1, {gemv_8, gemv_8}},
#endif
#if GEMV_MAX_ROWS >= 4
        {4, 1, {gemv_4, gemv_4}},
#endif
        {2, 1, {gemv_2, gemv_2}},
        {1, 1, {gemv_1, gemv_1}},
    };
    (void)job;
    (void)stage;
    return gemv_microkernels;
}

/* Where a row has one scale, panels are dequantized without it. */
static bool load_row_scales(const struct kt_product *job, enum kt_stage stage, uint64_t panel,
                            float *row_scale)
{
    const struct coded_panel coded = find_own_panel(job, stage, panel);
    const bool pending = coded.coded.groups == 1 && !SUM_SCALES;
    for (unsigned v = 0; pending && v < VECS; v++)
        vf_store(row_scale + v * VEC_ROWS, load_scale(coded.coded.form, coded.scales, v));
    return pending;
}

#if SUM_SCALES
/* multiply_bf16 of a panel that was decoded without its scales. */
INLINE void multiply_unscaled(const struct panel *panel, const struct act_rows *x, unsigned rows,
                              unsigned first, unsigned n, bool streamed, struct prefetcher *prefetcher,
                              float out[MAX_ROWS][PANEL_ROWS])
{
    const struct coded *coded = &panel->own.coded;
    const uint8_t *pair = panel->codes, *scales = panel->own.scales;
    vf sum[MAX_ROWS][VECS];
    uint32_t mode = keep_subnormal(); /* scales may be */
    __asm__ volatile("" ::: "memory");
    (void)streamed;
    clear(rows, n, sum);
    for (uint64_t t = 0, end; t < panel->tiles; scales += coded->scales_step) {
        end = panel->tiles - t < coded->group_steps ? panel->tiles : t + coded->group_steps;
        for (; t < end; t++, pair += PAIR_SIZE) {
            vf own[MAX_ROWS][VECS];
            prefetcher_step(prefetcher);
            clear(rows, n, own);
            for (unsigned q = 0; q < LINES; q++)
                add_columns(pair + 64 * q, x, t * X_STEP + q * LINE_STEP, rows, first, n, own, own);
            UNROLL_FOR (unsigned v = 0; v < n; v++) {
                vf scale = load_scale(coded->form, scales, first + v);
                UNROLL_FOR (unsigned r = 0; r < rows; r++)
                    sum[r][v] = vf_fma(own[r][v], scale, sum[r][v]);
            }
        }
    }
    store_sums(rows, first, n, sum, out);
    __asm__ volatile("" ::: "memory");
    _mm_setcsr(mode);
}
#define MULTIPLY multiply_unscaled
#endif

/* A tile of a pair as its decoder says, scale and all. */
INLINE void decode_tile(const uint8_t *codes, unsigned tile, const struct decoder *decoder, int encoding,
                        uint8_t *to)
{
    for (unsigned q = 0; q < CODE_VECTORS; q++) {
        UNROLL_FOR (unsigned v = tile * VEC_PARTS; v < (tile + 1) * VEC_PARTS; v++) {
            uint8_t *line =
                to + v / VEC_PARTS * TILE_SIZE + v % VEC_PARTS * (4 * VEC_ROWS) + q * CODE_LINES * 64;
            vi w[2];
            decode(vi_load(find_codes(codes + 128 * q, v)), decoder, encoding, w);
            vi_store(line, w[0]);
            vi_store(line + 64, w[1]);
        }
    }
}

static void bring_codes(const uint8_t *codes)
{
    for (unsigned i = 0; i < 2 * CODES_SIZE; i += 64)
        PREFETCH(codes + i);
}

/* Tiles t..stop-1 of both columns without their scale. */
static void decode_tiles(const struct coded_panel *panel, uint64_t t, uint64_t stop, bool streamed,
                         uint8_t *to)
{
    const struct decoder decoder = make_decoder(ENCODING_NUMBERS);
    const bool nan = panel->scales[panel->coded.scales_size - 1];
    for (; t < stop; t++, to += PAIR_SIZE) {
        const uint8_t *codes = panel->codes + t * 2 * CODES_SIZE;
        if (streamed)
            bring_codes(codes + panel->distance);
        UNROLL_FOR (unsigned tile = 0; tile < 2; tile++) {
            if (nan)
                decode_tile(codes, tile, &decoder, ENCODING_NAN, to);
            else
                decode_tile(codes, tile, &decoder, ENCODING_NUMBERS, to);
        }
    }
}

#if SCALED_TABLES
/* With one scale for 16 rows, the table in which codes are looked up is multiplied by it. */
static void scale_tiles(const struct coded_panel *panel, uint64_t t, uint64_t stop, bool streamed,
                        uint8_t *to)
{
    const struct coded *coded = &panel->coded;
    for (uint64_t group = t / coded->group_steps; t < stop; group++) {
        const uint8_t *scales = panel->scales + group * coded->scales_step;
        uint64_t end = (group + 1) * coded->group_steps;
        const struct decoder first = make_scaled(load_f32(scales)),
                             second = make_scaled(load_f32(scales + 4));
        for (; t < end && t < stop; t++, to += PAIR_SIZE) {
            const uint8_t *codes = panel->codes + t * 2 * CODES_SIZE;
            if (streamed)
                bring_codes(codes + panel->distance);
            decode_tile(codes, 0, &first, ENCODING_NUMBERS, to);
            decode_tile(codes, 1, &second, ENCODING_NUMBERS, to);
        }
    }
}
#endif

/* Where a row has one scale, it multiplies sums instead of weights: see bf16/epilogue.h; with SUM_SCALES
 * every scale does. */
static void dequantize_panel(const struct kt_product *job, enum kt_stage stage,
                             const struct coded_panel *panel, uint64_t t, uint64_t stop, bool streamed,
                             uint8_t *to)
{
    (void)job;
    (void)stage;
    if (panel->coded.groups == 1 || SUM_SCALES)
        decode_tiles(panel, t, stop, streamed, to);
#if SCALED_TABLES
    else if (panel->coded.form == SCALE_ONE)
        scale_tiles(panel, t, stop, streamed, to);
#endif
    else
        dequantize_tiles(panel, t, stop, ENCODING_NUMBERS, streamed, to);
}

#endif

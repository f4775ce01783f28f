/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemv_tmpl.h - few rows with panels of two half panels: what plugins/common asks of panels of codes.
 *
 * Parameters  PREFETCH_BYTES  prefetch distance; 0: the machine's (struct kt_caps.stream_ahead)
 * and those of half_panel_tmpl.h and gemm/microkernel_tmpl.h.
 */
#ifndef KT_PLUGINS_LLAMAFILE_MULTIPLY_GEMV_TMPL_H
#define KT_PLUGINS_LLAMAFILE_MULTIPLY_GEMV_TMPL_H

#ifndef PREFETCH_BYTES
#error "llamafile/gemv_tmpl.h: define PREFETCH_BYTES"
#endif

#include "plugins/llamafile/multiply/half_panel_tmpl.h"

#define EPILOGUE_H "plugins/common/bf16/epilogue.h"

/* A half panel and its kernel. */
struct half_panel {
    const struct half_panel_kernel *kernel;
    const uint8_t *data;
    uint64_t at;         /* offset of the part of an activation row that the kernel reads */
    const uint8_t *sums; /* tables of the row block's first row, where they have been made */
#ifdef ROWS_SHARE_SCALE
    const struct shared_scale_kernel *shared_scale; /* NULL: its rows' superblocks share no scale */
#endif
#ifdef BORROWS_AVX2
    const struct wide_kernel *wide; /* NULL: its format has none */
#endif
};
struct half_panels {
    struct half_panel half_panel[2];
    uint64_t k, distance; /* bytes to prefetch ahead; 0: weights come from a cache */
    uint64_t sums_size;   /* of a row's tables */
    uint32_t row_block;
    const uint8_t *blocks; /* of the row block (row_block.h) */
    uint64_t block_size;
#ifdef ROWS_SHARE_SCALE
    both_fn both; /* NULL: they differ, or are faster one by one */
#endif
};
#define PANEL_OWN struct half_panels

/* Rows of a GEMV lie one after the other on all levels. */
#define FIND_ROW(act, row_size, row) ((const uint8_t *)(act) + (row) * (row_size))

#if defined ROWS_BLOCKED && !BLOCKS_OF_8
#define MAX_ROWS 32
#endif
#include "plugins/common/gemm/microkernel_tmpl.h"
#include "plugins/common/gemm/tunables.h"

/* Must be inlined, like find_own_panel: scalar stores followed by a vector copy of the struct miss store
 * forwarding, and wait for the panel before. */
INLINE struct half_panel find_half_panel(const struct kt_layout *layout, enum kt_projection projection,
                                         const uint8_t *data, const uint8_t *scratch)
{
    uint32_t dtype = layout->shape.format[projection].dtype;
    enum kt_stage stage = projection == KT_DOWN ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
    return (struct half_panel){
        .kernel = has_bounded_sums(layout, stage)
                      ? find_bounded_kernel(dtype)
                      : find_kernel(dtype, layout->words[WORD_COMPACT] || dtype_is_compact(dtype)),
        .data = data,
        .at = dtype_is_float(dtype) ? floats_offset(layout, stage) : 0,
        .sums = scratch + sums_offset(layout, projection),
#ifdef ROWS_SHARE_SCALE
        .shared_scale = has_shared_scales(layout, stage) ? find_shared_scale_kernel(dtype) : NULL,
#endif
#ifdef BORROWS_AVX2
        .wide = find_wide(dtype),
#endif
    };
}

/* Where a panel is packed whose weights are used in place. */
static uint8_t *find_filled(const struct kt_product *job)
{
    return (uint8_t *)job->scratch + job->layout->scratch_size - filled_size(job->layout);
}

/* The scalar level takes pack/weights.c's way for all, with which the others are compared. */
#ifdef VEC_PLAIN
static const llamafile_lines_fn own_lines = NULL;
#elif defined BORROWS_AVX2
static const llamafile_lines_fn own_lines = llamafile_avx2_lines;
#else
#include "plugins/llamafile/pack/vectors.h"
static const llamafile_lines_fn own_lines = pack_lines;
#endif

static enum kt_status pack_weights(void *instance, const struct kt_pack *job, struct kt_error *error)
{
    return llamafile_pack(instance, job, own_lines, error);
}

static void fill_panel(const struct kt_product *job, enum kt_stage stage, uint64_t number)
{
    const struct llamafile_packer packer = {own_lines, false};
    if (!job->packed)
        llamafile_pack_panel(job->layout, stage, job->source, number, &packer, find_filled(job));
}
#define FILL_PANEL(job, stage, number) fill_panel(job, stage, number)

INLINE const uint8_t *find_panel(const struct kt_product *job, enum kt_stage stage, uint64_t number)
{
    return job->packed ? (const uint8_t *)job->packed + number * panel_size(job->layout, stage)
                       : find_filled(job);
}

/* The factors of both half panels. */
static bool load_row_scales(const struct kt_product *job, enum kt_stage stage, uint64_t panel,
                            float *row_scale)
{
    float factor[2];
    if (!has_factors(job->layout, stage))
        return false;
    memcpy(factor, find_panel(job, stage, panel) + halves_size(job->layout, stage), sizeof factor);
    for (unsigned row = 0; row < PANEL_ROWS; row++)
        row_scale[row] = factor[row / TILE_ROWS];
    return true;
}

INLINE struct half_panels find_own_panel(const struct kt_product *job, enum kt_stage stage, uint64_t number)
{
    const struct kt_layout *layout = job->layout;
    const uint8_t *data = find_panel(job, stage, number);
    const enum kt_projection first = tile_projection(&layout->shape, stage, 0);
    const enum kt_projection second = tile_projection(&layout->shape, stage, 1);
#ifdef ROWS_SHARE_SCALE
    const struct kt_format *format = layout->shape.format;
    const bool same = format[first].dtype == format[second].dtype;
#endif
    return (struct half_panels){
        .half_panel = {find_half_panel(layout, first, data, job->scratch),
                       find_half_panel(layout, second, data + first_half_size(layout, stage), job->scratch)},
        .k = stage_k(layout, stage),
        .distance = job->packed ? prefetch_distance(layout, PREFETCH_BYTES) : 0,
        .sums_size = size_sums(layout, stage),
        .row_block = size_row_block(job, stage),
#ifdef ROWS_BLOCKED
        .blocks = (const uint8_t *)job->scratch + blocks_offset(job, stage),
        .block_size = size_stage_block(layout, stage),
#endif
#ifdef ROWS_SHARE_SCALE
        .both = same ? find_both(format[first].dtype, has_shared_scales(layout, stage)) : NULL,
#endif
    };
}

#ifdef ROWS_BLOCKED
/* Several rows with one half panel, if its format takes blocks; one row, too, of pairs. */
INLINE bool run_block(const struct half_panels *panel, const struct half_panel *half_panel,
                      const struct act_rows *x, unsigned rows, float *out)
{
    const uint8_t *block = panel->blocks + x->first % panel->row_block / BLOCKED_ROWS * panel->block_size;
    block_fn multiply = rows > 1 && rows <= BLOCKED_ROWS ? half_panel->kernel->blocked[rows - 2] : NULL;
    blocks_fn several = rows > BLOCKED_ROWS ? half_panel->kernel->several : NULL;
#ifdef ROWS_SHARE_SCALE
    if (half_panel->shared_scale)
        multiply = half_panel->shared_scale->multiply[rows - 1];
#endif
#ifdef BORROWS_AVX2
    if (multiply && half_panel->wide)
        multiply = half_panel->wide->blocked[rows - 2];
    if (several && half_panel->wide)
        several = half_panel->wide->several;
#endif
    if (multiply)
        multiply(half_panel->data, panel->k, block, panel->distance, out);
    else if (several)
        several(half_panel->data, panel->k, block, rows, panel->distance, out);
    return multiply || several;
}
#else
#define run_block(panel, half_panel, x, rows, out) false
#endif

#ifdef ROWS_SHARE_SCALE
/* 8 rows with both half panels at once, if these have been read for rows before: two streams from memory
 * would be slower than one. */
INLINE bool run_both(const struct half_panels *panel, const struct act_rows *x, unsigned rows, float *out)
{
    const uint8_t *first = panel->half_panel[0].data, *second = panel->half_panel[1].data;
    const uint64_t row = x->first % panel->row_block;
    if (rows < BLOCKED_ROWS || row == 0 || !panel->both)
        return false;
    panel->both(first, (uint64_t)(second - first), panel->k,
                panel->blocks + row / BLOCKED_ROWS * panel->block_size, panel->distance, out);
    return true;
}
#else
#define run_both(panel, x, rows, out) false
#endif

/* Up to MAX_ROWS rows with both half panels, one after the other, as they lie in memory. */
INLINE void run_half_panels(const struct half_panels *panel, const struct act_rows *x, unsigned rows,
                            float out[MAX_ROWS][PANEL_ROWS])
{
    if (run_both(panel, x, rows, out[0]))
        return;
    for (unsigned i = 0; i < 2; i++) {
        const struct half_panel *half_panel = &panel->half_panel[i];
        if (run_block(panel, half_panel, x, rows, &out[0][i * TILE_ROWS]))
            continue;
        for (unsigned row = 0, n; row < rows; row += n) {
            const uint8_t *from[MAX_ROWS], *sums[MAX_ROWS];
            n = half_panel->kernel->block;
            while (n > rows - row)
                n /= 2;
            for (unsigned r = 0; r < n; r++) {
                from[r] = (const uint8_t *)x->x[row + r] + half_panel->at;
                sums[r] = half_panel->sums + (x->first + row + r) % panel->row_block * panel->sums_size;
            }
            half_panel->kernel->multiply[n / 2](half_panel->data, panel->k, from, sums, panel->distance,
                                                &out[row][i * TILE_ROWS]);
        }
    }
}

#define DEFINE_HALF_PANELS(name, rows)                                                                   \
    static void name(const struct panel *panel, const struct act_rows *x, struct prefetcher *prefetcher, \
                     float out[MAX_ROWS][PANEL_ROWS])                                                    \
    {                                                                                                    \
        (void)prefetcher;                                                                                \
        run_half_panels(&panel->own, x, rows, out);                                                      \
    }
DEFINE_HALF_PANELS(half_panels_1, 1)
DEFINE_HALF_PANELS(half_panels_2, 2)
DEFINE_HALF_PANELS(half_panels_4, 4)
#ifdef ROWS_BLOCKED
DEFINE_HALF_PANELS(half_panels_3, 3)
DEFINE_HALF_PANELS(half_panels_5, 5)
DEFINE_HALF_PANELS(half_panels_6, 6)
DEFINE_HALF_PANELS(half_panels_7, 7)
DEFINE_HALF_PANELS(half_panels_8, 8)
#if !BLOCKS_OF_8 /* codes are decoded once for all rows */
#define FOUR(DO, a, b, c, d) DO(a) DO(b) DO(c) DO(d)
#define EACH_MANY(DO)        \
    FOUR(DO, 32, 31, 30, 29) \
    FOUR(DO, 28, 27, 26, 25) \
    FOUR(DO, 24, 23, 22, 21) \
    FOUR(DO, 20, 19, 18, 17) \
    FOUR(DO, 16, 15, 14, 13) \
    FOUR(DO, 12, 11, 10, 9)
#define DEFINE_MANY(rows) DEFINE_HALF_PANELS(half_panels_##rows, rows)
EACH_MANY(DEFINE_MANY)
#endif
#endif

static const struct microkernel *list_gemv(const struct kt_product *job, enum kt_stage stage)
{
    static const struct microkernel microkernels[] = {
#ifdef ROWS_BLOCKED
#if !BLOCKS_OF_8
#define LIST_MANY(rows) {rows, (rows + 3) / 4, {half_panels_##rows, half_panels_##rows}},
        EACH_MANY(LIST_MANY)
#endif
            {8, 2, {half_panels_8, half_panels_8}},
        {7, 2, {half_panels_7, half_panels_7}},
        {6, 2, {half_panels_6, half_panels_6}},
        {5, 2, {half_panels_5, half_panels_5}},
#endif
        {4, 1, {half_panels_4, half_panels_4}},
#ifdef ROWS_BLOCKED
        {3, 1, {half_panels_3, half_panels_3}},
#endif
        {2, 1, {half_panels_2, half_panels_2}},
        {1, 1, {half_panels_1, half_panels_1}},
    };
    (void)job;
    (void)stage;
    return microkernels;
}

#endif

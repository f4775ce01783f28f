/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/driver_amx_tmpl.h - the products on AMX tiles.
 *
 * In a step, 2 tiles of activations meet the 2 of the panel's pair: 4 loads, 4 products. That reaches the
 * peak as long as one of both operands is in L1 and the other comes from L2. Hence both are packed as
 * tiles. With many rows, K is cut into pieces so short that a piece of the panel stays in L1 while all rows
 * pass, and sums wait in scratch.
 *
 * Parameters  EPILOGUE_H  the header that has ACC, struct panel_scales, load_scales and finish
 *             TILED       1
 *             AMX_DOT     the product: AMX_DOT_SU (default) or AMX_DOT_BF16
 * Wanted      panel_size, find_columns, copy_meta, list_blockings, multiply_gemv, ready_pairs
 */
#ifndef KT_PLUGINS_COMMON_GEMM_DRIVER_AMX_TMPL_H
#define KT_PLUGINS_COMMON_GEMM_DRIVER_AMX_TMPL_H

#ifndef EPILOGUE_H
#error "gemm/driver_amx_tmpl.h: define EPILOGUE_H"
#endif
#ifndef TILED
#error "gemm/driver_amx_tmpl.h: define TILED"
#endif
#if !TILED
#error "gemm/driver_amx_tmpl.h: TILED must be 1"
#endif
#ifndef AMX_DOT
#define AMX_DOT AMX_DOT_SU
#endif

#include EPILOGUE_H
#include "plugins/common/gemm/geometry.h"
#include "plugins/common/gemm/prefetch.h"
#include "plugins/common/simd/amx.h"
#include "plugins/common/simd/simd.h"

/* How the rows of a row block are multiplied, chosen by their number. */
struct blocking {
    uint32_t rows; /* the largest number of rows for which this is taken */
    bool gemv; /* by multiply_gemv; only where they are all rows of the product, as their form may differ */
    bool streamed;  /* weights are read as fast as memory delivers them, see gemm/prefetch.h */
    uint32_t piece; /* tiles of K that all rows pass together; 0: all of K */
};
#define SHORT_K 12       /* up to this many tiles, all of a panel stays in L1 */
#define SCRATCH_BLOCKS 8 /* of 32 rows, whose sums wait in 32 KB while pieces of K pass */

/* Sums of 32 rows and a panel: tile 2 * i + j of rows 16 * i.. and tile j of the panel's pair. */
struct block {
    struct amx_tile sum[4];
};

#define BLOCKS_SIZE (SCRATCH_BLOCKS * sizeof(struct block))

/* A part of a product: one panel and one row block. */
struct part {
    enum kt_stage stage;
    const struct kt_product *job;
    const struct blocking *blocking;
    uint64_t panel, tiles, block_size; /* of 16 rows of activations */
    const uint8_t *panel_data;
    uint32_t end; /* rows of the row block end here */
    struct block *scratch;
    struct prefetcher *prefetcher;
    struct panel_scales scales;
};

/* Bytes of a panel of a stage. */
static inline uint64_t panel_size(const struct kt_layout *layout, enum kt_stage stage);
/* Where column TILE_COLUMNS * t of packed row `row` is. */
INLINE uint8_t *find_columns(void *act, uint64_t row_size, uint64_t row, uint64_t t, bool tiled);
/* What stands behind the columns of a packed row, to row `row` of tiled ones. */
INLINE void copy_meta(void *act, uint64_t row_size, uint64_t tiles, uint64_t row, const void *from);
/* By number of rows, fewest first; the last one is for any number. */
static const struct blocking *list_blockings(const struct kt_layout *layout);
/* All of a panel's product with the rows from `begin` on. */
static void multiply_gemv(const struct part *part, uint32_t begin);
/* Tiles t..stop-1 of both columns of the panel, ready to be multiplied: those of the panel, or others made
 * in scratch. */
static const uint8_t *ready_pairs(const struct part *part, uint64_t t, uint64_t stop);

static const uint8_t *find_block(const struct part *part, uint32_t row)
{
    return (const uint8_t *)part->job->act + row / TILE_ROWS * part->block_size;
}

/* Up to 16 rows with tiles t..end-1 of K, those of the weights at b: sums to block. */
static NOINLINE void multiply_one(const struct part *part, const uint8_t *a, const uint8_t *b, uint64_t t,
                                  uint64_t end, struct block *block)
{
    if (t == 0) {
        AMX_ZERO(0);
        AMX_ZERO(1);
    } else {
        AMX_LOAD(0, &block->sum[0]);
        AMX_LOAD(1, &block->sum[1]);
    }
    a += t * TILE_SIZE;
    for (; t < end; t++, a += TILE_SIZE, b += PAIR_SIZE) {
        prefetcher_step(part->prefetcher);
        AMX_LOAD(4, a);
        AMX_LOAD(6, b);
        AMX_DOT(0, 4, 6);
        AMX_LOAD(7, b + TILE_SIZE);
        AMX_DOT(1, 4, 7);
    }
    AMX_STORE(0, &block->sum[0]);
    AMX_STORE(1, &block->sum[1]);
}

/* 17 to 32 rows. */
static NOINLINE void multiply_two(const struct part *part, const uint8_t *a, const uint8_t *b, uint64_t t,
                                  uint64_t end, struct block *block)
{
    const uint8_t *second = a + part->block_size + t * TILE_SIZE;
    if (t == 0) {
        AMX_ZERO(0);
        AMX_ZERO(1);
        AMX_ZERO(2);
        AMX_ZERO(3);
    } else {
        AMX_LOAD(0, &block->sum[0]);
        AMX_LOAD(1, &block->sum[1]);
        AMX_LOAD(2, &block->sum[2]);
        AMX_LOAD(3, &block->sum[3]);
    }
    a += t * TILE_SIZE;
    for (; t < end; t++, a += TILE_SIZE, second += TILE_SIZE, b += PAIR_SIZE) {
        prefetcher_step(part->prefetcher);
        AMX_LOAD(6, b);
        AMX_LOAD(4, a);
        AMX_DOT(0, 4, 6);
        AMX_LOAD(7, b + TILE_SIZE);
        AMX_DOT(1, 4, 7);
        AMX_LOAD(5, second);
        AMX_DOT(2, 5, 6);
        AMX_DOT(3, 5, 7);
    }
    AMX_STORE(0, &block->sum[0]);
    AMX_STORE(1, &block->sum[1]);
    AMX_STORE(2, &block->sum[2]);
    AMX_STORE(3, &block->sum[3]);
}

/* From a block's sums to h or y; sums of rows behind the last are ignored. */
static void finish_block(const struct part *part, uint32_t row, const struct block *block)
{
    for (uint32_t i = 0; i < 2 && row < part->end; i++, row += TILE_ROWS) {
        uint32_t left = part->end - row;
        struct sums sums = {(const ACC *)(const void *)&block->sum[2 * i], TILE_ROWS, TILE_SIZE / sizeof(ACC),
                            true};
        finish(part->stage, part->job, part->panel, row, left < TILE_ROWS ? left : TILE_ROWS, &sums,
               &part->scales);
    }
}

/* Rows row..end-1 with all of K, `piece` tiles of it at a time. */
static void multiply_rows(const struct part *part, uint32_t row, uint32_t end, uint64_t piece)
{
    for (uint64_t t = 0; t < part->tiles; t += piece) {
        uint64_t stop = part->tiles - t < piece ? part->tiles : t + piece;
        const uint8_t *b = ready_pairs(part, t, stop);
        struct block *block = part->scratch;
        for (uint32_t r = row; r < end; r += 2 * TILE_ROWS) {
            if (end - r > TILE_ROWS)
                multiply_two(part, find_block(part, r), b, t, stop, block);
            else
                multiply_one(part, find_block(part, r), b, t, stop, block);
            if (stop == part->tiles)
                finish_block(part, r, block);
            if (piece < part->tiles) /* else the next block's sums take its place */
                block++;
        }
    }
}

static void multiply_panel(struct part *part, uint32_t begin)
{
    const struct blocking *blocking = part->blocking;
    uint64_t tiles = part->tiles, piece = tiles;
    uint32_t rows = part->end - begin;
    load_scales(part->job, part->stage, part->panel, &part->scales);
    if (blocking->gemv) {
        multiply_gemv(part, begin);
        return;
    }
    if (blocking->piece && tiles > SHORT_K) {
        uint64_t pieces = (tiles + blocking->piece - 1) / blocking->piece;
        piece = (tiles + pieces - 1) / pieces;
        rows = 2 * TILE_ROWS * SCRATCH_BLOCKS;
    }
    for (uint32_t row = begin; row < part->end; row += rows)
        multiply_rows(part, row, part->end - row < rows ? part->end : row + rows, piece);
}

/* Row blocks that stay in L2 are multiplied with all panels, one block after the other. */
static void multiply_stage(enum kt_stage stage, const struct kt_product *job)
{
    const struct kt_layout *layout = job->layout;
    uint64_t tiles = stage_tiles(layout, stage), n_panels = job->panel_end - job->panel_begin;
    uint64_t bytes = panel_size(layout, stage);
    const uint8_t *base = find_panels(job, bytes);
    uint64_t size = base ? n_panels * bytes : 0;
    uint32_t row_block = size_row_block(job, stage);
    struct prefetcher prefetcher;
    struct part part = {
        .stage = stage,
        .job = job,
        .tiles = tiles,
        .block_size = TILE_ROWS * layout->act_row_size[stage],
        .scratch = job->scratch,
        .prefetcher = &prefetcher,
    };
    for (uint32_t begin = 0; begin < job->n_rows; begin += row_block) {
        bool last = job->n_rows - begin <= row_block;
        uint32_t rows = last ? job->n_rows - begin : row_block;
        const struct blocking *blocking = list_blockings(layout);
        while (blocking->rows < (blocking->gemv ? job->n_rows : rows))
            blocking++;
        const void *next = last ? job->next : base;
        uint64_t next_size = last ? job->next_size : size;
        uint64_t steps = (rows + 2 * TILE_ROWS - 1) / (2 * TILE_ROWS) * tiles * n_panels;
        prefetcher_start(&prefetcher, !blocking->streamed, layout->words[WORD_PREFETCH], base, size, steps,
                         next, next_size);
        part.blocking = blocking;
        part.end = begin + rows;
        for (uint64_t p = 0; p < n_panels; p++) {
            if (blocking->streamed && p + 1 == n_panels)
                prefetch_begin(next, next_size);
            part.panel = job->panel_begin + p;
            part.panel_data = base ? base + p * bytes : NULL;
            multiply_panel(&part, begin);
        }
    }
}

static void multiply_gate_up(void *instance, const struct kt_product *job)
{
    (void)instance;
    multiply_stage(KT_STAGE_GATE_UP, job);
}

static void multiply_down(void *instance, const struct kt_product *job)
{
    (void)instance;
    multiply_stage(KT_STAGE_DOWN, job);
    vec_stream_end();
}

/* Rows to tiles of 16. Behind the last row tiles keep what they had: each row of sums depends on one row
 * only. */
static void gather_rows(void *instance, const struct kt_gather *job)
{
    (void)instance;
    uint64_t size = job->layout->act_row_size[0], tiles = stage_tiles(job->layout, KT_STAGE_GATE_UP);

    for (uint32_t row = 0; row < job->n_rows; row++) {
        const uint8_t *from = (const uint8_t *)job->act + job->index[row] * size;
        uint8_t *to = find_columns(job->out, size, row, 0, true);
        for (uint64_t t = 0; t < tiles; t++)
            memcpy(to + t * TILE_SIZE, from + t * TILE_LINE, TILE_LINE);
        copy_meta(job->out, size, tiles, row, from);
    }
}

static void enter_thread(void *instance)
{
    (void)instance;
    amx_enter();
}

static void leave_thread(void *instance)
{
    (void)instance;
    amx_leave();
}

#endif

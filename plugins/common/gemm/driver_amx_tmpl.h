/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/driver_amx_tmpl.h - the products on AMX tiles.
 *
 * In a step, 2 tiles of activations meet the 2 of the panel's pair: 4 loads, 4 products. That reaches the
 * peak as long as one of both operands is in L1 and the other comes from L2. Hence both are packed as
 * tiles. With many rows, K is cut into pieces so short that a piece of the panel stays in L1 while all rows
 * pass, and sums wait in scratch. Up to 32 rows, sums stay in tiles over all of K; where tiles are made in
 * scratch, the next ones are made before the last are multiplied, so that vectors and tiles work at once.
 *
 * Parameters  EPILOGUE_H  the header that has ACC, struct panel_scales, load_scales and finish
 *             TILED       1
 *             AMX_DOT     the product: AMX_DOT_SU (default) or AMX_DOT_BF16
 *             OPEN_ROWS(job, stage, begin, end)  what multiply_gemv wants done with a row block before its
 *                         panels; default nothing
 *             GEMV_META   1: only multiply_gemv reads what stands behind the columns of a row; default 0
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
#ifndef GEMV_META
#define GEMV_META 0
#endif
#ifndef OPEN_ROWS
#define OPEN_ROWS(job, stage, begin, end) ((void)0)
#endif

#include EPILOGUE_H
#include "plugins/common/gemm/geometry.h"
#include "plugins/common/gemm/groups.h"
#include "plugins/common/gemm/prefetch.h"
#include "plugins/common/gemm/tunables.h"
#include "plugins/common/simd/amx.h"
#include "plugins/common/simd/simd.h"

/* How the rows of a row block are multiplied, chosen by their number. */
struct blocking {
    uint32_t rows; /* the largest number of rows for which this is taken */
    bool gemv; /* by multiply_gemv: products of less than tuned[TUNED_ROWS] rows, as their form may differ */
    bool streamed; /* weights are read as fast as memory delivers them, see gemm/prefetch.h */
    bool cut;      /* all rows pass tuned[TUNED_PIECE] tiles of K together, not all of K */
    uint32_t kept; /* not 0: up to 32 rows pass so many tiles of K, sums stay in tiles from piece to piece */
};
#define SHORT_K 12       /* up to this many tiles, all of a panel stays in L1 */
#define MADE_TILES 16    /* pairs of tiles that are made in scratch, at most */
#define SCRATCH_BLOCKS 8 /* of 32 rows, whose sums wait in 32 KB while pieces of K pass */

_Static_assert(MADE_TILES >= SHORT_K && MADE_TILES >= GROUP_PIECE && MADE_TILES >= PIECE_TILES_MOST,
               "pieces are made whole");

/* Sums of 32 rows and a panel: tile 2 * i + j of rows 16 * i.. and tile j of the panel's pair. */
struct block {
    struct amx_tile sum[4];
};

/* Blocks of sums in scratch. */
static inline uint64_t count_blocks(const struct kt_layout *layout)
{
    bool grouped = has_groups(layout, KT_STAGE_DOWN) ||
                   (!is_linear(&layout->shape) && has_groups(layout, KT_STAGE_GATE_UP));
    return grouped ? GROUP_BLOCKS : SCRATCH_BLOCKS;
}

/* A part of a product: one panel and one row block. */
struct part {
    enum kt_stage stage;
    const struct kt_product *job;
    const struct blocking *blocking;
    uint64_t panel, tiles, block_size; /* of 16 rows of activations */
    const uint8_t *panel_data;
    uint32_t end; /* rows of the row block end here */
    struct block *scratch;
    uint8_t *made; /* where tiles are made: behind the blocks */
    struct prefetcher *prefetcher;
    struct prefetcher *rows_ahead; /* of groups: their rows' next piece */
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
static void multiply_gemv(struct part *part, uint32_t begin);
/* Tiles t..stop-1 of both columns of the panel, ready to be multiplied: those of the panel, or others made
 * at `to`. */
static const uint8_t *ready_pairs(const struct part *part, uint64_t t, uint64_t stop, uint8_t *to);

/* Writes into the layout what is in force. */
static void fill_tuned_tiles(struct kt_layout *layout, uint64_t prefetch_bytes, uint64_t min_rows)
{
    fill_tuned(layout, prefetch_bytes, min_rows);
    if (!layout->tuned[TUNED_PIECE])
        layout->tuned[TUNED_PIECE] = PIECE_TILES;
}

static const uint8_t *find_block(const struct part *part, uint32_t row)
{
    return (const uint8_t *)part->job->act + row / TILE_ROWS * part->block_size;
}

/* ---- sums in tiles 0 to 3, which stay there until they are stored: compilers use no tiles ---- */

static inline void zero_sum_tiles(bool two)
{
    AMX_ZERO(0);
    AMX_ZERO(1);
    if (two) {
        AMX_ZERO(2);
        AMX_ZERO(3);
    }
}

static inline void load_sum_tiles(const struct block *block, bool two)
{
    AMX_LOAD(0, &block->sum[0]);
    AMX_LOAD(1, &block->sum[1]);
    if (two) {
        AMX_LOAD(2, &block->sum[2]);
        AMX_LOAD(3, &block->sum[3]);
    }
}

static inline void store_sum_tiles(struct block *block, bool two)
{
    AMX_STORE(0, &block->sum[0]);
    AMX_STORE(1, &block->sum[1]);
    if (two) {
        AMX_STORE(2, &block->sum[2]);
        AMX_STORE(3, &block->sum[3]);
    }
}

/* Adds the products of up to 16 rows, or of 17 to 32, with n tiles of K, those of the weights at b. */
static NOINLINE void add_products(const struct part *part, const uint8_t *a, const uint8_t *b, uint64_t n,
                                  bool two)
{
    const uint8_t *second = a + part->block_size;
    for (uint64_t t = 0; t < n && !two; t++, a += TILE_SIZE, b += PAIR_SIZE) {
        prefetcher_step(part->prefetcher);
        prefetcher_step(part->rows_ahead);
        AMX_LOAD_ONCE(4, a);
        AMX_LOAD(6, b);
        AMX_DOT(0, 4, 6);
        AMX_LOAD(7, b + TILE_SIZE);
        AMX_DOT(1, 4, 7);
    }
    for (uint64_t t = 0; t < n && two; t++, a += TILE_SIZE, second += TILE_SIZE, b += PAIR_SIZE) {
        prefetcher_step(part->prefetcher);
        prefetcher_step(part->rows_ahead);
        AMX_LOAD(6, b);
        AMX_LOAD_ONCE(4, a);
        AMX_DOT(0, 4, 6);
        AMX_LOAD(7, b + TILE_SIZE);
        AMX_DOT(1, 4, 7);
        AMX_LOAD_ONCE(5, second);
        AMX_DOT(2, 5, 6);
        AMX_DOT(3, 5, 7);
    }
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

/* Up to 32 rows with tiles t..stop-1 of K, those of the weights at b; sums wait in `block` until the last. */
static void multiply_block(const struct part *part, struct block *block, uint32_t row, uint32_t end,
                           const uint8_t *b, uint64_t t, uint64_t stop)
{
    bool two = end - row > TILE_ROWS;
    if (t == 0)
        zero_sum_tiles(two);
    else
        load_sum_tiles(block, two);
    add_products(part, find_block(part, row) + t * TILE_SIZE, b, stop - t, two);
    store_sum_tiles(block, two);
    if (stop == part->tiles)
        finish_block(part, row, block);
}

/* Rows row..end-1 with all of K, `piece` tiles of it at a time. */
static void multiply_rows(struct part *part, uint32_t row, uint32_t end, uint64_t piece)
{
    for (uint64_t t = 0; t < part->tiles; t += piece) {
        uint64_t stop = part->tiles - t < piece ? part->tiles : t + piece;
        const uint8_t *b = ready_pairs(part, t, stop, part->made);
        struct block *block = part->scratch;
        if (stop == part->tiles)
            load_scales(part->job, part->stage, part->panel, &part->scales);
        for (uint32_t r = row; r < end; r += 2 * TILE_ROWS) {
            multiply_block(part, block, r, end, b, t, stop);
            if (piece < part->tiles) /* else the next block's sums take its place */
                block++;
        }
    }
}

/* Up to 32 rows with all of K, whose next piece is made in scratch before the last one is multiplied. */
static void multiply_kept(struct part *part, uint32_t row, uint64_t piece)
{
    const bool two = part->end - row > TILE_ROWS;
    const uint8_t *a = find_block(part, row);
    uint64_t end = part->tiles < piece ? part->tiles : piece;
    const uint8_t *b = ready_pairs(part, 0, end, part->made);
    zero_sum_tiles(two);
    for (uint64_t t = 0, made = piece; t < part->tiles; made = piece - made) {
        uint64_t stop = part->tiles - end < piece ? part->tiles : end + piece;
        const uint8_t *next = end < stop ? ready_pairs(part, end, stop, part->made + made * PAIR_SIZE) : NULL;
        add_products(part, a + t * TILE_SIZE, b, end - t, two);
        t = end;
        end = stop;
        b = next;
    }
    store_sum_tiles(part->scratch, two);
    load_scales(part->job, part->stage, part->panel, &part->scales);
    finish_block(part, row, part->scratch);
}

static void multiply_panel(struct part *part, uint32_t begin)
{
    const struct blocking *blocking = part->blocking;
    uint64_t tiles = part->tiles, piece = tiles;
    uint32_t rows = part->end - begin;
    if (blocking->gemv) {
        multiply_gemv(part, begin);
        return;
    }
    if (blocking->kept && rows <= 2 * TILE_ROWS) {
        multiply_kept(part, begin, blocking->kept);
        return;
    }
    if (blocking->cut && tiles > SHORT_K) {
        uint64_t most = part->job->layout->tuned[TUNED_PIECE], pieces = (tiles + most - 1) / most;
        piece = (tiles + pieces - 1) / pieces;
        rows = 2 * TILE_ROWS * SCRATCH_BLOCKS;
    }
    for (uint32_t row = begin; row < part->end; row += rows)
        multiply_rows(part, row, part->end - row < rows ? part->end : row + rows, piece);
}

/* The first of the level's that suits `rows` of a product's n_rows. */
static const struct blocking *choose_blocking(const struct kt_layout *layout, uint32_t n_rows, uint32_t rows)
{
    const struct blocking *blocking = list_blockings(layout);
    while (blocking->gemv ? n_rows >= layout->tuned[TUNED_ROWS] : rows > blocking->rows)
        blocking++;
    return blocking;
}

/* ---- groups of rows and panels (gemm/groups.h) ---- */

/* Parts of panels, each a piece of K, in the order in which they are multiplied. */
struct walk {
    const struct kt_product *job;
    uint64_t bytes, tiles; /* of a panel */
    uint64_t group;        /* panels of a group */
    uint64_t n_panels;     /* of the job */
    uint64_t first, panel; /* the group's first panel, and that of the part */
    uint64_t t;            /* the part's first tile */
};

static void step_walk(struct walk *walk)
{
    uint64_t end = walk->first + walk->group < walk->n_panels ? walk->first + walk->group : walk->n_panels;
    if (++walk->panel < end)
        return;
    walk->panel = walk->first;
    walk->t += GROUP_PIECE;
    if (walk->t < walk->tiles)
        return;
    walk->t = 0;
    walk->first = walk->panel = end < walk->n_panels ? end : 0;
}

/* What the part behind this one has of a panel is brought to L2 during `steps` steps. */
static void prefetch_part(const struct part *part, struct walk next, uint64_t steps)
{
    step_walk(&next);
    uint64_t begin = next.bytes * next.t / next.tiles, stop = next.t + GROUP_PIECE;
    uint64_t end = stop < next.tiles ? next.bytes * stop / next.tiles : next.bytes;
    const uint8_t *base = find_panels(next.job, next.bytes);
    prefetcher_start_at(part->prefetcher, base + next.panel * next.bytes + begin, end - begin, steps);
}

/* While a piece of K passes the panels of a group, the next piece of the group's rows, from `first` to below
 * part->end, is brought to L2: a share of it with the block of rows at `row` and the walk's panel. */
static void prefetch_rows(const struct part *part, const struct walk *walk, uint32_t first, uint32_t row)
{
    const uint64_t t = walk->t + GROUP_PIECE < part->tiles ? walk->t + GROUP_PIECE : 0;
    const uint64_t n = part->tiles - t < GROUP_PIECE ? part->tiles - t : GROUP_PIECE;
    const uint64_t tiles = (part->end - first + TILE_ROWS - 1) / TILE_ROWS * n; /* of the next piece */
    const uint64_t blocks = (part->end - first + BLOCK_ROWS - 1) / BLOCK_ROWS;
    const uint64_t left = walk->n_panels - walk->first, panels = left < walk->group ? left : walk->group;
    const uint64_t share = (walk->panel - walk->first) * blocks + (row - first) / BLOCK_ROWS;
    const uint64_t begin = share * tiles / (panels * blocks), stop = (share + 1) * tiles / (panels * blocks);
    const uint64_t run = n - begin % n; /* as far as tiles lie one after the other */
    const uint8_t *at =
        find_block(part, first + (uint32_t)(begin / n) * TILE_ROWS) + (t + begin % n) * TILE_SIZE;
    part->rows_ahead->rate = 0;
    if (begin < stop)
        prefetcher_start_at(part->rows_ahead, at, (stop - begin < run ? stop - begin : run) * TILE_SIZE, n);
}

/* A part with the group's rows, from `first` on. */
static void multiply_part(struct part *part, const struct walk *walk, uint32_t first)
{
    uint64_t t = walk->t, stop = part->tiles - t < GROUP_PIECE ? part->tiles : t + GROUP_PIECE;
    uint64_t blocks = (part->end - first + BLOCK_ROWS - 1) / BLOCK_ROWS;
    part->panel = part->job->panel_begin + walk->panel;
    part->panel_data = find_panels(part->job, walk->bytes) + walk->panel * walk->bytes;
    const uint8_t *b = ready_pairs(part, t, stop, part->made);
    struct block *block = part->scratch + (walk->panel - walk->first) * blocks;
    if (stop == part->tiles)
        load_scales(part->job, part->stage, part->panel, &part->scales);
    prefetch_part(part, *walk, blocks * (stop - t));
    for (uint32_t row = first; row < part->end; row += BLOCK_ROWS, block++) {
        prefetch_rows(part, walk, first, row);
        multiply_block(part, block, row, part->end, b, t, stop);
    }
}

static void multiply_groups(struct part *part, uint64_t panel_bytes)
{
    const struct kt_product *job = part->job;
    struct groups groups = choose_groups(job->n_rows);
    uint64_t pieces = (part->tiles + GROUP_PIECE - 1) / GROUP_PIECE;
    struct walk walk = {.job = job,
                        .bytes = panel_bytes,
                        .tiles = part->tiles,
                        .group = groups.panels,
                        .n_panels = job->panel_end - job->panel_begin};
    for (uint32_t row = 0; row < job->n_rows; row += groups.rows) {
        part->end = job->n_rows - row < groups.rows ? job->n_rows : row + groups.rows;
        for (uint64_t i = 0; i < walk.n_panels * pieces; i++, step_walk(&walk))
            multiply_part(part, &walk, row);
    }
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
    struct prefetcher prefetcher, rows_ahead = {.rate = 0};
    struct part part = {
        .stage = stage,
        .job = job,
        .tiles = tiles,
        .block_size = TILE_ROWS * layout->act_row_size[stage],
        .scratch = job->scratch,
        .made = (uint8_t *)((struct block *)job->scratch + count_blocks(layout)),
        .prefetcher = &prefetcher,
        .rows_ahead = &rows_ahead,
    };
    part.blocking = choose_blocking(layout, job->n_rows, job->n_rows);
    if (base && !part.blocking->gemv && has_groups(layout, stage) &&
        takes_groups(job->n_rows, n_panels, bytes, tiles * TILE_LINE, row_block)) {
        multiply_groups(&part, bytes);
        return;
    }
    for (uint32_t begin = 0; begin < job->n_rows; begin += row_block) {
        bool last = job->n_rows - begin <= row_block;
        uint32_t rows = last ? job->n_rows - begin : row_block;
        const struct blocking *blocking = choose_blocking(layout, job->n_rows, rows);
        const void *next = last ? job->next : base;
        uint64_t next_size = last ? job->next_size : size;
        uint64_t steps = (rows + 2 * TILE_ROWS - 1) / (2 * TILE_ROWS) * tiles * n_panels;
        prefetcher_start(&prefetcher, !blocking->streamed, layout->words[WORD_PREFETCH], base, size, steps,
                         next, next_size);
        part.blocking = blocking;
        part.end = begin + rows;
        if (blocking->gemv)
            OPEN_ROWS(job, stage, begin, part.end);
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
    const bool has_meta = !GEMV_META || choose_blocking(job->layout, job->n_rows, job->n_rows)->gemv;

    for (uint32_t row = 0; row < job->n_rows; row++) {
        const uint8_t *from = (const uint8_t *)job->act + job->index[row] * size;
        uint8_t *to = find_columns(job->out, size, row, 0, true);
        for (uint64_t t = 0; t < tiles; t++)
            memcpy(to + t * TILE_SIZE, from + t * TILE_LINE, TILE_LINE);
        if (has_meta)
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

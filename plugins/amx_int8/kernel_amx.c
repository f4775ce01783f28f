/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_amx.c - AMX tiles, with AVX-512 for all that is not the product.
 *
 * A step multiplies 64 columns. With few rows 1 tile of activations meets the 2 of the panel's pair (3
 * loads, 2 products), which keeps up with memory: no vector kernel is faster, not even for 1 row. With
 * more rows 2 meet 2 (4 loads, 4 products of 16 cycles), which is the peak while one of both operands
 * is in L1 and the other comes from L2 not faster than a line in 1.5 cycles: hence packed tiles for
 * both, and with many rows pieces of K so short that a piece of the panel stays in L1 while all rows
 * pass, their sums waiting in scratch. 3 x 2 tiles were slower in a whole layer; so were longer pieces
 * than 16 KB of panel.
 */
#define VEC_VNNI 1
#define TILED 1
#include "plugins/common/int8_avx512.h"

#include "plugins/amx_int8/epilogue.h"
#include "plugins/amx_int8/pack.h"
#include "plugins/common/amx.h"
#include "plugins/common/stream.h"

/* Each loop by itself, so that what is around it takes no registers from it. */
#define NOINLINE __attribute__((noinline))

/* What a product does from so many rows on: measured, see stream.h for near. */
struct choice {
    uint32_t rows;  /* up to so many */
    bool near;      /* 1 x 2 tiles at the speed of memory, else 2 x 2 */
    uint32_t piece; /* tiles of K that rows pass together; 0: all */
};
static const struct choice choices[] = {
    { 16, true, 0 },
    { 127, false, 0 },
    { UINT32_MAX, false, 8 },
};
#define SHORT_K 12      /* up to so many tiles, a panel stays in L1 whole */
#define SCRATCH_BLOCKS 8 /* of 32 rows, whose sums wait in 32 KB while pieces of K pass */

/* Sums of 32 rows and a panel: tile 2 * i + j of rows 16 * i.. and tile j of the panel's pair. */
struct block {
    struct amx_tile sum[4];
};

/* A product's part: a panel and the rows of a lot. */
struct part {
    enum kt_stage stage;
    const struct kt_product *job;
    uint64_t panel, tiles, block_size; /* of 16 rows of activations */
    const uint8_t *pair;
    uint32_t end; /* rows of the lot stop here */
    struct block *scratch;
    struct stream *stream;
    struct panel_scales scales;
};

static const uint8_t *find_block(const struct part *part, uint32_t row)
{
    return (const uint8_t *)part->job->act + row / TILE_ROWS * part->block_size;
}

/* Up to 16 rows with all of K: sums to block. */
static NOINLINE void multiply_few(const struct part *part, const uint8_t *a, struct block *block)
{
    const uint8_t *b = part->pair;

    AMX_ZERO(0);
    AMX_ZERO(1);
    for (uint64_t t = 0; t < part->tiles; t++, a += TILE_SIZE, b += PAIR_SIZE) {
        stream_near(b);
        AMX_LOAD(4, a);
        AMX_LOAD(6, b);
        AMX_DOT_SU(0, 4, 6);
        stream_near(b + TILE_SIZE);
        AMX_LOAD(7, b + TILE_SIZE);
        AMX_DOT_SU(1, 4, 7);
    }
    AMX_STORE(0, &block->sum[0]);
    AMX_STORE(1, &block->sum[1]);
}

/* The same as one of many blocks, with tiles t..end-1 of K. */
static NOINLINE void multiply_one(const struct part *part, const uint8_t *a, uint64_t t, uint64_t end,
                         struct block *block)
{
    const uint8_t *b = part->pair + t * PAIR_SIZE;

    if (t == 0) {
        AMX_ZERO(0);
        AMX_ZERO(1);
    } else {
        AMX_LOAD(0, &block->sum[0]);
        AMX_LOAD(1, &block->sum[1]);
    }
    a += t * TILE_SIZE;
    for (; t < end; t++, a += TILE_SIZE, b += PAIR_SIZE) {
        stream_step(part->stream);
        AMX_LOAD(4, a);
        AMX_LOAD(6, b);
        AMX_DOT_SU(0, 4, 6);
        AMX_LOAD(7, b + TILE_SIZE);
        AMX_DOT_SU(1, 4, 7);
    }
    AMX_STORE(0, &block->sum[0]);
    AMX_STORE(1, &block->sum[1]);
}

/* 17 to 32 rows. */
static NOINLINE void multiply_two(const struct part *part, const uint8_t *a, uint64_t t, uint64_t end,
                         struct block *block)
{
    const uint8_t *b = part->pair + t * PAIR_SIZE, *second = a + part->block_size + t * TILE_SIZE;

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
        stream_step(part->stream);
        AMX_LOAD(6, b);
        AMX_LOAD(4, a);
        AMX_DOT_SU(0, 4, 6);
        AMX_LOAD(7, b + TILE_SIZE);
        AMX_DOT_SU(1, 4, 7);
        AMX_LOAD(5, second);
        AMX_DOT_SU(2, 5, 6);
        AMX_DOT_SU(3, 5, 7);
    }
    AMX_STORE(0, &block->sum[0]);
    AMX_STORE(1, &block->sum[1]);
    AMX_STORE(2, &block->sum[2]);
    AMX_STORE(3, &block->sum[3]);
}

/* From a block's sums to h or y; rows behind the last have sums, of whatever lies there, and no more. */
static void finish_block(const struct part *part, uint32_t row, const struct block *block)
{
    for (uint32_t i = 0; i < 2 && row < part->end; i++, row += TILE_ROWS) {
        uint32_t left = part->end - row;
        struct sums sums = { (const int32_t *)(const void *)&block->sum[2 * i], TILE_ROWS,
                             TILE_SIZE / sizeof(int32_t) };
        finish(part->stage, part->job, part->panel, row, left < TILE_ROWS ? left : TILE_ROWS, &sums,
               &part->scales);
    }
}

/* Rows row..end-1 with all of K, in pieces of so many tiles. */
static void multiply_rows(const struct part *part, uint32_t row, uint32_t end, uint64_t piece)
{
    for (uint64_t t = 0; t < part->tiles; t += piece) {
        uint64_t stop = part->tiles - t < piece ? part->tiles : t + piece;
        struct block *block = part->scratch;
        for (uint32_t r = row; r < end; r += 2 * TILE_ROWS) {
            if (end - r > TILE_ROWS)
                multiply_two(part, find_block(part, r), t, stop, block);
            else
                multiply_one(part, find_block(part, r), t, stop, block);
            if (stop == part->tiles)
                finish_block(part, r, block);
            if (piece < part->tiles) /* else the next block's sums take its place */
                block++;
        }
    }
}

static void multiply_panel(struct part *part, uint32_t begin, const struct choice *choice)
{
    uint64_t tiles = part->tiles, piece = tiles;
    uint32_t rows = part->end - begin;

    load_scales(part->job, part->stage, part->panel, &part->scales);
    if (choice->near) {
        multiply_few(part, find_block(part, begin), part->scratch);
        finish_block(part, begin, part->scratch);
        return;
    }
    if (choice->piece && tiles > SHORT_K) {
        uint64_t pieces = (tiles + choice->piece - 1) / choice->piece;
        piece = (tiles + pieces - 1) / pieces;
        rows = 2 * TILE_ROWS * SCRATCH_BLOCKS;
    }
    for (uint32_t row = begin; row < part->end; row += rows)
        multiply_rows(part, row, part->end - row < rows ? part->end : row + rows, piece);
}

/* Lots of rows whose activations stay in L2 go through all panels, lot after lot. */
static void multiply_stage(enum kt_stage stage, const struct kt_product *job)
{
    const struct kt_layout *layout = job->layout;
    uint64_t tiles = stage_tiles(layout, stage), n_panels = job->panel_end - job->panel_begin;
    uint64_t size = n_panels * panel_size(tiles);
    const uint8_t *base = (const uint8_t *)job->packed + job->panel_begin * panel_size(tiles);
    uint32_t lot = count_lot(job, stage);
    struct stream stream;
    struct part part = {
        .stage = stage,
        .job = job,
        .tiles = tiles,
        .block_size = TILE_ROWS * layout->act_row_size[stage],
        .scratch = job->scratch,
        .stream = &stream,
    };

    for (uint32_t begin = 0; begin < job->n_rows; begin += lot) {
        bool last = job->n_rows - begin <= lot;
        uint32_t rows = last ? job->n_rows - begin : lot;
        const struct choice *choice = choices;
        while (choice->rows < rows)
            choice++;
        const void *next = last ? job->next : base;
        uint64_t next_size = last ? job->next_size : size;
        uint64_t steps = (rows + 2 * TILE_ROWS - 1) / (2 * TILE_ROWS) * tiles * n_panels;
        stream_start(&stream, !choice->near, base, size, steps, next, next_size);
        part.end = begin + rows;
        for (uint64_t p = 0; p < n_panels; p++) {
            if (choice->near && p + 1 == n_panels)
                stream_begin(next, next_size);
            part.panel = job->panel_begin + p;
            part.pair = base + p * panel_size(tiles);
            multiply_panel(&part, begin, choice);
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

/* Rows to tiles of 16. What lies behind the last row stays: a row of sums comes from one row alone. */
static void gather_rows(void *instance, const struct kt_gather *job)
{
    (void)instance;
    uint64_t size = job->layout->act_row_size[0], tiles = stage_tiles(job->layout, KT_STAGE_GATE_UP);

    for (uint32_t row = 0; row < job->n_rows; row++) {
        const uint8_t *from = (const uint8_t *)job->act + job->index[row] * size;
        uint8_t *to = find_columns(job->out, size, row, 0, true);
        for (uint64_t t = 0; t < tiles; t++)
            memcpy(to + t * TILE_SIZE, from + t * TILE_COLUMNS, TILE_COLUMNS);
        *find_meta(job->out, size, tiles, row, true) =
            *(const struct row_meta *)(const void *)(from + tiles * TILE_COLUMNS);
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

static enum kt_status lay_out(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    enum kt_status status = amx_int8_layout(instance, layout, error);

    if (!status)
        layout->scratch_size = SCRATCH_BLOCKS * sizeof(struct block);
    return status;
}

const struct kt_ops amx_int8_ops_amx = {
    .struct_size = sizeof(struct kt_ops),
    .layout = lay_out,
    .pack = pack_weights,
    .act_pack = pack_rows,
    .gather = gather_rows,
    .gate_up = multiply_gate_up,
    .down = multiply_down,
    .weight_row = amx_int8_weight_row,
    .thread_enter = enter_thread,
    .thread_leave = leave_thread,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * product.h - the products of the vector levels, written once. A kernel_LEVEL.c includes its int8_*.h,
 * sets the level's figures, includes this and names its struct kt_ops.
 *
 *   ROWS_WIDE    rows that share one pass over a panel (8), 0: no such pass
 *   ROWS_TILE    rows that share one pass over one tile of each pair of a panel, 0: no such pass.
 *                With 16 registers, 4 rows of 16 columns cost fewer loads and less making ready of
 *                codes than 2 rows of 32, but read a panel in two passes: for L2, not for memory.
 *   NEAR_ROWS    up to so many rows the weights come as fast as memory: a near stream, else spread
 *
 * A pass of few rows costs loads of weights, one of many registers for sums: 2 per row at 512 bits, 4 at
 * 256. All sums must stay in registers over the whole of K.
 */
#ifndef KT_PLUGINS_AMX_INT8_PRODUCT_H
#define KT_PLUGINS_AMX_INT8_PRODUCT_H

#define TILED 0

#include "plugins/amx_int8/epilogue.h"
#include "plugins/amx_int8/pack.h"
#include "plugins/common/stream.h"

#define VECS (2 * VEC_PARTS) /* of a panel: 32 columns */
#define MAX_ROWS 8

/* Where vector v of a line of a pair of tiles is. */
INLINE const uint8_t *find_vector(const uint8_t *pair, unsigned v)
{
    return pair + v / VEC_PARTS * TILE_SIZE + v % VEC_PARTS * (4 * VEC_ROWS);
}

/*
 * The sums of `rows` rows and vectors first..first+n-1 of a panel. rows, first and n are constants in
 * each instance, so sum is registers. The step over the 4 columns of a line: `rows` broadcasts, n loads
 * of weights, rows * n products. Of the weights only one vector is held at a time: with 16 registers
 * there is no room for more beside the sums.
 */
INLINE void multiply(const uint8_t *pair, uint64_t tiles, const int8_t *const *x, unsigned rows,
                     unsigned first, unsigned n, bool near, struct stream *stream,
                     int32_t out[MAX_ROWS][PANEL_ROWS])
{
    vi sum[MAX_ROWS][VECS];

    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
        for (unsigned v = 0; v < n; v++)
            sum[r][v] = vi_splat32(0);
    for (uint64_t t = 0; t < tiles; t++, pair += PAIR_SIZE) {
        if (near) {
            stream_near(pair);
            stream_near(pair + TILE_SIZE);
        } else {
            stream_step(stream);
        }
        for (unsigned q = 0; q < 16; q++) {
            x8 a[MAX_ROWS];
            UNROLL
            for (unsigned r = 0; r < rows; r++)
                a[r] = x8_splat(x[r] + t * TILE_COLUMNS + 4 * q);
            UNROLL
            for (unsigned v = 0; v < n; v++) {
                vi w = w8_ready(vi_load(find_vector(pair, first + v) + 64 * q));
                UNROLL
                for (unsigned r = 0; r < rows; r++)
                    sum[r][v] = w8_add(sum[r][v], w, a[r]);
            }
        }
    }
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
        for (unsigned v = 0; v < n; v++)
            vi_store(&out[r][(first + v) * VEC_ROWS], sum[r][v]);
}

/* A pass: which rows, all 32 columns or one tile of 16 after the other. */
typedef void (*pass_fn)(const uint8_t *pair, uint64_t tiles, const int8_t *const *x,
                        struct stream *stream, int32_t out[MAX_ROWS][PANEL_ROWS]);

#define DEFINE_PASS(name, rows, near)                                                          \
    static void name(const uint8_t *pair, uint64_t tiles, const int8_t *const *x,              \
                     struct stream *stream, int32_t out[MAX_ROWS][PANEL_ROWS])                 \
    {                                                                                          \
        multiply(pair, tiles, x, rows, 0, VECS, near, stream, out);                            \
    }
#define DEFINE_TILE_PASS(name, rows)                                                           \
    static void name(const uint8_t *pair, uint64_t tiles, const int8_t *const *x,              \
                     struct stream *stream, int32_t out[MAX_ROWS][PANEL_ROWS])                 \
    {                                                                                          \
        multiply(pair, tiles, x, rows, 0, VEC_PARTS, false, stream, out);                      \
        multiply(pair, tiles, x, rows, VEC_PARTS, VEC_PARTS, false, stream, out);              \
    }

DEFINE_PASS(pass_1_near, 1, true)
DEFINE_PASS(pass_2_near, 2, true)
DEFINE_PASS(pass_1, 1, false)
DEFINE_PASS(pass_2, 2, false)
#if ROWS_WIDE
DEFINE_PASS(pass_4_near, 4, true)
DEFINE_PASS(pass_8_near, 8, true)
DEFINE_PASS(pass_4, 4, false)
DEFINE_PASS(pass_8, 8, false)
#endif
#if ROWS_TILE
DEFINE_TILE_PASS(pass_tile, ROWS_TILE)
#endif

struct pass {
    uint32_t rows;
    uint32_t halves; /* steps that it takes per pair of tiles */
    pass_fn run[2];  /* spread, near */
};

/* Most rows first: a product takes the first that is not too large for what is left. */
static const struct pass passes[] = {
#if ROWS_WIDE
    { 8, 1, { pass_8, pass_8_near } },
    { 4, 1, { pass_4, pass_4_near } },
#endif
#if ROWS_TILE
    { ROWS_TILE, 2, { pass_tile, pass_tile } },
#endif
    { 2, 1, { pass_2, pass_2_near } },
    { 1, 1, { pass_1, pass_1_near } },
};

static const struct pass *choose_pass(uint32_t left, bool near)
{
    const struct pass *pass = passes;
    while (pass->rows > left || (near && pass->run[0] == pass->run[1]))
        pass++;
    return pass;
}

/* Steps that rows begin..end of a panel take, per pair of tiles. */
static uint64_t count_steps(uint32_t rows, bool near)
{
    uint64_t steps = 0;
    while (rows) {
        const struct pass *pass = choose_pass(rows, near);
        steps += pass->halves;
        rows -= pass->rows;
    }
    return steps;
}

INLINE void multiply_panel(enum kt_stage stage, const struct kt_product *job, uint64_t panel,
                           uint32_t begin, uint32_t end, bool near, struct stream *stream)
{
    uint64_t size = job->layout->act_row_size[stage], tiles = stage_tiles(job->layout, stage);
    const uint8_t *pair = (const uint8_t *)job->packed + panel * panel_size(tiles);
    _Alignas(64) int32_t out[MAX_ROWS][PANEL_ROWS];
    struct sums sums = { &out[0][0], PANEL_ROWS, TILE_ROWS };
    struct panel_scales scales;
    bool scaled = false;

    for (uint32_t row = begin; row < end;) {
        const struct pass *pass = choose_pass(end - row, near);
        const int8_t *x[MAX_ROWS];
        for (uint32_t r = 0; r < pass->rows; r++) {
            uint32_t from = job->index ? job->index[row + r] : row + r;
            x[r] = (const int8_t *)job->act + from * size;
        }
        pass->run[near && row == begin](pair, tiles, x, stream, out);
        if (!scaled)
            load_scales(job, stage, panel, &scales);
        scaled = true;
        finish(stage, job, panel, row, pass->rows, &sums, &scales);
        row += pass->rows;
    }
}

/* Lots of rows whose activations stay in L2 go through all panels, lot after lot. */
INLINE void multiply_stage(enum kt_stage stage, const struct kt_product *job)
{
    uint64_t tiles = stage_tiles(job->layout, stage);
    uint32_t lot = count_lot(job, stage);
    uint64_t size = (job->panel_end - job->panel_begin) * panel_size(tiles);
    const uint8_t *base = (const uint8_t *)job->packed + job->panel_begin * panel_size(tiles);
    struct stream stream;

    for (uint32_t begin = 0; begin < job->n_rows; begin += lot) {
        bool last = job->n_rows - begin <= lot;
        uint32_t end = last ? job->n_rows : begin + lot;
        bool near = end - begin <= NEAR_ROWS;
        const void *next = last ? job->next : base;
        uint64_t next_size = last ? job->next_size : size;
        uint64_t steps = count_steps(end - begin, near) * tiles *
                         (job->panel_end - job->panel_begin);
        stream_start(&stream, !near, base, size, steps, next, next_size);
        for (uint64_t p = job->panel_begin; p < job->panel_end; p++) {
            if (near && p + 1 == job->panel_end)
                stream_begin(next, next_size);
            multiply_panel(stage, job, p, begin, end, near, &stream);
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

#define LEVEL_OPS(level)                         \
    const struct kt_ops amx_int8_ops_##level = { \
        .struct_size = sizeof(struct kt_ops),    \
        .layout = amx_int8_layout,               \
        .pack = pack_weights,                    \
        .act_pack = pack_rows,                   \
        .gate_up = multiply_gate_up,             \
        .down = multiply_down,                   \
        .weight_row = amx_int8_weight_row,       \
    }

#endif

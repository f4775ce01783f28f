/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/microkernel.h - a panel's product with a lot of rows, as passes of a few rows each whose sums stay in
 * registers over all of K. Include an int8_*.h, gemm/prefetch.h and int8/epilogue.h first. A level says
 *
 *   ROWS_WIDE    rows that share one pass over a panel (8), 0: no such pass
 *   ROWS_TILE    rows that share one pass over one tile of each pair of a panel, 0: no such pass.
 *                With 16 registers, 4 rows of 16 columns cost fewer loads and less making ready of
 *                codes than 2 rows of 32, but read a panel in two passes: for L2, not for memory.
 *
 * A pass of few rows costs loads of weights, one of many registers for sums: 2 per row at 512 bits, 4 at
 * 256. All sums must stay in registers over the whole of K.
 */
#ifndef KT_PLUGINS_COMMON_GEMM_MICROKERNEL_H
#define KT_PLUGINS_COMMON_GEMM_MICROKERNEL_H

#ifndef ROWS_EACH /* up to so many rows (12, or 0), each number has a near pass of its own */
#define ROWS_EACH 0
#endif
#ifndef ROWS_PAIRED /* 1: passes are those of gemm/mmla.h */
#define ROWS_PAIRED 0
#endif

#define MAX_ROWS 12
#define VECS (2 * VEC_PARTS) /* of a panel: 32 columns */

#ifndef PANEL_OWN
#define PANEL_OWN /* fields of the backend's own */
#endif

/* Where a pass finds its weights. */
struct panel8 {
    const uint8_t *codes;
    uint64_t tiles;       /* along K */
    uint64_t ahead;       /* bytes to prefetch ahead of codes, where a backend asks for it */
    unsigned group_shift; /* a group is 32 << group_shift columns */
    PANEL_OWN
};

#ifndef SUM
#define SUM int16_t
#endif

/* Its rows of activations: the columns of tile t of row r at x[r] + t * X_STEP, and sums (ROW_SUMS). */
struct rows8 {
    const int8_t *x[MAX_ROWS];
    const SUM *sums[MAX_ROWS];
};
#ifndef X_STEP
#define X_STEP (TILED ? TILE_SIZE : TILE_COLUMNS)
#endif

/* Where a packed row is. */
#ifndef FIND_ROW
#define FIND_ROW(act, row_size, row) find_columns(act, row_size, row, 0, TILED)
#endif

typedef void (*pass_fn)(const struct panel8 *panel, const struct rows8 *rows, struct stream *stream,
                        ACC out[MAX_ROWS][PANEL_ROWS]);

/* A pass made of a function with constants for rows, for the first and the number of its vectors of the
 * 32 columns, and for near: all columns, or one tile of 16 after the other. */
#define DEFINE_PASS(name, multiply, rows, near)                                                \
    static void name(const struct panel8 *panel, const struct rows8 *x, struct stream *stream, \
                     ACC out[MAX_ROWS][PANEL_ROWS])                                            \
    {                                                                                          \
        multiply(panel, x, rows, 0, VECS, near, stream, out);                                  \
    }
#define DEFINE_TILE_PASS(name, multiply, rows)                                                 \
    static void name(const struct panel8 *panel, const struct rows8 *x, struct stream *stream, \
                     ACC out[MAX_ROWS][PANEL_ROWS])                                            \
    {                                                                                          \
        multiply(panel, x, rows, 0, VEC_PARTS, false, stream, out);                            \
        multiply(panel, x, rows, VEC_PARTS, VEC_PARTS, false, stream, out);                    \
    }

struct pass {
    uint32_t rows;   /* the last of a list has 1 */
    uint32_t halves; /* steps that it takes per pair of tiles */
    pass_fn run[2];  /* spread; near, NULL: none */
};

/* How a lot of rows is multiplied. Most rows first in `passes`: a product takes the first that is not
 * too large for what is left. */
struct way {
    const struct pass *passes;
    bool near;  /* the first pass over a panel comes at the speed of memory */
    bool coded; /* what the passes add up: see struct sums */
};

static const struct pass *choose_pass(const struct way *way, uint32_t left)
{
    const struct pass *pass = way->passes;
    while (pass->rows > left || (way->near && !pass->run[1]))
        pass++;
    return pass;
}

static void find_rows(const struct kt_product *job, enum kt_stage stage, uint32_t row, uint32_t n,
                      uint64_t tiles, struct rows8 *rows)
{
    uint64_t size = job->layout->act_row_size[stage];
    for (uint32_t r = 0; r < n; r++) {
        uint32_t from = job->index ? job->index[row + r] : row + r;
        rows->x[r] = (const int8_t *)FIND_ROW((void *)(uintptr_t)job->act, size, from);
#if ROW_SUMS
        rows->sums[r] = read_sums(job->act, size, tiles, from, TILED);
#else
        (void)tiles;
#endif
    }
}

/* Rows begin..end-1 of panel `number`. */
INLINE void run_passes(enum kt_stage stage, const struct kt_product *job, uint64_t number,
                       const struct panel8 *panel, const struct way *way, uint32_t begin, uint32_t end,
                       struct stream *stream)
{
    _Alignas(64) ACC out[MAX_ROWS][PANEL_ROWS];
    struct sums sums = {&out[0][0], PANEL_ROWS, TILE_ROWS, way->coded};
    struct panel_scales scales;
    bool scaled = false;

    for (uint32_t row = begin; row < end;) {
        const struct pass *pass = choose_pass(way, end - row);
        struct rows8 rows;
        find_rows(job, stage, row, pass->rows, panel->tiles, &rows);
        pass->run[way->near && row == begin](panel, &rows, stream, out);
        if (!scaled)
            load_scales(job, stage, number, &scales);
        scaled = true;
        finish(stage, job, number, row, pass->rows, &sums, &scales);
        row += pass->rows;
    }
}

#endif

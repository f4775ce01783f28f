/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/microkernel_tmpl.h - a panel's product with a row block, by microkernels of a few rows (MR) each,
 * whose sums stay in registers over all of K. MR is bounded by the registers for sums: a row takes 2 with
 * AVX-512, 4 with AVX2.
 *
 * Parameters  EPILOGUE_H  the header that has ACC, struct panel_scales, load_scales and finish:
 *                         int8/epilogue_tmpl.h or bf16/epilogue.h
 *             TILED       1: rows of activations are tiles of 16 rows (level amx); 0: one after the other
 *             ROW_SUMS    1: sums of columns stand beside each row, where read_sums finds them
 *             SUM         the type of these: int16_t (default) or float
 *             X_STEP      bytes from one tile of a row to the next
 *             FIND_ROW(act, row_size, row)   where a packed row is; default: where find_columns says
 *             MAX_ROWS    rows of a microkernel, at most; default 12
 *             PANEL_OWN   the type of what the backend knows of a panel beside struct panel; default: none
 */
#ifndef KT_PLUGINS_COMMON_GEMM_MICROKERNEL_TMPL_H
#define KT_PLUGINS_COMMON_GEMM_MICROKERNEL_TMPL_H

#ifndef EPILOGUE_H
#error "gemm/microkernel_tmpl.h: define EPILOGUE_H"
#endif
#ifndef TILED
#error "gemm/microkernel_tmpl.h: define TILED"
#endif
#ifndef ROW_SUMS
#error "gemm/microkernel_tmpl.h: define ROW_SUMS"
#endif

#include EPILOGUE_H
#include "plugins/common/gemm/geometry.h"
#include "plugins/common/gemm/lines.h"
#include "plugins/common/gemm/prefetch.h"

#ifndef MAX_ROWS
#define MAX_ROWS 12
#endif

/* The weights that a microkernel multiplies. */
struct panel {
    const uint8_t *codes;
    uint64_t tiles;        /* along K */
    uint64_t distance;     /* bytes to prefetch ahead of codes, where a backend asks for it */
    uint64_t few_distance; /* the same for one or two rows; 0: it does not differ */
    unsigned group_shift;  /* a group is 32 << group_shift columns */
#ifdef PANEL_OWN
    PANEL_OWN own;
#endif
};

#ifndef SUM
#define SUM int16_t
#endif
#ifndef X_STEP
#define X_STEP (TILED ? TILE_SIZE : TILE_COLUMNS)
#endif
#ifndef FIND_ROW
/* Where column TILE_COLUMNS * t of packed row `row` is. */
INLINE uint8_t *find_columns(void *act, uint64_t row_size, uint64_t row, uint64_t t, bool tiled);
#define FIND_ROW(act, row_size, row) find_columns(act, row_size, row, 0, TILED)
#endif

#if ROW_SUMS
/* The sums of packed row `row`, whose K is `tiles` tiles. */
INLINE const SUM *read_sums(const void *act, uint64_t row_size, uint64_t tiles, uint64_t row, bool tiled);
#endif

/* Rows of activations: the columns of tile t of row r at x[r] + t * X_STEP, and sums (ROW_SUMS). The first is
 * row `first` of the product. */
struct act_rows {
    uint32_t first;
    const int8_t *x[MAX_ROWS];
    const SUM *sums[MAX_ROWS];
};

typedef void (*microkernel_fn)(const struct panel *panel, const struct act_rows *rows,
                               struct prefetcher *prefetcher, ACC out[MAX_ROWS][PANEL_ROWS]);

/* Defines a microkernel from a function whose arguments rows, first vector, number of vectors and streamed
 * are constants: all 32 rows of weights at once, or one tile of 16 after the other. */
#define DEFINE_MICROKERNEL(name, multiply, rows, streamed)                                               \
    static void name(const struct panel *panel, const struct act_rows *x, struct prefetcher *prefetcher, \
                     ACC out[MAX_ROWS][PANEL_ROWS])                                                      \
    {                                                                                                    \
        multiply(panel, x, rows, 0, VECS, streamed, prefetcher, out);                                    \
    }
#define DEFINE_TILE_MICROKERNEL(name, multiply, rows)                                                    \
    static void name(const struct panel *panel, const struct act_rows *x, struct prefetcher *prefetcher, \
                     ACC out[MAX_ROWS][PANEL_ROWS])                                                      \
    {                                                                                                    \
        multiply(panel, x, rows, 0, VEC_PARTS, false, prefetcher, out);                                  \
        multiply(panel, x, rows, VEC_PARTS, VEC_PARTS, false, prefetcher, out);                          \
    }

struct microkernel {
    uint32_t rows;         /* the last of a list has 1 */
    uint32_t cost;         /* steps for each pair of tiles */
    microkernel_fn run[2]; /* paced; streamed, NULL: there is none */
};

/* How a row block is multiplied. `microkernels` has the one with most rows first: the first that is not too
 * large for the rows that are left is taken. */
struct strategy {
    const struct microkernel *microkernels;
    bool streamed; /* the first microkernel that reads a panel is a streamed one */
    bool pending;  /* of the sums: see struct sums */
};

static const struct microkernel *choose_microkernel(const struct strategy *strategy, uint32_t left)
{
    const struct microkernel *microkernel = strategy->microkernels;
    while (microkernel->rows > left || (strategy->streamed && !microkernel->run[1]))
        microkernel++;
    return microkernel;
}

static void find_rows(const struct kt_product *job, enum kt_stage stage, uint32_t row, uint32_t n,
                      uint64_t tiles, struct act_rows *rows)
{
    uint64_t size = job->layout->act_row_size[stage];
    rows->first = row;
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
INLINE void run_microkernels(enum kt_stage stage, const struct kt_product *job, uint64_t number,
                             const struct panel *panel, const struct strategy *strategy, uint32_t begin,
                             uint32_t end, struct prefetcher *prefetcher)
{
    _Alignas(64) ACC out[MAX_ROWS][PANEL_ROWS];
    struct sums sums = {&out[0][0], PANEL_ROWS, TILE_ROWS, strategy->pending};
    struct panel_scales scales;
    bool scaled = false;

    for (uint32_t row = begin; row < end;) {
        const struct microkernel *microkernel = choose_microkernel(strategy, end - row);
        struct act_rows rows;
        find_rows(job, stage, row, microkernel->rows, panel->tiles, &rows);
        microkernel->run[strategy->streamed && row == begin](panel, &rows, prefetcher, out);
        if (!scaled)
            load_scales(job, stage, number, &scales);
        scaled = true;
        finish(stage, job, number, row, microkernel->rows, &sums, &scales);
        row += microkernel->rows;
    }
}

#endif

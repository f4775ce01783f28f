/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/geometry.h - backends that multiply int8 activations with panels of tiles: sizes, activations and h.
 *
 * Weights   A tile is 16 rows x 64 columns, a panel two tiles wide and all of K long. In stage 0 the
 *           two are 16 gate rows and the same 16 up rows, so that the activation can be applied to the
 *           two sums as they come; in stage 1 they are 32 rows of down. As int8, a tile has 1 KB: line
 *           i holds columns 4i..4i+3 of all rows, 4 bytes each, as codes q + 128. What is in a panel
 *           beside its tiles, and how they are stored, is a backend's own.
 * Activations  x = scale * q per row, q within +-127: int8[K filled up to 64], a struct row_meta, what
 *           the backend adds, filled up to an odd number of lines: with 4096 bytes, all rows' lines
 *           would compete for one set of the cache. Level amx puts 16 such rows together: tile after
 *           tile of 16 rows x 64 columns in 1 KB, then 16 struct row_meta; stage 1 packs h so, stage 0
 *           gathers its rows so.
 * h         float32, [panel][row][16]: what a product writes and what packing reads is one stream. Rows
 *           are filled up to 16 and what stands there is never looked at.
 */
#ifndef KT_PLUGINS_COMMON_GEMM_GEOMETRY_H
#define KT_PLUGINS_COMMON_GEMM_GEOMETRY_H

#include <kt/plugin.h>
#include <stdbool.h>

#define TILE_ROWS 16
#ifndef TILE_COLUMNS /* other than int8 */
#define TILE_COLUMNS 64
#endif
#define TILE_LINE 64 /* bytes of a row of activations in a tile */
#define TILE_SIZE 1024
#define PAIR_SIZE (2 * TILE_SIZE)
#define PANEL_ROWS (2 * TILE_ROWS) /* of both tiles */
#define SCALES_SIZE (PANEL_ROWS * 4u)

/* Of the sums that a row's row_meta may be followed by, see int8/activations.h. */
#define SUM_COLUMNS 32

/* Longest K whose sums fit in 32 bits: 127 * 128 * K < 2^31. */
#define MAX_K (UINT64_C(1) << 17)

struct row_meta {
    float scale;
    int32_t sum128; /* 128 * sum of q */
};

/* An instance. */
struct instance8 {
    const struct kt_host *host;
    uint64_t l2_size;
    uint64_t ahead; /* struct kt_caps.stream_ahead */
    uint32_t y_dtype;
    uint32_t group_size; /* of weights with one scale, in backends that have such groups */
    bool refuses_wider;  /* bf16: weights of more precision than its own */
    bool in_place;       /* llamafile: products read the source, nothing is packed */
    bool int8_rows;      /* rawint4: activations become int8 */
};

/* kt_layout.words[stage]: rows that a product may take before it starts over with the first panel. */
#define WORD_AHEAD 7     /* kt_layout.words: instance8.ahead */
#define WORD_INT8_ROWS 6 /* likewise: 1 where rows are int8, which only rawint4 can have */

static inline uint64_t round_up(uint64_t size, uint64_t unit)
{
    return (size + unit - 1) / unit * unit;
}

static inline uint64_t stage_k(const struct kt_layout *layout, enum kt_stage stage)
{
    return stage == KT_STAGE_GATE_UP ? layout->shape.hidden_size : layout->shape.intermediate_size;
}

/* Tiles along K. */
static inline uint64_t stage_tiles(const struct kt_layout *layout, enum kt_stage stage)
{
    return (stage_k(layout, stage) + TILE_COLUMNS - 1) / TILE_COLUMNS;
}

/* Where a product's panels are, one after the other; NULL: nowhere, since weights are used in place. */
static inline const uint8_t *find_panels(const struct kt_product *job, uint64_t panel_size)
{
    return job->packed ? (const uint8_t *)job->packed + job->panel_begin * panel_size : NULL;
}

/* Rows of a product's lots: even ones, a multiple of 32. */
static inline uint32_t count_lot(const struct kt_product *job, enum kt_stage stage)
{
    uint64_t most = job->layout->words[stage];
    uint64_t lots = job->n_rows ? (job->n_rows + most - 1) / most : 1;
    return (uint32_t)round_up((job->n_rows + lots - 1) / lots, 32);
}

#endif

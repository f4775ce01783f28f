/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/geometry.h - panels of tiles, and the slots of a layout.
 *
 * A tile is 16 rows x TILE_COLUMNS columns of weights in 1 KB: line i of 64 bytes holds 4 bytes of each row,
 * its next columns. A panel is two tiles wide and all of K long. In stage 0 the two are 16 gate rows and the
 * same 16 up rows, so that the activation can be applied to both sums as they come; in stage 1, and in stage
 * 0 of experts without a gate, they are 32 rows of one matrix. What is in a panel beside its tiles, and how
 * they are stored, is a family's own.
 *
 * Parameter  TILE_COLUMNS  64 (default), of bytes; 32 where numbers have 2 bytes. A backend's header that
 * sets it does so before it includes anything.
 */
#ifndef KT_PLUGINS_COMMON_GEMM_GEOMETRY_H
#define KT_PLUGINS_COMMON_GEMM_GEOMETRY_H

#include <kt/plugin.h>
#include <stdbool.h>
#include <stdint.h>

#define TILE_ROWS 16
#ifndef TILE_COLUMNS
#define TILE_COLUMNS 64
#endif
#define TILE_LINE 64 /* bytes of a row of activations in a tile */
#define TILE_SIZE 1024
#define PAIR_SIZE (2 * TILE_SIZE)
#define PANEL_ROWS (2 * TILE_ROWS) /* of both tiles */
#define SCALES_SIZE (PANEL_ROWS * 4u)

/* Slots of kt_layout.words. From WORD_OWN on they are a family's or a backend's own, and those of one have
 * the numbers of another's. */
enum {
    WORD_ROW_BLOCK, /* + stage: rows that a product takes before it starts over with the first panel */
    WORD_OWN = 2,   /* to 5 */
    WORD_GROUP_SHIFT = WORD_OWN, /* int4_group: a group is MIN_GROUP << shift columns */
    WORD_MATRIX = WORD_OWN,      /* vendor, + stage: bytes of a matrix; 0: panels have the own levels' form */
    WORD_INT8_ROWS = 6,          /* coded: 1 where activations are int8 */
    WORD_PREFETCH,               /* struct kt_caps.stream_ahead */
};

static inline uint64_t round_up(uint64_t size, uint64_t unit)
{
    return (size + unit - 1) / unit * unit;
}

static inline uint64_t stage_k(const struct kt_layout *layout, enum kt_stage stage)
{
    return stage == KT_STAGE_GATE_UP ? layout->shape.hidden_size : layout->shape.intermediate_size;
}

/* A linear is its down projection alone (<kt/plugin.h>). */
static inline bool is_linear(const struct kt_shape *shape)
{
    return shape->activation == KT_ACTIVATION_NONE;
}

static inline int first_projection(const struct kt_shape *shape)
{
    return (int)kt_activation_first(shape->activation);
}

static inline int first_stage(const struct kt_shape *shape)
{
    return is_linear(shape) ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
}

/* Are the tiles of a stage's panels of two matrices, gate and up? */
static inline bool has_gate(const struct kt_shape *shape, enum kt_stage stage)
{
    return stage == KT_STAGE_GATE_UP && first_projection(shape) == KT_GATE;
}

/* The projection that tile 0 or 1 of a stage's panels is of. */
static inline enum kt_projection tile_projection(const struct kt_shape *shape, enum kt_stage stage, int tile)
{
    return stage == KT_STAGE_DOWN ? KT_DOWN : tile == 0 && has_gate(shape, stage) ? KT_GATE : KT_UP;
}

/* Rows of a projection in a panel. */
static inline uint64_t panel_step(const struct kt_shape *shape, enum kt_stage stage)
{
    return has_gate(shape, stage) ? TILE_ROWS : PANEL_ROWS;
}

/* Where row `row` of a projection is among the 32 of its panel. */
static inline uint64_t panel_place(const struct kt_shape *shape, enum kt_projection projection, uint64_t row)
{
    if (projection == KT_DOWN || !has_gate(shape, KT_STAGE_GATE_UP))
        return row % PANEL_ROWS;
    return row % TILE_ROWS + (projection == KT_UP ? TILE_ROWS : 0);
}

static inline const struct kt_view *find_view(const struct kt_expert *source, enum kt_projection projection)
{
    return projection == KT_GATE ? &source->gate : projection == KT_UP ? &source->up : &source->down;
}

/* Columns of h as kernels write it, which is in whole panels. */
static inline uint64_t h_columns(const struct kt_shape *shape)
{
    uint64_t step = panel_step(shape, KT_STAGE_GATE_UP);
    return (shape->intermediate_size + step - 1) / step * step;
}

/* Rows of activations that are to be packed. */
struct act_source {
    const uint8_t *first;
    int64_t stride;
    uint32_t dtype;
};

/* Those of a job: plain rows or, where h is float32 row after row, those of h. */
static inline struct act_source find_act_source(const struct kt_act_pack *job)
{
    if (job->source_dtype)
        return (struct act_source){job->source, job->source_stride, job->source_dtype};
    return (struct act_source){job->source, (int64_t)job->layout->h_row_size, KT_DTYPE_F32};
}

/* Tiles along K. */
static inline uint64_t stage_tiles(const struct kt_layout *layout, enum kt_stage stage)
{
    return (stage_k(layout, stage) + TILE_COLUMNS - 1) / TILE_COLUMNS;
}

/* Where a product's panels are, one after the other; NULL: they do not exist, the source is used in place. */
static inline const uint8_t *find_panels(const struct kt_product *job, uint64_t panel_size)
{
    return job->packed ? (const uint8_t *)job->packed + job->panel_begin * panel_size : NULL;
}

/* Rows of a product's row blocks: about equal, a multiple of 32 or, where they may not be that many, of 4. */
static inline uint32_t size_row_block(const struct kt_product *job, enum kt_stage stage)
{
    uint64_t most = job->layout->words[WORD_ROW_BLOCK + stage];
    uint64_t blocks = job->n_rows ? (job->n_rows + most - 1) / most : 1;
    return (uint32_t)round_up((job->n_rows + blocks - 1) / blocks, most < 32 ? 4 : 32);
}

#endif

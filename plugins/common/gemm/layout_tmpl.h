/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/layout_tmpl.h - what the layouts of all backends share: the size of a row block, checks of views,
 * where rows of weights are, and parts of panels.
 *
 * Parameter  BACKEND  the backend's name, for messages
 * Wanted     panel_size
 */
#ifndef KT_PLUGINS_COMMON_GEMM_LAYOUT_TMPL_H
#define KT_PLUGINS_COMMON_GEMM_LAYOUT_TMPL_H

#ifndef BACKEND
#error "gemm/layout_tmpl.h: define BACKEND"
#endif

#include "plugins/common/gemm/geometry.h"
#include "plugins/common/plugin/instance.h"

#include <string.h>

/* Bytes of a panel of a stage. */
static inline uint64_t panel_size(const struct kt_layout *layout, enum kt_stage stage);

/* What a projection is called, for messages. */
static inline const char *name_projection(const struct kt_shape *shape, int projection)
{
    static const char *const names[3] = {"gate projection", "up projection", "down projection"};
    return is_linear(shape) ? "matrix" : names[projection];
}

/* Rows of a row block. Their activations are read for every panel and must stay in L2 beside two panels;
 * weights come from memory once for each block. */
static inline uint64_t limit_row_block(const struct instance *self, uint64_t act_row_size)
{
    uint64_t rows = self->l2_size / 8 * 5 / act_row_size;
    return rows < 64 ? 64 : rows / 32 * 32;
}

/* What stages have in common; act_row_size: bytes of a packed row of activations. */
static inline void lay_out_stage(const struct instance *self, struct kt_layout *layout, enum kt_stage stage,
                                 uint64_t act_row_size)
{
    bool down = stage == KT_STAGE_DOWN;
    uint64_t rows = down ? layout->shape.hidden_size : layout->shape.intermediate_size;
    uint64_t unit = panel_step(&layout->shape, stage);
    layout->panel_rows[stage] = unit;
    layout->weight_size[stage] = round_up(rows, unit) / unit * panel_size(layout, stage);
    layout->act_row_size[stage] = act_row_size;
    layout->words[WORD_ROW_BLOCK + stage] = limit_row_block(self, act_row_size);
}

static inline enum kt_status check_view(const struct kt_view *view, const struct kt_shape *shape,
                                        enum kt_projection projection, struct kt_error *error)
{
    bool down = projection == KT_DOWN;
    uint64_t rows = down ? shape->hidden_size : shape->intermediate_size;
    uint64_t cols = down ? shape->intermediate_size : shape->hidden_size;
    if (view->rows == rows && view->cols == cols)
        return KT_OK;
    return kt_plugin_fail(error, KT_E_INVALID, BACKEND ": %s is %llu x %llu, the layer is for %llu x %llu",
                          view->name ? view->name : "a weight view", (unsigned long long)view->rows,
                          (unsigned long long)view->cols, (unsigned long long)rows, (unsigned long long)cols);
}

static inline enum kt_status check_source(const struct kt_pack *job, struct kt_error *error)
{
    const struct kt_shape *shape = &job->layout->shape;
    enum kt_status status = KT_OK;
    for (int tile = 0; tile < 2 && status == KT_OK; tile++) {
        enum kt_projection projection = tile_projection(shape, job->stage, tile);
        status = check_view(find_view(job->source, projection), shape, projection, error);
    }
    return status;
}

/* Copies a shard's panels: in stage 0 whole panels of the expert, in stage 1 parts of them, which
 * `cut_panel` copies. */
static inline void cut_panels(const struct kt_cut *job,
                              void (*cut_panel)(const struct kt_cut *job, const uint8_t *from, uint8_t *to))
{
    uint64_t size = panel_size(job->shard, job->stage), whole = panel_size(job->whole, job->stage);
    const uint8_t *from = job->packed;
    uint8_t *to = job->out;
    if (job->stage == KT_STAGE_GATE_UP)
        memcpy(to + job->panel_begin * size,
               from + (job->begin / panel_step(&job->shard->shape, job->stage) + job->panel_begin) * size,
               (job->panel_end - job->panel_begin) * size);
    else
        for (uint64_t p = job->panel_begin; p < job->panel_end; p++)
            cut_panel(job, from + p * whole, to + p * size);
}

/* Where row `row` of a projection is: its panel, and its place among the 32 rows there. */
static inline enum kt_status find_row(const struct kt_layout *layout, const void *packed,
                                      enum kt_projection projection, uint64_t row, const uint8_t **panel,
                                      uint64_t *place, struct kt_error *error)
{
    bool down = projection == KT_DOWN;
    enum kt_stage stage = down ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
    uint64_t rows = down ? layout->shape.hidden_size : layout->shape.intermediate_size;
    if (row >= rows)
        return kt_plugin_fail(error, KT_E_RANGE, BACKEND ": row %llu of a matrix of %llu rows",
                              (unsigned long long)row, (unsigned long long)rows);
    *panel = NULL;
    if (packed) /* else weights are used in place */
        *panel = (const uint8_t *)packed + row / layout->panel_rows[stage] * panel_size(layout, stage);
    *place = panel_place(&layout->shape, projection, row);
    return KT_OK;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/layout.h - sizes of packed objects and rows, and what is refused. Include the backend's header
 * first: its BACKEND names it in messages, its panel_size and ROW_SUMS say what is its own.
 */
#ifndef KT_PLUGINS_COMMON_GEMM_LAYOUT_H
#define KT_PLUGINS_COMMON_GEMM_LAYOUT_H

#include "plugins/common/gemm/geometry.h"

#include <string.h>

/* Anything that stands for real numbers: the core dequantises it. */
static inline bool is_source(uint32_t dtype)
{
    return dtype == KT_DTYPE_F32 || dtype == KT_DTYPE_F16 || dtype == KT_DTYPE_BF16 ||
           dtype == KT_DTYPE_F64 || dtype == KT_DTYPE_I8 || dtype == KT_DTYPE_F8_E4M3 ||
           dtype == KT_DTYPE_F8_E5M2 || dtype == KT_DTYPE_INT4 || dtype == KT_DTYPE_F4_E2M1 ||
           dtype >= KT_DTYPE_Q4_0;
}

static inline enum kt_status check_shape(const struct instance8 *self, const struct kt_shape *shape,
                                         struct kt_error *error)
{
    static const char *const projections[3] = {"gate", "up", "down"};
    if (shape->hidden_size == 0 || shape->intermediate_size == 0 || shape->hidden_size > MAX_K ||
        shape->intermediate_size > MAX_K)
        return kt_plugin_fail(error, KT_E_UNSUPPORTED,
                              BACKEND ": sizes %llu and %llu are outside 1..%llu, where sums of int8 "
                                      "products fit in 32 bits",
                              (unsigned long long)shape->hidden_size,
                              (unsigned long long)shape->intermediate_size, (unsigned long long)MAX_K);
    for (int p = 0; p < 3; p++)
        if (!is_source(shape->format[p].dtype))
            return kt_plugin_fail(error, KT_E_UNSUPPORTED,
                                  BACKEND ": the %s projection is %s, which is no format of weights "
                                          "that it could quantise",
                                  projections[p], self->host->dtype_name(shape->format[p].dtype));
    return KT_OK;
}

/* Bytes of a packed activation row. */
static inline uint64_t size_act_row(uint64_t k)
{
    uint64_t columns = round_up(k, TILE_COLUMNS);
    uint64_t sums = ROW_SUMS ? columns / SUM_COLUMNS * 2 * sizeof(int16_t) : 0;
    return round_up(columns + sizeof(struct row_meta) + sums, 64) | 64;
}

/*
 * Rows that go through all panels together. Their activations are read for every panel and must stay
 * in L2 beside two panels; the weights come from memory once for each such lot.
 */
static inline uint64_t count_rows(const struct instance8 *self, uint64_t act_row_size)
{
    uint64_t rows = self->l2_size / 8 * 5 / act_row_size;
    return rows < 64 ? 64 : rows / 32 * 32;
}

/* Everything of layout->shape's layout but nominal_size; words that panel_size reads are already set. */
static inline enum kt_status lay_out(const struct instance8 *self, struct kt_layout *layout,
                                     struct kt_error *error)
{
    uint64_t hidden = layout->shape.hidden_size, intermediate = layout->shape.intermediate_size;
    enum kt_status status = check_shape(self, &layout->shape, error);
    if (status)
        return status;
    uint64_t gate_panels = round_up(intermediate, TILE_ROWS) / TILE_ROWS;
    uint64_t down_panels = round_up(hidden, PANEL_ROWS) / PANEL_ROWS;
    layout->panel_rows[0] = TILE_ROWS;
    layout->panel_rows[1] = PANEL_ROWS;
    layout->k_unit = TILE_COLUMNS;
    layout->weight_size[0] = gate_panels * panel_size(layout, KT_STAGE_GATE_UP);
    layout->weight_size[1] = down_panels * panel_size(layout, KT_STAGE_DOWN);
    layout->act_row_size[0] = size_act_row(hidden);
    layout->act_row_size[1] = size_act_row(intermediate);
    layout->h_row_size = gate_panels * TILE_ROWS * sizeof(float);
    layout->row_unit = TILE_ROWS;
    layout->y_dtype = self->y_dtype;
    layout->words[KT_STAGE_GATE_UP] = count_rows(self, layout->act_row_size[0]);
    layout->words[KT_STAGE_DOWN] = count_rows(self, layout->act_row_size[1]);
    layout->words[WORD_AHEAD] = self->ahead;
    return KT_OK;
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
    if (job->stage == KT_STAGE_DOWN)
        return check_view(&job->source->down, shape, KT_DOWN, error);
    enum kt_status status = check_view(&job->source->gate, shape, KT_GATE, error);
    return status ? status : check_view(&job->source->up, shape, KT_UP, error);
}

/* Cuts a shard's panels out: in stage 0 they are whole panels of the expert, in stage 1 parts of them,
 * which `cut_panel` knows to make. */
static inline void cut_panels(const struct kt_cut *job,
                              void (*cut_panel)(const struct kt_cut *job, const uint8_t *from, uint8_t *to))
{
    uint64_t size = panel_size(job->shard, job->stage), whole = panel_size(job->whole, job->stage);
    const uint8_t *from = job->packed;
    uint8_t *to = job->out;
    if (job->stage == KT_STAGE_GATE_UP)
        memcpy(to + job->panel_begin * size, from + (job->begin / TILE_ROWS + job->panel_begin) * size,
               (job->panel_end - job->panel_begin) * size);
    else
        for (uint64_t p = job->panel_begin; p < job->panel_end; p++)
            cut_panel(job, from + p * whole, to + p * size);
}

/* Where row `row` of a projection is: its panel, and its place of 32 there. */
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
    *place = row % layout->panel_rows[stage] + (projection == KT_UP ? TILE_ROWS : 0);
    return KT_OK;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - sizes of packed objects and rows, and packed weights back to float32. */
#include "plugins/amx_int8/amx_int8.h"

#include <string.h>

static const char *const projections[3] = { "gate", "up", "down" };

/* Anything that stands for real numbers: the core dequantises it. */
static bool is_source(uint32_t dtype)
{
    return dtype == KT_DTYPE_F32 || dtype == KT_DTYPE_F16 || dtype == KT_DTYPE_BF16 ||
           dtype == KT_DTYPE_F64 || dtype == KT_DTYPE_F8_E4M3 || dtype == KT_DTYPE_F8_E5M2 ||
           dtype >= KT_DTYPE_Q4_0;
}

static enum kt_status check_shape(const struct kt_shape *shape, struct kt_error *error)
{
    if (shape->hidden_size == 0 || shape->intermediate_size == 0 || shape->hidden_size > MAX_K ||
        shape->intermediate_size > MAX_K)
        return kt_plugin_fail(error, KT_E_UNSUPPORTED,
                              "amx_int8: sizes %llu and %llu are outside 1..%llu, where sums of int8 "
                              "products fit in 32 bits",
                              (unsigned long long)shape->hidden_size,
                              (unsigned long long)shape->intermediate_size,
                              (unsigned long long)MAX_K);
    for (int p = 0; p < 3; p++)
        if (!is_source(shape->format[p].dtype))
            return kt_plugin_fail(error, KT_E_UNSUPPORTED,
                                  "amx_int8: the %s projection has format %u, which is no format of "
                                  "weights that it could quantise",
                                  projections[p], shape->format[p].dtype);
    return KT_OK;
}

/* Bytes of a packed activation row. */
static uint64_t size_act_row(uint64_t k)
{
    return round_up(round_up(k, TILE_COLUMNS) + sizeof(struct row_meta), 64) | 64;
}

/*
 * Rows that go through all panels together. Their activations are read for every panel and must stay
 * in L2 beside two panels; the weights come from memory once for each such lot.
 */
static uint64_t count_rows(const struct amx_int8 *self, uint64_t act_row_size)
{
    uint64_t rows = self->l2_size / 8 * 5 / act_row_size;
    return rows < 64 ? 64 : rows / 32 * 32;
}

enum kt_status amx_int8_layout(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    const struct amx_int8 *self = instance;
    const struct kt_shape *shape = &layout->shape;
    uint64_t hidden = shape->hidden_size, intermediate = shape->intermediate_size;
    enum kt_status status = check_shape(shape, error);

    if (status)
        return status;
    uint64_t gate_panels = round_up(intermediate, TILE_ROWS) / TILE_ROWS;
    uint64_t down_panels = round_up(hidden, PANEL_ROWS) / PANEL_ROWS;
    layout->panel_rows[0] = TILE_ROWS;
    layout->panel_rows[1] = PANEL_ROWS;
    layout->k_unit = TILE_COLUMNS;
    layout->weight_size[0] = gate_panels * panel_size(stage_tiles(layout, KT_STAGE_GATE_UP));
    layout->weight_size[1] = down_panels * panel_size(stage_tiles(layout, KT_STAGE_DOWN));
    layout->nominal_size[0] = 2 * intermediate * (hidden + sizeof(float));
    layout->nominal_size[1] = hidden * (intermediate + sizeof(float));
    layout->act_row_size[0] = size_act_row(hidden);
    layout->act_row_size[1] = size_act_row(intermediate);
    layout->h_row_size = gate_panels * TILE_ROWS * sizeof(float);
    layout->row_unit = TILE_ROWS;
    layout->y_dtype = self->y_dtype;
    layout->words[KT_STAGE_GATE_UP] = count_rows(self, layout->act_row_size[0]);
    layout->words[KT_STAGE_DOWN] = count_rows(self, layout->act_row_size[1]);
    return KT_OK;
}

static enum kt_status check_view(const struct kt_view *view, const struct kt_shape *shape,
                                 enum kt_projection projection, struct kt_error *error)
{
    bool down = projection == KT_DOWN;
    uint64_t rows = down ? shape->hidden_size : shape->intermediate_size;
    uint64_t cols = down ? shape->intermediate_size : shape->hidden_size;

    if (view->rows == rows && view->cols == cols)
        return KT_OK;
    return kt_plugin_fail(error, KT_E_INVALID,
                          "amx_int8: %s is %llu x %llu, the layer is for %llu x %llu",
                          view->name ? view->name : "a weight view", (unsigned long long)view->rows,
                          (unsigned long long)view->cols, (unsigned long long)rows,
                          (unsigned long long)cols);
}

enum kt_status amx_int8_check_source(const struct kt_pack *job, struct kt_error *error)
{
    const struct kt_shape *shape = &job->layout->shape;

    if (job->stage == KT_STAGE_DOWN)
        return check_view(&job->source->down, shape, KT_DOWN, error);
    enum kt_status status = check_view(&job->source->gate, shape, KT_GATE, error);
    return status ? status : check_view(&job->source->up, shape, KT_UP, error);
}

enum kt_status amx_int8_weight_row(void *instance, const struct kt_layout *layout,
                                   const void *packed, const struct kt_expert *source,
                                   enum kt_projection projection, uint64_t row, float *out,
                                   struct kt_error *error)
{
    (void)instance;
    (void)source;
    const struct kt_shape *shape = &layout->shape;
    enum kt_stage stage = projection == KT_DOWN ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
    uint64_t rows = projection == KT_DOWN ? shape->hidden_size : shape->intermediate_size;
    uint64_t tiles = stage_tiles(layout, stage), k = stage_k(layout, stage);

    if (row >= rows)
        return kt_plugin_fail(error, KT_E_RANGE, "amx_int8: row %llu of a matrix of %llu rows",
                              (unsigned long long)row, (unsigned long long)rows);
    uint64_t panel = row / layout->panel_rows[stage];
    uint64_t place = row % layout->panel_rows[stage]; /* of 32 in the panel */
    if (projection == KT_UP)
        place += TILE_ROWS;
    const uint8_t *from = (const uint8_t *)packed + panel * panel_size(tiles);
    float scale;
    memcpy(&scale, from + tiles * PAIR_SIZE + 4 * place, sizeof scale);
    from += place / TILE_ROWS * TILE_SIZE + place % TILE_ROWS * 4;
    for (uint64_t c = 0; c < k; c++) {
        const uint8_t *quad = from + c / TILE_COLUMNS * PAIR_SIZE + c % TILE_COLUMNS / 4 * 64;
        out[c] = scale * (float)(quad[c % 4] - 128);
    }
    return KT_OK;
}

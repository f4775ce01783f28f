/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - sizes of packed objects and rows, and packed weights back to float32. */
#include "plugins/bf16/bf16.h"

#include "plugins/common/simd/numbers.h"
#include "plugins/common/bf16/layout_tmpl.h"

#include <string.h>

static enum kt_status check_layout(const struct bf16_instance *self, const struct kt_shape *shape,
                                   struct kt_error *error)
{
    enum kt_status status = check_sizes(shape, error);
    if (status)
        return status;
    for (int p = first_projection(shape); p <= KT_DOWN; p++) {
        const struct kt_format *format = &shape->format[p];
        bool scaled = format->scale_dtype != KT_DTYPE_NONE || format->zero_dtype != KT_DTYPE_NONE;
        bool known =
            format->dtype == KT_DTYPE_BF16 || format->dtype == KT_DTYPE_F16 || format->dtype == KT_DTYPE_F32;
        if (!known || scaled)
            return kt_plugin_fail(error, KT_E_UNSUPPORTED,
                                  BACKEND
                                  ": the %s is %s%s, which is not supported; supported are bf16, f16 and f32",
                                  name_projection(shape, p), self->base.host->dtype_name(format->dtype),
                                  scaled ? " with scales beside the matrix" : "");
        if (self->refuses_wider && format->dtype != KT_DTYPE_BF16)
            return kt_plugin_fail(error, KT_E_UNSUPPORTED,
                                  BACKEND ": the %s is %s, which would be rounded: set wider = "
                                          "round in [plugin.bf16] and name this backend for that",
                                  name_projection(shape, p), self->base.host->dtype_name(format->dtype));
    }
    return KT_OK;
}

static enum kt_status lay_out_rows(const struct bf16_instance *self, struct kt_layout *layout,
                                   const struct row_form *form, struct kt_error *error)
{
    const struct kt_shape *shape = &layout->shape;
    enum kt_status status = check_layout(self, shape, error);
    if (status)
        return status;
    lay_out_bf16(&self->base, layout);
    for (int stage = first_stage(shape); stage <= KT_STAGE_DOWN; stage++)
        lay_out_stage(&self->base, layout, (enum kt_stage)stage,
                      size_row(stage_k(layout, (enum kt_stage)stage), form));
    layout->k_unit = TILE_COLUMNS;
    for (int p = first_projection(shape); p <= KT_DOWN; p++) {
        layout->nominal_size[p == KT_DOWN] +=
            shape->hidden_size * shape->intermediate_size * sizeof(uint16_t);
        if (shape->format[p].dtype != KT_DTYPE_BF16)
            layout->rounding = "bf16";
    }
    memcpy(layout->form, FORM, sizeof FORM);
    return KT_OK;
}

enum kt_status bf16_layout_floats(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    const struct row_form form = {sizeof(float), 0};
    return lay_out_rows(instance, layout, &form, error);
}

enum kt_status bf16_layout_pairs(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    const struct row_form form = {sizeof(uint16_t), 0};
    return lay_out_rows(instance, layout, &form, error);
}

enum kt_status bf16_weight_row(void *instance, const struct kt_layout *layout, const void *packed,
                               const struct kt_expert *source, enum kt_projection projection, uint64_t row,
                               float *out, struct kt_error *error)
{
    (void)instance;
    (void)source;
    enum kt_stage stage = projection == KT_DOWN ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
    uint64_t k = stage_k(layout, stage), place = 0;
    const uint8_t *from = NULL;
    enum kt_status status = find_row(layout, packed, projection, row, &from, &place, error);

    if (status)
        return status;
    from += place / TILE_ROWS * TILE_SIZE + place % TILE_ROWS * 4;
    for (uint64_t c = 0; c < k; c++) {
        const uint8_t *pair = from + c / TILE_COLUMNS * PAIR_SIZE + c % TILE_COLUMNS / 2 * 64;
        out[c] = bf16_to_float(load_u16(pair + 2 * (c % 2)));
    }
    return KT_OK;
}

static void cut_panel(const struct kt_cut *job, const uint8_t *from, uint8_t *to)
{
    memcpy(to, from + job->begin / TILE_COLUMNS * PAIR_SIZE, panel_size(job->shard, job->stage));
}

void bf16_cut(void *instance, const struct kt_cut *job)
{
    (void)instance;
    cut_panels(job, cut_panel);
}

/* Columns begin..end-1 of a row, whose first number in the panel stands at `from`. */
static void unpack_row(const uint8_t *from, uint64_t begin, uint64_t end, uint8_t *to)
{
    uint64_t c = begin;
    for (; c < end && (c % TILE_COLUMNS || end - c < TILE_COLUMNS); c++, to += 2)
        memcpy(to, from + c / TILE_COLUMNS * PAIR_SIZE + c % TILE_COLUMNS / 2 * 64 + 2 * (c % 2), 2);
    for (; end - c >= TILE_COLUMNS; c += TILE_COLUMNS) {
        const uint8_t *tile = from + c / TILE_COLUMNS * PAIR_SIZE;
        for (unsigned i = 0; i < TILE_COLUMNS / 2; i++, to += 4)
            memcpy(to, tile + 64 * i, 4);
    }
    for (; c < end; c++, to += 2)
        memcpy(to, from + c / TILE_COLUMNS * PAIR_SIZE + c % TILE_COLUMNS / 2 * 64 + 2 * (c % 2), 2);
}

/* 512 columns of a row, then those of the next: what is read of a panel then stays in L1. */
#define UNPACK_COLUMNS 512

enum kt_status bf16_unpack(void *instance, const struct kt_unpack *job, struct kt_error *error)
{
    const struct bf16_instance *self = instance;
    const struct kt_layout *layout = job->layout;
    uint32_t dtype = layout->shape.format[job->projection].dtype;
    enum kt_stage stage = job->projection == KT_DOWN ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
    uint64_t size = panel_size(layout, stage), step = layout->panel_rows[stage];
    if (dtype != KT_DTYPE_BF16)
        return kt_plugin_fail(error, KT_E_UNSUPPORTED,
                              BACKEND ": the %s was %s and has been rounded; only bf16 comes back "
                                      "as it was",
                              name_projection(&layout->shape, (int)job->projection),
                              self->base.host->dtype_name(dtype));
    for (uint64_t row = job->row_begin, next; row < job->row_end; row = next) {
        uint64_t left = job->row_end - row, rest = step - row % step;
        next = row + (left < rest ? left : rest);
        const uint8_t *panel = (const uint8_t *)job->packed + row / step * size;
        for (uint64_t c = job->col_begin, end; c < job->col_end; c = end) {
            end = job->col_end - c < UNPACK_COLUMNS ? job->col_end : c + UNPACK_COLUMNS;
            for (uint64_t r = row; r < next; r++) {
                uint64_t place = panel_place(&layout->shape, job->projection, r);
                unpack_row(panel + place / TILE_ROWS * TILE_SIZE + place % TILE_ROWS * 4, c, end,
                           (uint8_t *)job->codes + (int64_t)(r - job->row_begin) * job->codes_stride +
                               2 * (c - job->col_begin));
            }
        }
    }
    return KT_OK;
}

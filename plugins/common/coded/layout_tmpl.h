/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coded/layout_tmpl.h - layouts of backends with panels of codes (coded/geometry_tmpl.h), packed weights
 * back to float32, and shards.
 *
 * Parameters  BACKEND            the backend's name, for messages
 *             FORM               kt_layout.form
 *             TAKES              the formats that it takes, for messages
 *             ROW_SUMS           1: sums of columns stand beside each row of activations
 *             NO_ZERO(encoding)  the zero of a code that has none beside it
 * and those of coded/geometry_tmpl.h.
 * Wanted      takes_format, find_encoding, read_number; flag_panel where PANEL_FLAGS is not 0
 */
#ifndef KT_PLUGINS_COMMON_CODED_LAYOUT_TMPL_H
#define KT_PLUGINS_COMMON_CODED_LAYOUT_TMPL_H

#ifndef BACKEND
#error "coded/layout_tmpl.h: define BACKEND"
#endif
#ifndef FORM
#error "coded/layout_tmpl.h: define FORM"
#endif
#ifndef TAKES
#error "coded/layout_tmpl.h: define TAKES"
#endif
#ifndef ROW_SUMS
#error "coded/layout_tmpl.h: define ROW_SUMS"
#endif
#ifndef NO_ZERO
#error "coded/layout_tmpl.h: define NO_ZERO"
#endif

#include "plugins/common/bf16/layout_tmpl.h"
#include "plugins/common/coded/geometry_tmpl.h"

/* Does the backend take this format? */
static bool takes_format(const struct kt_format *format);
/* The encoding of a format's codes. */
static inline int find_encoding(uint32_t dtype);
/* A code's number without zero and scale: of row 0..15 and column 0..31 of the tile whose codes begin at
 * `codes`. */
static float read_number(const uint8_t *codes, uint64_t row, uint64_t column, uint32_t dtype);
#if PANEL_FLAGS
/* Sets the flags of a panel whose codes are packed. */
static inline void flag_panel(const struct coded *coded, uint8_t *panel);
#endif

static bool same_format(const struct kt_format *a, const struct kt_format *b)
{
    return a->dtype == b->dtype && a->scale_dtype == b->scale_dtype && a->zero_dtype == b->zero_dtype &&
           a->group_rows == b->group_rows && a->group_cols == b->group_cols;
}

static enum kt_status check_format(const struct instance *self, const struct kt_shape *shape, int p,
                                   struct kt_error *error)
{
    const struct kt_format *format = &shape->format[p];
    uint64_t k = p == KT_DOWN ? shape->intermediate_size : shape->hidden_size;
    if (!takes_format(format))
        return kt_plugin_fail(error, KT_E_UNSUPPORTED,
                              BACKEND
                              ": the %s is %s with %s%s%s, which is not supported; supported are " TAKES,
                              name_projection(shape, p), self->host->dtype_name(format->dtype),
                              format->scale_dtype ? "scales in " : "no scales",
                              format->scale_dtype ? self->host->dtype_name(format->scale_dtype) : "",
                              format->zero_dtype ? " and zeros" : "");
    if (format->group_rows == 0 || format->group_cols == 0 ||
        (format->group_cols < k && format->group_cols % GROUP_COLUMNS(format->dtype) != 0))
        return kt_plugin_fail(error, KT_E_UNSUPPORTED,
                              BACKEND ": the %s has a scale for each %llu columns of %llu; it "
                                      "must be a multiple of %d, or all of them",
                              name_projection(shape, p), (unsigned long long)format->group_cols,
                              (unsigned long long)k, GROUP_COLUMNS(format->dtype));
    return KT_OK;
}

static enum kt_status check_layout(const struct instance *self, const struct kt_shape *shape,
                                   struct kt_error *error)
{
    enum kt_status status = check_sizes(shape, error);
    for (int p = first_projection(shape); p <= KT_DOWN && status == KT_OK; p++)
        status = check_format(self, shape, p, error);
    if (status == KT_OK && has_gate(shape, KT_STAGE_GATE_UP) &&
        !same_format(&shape->format[KT_GATE], &shape->format[KT_UP]))
        status = kt_plugin_fail(
            error, KT_E_UNSUPPORTED,
            BACKEND ": the gate and up projections differ in format or groups, which is not supported");
    return status;
}

/* The least common multiple, or 2^63 where that is beyond any size. */
static uint64_t common_multiple(uint64_t a, uint64_t b)
{
    uint64_t x = a, y = b, product;
    while (y) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return __builtin_mul_overflow(a / x, b, &product) ? UINT64_C(1) << 63 : product;
}

/* Shards are cut at whole tiles, and at whole groups of what is cut. */
static uint64_t find_k_unit(const struct kt_shape *shape)
{
    uint64_t unit = TILE_COLUMNS, size = shape->intermediate_size;
    if (shape->format[KT_DOWN].group_cols < size)
        unit = common_multiple(unit, shape->format[KT_DOWN].group_cols);
    if (!is_linear(shape) && shape->format[KT_UP].group_rows < size)
        unit = common_multiple(unit, shape->format[KT_UP].group_rows);
    return unit;
}

/* Bytes that a projection takes in its source. */
static uint64_t nominal_size(const struct kt_format *format, uint64_t rows, uint64_t cols)
{
    uint64_t scale = format->scale_dtype == KT_DTYPE_F8_E8M0 ? 1
                     : format->scale_dtype == KT_DTYPE_F32   ? 4
                                                             : 2;
    uint64_t group_rows = format->group_rows < rows ? format->group_rows : rows;
    uint64_t group_cols = format->group_cols < cols ? format->group_cols : cols;
    uint64_t groups = ((rows - 1) / group_rows + 1) * ((cols - 1) / group_cols + 1);
    return rows * cols * CODES_SIZE / (TILE_ROWS * TILE_COLUMNS) +
           groups * (scale + (format->zero_dtype ? 1 : 0));
}

/* Bytes of a packed row of a stage. With groups that end inside a tile, there is a sum for each line of
 * codes. */
static uint64_t size_stage_row(const struct kt_layout *layout, enum kt_stage stage, struct row_form form)
{
    if (ROW_SUMS && find_coded(layout, stage).subtile)
        form.beside += (CODE_VECTORS - 1) * sizeof(float);
    return size_row(stage_k(layout, stage), &form);
}

static enum kt_status lay_out_codes(const struct instance *self, struct kt_layout *layout,
                                    const struct row_form *form, struct kt_error *error)
{
    const struct kt_shape *shape = &layout->shape;
    uint64_t hidden = shape->hidden_size, intermediate = shape->intermediate_size;
    enum kt_status status = check_layout(self, shape, error);
    if (status)
        return status;
    lay_out_bf16(self, layout);
    for (int stage = first_stage(shape); stage <= KT_STAGE_DOWN; stage++)
        lay_out_stage(self, layout, (enum kt_stage)stage,
                      size_stage_row(layout, (enum kt_stage)stage, *form));
    layout->k_unit = find_k_unit(shape);
    if (!is_linear(shape))
        layout->nominal_size[0] = (has_gate(shape, KT_STAGE_GATE_UP) ? 2 : 1) *
                                  nominal_size(&shape->format[KT_UP], intermediate, hidden);
    layout->nominal_size[1] = nominal_size(&shape->format[KT_DOWN], hidden, intermediate);
    memcpy(layout->form, FORM, sizeof FORM);
    return KT_OK;
}

static enum kt_status read_weights(const struct kt_layout *layout, const void *packed,
                                   enum kt_projection projection, uint64_t row, float *out,
                                   struct kt_error *error)
{
    enum kt_stage stage = projection == KT_DOWN ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
    struct coded coded = find_coded(layout, stage);
    uint64_t k = stage_k(layout, stage), place = 0;
    uint32_t dtype = layout->shape.format[projection].dtype;
    const uint8_t *panel = NULL;
    enum kt_status status = find_row(layout, packed, projection, row, &panel, &place, error);
    if (status)
        return status;
    const uint8_t *zeros = panel + coded.scales_size, *codes = zeros + coded.zeros_size;
    for (uint64_t c = 0; c < k; c++) {
        uint64_t t = c / TILE_COLUMNS, group = find_group(&coded, c);
        const uint8_t *tile = codes + t * 2 * CODES_SIZE + place / TILE_ROWS * 64;
        float scale = read_scale(coded.form, panel + group * coded.scales_step, place);
        float zero =
            coded.has_zeros ? (float)zeros[group * PANEL_ROWS + place] : NO_ZERO(find_encoding(dtype));
        out[c] = (read_number(tile, place % TILE_ROWS, c % TILE_COLUMNS, dtype) - zero) * scale;
    }
    return KT_OK;
}

/* Scales of a whole panel from group `group` on, to those of a shard's. A shard with fewer rows than a
 * group may hold one scale for all rows of a tile where the whole matrix does not. */
static void cut_scales(const struct coded *whole, const struct coded *shard, uint64_t group,
                       const uint8_t *from, uint8_t *to)
{
    from += group * whole->scales_step;
    if (whole->form == shard->form) {
        memcpy(to, from, shard->groups * shard->scales_step);
        return;
    }
    for (uint64_t g = 0; g < shard->groups; g++, from += whole->scales_step)
        for (uint64_t tile = 0; tile < 2; tile++, to += sizeof(float)) {
            float scale = read_scale(whole->form, from, tile * TILE_ROWS);
            memcpy(to, &scale, sizeof scale);
        }
}

static void cut_panel(const struct kt_cut *job, const uint8_t *from, uint8_t *to)
{
    struct coded whole = find_coded(job->whole, job->stage), shard = find_coded(job->shard, job->stage);
    uint64_t t = job->stage == KT_STAGE_DOWN ? job->begin / TILE_COLUMNS : 0;
    uint64_t group = find_group(&whole, t * TILE_COLUMNS);
    uint8_t *codes = to + shard.scales_size + shard.zeros_size;
    memset(to, 0, shard.scales_size + shard.zeros_size);
    cut_scales(&whole, &shard, group, from, to);
    from += whole.scales_size;
    if (shard.has_zeros)
        memcpy(to + shard.scales_size, from + group * PANEL_ROWS, shard.groups * PANEL_ROWS);
    from += whole.zeros_size;
    memcpy(codes, from + t * 2 * CODES_SIZE, shard.tiles * 2 * CODES_SIZE);
#if PANEL_FLAGS
    flag_panel(&shard, to);
#endif
}

/* In stage 0 a shard's panels are panels of the expert, in stage 1 parts of them. */
static void cut_codes(const struct kt_cut *job)
{
    uint64_t size = panel_size(job->shard, job->stage), whole = panel_size(job->whole, job->stage);
    uint64_t first =
        job->stage == KT_STAGE_DOWN ? 0 : job->begin / panel_step(&job->shard->shape, job->stage);
    for (uint64_t p = job->panel_begin; p < job->panel_end; p++)
        cut_panel(job, (const uint8_t *)job->packed + (first + p) * whole, (uint8_t *)job->out + p * size);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coded/pack_tmpl.h - packs source views into panels of codes (coded/geometry_tmpl.h), 16 rows at a time.
 *
 * Parameters  BACKEND  the backend's name, for messages
 * and those of coded/geometry_tmpl.h.
 * Wanted      pack_codes; flag_panel where PANEL_FLAGS is not 0
 */
#ifndef KT_PLUGINS_COMMON_CODED_PACK_TMPL_H
#define KT_PLUGINS_COMMON_CODED_PACK_TMPL_H

#ifndef BACKEND
#error "coded/pack_tmpl.h: define BACKEND"
#endif

#include "plugins/common/bf16/layout_tmpl.h"
#include "plugins/common/coded/geometry_tmpl.h"

#if PANEL_FLAGS
/* Sets the flags of a panel whose codes are packed. */
static inline void flag_panel(const struct coded *coded, uint8_t *panel);
#endif

/* 16 rows of a view. */
struct source_rows {
    const struct kt_view *view;
    uint64_t begin, n; /* n of the 16 exist */
};

/* Columns 32 * t.. of 16 rows to lines of 64 bytes, 128 apart; what does not exist becomes code 0. */
static void pack_codes(const struct source_rows *rows, uint64_t t, uint8_t *to);

static const uint8_t *find_value(const struct kt_scales *scales, uint64_t row, uint64_t group)
{
    return (const uint8_t *)scales->data + (int64_t)(row / scales->group_rows) * scales->row_stride +
           (int64_t)group * scales->col_stride;
}

static float read_value(const struct kt_scales *scales, uint64_t row, uint64_t group)
{
    const uint8_t *from = find_value(scales, row, group);
    switch (scales->dtype) {
    case KT_DTYPE_F16:
        return half_to_float(load_u16(from));
    case KT_DTYPE_BF16:
        return bf16_to_float(load_u16(from));
    case KT_DTYPE_F8_E8M0:
        return e8m0_to_float(*from);
    default:
        return load_f32(from);
    }
}

/* Copies the scale of a row and group. One that is not finite is refused: it would make more than its own
 * weights NaN. */
static enum kt_status pack_scale(const struct coded *coded, const struct source_rows *rows, uint64_t row,
                                 uint64_t group, uint8_t *to, struct kt_error *error)
{
    const struct kt_scales *scales = &rows->view->scales;
    float value = read_value(scales, rows->begin + row, group);
    if (value - value != 0.0f)
        return kt_plugin_fail(error, KT_E_FORMAT,
                              BACKEND ": %s: the scale of row %llu and group %llu is no finite number",
                              rows->view->name ? rows->view->name : "a weight view",
                              (unsigned long long)(rows->begin + row), (unsigned long long)group);
    if (coded->form == SCALE_ONE)
        memcpy(to, &value, sizeof value);
    else
        memcpy(to + row * scale_bytes(coded->form), find_value(scales, rows->begin + row, group),
               scale_bytes(coded->form));
    return KT_OK;
}

/* Tile `tile` of a panel. */
static enum kt_status pack_tile(const struct coded *coded, const struct source_rows *rows, unsigned tile,
                                uint8_t *panel, struct kt_error *error)
{
    uint64_t scaled = coded->form == SCALE_ONE && rows->n ? 1 : rows->n;
    uint64_t groups = (rows->view->cols - 1) / rows->view->scales.group_cols + 1;
    uint8_t *scales = panel + tile * coded->scales_step / 2;
    uint8_t *zeros = panel + coded->scales_size + tile * TILE_ROWS;
    uint8_t *codes = panel + coded->scales_size + coded->zeros_size + tile * 64;
    enum kt_status status = KT_OK;
    for (uint64_t g = 0; g < groups; g++, scales += coded->scales_step, zeros += PANEL_ROWS) {
        for (uint64_t i = 0; i < scaled && status == KT_OK; i++)
            status = pack_scale(coded, rows, i, g, scales, error);
        for (uint64_t i = 0; coded->has_zeros && i < rows->n; i++)
            zeros[i] = *find_value(&rows->view->zeros, rows->begin + i, g);
    }
    for (uint64_t t = 0; t < coded->tiles && status == KT_OK; t++)
        pack_codes(rows, t, codes + t * 2 * CODES_SIZE);
    return status;
}

/* A view must have the format that the layout was made for. */
static enum kt_status check_codes(const struct instance *self, const struct kt_view *view,
                                  const struct kt_format *format, struct kt_error *error)
{
    const struct kt_scales *scales = &view->scales, *zeros = &view->zeros;
    bool same = view->dtype == format->dtype && scales->data && scales->dtype == format->scale_dtype &&
                scales->group_rows == format->group_rows && scales->group_cols == format->group_cols;
    if (format->zero_dtype)
        same = same && zeros->data && zeros->dtype == KT_DTYPE_U8 &&
               zeros->group_rows == format->group_rows && zeros->group_cols == format->group_cols;
    if (same && (format->zero_dtype || !zeros->data))
        return KT_OK;
    return kt_plugin_fail(error, KT_E_INVALID,
                          BACKEND ": %s is %s in groups of %llu x %llu, the layer is for %s in groups of "
                                  "%llu x %llu, or their scales or zeros differ in type",
                          view->name ? view->name : "a weight view", self->host->dtype_name(view->dtype),
                          (unsigned long long)scales->group_rows, (unsigned long long)scales->group_cols,
                          self->host->dtype_name(format->dtype), (unsigned long long)format->group_rows,
                          (unsigned long long)format->group_cols);
}

static enum kt_status check_job(const struct instance *self, const struct kt_pack *job,
                                struct kt_error *error)
{
    const struct kt_format *format = job->layout->shape.format;
    enum kt_status status = check_source(job, error);
    if (status)
        return status;
    if (job->stage == KT_STAGE_DOWN)
        return check_codes(self, &job->source->down, &format[KT_DOWN], error);
    status = check_codes(self, &job->source->gate, &format[KT_GATE], error);
    return status ? status : check_codes(self, &job->source->up, &format[KT_UP], error);
}

static struct source_rows find_source(const struct kt_view *view, uint64_t begin)
{
    uint64_t left = begin < view->rows ? view->rows - begin : 0;
    return (struct source_rows){view, begin, left < TILE_ROWS ? left : TILE_ROWS};
}

static enum kt_status pack_weights(void *instance, const struct kt_pack *job, struct kt_error *error)
{
    uint64_t size = panel_size(job->layout, job->stage);
    struct coded coded = find_coded(job->layout, job->stage);
    bool down = job->stage == KT_STAGE_DOWN;
    const struct kt_view *first = down ? &job->source->down : &job->source->gate;
    const struct kt_view *second = down ? first : &job->source->up;
    enum kt_status status = check_job(instance, job, error);
    for (uint64_t p = job->panel_begin; p < job->panel_end && status == KT_OK; p++) {
        uint8_t *panel = (uint8_t *)job->packed + p * size;
        uint64_t row = p * job->layout->panel_rows[job->stage];
        struct source_rows rows = find_source(first, row);
        memset(panel, 0, coded.scales_size + coded.zeros_size);
        status = pack_tile(&coded, &rows, 0, panel, error);
        rows = find_source(second, down ? row + TILE_ROWS : row);
        if (status == KT_OK)
            status = pack_tile(&coded, &rows, 1, panel, error);
#if PANEL_FLAGS
        flag_panel(&coded, panel);
#endif
    }
    return status;
}

#endif

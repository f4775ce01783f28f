/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coded/pack_tmpl.h - packs source views into panels of codes (coded/geometry_tmpl.h), 16 rows at a time.
 *
 * Parameters  BACKEND       the backend's name, for messages
 *             SOURCE_BLOCK  bytes of codes that a view's block_stride is between
 * and those of coded/geometry_tmpl.h.
 * Wanted      order_codes; set_flags where PANEL_FLAGS is not 0
 */
#ifndef KT_PLUGINS_COMMON_CODED_PACK_TMPL_H
#define KT_PLUGINS_COMMON_CODED_PACK_TMPL_H

#ifndef BACKEND
#error "coded/pack_tmpl.h: define BACKEND"
#endif

#ifndef SOURCE_BLOCK
#error "coded/pack_tmpl.h: define SOURCE_BLOCK"
#endif

#include "plugins/common/bf16/layout_tmpl.h"
#include "plugins/common/coded/geometry_tmpl.h"
#include "plugins/common/gemm/piece.h"

#if PANEL_FLAGS
/* Sets the flags of a panel to what order_codes found in its tiles. */
static inline void set_flags(const struct coded *coded, unsigned found, uint8_t *panel);
#endif

/* 16 rows of a view. */
struct source_rows {
    const struct kt_view *view;
    uint64_t begin, n; /* n of the 16 exist */
};

/* 16 lines of 4 bytes of each row, as they stand in the source, to a panel's. Returns what flags say of them.
 */
static unsigned order_codes(uint8_t *lines);

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
                              BACKEND ": %s: the scale of row %llu and group %llu is not a finite number",
                              rows->view->name ? rows->view->name : "a weight view",
                              (unsigned long long)(rows->begin + row), (unsigned long long)group);
    if (coded->form == SCALE_ONE)
        memcpy(to, &value, sizeof value);
    else
        memcpy(to + row * scale_bytes(coded->form), find_value(scales, rows->begin + row, group),
               scale_bytes(coded->form));
    return KT_OK;
}

/* Copies a row's scales of 2 or 4 bytes, `step` apart; false: one is not finite. */
INLINE bool copy_scales(const uint8_t *from, int64_t stride, unsigned size, uint32_t exponent,
                        uint64_t groups, uint64_t step, uint8_t *to)
{
    uint32_t found = 0;
    for (uint64_t g = 0; g < groups; g++, from += stride, to += step) {
        uint32_t bits = size == 2 ? load_u16(from) : load_u32(from);
        found |= (bits & exponent) == exponent;
        memcpy(to, from, size);
    }
    return !found;
}

/* As pack_scale of a row's groups, without what it asks of each; false: pack_scale must say what is wrong, or
 * there is only one scale for all rows. */
static bool pack_row_scales(const struct coded *coded, const struct source_rows *rows, uint64_t row,
                            uint64_t groups, uint8_t *to)
{
    const struct kt_scales *scales = &rows->view->scales;
    const uint8_t *from = find_value(scales, rows->begin + row, 0);
    switch (coded->form) {
    case SCALE_F32:
        return copy_scales(from, scales->col_stride, 4, 0x7f800000, groups, coded->scales_step, to + 4 * row);
    case SCALE_F16:
        return copy_scales(from, scales->col_stride, 2, 0x7c00, groups, coded->scales_step, to + 2 * row);
    case SCALE_BF16:
        return copy_scales(from, scales->col_stride, 2, 0x7f80, groups, coded->scales_step, to + 2 * row);
    case SCALE_E8M0:
        for (uint64_t g = 0; g < groups; g++, from += scales->col_stride) {
            if (*from == 0xff)
                return false;
            to[g * coded->scales_step + row] = *from;
        }
        return true;
    default:
        return false;
    }
}

/* The scales and zeros of tile `tile` of a panel. */
static enum kt_status pack_groups(const struct coded *coded, const struct source_rows *rows, unsigned tile,
                                  uint8_t *panel, struct kt_error *error)
{
    uint64_t groups = (rows->view->cols - 1) / rows->view->scales.group_cols + 1, fast = 0;
    uint8_t *scales = panel + tile * coded->scales_step / 2;
    uint8_t *zeros = panel + coded->scales_size + tile * TILE_ROWS;
    enum kt_status status = KT_OK;
    for (uint64_t i = 0; coded->has_zeros && i < rows->n; i++) {
        const uint8_t *from = find_value(&rows->view->zeros, rows->begin + i, 0);
        for (uint64_t g = 0; g < groups; g++, from += rows->view->zeros.col_stride)
            zeros[g * PANEL_ROWS + i] = *from;
    }
    while (fast < rows->n && pack_row_scales(coded, rows, fast, groups, scales))
        fast++;
    if (fast == rows->n)
        return KT_OK;
    uint64_t scaled = coded->form == SCALE_ONE ? 1 : rows->n;
    for (uint64_t g = 0; g < groups; g++, scales += coded->scales_step)
        for (uint64_t i = 0; i < scaled && status == KT_OK; i++)
            status = pack_scale(coded, rows, i, g, scales, error);
    return status;
}

/* The codes of a tile to lines 128 bytes apart; what does not exist becomes code 0. */
static unsigned pack_codes(const struct coded *coded, const struct source_rows *rows, uint8_t *to)
{
    _Alignas(64) uint8_t piece[PIECE_SIZE], lines[TILE_SIZE];
    const struct kt_view *view = rows->view;
    const uint64_t columns = SOURCE_BLOCK * CODE_COLUMNS / 4, bytes = coded->tiles * CODE_VECTORS * 4;
    struct piece_rows source = {.first =
                                    (const uint8_t *)view->data + (int64_t)rows->begin * view->row_stride,
                                .stride = view->row_stride,
                                .block_stride = view->block_stride,
                                .n = rows->n,
                                .size = round_up(view->cols, columns) / columns * SOURCE_BLOCK};
    unsigned found = 0;
    for (uint64_t at = 0; at < bytes; at += PIECE_BYTES) {
        uint64_t n = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        read_piece(&source, SOURCE_BLOCK, at, round_up(n, 64), piece);
        for (uint64_t t = 0; t < n; t += 64) {
            uint64_t left = (n - t) / 4 < 16 ? (n - t) / 4 : 16;
            vec_make_tile(piece + t, PIECE_STRIDE, lines);
            found |= order_codes(lines);
            for (uint64_t line = 0; line < left; line++, to += 128)
                vec_stream64(to, lines + 64 * line);
        }
    }
    return found;
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
    for (int tile = 0; tile < 2 && status == KT_OK; tile++) {
        enum kt_projection projection = tile_projection(&job->layout->shape, job->stage, tile);
        status = check_codes(self, find_view(job->source, projection), &format[projection], error);
    }
    return status;
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
    const struct kt_shape *shape = &job->layout->shape;
    const struct kt_view *first = find_view(job->source, tile_projection(shape, job->stage, 0));
    const struct kt_view *second = find_view(job->source, tile_projection(shape, job->stage, 1));
    enum kt_status status = check_job(instance, job, error);
    for (uint64_t p = job->panel_begin; p < job->panel_end && status == KT_OK; p++) {
        uint8_t *panel = (uint8_t *)job->packed + p * size;
        uint64_t row = p * job->layout->panel_rows[job->stage];
        unsigned found = 0;
        memset(panel, 0, coded.scales_size + coded.zeros_size);
        for (unsigned tile = 0; tile < 2 && status == KT_OK; tile++) {
            struct source_rows rows =
                find_source(tile ? second : first, first == second ? row + tile * TILE_ROWS : row);
            status = pack_groups(&coded, &rows, tile, panel, error);
            if (status == KT_OK)
                found |= pack_codes(&coded, &rows, panel + coded.scales_size + coded.zeros_size + tile * 64);
        }
#if PANEL_FLAGS
        set_flags(&coded, found, panel);
#endif
        (void)found;
    }
    vec_stream_end();
    return status;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vendor/gemm_tmpl.h - a level whose products are a vendor's library's, and vectors do all the rest.
 *
 *   Weights   A library reorders a matrix as a whole, so a panel is one matrix: the rows of VENDOR_PANELS
 *             panels of the other levels in their order, 128 rows x K, K filled up to 64, then 128 float32
 *             scales. That is long enough for a call's start not to count, and short enough that threads
 *             can share an expert.
 *   Sums      of a row block and a panel, int32[rows][128], in scratch. They are exact, so results equal
 *             those of the other levels to the bit.
 *   Stores    have the form of the other levels, and so have weights out of one, which find_fallback's level
 *             multiplies: a library's bytes are its own, and differ on another CPU or in another version.
 *
 * Parameters  BACKEND        the backend's name, for messages
 *             OWN, OPS_NAME  names of functions and levels: plugin/ops_tmpl.h
 *             VENDOR         the vendor, a const struct vendor *
 * Wanted      find_library, find_fallback, panel_size
 */
#ifndef KT_PLUGINS_COMMON_VENDOR_GEMM_TMPL_H
#define KT_PLUGINS_COMMON_VENDOR_GEMM_TMPL_H

#ifndef BACKEND
#error "vendor/gemm_tmpl.h: define BACKEND"
#endif
#ifndef OWN
#error "vendor/gemm_tmpl.h: define OWN"
#endif
#ifndef OPS_NAME
#error "vendor/gemm_tmpl.h: define OPS_NAME"
#endif
#ifndef VENDOR
#error "vendor/gemm_tmpl.h: define VENDOR"
#endif

#define TILED 0
#include "plugins/common/gemm/pack_tmpl.h"
#include "plugins/common/int8/epilogue_tmpl.h"
#include "plugins/common/int8/source.h"
#include "plugins/common/plugin/ops_tmpl.h"
#include "plugins/common/vendor/vendor.h"

/* What was found of the vendor's library. */
static const void *find_library(const void *instance);
/* The level of the backend's own that does what this one does not. */
static const struct kt_ops *find_fallback(const void *instance);

#define VENDOR_PANELS 4 /* panels of the other levels in a matrix */
#define MATRIX_ROWS (VENDOR_PANELS * PANEL_ROWS)
#define MATRIX_SCALES (VENDOR_PANELS * SCALES_SIZE)

static bool is_reordered(const struct kt_layout *layout)
{
    return layout->words[WORD_MATRIX + KT_STAGE_DOWN] != 0; /* which linears have, too */
}

static uint64_t count_columns(const struct kt_layout *layout, enum kt_stage stage)
{
    return stage_tiles(layout, stage) * TILE_COLUMNS;
}

/* Panels of the other levels. */
static uint64_t count_panels(const struct kt_layout *layout, enum kt_stage stage)
{
    uint64_t rows = stage == KT_STAGE_DOWN ? layout->shape.hidden_size : layout->shape.intermediate_size;
    uint64_t unit = panel_step(&layout->shape, stage);
    return (rows + unit - 1) / unit;
}

/* ---- layout ---- */

static enum kt_status size_panels(const void *library, struct kt_layout *layout, enum kt_stage stage,
                                  struct kt_error *error)
{
    uint64_t k = count_columns(layout, stage), size = VENDOR->size(library, k, MATRIX_ROWS);
    if (size < k * MATRIX_ROWS || size > 2 * k * MATRIX_ROWS)
        return kt_plugin_fail(error, KT_E_UNSUPPORTED, BACKEND ": %s requests %llu bytes for %d x %llu",
                              VENDOR->name, (unsigned long long)size, MATRIX_ROWS, (unsigned long long)k);
    size = round_up(size, 64) + MATRIX_SCALES;
    layout->words[WORD_MATRIX + stage] = size;
    layout->panel_rows[stage] *= VENDOR_PANELS;
    layout->weight_size[stage] = round_up(count_panels(layout, stage), VENDOR_PANELS) / VENDOR_PANELS * size;
    return KT_OK;
}

static enum kt_status lay_out_matrices(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    const void *library = find_library(instance);
    bool of_store = layout->stored || layout->form[0];
    enum kt_status status = OWN(layout)(instance, layout, error);
    if (status || of_store)
        return status;
    for (int stage = first_stage(&layout->shape); stage <= KT_STAGE_DOWN && status == KT_OK; stage++)
        status = size_panels(library, layout, (enum kt_stage)stage, error);
    if (status)
        return status;
    memset(layout->form, 0, sizeof layout->form);
    uint64_t most =
        layout->words[WORD_ROW_BLOCK + KT_STAGE_GATE_UP] > layout->words[WORD_ROW_BLOCK + KT_STAGE_DOWN]
            ? layout->words[WORD_ROW_BLOCK + KT_STAGE_GATE_UP]
            : layout->words[WORD_ROW_BLOCK + KT_STAGE_DOWN];
    layout->scratch_size = round_up(most, 32) * MATRIX_ROWS * sizeof(int32_t);
    return KT_OK;
}

/* ---- weights ---- */

/* 16 rows of int8, K filled up with 0; target->panel is where the first of the panel goes. */
static enum kt_status pack_tiles(const struct packing *packing, const struct kt_view *view, uint64_t begin,
                                 const struct target *target, struct kt_error *error)
{
    int8_t *to = (int8_t *)target->panel + target->tile * TILE_ROWS * packing->width;
    struct plain_rows rows;
    enum kt_status status = find_source(packing, view, begin, &rows, error);
    if (status)
        return status;
    for (unsigned i = 0; i < TILE_ROWS; i++, to += packing->width) {
        code_row(packing, &rows, i, target->scales, (uint8_t *)to);
        for (uint64_t c = 0; c < packing->width; c += Q8_STEP)
            vec_flip64(to + c);
    }
    return KT_OK;
}

/* Packs VENDOR_PANELS panels and reorders them. Behind the last row of weights come rows of 0 with scale 0.
 */
static enum kt_status pack_matrix(const struct kt_pack *job, uint64_t number, const struct packing *packing,
                                  int8_t *rows, uint8_t *scales, struct kt_error *error)
{
    enum kt_status status = KT_OK;
    memset(scales, 0, MATRIX_SCALES);
    for (unsigned p = 0; p < VENDOR_PANELS && status == KT_OK; p++) {
        struct target target = {.panel = (uint8_t *)rows + p * PANEL_ROWS * packing->width,
                                .scales = scales + p * SCALES_SIZE};
        if (number * VENDOR_PANELS + p < count_panels(job->layout, job->stage))
            status = pack_pair(job, number * VENDOR_PANELS + p, packing, target, error);
        else
            memset(target.panel, 0, PANEL_ROWS * packing->width);
    }
    return status;
}

static enum kt_status pack_matrices(void *instance, const struct kt_pack *job, struct kt_error *error)
{
    const void *library = find_library(instance);
    uint64_t size = job->layout->words[WORD_MATRIX + job->stage];
    struct packing packing;
    enum kt_status status = open_packing(instance, job, &packing, error);
    if (status)
        return status;
    uint64_t bytes = MATRIX_ROWS * packing.width;
    int8_t *rows = packing.host->allocate(packing.host, bytes);
    if (!rows)
        status = kt_plugin_fail(error, KT_E_NOMEM, BACKEND ": no %llu bytes to reorder rows from",
                                (unsigned long long)bytes);
    for (uint64_t p = job->panel_begin; p < job->panel_end && status == KT_OK; p++) {
        uint8_t *panel = (uint8_t *)job->packed + p * size;
        memset(panel, 0, size);
        status = pack_matrix(job, p, &packing, rows, panel + size - MATRIX_SCALES, error);
        if (status == KT_OK) {
            int64_t before = VENDOR->enter(library);
            VENDOR->reorder(library, rows, packing.width, MATRIX_ROWS, (int8_t *)panel);
            VENDOR->leave(library, before);
        }
    }
    if (rows)
        packing.host->release(packing.host, rows, bytes);
    close_packing(&packing);
    return status;
}

static enum kt_status pack_layer(void *instance, const struct kt_pack *job, struct kt_error *error)
{
    if (is_reordered(job->layout))
        return pack_matrices(instance, job, error);
    return find_fallback(instance)->pack(instance, job, error);
}

/* ---- products ---- */

static void gather_rows(void *instance, const struct kt_gather *job)
{
    uint64_t size = job->layout->act_row_size[0];
    (void)instance;
    for (uint32_t r = 0; r < job->n_rows; r++)
        memcpy((uint8_t *)job->out + r * size, (const uint8_t *)job->act + job->index[r] * size, size);
}

static enum kt_status fail_product(struct kt_error *error, uint64_t rows, uint64_t k)
{
    return kt_plugin_fail(error, KT_E_BACKEND, "%s returned without computing %llu x %llu x %d", VENDOR->name,
                          (unsigned long long)rows, (unsigned long long)k, MATRIX_ROWS);
}

/* Rows begin..end-1 and panel `number`. */
INLINE void multiply_matrix(const void *library, enum kt_stage stage, const struct kt_product *job,
                            uint64_t number, uint32_t begin, uint32_t end)
{
    const struct kt_layout *layout = job->layout;
    uint64_t size = layout->words[WORD_MATRIX + stage], row_size = layout->act_row_size[stage];
    const uint8_t *panel = (const uint8_t *)job->packed + number * size;
    const int8_t *a = (const int8_t *)job->act + begin * row_size;
    int32_t *c = job->scratch;
    if (!vendor_multiply(VENDOR, library, end - begin, MATRIX_ROWS, count_columns(layout, stage), a, row_size,
                         (const int8_t *)panel, c)) {
        (void)fail_product(job->error, end - begin, count_columns(layout, stage));
        return;
    }
    for (uint64_t p = 0; p < VENDOR_PANELS && number * VENDOR_PANELS + p < count_panels(layout, stage); p++) {
        struct sums sums = {c + p * PANEL_ROWS, MATRIX_ROWS, TILE_ROWS, false};
        struct panel_scales scales;
        read_scales(job, stage, number * VENDOR_PANELS + p, panel + size - MATRIX_SCALES + p * SCALES_SIZE,
                    &scales);
        finish(stage, job, number * VENDOR_PANELS + p, begin, end - begin, &sums, &scales);
    }
}

INLINE void multiply_matrices(const void *library, enum kt_stage stage, const struct kt_product *job)
{
    uint32_t row_block = size_row_block(job, stage);
    for (uint32_t begin = 0; begin < job->n_rows; begin += row_block)
        for (uint64_t p = job->panel_begin; p < job->panel_end; p++)
            multiply_matrix(library, stage, job, p, begin,
                            job->n_rows - begin < row_block ? job->n_rows : begin + row_block);
}

static void multiply_gate_up(void *instance, const struct kt_product *job)
{
    if (is_reordered(job->layout))
        multiply_matrices(find_library(instance), KT_STAGE_GATE_UP, job);
    else
        find_fallback(instance)->gate_up(instance, job);
}

static void multiply_down(void *instance, const struct kt_product *job)
{
    if (is_reordered(job->layout)) {
        multiply_matrices(find_library(instance), KT_STAGE_DOWN, job);
        vec_stream_end();
    } else {
        find_fallback(instance)->down(instance, job);
    }
}

/* ---- weights back ---- */

#define UNIT_ROWS 64

/* Only the library knows where a row of weights stands in its matrix: multiplied with unit vectors, the
 * matrix shows it, 64 columns at a time. */
static enum kt_status read_row_by_products(const void *library, const int8_t *matrix, uint64_t k,
                                           uint64_t width, uint64_t row, float scale, int8_t *units,
                                           int32_t *c, float *out, struct kt_error *error)
{
    memset(units, 0, UNIT_ROWS * width);
    for (uint64_t begin = 0; begin < k; begin += UNIT_ROWS) {
        for (uint64_t i = 0; i < UNIT_ROWS; i++)
            units[i * width + begin + i] = 1;
        if (!vendor_multiply(VENDOR, library, UNIT_ROWS, MATRIX_ROWS, width, units, width, matrix, c))
            return fail_product(error, UNIT_ROWS, width);
        for (uint64_t i = 0; i < UNIT_ROWS; i++) {
            units[i * width + begin + i] = 0;
            if (begin + i < k)
                out[begin + i] = scale * (float)c[i * MATRIX_ROWS + row];
        }
    }
    return KT_OK;
}

static enum kt_status read_weights(void *instance, const struct kt_layout *layout, const void *packed,
                                   const struct kt_expert *source, enum kt_projection projection,
                                   uint64_t row, float *out, struct kt_error *error)
{
    if (!is_reordered(layout))
        return OWN(weight_row)(instance, layout, packed, source, projection, row, out, error);
    const struct kt_host *host = ((const struct instance *)instance)->host;
    const void *library = find_library(instance);
    enum kt_stage stage = projection == KT_DOWN ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
    uint64_t rows = stage == KT_STAGE_DOWN ? layout->shape.hidden_size : layout->shape.intermediate_size;
    uint64_t unit = panel_step(&layout->shape, stage);
    uint64_t width = count_columns(layout, stage), size = layout->words[WORD_MATRIX + stage];
    uint64_t sums = UNIT_ROWS * MATRIX_ROWS * sizeof(int32_t), bytes = sums + UNIT_ROWS * width;
    float scale;

    if (row >= rows)
        return kt_plugin_fail(error, KT_E_RANGE, BACKEND ": row %llu of a matrix of %llu rows",
                              (unsigned long long)row, (unsigned long long)rows);
    uint8_t *memory = host->allocate(host, bytes);
    if (!memory)
        return kt_plugin_fail(error, KT_E_NOMEM, BACKEND ": no %llu bytes to read a row of weights with",
                              (unsigned long long)bytes);
    const uint8_t *panel = (const uint8_t *)packed + row / unit / VENDOR_PANELS * size;
    uint64_t place = row / unit % VENDOR_PANELS * PANEL_ROWS + panel_place(&layout->shape, projection, row);
    memcpy(&scale, panel + size - MATRIX_SCALES + 4 * place, sizeof scale);
    int64_t before = VENDOR->enter(library);
    enum kt_status status =
        read_row_by_products(library, (const int8_t *)panel, stage_k(layout, stage), width, place, scale,
                             (int8_t *)memory + sums, (int32_t *)(void *)memory, out, error);
    VENDOR->leave(library, before);
    host->release(host, memory, bytes);
    return status;
}

/* ---- threads ---- */

static _Thread_local int64_t threads_before;

static void enter_thread(void *instance)
{
    threads_before = VENDOR->enter(find_library(instance));
}

static void leave_thread(void *instance)
{
    VENDOR->leave(find_library(instance), threads_before);
}

/* Its functions, as a level's. */
#define MATRIX_OPS                                                                                        \
    {                                                                                                     \
        .struct_size = sizeof(struct kt_ops), .layout = lay_out_matrices, .pack = pack_layer,             \
        .act_pack = pack_rows, .gather = gather_rows, .gate_up = multiply_gate_up, .down = multiply_down, \
        .weight_row = read_weights, .thread_enter = enter_thread, .thread_leave = leave_thread,           \
        .cut = OWN(cut),                                                                                  \
    }

#endif

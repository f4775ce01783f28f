/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - source views to panels, on vectors. Include an int8_*.h first. */
#ifndef KT_PLUGINS_AMX_INT8_PACK_H
#define KT_PLUGINS_AMX_INT8_PACK_H

#include "plugins/amx_int8/amx_int8.h"
#include "plugins/common/quantize8.h"

/* What packing a panel needs: a row as float32, and the codes of the 16 rows of a tile. */
struct bench {
    float *row;
    uint8_t *codes; /* [16][k filled up to 64] */
    uint64_t k, width;
};

/* Row `row` of any view as float32. Rows of plain numbers need no call of the core. */
static enum kt_status read_row(const struct kt_host *host, const struct kt_view *view, uint64_t row,
                               const struct bench *bench, struct kt_error *error)
{
    uint32_t dtype = view->dtype;
    bool plain = dtype == KT_DTYPE_F32 || dtype == KT_DTYPE_BF16 || dtype == KT_DTYPE_F16;
    int64_t element = dtype == KT_DTYPE_F32 ? 4 : 2;

    if (!plain || view->block_stride != element || view->scales.data || view->zeros.data) {
        memset(bench->row + bench->k, 0, (bench->width - bench->k) * sizeof *bench->row);
        return host->dequantize(host, view, row, 0, bench->k, bench->row, error);
    }
    const uint8_t *from = (const uint8_t *)view->data + (int64_t)row * view->row_stride;
    for (uint64_t c = 0; c < bench->width; c += Q8_STEP)
        q8_read(from + c * (uint64_t)element, dtype, bench->k - c, bench->row + c);
    return KT_OK;
}

/* The row in bench->row to codes; gives its scale. */
static float quantize_weights(const struct bench *bench, uint8_t *codes)
{
    vi max = vi_splat32(0);

    for (uint64_t c = 0; c < bench->width; c += Q8_STEP)
        max = q8_max(bench->row + c, max);
    struct q8_scale scale = q8_make_scale(q8_fold(max));
    for (uint64_t c = 0; c < bench->width; c += Q8_STEP) {
        q8_quantize(bench->row + c, scale.inverse, (int8_t *)codes + c);
        for (unsigned i = 0; i < Q8_STEP; i += 8) {
            uint64_t eight;
            memcpy(&eight, codes + c + i, sizeof eight);
            eight ^= UINT64_C(0x8080808080808080);
            memcpy(codes + c + i, &eight, sizeof eight);
        }
    }
    return scale.scale;
}

/* Rows begin..begin+15 of a view to one tile of each pair of a panel, and their scales. */
static enum kt_status pack_tiles(const struct kt_host *host, const struct kt_view *view,
                                 uint64_t begin, const struct bench *bench, uint8_t *to,
                                 uint8_t *scales, struct kt_error *error)
{
    for (uint64_t i = 0; i < TILE_ROWS; i++) {
        uint8_t *codes = bench->codes + i * bench->width;
        float scale = 0.0f;
        if (begin + i < view->rows) {
            enum kt_status status = read_row(host, view, begin + i, bench, error);
            if (status)
                return status;
            scale = quantize_weights(bench, codes);
        } else {
            memset(codes, 128, bench->width);
        }
        memcpy(scales + 4 * i, &scale, sizeof scale);
    }
    for (uint64_t t = 0; t < bench->width / TILE_COLUMNS; t++)
        vec_make_tile(bench->codes + t * TILE_COLUMNS, bench->width, to + t * PAIR_SIZE);
    return KT_OK;
}

static enum kt_status pack_panel(const struct kt_host *host, const struct kt_pack *job,
                                 uint64_t panel, const struct bench *bench, struct kt_error *error)
{
    uint64_t tiles = bench->width / TILE_COLUMNS;
    uint8_t *to = (uint8_t *)job->packed + panel * panel_size(tiles);
    uint8_t *scales = to + tiles * PAIR_SIZE;
    bool down = job->stage == KT_STAGE_DOWN;
    const struct kt_view *first = down ? &job->source->down : &job->source->gate;
    const struct kt_view *second = down ? first : &job->source->up;
    uint64_t row = panel * job->layout->panel_rows[job->stage];
    enum kt_status status = pack_tiles(host, first, row, bench, to, scales, error);

    if (status)
        return status;
    return pack_tiles(host, second, down ? row + TILE_ROWS : row, bench, to + TILE_SIZE,
                      scales + 4 * TILE_ROWS, error);
}

static enum kt_status pack_weights(void *instance, const struct kt_pack *job, struct kt_error *error)
{
    const struct kt_host *host = ((const struct amx_int8 *)instance)->host;
    enum kt_status status = amx_int8_check_source(job, error);
    struct bench bench = { .k = stage_k(job->layout, job->stage) };

    if (status)
        return status;
    bench.width = round_up(bench.k, TILE_COLUMNS);
    uint64_t size = bench.width * (sizeof(float) + TILE_ROWS);
    bench.row = host->allocate(host, size);
    if (!bench.row)
        return kt_plugin_fail(error, KT_E_NOMEM, "amx_int8: no %llu bytes to quantise rows in",
                              (unsigned long long)size);
    bench.codes = (uint8_t *)(bench.row + bench.width);
    for (uint64_t p = job->panel_begin; p < job->panel_end && !status; p++)
        status = pack_panel(host, job, p, &bench, error);
    host->release(host, bench.row, size);
    return status;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/pack.h - source views to panels, 16 rows at a time. Include an int8_*.h and the backend's header
 * first. The backend says what it does with 16 rows: pack_tiles.
 */
#ifndef KT_PLUGINS_COMMON_GEMM_PACK_H
#define KT_PLUGINS_COMMON_GEMM_PACK_H

#include "plugins/common/gemm/layout.h"
#include "plugins/common/gemm/quantize.h"

/* What packing 16 rows needs. */
struct bench {
    const struct kt_host *host;
    const struct kt_layout *layout;
    enum kt_stage stage;
    uint64_t k, width; /* width: k filled up to 64 */
    uint64_t stride;   /* a line more: rows of 4 KB would compete for one set of the cache */
    float *rows;       /* 16, stride apart */
};

/* Where a panel's tile goes: its part of each pair, and of the panel's scales. */
struct target {
    uint8_t *panel;
    unsigned tile;   /* 0, 1 */
    uint8_t *scales; /* of its 16 rows */
};

/* Rows begin..begin+15 of a view. */
static enum kt_status pack_tiles(const struct bench *bench, const struct kt_view *view, uint64_t begin,
                                 const struct target *target, struct kt_error *error);

/* Are its rows numbers side by side that q8_read knows? */
static inline bool is_plain(const struct kt_view *view)
{
    uint32_t dtype = view->dtype;
    bool plain = dtype == KT_DTYPE_F32 || dtype == KT_DTYPE_BF16 || dtype == KT_DTYPE_F16;
    return plain && view->block_stride == (dtype == KT_DTYPE_F32 ? 4 : 2) && !view->scales.data &&
           !view->zeros.data;
}

/* Row `row` of any view as float32, filled up with 0. Rows of plain numbers need no call of the core. */
static enum kt_status read_row(const struct bench *bench, const struct kt_view *view, uint64_t row,
                               float *out, struct kt_error *error)
{
    uint32_t dtype = view->dtype;
    int64_t element = dtype == KT_DTYPE_F32 ? 4 : 2;
    if (!is_plain(view)) {
        memset(out + bench->k, 0, (bench->width - bench->k) * sizeof *out);
        return bench->host->dequantize(bench->host, view, row, 0, bench->k, out, error);
    }
    const uint8_t *from = (const uint8_t *)view->data + (int64_t)row * view->row_stride;
    for (uint64_t c = 0; c < bench->width; c += Q8_STEP)
        q8_read(from + c * (uint64_t)element, dtype, bench->k - c, out + c);
    return KT_OK;
}

/* What its numbers are divided by. */
static inline struct q8_scale scale_row(const struct bench *bench, const float *row)
{
    vi max = vi_splat32(0);
    for (uint64_t c = 0; c < bench->width; c += Q8_STEP)
        max = q8_max(row + c, max);
    return q8_make_scale(q8_fold(max));
}

/* 16 rows of 64 bytes, `stride` apart, to a tile, past the caches: to read what it overwrites takes as long
 * as all the rest of packing. vec_stream_end follows the last one. */
INLINE void stream_tile(const uint8_t *rows, uint64_t stride, uint8_t *to)
{
    _Alignas(64) uint8_t tile[TILE_SIZE];

    vec_make_tile(rows, stride, tile);
    for (uint64_t line = 0; line < TILE_SIZE; line += 64)
        vec_stream64(to + line, tile + line);
}

/* The 32 rows of panel `number`, its two tiles. */
static enum kt_status pack_pair(const struct kt_pack *job, uint64_t number, const struct bench *bench,
                                struct target target, struct kt_error *error)
{
    bool down = job->stage == KT_STAGE_DOWN;
    const struct kt_view *first = down ? &job->source->down : &job->source->gate;
    const struct kt_view *second = down ? first : &job->source->up;
    uint64_t row = number * (down ? PANEL_ROWS : TILE_ROWS);
    enum kt_status status = pack_tiles(bench, first, row, &target, error);
    if (status)
        return status;
    target.tile = 1;
    target.scales += 4 * TILE_ROWS;
    return pack_tiles(bench, second, down ? row + TILE_ROWS : row, &target, error);
}

static inline uint64_t bench_size(const struct bench *bench)
{
    return TILE_ROWS * bench->stride * sizeof(float);
}

static enum kt_status open_bench(void *instance, const struct kt_pack *job, struct bench *bench,
                                 struct kt_error *error)
{
    const struct kt_host *host = ((const struct instance8 *)instance)->host;
    enum kt_status status = check_source(job, error);
    if (status)
        return status;
    *bench = (struct bench){.host = host, .layout = job->layout, .stage = job->stage};
    bench->k = stage_k(job->layout, job->stage);
    bench->width = round_up(bench->k, Q8_STEP);
    bench->stride = bench->width + TILE_ROWS;
    bench->rows = host->allocate(host, bench_size(bench));
    if (!bench->rows)
        return kt_plugin_fail(error, KT_E_NOMEM, BACKEND ": no %llu bytes to quantise rows in",
                              (unsigned long long)bench_size(bench));
    return KT_OK;
}

static inline void close_bench(const struct bench *bench)
{
    bench->host->release(bench->host, bench->rows, bench_size(bench));
}

static inline enum kt_status pack_weights(void *instance, const struct kt_pack *job, struct kt_error *error)
{
    uint64_t size = panel_size(job->layout, job->stage);
    struct bench bench;
    enum kt_status status = open_bench(instance, job, &bench, error);
    if (status)
        return status;
    for (uint64_t p = job->panel_begin; p < job->panel_end && status == KT_OK; p++) {
        uint8_t *panel = (uint8_t *)job->packed + p * size;
        struct target target = {.panel = panel, .scales = panel + size - SCALES_SIZE};
        status = pack_pair(job, p, &bench, target, error);
    }
    close_bench(&bench);
    return status;
}

#endif

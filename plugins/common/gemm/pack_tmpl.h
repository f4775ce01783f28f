/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/pack_tmpl.h - source views to panels, 16 rows at a time.
 * Parameter  BACKEND  its name, for messages
 * Wanted     panel_size, pack_tiles
 */
#ifndef KT_PLUGINS_COMMON_GEMM_PACK_TMPL_H
#define KT_PLUGINS_COMMON_GEMM_PACK_TMPL_H

#ifndef BACKEND
#error "gemm/pack_tmpl.h: define BACKEND"
#endif

#include "plugins/common/gemm/bench.h"
#include "plugins/common/gemm/layout_tmpl.h"

/* Rows begin..begin+15 of a view. */
static enum kt_status pack_tiles(const struct bench *bench, const struct kt_view *view, uint64_t begin,
                                 const struct target *target, struct kt_error *error);

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

static enum kt_status open_bench(void *instance, const struct kt_pack *job, struct bench *bench,
                                 struct kt_error *error)
{
    const struct kt_host *host = ((const struct instance *)instance)->host;
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

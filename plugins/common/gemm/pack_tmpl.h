/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/pack_tmpl.h - packs source views into panels, 16 rows at a time.
 *
 * Parameter  BACKEND  the backend's name, for messages
 * Wanted     panel_size, pack_tiles
 */
#ifndef KT_PLUGINS_COMMON_GEMM_PACK_TMPL_H
#define KT_PLUGINS_COMMON_GEMM_PACK_TMPL_H

#ifndef BACKEND
#error "gemm/pack_tmpl.h: define BACKEND"
#endif

#include "plugins/common/gemm/packing.h"
#include "plugins/common/gemm/layout_tmpl.h"

/* Rows begin..begin+15 of a view. */
static enum kt_status pack_tiles(const struct packing *packing, const struct kt_view *view, uint64_t begin,
                                 const struct target *target, struct kt_error *error);

/* The 32 rows of panel `number`, its two tiles. */
static enum kt_status pack_pair(const struct kt_pack *job, uint64_t number, const struct packing *packing,
                                struct target target, struct kt_error *error)
{
    const struct kt_shape *shape = &job->layout->shape;
    const struct kt_view *first = find_view(job->source, tile_projection(shape, job->stage, 0));
    const struct kt_view *second = find_view(job->source, tile_projection(shape, job->stage, 1));
    uint64_t row = number * panel_step(shape, job->stage);
    enum kt_status status = pack_tiles(packing, first, row, &target, error);
    if (status)
        return status;
    target.tile = 1;
    target.scales += 4 * TILE_ROWS;
    return pack_tiles(packing, second, first == second ? row + TILE_ROWS : row, &target, error);
}

static enum kt_status open_packing(void *instance, const struct kt_pack *job, struct packing *packing,
                                   struct kt_error *error)
{
    const struct kt_host *host = ((const struct instance *)instance)->host;
    enum kt_status status = check_source(job, error);
    if (status)
        return status;
    *packing = (struct packing){.host = host, .layout = job->layout, .stage = job->stage};
    packing->k = stage_k(job->layout, job->stage);
    packing->width = round_up(packing->k, Q8_STEP);
    packing->stride = packing->width + TILE_ROWS;
    packing->rows = host->allocate(host, packing_size(packing));
    if (!packing->rows)
        return kt_plugin_fail(error, KT_E_NOMEM, BACKEND ": no %llu bytes to quantize rows in",
                              (unsigned long long)packing_size(packing));
    return KT_OK;
}

static inline enum kt_status pack_weights(void *instance, const struct kt_pack *job, struct kt_error *error)
{
    uint64_t size = panel_size(job->layout, job->stage);
    struct packing packing;
    enum kt_status status = open_packing(instance, job, &packing, error);
    if (status)
        return status;
    for (uint64_t p = job->panel_begin; p < job->panel_end && status == KT_OK; p++) {
        uint8_t *panel = (uint8_t *)job->packed + p * size;
        struct target target = {.panel = panel, .scales = panel + size - SCALES_SIZE};
        status = pack_pair(job, p, &packing, target, error);
    }
    close_packing(&packing);
    return status;
}

#endif

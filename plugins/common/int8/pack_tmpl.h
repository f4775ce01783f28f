/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8/pack_tmpl.h - packs 16 rows of a source view as int8 into a tile of each pair.
 *
 * A row is read twice, for its largest number and for its codes, the second time from L1: so memory sees
 * one ascending stream. Then the codes of 16 rows are transposed into tiles.
 *
 * Parameter  BACKEND  the backend's name, for messages
 * Wanted     panel_size
 */
#ifndef KT_PLUGINS_COMMON_INT8_PACK_TMPL_H
#define KT_PLUGINS_COMMON_INT8_PACK_TMPL_H

#include "plugins/common/gemm/pack_tmpl.h"
#include "plugins/common/int8/source.h"

static enum kt_status pack_tiles(const struct packing *packing, const struct kt_view *view, uint64_t begin,
                                 const struct target *target, struct kt_error *error)
{
    uint8_t *to = target->panel + target->tile * TILE_SIZE, *codes = (uint8_t *)packing->rows;
    uint64_t stride = packing->stride * sizeof *packing->rows;
    struct plain_rows rows;
    enum kt_status status = find_source(packing, view, begin, &rows, error);
    if (status)
        return status;
    for (unsigned i = 0; i < TILE_ROWS; i++)
        code_row(packing, &rows, i, target->scales, codes + i * stride);
    for (uint64_t c = 0; c < packing->width; c += TILE_COLUMNS, to += PAIR_SIZE)
        stream_tile(codes + c, stride, to);
    vec_stream_end();
    return KT_OK;
}

#endif

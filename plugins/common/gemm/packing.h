/* SPDX-License-Identifier: Apache-2.0 */
/* gemm/packing.h - packs 16 rows of a source view into a tile of each pair of a panel. */
#ifndef KT_PLUGINS_COMMON_GEMM_PACKING_H
#define KT_PLUGINS_COMMON_GEMM_PACKING_H

#include "plugins/common/gemm/geometry.h"
#include "plugins/common/gemm/quantize.h"

#include <string.h>

/* What packing 16 rows needs. */
struct packing {
    const struct kt_host *host;
    const struct kt_layout *layout;
    enum kt_stage stage;
    uint64_t k, width; /* width: k filled up to 64 */
    uint64_t stride;   /* a line more than width: rows of 4 KB would compete for one set of the cache */
    float *rows;       /* 16, stride apart */
};

/* Where a panel's tile goes: its part of each pair, and of the panel's scales. */
struct target {
    uint8_t *panel;
    unsigned tile;   /* 0, 1 */
    uint8_t *scales; /* of its 16 rows */
};

/* Are its rows numbers side by side that q8_read knows? */
static inline bool is_plain(const struct kt_view *view)
{
    uint32_t dtype = view->dtype;
    bool plain = dtype == KT_DTYPE_F32 || dtype == KT_DTYPE_BF16 || dtype == KT_DTYPE_F16;
    return plain && view->block_stride == (dtype == KT_DTYPE_F32 ? 4 : 2) && !view->scales.data &&
           !view->zeros.data;
}

/* Row `row` of any view as float32, filled up with 0. Rows of plain numbers need no call of the core. */
static enum kt_status read_row(const struct packing *packing, const struct kt_view *view, uint64_t row,
                               float *out, struct kt_error *error)
{
    uint32_t dtype = view->dtype;
    int64_t element = dtype == KT_DTYPE_F32 ? 4 : 2;
    if (!is_plain(view)) {
        memset(out + packing->k, 0, (packing->width - packing->k) * sizeof *out);
        return packing->host->dequantize(packing->host, view, row, 0, packing->k, out, error);
    }
    const uint8_t *from = (const uint8_t *)view->data + (int64_t)row * view->row_stride;
    for (uint64_t c = 0; c < packing->width; c += Q8_STEP)
        q8_read(from + c * (uint64_t)element, dtype, packing->k - c, out + c);
    return KT_OK;
}

/* What its numbers are divided by. */
static inline struct q8_scale scale_row(const struct packing *packing, const float *row)
{
    vi max = vi_splat32(0);
    for (uint64_t c = 0; c < packing->width; c += Q8_STEP)
        max = q8_max(row + c, max);
    return q8_make_scale(q8_fold(max));
}

/* 16 rows of 64 bytes, `stride` apart, to a tile, past the caches: reading the memory that it overwrites
 * would take as long as all the rest of packing. After the last tile comes vec_stream_end. */
INLINE void stream_tile(const uint8_t *rows, uint64_t stride, uint8_t *to)
{
    _Alignas(64) uint8_t tile[TILE_SIZE];

    vec_make_tile(rows, stride, tile);
    for (uint64_t line = 0; line < TILE_SIZE; line += 64)
        vec_stream64(to + line, tile + line);
}

static inline uint64_t packing_size(const struct packing *packing)
{
    return TILE_ROWS * packing->stride * sizeof(float);
}

static inline void close_packing(const struct packing *packing)
{
    packing->host->release(packing->host, packing->rows, packing_size(packing));
}

#endif

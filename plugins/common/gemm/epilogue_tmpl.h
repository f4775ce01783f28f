/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/epilogue_tmpl.h - from the sums of a panel's products to y, whatever is multiplied.
 * Parameter  ACC  what products are added up in: int32_t or float
 */
#ifndef KT_PLUGINS_COMMON_GEMM_EPILOGUE_TMPL_H
#define KT_PLUGINS_COMMON_GEMM_EPILOGUE_TMPL_H

#ifndef ACC
#error "gemm/epilogue_tmpl.h: define ACC"
#endif

#include "plugins/common/gemm/geometry.h"
#include "plugins/common/simd/simd.h"

#include <string.h>

/* From this many rows on, y is stored past the caches: it is read again only after all experts. */
#define STREAM_ROWS 32

/* Sums of a panel: row r, column c of tile t at sum + r * row_step + t * tile_step + c. */
struct sums {
    const ACC *sum;
    uint64_t row_step, tile_step;
    bool pending; /* the epilogue still has to correct them: int8: they are of codes q + 128, so 128 * sum(x)
                     is to be subtracted; bf16: they are to be multiplied by the row scales */
};

/* A panel's 16 biases; rows after the last get 0. */
INLINE bool load_bias(const float *bias, uint64_t begin, uint64_t rows, float *out)
{
    memset(out, 0, TILE_ROWS * sizeof *out);
    if (bias && begin < rows) {
        uint64_t n = rows - begin;
        memcpy(out, bias + begin, (n < TILE_ROWS ? n : TILE_ROWS) * sizeof *out);
    }
    return bias != NULL;
}

/* The biases of a panel's 32 rows; false: there are none. */
static inline bool load_biases(const struct kt_product *job, enum kt_stage stage, uint64_t panel, float *out)
{
    const struct kt_shape *shape = &job->layout->shape;
    uint64_t begin = panel * panel_step(shape, stage);
    bool gate = has_gate(shape, stage), down = stage == KT_STAGE_DOWN;
    uint64_t rows = down ? shape->hidden_size : shape->intermediate_size;
    bool first = load_bias(job->bias[!gate && !down], begin, rows, out);
    return load_bias(job->bias[!down], gate ? begin : begin + TILE_ROWS, rows, out + TILE_ROWS) || first;
}

/* A row's 32 outputs, or those that exist, to y. */
INLINE void store_y(const struct kt_product *job, uint64_t panel, uint32_t row, const float *y, bool stream)
{
    bool bf16 = job->layout->y_dtype == KT_DTYPE_BF16;
    uint64_t left = job->layout->shape.hidden_size - panel * PANEL_ROWS, element = bf16 ? 2 : 4;
    uint32_t index = job->out_index ? job->out_index[row] : row;
    uint8_t *to = (uint8_t *)job->out + (int64_t)index * job->out_stride + panel * PANEL_ROWS * element;
    _Alignas(64) uint8_t half[2 * PANEL_ROWS];

    if (bf16)
        UNROLL_FOR (unsigned c = 0; c < PANEL_ROWS; c += VEC_ROWS)
            vf_store_bf16(half + 2 * c, vf_load(y + c));
    const uint8_t *from = bf16 ? half : (const uint8_t *)y;
    if (left < PANEL_ROWS) {
        memcpy(to, from, left * element);
    } else if (stream && (uintptr_t)to % 64 == 0) {
        vec_stream64(to, from);
        if (!bf16)
            vec_stream64(to + 64, from + 64);
    } else if (bf16) {
        memcpy(to, from, 2 * PANEL_ROWS);
    } else {
        memcpy(to, from, 4 * PANEL_ROWS);
    }
}

#endif

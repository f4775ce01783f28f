/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - 16 rows of a source view to a tile of each pair. Include an int8_*.h first. */
#ifndef KT_PLUGINS_AMX_INT8_PACK_H
#define KT_PLUGINS_AMX_INT8_PACK_H

#include "plugins/amx_int8/amx_int8.h"
#include "plugins/common/pack8.h"

/* A row to codes, which take the place of the first quarter of its floats; gives its scale. */
static float quantize_weights(const struct bench *bench, float *row)
{
    struct q8_scale scale = scale_row(bench, row);
    uint8_t *codes = (uint8_t *)row;

    for (uint64_t c = 0; c < bench->width; c += Q8_STEP) {
        _Alignas(64) int8_t q[Q8_STEP];
        q8_quantize(row + c, scale.inverse, q);
        for (unsigned i = 0; i < Q8_STEP; i += 8) {
            uint64_t eight;
            memcpy(&eight, q + i, sizeof eight);
            eight ^= UINT64_C(0x8080808080808080);
            memcpy(codes + c + i, &eight, sizeof eight);
        }
    }
    return scale.scale;
}

static enum kt_status pack_tiles(const struct bench *bench, const struct kt_view *view, uint64_t begin,
                                 const struct target *target, struct kt_error *error)
{
    uint8_t *to = target->panel + target->tile * TILE_SIZE;

    for (uint64_t i = 0; i < TILE_ROWS; i++) {
        float *row = bench->rows + i * bench->stride, scale = 0.0f;
        if (begin + i < view->rows) {
            enum kt_status status = read_row(bench, view, begin + i, row, error);
            if (status)
                return status;
            scale = quantize_weights(bench, row);
        } else {
            memset(row, 128, bench->width);
        }
        memcpy(target->scales + 4 * i, &scale, sizeof scale);
    }
    for (uint64_t t = 0; t < bench->width / TILE_COLUMNS; t++)
        vec_make_tile((const uint8_t *)bench->rows + t * TILE_COLUMNS, bench->stride * sizeof(float),
                      to + t * PAIR_SIZE);
    return KT_OK;
}

#endif

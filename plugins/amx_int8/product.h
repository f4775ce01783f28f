/* SPDX-License-Identifier: Apache-2.0 */
/*
 * product.h - the vector levels. A kernel_LEVEL.c includes its int8_*.h, sets the level's figures (see
 * multiply8.h), includes this and names its struct kt_ops.
 *
 *   NEAR_ROWS    up to so many rows the weights come as fast as memory: a near stream, else spread
 */
#ifndef KT_PLUGINS_AMX_INT8_PRODUCT_H
#define KT_PLUGINS_AMX_INT8_PRODUCT_H

#define TILED 0

#include "plugins/amx_int8/pack.h"
#include "plugins/common/epilogue8.h"
#include "plugins/common/stream.h"

#include "plugins/common/pass8.h"

#include "plugins/common/multiply8.h"

static struct way choose_way(const struct kt_product *job, enum kt_stage stage, uint32_t rows)
{
    (void)job;
    (void)stage;
    return (struct way){ passes8, rows <= NEAR_ROWS, W8_SUMS_CODES };
}

static struct panel8 open_panel(const struct kt_product *job, enum kt_stage stage, uint64_t number,
                                const struct way *way)
{
    (void)way;
    return (struct panel8){
        .codes = (const uint8_t *)job->packed + number * panel_size(job->layout, stage),
        .tiles = stage_tiles(job->layout, stage),
    };
}

#include "plugins/common/product8.h"

#define LEVEL_OPS(level)                         \
    const struct kt_ops amx_int8_ops_##level = { \
        .struct_size = sizeof(struct kt_ops),    \
        .layout = amx_int8_layout,               \
        .pack = pack_weights,                    \
        .act_pack = pack_rows,                   \
        .gate_up = multiply_gate_up,             \
        .down = multiply_down,                   \
        .weight_row = amx_int8_weight_row,       \
        .cut = amx_int8_cut,                     \
    }

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * product.h - the vector levels. A kernel_LEVEL.c includes its int8_*.h, sets PAIRS (bf16/activations.h) and
 * the level's figures (gemm/microkernel.h), includes this and names its struct kt_ops.
 *
 *   NEAR_ROWS    up to so many rows the weights come as fast as memory: a near stream, else spread
 *   AHEAD        bytes from what is multiplied to what is prefetched in a near stream: by one or two
 *                rows, and by all where the core cannot say (struct kt_caps.stream_ahead); 0: always as it
 * says
 */
#ifndef KT_PLUGINS_BF16_PRODUCT_H
#define KT_PLUGINS_BF16_PRODUCT_H

#define TILED 0

#include "plugins/bf16/pack.h"
#include "plugins/common/bf16/activations.h"
#include "plugins/common/gemm/prefetch.h"

#include "plugins/common/bf16/epilogue.h"

#include "plugins/common/gemm/microkernel.h"

#include "plugins/common/bf16/microkernel.h"

#define MULTIPLY multiply16
#include "plugins/common/gemm/microkernels_tmpl.h"

static struct way choose_way(const struct kt_product *job, enum kt_stage stage)
{
    (void)stage;
    return (struct way){passes8, job->n_rows <= NEAR_ROWS, false};
}

static struct panel8 open_panel(const struct kt_product *job, enum kt_stage stage, uint64_t number,
                                const struct way *way)
{
    const uint64_t ahead = job->layout->words[WORD_AHEAD];
    (void)way;
    return (struct panel8){
        .codes = (const uint8_t *)job->packed + number * panel_size(job->layout, stage),
        .tiles = stage_tiles(job->layout, stage),
        .ahead = ahead ? ahead : AHEAD,
    };
}

#include "plugins/common/gemm/driver_tmpl.h"

#define LEVEL_OPS(level)                                          \
    const struct kt_ops bf16_ops_##level = {                      \
        .struct_size = sizeof(struct kt_ops),                     \
        .layout = PAIRS ? bf16_layout_pairs : bf16_layout_floats, \
        .pack = pack_weights,                                     \
        .act_pack = pack_rows,                                    \
        .gate_up = multiply_gate_up,                              \
        .down = multiply_down,                                    \
        .weight_row = bf16_weight_row,                            \
        .cut = bf16_cut,                                          \
        .unpack = bf16_unpack,                                    \
    }

#endif

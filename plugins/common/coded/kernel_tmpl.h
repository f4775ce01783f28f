/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coded/kernel_tmpl.h - products with panels of codes on vectors. A kernel_LEVEL.c includes its int8_*.h and
 * codes_*.h, sets the level's figures, includes its backend's product.h and this, and names its struct
 * kt_ops.
 *
 *   FEW_ROWS     rows that share one pass over a panel of codes, at most
 *   EXPAND_ROWS  from so many rows on a panel becomes bfloat16 in scratch first (coded/dequantize.h)
 *   AHEAD        bytes from what is multiplied to what is prefetched while codes are read from memory; 0:
 *                what the core says of the machine (struct kt_caps.stream_ahead)
 *   ROWS_WIDE, ROWS_TILE  of passes over bfloat16, see gemm/microkernel.h
 */
#ifndef KT_PLUGINS_COMMON_CODED_KERNEL_TMPL_H
#define KT_PLUGINS_COMMON_CODED_KERNEL_TMPL_H

#define MULTIPLY multiply16
#include "plugins/common/gemm/microkernels_tmpl.h"

static struct way choose_way(const struct kt_product *job, enum kt_stage stage)
{
    if (job->n_rows >= EXPAND_ROWS && !job->layout->words[WORD_INT8_ROWS])
        return (struct way){passes8, false, PANEL_FACTORS};
    return (struct way){list_few(job, stage), true, false};
}

static struct panel8 open_panel(const struct kt_product *job, enum kt_stage stage, uint64_t number,
                                const struct way *way)
{
    struct panel8 panel = {.coded = find_panel(job, stage, number)};
    panel.tiles = panel.coded.coded.tiles;
    if (!way->near) {
        expand_panel(job, stage, &panel.coded, 0, panel.tiles, false, job->scratch);
        panel.codes = job->scratch;
    }
    return panel;
}

#include "plugins/common/gemm/driver_tmpl.h"

/* Scratch for a panel as bfloat16. */
static uint64_t size_scratch(const struct kt_layout *layout)
{
    uint64_t gate = stage_tiles(layout, KT_STAGE_GATE_UP), down = stage_tiles(layout, KT_STAGE_DOWN);
    return (gate > down ? gate : down) * PAIR_SIZE;
}

#if FIXED
#define LAY_OUT_ROWS(backend) backend##_layout_fixed
#elif PAIRS
#define LAY_OUT_ROWS(backend) backend##_layout_pairs
#else
#define LAY_OUT_ROWS(backend) backend##_layout_floats
#endif

#ifndef PACK_ROWS /* the backend's own */
#define PACK_ROWS pack_rows
#endif

#define CODED_LEVEL(backend, level)                                                                       \
    static enum kt_status lay_out_level(void *instance, struct kt_layout *layout, struct kt_error *error) \
    {                                                                                                     \
        enum kt_status status = LAY_OUT_ROWS(backend)(instance, layout, error);                           \
        if (status == KT_OK)                                                                              \
            layout->scratch_size = size_scratch(layout);                                                  \
        if (status == KT_OK && layout->words[WORD_INT8_ROWS])                                             \
            layout->instruction = VEC_INT8_DOT;                                                           \
        return status;                                                                                    \
    }                                                                                                     \
    const struct kt_ops backend##_ops_##level = {                                                         \
        .struct_size = sizeof(struct kt_ops),                                                             \
        .layout = lay_out_level,                                                                          \
        .pack = pack_weights,                                                                             \
        .act_pack = PACK_ROWS,                                                                            \
        .gate_up = multiply_gate_up,                                                                      \
        .down = multiply_down,                                                                            \
        .weight_row = backend##_weight_row,                                                               \
        .cut = backend##_cut,                                                                             \
        .unpack = backend##_unpack,                                                                       \
    }

#endif

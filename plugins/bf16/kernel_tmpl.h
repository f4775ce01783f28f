/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_tmpl.h - the vector levels. A kernel of a level defines SIMD and the parameters, includes this,
 * and ends with BF16_LEVEL(level);
 *
 * Parameters  TUNING  streamed_max_rows; prefetch_bytes, for one or two rows, and for all where the core does
 *                     not know the machine's (struct kt_caps.stream_ahead): gemm/tuning_tmpl.h
 *             MR_PANEL, MR_TILE, MICROKERNEL_MMLA   of microkernels: gemm/microkernels_tmpl.h
 */
#ifndef KT_PLUGINS_BF16_KERNEL_TMPL_H
#define KT_PLUGINS_BF16_KERNEL_TMPL_H

#define TILED 0
#include "plugins/bf16/pack.h"

#include "plugins/common/bf16/microkernel_tmpl.h"
#include "plugins/common/gemm/tunables.h"

#define MULTIPLY multiply_bf16
#include "plugins/common/gemm/microkernels_tmpl.h"

static struct strategy choose_strategy(const struct kt_product *job, enum kt_stage stage)
{
    (void)stage;
    /* Microkernels for many rows may add in another order than those that stream. */
    bool streamed =
        job->n_rows < job->layout->tuned[TUNED_ROWS] && !(MICROKERNEL_MMLA && job->layout->deterministic);
    return (struct strategy){microkernels, streamed, false};
}

static struct panel open_panel(const struct kt_product *job, enum kt_stage stage, uint64_t number,
                               const struct strategy *strategy)
{
    const uint64_t distance = job->layout->words[WORD_PREFETCH];
    (void)strategy;
    return (struct panel){
        .codes = (const uint8_t *)job->packed + number * panel_size(job->layout, stage),
        .tiles = stage_tiles(job->layout, stage),
        .distance = distance ? distance : tuning.prefetch_bytes,
        .few_distance = job->layout->tuned[TUNED_PREFETCH],
    };
}

#include "plugins/common/gemm/driver_tmpl.h"

static enum kt_status lay_out_level(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    enum kt_status status =
        VEC_BF16 ? bf16_layout_pairs(instance, layout, error) : bf16_layout_floats(instance, layout, error);
    if (status == KT_OK)
        fill_tuned(layout, tuning.prefetch_bytes, UINT64_C(1) + tuning.streamed_max_rows);
    return status;
}

static const struct kt_tunable tunables[] = {
    [TUNED_PREFETCH] = TUNABLE_PREFETCH(0),
    [TUNED_ROWS] = TUNABLE_PACED_ROWS(0, MICROKERNEL_MMLA ? KT_TUNABLE_BITS : 0),
};

#define BF16_LEVEL(level)                                 \
    const struct kt_ops bf16_ops_##level = {              \
        .struct_size = sizeof(struct kt_ops),             \
        .layout = lay_out_level,                          \
        .pack = pack_weights,                             \
        .act_pack = pack_rows,                            \
        .gate_up = multiply_gate_up,                      \
        .down = multiply_down,                            \
        .weight_row = bf16_weight_row,                    \
        .cut = bf16_cut,                                  \
        .unpack = bf16_unpack,                            \
        .tunables = tunables,                             \
        .n_tunables = sizeof tunables / sizeof *tunables, \
    }

#endif

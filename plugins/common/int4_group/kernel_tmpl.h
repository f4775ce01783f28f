/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int4_group/kernel_tmpl.h - the vector levels of backends with int4_group/weights.h's weights. A kernel of
 * a level defines SIMD and the parameters, includes the backend's header and this, and ends with
 * INT4_LEVEL(level);
 *
 * Parameters  OWN, OPS_NAME      names of functions and levels: plugin/ops_tmpl.h
 *             BACKEND            the backend's name, for messages
 *             TUNING             streamed_max_rows: gemm/tuning_tmpl.h
 *             DEQUANT_MIN_ROWS   the fewest rows for which a panel's codes become int8 in scratch first; 0:
 *                                never. That pays with VNNI, where a product of int8 is one operation;
 *                                elsewhere products of codes take fewer operations than those of int8
 * and those of int4_group/microkernel_tmpl.h.
 */
#ifndef KT_PLUGINS_COMMON_INT4_GROUP_KERNEL_TMPL_H
#define KT_PLUGINS_COMMON_INT4_GROUP_KERNEL_TMPL_H

#ifndef OWN
#error "int4_group/kernel_tmpl.h: define OWN"
#endif
#ifndef OPS_NAME
#error "int4_group/kernel_tmpl.h: define OPS_NAME"
#endif
#ifndef BACKEND
#error "int4_group/kernel_tmpl.h: define BACKEND"
#endif
#ifndef DEQUANT_MIN_ROWS
#error "int4_group/kernel_tmpl.h: define DEQUANT_MIN_ROWS"
#endif

#define TILED 0
#include "plugins/common/gemm/tuning_tmpl.h"
#include "plugins/common/int4_group/microkernel_tmpl.h"
#include "plugins/common/int4_group/pack_tmpl.h"
#include "plugins/common/plugin/ops_tmpl.h"
#if DEQUANT_MIN_ROWS
#include "plugins/common/int4_group/dequantize_tmpl.h"
#include "plugins/common/int8/microkernel_tmpl.h"
#endif

static struct strategy choose_strategy(const struct kt_product *job, enum kt_stage stage)
{
    (void)stage;
#if DEQUANT_MIN_ROWS
    if (job->n_rows >= DEQUANT_MIN_ROWS)
        return (struct strategy){microkernels, false, W8_SUMS_CODES};
#endif
    return (struct strategy){int4_microkernels, job->n_rows < job->layout->tuned[TUNED_ROWS], false};
}

static struct panel open_panel(const struct kt_product *job, enum kt_stage stage, uint64_t number,
                               const struct strategy *strategy)
{
    struct panel panel = find_group_panel(job, stage, number);
#if DEQUANT_MIN_ROWS
    if (strategy->microkernels == microkernels) {
        dequantize_pairs(&panel, 0, panel.tiles, false, job->scratch);
        panel.codes = job->scratch;
    }
#else
    (void)strategy;
#endif
    return panel;
}

#include "plugins/common/gemm/driver_tmpl.h"

static enum kt_status lay_out_level(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    enum kt_status status = OWN(layout)(instance, layout, error);
    uint64_t gate = stage_tiles(layout, KT_STAGE_GATE_UP), down = stage_tiles(layout, KT_STAGE_DOWN);
    if (status != KT_OK)
        return status;
    if (DEQUANT_MIN_ROWS > 0)
        layout->scratch_size = (gate > down ? gate : down) * PAIR_SIZE;
    fill_tuned(layout, tuning.prefetch_bytes, UINT64_C(1) + tuning.streamed_max_rows);
    return KT_OK;
}

static const struct kt_tunable tunables[] = {
    [TUNED_PREFETCH] = TUNABLE_PREFETCH(0),
    [TUNED_ROWS] = TUNABLE_PACED_ROWS(0, 0),
};

#define INT4_LEVEL(level)                                 \
    const struct kt_ops OPS_NAME(level) = {               \
        .struct_size = sizeof(struct kt_ops),             \
        .layout = lay_out_level,                          \
        .pack = pack_weights,                             \
        .act_pack = pack_rows,                            \
        .gate_up = multiply_gate_up,                      \
        .down = multiply_down,                            \
        .weight_row = OWN(weight_row),                    \
        .cut = OWN(cut),                                  \
        .tunables = tunables,                             \
        .n_tunables = sizeof tunables / sizeof *tunables, \
    }

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8/kernel_tmpl.h - the vector levels of backends with int8/weights.h's weights. A kernel of a level
 * defines SIMD, includes its int8/tuning_LEVEL, the backend's header and this, and ends with
 * INT8_LEVEL(level);
 *
 * Parameters  OWN, OPS_NAME      names of functions and levels: plugin/ops_tmpl.h
 *             BACKEND            the backend's name, for messages
 *             STREAMED_MAX_ROWS  the most rows with streamed prefetches; above, paced: gemm/prefetch.h
 *             MICROKERNEL_H      the header with the microkernels; default: int8/microkernel_tmpl.h
 *             MR_EXACT           the most rows that one microkernel takes: a second one would leave memory
 *                                idle
 * and those of gemm/microkernels_tmpl.h.
 */
#ifndef KT_PLUGINS_COMMON_INT8_KERNEL_TMPL_H
#define KT_PLUGINS_COMMON_INT8_KERNEL_TMPL_H

#ifndef OWN
#error "int8/kernel_tmpl.h: define OWN"
#endif
#ifndef OPS_NAME
#error "int8/kernel_tmpl.h: define OPS_NAME"
#endif
#ifndef BACKEND
#error "int8/kernel_tmpl.h: define BACKEND"
#endif
#ifndef STREAMED_MAX_ROWS
#error "int8/kernel_tmpl.h: define STREAMED_MAX_ROWS"
#endif
#ifndef MICROKERNEL_H
#define MICROKERNEL_H "plugins/common/int8/microkernel_tmpl.h"
#endif

#define TILED 0
#define EPILOGUE_H "plugins/common/int8/epilogue_tmpl.h"
#include "plugins/common/int8/pack_tmpl.h"
#include "plugins/common/gemm/tunables.h"
#include "plugins/common/int8/weights.h"
#include "plugins/common/plugin/ops_tmpl.h"

#include MICROKERNEL_H

static struct strategy choose_strategy(const struct kt_product *job, enum kt_stage stage)
{
    (void)stage;
#if MR_EXACT
    if (job->n_rows <= MR_EXACT)
        return (struct strategy){microkernels_exact, true, W8_SUMS_CODES};
#endif
    return (struct strategy){microkernels, job->n_rows < job->layout->tuned[TUNED_ROWS], W8_SUMS_CODES};
}

static struct panel open_panel(const struct kt_product *job, enum kt_stage stage, uint64_t number,
                               const struct strategy *strategy)
{
    (void)strategy;
    return (struct panel){
        .codes = (const uint8_t *)job->packed + number * panel_size(job->layout, stage),
        .tiles = stage_tiles(job->layout, stage),
        .distance = prefetch_distance(job->layout, 0),
    };
}

#include "plugins/common/gemm/driver_tmpl.h"

static enum kt_status lay_out_level(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    enum kt_status status = OWN(layout)(instance, layout, error);
    if (status == KT_OK)
        fill_tuned(layout, 0, UINT64_C(1) + STREAMED_MAX_ROWS);
    return status;
}

static const struct kt_tunable tunables[] = {
    [TUNED_PREFETCH] = TUNABLE_PREFETCH(0),
    [TUNED_ROWS] = TUNABLE_PACED_ROWS(0, 0),
};

#define INT8_LEVEL(level)                                 \
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

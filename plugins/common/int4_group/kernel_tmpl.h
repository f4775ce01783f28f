/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int4_group/kernel_tmpl.h - the vector levels. A kernel_LEVEL.c includes its int8_*.h, sets the level's
 * figures (see gemm/microkernel.h), includes this and names its struct kt_ops.
 *
 *   NEAR_ROWS    up to so many rows the weights come as fast as memory: a near stream, else spread
 *   EXPAND_ROWS  from so many rows on a panel's codes become int8 in scratch first, 0: never. It costs
 *                some 5 operations a vector and saves 0.6 per row: only with VNNI, where a product of
 *                int8 is one operation, while the others take fewer for codes than for int8.
 */
#ifndef KT_PLUGINS_COMMON_INT4_GROUP_KERNEL_TMPL_H
#define KT_PLUGINS_COMMON_INT4_GROUP_KERNEL_TMPL_H

#define TILED 0

#include "plugins/common/int8/epilogue.h"
#include "plugins/common/int4_group/pack.h"
#include "plugins/common/gemm/prefetch.h"

#include "plugins/common/gemm/microkernel.h"

#include "plugins/common/int4_group/microkernel.h"
#if EXPAND_ROWS
#include "plugins/common/int4_group/dequantize.h"
#include "plugins/common/int8/microkernel.h"
#endif

static struct way choose_way(const struct kt_product *job, enum kt_stage stage)
{
    (void)stage;
#if EXPAND_ROWS
    if (job->n_rows >= EXPAND_ROWS)
        return (struct way){passes8, false, W8_SUMS_CODES};
#endif
    return (struct way){passes4, job->n_rows <= NEAR_ROWS, false};
}

static struct panel8 open_panel(const struct kt_product *job, enum kt_stage stage, uint64_t number,
                                const struct way *way)
{
    struct panel8 panel = find_panel(job, stage, number);
#if EXPAND_ROWS
    if (way->passes == passes8) {
        expand_pairs(&panel, 0, panel.tiles, false, job->scratch);
        panel.codes = job->scratch;
    }
#else
    (void)way;
#endif
    return panel;
}

#include "plugins/common/gemm/driver_tmpl.h"

static enum kt_status lay_out_level(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    enum kt_status status = OWN(layout)(instance, layout, error);
    uint64_t gate = stage_tiles(layout, KT_STAGE_GATE_UP), down = stage_tiles(layout, KT_STAGE_DOWN);
    if (status == KT_OK && EXPAND_ROWS > 0)
        layout->scratch_size = (gate > down ? gate : down) * PAIR_SIZE;
    return status;
}

#define LAY_OUT lay_out_level

#endif

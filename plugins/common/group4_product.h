/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group4_product.h - the vector levels. A kernel_LEVEL.c includes its int8_*.h, sets the level's figures (see
 * pass8.h), includes this and names its struct kt_ops.
 *
 *   NEAR_ROWS    up to so many rows the weights come as fast as memory: a near stream, else spread
 *   EXPAND_ROWS  from so many rows on a panel's codes become int8 in scratch first, 0: never. It costs
 *                some 5 operations a vector and saves 0.6 per row: only with VNNI, where a product of
 *                int8 is one operation, while the others take fewer for codes than for int8.
 */
#ifndef KT_PLUGINS_GROUP4_PRODUCT_H
#define KT_PLUGINS_GROUP4_PRODUCT_H

#define TILED 0

#include "plugins/common/epilogue8.h"
#include "plugins/common/group4_pack.h"
#include "plugins/common/stream.h"

#include "plugins/common/pass8.h"

#include "plugins/common/group4_multiply.h"
#if EXPAND_ROWS
#include "plugins/common/group4_expand.h"
#include "plugins/common/multiply8.h"
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

#include "plugins/common/product8.h"

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

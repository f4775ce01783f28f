/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain8_product.h - the vector levels. Include an int8_*.h and the backend's header first and set the
 * level's figures (see pass8.h), of this file
 *
 *   NEAR_ROWS    up to so many rows the weights come as fast as memory: a near stream, else spread
 *   ROWS_EACH    up to so many, in one pass: the second one would leave memory idle
 *   MULTIPLY_FILE    what makes the passes, where that is not multiply8.h
 */
#ifndef KT_PLUGINS_PLAIN8_PRODUCT_H
#define KT_PLUGINS_PLAIN8_PRODUCT_H

#define TILED 0

#include "plugins/common/epilogue8.h"
#include "plugins/common/plain8_pack.h"
#include "plugins/common/stream.h"

#include "plugins/common/pass8.h"

#ifdef MULTIPLY_FILE
#include MULTIPLY_FILE
#else
#include "plugins/common/multiply8.h"
#endif

static struct way choose_way(const struct kt_product *job, enum kt_stage stage)
{
    (void)stage;
#if ROWS_EACH
    if (job->n_rows <= ROWS_EACH)
        return (struct way){each8, true, W8_SUMS_CODES};
#endif
    return (struct way){passes8, job->n_rows <= NEAR_ROWS, W8_SUMS_CODES};
}

static struct panel8 open_panel(const struct kt_product *job, enum kt_stage stage, uint64_t number,
                                const struct way *way)
{
    const uint64_t ahead = job->layout->words[WORD_AHEAD]; /* 0: the core cannot say */
    (void)way;
    return (struct panel8){
        .codes = (const uint8_t *)job->packed + number * panel_size(job->layout, stage),
        .tiles = stage_tiles(job->layout, stage),
        .ahead = ahead ? ahead : STREAM_NEAR,
    };
}

#include "plugins/common/product8.h"

#define LAY_OUT OWN(layout)

#endif

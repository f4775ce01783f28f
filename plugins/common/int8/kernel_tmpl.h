/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8/kernel_tmpl.h - the vector levels. Include an int8_*.h and the backend's header first and set the
 * level's figures (see gemm/microkernel.h), of this file
 *
 *   NEAR_ROWS    up to so many rows the weights come as fast as memory: a near stream, else spread
 *   ROWS_EACH    up to so many, in one pass: the second one would leave memory idle
 *   MULTIPLY_FILE    what makes the passes, where that is not int8/microkernel.h
 */
#ifndef KT_PLUGINS_COMMON_INT8_KERNEL_TMPL_H
#define KT_PLUGINS_COMMON_INT8_KERNEL_TMPL_H

#define TILED 0

#include "plugins/common/int8/epilogue.h"
#include "plugins/common/int8/pack.h"
#include "plugins/common/gemm/prefetch.h"

#include "plugins/common/gemm/microkernel.h"

#ifdef MULTIPLY_FILE
#include MULTIPLY_FILE
#else
#include "plugins/common/int8/microkernel.h"
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

#include "plugins/common/gemm/driver_tmpl.h"

#define LAY_OUT OWN(layout)

#endif

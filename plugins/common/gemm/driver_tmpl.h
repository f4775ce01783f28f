/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/driver_tmpl.h - the products of the vector levels: a block of activation rows that stays in L2 is
 * multiplied with all panels, then the next block.
 *
 * Parameters  those of gemm/microkernel_tmpl.h
 *             OPEN_ROWS(job, stage, begin, end)  what a backend does with the rows of a row block before its
 *                         panels are multiplied; default: nothing
 * Wanted      panel_size, choose_strategy, open_panel
 */
#ifndef KT_PLUGINS_COMMON_GEMM_DRIVER_TMPL_H
#define KT_PLUGINS_COMMON_GEMM_DRIVER_TMPL_H

#include "plugins/common/gemm/microkernel_tmpl.h"

#ifndef OPEN_ROWS
#define OPEN_ROWS(job, stage, begin, end) ((void)0)
#endif

/* Bytes of a panel of a stage. */
static inline uint64_t panel_size(const struct kt_layout *layout, enum kt_stage stage);
/* How the rows are multiplied: the same way in all row blocks of a product, so that a row's result does not
 * depend on the block it is in. */
static struct strategy choose_strategy(const struct kt_product *job, enum kt_stage stage);
/* Where the weights of a panel are. */
static struct panel open_panel(const struct kt_product *job, enum kt_stage stage, uint64_t number,
                               const struct strategy *strategy);

/* Steps of `rows` rows of a panel, for each pair of tiles. */
static uint64_t count_steps(const struct strategy *strategy, uint32_t rows)
{
    uint64_t steps = 0;
    while (rows) {
        const struct microkernel *microkernel = choose_microkernel(strategy, rows);
        steps += microkernel->cost;
        rows -= microkernel->rows;
    }
    return steps;
}

INLINE void multiply_stage(enum kt_stage stage, const struct kt_product *job)
{
    uint64_t tiles = stage_tiles(job->layout, stage), bytes = panel_size(job->layout, stage);
    uint32_t row_block = size_row_block(job, stage);
    const uint8_t *base = find_panels(job, bytes);
    uint64_t size = base ? (job->panel_end - job->panel_begin) * bytes : 0;
    const struct strategy strategy = choose_strategy(job, stage);
    struct prefetcher prefetcher;
    for (uint32_t begin = 0; begin < job->n_rows; begin += row_block) {
        bool last = job->n_rows - begin <= row_block;
        uint32_t end = last ? job->n_rows : begin + row_block;
        const void *next = last ? job->next : base;
        uint64_t next_size = last ? job->next_size : size;
        uint64_t steps = count_steps(&strategy, end - begin) * tiles * (job->panel_end - job->panel_begin);
        prefetcher_start(&prefetcher, !strategy.streamed, job->layout->words[WORD_PREFETCH], base, size,
                         steps, next, next_size);
        OPEN_ROWS(job, stage, begin, end);
        for (uint64_t p = job->panel_begin; p < job->panel_end; p++) {
            if (strategy.streamed && p + 1 == job->panel_end)
                prefetch_begin(next, next_size);
            struct panel panel = open_panel(job, stage, p, &strategy);
            run_microkernels(stage, job, p, &panel, &strategy, begin, end, &prefetcher);
        }
    }
}

static void multiply_gate_up(void *instance, const struct kt_product *job)
{
    (void)instance;
    multiply_stage(KT_STAGE_GATE_UP, job);
}

static void multiply_down(void *instance, const struct kt_product *job)
{
    (void)instance;
    multiply_stage(KT_STAGE_DOWN, job);
    vec_stream_end();
}

#endif

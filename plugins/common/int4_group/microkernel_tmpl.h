/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int4_group/microkernel_tmpl.h - microkernels for panels of codes of 4 bits, on vectors.
 *
 * 32 columns of a group begin in sums of their own, small enough for int16 where no instruction adds to
 * int32, and end in the row's total. With VNNI that costs half an operation for each vector of codes and
 * row; without, it saves widening each product to int32.
 *
 * Parameters  MR_PANEL  not 0: microkernels that read both tiles of a panel have up to 6 rows; 0: up to 2
 *             MR_TILE   rows of one that reads one tile after the other; 0: there is none
 *             TUNING    prefetch_bytes, a group's lines at a time: gemm/tuning_tmpl.h
 *             VEC_SVE   1: products by SVE; default 0
 * and those of gemm/microkernel_tmpl.h.
 */
#ifndef KT_PLUGINS_COMMON_INT4_GROUP_MICROKERNEL_TMPL_H
#define KT_PLUGINS_COMMON_INT4_GROUP_MICROKERNEL_TMPL_H

#ifndef MR_PANEL
#error "int4_group/microkernel_tmpl.h: define MR_PANEL"
#endif
#ifndef MR_TILE
#error "int4_group/microkernel_tmpl.h: define MR_TILE"
#endif
#ifndef VEC_SVE
#define VEC_SVE 0
#endif
#ifndef EPILOGUE_H
#define EPILOGUE_H "plugins/common/int8/epilogue_tmpl.h"
#endif

#include "plugins/common/gemm/microkernel_tmpl.h"
#include "plugins/common/gemm/tunables.h"
#include "plugins/common/gemm/tuning_tmpl.h"
#include "plugins/common/int4_group/weights.h"

#if VEC_SVE
#include "plugins/common/int4_group/microkernel_sve_tmpl.h"
#else
#ifdef G4_DIRECT
#include "plugins/common/int4_group/microkernel_sdot_tmpl.h"
#else
/* 32 columns: the four lines at `lines` with the activations at x[r] + from, a byte of scale and zero
 * per row at group. */
INLINE void multiply_group(const uint8_t *lines, const uint8_t *group, const struct act_rows *x,
                           uint64_t from, uint64_t sums, unsigned rows, unsigned first, unsigned n,
                           bool streamed, uint64_t distance, vi total[MAX_ROWS][VECS])
{
    g4_sum sum[MAX_ROWS][VECS];
    UNROLL_FOR (unsigned i = 0; streamed && i < CODES_SIZE; i += 64)
        PREFETCH_AHEAD(PREFETCH_LINE, lines + i, distance);
    UNROLL_FOR (unsigned v = 0; v < n; v++) {
        unsigned place = first + v;
        vi zeros = g4_zeros(group + place / VEC_PARTS * TILE_ROWS, (int)(place % VEC_PARTS));
        UNROLL_FOR (unsigned r = 0; r < rows; r++)
            sum[r][v] = g4_start(zeros, x->sums[r] + sums);
    }
    UNROLL_FOR (unsigned step = 0; step < 8; step++) {
        x8 a[MAX_ROWS];
        UNROLL_FOR (unsigned r = 0; r < rows; r++)
            a[r] = x8_splat(x->x[r] + from + 4 * step);
        UNROLL_FOR (unsigned v = 0; v < n; v++) {
            vi codes = vi_load(find_codes(lines, first + v) + step / 2 * 128);
            codes = vi_and(step % 2 ? vi_shr(codes, 4) : codes, vi_set_u8(15));
            UNROLL_FOR (unsigned r = 0; r < rows; r++)
                sum[r][v] = g4_add(sum[r][v], codes, a[r]);
        }
    }
    UNROLL_FOR (unsigned v = 0; v < n; v++) {
        unsigned place = first + v;
        vi scales = g4_scales(group + place / VEC_PARTS * TILE_ROWS, (int)(place % VEC_PARTS));
        UNROLL_FOR (unsigned r = 0; r < rows; r++)
            total[r][v] = g4_finish(total[r][v], sum[r][v], scales);
    }
}
#endif

/* The sums of `rows` rows and vectors first..first+n-1 of a panel, constants in each instance. */
INLINE void multiply_int4(const struct panel *panel, const struct act_rows *x, unsigned rows, unsigned first,
                          unsigned n, bool streamed, struct prefetcher *prefetcher,
                          int32_t out[MAX_ROWS][PANEL_ROWS])
{
    const uint8_t *pair = panel->codes;
    const uint64_t last = (UINT64_C(1) << panel->group_shift) - 1; /* of a block's pairs */
    const uint8_t *groups = NULL;
    vi total[MAX_ROWS][VECS];
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        UNROLL_FOR (unsigned v = 0; v < n; v++)
            total[r][v] = vi_splat32(0);
    for (uint64_t t = 0; t < panel->tiles; t++, pair += 2 * CODES_SIZE) {
        if ((t & last) == 0) {
            groups = pair;
            pair += GROUPS_SIZE;
            if (streamed)
                PREFETCH_LINE((uintptr_t)groups + panel->distance);
        }
        if (!streamed)
            prefetcher_step(prefetcher);
        for (unsigned half = 0; half < 2; half++) {
            uint64_t part = 2 * t + half;
            multiply_group(pair + half * CODES_SIZE, groups + (part >> panel->group_shift & 1) * PANEL_ROWS,
                           x, t * X_STEP + half * SUM_COLUMNS, part * 2, rows, first, n, streamed,
                           panel->distance, total);
        }
    }
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        UNROLL_FOR (unsigned v = 0; v < n; v++)
            vi_store(&out[r][(first + v) * VEC_ROWS], total[r][v]);
}
#endif

DEFINE_MICROKERNEL(int4_microkernel_1_streamed, multiply_int4, 1, true)
DEFINE_MICROKERNEL(int4_microkernel_2_streamed, multiply_int4, 2, true)
DEFINE_MICROKERNEL(int4_microkernel_1, multiply_int4, 1, false)
DEFINE_MICROKERNEL(int4_microkernel_2, multiply_int4, 2, false)
#if MR_PANEL
DEFINE_MICROKERNEL(int4_microkernel_3_streamed, multiply_int4, 3, true)
DEFINE_MICROKERNEL(int4_microkernel_4_streamed, multiply_int4, 4, true)
DEFINE_MICROKERNEL(int4_microkernel_5_streamed, multiply_int4, 5, true)
DEFINE_MICROKERNEL(int4_microkernel_6_streamed, multiply_int4, 6, true)
DEFINE_MICROKERNEL(int4_microkernel_3, multiply_int4, 3, false)
DEFINE_MICROKERNEL(int4_microkernel_4, multiply_int4, 4, false)
DEFINE_MICROKERNEL(int4_microkernel_5, multiply_int4, 5, false)
DEFINE_MICROKERNEL(int4_microkernel_6, multiply_int4, 6, false)
#endif
#if MR_TILE
DEFINE_TILE_MICROKERNEL(int4_microkernel_tile, multiply_int4, MR_TILE)
#endif

/* Totals and sums of 6 rows and 2 vectors are 24 registers of 32; those of 8 rows leave none for codes. */
static const struct microkernel int4_microkernels[] = {
#if MR_PANEL
    {6, 1, {int4_microkernel_6, int4_microkernel_6_streamed}},
    {5, 1, {int4_microkernel_5, int4_microkernel_5_streamed}},
    {4, 1, {int4_microkernel_4, int4_microkernel_4_streamed}},
    {3, 1, {int4_microkernel_3, int4_microkernel_3_streamed}},
#endif
#if MR_TILE
    {MR_TILE, 2, {int4_microkernel_tile, NULL}},
#endif
    {2, 1, {int4_microkernel_2, int4_microkernel_2_streamed}},
    {1, 1, {int4_microkernel_1, int4_microkernel_1_streamed}},
};

/* Panel `number`. */
static struct panel find_group_panel(const struct kt_product *job, enum kt_stage stage, uint64_t number)
{
    return (struct panel){
        .codes = (const uint8_t *)job->packed + number * panel_size(job->layout, stage),
        .tiles = stage_tiles(job->layout, stage),
        .group_shift = group_shift(job->layout),
        .distance = prefetch_distance(job->layout, tuning.prefetch_bytes),
    };
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coded/kernel_amx_tmpl.h - products with panels of codes on AMX tiles: a few rows by GEMV on vectors, more
 * with tiles that are dequantized into scratch, which stays in L1 while all rows pass: up to 32 rows, 2 of
 * both columns at a time in two buffers in turn; of more rows, 8.
 *
 * Parameters  VECTOR_MAX_ROWS  the most rows that go by GEMV on vectors
 *             PANEL_OWN        the type of what the backend knows of a panel
 *             GEMV_PENDING     1: sums of GEMV are pending as those of tiles are (struct sums); default 0
 *             FILL_PANEL(job, stage, panel)   packs a panel that is used in place, before find_own_panel's
 *                 is read; default: nothing
 * and those of gemm/driver_amx_tmpl.h and gemm/microkernel_tmpl.h.
 * Wanted      list_gemv, find_own_panel, dequantize_panel
 */
#ifndef KT_PLUGINS_COMMON_CODED_KERNEL_AMX_TMPL_H
#define KT_PLUGINS_COMMON_CODED_KERNEL_AMX_TMPL_H

#ifndef VECTOR_MAX_ROWS
#error "coded/kernel_amx_tmpl.h: define VECTOR_MAX_ROWS"
#endif
#ifndef PANEL_OWN
#error "coded/kernel_amx_tmpl.h: define PANEL_OWN"
#endif
#ifndef GEMV_PENDING
#define GEMV_PENDING 0
#endif
#ifndef FILL_PANEL
#define FILL_PANEL(job, stage, panel) ((void)0)
#endif
#define AMX_DOT AMX_DOT_BF16
#define GEMV_META 1

#include "plugins/common/gemm/driver_amx_tmpl.h"
#include "plugins/common/gemm/microkernel_tmpl.h"

/* What the backend knows of a panel. */
static PANEL_OWN find_own_panel(const struct kt_product *job, enum kt_stage stage, uint64_t number);
/* The microkernels for few rows. */
static const struct microkernel *list_gemv(const struct kt_product *job, enum kt_stage stage);
/* Tiles t..stop-1 of both columns of a panel, as bfloat16, to `to`; streamed: they come from memory. */
static void dequantize_panel(const struct kt_product *job, enum kt_stage stage, const PANEL_OWN *panel,
                             uint64_t t, uint64_t stop, bool streamed, uint8_t *to);

#define KEPT_PIECE 2 /* tiles: two buffers of 4 KB */

/* GEMV rounds in another way than tiles. */
static const struct blocking *list_blockings(const struct kt_layout *layout)
{
    static const struct blocking blockings[] = {
        {.gemv = true, .streamed = true},
        {.rows = 2 * TILE_ROWS, .kept = KEPT_PIECE},
        {.rows = UINT32_MAX, .cut = true},
    };
    return layout->deterministic ? blockings + 1 : blockings;
}

static const uint8_t *ready_pairs(const struct part *part, uint64_t t, uint64_t stop, uint8_t *to)
{
    PANEL_OWN panel = find_own_panel(part->job, part->stage, part->panel);
    if (t == 0)
        FILL_PANEL(part->job, part->stage, part->panel);
    dequantize_panel(part->job, part->stage, &panel, t, stop, part->blocking->streamed, to);
    return to;
}

static void multiply_gemv(struct part *part, uint32_t begin)
{
    struct panel panel = {.own = find_own_panel(part->job, part->stage, part->panel)};
    struct strategy strategy = {list_gemv(part->job, part->stage), true, GEMV_PENDING};
    panel.tiles = part->tiles;
    FILL_PANEL(part->job, part->stage, part->panel);
    run_microkernels(part->stage, part->job, part->panel, &panel, &strategy, begin, part->end,
                     part->prefetcher);
}

static const struct kt_tunable tunables[] = {
    [TUNED_PREFETCH] = TUNABLE_PREFETCH(0),
    [TUNED_ROWS] = TUNABLE_TILE_ROWS(TUNABLE_ROWS_MOST, KT_TUNABLE_DOUBLING | KT_TUNABLE_BITS),
    [TUNED_PIECE] = TUNABLE_PIECE,
};

/* What tiles require of a layout. prefetch_bytes: the level's standard, 0: the machine's. */
static void lay_out_tiles(struct kt_layout *layout, uint64_t prefetch_bytes)
{
    fill_tuned_tiles(layout, prefetch_bytes, VECTOR_MAX_ROWS + 1);
    layout->row_unit = TILE_ROWS;
    layout->scratch_size += count_blocks(layout) * sizeof(struct block) + MADE_TILES * PAIR_SIZE;
}

#define CODED_AMX_LEVEL(backend)                                                                          \
    static enum kt_status lay_out_level(void *instance, struct kt_layout *layout, struct kt_error *error) \
    {                                                                                                     \
        enum kt_status status = backend##_layout_tiles(instance, layout, error);                          \
        if (status == KT_OK)                                                                              \
            lay_out_tiles(layout, tuning.prefetch_bytes);                                                 \
        return status;                                                                                    \
    }                                                                                                     \
    const struct kt_ops backend##_ops_amx = {                                                             \
        .struct_size = sizeof(struct kt_ops),                                                             \
        .layout = lay_out_level,                                                                          \
        .pack = pack_weights,                                                                             \
        .act_pack = pack_rows,                                                                            \
        .gather = gather_rows,                                                                            \
        .gate_up = multiply_gate_up,                                                                      \
        .down = multiply_down,                                                                            \
        .weight_row = backend##_weight_row,                                                               \
        .cut = backend##_cut,                                                                             \
        .unpack = backend##_unpack,                                                                       \
        .tunables = tunables,                                                                             \
        .n_tunables = sizeof tunables / sizeof *tunables,                                                 \
        .thread_enter = enter_thread,                                                                     \
        .thread_leave = leave_thread,                                                                     \
    }

#endif

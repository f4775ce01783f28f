/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coded/kernel_amx_tmpl.h - products with panels of codes on AMX tiles: a few rows straight from the codes,
 * as on vectors; more of them with tiles that coded/dequantize.h makes, 8 of both columns at a time, which is
 * 16 KB and stays in L1 while all rows pass. Include gemm/driver_amx_tmpl.h first. FEW_TILE_ROWS: up to so
 * many rows the codes are multiplied on vectors.
 */
#ifndef KT_PLUGINS_COMMON_CODED_KERNEL_AMX_TMPL_H
#define KT_PLUGINS_COMMON_CODED_KERNEL_AMX_TMPL_H

/* The backend's: makes a panel ready that is not packed, before find_panel's is read. */
#ifndef FILL_PANEL
#define FILL_PANEL(job, stage, panel) ((void)0)
#endif

/* The expanded tiles stand behind the blocks in scratch. */
#define BLOCKS_SIZE (SCRATCH_BLOCKS * sizeof(struct block))

static const struct choice *list_choices(void)
{
    static const struct choice choices[] = {
        {FEW_TILE_ROWS, true, true, 0},
        {16, false, true, 8},
        {UINT32_MAX, false, false, 8},
    };
    return choices;
}

static const uint8_t *ready_pairs(const struct part *part, uint64_t t, uint64_t stop)
{
    struct coded_panel panel = find_panel(part->job, part->stage, part->panel);
    uint8_t *to = (uint8_t *)part->scratch + BLOCKS_SIZE;
    if (t == 0)
        FILL_PANEL(part->job, part->stage, part->panel);
    expand_panel(part->job, part->stage, &panel, t, stop, part->choice->near, to);
    return to;
}

static void multiply_few(const struct part *part, uint32_t begin)
{
    struct panel8 panel = {.coded = find_panel(part->job, part->stage, part->panel)};
    struct way way = {list_few(part->job, part->stage), true, false};
    panel.tiles = part->tiles;
    FILL_PANEL(part->job, part->stage, part->panel);
    run_passes(part->stage, part->job, part->panel, &panel, &way, begin, part->end, part->stream);
}

/* What tiles ask of a layout. */
static void lay_out_tiles(struct kt_layout *layout)
{
    layout->row_unit = TILE_ROWS;
    layout->scratch_size += BLOCKS_SIZE + SHORT_K * PAIR_SIZE;
}

#define CODED_AMX_LEVEL(backend)                                                                          \
    static enum kt_status lay_out_level(void *instance, struct kt_layout *layout, struct kt_error *error) \
    {                                                                                                     \
        enum kt_status status = backend##_layout_tiles(instance, layout, error);                          \
        if (status == KT_OK)                                                                              \
            lay_out_tiles(layout);                                                                        \
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
        .thread_enter = enter_thread,                                                                     \
        .thread_leave = leave_thread,                                                                     \
    }

#endif

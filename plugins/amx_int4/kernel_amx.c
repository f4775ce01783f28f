/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_amx.c - AMX tiles, with AVX-512 for all that is not the product.
 *
 * Up to 4 rows are multiplied by VNNI straight from the codes, which keeps up with memory. With more, tiles
 * of both columns are dequantized to int8 in scratch, which stays in L1 while all rows pass: dequantizing a
 * tile costs about what its product with 64 rows does.
 */
#define SIMD avx512
#define VEC_VNNI 1
#define TILED 1
#define MR_PANEL 8
#define MR_TILE 0
#define TUNING .prefetch_bytes = 4096
#define NEAR_AHEAD 1024
#define VECTOR_MAX_ROWS 4

#include "plugins/amx_int4/amx_int4.h"

#include "plugins/common/int4_group/dequantize_tmpl.h"
#include "plugins/common/int4_group/microkernel_tmpl.h"
#include "plugins/common/int4_group/pack_tmpl.h"

#include "plugins/common/gemm/driver_amx_tmpl.h"

/* Dequantized tiles stand behind the blocks in scratch. */
static const struct blocking *list_blockings(const struct kt_layout *layout)
{
    static const struct blocking blockings[] = {
        {.gemv = true, .streamed = true},
        {.rows = 2 * TILE_ROWS, .kept = 2},
        {.rows = UINT32_MAX, .cut = true},
    };
    (void)layout;
    return blockings;
}

static const uint8_t *ready_pairs(const struct part *part, uint64_t t, uint64_t stop, uint8_t *to)
{
    struct panel panel = find_group_panel(part->job, part->stage, part->panel);
    dequantize_pairs(&panel, t, stop, part->blocking->streamed, to);
    return to;
}

static const struct kt_tunable tunables[] = {
    [TUNED_PREFETCH] = TUNABLE_PREFETCH(0),
    [TUNED_ROWS] = TUNABLE_TILE_ROWS(TUNABLE_ROWS_MOST, KT_TUNABLE_DOUBLING),
    [TUNED_PIECE] = TUNABLE_PIECE,
};

static void multiply_gemv(struct part *part, uint32_t begin)
{
    struct panel panel = find_group_panel(part->job, part->stage, part->panel);
    struct strategy strategy = {int4_microkernels, true, false};
    run_microkernels(part->stage, part->job, part->panel, &panel, &strategy, begin, part->end,
                     part->prefetcher);
}

static enum kt_status lay_out_amx(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    enum kt_status status = amx_int4_layout(instance, layout, error);
    if (status != KT_OK)
        return status;
    layout->scratch_size = count_blocks(layout) * sizeof(struct block) + MADE_TILES * PAIR_SIZE;
    fill_tuned_tiles(layout, tuning.prefetch_bytes, VECTOR_MAX_ROWS + 1);
    return KT_OK;
}

const struct kt_ops amx_int4_ops_amx = {
    .struct_size = sizeof(struct kt_ops),
    .layout = lay_out_amx,
    .pack = pack_weights,
    .act_pack = pack_rows,
    .gather = gather_rows,
    .gate_up = multiply_gate_up,
    .down = multiply_down,
    .weight_row = amx_int4_weight_row,
    .cut = amx_int4_cut,
    .tunables = tunables,
    .n_tunables = sizeof tunables / sizeof *tunables,
    .thread_enter = enter_thread,
    .thread_leave = leave_thread,
};

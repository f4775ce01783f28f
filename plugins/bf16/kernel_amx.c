/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_amx.c - AMX tiles, with AVX-512 for all that is not the product, and for one row, for which
 * vdpbf16ps is faster. From 2 rows on no vector kernel keeps up with tiles.
 */
#define SIMD avx512
#define VEC_VNNI 1
#define VEC_BF16 1
#define TILED 1
#define ROW_PREFETCH 8192
#define TUNING .prefetch_bytes = ROW_PREFETCH
#define AMX_DOT AMX_DOT_BF16

#include "plugins/bf16/pack.h"

#include "plugins/common/bf16/microkernel_tmpl.h"

DEFINE_MICROKERNEL(one_row, multiply_bf16, 1, true)

#include "plugins/common/gemm/amx_stored_tmpl.h"

static const struct blocking *list_blockings(const struct kt_layout *layout)
{
    static const struct blocking blockings[] = {
        {.gemv = true, .streamed = true},
        {.rows = 32},
        {.rows = UINT32_MAX, .cut = true},
    };
    (void)layout;
    return blockings;
}

enum { TUNED_ROW = TUNED_PIECE + 1 };

static const struct kt_tunable tunables[] = {
    [TUNED_PREFETCH] = TUNABLE_PREFETCH(0),
    [TUNED_ROWS] = TUNABLE_TILE_ROWS(STREAMED_ROWS + 1, KT_TUNABLE_BITS),
    [TUNED_PIECE] = TUNABLE_PIECE,
    [TUNED_ROW] = {.name = "row_prefetch_bytes",
                   .what = "bytes that a product of one row prefetches ahead",
                   .minimum = TUNABLE_PREFETCH_LEAST,
                   .maximum = TUNABLE_PREFETCH_MOST,
                   .standard = ROW_PREFETCH,
                   .flags = KT_TUNABLE_DOUBLING},
};

static void multiply_gemv(struct part *part, uint32_t begin)
{
    struct panel panel = {.codes = part->panel_data,
                          .tiles = part->tiles,
                          .few_distance = part->job->layout->tuned[TUNED_ROW]};
    static const struct microkernel microkernels[] = {{1, 1, {NULL, one_row}}};
    struct strategy strategy = {microkernels, true, false};
    if (part->end - begin > 1 || part->job->layout->deterministic) {
        multiply_streamed(part, find_block(part, begin), part->scratch);
        load_scales(part->job, part->stage, part->panel, &part->scales);
        finish_block(part, begin, part->scratch);
    } else {
        run_microkernels(part->stage, part->job, part->panel, &panel, &strategy, begin, part->end,
                         part->prefetcher);
    }
}

static enum kt_status lay_out_amx(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    enum kt_status status = bf16_layout_pairs(instance, layout, error);
    if (status)
        return status;
    layout->row_unit = TILE_ROWS;
    layout->scratch_size = count_blocks(layout) * sizeof(struct block);
    fill_tuned_tiles(layout, STREAMED_DISTANCE, STREAMED_ROWS + 1);
    return KT_OK;
}

const struct kt_ops bf16_ops_amx = {
    .struct_size = sizeof(struct kt_ops),
    .layout = lay_out_amx,
    .pack = pack_weights,
    .act_pack = pack_rows,
    .gather = gather_rows,
    .gate_up = multiply_gate_up,
    .down = multiply_down,
    .weight_row = bf16_weight_row,
    .cut = bf16_cut,
    .unpack = bf16_unpack,
    .tunables = tunables,
    .n_tunables = sizeof tunables / sizeof *tunables,
    .thread_enter = enter_thread,
    .thread_leave = leave_thread,
};

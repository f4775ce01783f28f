/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_amx.c - AMX tiles, with AVX-512 for all that is not the product.
 *
 * With up to 16 rows, 1 tile of activations meets the 2 of the panel's pair (3 loads, 2 products), which
 * keeps up with memory: no vector kernel is faster, not even for 1 row.
 */
#define SIMD avx512
#define VEC_VNNI 1
#define TILED 1
#define NEAR_AHEAD 1536
#define EPILOGUE_H "plugins/common/int8/epilogue_tmpl.h"

#include "plugins/amx_int8/amx_int8.h"

#include "plugins/common/gemm/amx_stored_tmpl.h"
#include "plugins/common/int8/pack_tmpl.h"

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

static const struct kt_tunable tunables[] = {
    [TUNED_PREFETCH] = TUNABLE_PREFETCH(0),
    [TUNED_ROWS] = TUNABLE_TILE_ROWS(STREAMED_ROWS + 1, 0),
    [TUNED_PIECE] = TUNABLE_PIECE,
};

static void multiply_gemv(struct part *part, uint32_t begin)
{
    multiply_streamed(part, find_block(part, begin), part->scratch);
    load_scales(part->job, part->stage, part->panel, &part->scales);
    finish_block(part, begin, part->scratch);
}

static enum kt_status lay_out_amx(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    enum kt_status status = OWN(layout)(instance, layout, error);
    if (status != KT_OK)
        return status;
    layout->scratch_size = count_blocks(layout) * sizeof(struct block);
    fill_tuned_tiles(layout, PREFETCH_PAGE, STREAMED_ROWS + 1);
    return KT_OK;
}

const struct kt_ops OPS_NAME(amx) = {
    .struct_size = sizeof(struct kt_ops),
    .layout = lay_out_amx,
    .pack = pack_weights,
    .act_pack = pack_rows,
    .gather = gather_rows,
    .gate_up = multiply_gate_up,
    .down = multiply_down,
    .weight_row = OWN(weight_row),
    .cut = OWN(cut),
    .tunables = tunables,
    .n_tunables = sizeof tunables / sizeof *tunables,
    .thread_enter = enter_thread,
    .thread_leave = leave_thread,
};

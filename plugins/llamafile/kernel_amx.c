/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_amx.c - AMX tiles for many rows, whose half panels become bfloat16 tile by tile; for few rows int8
 * on vectors, as on level avx512_vbmi. Tiles of int8 would need their int32 sums scaled every 32 columns,
 * which costs more than the product.
 */
#define SIMD avx512
#define VEC_VNNI 1
#define VEC_VBMI 1
#define VEC_BF16 1
#define VEC_GATHERS 1 /* of Intel's CPUs; AMD's, and those before AMX, make them of slow steps */
#define TILED 1
#define BLOCK_QUANTS 4
#define ROWS_BLOCKED
#define BLOCK_FLOATS 4
#define DEQUANTIZES 1
#define EXPANDS_CODES

/* To L2 by PREFETCH_BYTES, to L1 by NEAR_AHEAD: the README has figures. */
#define PREFETCH_BYTES 4096
#define NEAR_AHEAD 768
#define LIGHT_AHEAD 1

/* Of q4_k and q8_0 vectors and tiles take as long with 16 rows too; of q6_k tiles are faster from 9 on. */
#define VECTOR_MAX_ROWS 8

#include "plugins/llamafile/llamafile.h"

#include "plugins/common/bf16/activations_tmpl.h"

#include "plugins/llamafile/multiply/gemv_tmpl.h"

#define OPEN_ROWS(job, stage, begin, end) make_blocks(job, stage, begin, end)

#include "plugins/common/coded/kernel_amx_tmpl.h"

static void dequantize_panel(const struct kt_product *job, enum kt_stage stage,
                             const struct half_panels *panel, uint64_t t, uint64_t stop, bool streamed,
                             uint8_t *to)
{
    (void)job;
    (void)stage;
    for (unsigned i = 0; i < 2; i++) {
        const struct half_panel *half_panel = &panel->half_panel[i];
        half_panel->kernel->dequantize(half_panel->data, panel->k, t, stop, streamed ? panel->distance : 0,
                                       to + i * TILE_SIZE);
    }
}

static enum kt_status lay_out_level(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    enum kt_status status = llamafile_layout_pairs(instance, layout, error);
    if (status == KT_OK) {
        lay_out_tiles(layout, PREFETCH_BYTES);
        lay_out_blocks(layout, TUNABLE_ROWS_MOST);
    }
    return status;
}

static bool uses_vectors(const struct kt_layout *layout, uint32_t n_rows)
{
    return n_rows < layout->tuned[TUNED_ROWS] && !layout->deterministic;
}

/* Stage 0 is packed in both forms: how many rows a product has is known only in stage 1. */
static void pack_level(void *instance, const struct kt_act_pack *job)
{
    struct kt_act_pack pairs = *job;
    bool down = job->stage == KT_STAGE_DOWN;
    if (!down || uses_vectors(job->layout, job->n_rows))
        pack_activations(instance, job);
    if (!down)
        pairs.packed = (uint8_t *)job->packed + pairs_offset(job->layout, job->stage);
    if (!down || !uses_vectors(job->layout, job->n_rows))
        pack_rows(instance, &pairs);
}

static void gather_level(void *instance, const struct kt_gather *job)
{
    struct kt_gather pairs = *job;
    uint64_t size = job->layout->act_row_size[0];
    if (!uses_vectors(job->layout, job->n_rows)) {
        pairs.act = (const uint8_t *)job->act + pairs_offset(job->layout, KT_STAGE_GATE_UP);
        gather_rows(instance, &pairs);
        return;
    }
    for (uint32_t row = 0; row < job->n_rows; row++)
        memcpy((uint8_t *)job->out + row * size, (const uint8_t *)job->act + job->index[row] * size,
               pairs_offset(job->layout, KT_STAGE_GATE_UP));
}

const struct kt_ops llamafile_ops_amx = {
    .struct_size = sizeof(struct kt_ops),
    .layout = lay_out_level,
    .pack = pack_weights,
    .act_pack = pack_level,
    .gather = gather_level,
    .gate_up = multiply_gate_up,
    .down = multiply_down,
    .weight_row = llamafile_weight_row,
    .tunables = tunables,
    .n_tunables = sizeof tunables / sizeof *tunables,
    .thread_enter = enter_thread,
    .thread_leave = leave_thread,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_tmpl.h - products of the vector levels: GEMV for any number of rows. A kernel of a level defines
 * SIMD and the parameters of gemv_tmpl.h, includes this, and ends with LLAMAFILE_LEVEL(level);
 */
#ifndef KT_PLUGINS_LLAMAFILE_KERNEL_TMPL_H
#define KT_PLUGINS_LLAMAFILE_KERNEL_TMPL_H

#define TILED 0
#include "plugins/llamafile/multiply/gemv_tmpl.h"

#if defined ROWS_BLOCKED && defined VEC_SUMS
#define OPEN_ROWS(job, stage, begin, end) \
    (make_sums(job, stage, begin, end), make_blocks(job, stage, begin, end))
#elif defined ROWS_BLOCKED
#define OPEN_ROWS(job, stage, begin, end) make_blocks(job, stage, begin, end)
#elif defined VEC_SUMS
#define OPEN_ROWS(job, stage, begin, end) make_sums(job, stage, begin, end)
#endif

static struct strategy choose_strategy(const struct kt_product *job, enum kt_stage stage)
{
    return (struct strategy){list_gemv(job, stage), true, true};
}

static struct panel open_panel(const struct kt_product *job, enum kt_stage stage, uint64_t number,
                               const struct strategy *strategy)
{
    (void)strategy;
    fill_panel(job, stage, number);
    return (struct panel){.own = find_own_panel(job, stage, number)};
}

#include "plugins/common/gemm/driver_tmpl.h"

/* Floats are multiplied as floats. A level's own instruction is that of quantized formats. */
static enum kt_status lay_out_level(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    enum kt_status status = llamafile_layout(instance, layout, error);
    bool quantized = has_part(layout, KT_STAGE_DOWN, false) ||
                     (!is_linear(&layout->shape) && has_part(layout, KT_STAGE_GATE_UP, false));
    if (status == KT_OK)
        layout->tuned[TUNED_PREFETCH] = prefetch_distance(layout, PREFETCH_BYTES);
    if (status == KT_OK && !quantized)
        layout->instruction = VEC_FLOAT_FMA;
#ifdef VEC_SUMS
    if (status == KT_OK)
        lay_out_sums(instance, layout);
#endif
#ifdef ROWS_BLOCKED
    if (status == KT_OK)
        lay_out_blocks(layout, UINT64_MAX);
#endif
    return status;
}

static const struct kt_tunable tunables[] = {[TUNED_PREFETCH] = TUNABLE_PREFETCH(0)};

#define LLAMAFILE_LEVEL(name)                             \
    const struct kt_ops llamafile_ops_##name = {          \
        .struct_size = sizeof(struct kt_ops),             \
        .layout = lay_out_level,                          \
        .pack = pack_weights,                             \
        .act_pack = pack_activations,                     \
        .gate_up = multiply_gate_up,                      \
        .down = multiply_down,                            \
        .weight_row = llamafile_weight_row,               \
        .tunables = tunables,                             \
        .n_tunables = sizeof tunables / sizeof *tunables, \
    }

#endif

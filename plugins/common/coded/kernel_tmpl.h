/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coded/kernel_tmpl.h - products with panels of codes on vectors: a few rows by GEMV (coded/gemv_tmpl.h),
 * many with panels dequantized to bfloat16 in scratch (coded/dequantize_tmpl.h). A kernel of a level
 * defines SIMD and the parameters, includes its backend's product_tmpl and this, and ends with
 * CODED_LEVEL(backend, level);
 *
 * Parameters  TUNING      dequant_min_rows: gemm/tuning_tmpl.h
 *             PACK_ROWS   the backend's own act_pack; default: pack_rows
 *             MULTIPLY    what multiplies dequantized panels: gemm/microkernels_tmpl.h; default:
 * multiply_bf16 MR_PANEL, MR_TILE   of microkernels for bfloat16: gemm/microkernels_tmpl.h and those of
 * coded/gemv_tmpl.h. Wanted      list_gemv, dequantize_panel
 */
#ifndef KT_PLUGINS_COMMON_CODED_KERNEL_TMPL_H
#define KT_PLUGINS_COMMON_CODED_KERNEL_TMPL_H

#ifndef PACK_ROWS
#define PACK_ROWS pack_rows
#endif

#include "plugins/common/coded/gemv_tmpl.h"
#include "plugins/common/gemm/tuning_tmpl.h"

#ifndef MULTIPLY
#define MULTIPLY multiply_bf16
#endif
#include "plugins/common/gemm/microkernels_tmpl.h"

/* The microkernels for few rows. */
static const struct microkernel *list_gemv(const struct kt_product *job, enum kt_stage stage);
/* Tiles t..stop-1 of both columns of a panel, as bfloat16, to `to`; streamed: they come from memory. */
static void dequantize_panel(const struct kt_product *job, enum kt_stage stage,
                             const struct coded_panel *panel, uint64_t t, uint64_t stop, bool streamed,
                             uint8_t *to);

static struct strategy choose_strategy(const struct kt_product *job, enum kt_stage stage)
{
    bool few = job->n_rows < job->layout->tuned[TUNED_ROWS] || job->layout->deterministic;
    if (!few && !job->layout->words[WORD_INT8_ROWS])
        return (struct strategy){microkernels, false, ROW_SCALES};
    return (struct strategy){list_gemv(job, stage), true, false};
}

static struct panel open_panel(const struct kt_product *job, enum kt_stage stage, uint64_t number,
                               const struct strategy *strategy)
{
    struct panel panel = {.own = find_own_panel(job, stage, number)};
    panel.tiles = panel.own.coded.tiles;
    if (!strategy->streamed) {
        dequantize_panel(job, stage, &panel.own, 0, panel.tiles, false, job->scratch);
        panel.codes = job->scratch;
    }
    return panel;
}

#include "plugins/common/gemm/driver_tmpl.h"

/* Scratch for a panel as bfloat16. */
static uint64_t size_scratch(const struct kt_layout *layout)
{
    uint64_t gate = is_linear(&layout->shape) ? 0 : stage_tiles(layout, KT_STAGE_GATE_UP);
    uint64_t down = stage_tiles(layout, KT_STAGE_DOWN);
    return (gate > down ? gate : down) * PAIR_SIZE;
}

#if ROW_EXTRA
#define LAY_OUT_ROWS(backend) backend##_layout_extra
#elif VEC_BF16
#define LAY_OUT_ROWS(backend) backend##_layout_pairs
#else
#define LAY_OUT_ROWS(backend) backend##_layout_floats
#endif

#define CODED_LEVEL(backend, level)                                                                       \
    static enum kt_status lay_out_level(void *instance, struct kt_layout *layout, struct kt_error *error) \
    {                                                                                                     \
        enum kt_status status = LAY_OUT_ROWS(backend)(instance, layout, error);                           \
        if (status != KT_OK)                                                                              \
            return status;                                                                                \
        layout->scratch_size = size_scratch(layout);                                                      \
        fill_tuned(layout, tuning.prefetch_bytes, tuning.dequant_min_rows);                               \
        if (layout->words[WORD_INT8_ROWS])                                                                \
            layout->instruction = VEC_INT8_DOT;                                                           \
        return status;                                                                                    \
    }                                                                                                     \
    static const struct kt_tunable tunables[] =                                                           \
        {[TUNED_PREFETCH] = TUNABLE_PREFETCH(0), [TUNED_ROWS] = TUNABLE_DEQUANT_ROWS(0)};                 \
    const struct kt_ops backend##_ops_##level = {                                                         \
        .struct_size = sizeof(struct kt_ops),                                                             \
        .layout = lay_out_level,                                                                          \
        .pack = pack_weights,                                                                             \
        .act_pack = PACK_ROWS,                                                                            \
        .gate_up = multiply_gate_up,                                                                      \
        .down = multiply_down,                                                                            \
        .weight_row = backend##_weight_row,                                                               \
        .cut = backend##_cut,                                                                             \
        .unpack = backend##_unpack,                                                                       \
        .tunables = tunables,                                                                             \
        .n_tunables = sizeof tunables / sizeof *tunables,                                                 \
    }

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bf16/epilogue.h - from float32 sums to h and y.
 *
 * Parameter  ROW_SCALES  1: sums that are `pending` are multiplied by the scales of the panel's rows, which
 *                        load_row_scales finds; default 0
 * Wanted     load_row_scales, where ROW_SCALES is 1
 */
#ifndef KT_PLUGINS_COMMON_BF16_EPILOGUE_H
#define KT_PLUGINS_COMMON_BF16_EPILOGUE_H

#ifndef ROW_SCALES
#define ROW_SCALES 0
#endif

#define ACC float
#include "plugins/common/gemm/epilogue_tmpl.h"
#include "plugins/common/gemm/glu.h"

#if ROW_SCALES
/* The scales of a panel's rows; false: there are none. */
static bool load_row_scales(const struct kt_product *job, enum kt_stage stage, uint64_t panel,
                            float *row_scale);
#endif

/* What the sums of a panel's 32 rows still need. */
struct panel_scales {
    _Alignas(64) float bias[PANEL_ROWS];
    bool has_bias;
#if ROW_SCALES
    bool has_row_scales;
    _Alignas(64) float row_scale[PANEL_ROWS];
#endif
};

static void load_scales(const struct kt_product *job, enum kt_stage stage, uint64_t panel,
                        struct panel_scales *scales)
{
#if ROW_SCALES
    scales->has_row_scales = load_row_scales(job, stage, panel, scales->row_scale);
#endif
    scales->has_bias = load_biases(job, stage, panel, scales->bias);
}

/* Columns c.. of 32 in row r, with factor and bias. */
INLINE vf load_sums(const struct sums *sums, const struct panel_scales *scales, uint64_t r, unsigned c)
{
    vf sum = vf_load(sums->sum + r * sums->row_step + c / TILE_ROWS * sums->tile_step + c % TILE_ROWS);
#if ROW_SCALES
    if (sums->pending && scales->has_row_scales)
        sum = vf_mul(sum, vf_load(scales->row_scale + c));
#endif
    return scales->has_bias ? vf_add(sum, vf_load(scales->bias + c)) : sum;
}

/* Rows of h by a rare activation, and of up alone. */
static NOINLINE void finish_rare(const struct kt_product *job, uint64_t panel, uint32_t row, uint32_t n,
                                 const struct sums *sums, const struct panel_scales *scales)
{
    const struct kt_shape *shape = &job->layout->shape;
    const bool gated = has_gate(shape, KT_STAGE_GATE_UP);
    for (uint32_t r = 0; r < n; r++) {
        float *h = (float *)(void *)((uint8_t *)job->out + (row + r) * job->layout->h_row_size) +
                   panel * panel_step(shape, KT_STAGE_GATE_UP);
        for (unsigned c = 0; gated && c < TILE_ROWS; c += VEC_ROWS)
            vf_store(h + c, vf_glu_rare(shape, load_sums(sums, scales, r, c),
                                        load_sums(sums, scales, r, c + TILE_ROWS)));
        for (unsigned c = 0; !gated && c < PANEL_ROWS; c += VEC_ROWS)
            vf_store(h + c, vf_relu2(load_sums(sums, scales, r, c)));
    }
}

/* n rows from `row` on, of one panel: through the activation into h, or to y. */
INLINE void finish(enum kt_stage stage, const struct kt_product *job, uint64_t panel, uint32_t row,
                   uint32_t n, const struct sums *sums, const struct panel_scales *scales)
{
    const struct kt_layout *layout = job->layout;
    _Alignas(64) float y[PANEL_ROWS];

    if (stage == KT_STAGE_GATE_UP && is_rare(&layout->shape)) {
        finish_rare(job, panel, row, n, sums, scales);
        return;
    }
    for (uint32_t r = 0; r < n; r++) {
        if (stage == KT_STAGE_GATE_UP) {
            float *h =
                (float *)(void *)((uint8_t *)job->out + (row + r) * layout->h_row_size) + panel * TILE_ROWS;
            UNROLL_FOR (unsigned c = 0; c < TILE_ROWS; c += VEC_ROWS)
                vf_store(h + c, vf_glu(&layout->shape, load_sums(sums, scales, r, c),
                                       load_sums(sums, scales, r, c + TILE_ROWS)));
        } else {
            UNROLL_FOR (unsigned c = 0; c < PANEL_ROWS; c += VEC_ROWS)
                vf_store(y + c, load_sums(sums, scales, r, c));
            store_y(job, panel, row + r, y, job->n_rows >= STREAM_ROWS);
        }
    }
}

#endif

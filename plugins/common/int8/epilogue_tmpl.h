/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8/epilogue_tmpl.h - from integer sums to h and y. The last 128 bytes of a panel are a float32 scale
 * for each of its rows.
 *
 * Parameters  those of int8/activations_tmpl.h
 * Wanted      panel_size
 */
#ifndef KT_PLUGINS_COMMON_INT8_EPILOGUE_TMPL_H
#define KT_PLUGINS_COMMON_INT8_EPILOGUE_TMPL_H

#define ACC int32_t
#include "plugins/common/gemm/epilogue_tmpl.h"
#include "plugins/common/gemm/glu.h"
#include "plugins/common/int8/activations_tmpl.h"

/* Bytes of a panel of a stage. */
static inline uint64_t panel_size(const struct kt_layout *layout, enum kt_stage stage);

/* The scales and biases of a panel's 32 rows. */
struct panel_scales {
    _Alignas(64) float scale[PANEL_ROWS];
    _Alignas(64) float bias[PANEL_ROWS];
    bool has_bias;
};

/* Those that stand at `from`. */
static void read_scales(const struct kt_product *job, enum kt_stage stage, uint64_t panel,
                        const uint8_t *from, struct panel_scales *scales)
{
    memcpy(scales->scale, from, SCALES_SIZE);
    scales->has_bias = load_biases(job, stage, panel, scales->bias);
}

/* Those at the end of the panel. */
static inline void load_scales(const struct kt_product *job, enum kt_stage stage, uint64_t panel,
                               struct panel_scales *scales)
{
    uint64_t end = (panel + 1) * panel_size(job->layout, stage);
    read_scales(job, stage, panel, (const uint8_t *)job->packed + end - SCALES_SIZE, scales);
}

/* Columns c.. of 32 in row r: scaled sums, with bias. */
INLINE vf scale_sums(const struct sums *sums, const struct panel_scales *scales, const struct row_meta *meta,
                     uint64_t r, unsigned c)
{
    vi sum = vi_load(sums->sum + r * sums->row_step + c / TILE_ROWS * sums->tile_step + c % TILE_ROWS);
    if (sums->pending)
        sum = vi_sub32(sum, vi_splat32(meta->sum128));
    vf y = vf_mul(vf_mul(vf_splat(&meta->scale), vf_load(scales->scale + c)), vf_from_int(sum));
    return scales->has_bias ? vf_add(y, vf_load(scales->bias + c)) : y;
}

/* Rows of h by a rare activation, and of up alone, whose tiles are two blocks of 16 columns of h. */
static NOINLINE void finish_rare(const struct kt_product *job, uint64_t panel, uint32_t row, uint32_t n,
                                 const struct sums *sums, const struct panel_scales *scales)
{
    const struct kt_shape *shape = &job->layout->shape;
    const bool gated = has_gate(shape, KT_STAGE_GATE_UP);
    uint64_t padded = round_up(job->n_rows, TILE_ROWS), size = job->layout->act_row_size[0];
    uint64_t tiles = stage_tiles(job->layout, KT_STAGE_GATE_UP), block = padded * TILE_ROWS;
    float *h = (float *)job->out + (gated ? 1 : 2) * panel * block + row * TILE_ROWS;
    for (uint32_t r = 0; r < n; r++, h += TILE_ROWS) {
        uint32_t from = job->index ? job->index[row + r] : row + r;
        const struct row_meta *meta = read_meta(job->act, size, tiles, from, TILED);
        for (unsigned c = 0; gated && c < TILE_ROWS; c += VEC_ROWS)
            vf_store(h + c, vf_glu_rare(shape, scale_sums(sums, scales, meta, r, c),
                                        scale_sums(sums, scales, meta, r, c + TILE_ROWS)));
        for (unsigned c = 0; !gated && c < PANEL_ROWS; c += VEC_ROWS)
            vf_store(h + c / TILE_ROWS * block + c % TILE_ROWS,
                     vf_relu2(scale_sums(sums, scales, meta, r, c)));
    }
}

/* n rows from `row` on, of one panel, through the activation into h. */
INLINE void finish_gate_up(const struct kt_product *job, uint64_t panel, uint32_t row, uint32_t n,
                           const struct sums *sums, const struct panel_scales *scales)
{
    const struct kt_layout *layout = job->layout;
    uint64_t padded = round_up(job->n_rows, TILE_ROWS), size = layout->act_row_size[0];
    uint64_t tiles = stage_tiles(layout, KT_STAGE_GATE_UP);
    float *h = (float *)job->out + (panel * padded + row) * TILE_ROWS;
    for (uint32_t r = 0; r < n; r++, h += TILE_ROWS) {
        uint32_t from = job->index ? job->index[row + r] : row + r;
        const struct row_meta *meta = read_meta(job->act, size, tiles, from, TILED);
        UNROLL_FOR (unsigned c = 0; c < TILE_ROWS; c += VEC_ROWS) {
            vf g = scale_sums(sums, scales, meta, r, c);
            vf u = scale_sums(sums, scales, meta, r, c + TILE_ROWS);
            vf_store(h + c, vf_glu(&layout->shape, g, u));
        }
    }
}

INLINE void finish_down(const struct kt_product *job, uint64_t panel, uint32_t row, uint32_t n,
                        const struct sums *sums, const struct panel_scales *scales)
{
    uint64_t size = job->layout->act_row_size[1], tiles = stage_tiles(job->layout, KT_STAGE_DOWN);
    bool stream = job->n_rows >= STREAM_ROWS;
    _Alignas(64) float y[PANEL_ROWS];

    for (uint32_t r = 0; r < n; r++) {
        uint32_t from = job->index ? job->index[row + r] : row + r;
        const struct row_meta *meta = read_meta(job->act, size, tiles, from, TILED);
        UNROLL_FOR (unsigned c = 0; c < PANEL_ROWS; c += VEC_ROWS)
            vf_store(y + c, scale_sums(sums, scales, meta, r, c));
        store_y(job, panel, row + r, y, stream);
    }
}

INLINE void finish(enum kt_stage stage, const struct kt_product *job, uint64_t panel, uint32_t row,
                   uint32_t n, const struct sums *sums, const struct panel_scales *scales)
{
    if (stage == KT_STAGE_GATE_UP && is_rare(&job->layout->shape))
        finish_rare(job, panel, row, n, sums, scales);
    else if (stage == KT_STAGE_GATE_UP)
        finish_gate_up(job, panel, row, n, sums, scales);
    else
        finish_down(job, panel, row, n, sums, scales);
}

#endif

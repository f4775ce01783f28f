/* SPDX-License-Identifier: Apache-2.0 */
/* stages.h - the two products of an expert over panels and rows. Included after product.h. */
#ifndef KT_PLUGINS_LLAMAFILE_STAGES_H
#define KT_PLUGINS_LLAMAFILE_STAGES_H

/* The biases of a panel's rows; rows after the last get 0. */
static void load_bias(const float *bias, uint64_t panel, uint64_t rows, float out[PANEL_ROWS])
{
    memset(out, 0, PANEL_ROWS * sizeof *out);
    if (bias) {
        uint64_t begin = panel * PANEL_ROWS, n = rows - begin;
        memcpy(out, bias + begin, (n < PANEL_ROWS ? n : PANEL_ROWS) * sizeof *out);
    }
}

/* A matrix's panel and what multiplies it. */
struct factor {
    const struct panel_row *kernel;
    uint64_t k;
    uint64_t offset; /* of the part of an activation row that the kernel reads */
    enum kt_stage stage;
};

static struct factor make_factor(const struct kt_layout *layout, enum kt_projection projection)
{
    uint32_t dtype = layout->shape.format[projection].dtype;
    struct factor factor;

    factor.kernel = find_panel(dtype);
    factor.stage = projection == KT_DOWN ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
    factor.k = projection == KT_DOWN ? layout->shape.intermediate_size : layout->shape.hidden_size;
    factor.offset = 0;
    if (dtype == KT_DTYPE_F32 || dtype == KT_DTYPE_F16 || dtype == KT_DTYPE_BF16)
        factor.offset = layout->words[WORD_FLOATS_0 + factor.stage];
    return factor;
}

/* Multiplies as many rows from `row` on as one pass takes; returns how many. */
static unsigned multiply_block(const struct factor *factor, const struct kt_product *job,
                               const uint8_t *panel, uint32_t row, float *tile)
{
    uint32_t left = job->n_rows - row, most = factor->kernel->block;
    unsigned choice = left >= 4 && most >= 4 ? 2 : left >= 2 && most >= 2 ? 1 : 0;
    uint64_t size = job->layout->act_row_size[factor->stage];
    const uint8_t *x[4];

    for (unsigned r = 0; r < 1u << choice; r++) {
        uint32_t index = job->index ? job->index[row + r] : row + r;
        x[r] = (const uint8_t *)job->act + index * size + factor->offset;
    }
    factor->kernel->multiply[choice](panel, factor->k, x, job->layout->words[WORD_AHEAD], tile);
    return 1u << choice;
}

/* The start of what this thread reads next is on its way when it gets there. */
static void prefetch_next(const struct kt_product *job)
{
    const uint8_t *next = job->next;
    for (uint64_t i = 0; next && i < job->next_size && i < 1024; i += 64)
        PREFETCH(next + i);
}

static void multiply_gate_up(void *instance, const struct kt_product *job)
{
    (void)instance;
    const struct kt_layout *layout = job->layout;
    const struct kt_shape *shape = &layout->shape;
    struct factor gate = make_factor(layout, KT_GATE), up = make_factor(layout, KT_UP);
    uint64_t gate_size = layout->words[WORD_PANEL_GATE];
    uint64_t pair_size = gate_size + layout->words[WORD_PANEL_UP];
    _Alignas(64) float tile[4 * PANEL_ROWS], gate_bias[PANEL_ROWS], up_bias[PANEL_ROWS];

    for (uint64_t p = job->panel_begin; p < job->panel_end; p++) {
        const uint8_t *panel = (const uint8_t *)job->packed + p * pair_size;
        uint8_t *h = (uint8_t *)job->out + p * sizeof(float) * PANEL_ROWS;
        load_bias(job->bias[0], p, shape->intermediate_size, gate_bias);
        load_bias(job->bias[1], p, shape->intermediate_size, up_bias);
        if (p + 1 == job->panel_end)
            prefetch_next(job);
        /* h holds the gate's products until the up panel has been multiplied */
        for (uint32_t row = 0, n; row < job->n_rows; row += n) {
            n = multiply_block(&gate, job, panel, row, tile);
            for (uint32_t r = 0; r < n; r++)
                memcpy(h + (row + r) * layout->h_row_size, tile + r * PANEL_ROWS,
                       PANEL_ROWS * sizeof *tile);
        }
        for (uint32_t row = 0, n; row < job->n_rows; row += n) {
            n = multiply_block(&up, job, panel + gate_size, row, tile);
            for (uint32_t i = 0; i < n * PANEL_ROWS; i += VEC_ROWS) {
                float *to = (float *)(void *)(h + (row + i / PANEL_ROWS) * layout->h_row_size) +
                            i % PANEL_ROWS;
                vf g = vf_add(vf_load(to), vf_load(gate_bias + i % PANEL_ROWS));
                vf u = vf_add(vf_load(tile + i), vf_load(up_bias + i % PANEL_ROWS));
                vf_store(to, vf_glu(shape, g, u));
            }
        }
    }
}

static void multiply_down(void *instance, const struct kt_product *job)
{
    (void)instance;
    const struct kt_layout *layout = job->layout;
    uint64_t hidden = layout->shape.hidden_size;
    struct factor down = make_factor(layout, KT_DOWN);
    _Alignas(64) float tile[4 * PANEL_ROWS], bias[PANEL_ROWS];

    for (uint64_t p = job->panel_begin; p < job->panel_end; p++) {
        const uint8_t *panel = (const uint8_t *)job->packed + p * layout->words[WORD_PANEL_DOWN];
        uint64_t left = hidden - p * PANEL_ROWS;
        uint64_t size = (left < PANEL_ROWS ? left : PANEL_ROWS) * sizeof *tile;
        load_bias(job->bias[0], p, hidden, bias);
        if (p + 1 == job->panel_end)
            prefetch_next(job);
        for (uint32_t row = 0, n; row < job->n_rows; row += n) {
            n = multiply_block(&down, job, panel, row, tile);
            for (uint32_t i = 0; i < n * PANEL_ROWS; i += VEC_ROWS)
                vf_store(tile + i, vf_add(vf_load(tile + i), vf_load(bias + i % PANEL_ROWS)));
            for (uint32_t r = 0; r < n; r++) {
                uint32_t index = job->out_index ? job->out_index[row + r] : row + r;
                memcpy((uint8_t *)job->out + (int64_t)index * job->out_stride +
                           p * sizeof *tile * PANEL_ROWS,
                       tile + r * PANEL_ROWS, size);
            }
        }
    }
}

#define LEVEL_OPS(name)                         \
    const struct kt_ops llamafile_ops_##name = { \
        .struct_size = sizeof(struct kt_ops),   \
        .layout = llamafile_layout,             \
        .pack = llamafile_pack,                 \
        .act_pack = pack_activations,           \
        .gate_up = multiply_gate_up,            \
        .down = multiply_down,                  \
        .weight_row = llamafile_weight_row,     \
    }

#endif

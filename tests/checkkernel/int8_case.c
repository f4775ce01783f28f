/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/checkkernel/int8_case.h"
#include "plugins/common/simd/numbers.h"

#include <math.h>
#include <stdlib.h>

float model_quantize(const float *x, uint64_t k, int *q)
{
    float max = 0.0f;
    bool finite = true;
    for (uint64_t i = 0; i < k; i++) {
        finite = finite && isfinite(x[i]);
        max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    }
    for (uint64_t i = 0; i < k; i++)
        q[i] = finite && max >= 0x1p-118f ? (int)rintf(x[i] * (127.0f / max)) : 0;
    return !finite ? NAN : max >= 0x1p-118f ? max / 127.0f : 0.0f;
}

/* ---- weights ---- */

static uint32_t random_state = 1;

float random_number(void)
{
    random_state = random_state * UINT32_C(1664525) + UINT32_C(1013904223);
    float x = (float)(random_state >> 8) * 0x1p-24f - 0.5f;
    return x * (random_state >> 4 & 7 ? 1.0f : 8.0f);
}

void *take(size_t size)
{
    void *memory = calloc(size ? size : 1, 1);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

float round_to(uint32_t dtype, float x, void *to)
{
    write_number(to, dtype, x);
    return read_number(to, dtype);
}

/* `gap` elements between a row's elements: not a plain row, so the core is asked for it. */
static void make_matrix(struct matrix *matrix, uint64_t rows, uint64_t cols, uint32_t dtype, unsigned gap,
                        bool bias)
{
    size_t element = dtype == KT_DTYPE_F32 ? 4 : 2, step = element * (1 + gap);
    *matrix = (struct matrix){.rows = rows, .cols = cols};
    matrix->value = take(rows * cols * sizeof(float));
    matrix->q = take(rows * cols * sizeof(int));
    matrix->scale = take(rows * sizeof(float));
    matrix->source = guard_take(rows * cols * step);
    for (uint64_t i = 0; i < rows * cols; i++)
        matrix->value[i] = round_to(dtype, random_number() / 4, (char *)matrix->source + i * step);
    if (bias) {
        matrix->bias = guard_take(rows * sizeof(float));
        for (uint64_t i = 0; i < rows; i++)
            matrix->bias[i] = random_number();
    }
    matrix->view = (struct kt_view)KT_VIEW_INIT;
    matrix->view.dtype = dtype;
    matrix->view.data = matrix->source;
    matrix->view.size = rows * cols * step;
    matrix->view.rows = rows;
    matrix->view.cols = cols;
    matrix->view.row_stride = (int64_t)(cols * step);
    matrix->view.block_stride = (int64_t)step;
}

void make_expert(struct expert *expert, const struct check_shape *shape)
{
    *expert = (struct expert){.layout = {.shape = shape->shape}, .group_size = shape->group_size};
    for (int p = 0; p < 3; p++) {
        uint64_t hidden = shape->shape.hidden_size, other = shape->shape.intermediate_size;
        make_matrix(&expert->matrix[p], p == KT_DOWN ? hidden : other, p == KT_DOWN ? other : hidden,
                    shape->dtype[p], shape->gap, shape->bias);
        expert->layout.shape.format[p].dtype = shape->dtype[p];
    }
    expert->source = (struct kt_expert){.gate = expert->matrix[KT_GATE].view,
                                        .up = expert->matrix[KT_UP].view,
                                        .down = expert->matrix[KT_DOWN].view};
}

void free_expert(struct expert *expert)
{
    for (int p = 0; p < 3; p++) {
        free(expert->matrix[p].value);
        free(expert->matrix[p].q);
        free(expert->matrix[p].scale);
        guard_give(expert->matrix[p].source);
        guard_give(expert->matrix[p].bias);
    }
    free(expert->packed[0]);
    free(expert->packed[1]);
}

/* ---- rows ---- */

/* Rows in another order than the tokens, some of them twice; outputs in a third one. */
static void make_indices(uint32_t n_tokens, uint32_t n, uint32_t *index, uint32_t *out_index)
{
    for (uint32_t r = 0; r < n; r++) {
        index[r] = (r * 7 + 3) % n_tokens;
        out_index[r] = n - 1 - r;
    }
}

void make_batch(struct batch *batch, uint64_t k, uint32_t dtype, uint32_t n)
{
    size_t element = dtype == KT_DTYPE_F32 ? 4 : 2;
    batch->n = n;
    batch->n_tokens = n < 4 ? n : n - n / 4;
    batch->source = guard_take(batch->n_tokens * k * element);
    batch->x = take(batch->n_tokens * k * sizeof(float));
    for (uint64_t i = 0; i < batch->n_tokens * k; i++)
        batch->x[i] = round_to(dtype, random_number(), (char *)batch->source + i * element);
    batch->index = take(n * sizeof(uint32_t));
    batch->out_index = take(n * sizeof(uint32_t));
    make_indices(batch->n_tokens, n, batch->index, batch->out_index);
}

void free_batch(struct batch *batch)
{
    guard_give(batch->source);
    free(batch->x);
    free(batch->index);
    free(batch->out_index);
}

/* ---- a level at work ---- */

/* Levels pack the same bytes, whatever was in memory before; opaque ones have their own. */
static void compare_packed(const struct run *run, struct expert *expert)
{
    if (run->level->opaque)
        return;
    if (!expert->packed[0])
        model_weights(expert, &run->layout, run->packed);
    for (int stage = 0; stage < 2; stage++) {
        uint64_t size = run->layout.weight_size[stage];
        if (!expert->packed[stage]) {
            expert->packed[stage] = take(size);
            memcpy(expert->packed[stage], run->packed[stage], size);
        }
        CHECK_THAT(memcmp(expert->packed[stage], run->packed[stage], size) == 0,
                   "%s packs stage %d in another way than %s", run->level->name, stage, check_levels[0].name);
    }
}

uint64_t count_panels(const struct kt_layout *layout, enum kt_stage stage)
{
    uint64_t rows = stage == KT_STAGE_DOWN ? layout->shape.hidden_size : layout->shape.intermediate_size;
    return (rows + layout->panel_rows[stage] - 1) / layout->panel_rows[stage];
}

void start_run(struct run *run, const struct check_level *level, struct expert *expert, uint64_t l2_size,
               uint32_t y_dtype)
{
    struct kt_error error = {KT_OK, ""};
    *run = (struct run){.level = level, .layout = expert->layout};
    struct instance base = {.host = &check_host, .l2_size = l2_size, .prefetch = 1024, .y_dtype = y_dtype};
    memcpy(&run->instance, &base, sizeof base);
    model_open(&run->instance, expert);
    enum kt_status status = level->ops->layout(&run->instance, &run->layout, &error);
    CHECK_THAT(status == KT_OK, "%s: %s", level->name, error.message);
    run->scratch = guard_take(run->layout.scratch_size);
    for (int stage = 0; stage < 2; stage++) {
        uint64_t panels = count_panels(&run->layout, (enum kt_stage)stage);
        run->packed[stage] = guard_take(run->layout.weight_size[stage]);
        memset(run->packed[stage], (int)(level - check_levels), run->layout.weight_size[stage]);
        for (uint64_t part = 0; part < 2; part++) { /* in two jobs, the second first */
            struct kt_pack job = {.layout = &run->layout,
                                  .stage = (enum kt_stage)stage,
                                  .source = &expert->source,
                                  .panel_begin = part ? 0 : panels / 2,
                                  .panel_end = part ? panels / 2 : panels,
                                  .packed = run->packed[stage]};
            status = level->ops->pack(&run->instance, &job, &error);
            CHECK_THAT(status == KT_OK, "%s: %s", level->name, error.message);
        }
    }
    compare_packed(run, expert);
    if (level->ops->thread_enter)
        level->ops->thread_enter(&run->instance);
}

void end_run(struct run *run)
{
    if (run->level->ops->thread_leave)
        run->level->ops->thread_leave(&run->instance);
    guard_give(run->packed[0]);
    guard_give(run->packed[1]);
    guard_give(run->scratch);
}

uint64_t pad_rows(const struct run *run, uint32_t n)
{
    return round_up(n, run->layout.row_unit);
}

void run_ranges(struct run *run, struct kt_product *job, enum kt_stage stage, uint64_t n)
{
    uint64_t cut[4] = {0, n / 3, n - n / 3, n};
    for (int i = 2; i >= 0; i--) {
        job->panel_begin = cut[i];
        job->panel_end = cut[i + 1];
        job->next = i == 2 ? NULL : run->packed[0];
        job->next_size = run->layout.weight_size[0];
        if (cut[i] == cut[i + 1])
            continue;
        if (stage == KT_STAGE_GATE_UP)
            run->level->ops->gate_up(&run->instance, job);
        else
            run->level->ops->down(&run->instance, job);
    }
}

float *run_gate_up(struct run *run, const struct expert *expert, const void *x, uint32_t dtype,
                   uint32_t n_tokens, const uint32_t *index, uint32_t n)
{
    const struct kt_layout *layout = &run->layout;
    const struct kt_ops *ops = run->level->ops;
    uint64_t size = layout->act_row_size[0], hidden = layout->shape.hidden_size;
    uint8_t *act = guard_take(n_tokens * size), *gathered = guard_take(pad_rows(run, n) * size);
    float *h = guard_take(pad_rows(run, n) * layout->h_row_size);
    struct kt_error error = {KT_OK, ""};
    struct kt_act_pack pack = {.layout = layout,
                               .source_dtype = dtype,
                               .n_rows = n_tokens,
                               .source = x,
                               .source_stride = (int64_t)(hidden * (dtype == KT_DTYPE_F32 ? 4 : 2)),
                               .packed = act,
                               .error = &error};
    for (uint32_t part = 0; part < 2; part++) {
        pack.row_begin = part ? 0 : n_tokens / 2;
        pack.row_end = part ? n_tokens / 2 : n_tokens;
        ops->act_pack(&run->instance, &pack);
    }
    if (ops->gather) {
        struct kt_gather gather = {layout, act, index, n, gathered, &error};
        ops->gather(&run->instance, &gather);
    }
    struct kt_product job = {.layout = layout,
                             .packed = run->packed[0],
                             .n_rows = n,
                             .act = ops->gather ? gathered : act,
                             .index = ops->gather ? NULL : index,
                             .out = h,
                             .out_stride = (int64_t)layout->h_row_size,
                             .bias = {expert->matrix[KT_GATE].bias, expert->matrix[KT_UP].bias},
                             .scratch = run->scratch,
                             .error = &error};
    run_ranges(run, &job, KT_STAGE_GATE_UP, count_panels(layout, KT_STAGE_GATE_UP));
    ck_assert_msg(error.status == KT_OK, "%s", error.message);
    guard_give(act);
    guard_give(gathered);
    return h;
}

void run_down(struct run *run, const struct expert *expert, const float *h, uint32_t n,
              const uint32_t *out_index, void *y, uint64_t stride)
{
    const struct kt_layout *layout = &run->layout;
    void *act = guard_take(pad_rows(run, n) * layout->act_row_size[1]);
    struct kt_error error = {KT_OK, ""};
    struct kt_act_pack pack = {.layout = layout,
                               .stage = KT_STAGE_DOWN,
                               .n_rows = n,
                               .row_end = n,
                               .source = h,
                               .packed = act,
                               .error = &error};
    run->level->ops->act_pack(&run->instance, &pack);
    struct kt_product job = {.layout = layout,
                             .packed = run->packed[1],
                             .n_rows = n,
                             .act = act,
                             .out = y,
                             .out_index = out_index,
                             .out_stride = (int64_t)stride,
                             .bias = {expert->matrix[KT_DOWN].bias, NULL},
                             .scratch = run->scratch,
                             .error = &error};
    run_ranges(run, &job, KT_STAGE_DOWN, count_panels(layout, KT_STAGE_DOWN));
    ck_assert_msg(error.status == KT_OK, "%s", error.message);
    guard_give(act);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* source.c - formats and sizes of a case, and its weights. */
#include "tests/checkkernel/check.h"

#include <kt/kt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t count_dtypes(const struct model *model)
{
    uint32_t n = 0;
    while (model->dtypes[n])
        n++;
    return n;
}

/* Formats and sizes of a case: `dtype` everywhere, or for gate, up or down with others beside it. */
static void make_plain_shape(uint32_t dtype, unsigned kind, const struct model *model, uint64_t *state,
                             struct kt_shape *shape)
{
    uint32_t other = model->dtypes[random_below(state, count_dtypes(model))];
    uint32_t plain = model->dtypes[random_below(state, 3)];
    uint32_t format[4][3] = {{dtype, dtype, dtype},
                             {dtype, other, plain},
                             {other, dtype, plain},
                             {plain, plain, dtype}};
    for (int p = 0; p < 3; p++)
        shape->format[p].dtype = format[kind % 4][p];
    shape->hidden_size = pick_size(state, shape->format[KT_GATE].dtype, shape->format[KT_UP].dtype);
    shape->intermediate_size = pick_size(state, shape->format[KT_DOWN].dtype, KT_DTYPE_F32);
}

/* One matrix in three has a scale beside it for all of it. */
static void add_factors(uint64_t *state, struct kt_shape *shape)
{
    static const uint32_t types[] = {KT_DTYPE_F32, KT_DTYPE_F16, KT_DTYPE_BF16};
    for (int p = 0; p < 3; p++)
        if (random_below(state, 3) == 0) {
            shape->format[p].scale_dtype = types[random_below(state, 3)];
            shape->format[p].group_rows = shape->format[p].group_cols = UINT32_MAX;
        }
}

void make_shape(uint32_t dtype, unsigned kind, const struct model *model, uint64_t *state,
                struct kt_shape *shape)
{
    memset(shape, 0, sizeof *shape);
    shape->n_experts = 4;
    shape->top_k = 2;
    if (model->scaled)
        make_scaled_shape(dtype, kind, state, shape);
    else
        make_plain_shape(dtype, kind, model, state, shape);
    if (model->factors)
        add_factors(state, shape);
    shape->limit = 1.0f + (float)random_below(state, 8);
    shape->alpha = 1.702f;
    shape->has_bias = random_below(state, 8);
    set_activation(shape, pick_activation(random_below(state, N_ACTIVATIONS)));
}

void make_linear_shape(uint32_t dtype, unsigned kind, const struct model *model, uint64_t *state,
                       struct kt_shape *shape)
{
    make_shape(dtype, kind, model, state, shape);
    if (!model->scaled) {
        shape->format[KT_DOWN].dtype = dtype;
        shape->hidden_size = pick_size(state, KT_DTYPE_F32, KT_DTYPE_F32);
        shape->intermediate_size = pick_size(state, dtype, KT_DTYPE_F32);
    }
    make_linear(shape);
}

void make_large(struct kt_shape *shape, bool is_linear)
{
    uint64_t *k = is_linear ? &shape->intermediate_size : &shape->hidden_size;
    for (; *k <= 1024; *k *= 2) {
        for (int p = is_linear ? KT_DOWN : KT_GATE; p <= (is_linear ? KT_DOWN : KT_UP); p++)
            if (shape->format[p].group_cols >= *k)
                shape->format[p].group_cols *= 2;
    }
    while (is_linear && shape->hidden_size <= 1400)
        shape->hidden_size *= 2;
}

/* Weights of 1 and inputs of 2, with both signs. */
static void make_extreme(struct check *check)
{
    for (int p = (int)check_first_projection(check); p <= KT_DOWN; p++) {
        const struct kt_view *view = check_view(check, (enum kt_projection)p);
        uint8_t *data = (uint8_t *)(uintptr_t)view->data;
        for (uint64_t r = 0; r < view->rows; r++)
            for (uint64_t c = 0; c < view->cols; c++)
                write_number(data + (int64_t)r * view->row_stride + (int64_t)c * view->block_stride,
                             view->dtype, r % 3 == 1 || (r % 3 == 2 && c % 2) ? -1.0f : 1.0f);
    }
}

/* A number that is none in one weight: then so is what that weight has a part in. */
static void make_infinite(struct check *check)
{
    const struct kt_view *view = check_view(check, KT_DOWN);
    uint64_t row = random_below(&check->random, (uint32_t)view->rows);
    uint64_t column = random_below(&check->random, (uint32_t)view->cols);
    write_number((uint8_t *)(uintptr_t)view->data + (int64_t)row * view->row_stride +
                     (int64_t)column * view->block_stride,
                 view->dtype, INFINITY);
}

void make_source(struct check *check, unsigned kind)
{
    if (!source_create(&check->layout.shape, &check->random, &check->source))
        abort();
    if (check->extreme)
        make_extreme(check);
    else if (check->model->code_row && kind % 8 == 5)
        make_infinite(check);
}

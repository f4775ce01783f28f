/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8_linear.c - a linear of an expert's down projection is packed as that is, its plain rows as those of h,
 * and gives the same bits. So what check_int8.c says of y holds for linears.
 */
#include "tests/checkkernel/int8_case.h"

#include <math.h>
#include <stdlib.h>

/* The run with a layout of the linear, and without the rest. */
static struct run make_linear(const struct run *run, const struct expert *expert)
{
    struct run linear = {.level = run->level, .instance = run->instance, .scratch = run->scratch};
    struct kt_layout *layout = &linear.layout;
    struct kt_shape *shape = &layout->shape;
    struct kt_error error = {KT_OK, ""};
    shape->n_experts = shape->top_k = 1;
    shape->activation = KT_ACTIVATION_NONE;
    shape->hidden_size = run->layout.shape.hidden_size;
    shape->intermediate_size = run->layout.shape.intermediate_size;
    shape->format[KT_DOWN] = expert->layout.shape.format[KT_DOWN];
    enum kt_status status = run->level->ops->layout(&linear.instance, layout, &error);
    CHECK_THAT(status == KT_OK, "%s: %s", run->level->name, error.message);
    CHECK_THAT(!layout->panel_rows[0] && !layout->weight_size[0] && !layout->nominal_size[0] &&
                   !layout->act_row_size[0] && !layout->h_row_size,
               "%s: a linear has sizes of stage 0", run->level->name);
    CHECK_THAT(layout->panel_rows[1] == run->layout.panel_rows[1] &&
                   layout->weight_size[1] == run->layout.weight_size[1] &&
                   layout->nominal_size[1] == run->layout.nominal_size[1] &&
                   layout->act_row_size[1] == run->layout.act_row_size[1] &&
                   layout->row_unit == run->layout.row_unit &&
                   layout->scratch_size <= run->layout.scratch_size &&
                   strcmp(layout->form, run->layout.form) == 0,
               "%s: a linear is laid out otherwise than a down projection", run->level->name);
    return linear;
}

void check_linear_weights(struct run *run, const struct expert *expert)
{
    struct run linear = make_linear(run, expert);
    const struct kt_layout *layout = &linear.layout;
    struct kt_expert source = {.down = expert->source.down};
    struct kt_error error = {KT_OK, ""};
    void *packed = guard_take(layout->weight_size[1]);
    struct kt_pack job = {.layout = layout,
                          .stage = KT_STAGE_DOWN,
                          .source = &source,
                          .panel_end = count_panels(layout, KT_STAGE_DOWN),
                          .packed = packed};
    enum kt_status status = run->level->ops->pack(&linear.instance, &job, &error);
    CHECK_THAT(status == KT_OK, "%s: %s", run->level->name, error.message);
    CHECK_THAT(memcmp(packed, run->packed[1], layout->weight_size[1]) == 0,
               "%s: a linear is packed otherwise than a down projection", run->level->name);
    guard_give(packed);
}

/* Plain rows of so many numbers, rounded to the format, with gaps; x gets what they are. */
static void *make_rows(uint32_t dtype, uint32_t n, uint64_t k, float *x, int64_t *stride)
{
    uint64_t element = dtype == KT_DTYPE_F32 ? 4 : 2;
    *stride = (int64_t)((k + 3) * element);
    char *rows = guard_take((n - 1) * (uint64_t)*stride + k * element);
    for (uint32_t r = 0; r < n; r++)
        for (uint64_t i = 0; i < k; i++)
            x[r * k + i] = round_to(dtype, x[r * k + i], rows + r * *stride + (int64_t)(i * element));
    return rows;
}

/* Packs rows as a linear's, two units of rows in each job, the last one first. */
static void *pack_plain(struct run *linear, uint32_t dtype, uint32_t n, float *x)
{
    const struct kt_layout *layout = &linear->layout;
    struct kt_error error = {KT_OK, ""};
    uint32_t step = 2 * layout->row_unit;
    void *act = guard_take(pad_rows(linear, n) * layout->act_row_size[1]);
    struct kt_act_pack job = {.layout = layout,
                              .stage = KT_STAGE_DOWN,
                              .source_dtype = dtype,
                              .n_rows = n,
                              .row_end = n,
                              .packed = act,
                              .error = &error};
    void *rows = make_rows(dtype, n, layout->shape.intermediate_size, x, &job.source_stride);
    job.source = rows;
    for (; job.row_end > 0; job.row_end = job.row_begin) {
        job.row_begin = (job.row_end - 1) / step * step;
        linear->level->ops->act_pack(&linear->instance, &job);
    }
    ck_assert_msg(error.status == KT_OK, "%s", error.message);
    guard_give(rows);
    return act;
}

/* The rows of BF16 or F16, whose numbers float32 has as well. */
static void check_format(struct run *linear, uint32_t dtype, uint32_t n, float *x)
{
    uint64_t size = pad_rows(linear, n) * linear->layout.act_row_size[1];
    void *act = pack_plain(linear, dtype, n, x), *wide = pack_plain(linear, KT_DTYPE_F32, n, x);
    CHECK_THAT(memcmp(act, wide, size) == 0,
               "%s: %u rows of type %u are packed otherwise than the same float32", linear->level->name, n,
               dtype);
    guard_give(act);
    guard_give(wide);
}

void check_linear_rows(struct run *run, const struct expert *expert, const float *h, uint32_t n,
                       const uint32_t *out_index, const void *y, uint64_t stride)
{
    struct run linear = make_linear(run, expert);
    const struct kt_layout *layout = &linear.layout;
    uint64_t k = layout->shape.intermediate_size, size = pad_rows(run, n) * layout->act_row_size[1];
    float *x = take(n * k * sizeof(float));
    struct kt_error error = {KT_OK, ""};
    for (uint32_t r = 0; r < n; r++)
        for (uint64_t i = 0; i < k; i++)
            x[r * k + i] = read_h(h, n, r, i);
    void *act = pack_plain(&linear, KT_DTYPE_F32, n, x), *wanted = guard_take(size);
    struct kt_act_pack pack = {.layout = &run->layout,
                               .stage = KT_STAGE_DOWN,
                               .n_rows = n,
                               .row_end = n,
                               .source = h,
                               .packed = wanted,
                               .error = &error};
    run->level->ops->act_pack(&run->instance, &pack);
    CHECK_THAT(memcmp(act, wanted, size) == 0, "%s: %u plain rows are packed otherwise than h",
               run->level->name, n);
    void *out = guard_take(n * stride);
    struct kt_product job = {.layout = layout,
                             .packed = run->packed[1],
                             .n_rows = n,
                             .act = act,
                             .out = out,
                             .out_index = out_index,
                             .out_stride = (int64_t)stride,
                             .bias = {expert->matrix[KT_DOWN].bias, NULL},
                             .scratch = run->scratch,
                             .error = &error};
    run_ranges(&linear, &job, KT_STAGE_DOWN, count_panels(layout, KT_STAGE_DOWN));
    ck_assert_msg(error.status == KT_OK, "%s", error.message);
    CHECK_THAT(memcmp(out, y, n * stride) == 0, "%s: %u rows of a linear are not an expert's y",
               run->level->name, n);
    for (uint64_t i = 0; i < n * k; i++)
        x[i] = isfinite(x[i]) ? x[i] : 0.0f;
    check_format(&linear, KT_DTYPE_BF16, n, x);
    check_format(&linear, KT_DTYPE_F16, n, x);
    guard_give(out);
    guard_give(act);
    guard_give(wanted);
    free(x);
}

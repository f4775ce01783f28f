/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_int8.c - every level of amx_int8 against a scalar model of its number format.
 *
 * Levels that this CPU has run as they are; those above it run from the same source, with SIMDe for
 * the vectors and tests/checkkernel/amx_model.h for the tiles. Every buffer ends at a page that must
 * not be touched.
 */
#include "plugins/amx_int8/amx_int8.h"
#include "plugins/common/half.h"
#include "tests/checkkernel/int8_guard.h"
#include "tests/checkkernel/int8_levels.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

/* ---- the model: what amx_int8.h says of numbers, in the plainest words ---- */

/* One row of weights or activations. */
static float model_quantize(const float *x, uint64_t k, int *q)
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

/* The product of a row of activations and one of weights, and whether 32 bits held it. */
static float model_product(const int *x, float scale_x, const int *w, float scale_w, uint64_t k)
{
    int64_t sum = 0;

    for (uint64_t i = 0; i < k; i++)
        sum += x[i] * w[i];
    ck_assert_msg(sum == (int32_t)sum, "a sum of %lld", (long long)sum);
    return (scale_x * scale_w) * (float)sum;
}

static double model_activation(const struct kt_shape *shape, double g, double u)
{
    double limit = (double)shape->limit;
    if (shape->activation != KT_ACTIVATION_SILU) {
        g = g > limit ? limit : g;
        u = u > limit ? limit : u < -limit ? -limit : u;
    }
    if (shape->activation == KT_ACTIVATION_SWIGLUOAI)
        return g / (1 + exp(-(double)shape->alpha * g)) * (u + 1);
    return g / (1 + exp(-g)) * u;
}

/* ---- one case: a shape, its weights packed by every level, and rows ---- */

struct matrix {
    uint64_t rows, cols;
    float *value;   /* what the source holds, exactly */
    void *source;   /* in the view's form */
    float *bias;
    int *q;         /* the model's */
    float *scale;
    struct kt_view view;
};

struct expert {
    struct kt_layout layout;
    struct matrix matrix[3];
    struct kt_expert source;
};

static uint32_t random_state = 1;

static float random_number(void)
{
    random_state = random_state * UINT32_C(1664525) + UINT32_C(1013904223);
    float x = (float)(random_state >> 8) * 0x1p-24f - 0.5f;
    return x * (random_state >> 4 & 7 ? 1.0f : 8.0f);
}

static void *take(size_t size)
{
    void *memory = calloc(size ? size : 1, 1);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

/* A float16 of x, at a distance of 2^-10 from the next: exact, and simple to make. */
static uint16_t make_half(float x)
{
    int whole = (int)(x * 1024.0f), size = whole < 0 ? -whole : whole, exponent = 0;

    size = size > 2047 ? 2047 : size;
    while (size >> (exponent + 1))
        exponent++;
    if (size == 0)
        return 0;
    return (uint16_t)((whole < 0 ? 0x8000 : 0) | (exponent + 5) << 10 |
                      (size << (10 - exponent) & 0x3ff));
}

/* x as a number of the format, which it gives as float32 too. */
static float round_to(uint32_t dtype, float x, void *to)
{
    uint16_t half = dtype == KT_DTYPE_F16 ? make_half(x) : (uint16_t)(float_to_bits(x) >> 16);

    if (dtype == KT_DTYPE_F32) {
        memcpy(to, &x, 4);
        return x;
    }
    memcpy(to, &half, 2);
    return dtype == KT_DTYPE_F16 ? half_to_float(half) : bf16_to_float(half);
}

/* `gap` elements between a row's elements: not a plain row, so the core is asked for it. */
static void make_matrix(struct matrix *matrix, uint64_t rows, uint64_t cols, uint32_t dtype,
                        unsigned gap, bool bias)
{
    size_t element = dtype == KT_DTYPE_F32 ? 4 : 2, step = element * (1 + gap);

    *matrix = (struct matrix){ .rows = rows, .cols = cols };
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

static void quantize_matrix(struct matrix *matrix)
{
    for (uint64_t r = 0; r < matrix->rows; r++)
        matrix->scale[r] = model_quantize(matrix->value + r * matrix->cols, matrix->cols,
                                          matrix->q + r * matrix->cols);
}

static void make_expert(struct expert *expert, const struct check_shape *shape)
{
    *expert = (struct expert){ .layout = { .shape = shape->shape } };
    for (int p = 0; p < 3; p++) {
        uint64_t hidden = shape->shape.hidden_size, other = shape->shape.intermediate_size;
        make_matrix(&expert->matrix[p], p == KT_DOWN ? hidden : other, p == KT_DOWN ? other : hidden,
                    shape->dtype[p], shape->gap, shape->bias);
        quantize_matrix(&expert->matrix[p]);
        expert->layout.shape.format[p].dtype = shape->dtype[p];
    }
    expert->source = (struct kt_expert){ .gate = expert->matrix[KT_GATE].view,
                                         .up = expert->matrix[KT_UP].view,
                                         .down = expert->matrix[KT_DOWN].view };
}

static void free_expert(struct expert *expert)
{
    for (int p = 0; p < 3; p++) {
        free(expert->matrix[p].value);
        free(expert->matrix[p].q);
        free(expert->matrix[p].scale);
        guard_free(expert->matrix[p].source);
        guard_free(expert->matrix[p].bias);
    }
}

/* ---- a level at work ---- */

struct run {
    const struct check_level *level;
    struct instance8 instance;
    struct kt_layout layout;
    void *packed[2];
    void *scratch;
};

static void start_run(struct run *run, const struct check_level *level, const struct expert *expert,
                      uint64_t l2_size, uint32_t y_dtype)
{
    struct kt_error error = { KT_OK, "" };

    *run = (struct run){ .level = level, .layout = expert->layout };
    run->instance = (struct instance8){ &check_host, l2_size, y_dtype, 0 };
    enum kt_status status = level->ops->layout(&run->instance, &run->layout, &error);
    ck_assert_msg(status == KT_OK, "%s: %s", level->name, error.message);
    run->scratch = guard_take(run->layout.scratch_size);
    for (int stage = 0; stage < 2; stage++) {
        uint64_t rows = stage ? run->layout.shape.hidden_size : run->layout.shape.intermediate_size;
        uint64_t panels = (rows + run->layout.panel_rows[stage] - 1) / run->layout.panel_rows[stage];
        run->packed[stage] = guard_take(run->layout.weight_size[stage]);
        for (uint64_t part = 0; part < 2; part++) { /* in two jobs, the second first */
            struct kt_pack job = { .layout = &run->layout,
                                   .stage = (enum kt_stage)stage,
                                   .source = &expert->source,
                                   .panel_begin = part ? 0 : panels / 2,
                                   .panel_end = part ? panels / 2 : panels,
                                   .packed = run->packed[stage] };
            status = level->ops->pack(&run->instance, &job, &error);
            ck_assert_msg(status == KT_OK, "%s: %s", level->name, error.message);
        }
    }
    if (level->ops->thread_enter)
        level->ops->thread_enter(&run->instance);
}

static void end_run(struct run *run)
{
    if (run->level->ops->thread_leave)
        run->level->ops->thread_leave(&run->instance);
    guard_free(run->packed[0]);
    guard_free(run->packed[1]);
    guard_free(run->scratch);
}

static uint64_t pad_rows(const struct run *run, uint32_t n)
{
    return round_up(n, run->layout.row_unit);
}

/* Cuts panels 0..n in up to three ranges and multiplies them, the last first. */
static void run_ranges(struct run *run, struct kt_product *job, enum kt_stage stage, uint64_t n)
{
    uint64_t cut[4] = { 0, n / 3, n - n / 3, n };

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

/* h of rows index[0..n-1] of x, guarded. */
static float *run_gate_up(struct run *run, const struct expert *expert, const void *x, uint32_t dtype,
                          uint32_t n_tokens, const uint32_t *index, uint32_t n)
{
    const struct kt_layout *layout = &run->layout;
    const struct kt_ops *ops = run->level->ops;
    uint64_t size = layout->act_row_size[0], hidden = layout->shape.hidden_size;
    uint8_t *act = guard_take(n_tokens * size), *gathered = guard_take(pad_rows(run, n) * size);
    float *h = guard_take(pad_rows(run, n) * layout->h_row_size);
    struct kt_act_pack pack = { .layout = layout,
                                .source_dtype = dtype,
                                .n_rows = n_tokens,
                                .source = x,
                                .source_stride = (int64_t)(hidden * (dtype == KT_DTYPE_F32 ? 4 : 2)),
                                .packed = act };

    for (uint32_t part = 0; part < 2; part++) {
        pack.row_begin = part ? 0 : n_tokens / 2;
        pack.row_end = part ? n_tokens / 2 : n_tokens;
        ops->act_pack(&run->instance, &pack);
    }
    if (ops->gather) {
        struct kt_gather gather = { layout, act, index, n, gathered };
        ops->gather(&run->instance, &gather);
    }
    struct kt_product job = { .layout = layout,
                              .packed = run->packed[0],
                              .n_rows = n,
                              .act = ops->gather ? gathered : act,
                              .index = ops->gather ? NULL : index,
                              .out = h,
                              .out_stride = (int64_t)layout->h_row_size,
                              .bias = { expert->matrix[KT_GATE].bias, expert->matrix[KT_UP].bias },
                              .scratch = run->scratch };
    run_ranges(run, &job, KT_STAGE_GATE_UP, round_up(layout->shape.intermediate_size, 16) / 16);
    guard_free(act);
    guard_free(gathered);
    return h;
}

/* y of h, row r at out_index[r]; y has `stride` bytes a row. */
static void run_down(struct run *run, const struct expert *expert, const float *h, uint32_t n,
                     const uint32_t *out_index, void *y, uint64_t stride)
{
    const struct kt_layout *layout = &run->layout;
    void *act = guard_take(pad_rows(run, n) * layout->act_row_size[1]);
    struct kt_act_pack pack = { .layout = layout, .stage = KT_STAGE_DOWN, .n_rows = n,
                                .row_end = n, .source = h, .packed = act };

    run->level->ops->act_pack(&run->instance, &pack);
    struct kt_product job = { .layout = layout,
                              .packed = run->packed[1],
                              .n_rows = n,
                              .act = act,
                              .out = y,
                              .out_index = out_index,
                              .out_stride = (int64_t)stride,
                              .bias = { expert->matrix[KT_DOWN].bias, NULL },
                              .scratch = run->scratch };
    run_ranges(run, &job, KT_STAGE_DOWN, round_up(layout->shape.hidden_size, 32) / 32);
    guard_free(act);
}

/* h of row r, as amx_int8.h lays it out. */
static float read_h(const float *h, uint32_t n, uint32_t r, uint64_t i)
{
    return h[(i / 16 * round_up(n, 16) + r) * 16 + i % 16];
}

/* ---- what is checked ---- */

static void check_weights(struct run *run, const struct expert *expert)
{
    for (int p = 0; p < 3; p++) {
        const struct matrix *matrix = &expert->matrix[p];
        float *row = take(matrix->cols * sizeof(float));
        for (uint64_t r = 0; r < matrix->rows; r++) {
            enum kt_status status = run->level->ops->weight_row(
                &run->instance, &run->layout, run->packed[p == KT_DOWN], &expert->source,
                (enum kt_projection)p, r, row, NULL);
            ck_assert_int_eq(status, KT_OK);
            for (uint64_t c = 0; c < matrix->cols; c++) {
                float want = matrix->scale[r] * (float)matrix->q[r * matrix->cols + c];
                ck_assert_msg(row[c] == want || (isnan(row[c]) && isnan(want)),
                              "%s: projection %d, row %llu, column %llu is %a, not %a",
                              run->level->name, p, (unsigned long long)r, (unsigned long long)c,
                              (double)row[c], (double)want);
            }
        }
        ck_assert_int_eq(run->level->ops->weight_row(&run->instance, &run->layout,
                                                     run->packed[p == KT_DOWN], &expert->source,
                                                     (enum kt_projection)p, matrix->rows, row, NULL),
                         KT_E_RANGE);
        free(row);
    }
}

/* The model's h, in double after the integers. */
static void check_h(const struct run *run, const struct expert *expert, const float *x,
                    const uint32_t *index, uint32_t n, const float *h)
{
    const struct kt_shape *shape = &run->layout.shape;
    const struct matrix *gate = &expert->matrix[KT_GATE], *up = &expert->matrix[KT_UP];
    uint64_t k = shape->hidden_size;
    int *q = take(k * sizeof(int));

    for (uint32_t r = 0; r < n; r++) {
        float scale = model_quantize(x + index[r] * k, k, q);
        for (uint64_t i = 0; i < shape->intermediate_size; i++) {
            float g = model_product(q, scale, gate->q + i * k, gate->scale[i], k);
            float u = model_product(q, scale, up->q + i * k, up->scale[i], k);
            g += gate->bias ? gate->bias[i] : 0.0f;
            u += up->bias ? up->bias[i] : 0.0f;
            double want = model_activation(shape, (double)g, (double)u);
            double have = (double)read_h(h, n, r, i);
            ck_assert_msg((isnan(want) && isnan(have)) ||
                              fabs(have - want) <= 1e-6 * (fabs(want) + 1e-30),
                          "%s: %llu x %llu, %u rows: h of row %u, column %llu is %.9g, not %.9g",
                          run->level->name, (unsigned long long)k,
                          (unsigned long long)shape->intermediate_size, n, r, (unsigned long long)i,
                          have, want);
        }
    }
    free(q);
}

/* The model's y of the level's own h: to the bit. */
static void check_y(const struct run *run, const struct expert *expert, const float *h, uint32_t n,
                    const uint32_t *out_index, const float *y, uint64_t stride)
{
    const struct kt_shape *shape = &run->layout.shape;
    const struct matrix *down = &expert->matrix[KT_DOWN];
    uint64_t k = shape->intermediate_size;
    float *row = take(k * sizeof(float));
    int *q = take(k * sizeof(int));

    for (uint32_t r = 0; r < n; r++) {
        for (uint64_t i = 0; i < k; i++)
            row[i] = read_h(h, n, r, i);
        float scale = model_quantize(row, k, q);
        for (uint64_t i = 0; i < shape->hidden_size; i++) {
            float want = model_product(q, scale, down->q + i * k, down->scale[i], k), have;
            if (down->bias)
                want += down->bias[i];
            memcpy(&have, (const char *)y + out_index[r] * stride + 4 * i, 4);
            ck_assert_msg(have == want || (isnan(have) && isnan(want)),
                          "%s: %llu x %llu, %u rows: y of row %u, column %llu is %a, not %a",
                          run->level->name, (unsigned long long)shape->hidden_size,
                          (unsigned long long)k, n, r, (unsigned long long)i, (double)have,
                          (double)want);
        }
    }
    free(row);
    free(q);
}

/* Rows in another order than the tokens, some of them twice; outputs in a third one. */
static void make_indices(uint32_t n_tokens, uint32_t n, uint32_t *index, uint32_t *out_index)
{
    for (uint32_t r = 0; r < n; r++) {
        index[r] = (r * 7 + 3) % n_tokens;
        out_index[r] = n - 1 - r;
    }
}

struct batch {
    uint32_t n_tokens, n;
    void *source;
    float *x;
    uint32_t *index, *out_index;
};

static void make_batch(struct batch *batch, uint64_t k, uint32_t dtype, uint32_t n)
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

static void free_batch(struct batch *batch)
{
    guard_free(batch->source);
    free(batch->x);
    free(batch->index);
    free(batch->out_index);
}

static void check_rows(struct run *run, const struct expert *expert, uint32_t dtype, uint32_t n)
{
    struct batch batch;
    uint64_t stride = run->layout.shape.hidden_size * sizeof(float);
    make_batch(&batch, run->layout.shape.hidden_size, dtype, n);
    float *y = guard_take(n * stride);
    float *h = run_gate_up(run, expert, batch.source, dtype, batch.n_tokens, batch.index, n);

    check_h(run, expert, batch.x, batch.index, n, h);
    run_down(run, expert, h, n, batch.out_index, y, stride);
    check_y(run, expert, h, n, batch.out_index, y, stride);
    guard_free(h);
    guard_free(y);
    free_batch(&batch);
}

/* Sanitizers and emulators make this ten times slower: KT_TEST_QUICK keeps each way through the kernels
 * (whole and odd blocks, a piece of K), not each number of rows. */
static bool leave_out(uint32_t n_rows)
{
    return getenv("KT_TEST_QUICK") && (n_rows > 130 || (n_rows < 64 && n_rows % 8 > 1));
}

static void check_case(const struct check_shape *shape)
{
    struct expert expert;
    make_expert(&expert, shape);
    for (size_t l = 0; l < check_n_levels; l++) {
        struct run run;
        if (!check_can_run(&check_levels[l]))
            continue;
        start_run(&run, &check_levels[l], &expert, shape->l2_size, KT_DTYPE_F32);
        check_weights(&run, &expert);
        for (const uint32_t *n = shape->rows; *n; n++)
            if (!leave_out(*n))
                check_rows(&run, &expert, shape->input, *n);
        end_run(&run);
        check_tiles(&check_levels[l]);
    }
    free_expert(&expert);
}

#define F32 KT_DTYPE_F32
#define F16 KT_DTYPE_F16
#define BF16 KT_DTYPE_BF16
#define SHAPE(h, i, a) { .hidden_size = (h), .intermediate_size = (i), .activation = KT_ACTIVATION_##a, \
                         .limit = 1.5f, .alpha = 1.702f }

static const uint32_t each_row[] = { 1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                     13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
                                     25, 26, 27, 28, 29, 30, 31, 32, 33, 0 };
static const uint32_t some_rows[] = { 1, 8, 17, 33, 64, 129, 0 };
static const uint32_t few_rows[] = { 1, 3, 40, 0 };
static const uint32_t many_rows[] = { 130, 300, 0 };

/* Tiles of 64 columns and panels of 16 and 32 rows: whole, one less, one more, and one number. K of
 * more than 12 tiles with 128 rows goes in pieces; an L2 of 64 KB makes lots of 64 rows. */
static const struct check_shape shapes[] = {
    { SHAPE(64, 32, SILU), { F32, F32, F32 }, F32, 0, true, 1 << 20, some_rows },
    { SHAPE(70, 21, SWIGLU), { BF16, F16, F32 }, BF16, 0, false, 1 << 20, each_row },
    { SHAPE(1, 1, SILU), { F32, BF16, F16 }, F16, 0, true, 1 << 20, few_rows },
    { SHAPE(33, 63, SWIGLUOAI), { F16, F32, BF16 }, F16, 0, true, 1 << 20, some_rows },
    { SHAPE(127, 65, SWIGLUOAI), { BF16, BF16, BF16 }, BF16, 0, false, 1 << 20, some_rows },
    { SHAPE(95, 129, SILU), { BF16, BF16, BF16 }, F32, 1, true, 1 << 20, few_rows },
    { SHAPE(1027, 17, SILU), { BF16, BF16, BF16 }, BF16, 0, true, 1 << 20, many_rows },
    { SHAPE(96, 900, SILU), { BF16, BF16, BF16 }, BF16, 0, false, 1 << 16, many_rows },
};

START_TEST(levels_agree_with_the_model)
{
    check_case(&shapes[_i]);
}
END_TEST

/* Sums as large as they can be, with both signs: nothing on the way may saturate. */
START_TEST(extreme_sums_are_exact)
{
    static const struct check_shape shape = { SHAPE(768, 32, SILU), { F32, F32, F32 }, F32, 0, false,
                                              1 << 20, NULL };
    struct expert expert;
    make_expert(&expert, &shape);
    for (int p = 0; p < 3; p++) {
        struct matrix *matrix = &expert.matrix[p];
        for (uint64_t i = 0; i < matrix->rows * matrix->cols; i++) {
            uint64_t row = i / matrix->cols;
            matrix->value[i] = row % 3 == 2 && i % 2 ? -1.0f : row % 3 ? -1.0f : 1.0f;
            ((float *)matrix->source)[i] = matrix->value[i];
        }
        quantize_matrix(matrix);
    }
    struct batch batch;
    make_batch(&batch, 768, F32, 20);
    for (uint64_t i = 0; i < batch.n_tokens * UINT64_C(768); i++) {
        batch.x[i] = i / 768 % 2 ? -2.0f : 2.0f;
        ((float *)batch.source)[i] = batch.x[i];
    }
    for (size_t l = 0; l < check_n_levels; l++) {
        struct run run;
        if (!check_can_run(&check_levels[l]))
            continue;
        start_run(&run, &check_levels[l], &expert, 1 << 20, F32);
        float *y = guard_take(20 * 768 * sizeof(float));
        float *h = run_gate_up(&run, &expert, batch.source, F32, batch.n_tokens, batch.index, 20);
        check_h(&run, &expert, batch.x, batch.index, 20, h);
        run_down(&run, &expert, h, 20, batch.out_index, y, 768 * sizeof(float));
        check_y(&run, &expert, h, 20, batch.out_index, y, 768 * sizeof(float));
        guard_free(h);
        guard_free(y);
        end_run(&run);
    }
    free_batch(&batch);
    free_expert(&expert);
}
END_TEST

/* A row of NaN or infinity gives a row, or a column, of NaN and leaves the others as they were. */
START_TEST(nan_stays_in_its_row)
{
    static const struct check_shape shape = { SHAPE(100, 40, SILU), { F32, F32, F32 }, F32, 0, true,
                                              1 << 20, NULL };
    struct expert expert;
    struct batch batch;
    make_expert(&expert, &shape);
    make_batch(&batch, 100, F32, 24);
    batch.x[3 * 100 + 99] = ((float *)batch.source)[3 * 100 + 99] = NAN;
    batch.x[5 * 100] = ((float *)batch.source)[5 * 100] = -INFINITY;
    struct matrix *down = &expert.matrix[KT_DOWN];
    down->value[7 * 40 + 1] = ((float *)down->source)[7 * 40 + 1] = INFINITY;
    quantize_matrix(down);
    for (size_t l = 0; l < check_n_levels; l++) {
        struct run run;
        unsigned nans = 0;
        if (!check_can_run(&check_levels[l]))
            continue;
        start_run(&run, &check_levels[l], &expert, 1 << 20, F32);
        check_weights(&run, &expert);
        float *y = guard_take(24 * 100 * sizeof(float));
        float *h = run_gate_up(&run, &expert, batch.source, F32, batch.n_tokens, batch.index, 24);
        check_h(&run, &expert, batch.x, batch.index, 24, h);
        run_down(&run, &expert, h, 24, batch.out_index, y, 100 * sizeof(float));
        check_y(&run, &expert, h, 24, batch.out_index, y, 100 * sizeof(float));
        for (uint32_t r = 0; r < 24; r++)
            for (uint32_t i = 0; i < 100; i++) {
                bool bad = batch.index[r] == 3 || batch.index[r] == 5 || i == 7;
                ck_assert_int_eq(isnan(y[batch.out_index[r] * 100 + i]) != 0, bad);
                nans += bad;
            }
        ck_assert_uint_gt(nans, 24);
        guard_free(h);
        guard_free(y);
        end_run(&run);
    }
    free_batch(&batch);
    free_expert(&expert);
}
END_TEST

/* Only the panels asked for are written, and bf16 is y rounded to the nearest. */
START_TEST(ranges_and_bf16_outputs)
{
    static const struct check_shape shape = { SHAPE(110, 40, SILU), { F32, F32, F32 }, F32, 0, true,
                                              1 << 20, NULL };
    struct expert expert;
    make_expert(&expert, &shape);
    for (size_t l = 0; l < check_n_levels; l++) {
        struct run run, half;
        if (!check_can_run(&check_levels[l]))
            continue;
        start_run(&run, &check_levels[l], &expert, 1 << 20, F32);
        start_run(&half, &check_levels[l], &expert, 1 << 20, BF16);
        uint32_t n = 37, order[37];
        float *h = guard_take(48 * run.layout.h_row_size), *y = guard_take(n * 110 * sizeof(float));
        uint16_t *y16 = guard_take(n * 128 * sizeof(uint16_t));
        for (uint32_t i = 0; i < 48 * 48; i++) /* [3 panels][48 rows][16], the last half empty */
            h[i] = i / (48 * 16) * 16 + i % 16 < 40 ? random_number() : 0.0f;
        for (uint32_t r = 0; r < n; r++)
            order[r] = r;
        memset(y16, 0x55, n * 128 * sizeof(uint16_t));
        run_down(&run, &expert, h, n, order, y, 110 * sizeof(float));
        check_y(&run, &expert, h, n, order, y, 110 * sizeof(float));
        run_down(&half, &expert, h, n, order, y16, 128 * sizeof(uint16_t));
        for (uint32_t i = 0; i < n * 128; i++) {
            uint32_t bits = float_to_bits(y[i / 128 * 110 + (i % 128 < 110 ? i % 128 : 0)]);
            uint32_t want = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
            ck_assert_uint_eq(y16[i], i % 128 < 110 ? want : 0x5555);
        }
        /* panel 1 alone: columns 32..63 */
        memset(y, 0x55, n * 110 * sizeof(float));
        void *act = guard_take(48 * run.layout.act_row_size[1]);
        struct kt_act_pack pack = { .layout = &run.layout, .stage = KT_STAGE_DOWN, .n_rows = n,
                                    .row_end = n, .source = h, .packed = act };
        run.level->ops->act_pack(&run.instance, &pack);
        struct kt_product job = { .layout = &run.layout, .packed = run.packed[1], .n_rows = n,
                                  .panel_begin = 1, .panel_end = 2, .act = act, .out = y,
                                  .out_stride = 110 * sizeof(float), .scratch = run.scratch };
        run.level->ops->down(&run.instance, &job);
        for (uint32_t i = 0; i < n * 110; i++)
            ck_assert_int_eq(float_to_bits(y[i]) != 0x55555555, i % 110 >= 32 && i % 110 < 64);
        guard_free(act);
        guard_free(h);
        guard_free(y);
        guard_free(y16);
        end_run(&half);
        end_run(&run);
    }
    free_expert(&expert);
}
END_TEST

/* What cannot be: refused with a reason, and nothing stays allocated. */
START_TEST(refusals)
{
    static const struct check_shape shape = { SHAPE(64, 32, SILU), { F32, F32, F32 }, F32, 1, false,
                                              1 << 20, NULL };
    static const uint64_t sizes[][2] = { { 0, 32 }, { 64, 0 }, { MAX_K + 1, 32 }, { 64, UINT64_MAX } };
    struct expert expert;
    struct kt_error error = { KT_OK, "" };
    make_expert(&expert, &shape);
    for (size_t l = 0; l < check_n_levels; l++) {
        const struct kt_ops *ops = check_levels[l].ops;
        struct run run;
        if (!check_can_run(&check_levels[l]))
            continue;
        start_run(&run, &check_levels[l], &expert, 1 << 20, F32);
        struct kt_layout layout = expert.layout;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            layout.shape.hidden_size = sizes[i][0];
            layout.shape.intermediate_size = sizes[i][1];
            ck_assert_int_eq(ops->layout(&run.instance, &layout, &error), KT_E_UNSUPPORTED);
            ck_assert_ptr_nonnull(strstr(error.message, "outside 1.."));
        }
        layout = expert.layout;
        layout.shape.format[KT_UP].dtype = KT_DTYPE_I64;
        ck_assert_int_eq(ops->layout(&run.instance, &layout, &error), KT_E_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(error.message, "up projection"));

        struct kt_expert wrong = expert.source;
        struct kt_pack job = { .layout = &run.layout, .source = &wrong, .panel_end = 2,
                               .packed = run.packed[0] };
        wrong.up.rows = 31;
        ck_assert_int_eq(ops->pack(&run.instance, &job, &error), KT_E_INVALID);
        wrong.up.rows = 32;
        check_fail_next = CHECK_FAIL_ALLOCATE;
        ck_assert_int_eq(ops->pack(&run.instance, &job, &error), KT_E_NOMEM);
        check_fail_next = CHECK_FAIL_DEQUANTIZE;
        ck_assert_int_eq(ops->pack(&run.instance, &job, &error), KT_E_IO);
        ck_assert_int_eq(check_allocated, 0);
        end_run(&run);
    }
    free_expert(&expert);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("check_int8");
    TCase *tcase = tcase_create("levels");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, levels_agree_with_the_model, 0, sizeof shapes / sizeof *shapes);
    tcase_add_test(tcase, extreme_sums_are_exact);
    tcase_add_test(tcase, nan_stays_in_its_row);
    tcase_add_test(tcase, ranges_and_bf16_outputs);
    tcase_add_test(tcase, refusals);
    suite_add_tcase(suite, tcase);
    check_list_levels();
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

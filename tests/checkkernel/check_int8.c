/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_int8.c - every level of amx_int8, or of another backend of int8 activations, against a scalar
 * model of its number format, and so with each other: the integers to the bit.
 *
 * Levels that this CPU has run as they are; those above it run from the same source, with SIMDe for
 * the vectors and tests/checkkernel/amx_model.h for the tiles.
 */
#include "tests/checkkernel/int8_case.h"
#include "plugins/common/int8/rows.h"
#include "plugins/common/simd/numbers.h"

#include <math.h>
#include <stdlib.h>

/* The product of a row of activations and one of weights, and whether 32 bits held it. */
static float model_product(const int *x, float scale_x, const int *w, float scale_w, uint64_t k)
{
    int64_t sum = 0;
    for (uint64_t i = 0; i < k; i++)
        sum += x[i] * w[i];
    CHECK_THAT(sum == (int32_t)sum, "a sum of %lld", (long long)sum);
    return (scale_x * scale_w) * (float)sum;
}

static void check_weights(struct run *run, const struct expert *expert)
{
    /* A row of an opaque level is found by products with all of its matrix: some, on every place of a tile.
     */
    const uint64_t step = run->level->opaque ? 13 : 1;
    for (int p = 0; p < 3; p++) {
        const struct matrix *matrix = &expert->matrix[p];
        float *row = take(matrix->cols * sizeof(float));
        for (uint64_t r = 0; r < matrix->rows; r += step) {
            enum kt_status status =
                run->level->ops->weight_row(&run->instance, &run->layout, run->packed[p == KT_DOWN],
                                            &expert->source, (enum kt_projection)p, r, row, NULL);
            ck_assert_int_eq(status, KT_OK);
            for (uint64_t c = 0; c < matrix->cols; c++) {
                float want = matrix->scale[r] * (float)matrix->q[r * matrix->cols + c];
                CHECK_THAT(row[c] == want || (isnan(row[c]) && isnan(want)),
                           "%s: projection %d, row %llu, column %llu is %a, not %a", run->level->name, p,
                           (unsigned long long)r, (unsigned long long)c, (double)row[c], (double)want);
            }
        }
        ck_assert_int_eq(run->level->ops->weight_row(&run->instance, &run->layout, run->packed[p == KT_DOWN],
                                                     &expert->source, (enum kt_projection)p, matrix->rows,
                                                     row, NULL),
                         KT_E_RANGE);
        free(row);
    }
}

/* The model's h, in double after the integers. The level's exp is within 2 units in the last place, and
 * its argument's rounding, 2^-24 |alpha g|, is one of the result. */
static void check_h(const struct run *run, const struct expert *expert, const float *x, const uint32_t *index,
                    uint32_t n, const float *h)
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
            double want =
                value_activation(shape, (struct value){(double)g, 0}, (struct value){(double)u, 0}).value;
            double have = (double)read_h(h, n, r, i);
            double steps = 16 + 2 * fmin(fabs((double)(shape->alpha * g)), 128);
            CHECK_THAT((isnan(want) && isnan(have)) ||
                           fabs(have - want) <= steps * 0x1p-24 * fabs(want) + 0x1p-120,
                       "%s: %llu x %llu, %u rows: h of row %u, column %llu is %.9g, not %.9g",
                       run->level->name, (unsigned long long)k, (unsigned long long)shape->intermediate_size,
                       n, r, (unsigned long long)i, have, want);
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
            CHECK_THAT(have == want || (isnan(have) && isnan(want)),
                       "%s: %llu x %llu, %u rows: y of row %u, column %llu is %a, not %a", run->level->name,
                       (unsigned long long)shape->hidden_size, (unsigned long long)k, n, r,
                       (unsigned long long)i, (double)have, (double)want);
        }
    }
    free(row);
    free(q);
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
    if (n % 8 < 2) /* whole and odd blocks of rows */
        check_linear_rows(run, expert, h, n, batch.out_index, y, stride);
    guard_give(h);
    guard_give(y);
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
        check_linear_weights(&run, &expert);
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
#define SHAPE(h, i, a)                                                                                \
    {                                                                                                 \
        .hidden_size = (h), .intermediate_size = (i), .activation = KT_ACTIVATION_##a, .limit = 1.5f, \
        .alpha = 1.702f                                                                               \
    }

static const uint32_t each_row[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17,
                                    18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 0};
static const uint32_t some_rows[] = {1, 8, 17, 33, 64, 129, 0};
static const uint32_t few_rows[] = {1, 3, 40, 0};
static const uint32_t many_rows[] = {130, 300, 0};

/* Tiles of 64 columns and panels of 16 and 32 rows: whole, one less, one more, and one number. K of
 * more than 12 tiles with 128 rows goes in pieces; an L2 of 64 KB makes row blocks of 64. */
static const struct check_shape shapes[] = {
    {SHAPE(64, 32, SILU), {F32, F32, F32}, F32, 0, true, 1 << 20, 32, some_rows},
    {SHAPE(70, 21, SWIGLU), {BF16, F16, F32}, BF16, 0, false, 1 << 20, 32, each_row},
    {SHAPE(1, 1, SILU), {F32, BF16, F16}, F16, 0, true, 1 << 20, 64, few_rows},
    {SHAPE(33, 63, SWIGLUOAI), {F16, F32, BF16}, F16, 0, true, 1 << 20, 64, some_rows},
    {SHAPE(127, 65, SWIGLUOAI), {BF16, BF16, BF16}, BF16, 0, false, 1 << 20, 128, some_rows},
    {SHAPE(95, 129, SILU), {BF16, BF16, BF16}, F32, 1, true, 1 << 20, 32, few_rows},
    {SHAPE(1027, 17, SILU), {BF16, BF16, BF16}, BF16, 0, true, 1 << 20, 128, many_rows},
    {SHAPE(96, 900, SILU), {BF16, BF16, BF16}, BF16, 0, false, 1 << 16, 64, many_rows},
};

START_TEST(levels_agree_with_the_model)
{
    check_case(&shapes[_i]);
}
END_TEST

/* Sums as large as they can be, with both signs: nothing on the way may saturate. */
START_TEST(extreme_sums_are_exact)
{
    static const struct check_shape shape =
        {SHAPE(768, 32, SILU), {F32, F32, F32}, F32, 0, false, 1 << 20, 32, NULL};
    struct expert expert;
    make_expert(&expert, &shape);
    for (int p = 0; p < 3; p++) {
        struct matrix *matrix = &expert.matrix[p];
        for (uint64_t i = 0; i < matrix->rows * matrix->cols; i++) {
            uint64_t row = i / matrix->cols;
            matrix->value[i] = row % 3 == 2 && i % 2 ? -1.0f : row % 3 ? -1.0f : 1.0f;
            ((float *)matrix->source)[i] = matrix->value[i];
        }
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
        guard_give(h);
        guard_give(y);
        end_run(&run);
    }
    free_batch(&batch);
    free_expert(&expert);
}
END_TEST

/* A row of NaN or infinity gives a row, or a column, of NaN and leaves the others as they were. */
START_TEST(nan_stays_in_its_row)
{
    static const struct check_shape shape =
        {SHAPE(100, 40, SILU), {F32, F32, F32}, F32, 0, true, 1 << 20, 32, NULL};
    struct expert expert;
    struct batch batch;
    make_expert(&expert, &shape);
    make_batch(&batch, 100, F32, 24);
    batch.x[3 * 100 + 99] = ((float *)batch.source)[3 * 100 + 99] = NAN;
    batch.x[5 * 100] = ((float *)batch.source)[5 * 100] = -INFINITY;
    struct matrix *down = &expert.matrix[KT_DOWN];
    down->value[7 * 40 + 1] = ((float *)down->source)[7 * 40 + 1] = INFINITY;
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
        check_linear_rows(&run, &expert, h, 24, batch.out_index, y, 100 * sizeof(float));
        for (uint32_t r = 0; r < 24; r++)
            for (uint32_t i = 0; i < 100; i++) {
                bool bad = batch.index[r] == 3 || batch.index[r] == 5 || i == 7;
                ck_assert_int_eq(isnan(y[batch.out_index[r] * 100 + i]) != 0, bad);
                nans += bad;
            }
        ck_assert_uint_gt(nans, 24);
        guard_give(h);
        guard_give(y);
        end_run(&run);
    }
    free_batch(&batch);
    free_expert(&expert);
}
END_TEST

/* Only the panels asked for are written, and bf16 is y rounded to the nearest. */
START_TEST(ranges_and_bf16_outputs)
{
    static const struct check_shape shape =
        {SHAPE(110, 40, SILU), {F32, F32, F32}, F32, 0, true, 1 << 20, 32, NULL};
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
            ck_assert_uint_eq(y16[i], i % 128 < 110 ? to_bf16(y[i / 128 * 110 + i % 128]) : 0x5555);
        }
        /* panel 1 alone: columns 32..63; wide panels have all of them in panel 0 */
        bool all = run.level->opaque;
        memset(y, 0x55, n * 110 * sizeof(float));
        void *act = guard_take(48 * run.layout.act_row_size[1]);
        struct kt_error error = {KT_OK, ""};
        struct kt_act_pack pack = {.layout = &run.layout,
                                   .stage = KT_STAGE_DOWN,
                                   .n_rows = n,
                                   .row_end = n,
                                   .source = h,
                                   .packed = act,
                                   .error = &error};
        run.level->ops->act_pack(&run.instance, &pack);
        struct kt_product job = {.layout = &run.layout,
                                 .packed = run.packed[1],
                                 .n_rows = n,
                                 .panel_begin = !all,
                                 .panel_end = 1 + !all,
                                 .act = act,
                                 .out = y,
                                 .out_stride = 110 * sizeof(float),
                                 .scratch = run.scratch,
                                 .error = &error};
        run.level->ops->down(&run.instance, &job);
        ck_assert_msg(error.status == KT_OK, "%s", error.message);
        for (uint32_t i = 0; i < n * 110; i++)
            ck_assert_int_eq(float_to_bits(y[i]) != 0x55555555, all || (i % 110 >= 32 && i % 110 < 64));
        guard_give(act);
        guard_give(h);
        guard_give(y);
        guard_give(y16);
        end_run(&half);
        end_run(&run);
    }
    free_expert(&expert);
}
END_TEST

/* A shard of the whole expert's object holds the same weights as its part of the whole. */
START_TEST(cuts_keep_weights)
{
    static const struct check_shape shape =
        {SHAPE(70, 450, SILU), {F32, F32, F32}, F32, 0, false, 1 << 20, 64, NULL};
    static const uint64_t cut[][2] = {{0, 256}, {128, 128}, {256, 194}, {384, 66}};
    struct expert expert;
    struct run run;
    make_expert(&expert, &shape);
    start_run(&run, &check_levels[0], &expert, 1 << 20, F32);
    const struct kt_ops *ops = run.level->ops;
    float *whole = take(450 * sizeof(float)), *part = take(450 * sizeof(float));
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        struct kt_layout shard = expert.layout;
        uint64_t begin = cut[i][0], n = cut[i][1];
        shard.shape.intermediate_size = n;
        memcpy(shard.form, run.layout.form, sizeof shard.form);
        ck_assert_int_eq(ops->layout(&run.instance, &shard, NULL), KT_OK);
        ck_assert_str_eq(shard.form, run.layout.form);
        ck_assert_uint_eq(begin % run.layout.k_unit, 0);
        for (int p = 0; p < 3; p++) {
            enum kt_stage stage = p == KT_DOWN ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
            uint64_t rows = p == KT_DOWN ? 70 : n, cols = p == KT_DOWN ? n : 70;
            uint64_t panels = (rows + shard.panel_rows[stage] - 1) / shard.panel_rows[stage];
            void *packed = guard_take(shard.weight_size[stage]);
            for (int half = 1; half >= 0; half--) {
                struct kt_error error = {KT_OK, ""};
                struct kt_cut job = {&run.layout,
                                     &shard,
                                     stage,
                                     begin,
                                     half ? panels / 2 : 0,
                                     half ? panels : panels / 2,
                                     run.packed[stage],
                                     packed,
                                     &error};
                ops->cut(&run.instance, &job);
                ck_assert_msg(error.status == KT_OK, "%s", error.message);
            }
            for (uint64_t r = 0; r < rows; r++) {
                ops->weight_row(&run.instance, &run.layout, run.packed[stage], &expert.source,
                                (enum kt_projection)p, p == KT_DOWN ? r : begin + r, whole, NULL);
                ops->weight_row(&run.instance, &shard, packed, &expert.source, (enum kt_projection)p, r, part,
                                NULL);
                ck_assert_int_eq(memcmp(whole + (p == KT_DOWN ? begin : 0), part, cols * sizeof(float)), 0);
            }
            guard_give(packed);
        }
    }
    free(whole);
    free(part);
    end_run(&run);
    free_expert(&expert);
}
END_TEST

/* What cannot be: refused with a reason, and nothing stays allocated. */
START_TEST(refusals)
{
    static const struct check_shape shape =
        {SHAPE(64, 32, SILU), {F32, F32, F32}, F32, 1, false, 1 << 20, 32, NULL};
    static const uint64_t sizes[][2] = {{0, 32}, {64, 0}, {MAX_K + 1, 32}, {64, UINT64_MAX}};
    struct expert expert;
    struct kt_error error = {KT_OK, ""};
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
        layout = expert.layout; /* a linear has any number of rows, and only columns are added up */
        layout.shape.activation = KT_ACTIVATION_NONE;
        layout.shape.hidden_size = MAX_K + 1;
        ck_assert_int_eq(ops->layout(&run.instance, &layout, &error), KT_OK);
        layout.shape.intermediate_size = MAX_K + 1;
        ck_assert_int_eq(ops->layout(&run.instance, &layout, &error), KT_E_UNSUPPORTED);
        layout = expert.layout;
        layout.shape.format[KT_UP].dtype = KT_DTYPE_I64;
        ck_assert_int_eq(ops->layout(&run.instance, &layout, &error), KT_E_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(error.message, "up projection"));

        struct kt_expert wrong = expert.source;
        struct kt_pack job = {.layout = &run.layout,
                              .source = &wrong,
                              .panel_end = 2,
                              .packed = run.packed[0]};
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
    if (!check_list_levels())
        return 1;
    Suite *suite = suite_create(BACKEND);
    TCase *tcase = tcase_create("levels");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, levels_agree_with_the_model, 0, sizeof shapes / sizeof *shapes);
    tcase_add_test(tcase, extreme_sums_are_exact);
    tcase_add_test(tcase, nan_stays_in_its_row);
    tcase_add_test(tcase, ranges_and_bf16_outputs);
    tcase_add_test(tcase, cuts_keep_weights);
    tcase_add_test(tcase, refusals);
    model_tests(tcase);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

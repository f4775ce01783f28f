/* SPDX-License-Identifier: Apache-2.0 */
/* products.c - act_pack, gate_up and down of a case. */
#include "tests/checkkernel/check.h"
#include "tests/checkkernel/recorded.h"

#include <kt/kt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Packed row r of a stage, in `alone` if it is not to be had otherwise: first of as many rows as there are.
 */
static const uint8_t *find_act(struct check *check, enum kt_stage stage, uint32_t r, uint8_t *alone)
{
    const struct kt_layout *layout = &check->layout;
    if (!interleaved(check, stage))
        return check->act[stage].data + r * layout->act_row_size[stage];
    if (check->model->code_row) /* which knows them without */
        return NULL;
    if (check_linear(check)) {
        uint32_t *rows = check_need(calloc(check->n_rows, sizeof *rows));
        rows[0] = check->index[r];
        pack_input(check, stage, KT_DTYPE_BF16, rows, check->n_rows, 0, check->n_rows, alone);
        free(rows);
        return alone;
    }
    uint8_t *h = check_need(calloc(check->n_rows, layout->h_row_size));
    memcpy(h, check->h.data + r * layout->h_row_size, layout->h_row_size);
    struct kt_error error = {KT_OK, ""};
    struct kt_act_pack job = {layout, stage, 0, check->n_rows, 0, check->n_rows, h, 0, alone, &error};
    check_enter(check, "act_pack");
    check->level->ops->act_pack(check->instance, &job);
    free(h);
    return alone;
}

/* How many methods may have been used? From the crossover on some formats still are multiplied as they are;
 * where any number of rows is multiplied in one way, it may be either. */
static int count_methods(const struct check *check)
{
    bool either = check->layout.deterministic && model_level_crossover(check) != UINT32_MAX;
    if (check->model->unrounded && model_lists(check->model->unrounded, check->level))
        return 1;
    return check->model->rounded && (either || check->n_rows >= model_crossover(check)) ? 2 : 1;
}

/* Weights as the methods want them. */
static void prepare_weights(struct check *check, enum kt_stage stage)
{
    check_exactly();
    int first = stage == KT_STAGE_DOWN ? KT_DOWN : (int)check_first_projection(check);
    for (int p = first; p <= (stage == KT_STAGE_DOWN ? KT_DOWN : KT_UP); p++) {
        if (check->model->scaled)
            model_read_groups(check, (enum kt_projection)p);
        if (count_methods(check) > 1)
            model_round(check, (enum kt_projection)p);
    }
}

/* Memory for what a row of a stage is made from. */
static float *take_row(const struct check *check, enum kt_stage stage)
{
    uint64_t k = projection_cols(&check->layout.shape, stage == KT_STAGE_DOWN ? KT_DOWN : KT_UP);
    return check_need(malloc(k * sizeof(float) + check->layout.h_row_size));
}

/* What row r of a stage is made from. */
static void read_source_row(const struct check *check, enum kt_stage stage, uint32_t r, float *x)
{
    if (check_linear(check))
        read_input(check, check->index[r], x);
    else if (stage == KT_STAGE_GATE_UP)
        read_input(check, r, x);
    else
        read_h(check, check->h.data, check->n_rows, r, x);
}

/* Is the row packed for all methods, or, where h is packed and all rows are known, for one of them? */
static bool check_act_row(const struct check *check, enum kt_projection projection, const uint8_t *act,
                          const float *x, double *used)
{
    check_exactly();
    int methods = count_methods(check), right = 0;
    for (int method = METHOD_CODES; method < methods; method++)
        right += check->model->read_row(&check->layout, projection, act, x, (enum method)method, used);
    return right == methods || (right > 0 && projection == KT_DOWN && interleaved(check, KT_STAGE_DOWN));
}

/* Rows in F16 are packed as the same numbers in BF16. */
static void check_halves(struct check *check)
{
    uint64_t size = check->act[KT_STAGE_DOWN].size, n = check->n_acts * input_cols(check);
    uint8_t *half = check_need(calloc(1, size)), *wanted = check_need(calloc(1, size));
    uint16_t *kept = check_need(malloc(n * sizeof *kept));
    memcpy(kept, check->input, n * sizeof *kept);
    round_inputs(check);
    pack_rows(check, KT_STAGE_DOWN, KT_DTYPE_F16, 0, check->n_rows, half);
    pack_rows(check, KT_STAGE_DOWN, KT_DTYPE_BF16, 0, check->n_rows, wanted);
    if (memcmp(half, wanted, size) != 0)
        check_fail(check, "rows of a linear in F16 are packed otherwise than the same numbers in BF16");
    memcpy(check->input, kept, n * sizeof *kept);
    free(kept);
    free(wanted);
    free(half);
}

void check_act(struct check *check, enum kt_stage stage)
{
    const struct kt_layout *layout = &check->layout;
    uint32_t n = stage == KT_STAGE_DOWN ? check->n_rows : check->n_acts;
    uint64_t k = projection_cols(&layout->shape, stage == KT_STAGE_DOWN ? KT_DOWN : KT_GATE);
    check_act_pack(check, stage);
    if (check_linear(check))
        check_halves(check);
    if (!check->model->read_row)
        return;
    float *x = take_row(check, stage);
    double *used = check_need(malloc((k + 1) * sizeof *used));
    uint8_t *alone = check_need(calloc(fill_rows(check, check->n_rows), layout->act_row_size[stage]));
    int first = stage == KT_STAGE_DOWN ? KT_DOWN : (int)check_first_projection(check);
    int last = stage == KT_STAGE_DOWN ? KT_DOWN : KT_UP;
    for (uint32_t r = 0; r < n; r++) {
        read_source_row(check, stage, r, x);
        for (int p = first; p <= last; p++)
            if (!check_act_row(check, (enum kt_projection)p, find_act(check, stage, r, alone), x, used))
                check_fail(check, "packed activations of stage %d are not the input's", stage);
    }
    free(alone);
    free(used);
    free(x);
}

/* Are rows begin..begin+n-1 of a stage's results those of a product of their own? */
static bool same_part(const struct check *check, enum kt_stage stage, const struct guarded *out,
                      uint32_t begin, uint32_t n, const uint8_t *part)
{
    const uint64_t size = check->layout.h_row_size;
    bool same = true;
    float *whole = check_need(malloc(2 * size + 1)), *own = whole + size / sizeof *whole;
    for (uint32_t r = 0; r < n && stage == KT_STAGE_GATE_UP; r++) {
        read_h(check, out->data, check->n_rows, begin + r, whole);
        read_h(check, part, n, r, own);
        same = same && same_floats(whole, own, size / sizeof *own);
    }
    free(whole);
    return same;
}

/* A part of the rows together, the others one by one: the same bits. Where the level multiplies so many rows
 * by its other method, in two parts instead, if both are multiplied so as well. */
static void run_parts(struct check *check, enum kt_stage stage, struct guarded *out)
{
    uint64_t panels = count_panels(check, stage), size = out->size;
    uint32_t n = check->n_rows, crossover = model_crossover(check);
    uint32_t least = n < crossover ? 0 : crossover, next;
    if (n < 2 * least)
        return;
    uint32_t half = least + random_below(&check->random, n - 2 * least + 1);
    uint8_t *other = check_need(malloc(size));
    memset(other, 0x5a, size);
    bool same = true;
    for (uint32_t r = 0; r < n; r = next) {
        next = r < half ? half : least ? n : r + 1;
        run_product(check, stage, 0, panels, r, next - r, other);
        same = same && same_part(check, stage, out, r, next - r, other);
    }
    if (!same || (stage == KT_STAGE_DOWN && !same_y(check, other, out->data)))
        check_fail(check, "stage %d with less rows differs from all rows at once", stage);
    free(other);
}

/* Makes a stage's results, first of all rows and panels at once. False: they have the bits of results that
 * were right. */
static bool make_results(struct check *check, enum kt_stage stage, struct guarded *out)
{
    uint64_t random = check->random; /* whatever is tried, the rest of the case is the same */
    if (check->known) {
        memset(out->data, 0x5a, out->size);
        run_product(check, stage, 0, count_panels(check, stage), 0, check->n_rows, out->data);
        if (recorded_hash(check, stage) != check->known->stage[stage])
            check->known = NULL;
        else if (!guard_intact(out))
            check_fail(check, "stage %d wrote beyond its output", stage);
    }
    if (!recorded_suffices(check))
        check_ranges(check, stage, out);
    if (!recorded_before(check) || !check->large)
        run_parts(check, stage, out);
    check->random = random_next(&random);
    return !check->known;
}

/* Is each output within its bound? If not, it is said, if it is to be said. */
static bool compare(struct check *check, const char *what, uint64_t row, uint64_t n, const uint8_t *got,
                    const struct value *wanted, bool say)
{
    const uint32_t dtype = *what == 'y' ? check_y_dtype(check) : (uint32_t)KT_DTYPE_F32;
    for (uint64_t i = 0; i < n; i++) {
        float value = read_number(got + i * number_size(dtype), dtype);
        if (isnan(wanted[i].value) ? isnan(value) : fabs((double)value - wanted[i].value) <= wanted[i].bound)
            continue;
        if (say)
            check_fail(check, "%s[%llu][%llu] is %.9g, float64 gives %.9g, float32 may be off by %.2g", what,
                       (unsigned long long)row, (unsigned long long)i, (double)value, wanted[i].value,
                       wanted[i].bound);
        return false;
    }
    return true;
}

/* The product of a projection's row with the activations, in float64, bias included. */
static struct value dot(const struct check *check, enum kt_projection projection, uint64_t row,
                        const double *x, enum method method)
{
    if (check->model->code_row)
        return model_dot_int8(check, projection, row, x);
    struct value value = method == METHOD_ROUNDED ? model_dot_rounded(check, projection, row, x)
                         : check->model->scaled   ? model_dot_scaled(check, projection, row, x)
                                                  : model_dot(check, projection, row, x);
    const float *bias = expert_bias(&check->source.expert, projection);
    if (bias)
        value.value += (double)bias[row];
    value.bound += fabs(value.value) * 0x1p-24;
    return value;
}

/* What a row of outputs is by a method, from its packed activations; false: they are not packed for it. */
static bool predict_row(const struct check *check, enum kt_stage stage, const uint8_t *act, const float *x,
                        enum method method, struct value *wanted)
{
    check_exactly();
    const struct kt_shape *shape = &check->layout.shape;
    bool down = stage == KT_STAGE_DOWN;
    bool gated = check_first_projection(check) == KT_GATE;
    enum kt_projection of_first = down ? KT_DOWN : gated ? KT_GATE : KT_UP;
    uint64_t k = projection_cols(shape, of_first), n = projection_rows(shape, of_first);
    double *first = check_need(malloc((k + 1) * sizeof *first));
    double *up = check_need(malloc((k + 1) * sizeof *up));
    bool right = check->model->read_row(&check->layout, of_first, act, x, method, first) &&
                 (down || check->model->read_row(&check->layout, KT_UP, act, x, method, up));
    if (check->model->scaled && method == METHOD_CODES) {
        model_fix_row(check, k, first);
        model_fix_row(check, down ? 0 : k, up);
    }
    for (uint64_t i = 0; i < n && right; i++)
        wanted[i] =
            down ? dot(check, KT_DOWN, i, first, method)
                 : value_activation(shape,
                                    gated ? dot(check, KT_GATE, i, first, method) : (struct value){0, 0},
                                    dot(check, KT_UP, i, up, method));
    if (down && check_y_dtype(check) == KT_DTYPE_BF16 && !check->model->code_row)
        for (uint64_t i = 0; i < n && right; i++) /* y is rounded once more */
            wanted[i].bound += (fabs(wanted[i].value) + wanted[i].bound) * 0x1p-8;
    free(up);
    free(first);
    return right;
}

/* A row of outputs. One method must give all of them; `method` is the one that did for the row before. */
static void check_row(struct check *check, enum kt_stage stage, uint64_t row, const uint8_t *got,
                      const uint8_t *act, const float *x, enum method *method)
{
    const char *what = stage == KT_STAGE_DOWN ? "y" : "h";
    uint64_t n = projection_rows(&check->layout.shape, stage == KT_STAGE_DOWN ? KT_DOWN : KT_GATE);
    struct value *wanted = check_need(malloc(n * sizeof *wanted));
    int methods = count_methods(check), known = -1;
    bool right = false;
    for (int tried = 1; tried <= methods && !right; tried++) {
        if (tried > 1)
            *method = *method == METHOD_CODES ? METHOD_ROUNDED : METHOD_CODES;
        if (!predict_row(check, stage, act, x, *method, wanted))
            continue;
        known = (int)*method;
        right = compare(check, what, row, n, got, wanted, false);
    }
    if (known < 0)
        check_fail(check, "activations of row %llu of stage %d are packed for no method that is known",
                   (unsigned long long)row, stage);
    else if (!right && predict_row(check, stage, act, x, (enum method)known, wanted))
        (void)compare(check, what, row, n, got, wanted, true);
    free(wanted);
}

void check_gate_up(struct check *check)
{
    const struct kt_layout *layout = &check->layout;
    uint64_t k = layout->shape.hidden_size;
    enum method method = METHOD_CODES;
    float *x = check_need(malloc(k * sizeof *x)), *h = check_need(malloc(layout->h_row_size));
    check_guard("h", fill_rows(check, check->n_rows) * layout->h_row_size, 64,
                random_below(&check->random, 2), &check->h);
    bool unknown = make_results(check, KT_STAGE_GATE_UP, &check->h) && check->model->read_row;
    if (unknown)
        prepare_weights(check, KT_STAGE_GATE_UP);
    for (uint32_t r = 0; r < check->n_rows && unknown; r++) {
        const uint8_t *act = check->act[0].data + check->index[r] * layout->act_row_size[0];
        read_input(check, check->index[r], x);
        read_h(check, check->h.data, check->n_rows, r, h);
        check_row(check, KT_STAGE_GATE_UP, r, (const uint8_t *)h, act, x, &method);
    }
    free(h);
    free(x);
}

void check_down(struct check *check)
{
    const struct kt_layout *layout = &check->layout;
    const struct kt_shape *shape = &layout->shape;
    const uint64_t number = check_y_size(check), row = shape->hidden_size * number;
    enum method method = METHOD_CODES;
    float *x = take_row(check, KT_STAGE_DOWN);
    uint8_t *alone = check_need(calloc(fill_rows(check, check->n_rows), layout->act_row_size[1]));
    check->y_stride = row + number * random_below(&check->random, 5);
    check_guard("y", (check->n_rows - 1) * check->y_stride + row, number, random_below(&check->random, 2),
                &check->y);
    bool unknown = make_results(check, KT_STAGE_DOWN, &check->y) && check->model->read_row;
    check_gaps(check);
    if (unknown)
        prepare_weights(check, KT_STAGE_DOWN);
    for (uint32_t r = 0; r < check->n_rows && unknown; r++) {
        const uint8_t *act = find_act(check, KT_STAGE_DOWN, r, alone);
        const uint8_t *y = check->y.data + check->out_index[r] * check->y_stride;
        read_source_row(check, KT_STAGE_DOWN, r, x);
        check_row(check, KT_STAGE_DOWN, r, y, act, x, &method);
    }
    if (!recorded_suffices(check))
        check_places(check);
    free(alone);
    free(x);
}

/* One value of one input row becomes infinite or NaN: that row's outputs change, no others. */
void check_nan(struct check *check)
{
    uint64_t k = check->layout.shape.hidden_size, n = check->layout.shape.intermediate_size;
    uint32_t bad = check->index[random_below(&check->random, check->n_rows)];
    uint16_t *value = check->input + bad * k + random_below(&check->random, (uint32_t)k);
    uint16_t kept = *value;
    uint64_t size = check->h.size;
    uint8_t *h = check_need(malloc(size));
    *value = random_below(&check->random, 2) ? 0x7f80 : 0xffc1;
    pack_rows(check, KT_STAGE_GATE_UP, KT_DTYPE_BF16, 0, check->n_acts, check->act[0].data);
    memcpy(h, check->h.data, size);
    run_product(check, KT_STAGE_GATE_UP, 0, count_panels(check, KT_STAGE_GATE_UP), 0, check->n_rows, h);
    float *row = check_need(malloc(check->layout.h_row_size)), *before = take_row(check, KT_STAGE_DOWN);
    for (uint32_t r = 0; r < check->n_rows; r++) {
        read_h(check, h, check->n_rows, r, row);
        read_h(check, check->h.data, check->n_rows, r, before);
        if (check->index[r] != bad) {
            if (memcmp(row, before, n * sizeof *row) != 0)
                check_fail(check, "a NaN in row %u changed row %u", bad, check->index[r]);
            continue;
        }
        for (uint64_t i = 0; i < n; i++)
            if (*(const uint16_t *)value == 0xffc1 && !isnan(row[i])) {
                check_fail(check, "a NaN in row %u gave h = %g", bad, (double)row[i]);
                break;
            }
    }
    *value = kept;
    free(before);
    free(row);
    free(h);
}

/* The same of a linear. */
void check_nan_linear(struct check *check)
{
    uint64_t k = input_cols(check), n = check->layout.shape.hidden_size, size = check->y.size;
    uint32_t bad = check->index[random_below(&check->random, check->n_rows)];
    uint16_t *value = check->input + bad * k + random_below(&check->random, (uint32_t)k);
    uint16_t kept = *value;
    uint8_t *y = check_need(malloc(size));
    *value = random_below(&check->random, 2) ? 0x7f80 : 0xffc1;
    memcpy(y, check->y.data, size);
    pack_rows(check, KT_STAGE_DOWN, KT_DTYPE_BF16, 0, check->n_rows, check->act[1].data);
    run_product(check, KT_STAGE_DOWN, 0, count_panels(check, KT_STAGE_DOWN), 0, check->n_rows, y);
    for (uint32_t r = 0; r < check->n_rows; r++) {
        uint64_t at = check->out_index[r] * check->y_stride;
        if (check->index[r] != bad && memcmp(y + at, check->y.data + at, n * check_y_size(check)) != 0)
            check_fail(check, "a NaN in row %u changed row %u", bad, check->index[r]);
        for (uint64_t i = 0; i < n && check->index[r] == bad && *value == 0xffc1; i++) {
            float number = read_number(y + at + i * check_y_size(check), check_y_dtype(check));
            if (!isnan(number))
                check_fail(check, "a NaN in row %u gave y = %g", bad, (double)number);
        }
    }
    *value = kept;
    free(y);
}

/* Packs the weights and h of an expert as a linear's. */
static void compare_linear(struct check *check, const struct kt_layout *layout)
{
    const struct kt_layout *whole = &check->layout;
    uint64_t size = check->act[1].size, weights = layout->weight_size[1], panels;
    uint32_t n = check->n_rows, unit = layout->row_unit ? layout->row_unit : 1;
    struct kt_expert expert = {.down = check->source.expert.down};
    struct kt_error error = {KT_OK, ""};
    uint8_t *packed = check_need(aligned_alloc(64, (weights + 64) / 64 * 64));
    uint8_t *act = check_need(calloc(1, size));
    float *h = check_need(malloc(n * whole->h_row_size));
    for (uint32_t r = 0; r < n; r++)
        read_h(check, check->h.data, n, r, h + r * whole->h_row_size / sizeof *h);
    panels = (whole->shape.hidden_size + layout->panel_rows[1] - 1) / layout->panel_rows[1];
    struct kt_pack pack = {layout, KT_STAGE_DOWN, &expert, 0, panels, packed};
    memset(packed, 0x5a, weights);
    if (!layout->keeps_source && check->level->ops->pack(check->instance, &pack, &error))
        check_fail(check, "pack of a linear: %s", error.message);
    if (!layout->keeps_source && memcmp(packed, check->packed[1].data, weights) != 0)
        check_fail(check, "a linear's weights are packed otherwise than an expert's down projection");
    for (uint32_t end = n, begin; end > 0; end = begin) { /* a unit in each job, the last one first */
        begin = (end - 1) / unit * unit;
        struct kt_act_pack job =
            {layout, KT_STAGE_DOWN, KT_DTYPE_F32, n, begin, end, h, (int64_t)whole->h_row_size, act, &error};
        check->level->ops->act_pack(check->instance, &job);
    }
    if (error.status != KT_OK || memcmp(act, check->act[1].data, size) != 0)
        check_fail(check, "plain rows are packed otherwise than h of the same numbers");
    free(h);
    free(act);
    free(packed);
}

/* Only where rows of h are known to be float32. */
void check_same_linear(struct check *check)
{
    const struct kt_layout *whole = &check->layout;
    struct kt_layout layout = {.shape = whole->shape,
                               .stored = whole->stored,
                               .compact = whole->compact,
                               .deterministic = whole->deterministic};
    struct kt_error error = {KT_OK, ""};
    if (!check->model->read_row)
        return;
    make_linear(&layout.shape);
    memcpy(layout.form, whole->form, sizeof layout.form);
    if (check->level->ops->layout(check->instance, &layout, &error)) {
        check_fail(check, "a linear of the down projection is refused: %s", error.message);
        return;
    }
    if (layout.weight_size[1] != whole->weight_size[1] || layout.nominal_size[1] != whole->nominal_size[1] ||
        layout.panel_rows[1] != whole->panel_rows[1] || layout.act_row_size[1] != whole->act_row_size[1] ||
        layout.row_unit != whole->row_unit)
        check_fail(check, "a linear of the down projection has other sizes");
    else
        compare_linear(check, &layout);
    if (check->level->ops->release_layout)
        check->level->ops->release_layout(check->instance, &layout);
}

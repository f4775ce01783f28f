/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numbers.c - compares an expert's output with float64, for any arithmetic of a plugin.
 *
 * weight_row gives the weights that the kernel uses. Beyond them a plugin may lose this much and no more:
 *   activations   a step of 8 bits of the row's largest, 1/127 of it, at each of the two products (a linear
 *                 has one); what is 0 stays 0
 *   weights       rounded once more on the way, to bfloat16: 2^-8
 *   activation    2^-8 of h
 *   sums          float32: (K + 16) roundings, of terms that quants with an offset make larger, 136 times the
 *                 largest weight: of the matrix, since in a row that is 0 nothing tells of its scale
 * The bound of a dense row is wide, so there are rows that are 0 but for one column, and where biases are
 * taken rows whose h is 0 but for one column: there a weight that is left out, or another in its place,
 * stands alone. What is left, a loss everywhere, shows in the mean: roundings by chance give each number a
 * variance of a twelfth of its step squared, and all y of a case together are off by at most 4 times what
 * follows from it.
 */
#include "tools/check/lanes.h"
#include "tools/kt/plugin/plugin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP (1.0 / 127)
#define SHORT 0x1p-8
#define CHANCE 4.0 /* times the standard deviation of random roundings */
#define LEAST 1e-3 /* an error relative to y that always passes */

/* ---- forward ---------------------------------------------------------------------------------- */

static void prepare(struct check *check)
{
    const struct kt_layout *layout = &check->layout;
    uint64_t row = layout->shape.hidden_size * check_y_size(check);
    bool at_end = random_below(&check->random, 2);
    for (int s = (int)check_first_stage(check); s <= KT_STAGE_DOWN; s++) {
        uint64_t n = s ? fill_rows(check, check->n_rows) : check->n_acts;
        guard_free(&check->act[s]);
        check_guard("packed activations", n * layout->act_row_size[s], 64, at_end, &check->act[s]);
        memset(check->act[s].data, 0, check->act[s].size);
    }
    guard_free(&check->h);
    guard_free(&check->y);
    check->y_stride = row + check_y_size(check) * random_below(&check->random, 5);
    if (!check_linear(check))
        check_guard("h", fill_rows(check, check->n_rows) * layout->h_row_size, 64, at_end, &check->h);
    check_guard("y", (check->n_rows - 1) * check->y_stride + row, check_y_size(check), at_end, &check->y);
}

void plugin_forward(struct check *check)
{
    prepare(check);
    memset(check->y.data, 0x5a, check->y.size);
    if (!check_linear(check)) {
        memset(check->h.data, 0x5a, check->h.size);
        pack_rows(check, KT_STAGE_GATE_UP, KT_DTYPE_BF16, 0, check->n_acts, check->act[0].data);
        run_product(check, KT_STAGE_GATE_UP, 0, count_panels(check, KT_STAGE_GATE_UP), 0, check->n_rows,
                    check->h.data);
    }
    guard_seal(&check->h);
    pack_rows(check, KT_STAGE_DOWN, KT_DTYPE_BF16, 0, check->n_rows, check->act[1].data);
    run_product(check, KT_STAGE_DOWN, 0, count_panels(check, KT_STAGE_DOWN), 0, check->n_rows, check->y.data);
    guard_unseal(&check->h);
    const struct guarded *written[] = {&check->act[0], &check->h, &check->act[1], &check->y};
    static const char *const names[] = {"act_pack wrote beyond its rows", "gate_up wrote beyond h",
                                        "act_pack wrote beyond its rows", "down wrote beyond y"};
    for (int i = 0; i < 4; i++)
        if (written[i]->map && !guard_intact(written[i]))
            check_fail(check, "%s", names[i]);
    check_gaps(check);
}

float plugin_read_y(const struct check *check, uint32_t r, uint64_t i)
{
    const uint8_t *row = check->y.data + check->out_index[r] * check->y_stride;
    return read_number(row + i * check_y_size(check), check_y_dtype(check));
}

/* ---- float64 ---------------------------------------------------------------------------------- */

/* A number, its error bound, and the variance of its error by random rounding. */
struct number {
    struct value value;
    double variance;
};

/* The numbers of a row that are not zero, and the largest of them. When the row is complete: what each adds
 * to a sum of products, times the weight its value, times the weight's size its error bound, times the
 * weight's square its variance. */
struct row {
    struct number *numbers;
    uint64_t *places;
    uint64_t n;
    double largest;
    double sizes; /* the sum of the numbers' sizes */
    double *value, *noise, *variance;
    float *weights;  /* those of the numbers' places */
    double *step;    /* of a linear: by which a number is rounded */
    double *sums;    /* of errors of equal numbers */
    uint32_t *alike; /* which sum a number belongs to */
    uint32_t n_alike;
};

static void add_to_row(struct row *row, uint64_t place, struct value value, double variance)
{
    double size = fabs(value.value) + value.bound;
    if (size <= 0)
        return;
    row->places[row->n] = place;
    row->numbers[row->n++] = (struct number){value, variance};
    row->largest = !(row->largest > size) ? size : row->largest;
}

static double square(double x)
{
    return x * x;
}

static bool equal(const struct number *a, const struct number *b)
{
    return memcmp(&a->value.value, &b->value.value, sizeof(double)) == 0;
}

/* Which numbers of a linear's row are equal? */
static void find_alike(struct row *row)
{
    uint64_t *first = check_need(malloc((row->n + 1) * sizeof(*first)));
    row->n_alike = 0;
    for (uint64_t j = 0; j < row->n; j++) {
        uint32_t a = 0;
        while (a < row->n_alike && !equal(&row->numbers[first[a]], &row->numbers[j]))
            a++;
        if (a == row->n_alike)
            first[row->n_alike++] = j;
        row->alike[j] = a;
    }
    free(first);
}

static void finish_row(struct row *row)
{
    row->sizes = 0;
    for (uint64_t j = 0; j < row->n; j++) {
        const struct number *number = &row->numbers[j];
        double size = fabs(number->value.value) + number->value.bound, step = fmin(size, STEP * row->largest);
        row->sizes += size;
        row->value[j] = number->value.value;
        row->noise[j] = number->value.bound + step + SHORT * size;
        row->variance[j] = number->variance + square(SHORT * size) / 12 + (row->step ? 0 : square(step) / 12);
        if (row->step)
            row->step[j] = step;
    }
    if (row->step)
        find_alike(row);
}

/* The variance that rounding a linear's input gives a sum. Equal numbers are rounded alike, so their errors
 * add up: of the whole row if it has one scale, or of neighbors. */
static double add_alike(const struct row *x)
{
    double rows = 0, runs = 0, run = 0;
    for (uint64_t j = 0; j < x->n; j++) {
        double off = (double)x->weights[j] * x->step[j];
        x->sums[x->alike[j]] += off;
        run += off;
        if (j + 1 == x->n || x->alike[j + 1] != x->alike[j]) {
            runs += square(run);
            run = 0;
        }
    }
    for (uint32_t a = 0; a < x->n_alike; a++) {
        rows += square(x->sums[a]);
        x->sums[a] = 0;
    }
    return fmax(rows, runs) / 12;
}

/* What a row of n weights adds up to. */
struct products {
    double sum, noise, variance, sizes;
};

LANES_CLONES static struct products add_products(const float *w, const struct row *x)
{
    lanes sum = {0}, noise = {0}, variance = {0}, sizes = {0}, weight, at;
    uint64_t i = 0;
    for (; i + LANES <= x->n; i += LANES) {
        lanes_load_floats(w + i, &weight);
        lanes_load(x->value + i, &at);
        sum += weight * at;
        lanes_load(x->variance + i, &at);
        variance += weight * weight * at;
        lanes size = {0};
        lanes_add_size(&size, &weight);
        sizes += size;
        lanes_load(x->noise + i, &at);
        noise += size * at;
    }
    struct products all = {lanes_sum(&sum), lanes_sum(&noise), lanes_sum(&variance), lanes_sum(&sizes)};
    for (; i < x->n; i++) {
        double size = fabs((double)w[i]);
        all.sum += (double)w[i] * x->value[i];
        all.noise += size * x->noise[i];
        all.variance += size * size * x->variance[i];
        all.sizes += size;
    }
    return all;
}

/* sum(w x). `largest_w` is the largest weight of the row, NaN if one of them is NaN. */
static struct number multiply(const float *w, double largest_w, const struct row *x, uint64_t k,
                              const float *bias, uint64_t i)
{
    if (isnan(largest_w))
        return (struct number){{NAN, 0}, 0};
    for (uint64_t j = 0; j < x->n; j++)
        x->weights[j] = w[x->places[j]];
    struct products all = add_products(x->weights, x);
    if (x->step)
        all.variance += add_alike(x);
    all.noise +=
        ((double)k + 16) * 0x1p-24 * 136 * largest_w * x->sizes + 0x1p-120 * (x->sizes + all.sizes + 1);
    if (bias) {
        all.sum += (double)bias[i];
        all.noise += 0x1p-20 * fabs((double)bias[i]);
    }
    return (struct number){{all.sum, all.noise}, all.variance};
}

struct expert {
    double *largest[3]; /* of all weights; NaN for a row that has one */
    struct row x, h;
    double wrong, chance, size; /* sums of squares over all y: of the error, of its random part, and of y */
};

static void *take(uint64_t n, size_t size)
{
    return check_need(calloc(n, size));
}

static void create_row(struct row *row, uint64_t n, bool linear)
{
    *row = (struct row){.numbers = take(n, sizeof(*row->numbers)),
                        .places = take(n, sizeof(*row->places)),
                        .value = take(n, sizeof(double)),
                        .noise = take(n, sizeof(double)),
                        .variance = take(n, sizeof(double)),
                        .weights = take(n, sizeof(float)),
                        .step = linear ? take(n, sizeof(double)) : NULL,
                        .sums = linear ? take(n, sizeof(double)) : NULL,
                        .alike = linear ? take(n, sizeof(*row->alike)) : NULL};
}

static void free_row(struct row *row)
{
    void *const all[] = {row->numbers, row->places, row->value, row->noise, row->variance,
                         row->weights, row->step,   row->sums,  row->alike};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

static void find_largest(const struct check *check, struct expert *expert)
{
    const struct kt_shape *shape = &check->layout.shape;
    for (int p = (int)check_first_projection(check); p <= KT_DOWN; p++) {
        uint64_t rows = projection_rows(shape, (enum kt_projection)p);
        uint64_t cols = projection_cols(shape, (enum kt_projection)p);
        double largest = 0;
        expert->largest[p] = check_need(calloc(rows, sizeof(double)));
        for (uint64_t i = 0; i < rows * cols; i++) {
            double size = fabs((double)check->weights[p][i]);
            if (isnan(size))
                expert->largest[p][i / cols] = NAN;
            else if (size > largest)
                largest = size;
        }
        for (uint64_t r = 0; r < rows; r++)
            expert->largest[p][r] = isnan(expert->largest[p][r]) ? NAN : largest;
    }
}

/* Computes h of a token; a linear has the input in its place. */
static void make_h(const struct check *check, uint32_t token, struct expert *expert)
{
    const struct kt_shape *shape = &check->layout.shape;
    uint64_t k = input_cols(check);
    float *x = check_need(malloc(k * sizeof(*x)));
    read_input(check, token, x);
    expert->x.n = expert->h.n = 0;
    expert->x.largest = expert->h.largest = 0;
    for (uint64_t c = 0; c < k; c++)
        add_to_row(check_linear(check) ? &expert->h : &expert->x, c, (struct value){(double)x[c], 0}, 0);
    free(x);
    finish_row(&expert->x);
    for (uint64_t i = 0; i < shape->intermediate_size && !check_linear(check); i++) {
        struct number gate = {{0, 0}, 0};
        if (check_first_projection(check) == KT_GATE)
            gate = multiply(check->weights[KT_GATE] + i * k, expert->largest[KT_GATE][i], &expert->x, k,
                            check->source.expert.gate_bias, i);
        struct number up = multiply(check->weights[KT_UP] + i * k, expert->largest[KT_UP][i], &expert->x, k,
                                    check->source.expert.up_bias, i);
        struct value h = value_activation(shape, gate.value, up.value);
        double of_gate = 1.13 * (fabs(up.value.value) + 1), of_up = fabs(gate.value.value);
        if (shape->activation == KT_ACTIVATION_RELU2)
            of_up = 2 * fmax(up.value.value, 0);
        h.bound += SHORT * fabs(h.value);
        if (isnan(h.value)) /* where one is NaN, all of y is */
            h = (struct value){0, INFINITY};
        add_to_row(&expert->h, i, h, square(of_gate) * gate.variance + square(of_up) * up.variance);
    }
    finish_row(&expert->h);
}

/* y of the row whose h stands in `expert`. */
static void make_y(const struct check *check, const struct expert *expert, struct number *y)
{
    const struct kt_shape *shape = &check->layout.shape;
    uint64_t k = shape->intermediate_size;
    bool poisoned = isinf(expert->h.largest);
    for (uint64_t i = 0; i < shape->hidden_size; i++) {
        y[i] = (struct number){{NAN, 0}, 0};
        if (!poisoned)
            y[i] = multiply(check->weights[KT_DOWN] + i * k, expert->largest[KT_DOWN][i], &expert->h, k,
                            check->source.expert.down_bias, i);
        if (check_y_size(check) == 2) {
            y[i].value.bound += SHORT * fabs(y[i].value.value);
            y[i].variance += square(SHORT * y[i].value.value) / 12;
        }
    }
}

static void compare_row(struct plugin_case *item, uint32_t r, const struct number *y, struct expert *expert)
{
    struct check *check = &item->check;
    for (uint64_t i = 0; i < check->layout.shape.hidden_size; i++) {
        float got = plugin_read_y(check, r, i);
        struct value want = y[i].value;
        if (isnan(want.value) ? isnan(got) : fabs((double)got - want.value) <= want.bound) {
            if (isfinite(want.value)) {
                expert->wrong += square((double)got - want.value);
                expert->chance += y[i].variance;
                expert->size += square(want.value);
            }
            continue;
        }
        check_fail(check,
                   "y[%u][%llu] is %.7g; float64 gives %.7g with the weights that weight_row says, and "
                   "arithmetic of "
                   "8 bits may be off by %.2g",
                   r, (unsigned long long)i, (double)got, want.value, want.bound);
        return;
    }
}

/* All rows. Those of one token have the same y, which is computed once. */
static void compare_rows(struct plugin_case *item, struct expert *expert)
{
    struct check *check = &item->check;
    struct number *y = check_need(malloc(check->layout.shape.hidden_size * sizeof(*y)));
    for (uint32_t a = 0; a < check->n_acts; a++) {
        bool made = false;
        for (uint32_t r = 0; r < check->n_rows && !check->wrong; r++) {
            if (check->index[r] != a)
                continue;
            if (!made) {
                make_h(check, a, expert);
                make_y(check, expert, y);
            }
            made = true;
            compare_row(item, r, y, expert);
        }
    }
    free(y);
}

void plugin_compare(struct plugin_case *item)
{
    struct check *check = &item->check;
    struct expert expert = {.wrong = 0};
    create_row(&expert.x, check->layout.shape.hidden_size, false);
    create_row(&expert.h, check->layout.shape.intermediate_size, check_linear(check));
    find_largest(check, &expert);
    compare_rows(item, &expert);
    double most = CHANCE * sqrt(expert.chance) + LEAST * sqrt(expert.size);
    if (!check->wrong && sqrt(expert.wrong) > most)
        check_fail(check,
                   "all y together are off by %.2g of their size; roundings to 8 bits give at most %.2g",
                   sqrt(expert.wrong / expert.size), most / sqrt(expert.size));
    for (int p = 0; p < 3; p++)
        free(expert.largest[p]);
    free_row(&expert.x);
    free_row(&expert.h);
}

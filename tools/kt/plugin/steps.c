/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c - checks of each function of a level, for every case. */
#include "tools/kt/plugin/plugin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROW_LIMIT 0.5      /* relative; two unrelated rows differ by 1.4 */
#define MATRIX_LIMIT 0.2   /* 4 bits lose up to 0.15 */
#define KEPT_LIMIT 0x1p-13 /* relative; float32 in another order differs by less, float16 by more */
#define MAX_COLUMNS 40     /* that a pass looks at one by one */
#define MANY_ROWS 1024
#define SMALL 1024 /* weights of a matrix, so that many rows take no time */

/* ---- pack, weight_row ---------------------------------------------------------------------------- */

static void step_pack(struct plugin_case *item)
{
    check_pack(&item->check);
}

void plugin_job_pack(void *data, struct plugin_child *child)
{
    plugin_cases_run(data, child, plugin_job_pack, step_pack);
}

void plugin_read_weights(struct check *check)
{
    for (int p = (int)check_first_projection(check); p <= KT_DOWN && !check->wrong; p++) {
        uint64_t rows = check_view(check, (enum kt_projection)p)->rows,
                 cols = check_view(check, (enum kt_projection)p)->cols;
        struct kt_error error = {.message = ""};
        struct guarded row = {0};
        check->weights[p] = check_need(malloc(rows * cols * sizeof(float)));
        check_guard("weight_row's output", cols * sizeof(float), sizeof(float), true, &row);
        guard_seal(&check->packed[p == KT_DOWN]);
        for (uint64_t r = 0; r < rows && !check->wrong; r++) {
            check_enter(check, "weight_row");
            if (check->level->ops->weight_row(check->instance, &check->layout,
                                              check->packed[p == KT_DOWN].data, &check->source.expert,
                                              (enum kt_projection)p, r, (float *)(void *)row.data,
                                              &error) != KT_OK)
                check_fail(check, "row %llu of projection %d: %.200s", (unsigned long long)r, p,
                           error.message);
            memcpy(check->weights[p] + r * cols, row.data, cols * sizeof(float));
            if (!guard_intact(&row))
                check_fail(check, "it wrote before its row");
        }
        guard_unseal(&check->packed[p == KT_DOWN]);
        guard_free(&row);
    }
}

/* Adds squares; a row with NaN or infinity is left out. false: the row's error is above `limit`. */
static bool add_row(const float *have, const float *want, uint64_t n, double limit, double *wrong,
                    double *size)
{
    double off = 0, sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        double d = (double)have[i] - (double)want[i];
        if (!isfinite(want[i]))
            return true;
        off += d * d;
        sum += (double)want[i] * (double)want[i];
    }
    *wrong += off;
    *size += sum;
    return off <= limit * limit * sum + 0x1p-230;
}

static void step_weights(struct plugin_case *item)
{
    struct check *check = &item->check;
    bool kept = item->run->plugin->abi_minor >= 4 && !check->layout.rounding;
    check_pack_once(check);
    if (!check->wrong)
        plugin_read_weights(check);
    for (int p = (int)check_first_projection(check); p <= KT_DOWN && !check->wrong; p++) {
        const struct kt_view *view = check_view(check, (enum kt_projection)p);
        float *source = check_need(malloc(view->cols * sizeof(*source)));
        double wrong = 0, size = 0;
        for (uint64_t r = 0; r < view->rows && !check->wrong; r++)
            if (kt_view_row(view, r, source, NULL) == KT_OK &&
                !add_row(check->weights[p] + r * view->cols, source, view->cols,
                         kept ? KEPT_LIMIT : ROW_LIMIT, &wrong, &size))
                check_fail(check, "row %llu of projection %d (gate, up, down) is not the source's%s",
                           (unsigned long long)r, p,
                           kept ? "; if packing rounds, kt_layout.rounding must say so" : "");
        free(source);
        if (!check->wrong && sqrt(wrong) > MATRIX_LIMIT * sqrt(size) + 0x1p-115)
            check_fail(check,
                       "projection %d differs from its source by %.2g in the mean; %g is what 4 bits lose", p,
                       sqrt(wrong / size), MATRIX_LIMIT);
    }
}

void plugin_job_weights(void *data, struct plugin_child *child)
{
    plugin_cases_run(data, child, plugin_job_weights, step_weights);
}

/* ---- act_pack ------------------------------------------------------------------------------------- */

/* Equal numbers in each input format must give equal bytes. */
static void step_activations(struct plugin_case *item)
{
    struct check *check = &item->check;
    enum kt_stage stage = check_first_stage(check);
    check_pack_once(check);
    make_inputs(check);
    round_inputs(check);
    check_act_pack(check, stage);
    uint64_t size = check->act[stage].size;
    uint8_t *half = check_need(calloc(1, size));
    pack_rows(check, stage, KT_DTYPE_F16, 0, check_linear(check) ? check->n_rows : check->n_acts, half);
    if (memcmp(half, check->act[stage].data, size) != 0)
        check_fail(check, "rows in F16 are packed otherwise than the same numbers in BF16");
    free(half);
}

void plugin_job_activations(void *data, struct plugin_child *child)
{
    plugin_cases_run(data, child, plugin_job_activations, step_activations);
}

/* ---- numbers ---------------------------------------------------------------------------------------- */

/* n rows, each from the input row of the same number. */
static void set_rows(struct check *check, uint32_t n)
{
    uint64_t size = (uint64_t)n * input_cols(check) * sizeof(*check->input);
    check->n_rows = check->n_acts = n;
    check->input = check_need(realloc(check->input, size));
    check->index = check_need(realloc(check->index, n * sizeof(*check->index)));
    check->out_index = check_need(realloc(check->out_index, n * sizeof(*check->out_index)));
    memset(check->input, 0, size);
    for (uint32_t r = 0; r < n; r++)
        check->index[r] = check->out_index[r] = r;
}

/* The i-th of n positions among k: the first, the last and some between. */
static uint64_t spread(uint64_t i, uint64_t n, uint64_t k)
{
    return n > 1 ? i * (k - 1) / (n - 1) : 0;
}

static void try_columns(struct plugin_case *item)
{
    struct check *check = &item->check;
    uint64_t k = input_cols(check);
    uint32_t n = k < MAX_COLUMNS ? (uint32_t)k : MAX_COLUMNS;
    set_rows(check, n);
    for (uint32_t r = 0; r < n; r++)
        check->input[r * k + spread(r, n, k)] = to_bf16(r % 2 ? 1.5f : -3.0f);
    plugin_forward(check);
    plugin_compare(item);
}

/* With an input of 0, biases alone make h, which is 0 except for one column. */
static void try_columns_of_h(struct plugin_case *item)
{
    struct check *check = &item->check;
    struct kt_expert *expert = &check->source.expert;
    const struct kt_expert kept = *expert;
    uint64_t k = check->layout.shape.intermediate_size, n = k < MAX_COLUMNS ? k : MAX_COLUMNS;
    struct guarded bias[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++) {
        check_guard("a bias", k * sizeof(float), sizeof(float), true, &bias[i]);
        memset(bias[i].data, 0, bias[i].size);
    }
    expert->gate_bias = (const float *)(const void *)bias[0].data;
    expert->up_bias = (const float *)(const void *)bias[1].data;
    set_rows(check, 1);
    for (uint64_t i = 0; i < n && !check->wrong; i++) {
        float *gate = (float *)(void *)bias[0].data + spread(i, n, k);
        float *up = (float *)(void *)bias[1].data + spread(i, n, k);
        *gate = 2.0f;
        *up = 0.75f;
        plugin_forward(check);
        plugin_compare(item);
        *gate = *up = 0.0f;
    }
    *expert = kept;
    guard_free(&bias[0]);
    guard_free(&bias[1]);
}

/* As many rows of an expert as the core multiplies at once, with few distinct inputs. */
static void try_many_rows(struct plugin_case *item)
{
    struct check *check = &item->check;
    free(check->input);
    free(check->index);
    free(check->out_index);
    check->n_rows = MANY_ROWS;
    check->n_acts = 5;
    make_inputs(check);
    plugin_forward(check);
    plugin_compare(item);
}

static void step_numbers(struct plugin_case *item)
{
    struct check *check = &item->check;
    if (!check->wrong)
        plugin_read_weights(check);
    if (check->wrong)
        return;
    make_inputs(check);
    plugin_forward(check);
    plugin_compare(item);
    if (!check->wrong)
        try_columns(item);
    if (!check->wrong && check->layout.shape.has_bias == 7)
        try_columns_of_h(item);
    if (!check->wrong && check->layout.shape.hidden_size * check->layout.shape.intermediate_size <= SMALL)
        try_many_rows(item);
}

static void step_packed_numbers(struct plugin_case *item)
{
    check_pack_once(&item->check);
    step_numbers(item);
}

/* An option's value may change how weights are packed, so here pack is checked as well. */
void plugin_step_option(struct plugin_case *item)
{
    check_pack(&item->check);
    step_numbers(item);
}

void plugin_job_numbers(void *data, struct plugin_child *child)
{
    plugin_cases_run(data, child, plugin_job_numbers, step_packed_numbers);
}

/* ---- ranges of panels, places of rows, NaN ----------------------------------------------------------- */

static void step_ranges(struct plugin_case *item)
{
    struct check *check = &item->check;
    check_pack_once(check);
    make_inputs(check);
    plugin_forward(check);
    if (!check->wrong && !check_linear(check))
        check_ranges(check, KT_STAGE_GATE_UP, &check->h);
    if (!check->wrong)
        check_ranges(check, KT_STAGE_DOWN, &check->y);
    if (!check->wrong)
        check_places(check);
}

void plugin_job_ranges(void *data, struct plugin_child *child)
{
    plugin_cases_run(data, child, plugin_job_ranges, step_ranges);
}

static void compare_with(struct check *check, const float *before, uint32_t bad)
{
    uint64_t n = check->layout.shape.hidden_size;
    for (uint32_t r = 0; r < check->n_rows && !check->wrong; r++) {
        bool finite = true;
        for (uint64_t i = 0; i < n && !check->wrong; i++) {
            float now = plugin_read_y(check, r, i);
            finite = finite && isfinite(now);
            if (check->index[r] != bad && memcmp(&now, &before[r * n + i], sizeof(now)) != 0)
                check_fail(check, "a NaN in token %u changed y[%u][%llu], which is token %u's", bad, r,
                           (unsigned long long)i, check->index[r]);
        }
        if (check->index[r] == bad && finite && !check->wrong)
            check_fail(check, "a NaN in token %u gave a y of numbers only: it is hidden", bad);
    }
}

static void step_isolation(struct plugin_case *item)
{
    struct check *check = &item->check;
    uint64_t k = input_cols(check), n = check->layout.shape.hidden_size;
    check_pack_once(check);
    make_inputs(check);
    plugin_forward(check);
    float *before = check_need(malloc(check->n_rows * n * sizeof(*before)));
    for (uint32_t r = 0; r < check->n_rows; r++)
        for (uint64_t i = 0; i < n; i++)
            before[r * n + i] = plugin_read_y(check, r, i);
    uint32_t bad = check->index[random_below(&check->random, check->n_rows)];
    check->input[bad * k + random_below(&check->random, (uint32_t)k)] = 0x7fc1;
    if (!check->wrong)
        plugin_forward(check);
    if (!check->wrong)
        compare_with(check, before, bad);
    free(before);
}

void plugin_job_isolation(void *data, struct plugin_child *child)
{
    plugin_cases_run(data, child, plugin_job_isolation, step_isolation);
}

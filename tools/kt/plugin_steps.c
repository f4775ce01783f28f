/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_steps.c - what must hold of each function of a level, in every case. */
#include "tools/kt/plugin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROW_LIMIT 0.5    /* a row of weights that another one stands for is off by 1.4 */
#define MATRIX_LIMIT 0.2 /* 4 bits lose up to 0.15 */
#define MAX_COLUMNS 40    /* that a pass looks at one by one */

/* ---- pack, weight_row ---------------------------------------------------------------------------- */

static void step_pack(struct plugin_case *item)
{
    check_pack(&item->check);
}

void plugin_job_pack(void *data, struct plugin_child *child)
{
    plugin_cases_run(data, child, plugin_job_pack, step_pack);
}

static const struct kt_view *view_of(const struct check *check, int projection)
{
    const struct kt_expert *expert = &check->source.expert;

    return projection == KT_DOWN ? &expert->down : projection == KT_UP ? &expert->up : &expert->gate;
}

static void read_weights(struct check *check)
{
    for (int p = 0; p < 3 && !check->wrong; p++) {
        uint64_t rows = view_of(check, p)->rows, cols = view_of(check, p)->cols;
        struct kt_error error = {.message = ""};
        struct guarded row = {0};
        check->weights[p] = check_need(malloc(rows * cols * sizeof(float)));
        check_guard("weight_row's output", cols * sizeof(float), sizeof(float), true, &row);
        guard_seal(&check->packed[p == KT_DOWN]);
        for (uint64_t r = 0; r < rows && !check->wrong; r++) {
            check_enter(check, "weight_row");
            if (check->level->ops->weight_row(check->instance, &check->layout, check->packed[p == KT_DOWN].data,
                                              &check->source.expert, (enum kt_projection)p, r,
                                              (float *)(void *)row.data, &error) != KT_OK)
                check_fail(check, "row %llu of projection %d: %.200s", (unsigned long long)r, p, error.message);
            memcpy(check->weights[p] + r * cols, row.data, cols * sizeof(float));
            if (!guard_intact(&row))
                check_fail(check, "it wrote before its row");
        }
        guard_unseal(&check->packed[p == KT_DOWN]);
        guard_free(&row);
    }
}

/* Adds squares; a row with numbers that are none says nothing. */
static bool add_row(const float *have, const float *want, uint64_t n, double *wrong, double *size)
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
    return off <= ROW_LIMIT * ROW_LIMIT * sum + 0x1p-230;
}

static void step_weights(struct plugin_case *item)
{
    struct check *check = &item->check;

    check_pack(check);
    if (!check->wrong)
        read_weights(check);
    for (int p = 0; p < 3 && !check->wrong; p++) {
        const struct kt_view *view = view_of(check, p);
        float *source = check_need(malloc(view->cols * sizeof(*source)));
        double wrong = 0, size = 0;
        for (uint64_t r = 0; r < view->rows && !check->wrong; r++)
            if (kt_view_row(view, r, source, NULL) == KT_OK &&
                !add_row(check->weights[p] + r * view->cols, source, view->cols, &wrong, &size))
                check_fail(check, "row %llu of projection %d (gate, up, down) is not the source's",
                           (unsigned long long)r, p);
        free(source);
        if (!check->wrong && sqrt(wrong) > MATRIX_LIMIT * sqrt(size) + 0x1p-115)
            check_fail(check, "projection %d differs from its source by %.2g in the mean; %g is what 4 bits lose", p,
                       sqrt(wrong / size), MATRIX_LIMIT);
    }
}

void plugin_job_weights(void *data, struct plugin_child *child)
{
    plugin_cases_run(data, child, plugin_job_weights, step_weights);
}

/* ---- act_pack ------------------------------------------------------------------------------------- */

/* The same numbers in each format of the input give the same bytes. */
static void step_activations(struct plugin_case *item)
{
    struct check *check = &item->check;
    uint64_t n = check->n_acts * check->layout.shape.hidden_size;

    check_pack(check);
    make_inputs(check);
    for (uint64_t i = 0; i < n; i++) { /* what float16 and bfloat16 both have */
        uint32_t bits = (uint32_t)check->input[i] << 16;
        float value;
        memcpy(&value, &bits, sizeof(value));
        value = fmaxf(fminf(rintf(value * 32) / 32, 3.96875f), -3.96875f);
        check->input[i] = to_bf16(value);
    }
    check_act_pack(check, KT_STAGE_GATE_UP);
    uint64_t size = check->act[0].size;
    uint8_t *half = check_need(calloc(1, size));
    pack_rows(check, KT_STAGE_GATE_UP, KT_DTYPE_F16, 0, check->n_acts, half);
    if (memcmp(half, check->act[0].data, size) != 0)
        check_fail(check, "rows in F16 are packed otherwise than the same numbers in BF16");
    free(half);
}

void plugin_job_activations(void *data, struct plugin_child *child)
{
    plugin_cases_run(data, child, plugin_job_activations, step_activations);
}

/* ---- numbers ---------------------------------------------------------------------------------------- */

/* n rows, each of which comes from the row of its number. */
static void set_rows(struct check *check, uint32_t n)
{
    uint64_t size = (uint64_t)n * check->layout.shape.hidden_size * sizeof(*check->input);

    check->n_rows = check->n_acts = n;
    check->input = check_need(realloc(check->input, size));
    check->index = check_need(realloc(check->index, n * sizeof(*check->index)));
    check->out_index = check_need(realloc(check->out_index, n * sizeof(*check->out_index)));
    memset(check->input, 0, size);
    for (uint32_t r = 0; r < n; r++)
        check->index[r] = check->out_index[r] = r;
}

/* Number i of n places among k: the first, the last and some between. */
static uint64_t spread(uint64_t i, uint64_t n, uint64_t k)
{
    return n > 1 ? i * (k - 1) / (n - 1) : 0;
}

static void try_columns(struct plugin_case *item)
{
    struct check *check = &item->check;
    uint64_t k = check->layout.shape.hidden_size;
    uint32_t n = k < MAX_COLUMNS ? (uint32_t)k : MAX_COLUMNS;

    set_rows(check, n);
    for (uint32_t r = 0; r < n; r++)
        check->input[r * k + spread(r, n, k)] = to_bf16(r % 2 ? 1.5f : -3.0f);
    plugin_forward(check);
    plugin_compare(item);
}

/* Biases make h: with an input of 0, it is 0 but for one column. */
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

static void step_numbers(struct plugin_case *item)
{
    struct check *check = &item->check;

    check_pack(check);
    if (!check->wrong)
        read_weights(check);
    if (check->wrong)
        return;
    make_inputs(check);
    plugin_forward(check);
    plugin_compare(item);
    if (!check->wrong)
        try_columns(item);
    if (!check->wrong && check->layout.shape.has_bias == 7)
        try_columns_of_h(item);
}

void plugin_job_numbers(void *data, struct plugin_child *child)
{
    plugin_cases_run(data, child, plugin_job_numbers, step_numbers);
}

/* ---- ranges of panels, NaN -------------------------------------------------------------------------- */

static void step_ranges(struct plugin_case *item)
{
    struct check *check = &item->check;

    check_pack(check);
    make_inputs(check);
    plugin_forward(check);
    if (!check->wrong)
        check_ranges(check, KT_STAGE_GATE_UP, &check->h);
    if (!check->wrong)
        check_ranges(check, KT_STAGE_DOWN, &check->y);
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
    uint64_t k = check->layout.shape.hidden_size;

    check_pack(check);
    make_inputs(check);
    plugin_forward(check);
    float *before = check_need(malloc(check->n_rows * k * sizeof(*before)));
    for (uint32_t r = 0; r < check->n_rows; r++)
        for (uint64_t i = 0; i < k; i++)
            before[r * k + i] = plugin_read_y(check, r, i);
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

/* ---- cut ---------------------------------------------------------------------------------------------- */

/* The shard's weights are those of the whole expert, from row or column `begin` on. */
static void compare_shard(struct check *check, const struct kt_layout *shard, struct guarded packed[2],
                          uint64_t begin)
{
    uint64_t rest = shard->shape.intermediate_size, hidden = shard->shape.hidden_size;
    uint64_t longest = rest > hidden ? rest : hidden;
    float *row = check_need(malloc(longest * sizeof(*row)));

    for (int p = 0; p < 3 && !check->wrong; p++) {
        uint64_t rows = p == KT_DOWN ? hidden : rest, cols = p == KT_DOWN ? rest : hidden;
        uint64_t whole = view_of(check, p)->cols;
        for (uint64_t r = 0; r < rows && !check->wrong; r++) {
            const float *want = check->weights[p] + (p == KT_DOWN ? r : begin + r) * whole + (p == KT_DOWN ? begin : 0);
            struct kt_error error = {.message = ""};
            check_enter(check, "weight_row of a shard");
            if (check->level->ops->weight_row(check->instance, shard, packed[p == KT_DOWN].data, NULL,
                                              (enum kt_projection)p, r, row, &error) != KT_OK)
                check_fail(check, "%.200s", error.message);
            for (uint64_t c = 0; c < cols && !check->wrong; c++)
                if (memcmp(&row[c], &want[c], sizeof(*row)) != 0 && !(isnan(row[c]) && isnan(want[c])))
                    check_fail(check, "row %llu, column %llu of projection %d is not the whole expert's",
                               (unsigned long long)r, (unsigned long long)c, p);
        }
    }
    free(row);
}

static void cut_stage(struct check *check, const struct kt_layout *shard, int stage, uint64_t begin,
                      struct guarded *out)
{
    uint64_t rows = stage == KT_STAGE_DOWN ? shard->shape.hidden_size : shard->shape.intermediate_size;
    uint64_t panels = (rows + shard->panel_rows[stage] - 1) / shard->panel_rows[stage];
    uint64_t middle = random_below(&check->random, (uint32_t)panels + 1);
    struct kt_cut job = {&check->layout, shard,  (enum kt_stage)stage, begin, 0, middle, check->packed[stage].data,
                         out->data};

    memset(out->data, 0x5a, out->size);
    guard_seal(&check->packed[stage]);
    check_enter(check, "cut");
    check->level->ops->cut(check->instance, &job);
    job.panel_begin = middle;
    job.panel_end = panels;
    check->level->ops->cut(check->instance, &job);
    guard_unseal(&check->packed[stage]);
    if (!guard_intact(out))
        check_fail(check, "it wrote beyond the shard of stage %d", stage);
}

static void step_cut(struct plugin_case *item)
{
    struct check *check = &item->check;
    const struct kt_layout *layout = &check->layout;
    uint64_t units = layout->k_unit ? (layout->shape.intermediate_size - 1) / layout->k_unit : 0;
    struct kt_layout shard = {.shape = layout->shape};
    struct guarded packed[2] = {{0}, {0}};
    struct kt_error error;

    if (units == 0 || layout->keeps_source)
        return;
    check_pack(check);
    if (!check->wrong)
        read_weights(check);
    uint64_t begin = layout->k_unit * (1 + random_below(&check->random, (uint32_t)units));
    shard.shape.intermediate_size -= begin;
    memcpy(shard.form, layout->form, sizeof(shard.form));
    if (check->wrong)
        return;
    if (!plugin_ask_layout(item, &shard, &error)) {
        check_fail(check, "a shard from row %llu on, a multiple of k_unit, is refused: %.200s",
                   (unsigned long long)begin, error.message);
        return;
    }
    for (int s = 0; s < 2; s++) {
        check_guard("a shard's weights", shard.weight_size[s], 64, true, &packed[s]);
        cut_stage(check, &shard, s, begin, &packed[s]);
    }
    if (!check->wrong)
        compare_shard(check, &shard, packed, begin);
    guard_free(&packed[0]);
    guard_free(&packed[1]);
    plugin_forget_layout(check, &shard);
}

void plugin_job_cut(void *data, struct plugin_child *child)
{
    plugin_cases_run(data, child, plugin_job_cut, step_cut);
}

/* ---- unpack ------------------------------------------------------------------------------------------- */

/* A grid of units of a view, or of its scales, as unpack writes it. */
struct grid {
    const uint8_t *data;
    int64_t row_stride, col_stride;
    uint64_t rows, cols;
    uint32_t bytes;
};

static struct grid grid_of_scales(const struct kt_view *view, const struct kt_scales *scales)
{
    struct grid grid = {.data = scales->data};

    if (!scales->data)
        return grid;
    kt_dtype_block(scales->dtype, NULL, &grid.bytes);
    grid.rows = (view->rows - 1) / scales->group_rows + 1;
    grid.cols = (view->cols - 1) / scales->group_cols + 1;
    grid.row_stride = scales->row_stride;
    grid.col_stride = scales->col_stride;
    return grid;
}

static struct grid grid_of_codes(const struct kt_view *view)
{
    struct grid grid = {.data = view->data, .rows = view->rows, .row_stride = view->row_stride,
                        .col_stride = view->block_stride};
    uint32_t elements;

    kt_dtype_block(view->dtype, &elements, &grid.bytes);
    grid.cols = view->cols / elements;
    return grid;
}

static void compare_grid(struct check *check, const struct grid *grid, const struct guarded *got, const char *what)
{
    for (uint64_t r = 0; r < grid->rows && !check->wrong; r++)
        for (uint64_t c = 0; c < grid->cols; c++)
            if (memcmp(got->data + (r * grid->cols + c) * grid->bytes,
                       grid->data + (int64_t)r * grid->row_stride + (int64_t)c * grid->col_stride, grid->bytes) != 0) {
                check_fail(check, "%s of row %llu, block %llu are not the source's bits", what, (unsigned long long)r,
                           (unsigned long long)c);
                break;
            }
    if (got->map && !guard_intact(got))
        check_fail(check, "it wrote beyond the %s", what);
}

static void unpack_projection(struct check *check, int p)
{
    const struct kt_view *view = view_of(check, p);
    struct grid grids[3] = {grid_of_codes(view), grid_of_scales(view, &view->scales),
                            grid_of_scales(view, &view->zeros)};
    static const char *const names[3] = {"codes", "scales", "zeros"};
    struct guarded out[3] = {{0}, {0}, {0}};
    struct kt_unpack job = {.layout = &check->layout, .projection = (enum kt_projection)p,
                            .packed = check->packed[p == KT_DOWN].data, .col_end = view->cols};
    struct kt_error error = {.message = ""};

    check_enter(check, "unpack");
    enum kt_status status = check->level->ops->unpack(check->instance, &job, &error);
    if (status != KT_OK) {
        if (status != KT_E_UNSUPPORTED || !error.message[0])
            check_fail(check, "asked whether it can, it gives status %d and \"%.200s\"; it refuses with "
                              "KT_E_UNSUPPORTED and a reason",
                       (int)status, error.message);
        return;
    }
    for (int i = 0; i < 3; i++)
        if (grids[i].data)
            check_guard("unpacked bytes", grids[i].rows * grids[i].cols * grids[i].bytes, 1, true, &out[i]);
    job.row_end = view->rows;
    job.codes = out[0].data;
    job.scales = out[1].data;
    job.zeros = out[2].data;
    job.codes_stride = (int64_t)(grids[0].cols * grids[0].bytes);
    job.scales_stride = (int64_t)(grids[1].cols * grids[1].bytes);
    job.zeros_stride = (int64_t)(grids[2].cols * grids[2].bytes);
    status = check->level->ops->unpack(check->instance, &job, &error);
    if (status != KT_OK)
        check_fail(check, "it said that it can, and fails: %.200s", error.message);
    for (int i = 0; i < 3; i++) {
        if (!check->wrong)
            compare_grid(check, &grids[i], &out[i], names[i]);
        guard_free(&out[i]);
    }
}

static void step_unpack(struct plugin_case *item)
{
    struct check *check = &item->check;

    check_pack(check);
    for (int s = 0; s < 2; s++)
        guard_seal(&check->packed[s]);
    for (int p = 0; p < 3 && !check->wrong; p++)
        unpack_projection(check, p);
}

void plugin_job_unpack(void *data, struct plugin_child *child)
{
    plugin_cases_run(data, child, plugin_job_unpack, step_unpack);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - runs the functions of a level on a case, and checks that results do not depend on how the work is
 * split. */
#include "tools/check/check.h"

#include <kt/kt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* For the errors of jobs; valid inputs must give none. */
static void check_error(struct check *check, struct kt_error *error)
{
    error->message[sizeof error->message - 1] = '\0';
    if (error->status != KT_OK)
        check_fail(check, "it failed: %.400s", error->message[0] ? error->message : "no reason given");
}

void *check_need(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

void check_guard(const char *name, uint64_t size, uint64_t align, bool at_end, struct guarded *guarded)
{
    if (!guard_create(name, size, align, at_end, guarded))
        abort();
}

void make_inputs(struct check *check)
{
    uint64_t k = input_cols(check), n = check->n_acts * k;
    check->input = malloc(n * sizeof *check->input);
    check->index = malloc(check->n_rows * sizeof *check->index);
    check->out_index = malloc(check->n_rows * sizeof *check->out_index);
    if (!check->input || !check->index || !check->out_index)
        abort();
    float same = 0;
    bool sparse = false;
    for (uint64_t i = 0; i < n; i++) {
        /* runs of one value: 0, or the largest of their group */
        if (i % 32 == 0)
            same = (float)(random_below(&check->random, 2) ? 128 * random_below(&check->random, 8)
                                                           : random_below(&check->random, 1024)) /
                       128 -
                   4;
        float value = same >= -2 && same < 2 ? same : (float)random_gaussian(&check->random);
        /* one row in four is nearly all 0, so that a wrong weight does not hide in the bound of a long sum */
        if (i % k == 0)
            sparse = random_below(&check->random, 4) == 0;
        if (sparse && random_below(&check->random, 16))
            value = 0;
        check->input[i] = to_bf16(value);
    }
    for (uint32_t r = 0; r < check->n_rows; r++) {
        check->index[r] = random_below(&check->random, check->n_acts);
        check->out_index[r] = r;
    }
    for (uint32_t r = check->n_rows; r > 1; r--) {
        uint32_t swap = random_below(&check->random, r), kept = check->out_index[r - 1];
        check->out_index[r - 1] = check->out_index[swap];
        check->out_index[swap] = kept;
    }
}

void round_inputs(struct check *check)
{
    for (uint64_t i = 0; i < check->n_acts * input_cols(check); i++) {
        float value = from_bf16(check->input[i]);
        check->input[i] = to_bf16(fmaxf(fminf(rintf(value * 32) / 32, 3.96875f), -3.96875f));
    }
}

void free_case(struct check *check)
{
    source_free(&check->source);
    for (int p = 0; p < 3; p++) {
        free(check->weights[p]);
        free(check->rounded[p]);
        free(check->spread[p]);
        free(check->groups[p]);
        free(check->codes[p]);
        free(check->minima[p]);
    }
    free(check->input);
    free(check->index);
    free(check->out_index);
    for (int s = 0; s < 2; s++) {
        guard_free(&check->packed[s]);
        guard_free(&check->act[s]);
    }
    guard_free(&check->h);
    guard_free(&check->y);
}

uint64_t fill_rows(const struct check *check, uint64_t n)
{
    uint64_t unit = check->layout.row_unit ? check->layout.row_unit : 1;
    return (n + unit - 1) / unit * unit;
}

bool interleaved(const struct check *check, enum kt_stage stage)
{
    return stage == KT_STAGE_DOWN && check->layout.row_unit > 1;
}

void read_input(const struct check *check, uint32_t r, float *x)
{
    uint64_t k = input_cols(check);
    for (uint64_t i = 0; i < k; i++)
        x[i] = from_bf16(check->input[r * k + i]);
}

/* Row r of the input as the format says. */
static void write_input(const struct check *check, uint32_t dtype, uint32_t r, uint8_t *to)
{
    uint64_t k = input_cols(check);
    for (uint64_t i = 0; i < k; i++)
        write_number(to + i * number_size(dtype), dtype, from_bf16(check->input[r * k + i]));
}

static void run_act_pack(struct check *check, const struct kt_act_pack *job)
{
    check_enter(check, "act_pack");
    check->level->ops->act_pack(check->instance, job);
    check_error(check, job->error);
}

void pack_input(struct check *check, enum kt_stage stage, uint32_t dtype, const uint32_t *rows, uint32_t n,
                uint32_t begin, uint32_t end, uint8_t *packed)
{
    uint64_t size = number_size(dtype), row = input_cols(check) * size, stride = row + 4;
    struct kt_error error = {KT_OK, ""};
    struct guarded source = {0};
    check_guard("the input's rows", (n - 1) * stride + row, size, end == n, &source);
    for (uint32_t r = 0; r < n; r++)
        write_input(check, dtype, rows ? rows[r] : r, source.data + r * stride);
    guard_seal(&source);
    struct kt_act_pack job = {&check->layout, stage,           dtype,  n,     begin, end,
                              source.data,    (int64_t)stride, packed, &error};
    run_act_pack(check, &job);
    guard_free(&source);
}

void pack_rows(struct check *check, enum kt_stage stage, uint32_t dtype, uint32_t begin, uint32_t end,
               uint8_t *packed)
{
    struct kt_error error = {KT_OK, ""};
    struct kt_act_pack job = {&check->layout, stage, 0,      check->n_rows, begin, end,
                              check->h.data,  0,     packed, &error};
    if (check_linear(check))
        pack_input(check, stage, dtype, check->index, check->n_rows, begin, end, packed);
    else if (stage == KT_STAGE_GATE_UP)
        pack_input(check, stage, dtype, NULL, check->n_acts, begin, end, packed);
    else
        run_act_pack(check, &job);
}

/* Where 16 numbers of row r of h of n rows begin. */
static uint64_t find_h(const struct check *check, uint32_t n, uint32_t r, uint64_t part)
{
    uint64_t rows = (n + UINT64_C(15)) / 16 * 16;
    return check->h_panels ? (part * rows + r) * 64 : r * check->layout.h_row_size + part * 64;
}

void read_h(const struct check *check, const uint8_t *h, uint32_t n, uint32_t r, float *x)
{
    const uint64_t size = check->layout.h_row_size;
    for (uint64_t at = 0; at < size; at += 64)
        memcpy((uint8_t *)x + at, h + find_h(check, n, r, at / 64), size - at < 64 ? size - at : 64);
}

/* Rows row..row+n-1 of h in panels of their own; what fills those up is not read as numbers. */
static uint8_t *copy_panels(const struct check *check, uint32_t row, uint32_t n)
{
    const uint64_t size = fill_rows(check, n) * check->layout.h_row_size;
    uint8_t *h = check_need(aligned_alloc(64, (size + 63) / 64 * 64));
    memset(h, 0xff, size);
    for (uint64_t part = 0; part < check->layout.h_row_size / 64; part++)
        for (uint32_t r = 0; r < n; r++)
            memcpy(h + find_h(check, n, r, part), check->h.data + find_h(check, check->n_rows, row + r, part),
                   64);
    return h;
}

void pack_product(struct check *check, uint32_t row, uint32_t n, uint8_t *packed)
{
    const struct kt_layout *layout = &check->layout;
    struct kt_error error = {KT_OK, ""};
    if (check_linear(check)) {
        pack_input(check, KT_STAGE_DOWN, KT_DTYPE_BF16, check->index + row, n, 0, n, packed);
        return;
    }
    uint8_t *h = check->h_panels ? copy_panels(check, row, n) : NULL;
    struct kt_act_pack job =
        {layout, KT_STAGE_DOWN, 0,     n, 0, n, h ? h : check->h.data + row * layout->h_row_size,
         0,      packed,        &error};
    run_act_pack(check, &job);
    free(h);
}

void check_act_pack(struct check *check, enum kt_stage stage)
{
    uint32_t n = stage == KT_STAGE_DOWN ? check->n_rows : check->n_acts;
    uint64_t row_size = check->layout.act_row_size[stage];
    uint64_t size = (stage == KT_STAGE_DOWN ? fill_rows(check, n) : n) * row_size;
    check_guard("packed activations", size, 64, random_below(&check->random, 2), &check->act[stage]);
    uint8_t *other = check_need(malloc(size));
    memset(other, 0, size);
    memset(check->act[stage].data, 0, size);
    pack_rows(check, stage, KT_DTYPE_BF16, 0, n, check->act[stage].data);
    uint32_t middle = interleaved(check, stage) ? n : random_below(&check->random, n + 1);
    if (interleaved(check, stage) &&
        check_linear(check)) /* whole units of rows, so that both jobs have some */
        middle = random_below(&check->random, n / check->layout.row_unit + 1) * check->layout.row_unit;
    pack_rows(check, stage, KT_DTYPE_F32, middle, n, other);
    pack_rows(check, stage, KT_DTYPE_F32, 0, middle, other);
    if (memcmp(other, check->act[stage].data, size) != 0)
        check_fail(check, "activations of stage %d packed by rows differ from those packed at once", stage);
    if (!guard_intact(&check->act[stage]))
        check_fail(check, "act_pack of stage %d wrote beyond its rows", stage);
    free(other);
}

static void pack(struct check *check, enum kt_stage stage, uint64_t begin, uint64_t end, void *packed)
{
    struct kt_pack job = {&check->layout, stage, &check->source.expert, begin, end, packed};
    struct kt_error error = {KT_OK, ""};
    check_enter(check, "pack");
    if (check->level->ops->pack(check->instance, &job, &error))
        check_fail(check, "pack: %s", error.message);
}

/* Packs a stage once more, in two ranges. */
static void check_pack_ranges(struct check *check, enum kt_stage stage)
{
    uint64_t panels = count_panels(check, stage), size = check->packed[stage].size;
    uint8_t *other = check_need(aligned_alloc(64, (size + 64) / 64 * 64)); /* as struct kt_pack promises */
    memset(other, 0x5a, size);
    uint64_t middle = random_below(&check->random, (uint32_t)panels + 1);
    bool upwards = random_below(&check->random, 2); /* the second one must not change what the first wrote */
    pack(check, stage, upwards ? 0 : middle, upwards ? middle : panels, other);
    pack(check, stage, upwards ? middle : 0, upwards ? panels : middle, other);
    if (memcmp(other, check->packed[stage].data, size) != 0)
        check_fail(check, "stage %d packed in two ranges differs from packed at once", stage);
    free(other);
}

static void pack_stages(struct check *check, bool ranges)
{
    for (int s = (int)check_first_stage(check); s <= KT_STAGE_DOWN; s++) {
        enum kt_stage stage = (enum kt_stage)s;
        uint64_t size = check->layout.weight_size[s];
        if (check->layout.keeps_source && size == 0)
            continue;
        if (!guard_create("packed weights", size, 64, random_below(&check->random, 2), &check->packed[s])) {
            check_fail(check, "no memory for %llu bytes", (unsigned long long)size);
            return;
        }
        memset(check->packed[s].data, 0x5a, size);
        pack(check, stage, 0, count_panels(check, stage), check->packed[s].data);
        if (ranges)
            check_pack_ranges(check, stage);
        if (!guard_intact(&check->packed[s]))
            check_fail(check, "pack of stage %d wrote beyond its object", s);
    }
}

void check_pack_once(struct check *check)
{
    pack_stages(check, false);
}

void check_pack(struct check *check)
{
    pack_stages(check, true);
}

/* A read-only copy that ends at an inaccessible page. */
static const uint32_t *copy_index(const char *name, const uint32_t *index, uint32_t n, struct guarded *copy)
{
    check_guard(name, n * sizeof *index, sizeof *index, true, copy);
    memcpy(copy->data, index, n * sizeof *index);
    guard_seal(copy);
    return (const uint32_t *)(const void *)copy->data;
}

/* Gathers the rows of a product into the plugin's own order; false: it reads them by index. Padding rows
 * hold arbitrary bytes. */
static bool order_rows(struct check *check, enum kt_stage stage, uint32_t row, uint32_t n,
                       struct guarded *rows)
{
    const struct kt_layout *layout = &check->layout;
    bool gather = stage == KT_STAGE_GATE_UP && check->level->ops->gather;
    if (!gather && !interleaved(check, stage))
        return false;
    check_guard("gathered activations", fill_rows(check, n) * layout->act_row_size[stage], 64, true, rows);
    memset(rows->data, 0xff, rows->size);
    struct kt_error error = {KT_OK, ""};
    if (gather) {
        struct guarded index = {0};
        struct kt_gather job = {layout,
                                check->act[0].data,
                                copy_index("gather's index", check->index + row, n, &index),
                                n,
                                rows->data,
                                &error};
        check_enter(check, "gather");
        check->level->ops->gather(check->instance, &job);
        check_error(check, &error);
        guard_free(&index);
    } else {
        pack_product(check, row, n, rows->data);
    }
    return true;
}

void run_product(struct check *check, enum kt_stage stage, uint64_t begin, uint64_t end, uint32_t row,
                 uint32_t n, uint8_t *out)
{
    const struct kt_layout *layout = &check->layout;
    bool down = stage == KT_STAGE_DOWN;
    enum kt_stage first = check_first_stage(check);
    struct guarded scratch = {0}, rows = {0}, index = {0};
    bool ordered = order_rows(check, stage, row, n, &rows);
    check_guard("scratch", layout->scratch_size, 64, true, &scratch);
    struct kt_layout kept = *layout;
    struct kt_error error = {KT_OK, ""};
    struct kt_product job = {
        .layout = layout,
        .packed = check->packed[stage].data,
        .source = layout->keeps_source ? &check->source.expert : NULL,
        .panel_begin = begin,
        .panel_end = end,
        .n_rows = n,
        .act = ordered ? rows.data : check->act[stage].data + (down ? row * layout->act_row_size[1] : 0),
        .index = down || ordered ? NULL : copy_index("index", check->index + row, n, &index),
        .out = out,
        .out_index = down ? copy_index("out_index", check->out_index + row, n, &index) : NULL,
        .out_stride = (int64_t)(down ? check->y_stride : layout->h_row_size),
        .bias = {down ? check->source.expert.down_bias : check->source.expert.gate_bias,
                 down ? NULL : check->source.expert.up_bias},
        .scratch = scratch.data,
        .next = check->packed[first].data,
        .next_size = layout->weight_size[first],
        .error = &error,
    };
    /* Inputs are read-only while a product runs. */
    guard_seal(&check->packed[stage]);
    guard_seal(ordered ? &rows : &check->act[stage]);
    check_enter(check, down ? "down" : "gate_up");
    if (down)
        check->level->ops->down(check->instance, &job);
    else
        check->level->ops->gate_up(check->instance, &job);
    check_error(check, &error);
    guard_unseal(&check->packed[stage]);
    guard_unseal(&check->act[stage]);
    if (memcmp(&kept, layout, sizeof kept) != 0)
        check_fail(check, "stage %d wrote to its layout", stage);
    if (!guard_intact(&scratch))
        check_fail(check, "stage %d wrote beyond its scratch", stage);
    if (ordered && !guard_intact(&rows))
        check_fail(check, "the rows of stage %d were written beyond their end", stage);
    guard_free(&rows);
    guard_free(&index);
    guard_free(&scratch);
}

void check_ranges(struct check *check, enum kt_stage stage, struct guarded *out)
{
    uint64_t panels = count_panels(check, stage), size = out->size;
    uint8_t *other = check_need(malloc(size));
    memset(out->data, 0x5a, size);
    memset(other, 0x5a, size);
    run_product(check, stage, 0, panels, 0, check->n_rows, out->data);
    if (!guard_intact(out))
        check_fail(check, "stage %d wrote beyond its output", stage);
    uint64_t middle = random_below(&check->random, (uint32_t)panels + 1);
    bool upwards = random_below(&check->random, 2);
    run_product(check, stage, upwards ? 0 : middle, upwards ? middle : panels, 0, check->n_rows, other);
    run_product(check, stage, upwards ? middle : 0, upwards ? panels : middle, 0, check->n_rows, other);
    if (memcmp(other, out->data, size) != 0)
        check_fail(check, "stage %d in two panel ranges differs from all panels at once", stage);
    free(other);
}

void check_gaps(struct check *check)
{
    uint64_t row = check->layout.shape.hidden_size * check_y_size(check);
    for (uint64_t gap = row; gap < check->y.size; gap += check->y_stride)
        for (uint64_t at = gap; at < gap - row + check->y_stride && at < check->y.size; at++)
            if (check->y.data[at] != 0x5a) {
                check_fail(check, "down wrote between the rows of y");
                return;
            }
}

static bool same_numbers(const uint8_t *a, const uint8_t *b, uint32_t dtype, uint64_t size)
{
    if (memcmp(a, b, size) == 0)
        return true;
    for (uint64_t i = 0; i + number_size(dtype) <= size; i += number_size(dtype)) {
        float x = read_number(a + i, dtype), y = read_number(b + i, dtype);
        if (float_bits(x) != float_bits(y) && !(isnan(x) && isnan(y)))
            return false;
    }
    return true;
}

bool same_floats(const void *a, const void *b, uint64_t n)
{
    return same_numbers(a, b, KT_DTYPE_F32, n * sizeof(float));
}

bool same_y(const struct check *check, const uint8_t *a, const uint8_t *b)
{
    return same_numbers(a, b, check_y_dtype(check), check->y.size);
}

/* Rotates n numbers by `by` places. */
static void rotate(uint32_t *numbers, uint32_t n, uint32_t by)
{
    uint32_t *kept = check_need(malloc(n * sizeof *kept));
    memcpy(kept, numbers, n * sizeof *kept);
    for (uint32_t i = 0; i < n; i++)
        numbers[(i + by) % n] = kept[i];
    free(kept);
}

void check_places(struct check *check)
{
    struct guarded *const made[] = {&check->y, &check->act[1], &check->h};
    int n_made = check_linear(check) ? 2 : 3;
    uint8_t *kept[3];
    uint32_t n = check->n_rows, by = n > 1 ? 1 + random_below(&check->random, n - 1) : 0;
    if (by == 0)
        return;
    for (int i = 0; i < n_made; i++) {
        kept[i] = check_need(malloc(made[i]->size));
        memcpy(kept[i], made[i]->data, made[i]->size);
        memset(made[i]->data, 0x5a, made[i]->size);
    }
    rotate(check->index, n, by);
    rotate(check->out_index, n, by);
    if (!check_linear(check))
        run_product(check, KT_STAGE_GATE_UP, 0, count_panels(check, KT_STAGE_GATE_UP), 0, n, check->h.data);
    pack_rows(check, KT_STAGE_DOWN, KT_DTYPE_BF16, 0, n, check->act[1].data);
    run_product(check, KT_STAGE_DOWN, 0, count_panels(check, KT_STAGE_DOWN), 0, n, check->y.data);
    if (!same_y(check, check->y.data, kept[0]))
        check_fail(check, "rows have other bits %u places later: a row's result depends on its place", by);
    rotate(check->index, n, n - by);
    rotate(check->out_index, n, n - by);
    for (int i = 0; i < n_made; i++) {
        memcpy(made[i]->data, kept[i], made[i]->size);
        free(kept[i]);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_norm.c - norms, gates and rotary positions as <kt/rows.h> defines them, in float64, and how far
 * a level may be off:
 *
 *   sums      of n numbers, in any order: n roundings of the sum of their magnitudes; a factor made of one by
 *             half of that, a mean by the whole, and so each x - mean
 *   functions silu and sigmoid: 10 roundings
 *   products  one rounding each
 */
#include "tools/kt/plugin/rows.h"

#include <math.h>
#include <stdio.h>

#define MOST 300

static const uint32_t dtypes[] = {KT_DTYPE_F32, KT_DTYPE_BF16, KT_DTYPE_F16};
static const uint32_t sizes[] = {3, 16, 257, 64, 100, 17, 128, 31};

/* Rows of the same shape as x; of an output: in x's memory or another one's. */
static void make_plane(struct rows_case *item, enum rows_role role, const char *name, uint32_t dtype)
{
    const uint32_t shape[3] = {item->n_rows, item->n_cuts, item->size};
    rows_plane_make(item, role, name, dtype, shape, 2);
}

static const float *make_vector(struct rows_case *item, enum rows_role role, const char *name)
{
    const uint32_t shape[3] = {1, 1, item->size};
    return rows_at(rows_plane_make(item, role, name, KT_DTYPE_F32, shape, 1), 0, 0, 0);
}

/* ---- norms ---- */

static void make_norm(struct rows_case *item)
{
    struct kt_rows_norm *job = &item->job.norm;
    const unsigned round = item->round;
    item->n_rows = 3;
    item->n_cuts = round % 2 ? 4 : 1;
    item->size = sizes[round % 8];
    *job = (struct kt_rows_norm)KT_ROWS_NORM_INIT;
    job->norm = round % 3;
    job->size = item->size;
    job->eps = 1e-6f;
    job->scale = round % 4 < 2 ? 1 : 0.25f;
    job->weight_offset = round % 2 ? 1.0f : 0.0f;
    make_plane(item, ROWS_X, "input", dtypes[(round / 2) % 3]);
    if (round % 3 != 1)
        make_plane(item, ROWS_GATE, "gate", dtypes[(round + 1) % 3]);
    if (round % 4 < 2)
        make_plane(item, ROWS_STATE, "residual", KT_DTYPE_F32);
    if (round % 5 != 4)
        job->weight = make_vector(item, ROWS_WEIGHT, "weight");
    if (round % 5 > 1)
        job->bias = make_vector(item, ROWS_BIAS, "bias");
    static const enum rows_role place[] = {ROWS_OUT, ROWS_STATE, ROWS_X, ROWS_GATE};
    item->role[ROWS_OUT] = item->planes[place[round % 4]].name ? place[round % 4] : ROWS_OUT;
    if (item->role[ROWS_OUT] == ROWS_OUT)
        make_plane(item, ROWS_OUT, "output", dtypes[round % 3]);
    snprintf(item->text, sizeof(item->text), "norm %u of %u numbers, %u parts%s%s", job->norm, job->size,
             item->n_cuts, rows_plane(item, ROWS_STATE) ? ", residual" : "",
             rows_plane(item, ROWS_GATE) ? ", gate" : "");
}

static void call_norm(const struct rows_case *item, const struct rows_slice *slice)
{
    struct kt_rows_norm job = item->job.norm;
    job.n_rows = slice->n_rows;
    job.n_parts = slice->n_cuts;
    job.input = rows_input(item, ROWS_X, slice->row, slice->cut, 0);
    job.gate = rows_input(item, ROWS_GATE, slice->row, slice->cut, 0);
    job.residual = rows_output(item, ROWS_STATE, slice->row, slice->cut, 0);
    job.output = rows_output(item, ROWS_OUT, slice->row, slice->cut, 0);
    item->ops->norm(item->run->instance, &job);
}

/* x of a part; their mean, its error, and the factor. */
struct normed {
    double x[MOST], mean, mean_error, factor;
};

static void norm_part(struct rows_case *item, uint32_t row, uint32_t part, struct normed *to)
{
    const struct kt_rows_norm *job = &item->job.norm;
    const uint32_t n = job->size;
    const struct rows_plane *residual = rows_plane(item, ROWS_STATE);
    double squares = 0, magnitude = 0;
    to->mean = 0;
    for (uint32_t i = 0; i < n; i++) {
        to->x[i] = rows_was(rows_plane(item, ROWS_X), row, part, i);
        if (residual) {
            to->x[i] = (double)(float)(to->x[i] + rows_was(residual, row, part, i));
            if (item->role[ROWS_OUT] != ROWS_STATE)
                rows_near(item, ROWS_STATE, (const uint32_t[]){row, part, i}, to->x[i], 0);
        }
        to->mean += to->x[i] / n;
        magnitude += fabs(to->x[i]) / n;
    }
    if (job->norm != KT_NORM_LAYER)
        to->mean = magnitude = 0;
    for (uint32_t i = 0; i < n; i++)
        squares += (to->x[i] - to->mean) * (to->x[i] - to->mean);
    to->mean_error = n * ROWS_UNIT * magnitude;
    to->factor = (double)job->scale / sqrt(squares / (job->norm == KT_NORM_L2 ? 1 : n) + (double)job->eps);
}

static void compare_part(struct rows_case *item, uint32_t row, uint32_t part)
{
    const struct kt_rows_norm *job = &item->job.norm;
    const struct rows_plane *gate = rows_plane(item, ROWS_GATE);
    struct normed own;
    norm_part(item, row, part, &own);
    for (uint32_t i = 0; i < job->size; i++) {
        double w = job->weight ? (double)job->weight_offset + (double)job->weight[i] : 1;
        double y = (own.x[i] - own.mean) * own.factor * w;
        double error =
            (job->size + 8) * ROWS_UNIT * fabs(y) +
            2 * (own.mean_error + ROWS_UNIT * fabs(own.x[i])) * own.factor * fabs(w) +
            ROWS_UNIT * own.factor * fabs(own.x[i] - own.mean) * ((double)job->weight_offset + fabs(w));
        y += job->bias ? (double)job->bias[i] : 0;
        error += ROWS_UNIT * fabs(y);
        if (gate) {
            double g = rows_was(gate, row, part, i), silu = g * rows_sigmoid(g);
            error = error * fabs(silu) + 10 * ROWS_UNIT * fabs(y * silu);
            y *= silu;
        }
        rows_near(item, ROWS_OUT, (const uint32_t[]){row, part, i}, y, 1.01 * error);
    }
}

static void compare_norm(struct rows_case *item)
{
    for (uint32_t row = 0; row < item->n_rows; row++)
        for (uint32_t part = 0; part < item->n_cuts; part++)
            compare_part(item, row, part);
}

const struct rows_function rows_norm_function = {.name = "norm",
                                                 .spreads = true,
                                                 .make = make_norm,
                                                 .call = call_norm,
                                                 .compare = compare_norm};

/* ---- gates ---- */

static void make_gate(struct rows_case *item)
{
    struct kt_rows_gate *job = &item->job.gate;
    const unsigned round = item->round;
    item->n_rows = 3;
    item->n_cuts = round % 2 ? 3 : 1;
    item->size = sizes[(round + 2) % 8];
    *job = (struct kt_rows_gate)KT_ROWS_GATE_INIT;
    job->gating = round / 2 % (item->run->plugin->abi_minor >= ROWS_KINDS_MINOR ? 4 : 3);
    job->size = item->size;
    job->one_gate = round % 4 == 1;
    job->accumulate = round % 4 < 2;
    make_plane(item, ROWS_X, "input", dtypes[round % 3]);
    if (round % 6 != 5) {
        const uint32_t shape[3] = {item->n_rows, item->n_cuts, job->one_gate ? 1 : item->size};
        rows_plane_make(item, ROWS_GATE, "gate", dtypes[(round / 2) % 3], shape, 2);
    }
    if (round % 4 == 2)
        item->role[ROWS_OUT] = ROWS_X;
    else if (round % 4 == 3 && round % 6 != 5)
        item->role[ROWS_OUT] = ROWS_GATE;
    else
        make_plane(item, ROWS_OUT, "output", dtypes[(round / 3) % 3]);
    snprintf(item->text, sizeof(item->text), "gating %u of %u numbers, %u parts%s%s", job->gating, job->size,
             item->n_cuts, job->one_gate ? ", one gate" : "", job->accumulate ? ", accumulate" : "");
}

static void call_gate(const struct rows_case *item, const struct rows_slice *slice)
{
    struct kt_rows_gate job = item->job.gate;
    job.n_rows = slice->n_rows;
    job.n_parts = slice->n_cuts;
    job.input = rows_input(item, ROWS_X, slice->row, slice->cut, 0);
    job.gate = rows_input(item, ROWS_GATE, slice->row, slice->cut, 0);
    job.output = rows_output(item, ROWS_OUT, slice->row, slice->cut, 0);
    item->ops->gate(item->run->instance, &job);
}

static void compare_gate(struct rows_case *item)
{
    const struct kt_rows_gate *job = &item->job.gate;
    const struct rows_plane *gate = rows_plane(item, ROWS_GATE);
    for (uint32_t r = 0; r < item->n_rows; r++)
        for (uint32_t p = 0; p < item->n_cuts; p++)
            for (uint32_t i = 0; i < item->size; i++) {
                double y = rows_was(rows_plane(item, ROWS_X), r, p, i);
                double g = gate ? rows_was(gate, r, p, job->one_gate ? 0 : i) : 0;
                if (gate)
                    y *= job->gating == KT_GATING_PLAIN     ? g
                         : job->gating == KT_GATING_SIGMOID ? rows_sigmoid(g)
                         : job->gating == KT_GATING_SILU    ? g * rows_sigmoid(g)
                                                            : g * rows_sigmoid(rows_gelu(g));
                /* Six roundings of what exp is given. */
                double of_exp = job->gating == KT_GATING_GELU ? 6 * fabs(rows_gelu(g)) : 0;
                double error = (12 + of_exp) * ROWS_UNIT * fabs(y) + 0x1p-120; /* exp may be infinite */
                if (job->accumulate)
                    y += rows_was(rows_plane(item, ROWS_OUT), r, p, i);
                rows_near(item, ROWS_OUT, (const uint32_t[]){r, p, i}, y, error + ROWS_UNIT * fabs(y));
            }
}

const struct rows_function rows_gate_function = {.name = "gate",
                                                 .make = make_gate,
                                                 .call = call_gate,
                                                 .compare = compare_gate};

/* ---- rotary positions ---- */

#define TABLE_ROWS 7

/* Numbers behind those that are rotated stay. */
static void make_rotate(struct rows_case *item)
{
    static const uint32_t rotated[] = {64, 2, 128, 80, 34, 256};
    struct kt_rows_rotate *job = &item->job.rotate;
    *job = (struct kt_rows_rotate)KT_ROWS_ROTATE_INIT;
    job->pairing = item->round % 2;
    job->size = rotated[item->round / 2 % 6];
    job->n_table_rows = TABLE_ROWS;
    item->n_rows = 4;
    item->n_cuts = 1 + item->round % 3;
    item->size = job->size + (item->round % 4 ? 0 : 8);
    make_plane(item, ROWS_X, "heads", KT_DTYPE_F32);
    const uint32_t shape[3] = {TABLE_ROWS, 1, job->size};
    rows_plane_make(item, ROWS_WEIGHT, "table", KT_DTYPE_F32, shape, 1);
    item->role[ROWS_OUT] = ROWS_X;
    snprintf(item->text, sizeof(item->text), "pairing %u, %u heads, %u of %u numbers", job->pairing,
             item->n_cuts, job->size, item->size);
}

static const uint32_t table_rows[] = {6, 0, 3, 3};

static void call_rotate(const struct rows_case *item, const struct rows_slice *slice)
{
    const struct rows_plane *data = rows_plane(item, ROWS_X), *table = rows_plane(item, ROWS_WEIGHT);
    const bool named = item->round % 3 != 0;
    struct kt_rows_rotate job = item->job.rotate;
    job.n_rows = slice->n_rows;
    job.n_heads = slice->n_cuts;
    job.data = rows_at(data, slice->row, slice->cut, 0);
    job.stride = data->stride;
    job.head_stride = data->part_stride;
    job.table = rows_at(table, named ? 0 : slice->row, 0, 0);
    job.table_stride = table->stride;
    job.table_row = named ? table_rows + slice->row : NULL;
    job.n_table_rows -= named ? 0 : slice->row;
    item->ops->rotate(item->run->instance, &job);
}

static void compare_rotate(struct rows_case *item)
{
    const struct rows_plane *data = rows_plane(item, ROWS_X), *table = rows_plane(item, ROWS_WEIGHT);
    const uint32_t half = item->job.rotate.size / 2;
    const bool neox = item->job.rotate.pairing == KT_ROPE_NEOX;
    for (uint32_t r = 0; r < item->n_rows; r++)
        for (uint32_t h = 0; h < item->n_cuts; h++) {
            for (uint32_t i = 0; i < half; i++) {
                const uint32_t row = item->round % 3 != 0 ? table_rows[r] : r;
                const uint32_t first = neox ? i : 2 * i, second = neox ? i + half : 2 * i + 1;
                double a = rows_was(data, r, h, first), b = rows_was(data, r, h, second);
                double c = rows_was(table, row, 0, 2 * i), s = rows_was(table, row, 0, 2 * i + 1);
                rows_near(item, ROWS_OUT, (const uint32_t[]){r, h, first}, a * c - b * s,
                          2 * ROWS_UNIT * (fabs(a * c) + fabs(b * s)));
                rows_near(item, ROWS_OUT, (const uint32_t[]){r, h, second}, a * s + b * c,
                          2 * ROWS_UNIT * (fabs(a * s) + fabs(b * c)));
            }
            for (uint32_t i = 2 * half; i < item->size; i++)
                if (!plugin_failed(item->run) && !(rows_get(data, r, h, i) == rows_was(data, r, h, i)))
                    plugin_fail(item->run, "it changed number %u of a head of which it rotates %u", i,
                                2 * half);
        }
}

const struct rows_function rows_rotate_function = {.name = "rotate",
                                                   .make = make_rotate,
                                                   .call = call_rotate,
                                                   .compare = compare_rotate};

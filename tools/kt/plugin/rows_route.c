/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_route.c - products and choices of routers as <kt/rows.h> defines them, in float64. A product is
 * off by as many roundings of the sum of its magnitudes as it has numbers; a weight by one for each expert
 * and
 * 20. Random logits are further apart than rounding, so the choice is one.
 */
#include "tools/kt/plugin/rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const uint32_t dtypes[] = {KT_DTYPE_F32, KT_DTYPE_BF16, KT_DTYPE_F16};

/* ---- products ---- */

/* Some are long enough for tiles. */
static void make_multiply(struct rows_case *item)
{
    static const uint32_t shapes[][3] = {{1, 1, 1},   {3, 9, 100}, {5, 16, 64},    {2, 13, 257},
                                         {17, 4, 15}, {4, 8, 513}, {18, 35, 1027}, {3, 17, 1100}};
    const uint32_t *own = shapes[item->round % 8];
    struct kt_rows_multiply *job = &item->job.multiply;
    *job = (struct kt_rows_multiply)KT_ROWS_MULTIPLY_INIT;
    item->n_rows = own[0];
    item->n_cuts = job->n_outputs = own[1];
    item->size = job->size = own[2];
    job->weight_dtype = dtypes[item->round / 2 % 3];
    rows_plane_make(item, ROWS_X, "input", dtypes[item->round % 3],
                    (const uint32_t[]){item->n_rows, 1, item->size}, 1);
    rows_plane_make(item, ROWS_WEIGHT, "weight", job->weight_dtype,
                    (const uint32_t[]){item->n_cuts, 1, item->size}, 1);
    if (item->round % 3)
        rows_plane_make(item, ROWS_BIAS, "bias", KT_DTYPE_F32, (const uint32_t[]){1, 1, item->n_cuts}, 1);
    rows_plane_make(item, ROWS_OUT, "output", KT_DTYPE_F32, (const uint32_t[]){item->n_rows, 1, item->n_cuts},
                    1);
    snprintf(item->text, sizeof(item->text), "%u rows by %u x %u %s", item->n_rows, item->n_cuts, item->size,
             kt_dtype_name(job->weight_dtype));
}

static void call_multiply(const struct rows_case *item, const struct rows_slice *slice)
{
    const struct rows_plane *weight = rows_plane(item, ROWS_WEIGHT), *bias = rows_plane(item, ROWS_BIAS);
    const struct rows_plane *output = rows_plane(item, ROWS_OUT);
    struct kt_rows_multiply job = item->job.multiply;
    job.n_rows = slice->n_rows;
    job.n_outputs = slice->n_cuts;
    job.input = rows_input(item, ROWS_X, slice->row, 0, 0);
    job.weight = rows_at(weight, slice->cut, 0, 0);
    job.weight_stride = weight->stride;
    job.bias = bias ? rows_at(bias, 0, 0, slice->cut) : NULL;
    job.output = rows_at(output, slice->row, 0, slice->cut);
    job.output_stride = output->stride;
    item->ops->multiply(item->run->instance, &job);
}

static void compare_multiply(struct rows_case *item)
{
    const struct rows_plane *input = rows_plane(item, ROWS_X), *weight = rows_plane(item, ROWS_WEIGHT);
    const struct rows_plane *bias = rows_plane(item, ROWS_BIAS);
    for (uint32_t r = 0; r < item->n_rows; r++)
        for (uint32_t e = 0; e < item->n_cuts; e++) {
            double sum = bias ? rows_was(bias, 0, 0, e) : 0, magnitude = fabs(sum);
            for (uint32_t c = 0; c < item->size; c++) {
                double product = rows_was(input, r, 0, c) * rows_was(weight, e, 0, c);
                sum += product;
                magnitude += fabs(product);
            }
            rows_near(item, ROWS_OUT, (const uint32_t[]){r, 0, e}, sum,
                      (item->size + 1) * ROWS_UNIT * magnitude);
        }
}

const struct rows_function rows_multiply_function = {.name = "multiply",
                                                     .spreads = true,
                                                     .make = make_multiply,
                                                     .call = call_multiply,
                                                     .compare = compare_multiply};

/* ---- choices ---- */

#define MOST 512

static void make_route(struct rows_case *item)
{
    static const uint32_t shapes[][4] = {{8, 2, 1, 1},    {256, 8, 8, 2}, {128, 8, 1, 1},
                                         {160, 6, 8, 3},  {1, 1, 1, 1},   {12, 3, 12, 5},
                                         {512, 10, 1, 1}, {5, 5, 1, 1},   {32, 4, 4, 4}};
    const uint32_t *own = shapes[item->round % 9];
    struct kt_rows_route *job = &item->job.route;
    *job = (struct kt_rows_route)KT_ROWS_ROUTE_INIT;
    item->n_rows = 3;
    item->n_cuts = 1;
    item->size = job->n_experts = own[0];
    job->top_k = own[1];
    job->n_groups = own[2];
    job->top_groups = own[3];
    uint32_t n_kinds = item->run->plugin->abi_minor >= ROWS_KINDS_MINOR ? 5 : 3;
    job->routing = (item->round + item->round / 3) % n_kinds;
    job->near = item->round % 2 ? 0.5f : 0.02f;
    if (job->routing == KT_ROUTING_MIXER)
        job->n_groups = job->top_groups = 1;
    job->group_score = item->round % 9 == 3 ? KT_GROUP_BEST : KT_GROUP_BEST_TWO;
    job->normalize = item->round % 2;
    job->scale = item->round % 3 ? 1 : 2.5f;
    rows_plane_make(item, ROWS_X, "logits", KT_DTYPE_F32, (const uint32_t[]){3, 1, own[0]}, 2);
    if (item->round % 4 < 2 && job->routing != KT_ROUTING_MIXER)
        job->correction = rows_at(rows_plane_make(item, ROWS_BIAS, "correction", KT_DTYPE_F32,
                                                  (const uint32_t[]){1, 1, own[0]}, 0.3),
                                  0, 0, 0);
    /* Dense: of all rows one part. An id has the place of two numbers. */
    rows_plane_make(item, ROWS_OUT, "weights", KT_DTYPE_F32, (const uint32_t[]){1, 1, 3 * own[1]}, 1);
    rows_plane_make(item, ROWS_SECOND, "ids", KT_DTYPE_F32, (const uint32_t[]){1, 1, 6 * own[1]}, 1);
    for (enum rows_role role = ROWS_OUT; role <= ROWS_SECOND; role++) {
        struct rows_plane *plane = &item->planes[role];
        plane->rows = 3;
        plane->size /= 3;
        plane->stride = plane->part_stride = 4 * (int64_t)plane->size;
    }
    snprintf(item->text, sizeof(item->text), "routing %u, %u of %u experts, %u of %u groups%s", job->routing,
             own[1], own[0], job->top_groups, job->n_groups, job->correction ? ", correction" : "");
}

static void call_route(const struct rows_case *item, const struct rows_slice *slice)
{
    const struct rows_plane *logits = rows_plane(item, ROWS_X);
    struct kt_rows_route job = item->job.route;
    job.n_rows = slice->n_rows;
    job.logits = rows_at(logits, slice->row, 0, 0);
    job.logits_stride = logits->stride;
    job.ids = rows_at(rows_plane(item, ROWS_SECOND), slice->row, 0, 0);
    job.weights = rows_at(rows_plane(item, ROWS_OUT), slice->row, 0, 0);
    item->ops->route(item->run->instance, &job);
}

/* The index of the largest number that is not taken, which then is; the first one of equals. */
static uint32_t take_largest(const double *numbers, bool *taken, uint32_t n)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++)
        if (!taken[i] && (best == UINT32_MAX || numbers[i] > numbers[best]))
            best = i;
    if (best != UINT32_MAX)
        taken[best] = true;
    return best;
}

/* p of all experts, and what they are chosen by. */
static void score(struct rows_case *item, uint32_t row, double *p, double *choice)
{
    const struct kt_rows_route *job = &item->job.route;
    bool soft = job->routing < KT_ROUTING_SIGMOID;
    double max = -INFINITY, sum = 0;
    for (uint32_t e = 0; e < job->n_experts; e++)
        max = fmax(max, rows_was(rows_plane(item, ROWS_X), row, 0, e));
    for (uint32_t e = 0; e < job->n_experts; e++) {
        double z = rows_was(rows_plane(item, ROWS_X), row, 0, e);
        p[e] = soft ? exp(z - max) : rows_sigmoid(z);
        choice[e] = z;
        sum += p[e];
    }
    for (uint32_t e = 0; e < job->n_experts; e++) {
        p[e] /= soft ? sum : 1;
        choice[e] = (job->routing < KT_ROUTING_LOGITS ? p[e] : choice[e]) +
                    (job->correction ? (double)job->correction[e] : 0);
    }
}

static void drop_groups(const struct kt_rows_route *job, const double *choice, bool *taken)
{
    const uint32_t size = job->n_experts / job->n_groups;
    double worth[MOST];
    bool kept[MOST] = {false};
    for (uint32_t g = 0; g < job->n_groups; g++) {
        bool used[MOST] = {false};
        worth[g] = choice[g * size + take_largest(choice + g * size, used, size)];
        uint32_t second = take_largest(choice + g * size, used, size);
        if (job->group_score == KT_GROUP_BEST_TWO && second != UINT32_MAX)
            worth[g] += choice[g * size + second];
    }
    for (uint32_t i = 0; i < job->top_groups; i++)
        (void)take_largest(worth, kept, job->n_groups);
    for (uint32_t e = 0; e < job->n_experts; e++)
        taken[e] = !kept[e / size];
}

/* The weight of one that is chosen among those that are near it and were not chosen before. */
static double mix(const struct kt_rows_route *job, const double *z, const bool *taken, uint32_t best)
{
    double sum = 1;
    for (uint32_t e = 0; e < job->n_experts; e++)
        if (!taken[e] && z[best] - z[e] <= (double)job->near * fmax(fabs(z[e]), z[best]))
            sum += exp(z[e] - z[best]);
    return 1 / sum;
}

static void compare_row(struct rows_case *item, uint32_t row)
{
    const struct kt_rows_route *job = &item->job.route;
    double p[MOST], choice[MOST], own[128], sum = 0;
    bool taken[MOST] = {false};
    int64_t ids[128];
    memcpy(ids, rows_at(rows_plane(item, ROWS_SECOND), row, 0, 0), job->top_k * sizeof(ids[0]));
    score(item, row, p, choice);
    if (job->n_groups > 1)
        drop_groups(job, choice, taken);
    for (uint32_t i = 0; i < job->top_k; i++) {
        uint32_t best = take_largest(choice, taken, job->n_experts);
        if (ids[i] != best && !plugin_failed(item->run))
            plugin_fail(item->run, "choice %u of row %u is expert %lld, float64 chooses %u", i, row,
                        (long long)ids[i], best);
        own[i] = job->routing == KT_ROUTING_MIXER ? mix(job, choice, taken, best) : p[best];
        sum += own[i];
    }
    for (uint32_t i = 0; i < job->top_k; i++) {
        double want = own[i] * (double)job->scale;
        if (job->normalize || job->routing == KT_ROUTING_TOP)
            want /= sum;
        rows_near(item, ROWS_OUT, (const uint32_t[]){row, 0, i}, want,
                  (job->n_experts + 20) * ROWS_UNIT * fabs(want));
    }
}

static void compare_route(struct rows_case *item)
{
    for (uint32_t row = 0; row < item->n_rows; row++)
        compare_row(item, row);
}

const struct rows_function rows_route_function = {.name = "route",
                                                  .spreads = true,
                                                  .make = make_route,
                                                  .call = call_route,
                                                  .compare = compare_route};

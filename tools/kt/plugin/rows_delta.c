/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_delta.c - Gated DeltaNet's convolution, decay and rule as <kt/rows.h> defines them, in float64,
 * and how far a level may be off:
 *
 *   convolution  9 roundings of the sum of magnitudes, times the largest slope of silu, 1.1; and 10 of it
 *   decay        14 roundings, beta 8; the sum with dt_bias one, since softplus' slope is below 1
 *   rule         for each row two sums of key_size numbers, in the chunked form of 64 more; nothing that is
 *                there grows, since decay and I - beta k k^T shrink
 */
#include "tools/kt/plugin/rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const uint32_t dtypes[] = {KT_DTYPE_F32, KT_DTYPE_BF16, KT_DTYPE_F16};
#define BEFORE(item, role, row, part, i) rows_was(rows_plane(item, role), row, part, i)

static void make_plane(struct rows_case *item, enum rows_role role, const char *name, uint32_t dtype,
                       uint32_t rows, uint32_t parts, uint32_t size, double scale)
{
    const uint32_t shape[3] = {rows, parts, size};
    rows_plane_make(item, role, name, dtype, shape, scale);
}

/* ---- convolutions ---- */

static void make_convolve(struct rows_case *item)
{
    static const uint32_t channels[] = {1, 37, 256, 16, 130};
    struct kt_rows_convolve *job = &item->job.convolve;
    const unsigned round = item->round;
    *job = (struct kt_rows_convolve)KT_ROWS_CONVOLVE_INIT;
    item->n_rows = 1 + round % 9;
    item->n_cuts = item->size = channels[round % 5];
    job->width = 2 + round % 7;
    job->plain = round % 2;
    make_plane(item, ROWS_X, "input", dtypes[round % 3], item->n_rows, 1, item->size, 1);
    make_plane(item, ROWS_WEIGHT, "weight", KT_DTYPE_F32, job->width, 1, item->size, 1);
    if (round % 4 < 2)
        make_plane(item, ROWS_BIAS, "bias", KT_DTYPE_F32, 1, 1, item->size, 1);
    make_plane(item, ROWS_STATE, "state", KT_DTYPE_F32, job->width - 1, 1, item->size, 1);
    make_plane(item, ROWS_OUT, "output", dtypes[round / 2 % 3], item->n_rows, 1, item->size, 1);
    snprintf(item->text, sizeof(item->text), "%u rows of %u channels, width %u%s", item->n_rows, item->size,
             job->width, job->plain ? ", plain" : "");
}

static void call_convolve(const struct rows_case *item, const struct rows_slice *slice)
{
    const struct rows_plane *weight = rows_plane(item, ROWS_WEIGHT), *bias = rows_plane(item, ROWS_BIAS);
    const struct rows_plane *state = rows_plane(item, ROWS_STATE);
    struct kt_rows_convolve job = item->job.convolve;
    job.n_rows = slice->n_rows;
    job.n_channels = slice->n_cuts;
    job.input = rows_input(item, ROWS_X, slice->row, 0, slice->cut);
    job.output = rows_output(item, ROWS_OUT, slice->row, 0, slice->cut);
    job.weight = rows_at(weight, 0, 0, slice->cut);
    job.weight_stride = weight->stride;
    job.bias = bias ? rows_at(bias, 0, 0, slice->cut) : NULL;
    job.state = rows_at(state, 0, 0, slice->cut);
    job.state_stride = state->stride;
    item->ops->convolve(item->run->instance, &job);
}

/* The input of row t, of a state's before the first one. */
static double input_of(const struct rows_case *item, int64_t t, uint32_t c)
{
    return t < 0 ? BEFORE(item, ROWS_STATE, (uint32_t)(t + item->job.convolve.width - 1), 0, c)
                 : BEFORE(item, ROWS_X, (uint32_t)t, 0, c);
}

static void compare_convolve(struct rows_case *item)
{
    const struct kt_rows_convolve *job = &item->job.convolve;
    for (uint32_t c = 0; c < item->size; c++) {
        for (uint32_t t = 0; t < item->n_rows; t++) {
            double sum = rows_plane(item, ROWS_BIAS) ? BEFORE(item, ROWS_BIAS, 0, 0, c) : 0;
            double magnitude = fabs(sum);
            for (uint32_t i = 0; i < job->width; i++) {
                double product =
                    BEFORE(item, ROWS_WEIGHT, i, 0, c) * input_of(item, (int64_t)t - job->width + 1 + i, c);
                sum += product;
                magnitude += fabs(product);
            }
            double y = job->plain ? sum : sum * rows_sigmoid(sum);
            rows_near(item, ROWS_OUT, (const uint32_t[]){t, 0, c}, y,
                      1.1 * 9 * ROWS_UNIT * magnitude + 10 * ROWS_UNIT * fabs(y));
        }
        for (uint32_t i = 0; i + 1 < job->width; i++) {
            double kept = input_of(item, (int64_t)item->n_rows - job->width + 1 + i, c);
            double got = rows_get(rows_plane(item, ROWS_STATE), i, 0, c);
            if (!plugin_failed(item->run) && !(got == kept))
                plugin_fail(item->run, "row %u of its state is %.9g in channel %u, the input was %.9g", i,
                            got, c, kept);
        }
    }
}

const struct rows_function rows_convolve_function = {.name = "convolve",
                                                     .sequence = true,
                                                     .cut_numbers = true,
                                                     .make = make_convolve,
                                                     .call = call_convolve,
                                                     .compare = compare_convolve};

/* ---- decays ---- */

static void make_decay(struct rows_case *item)
{
    static const uint32_t heads[] = {32, 1, 37, 16, 5};
    const unsigned round = item->round;
    item->job.decay = (struct kt_rows_decay)KT_ROWS_DECAY_INIT;
    item->n_rows = 1 + round % 5;
    item->n_cuts = item->size = heads[round % 5];
    const bool own = round % 2;
    make_plane(item, ROWS_X, "x", own ? dtypes[round % 3] : KT_DTYPE_F32, item->n_rows, 1, item->size,
               round % 3 ? 1 : 100);
    make_plane(item, ROWS_GATE, "y", own ? dtypes[round / 2 % 3] : KT_DTYPE_F32, item->n_rows, 1, item->size,
               3);
    make_plane(item, ROWS_WEIGHT, "a", KT_DTYPE_F32, 1, 1, item->size, 3);
    make_plane(item, ROWS_BIAS, "dt_bias", KT_DTYPE_F32, 1, 1, item->size, 1);
    if (own) {
        make_plane(item, ROWS_OUT, "log_decay", KT_DTYPE_F32, item->n_rows, 1, item->size, 1);
        make_plane(item, ROWS_SECOND, "beta", KT_DTYPE_F32, item->n_rows, 1, item->size, 1);
    } else {
        item->role[ROWS_OUT] = ROWS_X;
        item->role[ROWS_SECOND] = ROWS_GATE;
    }
    snprintf(item->text, sizeof(item->text), "%u rows, %u heads%s", item->n_rows, item->size,
             own ? "" : ", in place");
}

static void call_decay(const struct rows_case *item, const struct rows_slice *slice)
{
    struct kt_rows_decay job = item->job.decay;
    job.n_rows = slice->n_rows;
    job.n_heads = slice->n_cuts;
    job.x = rows_input(item, ROWS_X, slice->row, 0, slice->cut);
    job.y = rows_input(item, ROWS_GATE, slice->row, 0, slice->cut);
    job.a = rows_at(rows_plane(item, ROWS_WEIGHT), 0, 0, slice->cut);
    job.dt_bias = rows_at(rows_plane(item, ROWS_BIAS), 0, 0, slice->cut);
    job.log_decay = rows_at(rows_plane(item, ROWS_OUT), slice->row, 0, slice->cut);
    job.beta = rows_at(rows_plane(item, ROWS_SECOND), slice->row, 0, slice->cut);
    job.log_decay_stride = rows_plane(item, ROWS_OUT)->stride;
    job.beta_stride = rows_plane(item, ROWS_SECOND)->stride;
    item->ops->decay(item->run->instance, &job);
}

static void compare_decay(struct rows_case *item)
{
    for (uint32_t r = 0; r < item->n_rows; r++)
        for (uint32_t h = 0; h < item->size; h++) {
            double x = BEFORE(item, ROWS_X, r, 0, h) + BEFORE(item, ROWS_BIAS, 0, 0, h);
            double a = BEFORE(item, ROWS_WEIGHT, 0, 0, h), b = rows_sigmoid(BEFORE(item, ROWS_GATE, r, 0, h));
            double want = a * (fmax(x, 0) + log1p(exp(-fabs(x))));
            rows_near(item, ROWS_OUT, (const uint32_t[]){r, 0, h}, want,
                      ROWS_UNIT * fabs(x) * fabs(a) + 14 * ROWS_UNIT * fabs(want) + 0x1p-140);
            rows_near(item, ROWS_SECOND, (const uint32_t[]){r, 0, h}, b, 8 * ROWS_UNIT * b);
        }
}

const struct rows_function rows_decay_function = {.name = "decay",
                                                  .cut_numbers = true,
                                                  .make = make_decay,
                                                  .call = call_decay,
                                                  .compare = compare_decay};

/* ---- the delta rule ---- */

/* Rows of length `length`. */
static void norm_rows(struct rows_plane *plane, double length)
{
    for (uint32_t r = 0; r < plane->rows; r++)
        for (uint32_t p = 0; p < plane->parts; p++) {
            double squares = 0;
            for (uint32_t i = 0; i < plane->size; i++)
                squares += rows_was(plane, r, p, i) * rows_was(plane, r, p, i);
            for (uint32_t i = 0; i < plane->size; i++)
                rows_set(plane, r, p, i, rows_was(plane, r, p, i) * length / sqrt(squares));
        }
}

/* Decays from almost none to almost all, betas between 0 and 1: parts of one operand, since they are as wide.
 */
static void make_gates(struct rows_case *item)
{
    make_plane(item, ROWS_BIAS, "log_decay and beta", KT_DTYPE_F32, item->n_rows, 2, item->n_cuts, 1);
    for (uint32_t r = 0; r < item->n_rows; r++)
        for (uint32_t h = 0; h < item->n_cuts; h++) {
            double size = exp(2 * BEFORE(item, ROWS_BIAS, r, 0, h));
            rows_set(rows_plane(item, ROWS_BIAS), r, 0, h, (r + h) % 5 ? -0.05 * size : -size);
            rows_set(rows_plane(item, ROWS_BIAS), r, 1, h,
                     rows_sigmoid(2 * BEFORE(item, ROWS_BIAS, r, 1, h)));
        }
}

static void make_delta(struct rows_case *item)
{
    static const uint32_t shapes[][4] = {{2, 1, 16, 16}, {4, 2, 32, 48}, {2, 2, 64, 80}};
    static const uint32_t rows[] = {1, 33, 5, 16, 70, 15, 32};
    const uint32_t *own = shapes[item->round % 3];
    struct kt_rows_delta *job = &item->job.delta;
    *job = (struct kt_rows_delta)KT_ROWS_DELTA_INIT;
    item->n_rows = rows[item->round % 7];
    item->n_cuts = job->n_heads = own[0];
    job->n_key_heads = own[1];
    job->key_size = own[2];
    item->size = job->value_size = own[3];
    job->order = item->round / 2 % 2;
    job->deterministic = item->round % 2;
    make_plane(item, ROWS_X, "value", KT_DTYPE_F32, item->n_rows, own[0], own[3], 1);
    make_plane(item, ROWS_GATE, "query", KT_DTYPE_F32, item->n_rows, own[1], own[2], 1);
    make_plane(item, ROWS_MORE, "key", KT_DTYPE_F32, item->n_rows, own[1], own[2], 1);
    norm_rows(rows_plane(item, ROWS_GATE), 1 / sqrt(own[2]));
    norm_rows(rows_plane(item, ROWS_MORE), 1);
    make_gates(item);
    make_plane(item, ROWS_STATE, "state", KT_DTYPE_F32, own[0], 1, own[2] * own[3], 0.3);
    if (item->round % 4 == 2)
        item->role[ROWS_OUT] = ROWS_X;
    else
        make_plane(item, ROWS_OUT, "output", KT_DTYPE_F32, item->n_rows, own[0], own[3], 1);
    job->scratch_size = item->ops->delta_scratch(item->run->instance, own[2], own[3]);
    if (job->scratch_size > UINT64_C(1) << 32)
        plugin_fail(item->run, "delta_scratch is %llu for heads of %u x %u",
                    (unsigned long long)job->scratch_size, own[2], own[3]);
    else if (job->scratch_size >= 4)
        make_plane(item, ROWS_SCRATCH, "scratch", KT_DTYPE_F32, 1, 1, (uint32_t)(job->scratch_size / 4), 0);
    snprintf(item->text, sizeof(item->text), "%u rows, %u heads of %u x %u%s", item->n_rows, own[0], own[2],
             own[3], job->deterministic ? ", deterministic" : "");
}

/* Parts lie without gaps in a job, so gaps are between rows only. */
static void call_delta(const struct rows_case *item, const struct rows_slice *slice)
{
    const struct rows_plane *query = rows_plane(item, ROWS_GATE), *key = rows_plane(item, ROWS_MORE);
    const struct rows_plane *value = rows_plane(item, ROWS_X), *output = rows_plane(item, ROWS_OUT);
    const struct rows_plane *gates = rows_plane(item, ROWS_BIAS), *scratch = rows_plane(item, ROWS_SCRATCH);
    struct kt_rows_delta job = item->job.delta;
    job.n_rows = slice->n_rows;
    job.first_head = slice->cut;
    job.end_head = slice->cut + slice->n_cuts;
    job.query = rows_at(query, slice->row, 0, 0);
    job.key = rows_at(key, slice->row, 0, 0);
    job.value = rows_at(value, slice->row, 0, 0);
    job.log_decay = rows_at(gates, slice->row, 0, 0);
    job.beta = rows_at(gates, slice->row, 1, 0);
    job.state = rows_at(rows_plane(item, ROWS_STATE), 0, 0, 0);
    job.output = rows_at(output, slice->row, 0, 0);
    job.query_stride = query->stride;
    job.key_stride = key->stride;
    job.value_stride = value->stride;
    job.log_decay_stride = job.beta_stride = gates->stride;
    job.output_stride = output->stride;
    job.state_stride = rows_plane(item, ROWS_STATE)->stride;
    job.scratch = scratch ? rows_at(scratch, 0, 0, 0) : NULL;
    item->ops->delta(item->run->instance, &job);
}

/* One row of a column of a head's state s; returns the output, and the largest magnitude in `most`. */
static double step_column(const struct rows_case *item, uint32_t t, uint32_t head, uint32_t c, double *s,
                          double *most)
{
    const struct kt_rows_delta *job = &item->job.delta;
    const uint32_t key_head =
        job->order == KT_DELTA_GROUPED ? head / (job->n_heads / job->n_key_heads) : head % job->n_key_heads;
    double decay = exp(fmax(BEFORE(item, ROWS_BIAS, t, 0, head), -200)), recalled = 0, magnitude = 0, out = 0;
    double v = BEFORE(item, ROWS_X, t, head, c);
    for (uint32_t i = 0; i < job->key_size; i++) {
        s[i] *= decay;
        recalled += s[i] * BEFORE(item, ROWS_MORE, t, key_head, i);
        magnitude += fabs(s[i]);
    }
    double d = BEFORE(item, ROWS_BIAS, t, 1, head) * (v - recalled);
    for (uint32_t i = 0; i < job->key_size; i++) {
        s[i] += BEFORE(item, ROWS_MORE, t, key_head, i) * d;
        out += s[i] * BEFORE(item, ROWS_GATE, t, key_head, i);
    }
    *most = fmax(*most, magnitude / sqrt(job->key_size) + fabs(v) + fabs(d));
    return out;
}

static void compare_delta(struct rows_case *item)
{
    const struct kt_rows_delta *job = &item->job.delta;
    double s[64];
    for (uint32_t h = 0; h < job->n_heads; h++)
        for (uint32_t c = 0; c < job->value_size; c += 1 + c % 3) {
            double most = 0, error = 0;
            for (uint32_t i = 0; i < job->key_size; i++)
                s[i] = BEFORE(item, ROWS_STATE, h, 0, i * job->value_size + c);
            for (uint32_t t = 0; t < item->n_rows; t++) {
                double out = step_column(item, t, h, c, s, &most);
                error += 2 * (job->key_size + 64 + 16) * ROWS_UNIT * most;
                rows_near(item, ROWS_OUT, (const uint32_t[]){t, h, c}, out, error);
            }
            for (uint32_t i = 0; i < job->key_size; i++)
                rows_near(item, ROWS_STATE, (const uint32_t[]){h, 0, i * job->value_size + c}, s[i], error);
        }
}

const struct rows_function rows_delta_function = {.name = "delta",
                                                  .sequence = true,
                                                  .make = make_delta,
                                                  .call = call_delta,
                                                  .compare = compare_delta};

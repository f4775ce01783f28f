/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wrong_rows.c - plain functions of rows, with one fault in what they do: the one that KT_TEST_FAULT names in
 * the environment. tests/kt/kt_plugin_rows.sh says which check must find it.
 */
#define _GNU_SOURCE
#include "tests/plugins/fault.h"
#include "tools/check/number.h"

#include <kt/plugin.h>
#include <kt/plugin_rows.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static float get(const void *data, int64_t offset, uint32_t i, uint32_t dtype)
{
    return read_number((const char *)data + offset + i * number_size(dtype), dtype);
}

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* ---- parts ---- */

/* x of a part, with the residual; their sum of squares after the mean is taken off. */
static float load_part(const struct kt_rows_norm *job, uint32_t row, uint32_t part, float *x)
{
    float sum = 0, squares = 0;
    for (uint32_t i = 0; i < job->size; i++) {
        x[i] = get(job->input.data, row * job->input.stride + part * job->input.part_stride, i,
                   job->input.dtype);
        char *residual =
            (char *)job->residual.data + row * job->residual.stride + part * job->residual.part_stride;
        if (job->residual.data) {
            x[i] += get(residual, 0, i, KT_DTYPE_F32);
            if (!IS(NORM_RESIDUAL))
                write_number(residual + 4 * i, KT_DTYPE_F32, x[i]);
        }
        sum += x[i];
    }
    for (uint32_t i = 0; i < job->size; i++) {
        x[i] -= job->norm == KT_NORM_LAYER ? sum / (float)job->size : 0;
        squares += x[i] * x[i];
    }
    return squares;
}

static void norm(void *instance, const struct kt_rows_norm *job)
{
    (void)instance;
    if (IS(ALLOCATES))
        host->release(host, host->allocate(host, 64), 64);
    for (uint32_t row = 0; row < job->n_rows; row++)
        for (uint32_t part = 0; part < job->n_parts; part++) {
            float x[1024], squares = load_part(job, row, part, x);
            float mean = squares / (float)(job->norm == KT_NORM_L2 && !IS(NORM_L2) ? 1 : job->size);
            float factor = job->scale / sqrtf(mean + job->eps);
            char *to = (char *)job->output.data + row * job->output.stride + part * job->output.part_stride;
            for (uint32_t i = 0; i < job->size; i++) {
                float y = x[i] * factor;
                y *= job->weight ? (IS(NORM_OFFSET) ? 0 : job->weight_offset) + job->weight[i] : 1;
                y += job->bias ? job->bias[i] : 0;
                if (job->gate.data) {
                    float g = get(job->gate.data, row * job->gate.stride + part * job->gate.part_stride, i,
                                  job->gate.dtype);
                    y *= g * sigmoid(g);
                }
                if (IS(NAN_HIDDEN) && isnan(y))
                    y = 0;
                write_number(to + i * number_size(job->output.dtype), job->output.dtype, y);
            }
            if (IS(NORM_BEYOND))
                ((volatile char *)to)[job->size * number_size(job->output.dtype)] = 0;
            if (IS(NORM_GAP) && row + 1 < job->n_rows && part + 1 == job->n_parts)
                to[job->size * number_size(job->output.dtype)] = 0;
            if (IS(NORM_INPUT) && job->input.data != job->output.data)
                *(volatile char *)(uintptr_t)job->input.data = 0;
            if (IS(PLACE) && row > 0)
                write_number(to, job->output.dtype, get(to, 0, 0, job->output.dtype) * 1.0000002f);
        }
}

static void gate(void *instance, const struct kt_rows_gate *job)
{
    (void)instance;
    for (uint32_t row = 0; row < job->n_rows; row++)
        for (uint32_t part = 0; part < job->n_parts; part++)
            for (uint32_t i = 0; i < job->size; i++) {
                float y = get(job->input.data, row * job->input.stride + part * job->input.part_stride, i,
                              job->input.dtype);
                char *to = (char *)job->output.data + row * job->output.stride +
                           part * job->output.part_stride + i * number_size(job->output.dtype);
                if (job->gate.data) {
                    float g = get(job->gate.data, row * job->gate.stride + part * job->gate.part_stride,
                                  job->one_gate && !IS(GATE_ONE) ? 0 : i, job->gate.dtype);
                    y *= job->gating == KT_GATING_PLAIN     ? g
                         : job->gating == KT_GATING_SIGMOID ? sigmoid(g)
                         : job->gating == KT_GATING_SILU
                             ? g * sigmoid(g)
                             : g * sigmoid(1.5957691216f * (g + 0.044715f * g * g * g));
                }
                if (job->accumulate && !IS(GATE_ADDS))
                    y += get(to, 0, 0, job->output.dtype);
                write_number(to, job->output.dtype, y);
            }
}

static void rotate(void *instance, const struct kt_rows_rotate *job)
{
    (void)instance;
    for (uint32_t row = 0; row < job->n_rows; row++)
        for (uint32_t head = 0; head < job->n_heads; head++) {
            float *x = (void *)((char *)job->data + row * job->stride + head * job->head_stride);
            const float *table =
                (const void *)((const char *)job->table +
                               (job->table_row && !IS(ROTATE_ROW) ? job->table_row[row] : row) *
                                   job->table_stride);
            bool neox = job->pairing == KT_ROPE_NEOX || IS(ROTATE_PAIRS);
            for (uint32_t i = 0; i < job->size / 2; i++) {
                float *first = &x[neox ? i : 2 * i], *second = &x[neox ? i + job->size / 2 : 2 * i + 1];
                float a = *first, b = *second, c = table[2 * i], s = table[2 * i + 1];
                *first = a * c - b * s;
                *second = a * s + b * c;
            }
            if (IS(ROTATE_REST) && job->head_stride >= 4 * (int64_t)(job->size + 1))
                x[job->size] = 7;
        }
}

/* ---- routers ---- */

static void multiply(void *instance, const struct kt_rows_multiply *job)
{
    (void)instance;
    for (uint32_t row = 0; row < job->n_rows; row++)
        for (uint32_t e = 0; e < job->n_outputs; e++) {
            float sum = 0;
            for (uint32_t i = 0; i < job->size - (IS(MULTIPLY_COLUMN) ? 1 : 0); i++) {
                float w = get(job->weight, e * job->weight_stride, i, job->weight_dtype);
                float x = get(job->input.data, row * job->input.stride, i, job->input.dtype);
                if (IS(MULTIPLY_ROUNDS))
                    x = from_bf16(to_bf16(x));
                sum += w * x;
            }
            *(float *)(void *)((char *)job->output + row * job->output_stride + 4 * e) =
                sum + (job->bias ? job->bias[e] : 0);
        }
    float *last = (void *)((char *)job->output + (job->n_rows - 1) * job->output_stride);
    for (uint32_t row = 0; row < job->n_rows; row++) {
        float *first = (void *)((char *)job->output + row * job->output_stride);
        for (uint32_t i = 0; IS(NAN_LEAKS) && i < job->size; i++)
            last[0] += 0 * get(job->input.data, row * job->input.stride, i, job->input.dtype);
        if (IS(CUTS))
            first[0] *= 1 + 0x1p-23f * (float)(job->n_outputs % 2);
    }
    if (IS(THREADS) && syscall(SYS_gettid) != getpid())
        last[0] += 1;
}

/* p, and what experts are chosen by; those of groups that are dropped are taken. */
static void score(const struct kt_rows_route *job, const float *z, float *p, float *choice)
{
    float max = -INFINITY, sum = 0;
    for (uint32_t e = 0; e < job->n_experts; e++)
        max = z[e] > max || isnan(z[e]) ? z[e] : max;
    bool soft = job->routing < KT_ROUTING_SIGMOID;
    for (uint32_t e = 0; e < job->n_experts; e++)
        sum += p[e] = soft ? expf(z[e] - max) : sigmoid(z[e]);
    for (uint32_t e = 0; e < job->n_experts; e++) {
        p[e] /= soft ? sum : 1;
        choice[e] = (job->routing < KT_ROUTING_LOGITS ? p[e] : z[e]) +
                    (job->correction && !IS(ROUTE_CORRECTION) ? job->correction[e] : 0);
    }
}

static uint32_t take(const float *numbers, bool *taken, uint32_t n)
{
    uint32_t best = n;
    for (uint32_t i = 0; i < n; i++)
        if (!taken[i] && (best == n || numbers[i] > numbers[best]))
            best = i;
    if (best < n)
        taken[best] = true;
    return best;
}

static float mix(const struct kt_rows_route *job, const float *z, const bool *taken, uint32_t best)
{
    float sum = 1;
    for (uint32_t e = 0; e < job->n_experts; e++)
        if (!taken[e] && z[best] - z[e] <= job->near * fmaxf(fabsf(z[e]), z[best]))
            sum += expf(z[e] - z[best]);
    return 1 / sum;
}

static void drop_groups(const struct kt_rows_route *job, const float *choice, bool *taken)
{
    uint32_t size = job->n_experts / job->n_groups;
    float worth[512];
    bool kept[512] = {false};
    for (uint32_t g = 0; g < job->n_groups; g++) {
        bool used[512] = {false};
        worth[g] = choice[g * size + take(choice + g * size, used, size)];
        uint32_t second = take(choice + g * size, used, size);
        if (job->group_score == KT_GROUP_BEST_TWO && second < size && !IS(ROUTE_GROUPS))
            worth[g] += choice[g * size + second];
    }
    for (uint32_t i = 0; i < job->top_groups; i++)
        (void)take(worth, kept, job->n_groups);
    for (uint32_t e = 0; e < job->n_experts; e++)
        taken[e] = !kept[e / size];
}

static void route(void *instance, const struct kt_rows_route *job)
{
    (void)instance;
    for (uint32_t row = 0; row < job->n_rows; row++) {
        const float *z = (const void *)((const char *)job->logits + row * job->logits_stride);
        float p[512], choice[512], *weights = job->weights + row * job->top_k, sum = 0;
        bool taken[512] = {false}, bad = false;
        score(job, z, p, choice);
        if (job->n_groups > 1)
            drop_groups(job, choice, taken);
        for (uint32_t i = 0; i < job->top_k; i++) {
            uint32_t best = take(choice, taken, job->n_experts);
            job->ids[row * job->top_k + i] = best;
            weights[i] = job->routing == KT_ROUTING_MIXER ? mix(job, z, taken, best) : p[best];
            sum += weights[i];
        }
        for (uint32_t e = 0; e < job->n_experts; e++)
            bad |= isnan(z[e]);
        for (uint32_t i = 0; i < job->top_k; i++) {
            weights[i] *= job->scale;
            if ((job->normalize && !IS(ROUTE_SUM)) || job->routing == KT_ROUTING_TOP)
                weights[i] /= sum;
            weights[i] = bad ? NAN : weights[i];
        }
    }
}

/* ---- Gated DeltaNet ---- */

static void convolve(void *instance, const struct kt_rows_convolve *job)
{
    (void)instance;
    for (uint32_t c = 0; c < job->n_channels; c++)
        for (uint32_t t = 0; t < job->n_rows; t++) {
            float sum = job->bias ? job->bias[c] : 0,
                  x = get(job->input.data, t * job->input.stride, c, job->input.dtype);
            for (uint32_t i = 0; i < job->width; i++) {
                float *state = (void *)((char *)job->state + i * job->state_stride + 4 * c);
                float *next = (void *)((char *)state + job->state_stride);
                float w = get(job->weight, i * job->weight_stride, c, KT_DTYPE_F32);
                if (i + 1 < job->width) {
                    sum += w * *state;
                    *state = i + 2 < job->width ? *next : IS(CONVOLVE_STATE) ? 0 : x;
                } else {
                    sum += w * x;
                }
            }
            write_number((char *)job->output.data + t * job->output.stride +
                             c * number_size(job->output.dtype),
                         job->output.dtype, job->plain || IS(CONVOLVE_PLAIN) ? sum : sum * sigmoid(sum));
        }
}

static void decay(void *instance, const struct kt_rows_decay *job)
{
    (void)instance;
    for (uint32_t row = 0; row < job->n_rows; row++)
        for (uint32_t h = 0; h < job->n_heads; h++) {
            float x = get(job->x.data, row * job->x.stride, h, job->x.dtype) + job->dt_bias[h];
            float y = get(job->y.data, row * job->y.stride, h, job->y.dtype);
            float plus = (x > 0 || isnan(x) ? x : 0) + log1pf(expf(-fabsf(x)));
            if (IS(DECAY_LARGE))
                plus = logf(1 + expf(x));
            *(float *)(void *)((char *)job->log_decay + row * job->log_decay_stride + 4 * h) =
                job->a[h] * plus;
            *(float *)(void *)((char *)job->beta + row * job->beta_stride + 4 * h) = sigmoid(y);
        }
}

static const float *row_of(const float *data, int64_t stride, uint32_t row)
{
    return (const void *)((const char *)data + row * stride);
}

static void delta_head(const struct kt_rows_delta *job, uint32_t t, uint32_t h)
{
    const uint32_t per_key = job->n_heads / job->n_key_heads, n = job->key_size, m = job->value_size;
    uint32_t key_head =
        job->order == KT_DELTA_GROUPED || IS(DELTA_ORDER) ? h / per_key : h % job->n_key_heads;
    const float *q = row_of(job->query, job->query_stride, t) + key_head * n;
    const float *k = row_of(job->key, job->key_stride, t) + key_head * n;
    const float *v = row_of(job->value, job->value_stride, t) + h * m;
    float *s = (void *)((char *)job->state + h * job->state_stride);
    float *y = (float *)(uintptr_t)row_of(job->output, job->output_stride, t) + h * m;
    float kept = expf(fmaxf(row_of(job->log_decay, job->log_decay_stride, t)[h], -200));
    float beta = row_of(job->beta, job->beta_stride, t)[h];
    for (uint32_t c = 0; c < m; c++) {
        float recalled = 0, out = 0;
        for (uint32_t i = 0; i < n; i++)
            recalled += (s[i * m + c] *= kept) * k[i];
        float d = beta * (v[c] - (IS(DELTA_RECALL) ? 0 : recalled));
        for (uint32_t i = 0; i < n; i++)
            out += (s[i * m + c] += k[i] * d) * q[i];
        y[c] = out;
    }
}

static void delta(void *instance, const struct kt_rows_delta *job)
{
    (void)instance;
    if (IS(DELTA_SCRATCH))
        ((volatile char *)job->scratch)[64] = 1;
    for (uint32_t t = 0; t < job->n_rows; t++)
        for (uint32_t h = IS(DELTA_HEADS) ? 0 : job->first_head; h < job->end_head; h++)
            delta_head(job, t, h);
}

static uint64_t delta_scratch(void *instance, uint32_t key_size, uint32_t value_size)
{
    (void)instance;
    (void)key_size;
    (void)value_size;
    if (IS(DELTA_LEAK))
        (void)host->allocate(host, 64);
    return IS(DELTA_MUCH) ? UINT64_C(1) << 40 : 64;
}

static const struct kt_rows_ops rows = {sizeof rows, 0,        norm,  gate,  rotate,       multiply,
                                        route,       convolve, decay, delta, delta_scratch};
static const struct kt_level level = {.struct_size = sizeof level,
                                      .name = "scalar",
                                      .instruction = "mulss",
                                      .rows = &rows};
static const struct kt_level *const levels[] = {&level};

KT_PLUGIN_DEFINE(wrong_rows) = {
    KT_PLUGIN_HEADER(wrong_rows), .version = "1.0", .description = "wrong, for tests",
    .formats = "f32 bf16",        .levels = levels, .n_levels = 1,
    .open = open_plugin,
};

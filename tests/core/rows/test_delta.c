/* SPDX-License-Identifier: Apache-2.0 */
/* test_delta.c - convolutions, decays and the gated delta rule of every level against their formulas in
 * double; the two forms of the rule; how jobs are divided. */
#include "tests/core/rows/rows_model.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- convolutions ------------------------------------------------------------------------------- */

static double model_convolve(const struct plane *input, const struct plane *state, const float *weight,
                             const float *bias, const struct kt_rows_convolve *job, int64_t t, uint32_t c,
                             double *magnitude)
{
    double sum = bias ? (double)bias[c] : 0.0;
    *magnitude = fabs(sum);
    for (uint32_t i = 0; i < job->width; i++) {
        int64_t at = t - job->width + 1 + i;
        double x = at < 0 ? plane_get(state, (uint32_t)(at + job->width - 1), 0, c)
                          : plane_get(input, (uint32_t)at, 0, c);
        sum += (double)weight[i * job->n_channels + c] * x;
        *magnitude += fabs((double)weight[i * job->n_channels + c] * x);
    }
    return sum;
}

static void check_convolve(const struct kt_rows *rows, unsigned round, uint64_t *seed)
{
    static const uint32_t dtypes[] = {KT_DTYPE_F32, KT_DTYPE_BF16, KT_DTYPE_F16};
    static const uint32_t channels[] = {1, 16, 37, 256, 300};
    struct kt_rows_convolve job = KT_ROWS_CONVOLVE_INIT;
    job.n_rows = round % 9;
    job.width = 2 + round % 7;
    job.n_channels = channels[round % 5];
    job.plain = round / 2 % 2;
    uint32_t gap = round % 3;
    struct plane input = plane_make(dtypes[round / 3 % 3], job.n_rows, 1, job.n_channels, gap, 1.0, seed);
    struct plane output = plane_make(dtypes[round / 9 % 3], job.n_rows, 1, job.n_channels, gap, 1.0, seed);
    struct plane state = plane_make(KT_DTYPE_F32, job.width - 1, 1, job.n_channels, gap, 1.0, seed),
                 old = state;
    float *weight = floats_make((size_t)job.width * job.n_channels, 1.0, seed);
    float *bias = round / 4 % 2 ? floats_make(job.n_channels, 1.0, seed) : NULL;
    old.data = old.before;
    job.input = plane_input(&input);
    job.output = plane_output(&output);
    job.weight = weight;
    job.bias = bias;
    job.state = (float *)(void *)state.data;
    job.state_stride = state.stride;
    ck_ok(kt_rows_convolve(rows, &job, &ck_error));
    ck_holds(plane_gaps_kept(&output) && plane_gaps_kept(&state));
    for (uint32_t c = 0; c < job.n_channels; c++) {
        for (uint32_t t = 0; t < job.n_rows; t++) {
            double magnitude, sum = model_convolve(&input, &old, weight, bias, &job, t, c, &magnitude);
            /* silu' is within -0.1 and 1.1 */
            double y = job.plain ? sum : sum * model_sigmoid(sum);
            ck_near(plane_get(&output, t, 0, c), y,
                    1.1 * 9 * UNIT * magnitude + 10 * UNIT * fabs(y) + 1.01 * rounding_of(output.dtype, y));
        }
        for (uint32_t i = 0; i + 1 < job.width; i++) {
            int64_t at = (int64_t)job.n_rows - job.width + 1 + i;
            double kept = at < 0 ? plane_get(&old, (uint32_t)(at + job.width - 1), 0, c)
                                 : plane_get(&input, (uint32_t)at, 0, c);
            ck_holds(plane_get(&state, i, 0, c) == kept);
        }
    }
    plane_free(&input);
    plane_free(&output);
    plane_free(&state);
    free(weight);
    free(bias);
}

START_TEST(convolutions_are_the_formula)
{
    const struct kt_rows *rows = level_open(_i);
    uint64_t seed = 1;
    for (unsigned round = 0; rows && round < 9 * 7 * 5; round++)
        check_convolve(rows, round, &seed);
    level_close();
}
END_TEST

/* Rows one by one and all at once, channels in two halves: the same bits. */
START_TEST(convolutions_are_cut_anywhere)
{
    enum { ROWS = 11, CHANNELS = 70, WIDTH = 4 };
    const struct kt_rows *rows = level_open(_i);
    uint64_t seed = 2;
    if (!rows)
        return;
    float *x = floats_make(ROWS * CHANNELS, 1.0, &seed), *weight = floats_make(WIDTH * CHANNELS, 1.0, &seed);
    float y[2][ROWS * CHANNELS], state[2][(WIDTH - 1) * CHANNELS] = {{0}};
    struct kt_rows_convolve job = KT_ROWS_CONVOLVE_INIT;
    job.width = WIDTH;
    job.n_rows = ROWS;
    job.n_channels = CHANNELS;
    job.input = (struct kt_rows_input){x, 0, 0, KT_DTYPE_F32, 0};
    job.output = (struct kt_rows_output){y[0], 0, 0, KT_DTYPE_F32, 0};
    job.weight = weight;
    job.state = state[0];
    ck_ok(kt_rows_convolve(rows, &job, &ck_error));
    for (uint32_t t = 0; t < ROWS; t++)
        for (uint32_t c = 0; c < CHANNELS; c += 33) {
            job.n_rows = 1;
            job.n_channels = c + 33 < CHANNELS ? 33 : CHANNELS - c;
            job.input.data = x + t * CHANNELS + c;
            job.output.data = y[1] + t * CHANNELS + c;
            job.weight = weight + c;
            job.state = state[1] + c;
            job.weight_stride = job.state_stride = CHANNELS * sizeof(float);
            ck_ok(kt_rows_convolve(rows, &job, &ck_error));
        }
    ck_holds(memcmp(y[0], y[1], sizeof y[0]) == 0 && memcmp(state[0], state[1], sizeof state[0]) == 0);
    free(x);
    free(weight);
    level_close();
}
END_TEST

/* ---- decays -------------------------------------------------------------------------------------- */

START_TEST(decays_are_the_formula)
{
    const struct kt_rows *rows = level_open(_i);
    uint64_t seed = 3;
    enum { ROWS = 40, HEADS = 37 };
    if (!rows)
        return;
    struct plane x = plane_make(KT_DTYPE_F32, ROWS, 1, HEADS, 2, 1.0, &seed);
    struct plane y = plane_make(KT_DTYPE_BF16, ROWS, 1, HEADS, 0, 3.0, &seed);
    float *a = floats_make(HEADS, 3.0, &seed), *dt = floats_make(HEADS, 1.0, &seed);
    float beta[ROWS * HEADS];
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t h = 0; h < HEADS; h++)
            plane_set(&x, r, 0, h, (r % 3 ? 1.0 : 30.0) * plane_get(&x, r, 0, h));
    plane_set(&x, 7, 0, 5, NAN);
    struct plane old = plane_make(KT_DTYPE_F32, ROWS, 1, HEADS, 2, 1.0, &seed);
    memcpy(old.data, x.data, x.bytes);
    struct kt_rows_decay job = KT_ROWS_DECAY_INIT;
    job.n_rows = ROWS;
    job.n_heads = HEADS;
    job.x = plane_input(&x);
    job.y = plane_input(&y);
    job.a = a;
    job.dt_bias = dt;
    job.log_decay = (float *)(void *)x.data;
    job.log_decay_stride = x.stride;
    job.beta = beta;
    ck_ok(kt_rows_decay(rows, &job, &ck_error));
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t h = 0; h < HEADS; h++) {
            double in = plane_get(&old, r, 0, h) + (double)dt[h];
            double plus = fmax(in, 0.0) + log1p(exp(-fabs(in))), expected = (double)a[h] * plus;
            double sum_error = UNIT * fabs(in) * fabs((double)a[h]); /* softplus' is below 1 */
            if (r == 7 && h == 5)
                ck_holds(isnan(plane_get(&x, r, 0, h)));
            else
                ck_near(plane_get(&x, r, 0, h), expected, sum_error + 14 * UNIT * fabs(expected) + 0x1p-140);
            double b = model_sigmoid(plane_get(&y, r, 0, h));
            ck_near(beta[r * HEADS + h], b, 8 * UNIT * b);
        }
    plane_free(&x);
    plane_free(&y);
    plane_free(&old);
    free(a);
    free(dt);
    level_close();
}
END_TEST

/* ---- the delta rule ------------------------------------------------------------------------------- */

struct rule {
    uint32_t rows, heads, key_heads, order, key_size, value_size, gap;
    float *query, *key, *value, *log_decay, *beta, *state, *output;
    int64_t query_stride, key_stride, value_stride; /* numbers */
};

/* Queries and keys of length 1, decays from almost none to almost all. */
static struct rule make_rule(uint32_t rows, uint32_t heads, uint32_t key_heads, uint32_t key_size,
                             uint32_t value_size, uint64_t *seed)
{
    struct rule rule = {rows, heads, key_heads, rows % 2, key_size, value_size, rows % 3, 0, 0,
                        0,    0,     0,         0,        0,        0,          0,        0};
    size_t n = rows ? rows : 1;
    rule.query_stride = rule.key_stride = (int64_t)key_heads * key_size + rule.gap;
    rule.value_stride = (int64_t)heads * value_size + rule.gap;
    rule.query = floats_make(n * (size_t)rule.query_stride, 1.0, seed);
    rule.key = floats_make(n * (size_t)rule.key_stride, 1.0, seed);
    rule.value = floats_make(n * (size_t)rule.value_stride, 1.0, seed);
    rule.log_decay = floats_make(n * heads, 1.0, seed);
    rule.beta = floats_make(n * heads, 1.0, seed);
    rule.state = floats_make((size_t)heads * key_size * value_size, 0.3, seed);
    rule.output = calloc(n * (size_t)rule.value_stride, sizeof(float));
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t h = 0; h < key_heads; h++) {
            float *q = rule.query + r * rule.query_stride + h * key_size;
            float *k = rule.key + r * rule.key_stride + h * key_size;
            double qq = 0.0, kk = 0.0;
            for (uint32_t i = 0; i < key_size; i++) {
                k[i] += r ? 0.7f * k[i - rule.key_stride] * sqrtf((float)key_size)
                          : 0.0f; /* neighbors are alike */
                qq += (double)q[i] * (double)q[i];
                kk += (double)k[i] * (double)k[i];
            }
            for (uint32_t i = 0; i < key_size; i++) {
                q[i] /= (float)sqrt(qq * key_size);
                k[i] /= (float)sqrt(kk);
            }
        }
    for (size_t i = 0; i < n * heads; i++) {
        double size = exp(2.0 * (double)rule.log_decay[i]); /* 0.02 .. 50 */
        rule.log_decay[i] = (float)-(i % 5 == 0 ? size : 0.05 * size);
        rule.beta[i] = (float)model_sigmoid(2.0 * (double)rule.beta[i]);
    }
    return rule;
}

static void free_rule(struct rule *rule)
{
    free(rule->query);
    free(rule->key);
    free(rule->value);
    free(rule->log_decay);
    free(rule->beta);
    free(rule->state);
    free(rule->output);
}

static struct kt_rows_delta job_of(const struct rule *rule, const struct kt_rows *rows, float *state,
                                   float *output)
{
    struct kt_rows_delta job = KT_ROWS_DELTA_INIT;
    job.n_rows = rule->rows;
    job.n_heads = job.end_head = rule->heads;
    job.n_key_heads = rule->key_heads;
    job.order = rule->order;
    job.key_size = rule->key_size;
    job.value_size = rule->value_size;
    job.query = rule->query;
    job.key = rule->key;
    job.value = rule->value;
    job.log_decay = rule->log_decay;
    job.beta = rule->beta;
    job.query_stride = rule->query_stride * 4;
    job.key_stride = rule->key_stride * 4;
    job.value_stride = job.output_stride = rule->value_stride * 4;
    job.state = state;
    job.output = output;
    ck_ok(kt_rows_delta_scratch(rows, rule->key_size, rule->value_size, &job.scratch_size, &ck_error));
    job.scratch = aligned_alloc(64, (job.scratch_size + 63) & ~UINT64_C(63));
    memset(job.scratch, 0xff, job.scratch_size);
    return job;
}

static float *copy_state(const struct rule *rule)
{
    size_t size = sizeof(float) * rule->heads * rule->key_size * rule->value_size;
    return memcpy(malloc(size), rule->state, size);
}

/*
 * One head in double, by the formula as it stands. What a level's rounding may do to a column: each row adds
 * the error of two sums of key_size numbers, one of them times beta and |k| = 1, or in the chunked form of a
 * sum of 64 more; nothing that is there grows, since decay and I - beta k k^T shrink. M: the largest
 * magnitudes that are summed up so far, and of the deltas, which sums of a chunk have.
 */
static void check_head(const struct rule *rule, uint32_t head, const float *state, const float *output)
{
    const uint32_t n = rule->key_size, m = rule->value_size;
    uint32_t per_key = rule->heads / rule->key_heads;
    uint32_t key_head = rule->order == KT_DELTA_GROUPED ? head / per_key : head % rule->key_heads;
    double *s = malloc(sizeof(double) * n * m);
    for (uint32_t i = 0; i < n * m; i++) /* a column in one piece */
        s[i % m * n + i / m] = (double)rule->state[(size_t)head * n * m + i];
    for (uint32_t c = 0; c < m; c++) {
        double most = 0.0, error = 0.0;
        for (uint32_t t = 0; t < rule->rows; t++) {
            const float *q = rule->query + t * rule->query_stride + key_head * n;
            const float *k = rule->key + t * rule->key_stride + key_head * n;
            double log_decay = (double)rule->log_decay[t * rule->heads + head];
            double decay = exp(log_decay < -200 ? -200 : log_decay), recalled = 0.0, magnitude = 0.0,
                   out = 0.0;
            double v = (double)rule->value[t * rule->value_stride + head * m + c];
            for (uint32_t i = 0; i < n; i++) {
                s[c * n + i] *= decay;
                recalled += s[c * n + i] * (double)k[i];
                magnitude += fabs(s[c * n + i]);
            }
            double d = (double)rule->beta[t * rule->heads + head] * (v - recalled);
            for (uint32_t i = 0; i < n; i++) {
                s[c * n + i] += (double)k[i] * d;
                out += s[c * n + i] * (double)q[i];
            }
            most = fmax(most, magnitude / sqrt(n) + fabs(v) + fabs(d));
            error += 2 * (n + 64 + 16) * UNIT * most;
            ck_near(output[t * rule->value_stride + head * m + c], out, error);
        }
        for (uint32_t i = 0; i < n; i++)
            ck_near(state[(size_t)head * n * m + i * m + c], s[c * n + i], error + UNIT * fabs(s[c * n + i]));
    }
    free(s);
}

static const struct {
    uint32_t heads, key_heads, key_size, value_size;
} shapes[] = {{2, 1, 16, 16}, {4, 2, 32, 48}, {2, 2, 64, 80}, {3, 1, 128, 128}};

START_TEST(the_rule_is_the_formula)
{
    const struct kt_rows *rows = level_open(_i);
    uint64_t seed = 4;
    const uint32_t step = getenv("KT_TEST_QUICK") ? 5 : 1;
    for (uint32_t n = 0; rows && n <= 200; n += (n < 70 ? 1 : 9) * step) {
        unsigned shape = n % 4;
        struct rule rule = make_rule(n, shapes[shape].heads, shapes[shape].key_heads, shapes[shape].key_size,
                                     shapes[shape].value_size, &seed);
        for (uint32_t deterministic = 0; deterministic < 2; deterministic++) {
            float *state = copy_state(&rule);
            struct kt_rows_delta job = job_of(&rule, rows, state, rule.output);
            job.deterministic = deterministic;
            ck_ok(kt_rows_delta(rows, &job, &ck_error));
            for (uint32_t h = 0; h < rule.heads; h++)
                check_head(&rule, h, state, rule.output);
            free(job.scratch);
            free(state);
        }
        free_rule(&rule);
    }
    level_close();
}
END_TEST

/* Deterministic: rows in jobs of any size. Not: heads in jobs of any size. The same bits. */
START_TEST(rules_are_cut_anywhere)
{
    const struct kt_rows *rows = level_open(_i);
    uint64_t seed = 5;
    for (uint32_t n = 1; rows && n < 150; n += 37) {
        struct rule rule = make_rule(n, 4, 2, 48, 80, &seed);
        size_t out_size = (size_t)n * (size_t)rule.value_stride * 4, state_size = 4 * 4 * 48 * 80;
        for (uint32_t deterministic = 0; deterministic < 2; deterministic++) {
            float *state = copy_state(&rule), *other_state = copy_state(&rule);
            float *other = calloc(1, out_size);
            struct kt_rows_delta job = job_of(&rule, rows, state, rule.output), part = job;
            part.deterministic = job.deterministic = deterministic;
            part.state = other_state;
            part.output = other;
            memset(rule.output, 0, out_size);
            ck_ok(kt_rows_delta(rows, &job, &ck_error));
            for (uint32_t h = 0; h < 4; h++)
                for (uint32_t t = 0, step = 1; t < n; t += step, step++) {
                    if (!deterministic || step > n - t)
                        step = n - t;
                    part.first_head = h;
                    part.end_head = h + 1;
                    part.n_rows = step;
                    part.query = rule.query + t * rule.query_stride;
                    part.key = rule.key + t * rule.key_stride;
                    part.value = rule.value + t * rule.value_stride;
                    part.log_decay = rule.log_decay + t * 4;
                    part.beta = rule.beta + t * 4;
                    part.output = other + t * rule.value_stride;
                    ck_ok(kt_rows_delta(rows, &part, &ck_error));
                }
            ck_holds(memcmp(rule.output, other, out_size) == 0);
            ck_holds(memcmp(state, other_state, state_size) == 0);
            free(job.scratch);
            free(state);
            free(other_state);
            free(other);
        }
        free_rule(&rule);
    }
    level_close();
}
END_TEST

/* core.deterministic is every job's. */
START_TEST(a_context_is_deterministic)
{
    uint64_t seed = 8;
    struct rule rule = make_rule(100, 2, 1, 32, 32, &seed);
    size_t size = (size_t)100 * (size_t)rule.value_stride * 4;
    float *outputs[2] = {calloc(1, size), calloc(1, size)};
    for (int way = 0; way < 2; way++) {
        const struct kt_rows *rows =
            level_open_with(_i, way ? "core.deterministic=yes" : "core.deterministic=no");
        if (!rows)
            break;
        float *state = copy_state(&rule);
        struct kt_rows_delta job = job_of(&rule, rows, state, outputs[way]);
        job.deterministic = !way;
        ck_ok(kt_rows_delta(rows, &job, &ck_error));
        ck_holds(memcmp(outputs[way], outputs[0], size) == 0);
        free(job.scratch);
        free(state);
        level_close();
    }
    free(outputs[0]);
    free(outputs[1]);
    free_rule(&rule);
}
END_TEST

/* NaN in a row of one head: rows before it and other heads stay, in both forms; outputs over the values. */
START_TEST(nan_stays_behind_its_row)
{
    const struct kt_rows *rows = level_open(_i);
    uint64_t seed = 6;
    for (uint32_t n = 8; rows && n <= 120; n += 56) {
        struct rule rule = make_rule(n, 2, 2, 32, 32, &seed);
        float *clean = copy_state(&rule), *dirty = copy_state(&rule);
        struct kt_rows_delta job = job_of(&rule, rows, clean, rule.output);
        uint32_t at = n - 3;
        ck_ok(kt_rows_delta(rows, &job, &ck_error));
        rule.value[at * rule.value_stride + 32 + 5] = NAN;
        job.state = dirty;
        job.output = rule.value;
        ck_ok(kt_rows_delta(rows, &job, &ck_error));
        for (uint32_t t = 0; t < n; t++)
            for (uint32_t c = 0; c < 64; c++) {
                float found = rule.value[t * rule.value_stride + c];
                if (t >= at && c == 32 + 5)
                    ck_holds(isnan(found));
                else
                    ck_holds(found == rule.output[t * rule.value_stride + c]);
            }
        for (uint32_t i = 0; i < 2 * 32 * 32; i++)
            ck_holds(i / 1024 == 1 && i % 32 == 5 ? isnan(dirty[i]) : dirty[i] == clean[i]);
        free(job.scratch);
        free(clean);
        free(dirty);
        free_rule(&rule);
    }
    level_close();
}
END_TEST

/* A decay that leaves nothing, -infinity too: what came before does not matter. */
START_TEST(a_decay_may_leave_nothing)
{
    const struct kt_rows *rows = level_open(_i);
    uint64_t seed = 7;
    for (uint32_t n = 4; rows && n <= 100; n += 96) {
        struct rule rule = make_rule(n, 1, 1, 32, 32, &seed);
        for (uint32_t t = 0; t < n; t += 3)
            rule.log_decay[t] = t % 2 ? -INFINITY : -1000.0f;
        float *state = copy_state(&rule);
        struct kt_rows_delta job = job_of(&rule, rows, state, rule.output);
        ck_ok(kt_rows_delta(rows, &job, &ck_error));
        check_head(&rule, 0, state, rule.output);
        free(job.scratch);
        free(state);
        free_rule(&rule);
    }
    level_close();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("levels");
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, convolutions_are_the_formula, 0, N_LEVELS);
    tcase_add_loop_test(tests, convolutions_are_cut_anywhere, 0, N_LEVELS);
    tcase_add_loop_test(tests, decays_are_the_formula, 0, N_LEVELS);
    tcase_add_loop_test(tests, the_rule_is_the_formula, 0, N_LEVELS);
    tcase_add_loop_test(tests, rules_are_cut_anywhere, 0, N_LEVELS);
    tcase_add_loop_test(tests, a_context_is_deterministic, 0, N_LEVELS);
    tcase_add_loop_test(tests, nan_stays_behind_its_row, 0, N_LEVELS);
    tcase_add_loop_test(tests, a_decay_may_leave_nothing, 0, N_LEVELS);
    return run_tests("delta", tests);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_norm.c - norms and gates of every level against their formulas in double. */
#include "tests/core/rows/rows_model.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t dtypes[] = {KT_DTYPE_F32, KT_DTYPE_BF16, KT_DTYPE_F16};
static const uint32_t sizes[] = {1, 3, 15, 16, 17, 64, 100, 128, 255, 256, 257, 600};
enum { N_DTYPES = 3, N_SIZES = sizeof sizes / sizeof *sizes };

/* A case: what varies, and planes that the job uses. */
struct norm_case {
    struct kt_rows_norm job;
    struct plane input, output, residual, gate, sum; /* sum: the residual as it becomes */
    float *weight, *bias;
};

static struct norm_case make_case(uint32_t norm, uint32_t dtype, uint32_t size, unsigned extras,
                                  uint64_t *seed)
{
    struct norm_case c = {.job = KT_ROWS_NORM_INIT};
    uint32_t rows = 3, parts = extras & 1 ? 4 : 1, gap = extras & 2 ? 5 : 0;
    c.input = plane_make(dtype, rows, parts, size, gap, 2.0, seed);
    c.output = plane_make(dtypes[(size + extras) % N_DTYPES], rows, parts, size, gap, 1.0, seed);
    c.residual = plane_make(KT_DTYPE_F32, rows, parts, size, gap, 1.0, seed);
    c.sum = plane_make(KT_DTYPE_F32, rows, parts, size, gap, 1.0, seed);
    c.gate = plane_make(dtypes[size % N_DTYPES], rows, parts, size, gap, 2.0, seed);
    c.weight = floats_make(size, 1.0, seed);
    c.bias = floats_make(size, 1.0, seed);
    c.job.norm = norm;
    c.job.n_rows = rows;
    c.job.n_parts = parts;
    c.job.size = size;
    c.job.input = plane_input(&c.input);
    c.job.output = plane_output(&c.output);
    if (extras & 4)
        c.job.residual = plane_output(&c.residual);
    if (extras & 8)
        c.job.gate = plane_input(&c.gate);
    if (extras & 16)
        c.job.weight = c.weight;
    if (extras & 32)
        c.job.bias = c.bias;
    c.job.weight_offset = extras & 1 ? 1.0f : 0.0f;
    c.job.eps = 1e-6f;
    c.job.scale = extras & 2 ? 0.25f : 0.0f;
    return c;
}

static void free_case(struct norm_case *c)
{
    plane_free(&c->input);
    plane_free(&c->output);
    plane_free(&c->residual);
    plane_free(&c->sum);
    plane_free(&c->gate);
    free(c->weight);
    free(c->bias);
}

/*
 * A sum of n numbers is wrong by at most n UNIT times the sum of their magnitudes, in whatever order it is
 * made. The factor is then wrong by half of that, relatively, and by some roundings; a mean by n UNIT of the
 * mean magnitude, by which each x - mean may be wrong as well.
 */
static void check_part(const struct norm_case *c, uint32_t row, uint32_t part)
{
    const struct kt_rows_norm *job = &c->job;
    const uint32_t n = job->size;
    double x[600], mean = 0.0, squares = 0.0, magnitude = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        x[i] = plane_get(&c->input, row, part, i);
        if (job->residual.data) {
            x[i] = (double)(float)(plane_get(&c->sum, row, part, i) + x[i]);
            ck_near(plane_get(&c->residual, row, part, i), x[i], 0.0);
        }
        mean += x[i] / n;
        magnitude += fabs(x[i]) / n;
    }
    if (job->norm != KT_NORM_LAYER)
        mean = magnitude = 0.0;
    for (uint32_t i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    double factor = (job->scale == 0.0f ? 1.0 : (double)job->scale) /
                    sqrt(squares / (job->norm == KT_NORM_L2 ? 1 : n) + (double)job->eps);
    double mean_error = n * UNIT * magnitude;
    for (uint32_t i = 0; i < n; i++) {
        double w = job->weight ? (double)job->weight_offset + (double)job->weight[i] : 1.0;
        double y = (x[i] - mean) * factor * w, bias = job->bias ? (double)job->bias[i] : 0.0;
        double error = (n + 8) * UNIT * fabs(y) + 2 * (mean_error + UNIT * fabs(x[i])) * factor * fabs(w) +
                       UNIT * factor * fabs(x[i] - mean) * ((double)job->weight_offset + fabs(w));
        y += bias;
        error += UNIT * fabs(y);
        if (job->gate.data) {
            double g = plane_get(&c->gate, row, part, i), silu = g * model_sigmoid(g);
            error = error * fabs(silu) + 10 * UNIT * fabs(y * silu);
            y *= silu;
        }
        ck_near(plane_get(&c->output, row, part, i), y, 1.01 * error + rounding_of(c->output.dtype, y));
    }
}

START_TEST(norms_are_the_formula)
{
    const struct kt_rows *rows = level_open(_i);
    uint64_t seed = 1;
    const unsigned step = getenv("KT_TEST_QUICK") ? 37 : 7;
    for (unsigned round = 0; rows && round < 3 * N_DTYPES * N_SIZES * 64; round += step) {
        unsigned extras = round % 64, size = round / 64 % N_SIZES, dtype = round / 64 / N_SIZES % N_DTYPES;
        uint32_t norm = round / 64 / N_SIZES / N_DTYPES;
        /* One number less its mean is 0, and of two so much may be lost: the bound says nothing. */
        if (norm == KT_NORM_LAYER && sizes[size] < 3)
            continue;
        struct norm_case c = make_case(norm, dtypes[dtype], sizes[size], extras, &seed);
        memcpy(c.sum.data, c.residual.data, c.residual.bytes);
        ck_ok(kt_rows_norm(rows, &c.job, &ck_error));
        ck_holds(plane_gaps_kept(&c.output) && plane_gaps_kept(&c.residual));
        ck_holds(memcmp(c.input.data, c.input.before, c.input.bytes) == 0);
        for (uint32_t r = 0; r < c.job.n_rows; r++)
            for (uint32_t p = 0; p < c.job.n_parts; p++)
                check_part(&c, r, p);
        free_case(&c);
    }
    level_close();
}
END_TEST

/* One row at a time, in place, with NaN in another row: the same bits. */
START_TEST(norms_of_rows_are_independent)
{
    const struct kt_rows *rows = level_open(_i);
    uint64_t seed = 2;
    for (unsigned extras = 0; rows && extras < 64; extras++) {
        struct norm_case c = make_case(extras % 3, KT_DTYPE_F32, 257, extras, &seed);
        ck_ok(kt_rows_norm(rows, &c.job, &ck_error));
        memcpy(c.residual.data, c.residual.before, c.residual.bytes);
        plane_set(&c.input, 1, 0, 100, NAN);
        for (uint32_t r = 0; r < 3; r += 2) {
            struct plane alone = plane_make(c.output.dtype, 1, c.job.n_parts, 257, 0, 1.0, &seed);
            struct kt_rows_norm job = c.job;
            job.n_rows = 1;
            job.input.data = c.input.data + r * c.input.stride;
            job.output = plane_output(&alone);
            job.output.stride = job.output.part_stride = 0;
            if (job.residual.data)
                job.residual.data = c.residual.data + r * c.residual.stride;
            if (job.gate.data)
                job.gate.data = c.gate.data + r * c.gate.stride;
            ck_ok(kt_rows_norm(rows, &job, &ck_error));
            for (uint32_t p = 0; p < c.job.n_parts; p++)
                for (uint32_t i = 0; i < 257; i++)
                    ck_holds(plane_get(&alone, 0, p, i) == plane_get(&c.output, r, p, i));
            plane_free(&alone);
        }
        memcpy(c.residual.data, c.residual.before, c.residual.bytes);
        ck_ok(kt_rows_norm(rows, &c.job, &ck_error));
        for (uint32_t p = 0; p < c.job.n_parts; p++)
            for (uint32_t i = 0; i < 257; i++) {
                ck_holds(isnan(plane_get(&c.output, 1, p, i)) == (p == 0));
                ck_holds(!isnan(plane_get(&c.output, 0, p, i)) && !isnan(plane_get(&c.output, 2, p, i)));
            }
        free_case(&c);
    }
    level_close();
}
END_TEST

START_TEST(norms_in_place)
{
    const struct kt_rows *rows = level_open(_i);
    uint64_t seed = 3;
    for (unsigned d = 0; rows && d < N_DTYPES; d++) {
        struct norm_case c = make_case(KT_NORM_RMS, dtypes[d], 300, 1 | 2 | 16, &seed);
        struct plane other = plane_make(dtypes[d], 3, 4, 300, 5, 1.0, &seed);
        c.job.output = plane_output(&other);
        ck_ok(kt_rows_norm(rows, &c.job, &ck_error));
        c.job.output = plane_output(&c.input);
        ck_ok(kt_rows_norm(rows, &c.job, &ck_error));
        ck_holds(memcmp(other.data, c.input.data, other.bytes) == 0);
        plane_free(&other);
        free_case(&c);
    }
    level_close();
}
END_TEST

/* Its exp is infinite from 2^128 on, and GELU 0 then. */
#define SMALL 0x1p-120

/* What GELU's exp is given; six roundings of it. */
static double of_exp(double g)
{
    return 2 * sqrt(2 / M_PI) * (g + 0.044715 * g * g * g);
}

static double model_gate(uint32_t gating, double g)
{
    return gating == KT_GATING_PLAIN     ? g
           : gating == KT_GATING_SIGMOID ? model_sigmoid(g)
           : gating == KT_GATING_SILU    ? g * model_sigmoid(g)
                                         : g * model_sigmoid(of_exp(g)); /* (1 + tanh(x / 2)) / 2 */
}

static void check_gate(const struct kt_rows *rows, unsigned round, uint64_t *seed)
{
    uint32_t size = sizes[round % N_SIZES], parts = 1 + round % 3, gap = round % 2 ? 3 : 0;
    bool one = round / 2 % 2, none = round % 7 == 0;
    struct plane input = plane_make(dtypes[round % 3], 2, parts, size, gap, 2.0, seed);
    struct plane gate = plane_make(dtypes[round / 3 % 3], 2, parts, one ? 1 : size, gap, 3.0, seed);
    struct plane output = plane_make(dtypes[round / 9 % 3], 2, parts, size, gap, 1.0, seed);
    struct plane old = output;
    struct kt_rows_gate job = KT_ROWS_GATE_INIT;
    job.gating = round / 4 % 4;
    job.n_rows = 2;
    job.n_parts = parts;
    job.size = size;
    job.input = plane_input(&input);
    if (!none)
        job.gate = plane_input(&gate);
    job.output = plane_output(&output);
    job.one_gate = one;
    job.accumulate = round / 5 % 2;
    ck_ok(kt_rows_gate(rows, &job, &ck_error));
    ck_holds(plane_gaps_kept(&output));
    old.data = old.before;
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t p = 0; p < parts; p++)
            for (uint32_t i = 0; i < size; i++) {
                double g = none ? 1.0 : plane_get(&gate, r, p, one ? 0 : i);
                double product = plane_get(&input, r, p, i) * (none ? 1.0 : model_gate(job.gating, g));
                double y = product + (job.accumulate ? plane_get(&old, r, p, i) : 0.0);
                ck_near(plane_get(&output, r, p, i), y,
                        (12 + (job.gating == KT_GATING_GELU ? 6 * fabs(of_exp(g)) : 0)) * UNIT *
                                fabs(product) +
                            UNIT * fabs(y) + SMALL + 1.01 * rounding_of(output.dtype, y));
            }
    plane_free(&input);
    plane_free(&gate);
    plane_free(&output);
}

START_TEST(gates_are_the_formula)
{
    const struct kt_rows *rows = level_open(_i);
    uint64_t seed = 4;
    for (unsigned round = 0; rows && round < 400; round++)
        check_gate(rows, round, &seed);
    level_close();
}
END_TEST

/* Numbers of float16 at their edges: rounding to nearest even, subnormals, infinity, NaN. */
START_TEST(halves_are_rounded)
{
    static const double in[] = {65504,         65519.9,        65520,       0x1p-25,
                                0x1.8p-24,     0x1.000002p-25, 0x1.ffcp-15, 1.0 + 0x1p-11,
                                1.0 + 0x3p-11, -0x1.ffdp-15,   INFINITY,    -0.0};
    static const double out[] = {65504,   65504, INFINITY,     0,        0x1p-23,  0x1p-24,
                                 0x1p-14, 1.0,   1.0 + 0x1p-9, -0x1p-14, INFINITY, -0.0};
    enum { N = sizeof in / sizeof *in };
    const struct kt_rows *rows = level_open(_i);
    uint64_t seed = 5;
    if (!rows)
        return;
    struct plane input = plane_make(KT_DTYPE_F32, 1, 1, N + 1, 0, 1.0, &seed);
    struct plane output = plane_make(KT_DTYPE_F16, 1, 1, N + 1, 0, 1.0, &seed);
    for (uint32_t i = 0; i < N; i++)
        plane_set(&input, 0, 0, i, in[i]);
    plane_set(&input, 0, 0, N, NAN);
    struct kt_rows_gate job = KT_ROWS_GATE_INIT;
    job.n_rows = 1;
    job.size = N + 1;
    job.input = plane_input(&input);
    job.output = plane_output(&output);
    ck_ok(kt_rows_gate(rows, &job, &ck_error));
    for (uint32_t i = 0; i < N; i++)
        ck_assert_msg(plane_get(&output, 0, 0, i) == out[i], "%g became %g, expected %g", in[i],
                      plane_get(&output, 0, 0, i), out[i]);
    ck_holds(isnan(plane_get(&output, 0, 0, N)));
    plane_free(&input);
    plane_free(&output);
    level_close();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("levels");
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, norms_are_the_formula, 0, N_LEVELS);
    tcase_add_loop_test(tests, norms_of_rows_are_independent, 0, N_LEVELS);
    tcase_add_loop_test(tests, norms_in_place, 0, N_LEVELS);
    tcase_add_loop_test(tests, gates_are_the_formula, 0, N_LEVELS);
    tcase_add_loop_test(tests, halves_are_rounded, 0, N_LEVELS);
    return run_tests("norms", tests);
}

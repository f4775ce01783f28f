/* SPDX-License-Identifier: Apache-2.0 */
/* test_route.c - products of routers and the choice of experts, of every level, against their rules in
 * double. */
#include "tests/core/rows/rows_model.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t dtypes[] = {KT_DTYPE_F32, KT_DTYPE_BF16, KT_DTYPE_F16};

/* ---- products -------------------------------------------------------------------------------------- */

/* t rows of `size` numbers by n rows of weights. */
static void check_product(const struct kt_rows *rows, unsigned round, uint32_t size, uint32_t n, uint32_t t,
                          uint64_t *seed)
{
    uint32_t gap = round % 2 * 3;
    struct plane input = plane_make(dtypes[round / 5 % 3], t, 1, size, gap, 1.0, seed);
    struct plane weight = plane_make(dtypes[round / 4 % 3], n, 1, size, gap, 1.0, seed);
    struct plane output = plane_make(KT_DTYPE_F32, t, 1, n, gap, 1.0, seed);
    float *bias = round % 3 ? floats_make(n, 1.0, seed) : NULL;
    struct kt_rows_multiply job = KT_ROWS_MULTIPLY_INIT;
    job.n_rows = t;
    job.n_outputs = n;
    job.size = size;
    job.weight_dtype = weight.dtype;
    job.input = plane_input(&input);
    job.weight = weight.data;
    job.weight_stride = weight.stride;
    job.bias = bias;
    job.output = (float *)(void *)output.data;
    job.output_stride = output.stride;
    ck_ok(kt_rows_multiply(rows, &job, &ck_error));
    ck_holds(plane_gaps_kept(&output));
    for (uint32_t r = 0; r < t; r++)
        for (uint32_t e = 0; e < n; e++) {
            double sum = bias ? (double)bias[e] : 0.0, magnitude = fabs(sum);
            for (uint32_t c = 0; c < size; c++) {
                double product = plane_get(&input, r, 0, c) * plane_get(&weight, e, 0, c);
                sum += product;
                magnitude += fabs(product);
            }
            ck_near(plane_get(&output, r, 0, e), sum, (size + 1) * UNIT * magnitude);
        }
    /* Each output alone: the same bits. */
    for (uint32_t r = 0; r < t; r++)
        for (uint32_t e = 0; e < n; e++) {
            float alone;
            struct kt_rows_multiply one = job;
            one.n_rows = one.n_outputs = 1;
            one.input.data = input.data + r * input.stride;
            one.weight = weight.data + e * weight.stride;
            one.bias = bias ? bias + e : NULL;
            one.output = &alone;
            one.output_stride = 0;
            ck_ok(kt_rows_multiply(rows, &one, &ck_error));
            ck_holds((double)alone == plane_get(&output, r, 0, e));
        }
    plane_free(&input);
    plane_free(&weight);
    plane_free(&output);
    free(bias);
}

START_TEST(products_are_the_formula)
{
    static const uint32_t sizes[] = {1, 15, 16, 64, 255, 300, 513}, outputs[] = {1, 3, 4, 8, 9, 13, 16};
    const struct kt_rows *rows = level_open(_i);
    uint64_t seed = 1;
    for (unsigned round = 0; rows && round < 300; round++)
        check_product(rows, round, sizes[round % 7], outputs[round / 2 % 7], round / 3 % 8, &seed);
    level_close();
}
END_TEST

/* Rows that are long enough for tiles, with ends of tiles, blocks and groups of rows and outputs. */
START_TEST(long_products_are_the_formula)
{
    static const uint32_t sizes[] = {1023, 1024, 1025, 1100, 1280, 1311};
    static const uint32_t outputs[] = {1, 15, 16, 17, 33, 130}, tokens[] = {1, 4, 3, 5, 16, 17, 33, 15};
    const struct kt_rows *rows = level_open(_i);
    uint64_t seed = 5;
    unsigned rounds = getenv("KT_TEST_QUICK") ? 12 : 36;
    for (unsigned round = 0; rows && round < rounds; round++) {
        uint32_t n = outputs[(round + round / 6) % 6], t = tokens[round % 8];
        check_product(rows, round, sizes[round % 6], n, n > 100 && t > 16 ? 2 : t, &seed);
    }
    level_close();
}
END_TEST

enum { BAD_SIZE = 1056, BAD_TOKENS = 5, BAD_OUTPUTS = 19, BAD_ROW = 3 };

/* Products of n tokens, few or many for tiles, of which BAD_ROW has such a number. */
static void multiply_with(const struct kt_rows *rows, unsigned n, uint32_t bits, unsigned at, uint64_t *seed,
                          float y[BAD_TOKENS][BAD_OUTPUTS])
{
    struct plane x = plane_make(KT_DTYPE_F32, BAD_TOKENS, 1, BAD_SIZE, 0, 1.0, seed);
    struct plane w = plane_make(KT_DTYPE_BF16, BAD_OUTPUTS, 1, BAD_SIZE, 0, 1.0, seed);
    struct kt_rows_multiply job = KT_ROWS_MULTIPLY_INIT;
    memcpy(x.data + BAD_ROW * x.stride + 4 * at, &bits, 4);
    job.n_rows = n;
    job.n_outputs = BAD_OUTPUTS;
    job.size = BAD_SIZE;
    job.weight_dtype = KT_DTYPE_BF16;
    job.input = plane_input(&x);
    job.weight = w.data;
    job.weight_stride = w.stride;
    job.output = y[0];
    ck_ok(kt_rows_multiply(rows, &job, &ck_error));
    plane_free(&x);
    plane_free(&w);
}

/* A NaN of any bits in a number of a token is in all of its products and in no others. */
START_TEST(nan_of_any_bits_stays_in_its_token)
{
    static const uint32_t nans[] = {0x7fc00000, 0x7f800001, 0x7fffffff, 0xffffffff, 0xff80ffff};
    const struct kt_rows *rows = level_open(_i);
    uint64_t seed = 6;
    for (unsigned i = 0; rows && i < sizeof nans / sizeof *nans; i++) {
        float y[BAD_TOKENS][BAD_OUTPUTS];
        unsigned n = BAD_TOKENS - i % 2;
        multiply_with(rows, n, nans[i], BAD_SIZE - 1 - i, &seed, y);
        for (unsigned r = 0; r < n; r++)
            for (unsigned e = 0; e < BAD_OUTPUTS; e++)
                ck_holds(isnan(y[r][e]) == (r == BAD_ROW));
    }
    level_close();
}
END_TEST

/* An infinite number gives no finite product of its token, on tiles a NaN; those of others are finite, also
 * beside a number that is infinite once it is rounded to bfloat16. */
START_TEST(infinity_stays_in_its_token)
{
    static const uint32_t large[] = {0x7f800000, 0xff800000, 0x7f7fffff, 0xff7fffff};
    const struct kt_rows *rows = level_open(_i);
    uint64_t seed = 7;
    for (unsigned i = 0; rows && i < 4; i++) {
        float y[BAD_TOKENS][BAD_OUTPUTS];
        unsigned n = BAD_TOKENS - i % 2;
        multiply_with(rows, n, large[i], 17 * i, &seed, y);
        for (unsigned r = 0; r < n; r++)
            for (unsigned e = 0; e < BAD_OUTPUTS; e++)
                ck_holds(r == BAD_ROW ? i > 1 || !isfinite(y[r][e]) : isfinite(y[r][e]));
    }
    level_close();
}
END_TEST

START_TEST(nan_stays_in_its_token)
{
    const struct kt_rows *rows = level_open(_i);
    uint64_t seed = 2;
    if (!rows)
        return;
    float *x = floats_make(7 * 100, 1.0, &seed), *w = floats_make(11 * 100, 1.0, &seed), y[7][11];
    x[4 * 100 + 99] = NAN;
    struct kt_rows_multiply job = KT_ROWS_MULTIPLY_INIT;
    job.n_rows = 7;
    job.n_outputs = 11;
    job.size = 100;
    job.weight_dtype = KT_DTYPE_F32;
    job.input = (struct kt_rows_input){x, 0, 0, KT_DTYPE_F32, 0};
    job.weight = w;
    job.output = y[0];
    ck_ok(kt_rows_multiply(rows, &job, &ck_error));
    for (unsigned r = 0; r < 7; r++)
        for (unsigned e = 0; e < 11; e++)
            ck_holds(isnan(y[r][e]) == (r == 4));
    free(x);
    free(w);
    level_close();
}
END_TEST

/* ---- choices ---------------------------------------------------------------------------------------- */

enum { MOST = 512 };

/* A row's scores by the rule: p, and what experts are chosen by. */
static void model_scores(const struct kt_rows_route *job, const float *z, double *p, double *choice)
{
    double max = -INFINITY, sum = 0.0;
    for (uint32_t e = 0; e < job->n_experts; e++)
        max = fmax(max, (double)z[e]);
    bool by_logits = job->routing >= KT_ROUTING_LOGITS, soft = job->routing < KT_ROUTING_SIGMOID;
    for (uint32_t e = 0; e < job->n_experts; e++) {
        p[e] = soft ? exp((double)z[e] - max) : model_sigmoid((double)z[e]);
        sum += p[e];
    }
    for (uint32_t e = 0; e < job->n_experts; e++) {
        p[e] /= soft ? sum : 1;
        choice[e] = (by_logits ? (double)z[e] : p[e]) + (job->correction ? (double)job->correction[e] : 0.0);
    }
}

/* The weight of `best` among those that are near and were not chosen before. */
static double model_mix(const struct kt_rows_route *job, const float *z, const bool *taken, uint32_t best)
{
    double m = (double)z[best], sum = 0.0;
    for (uint32_t e = 0; e < job->n_experts; e++)
        if (!taken[e] && m - (double)z[e] <= (double)job->near * fmax(fabs((double)z[e]), m))
            sum += exp((double)z[e] - m);
    return 1.0 / sum;
}

/* The index of the largest number that is not taken; the first one of equals. */
static uint32_t largest(const double *numbers, const bool *taken, uint32_t n)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++)
        if (!taken[i] && (best == UINT32_MAX || numbers[i] > numbers[best]))
            best = i;
    return best;
}

static void model_groups(const struct kt_rows_route *job, const double *choice, bool *taken)
{
    uint32_t size = job->n_experts / job->n_groups;
    double score[MOST];
    bool kept[MOST] = {false};
    for (uint32_t g = 0; g < job->n_groups; g++) {
        bool used[MOST] = {false};
        uint32_t first = largest(choice + g * size, used, size), second;
        score[g] = choice[g * size + first];
        used[first] = true;
        second = largest(choice + g * size, used, size);
        if (job->group_score == KT_GROUP_BEST_TWO && second != UINT32_MAX)
            score[g] += choice[g * size + second];
    }
    for (uint32_t i = 0; i < job->top_groups; i++)
        kept[largest(score, kept, job->n_groups)] = true;
    for (uint32_t e = 0; e < job->n_experts; e++)
        taken[e] = !kept[e / size];
}

/*
 * The rule may pick either of two that are closer than rounding tells apart; random logits are not. What is
 * in float32: p to 8 UNIT or so beside the sum of n_experts of them, and corrections, below 4, to 4 UNIT.
 */
static void check_row(const struct kt_rows_route *job, const float *z, const int64_t *ids,
                      const float *weights)
{
    double p[MOST], choice[MOST], sum = 0.0, w[128];
    bool taken[MOST] = {false};
    model_scores(job, z, p, choice);
    if (job->n_groups > 1)
        model_groups(job, choice, taken);
    for (uint32_t i = 0; i < job->top_k; i++) {
        uint32_t best = largest(choice, taken, job->n_experts);
        ck_assert_int_eq(ids[i], best);
        w[i] = job->routing == KT_ROUTING_MIXER ? model_mix(job, z, taken, best) : p[best];
        taken[best] = true;
        sum += w[i];
    }
    for (uint32_t i = 0; i < job->top_k; i++) {
        double expected = w[i] * (job->scale == 0.0f ? 1.0 : (double)job->scale);
        if (job->normalize || job->routing == KT_ROUTING_TOP)
            expected /= sum + (job->routing == KT_ROUTING_SIGMOID ? 1e-20 : 0.0);
        ck_near(weights[i], expected, (job->n_experts + 20) * UNIT * fabs(expected));
    }
}

static void check_route(const struct kt_rows *rows, unsigned round, uint64_t *seed)
{
    static const struct {
        uint32_t experts, top_k, groups, top_groups;
    } shapes[] = {{8, 2, 0, 0},    {128, 8, 0, 0}, {256, 8, 8, 4}, {160, 6, 8, 3}, {384, 8, 1, 1},
                  {512, 10, 0, 0}, {5, 5, 0, 0},   {1, 1, 0, 0},   {32, 4, 4, 4},  {12, 3, 12, 5}};
    enum { ROWS = 3 };
    struct kt_rows_route job = KT_ROWS_ROUTE_INIT;
    unsigned shape = round % 10;
    job.n_rows = ROWS;
    job.n_experts = shapes[shape].experts;
    job.top_k = shapes[shape].top_k;
    job.n_groups = shapes[shape].groups;
    job.top_groups = shapes[shape].top_groups;
    job.routing = round / 10 % 5;
    job.near = round % 3 ? 0.5f : 0.02f;
    if (job.routing == KT_ROUTING_MIXER)
        job.n_groups = job.top_groups = 0;
    job.group_score = round / 30 % 2;
    job.normalize = round / 60 % 2;
    job.scale = round / 20 % 2 ? 2.5f : 0.0f;
    struct plane logits = plane_make(KT_DTYPE_F32, ROWS, 1, job.n_experts, round % 4, 2.0, seed);
    float *correction = floats_make(job.n_experts, 0.3, seed), weights[ROWS * 10];
    int64_t ids[ROWS * 10];
    job.correction = round / 7 % 2 && job.routing != KT_ROUTING_MIXER ? correction : NULL;
    job.logits = (const float *)(const void *)logits.data;
    job.logits_stride = logits.stride;
    job.ids = ids;
    job.weights = weights;
    ck_ok(kt_rows_route(rows, &job, &ck_error));
    for (uint32_t r = 0; r < ROWS; r++)
        check_row(&job, (const float *)(const void *)(logits.data + r * logits.stride), ids + r * job.top_k,
                  weights + r * job.top_k);
    plane_free(&logits);
    free(correction);
}

START_TEST(choices_are_the_rule)
{
    const struct kt_rows *rows = level_open(_i);
    uint64_t seed = 3;
    for (unsigned round = 0; rows && round < 840; round++)
        check_route(rows, round, &seed);
    level_close();
}
END_TEST

/* Equal logits: the lower numbers, the lower groups. */
START_TEST(ties_go_to_the_lower_one)
{
    const struct kt_rows *rows = level_open(_i);
    for (uint32_t round = 0; rows && round < 9; round++) {
        float z[64] = {0}, weights[4];
        int64_t ids[4];
        struct kt_rows_route job = KT_ROWS_ROUTE_INIT;
        z[40] = z[50] = z[60] = 1.0f;
        job.routing = round < 6 ? round % 3 : round < 8 ? KT_ROUTING_LOGITS : KT_ROUTING_MIXER;
        job.n_rows = 1;
        job.n_experts = 64;
        job.top_k = 4;
        job.n_groups = round < 3 || round == 8 ? 1 : 8;
        job.top_groups = 4;
        job.normalize = 1;
        job.logits = z;
        job.ids = ids;
        job.weights = weights;
        ck_ok(kt_rows_route(rows, &job, &ck_error));
        ck_assert_int_eq(ids[0], 40);
        ck_assert_int_eq(ids[1], 50);
        ck_assert_int_eq(ids[2], 60);
        ck_assert_int_eq(ids[3], 0); /* of group 0, the first of those that tie for the fourth place */
    }
    level_close();
}
END_TEST

/* NaN, and infinities, in a row: ids are different ones within range, other rows stay. */
START_TEST(bad_logits_stay_in_their_row)
{
    const struct kt_rows *rows = level_open(_i);
    uint64_t seed = 4;
    for (unsigned round = 0; rows && round < 80; round++) {
        float z[3][16], weights[2][3][6];
        int64_t ids[2][3][6];
        struct kt_rows_route job = KT_ROWS_ROUTE_INIT;
        for (unsigned i = 0; i < 48; i++)
            z[i / 16][i % 16] = (float)fixture_gaussian(&seed);
        job.routing = round % 5;
        job.n_rows = 3;
        job.n_experts = 16;
        job.top_k = 6;
        job.n_groups = round / 5 % 2 && job.routing != KT_ROUTING_MIXER ? 4 : 1;
        job.top_groups = 2;
        job.normalize = round / 10 % 2;
        job.logits = z[0];
        job.ids = ids[0][0];
        job.weights = weights[0][0];
        ck_ok(kt_rows_route(rows, &job, &ck_error));
        for (unsigned i = 0; i < 16; i += round / 20 % 2 ? 1 : 5)
            z[1][i] = round / 40 ? -INFINITY : NAN;
        job.ids = ids[1][0];
        job.weights = weights[1][0];
        ck_ok(kt_rows_route(rows, &job, &ck_error));
        for (unsigned r = 0; r < 3; r += 2)
            ck_holds(memcmp(ids[0][r], ids[1][r], sizeof ids[0][r]) == 0 &&
                     memcmp(weights[0][r], weights[1][r], sizeof weights[0][r]) == 0);
        uint64_t seen = 0;
        for (unsigned i = 0; i < 6; i++) {
            ck_holds(ids[1][1][i] >= 0 && ids[1][1][i] < 16 && !(seen >> ids[1][1][i] & 1));
            seen |= UINT64_C(1) << ids[1][1][i];
            ck_holds(round / 40 || isnan(weights[1][1][i]));
        }
    }
    level_close();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("levels");
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, products_are_the_formula, 0, N_LEVELS);
    tcase_add_loop_test(tests, long_products_are_the_formula, 0, N_LEVELS);
    tcase_add_loop_test(tests, nan_of_any_bits_stays_in_its_token, 0, N_LEVELS);
    tcase_add_loop_test(tests, infinity_stays_in_its_token, 0, N_LEVELS);
    tcase_add_loop_test(tests, nan_stays_in_its_token, 0, N_LEVELS);
    tcase_add_loop_test(tests, choices_are_the_rule, 0, N_LEVELS);
    tcase_add_loop_test(tests, ties_go_to_the_lower_one, 0, N_LEVELS);
    tcase_add_loop_test(tests, bad_logits_stay_in_their_row, 0, N_LEVELS);
    return run_tests("route", tests);
}

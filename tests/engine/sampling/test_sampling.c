/* SPDX-License-Identifier: Apache-2.0 */
/* test_sampling.c - samplers beside the float64 model; what is drawn; what a choice may depend on. */
#include "tests/engine/sampling/sampling_model.h"
#include "tests/support/suite.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

/* Of the tests themselves. */
static uint64_t random_below(uint64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

static double random_real(void)
{
    return (double)random_below(1 << 24) / (1 << 24);
}

static double random_normal(void)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += random_real();
    return sum;
}

static void setup(void)
{
    state = 42;
}

static struct kt_sampler *make(uint64_t vocabulary, const struct kt_sampling_params *params)
{
    struct kt_sampler *sampler;
    struct kt_error error = {KT_OK, ""};
    ck_assert_msg(kt_sampler_create(vocabulary, params, &sampler, &error) == KT_OK, "%s", error.message);
    return sampler;
}

static struct kt_choice choose(struct kt_sampler *sampler, const float *logits, uint64_t position,
                               const uint64_t *allowed)
{
    struct kt_choice choice;
    struct kt_error error = {KT_OK, ""};
    ck_assert_msg(kt_sampler_choose(sampler, logits, position, allowed, &choice, &error) == KT_OK, "%s",
                  error.message);
    return choice;
}

/* ---- beside the model ------------------------------------------------------------------------- */

static struct sampling_model model;
static float logits[MODEL_MOST];
static struct kt_logit_bias bias[8];
static int32_t breakers[3];
static uint64_t allowed[MODEL_MOST / 64 + 1];

static void make_logits(void)
{
    static const int sizes[] = {1, 2, 3, 63, 64, 65, 200, 1000, 3000};
    static const double scales[] = {0.5, 2, 5};
    double scale = scales[random_below(3)];
    int shape = (int)random_below(5);
    model.n = sizes[random_below(sizeof(sizes) / sizeof(sizes[0]))];
    for (int i = 0; i < model.n; i++) {
        double logit = random_normal() * scale - 3;
        if (shape == 1)
            logit = round(logit * 2) / 2; /* many are equal */
        if (shape == 2 && random_below(3) == 0 && i > 0)
            logit = -INFINITY;
        if (shape == 3)
            logit -= 60 * (i % 5 > 0); /* far behind the others */
        if (shape == 4)
            logit = i == 0 ? 0 : -5 - 9 * random_real(); /* one in front of very many */
        logits[i] = (float)logit;
    }
}

static void make_params(struct kt_sampling_params *p)
{
    static const double temperatures[] = {0, 0.3, 0.7, 1, 1, 1.5, 20};
    *p = (struct kt_sampling_params)KT_SAMPLING_PARAMS_INIT;
    p->seed = random_below(UINT32_MAX);
    p->temperature = temperatures[random_below(7)];
    if (random_below(3) == 0)
        p->top_k = (uint32_t)random_below(random_below(2) ? 60 : 3000);
    if (random_below(3) == 0)
        p->top_p = random_below(4) ? 0.5 + random_real() / 2 : random_real();
    if (random_below(3) == 0)
        p->min_p = random_below(2) ? random_real() / 5 : random_real();
    if (random_below(3) == 0)
        p->typical_p = random_real();
    if (random_below(4) == 0)
        p->top_n_sigma = random_real() * 4;
    if (random_below(3) == 0) {
        p->xtc_probability = random_real();
        p->xtc_threshold = random_below(2) ? random_real() / 4 : 0;
    }
}

static void make_looking_back(struct kt_sampling_params *p)
{
    int alphabet = 1 + (int)random_below((uint64_t)(model.n < 6 ? model.n : 6));
    if (random_below(3) == 0)
        p->repetition_penalty = 0.5 + random_real() * 2;
    if (random_below(3) == 0)
        p->presence_penalty = random_real() * 4 - 2;
    if (random_below(3) == 0)
        p->frequency_penalty = random_real() * 2 - 1;
    if (random_below(2) == 0)
        p->penalty_last_n = 1 + random_below(40);
    if (random_below(2) == 0) {
        p->dry_multiplier = random_real() * 2;
        p->dry_base = random_below(2) ? 1 + random_real() : 0;
        p->dry_allowed_length = (uint32_t)random_below(5);
        p->dry_last_n = random_below(2) ? 1 + random_below(80) : 0;
        p->n_dry_breakers = random_below(3);
        for (int i = 0; i < 3; i++)
            breakers[i] = (int32_t)random_below((uint64_t)(random_below(2) ? model.n : alphabet));
        p->dry_breakers = breakers;
    }
    model.n_ids = (int)random_below(300);
    for (int i = 0; i < model.n_ids; i++) {
        model.ids[i] = (int32_t)random_below((uint64_t)alphabet);
        if (random_below(5) == 0)
            model.ids[i] = (int32_t)random_below((uint64_t)model.n);
        model.is_generated[i] = i > model.n_ids / 3;
    }
}

static void make_bias(struct kt_sampling_params *p)
{
    p->n_logit_bias = random_below(8);
    p->logit_bias = bias;
    for (uint64_t i = 0; i < p->n_logit_bias; i++) {
        bias[i].id = (int32_t)random_below((uint64_t)model.n);
        bias[i].bias = random_below(4) || bias[i].id == 0 ? (float)(random_normal() * 3) : -INFINITY;
    }
    memset(allowed, 0xAA, sizeof(allowed));
    allowed[0] |= random_below(256) << 3 | 1;
    allowed[1] = random_below(2) ? UINT64_MAX : 0;
}

/* In pieces, as they come; a large part at once. */
static void accept_history(struct kt_sampler *sampler)
{
    int at = 0;
    while (at < model.n_ids) {
        int end = at + 1;
        while (end < model.n_ids && model.is_generated[end] == model.is_generated[at] && random_below(8))
            end++;
        ck_assert_int_eq(kt_sampler_accept(sampler, model.ids + at, (uint64_t)(end - at),
                                           model.is_generated[at] ? KT_ORIGIN_GENERATED : KT_ORIGIN_PROMPT,
                                           NULL),
                         KT_OK);
        at = end;
    }
}

/* Positions of one case; returns how many proved nothing. */
static int compare_case(const struct kt_sampling_params *p, bool has_mask)
{
    struct kt_sampler *sampler = make((uint64_t)model.n, p);
    int n_close = 0;
    accept_history(sampler);
    for (uint64_t position = 5; position < 9; position++) {
        bool does_xtc = p->xtc_probability > 0 && model_random(p->seed, position, 2) < p->xtc_probability;
        model_run(&model, logits, has_mask ? allowed : NULL, does_xtc);
        int id = model_draw(&model, model_random(p->seed, position, has_mask ? 1 : 0));
        struct kt_choice choice = choose(sampler, logits, position, has_mask ? allowed : NULL);
        bool filters = p->temperature == 0 || p->top_n_sigma > 0 || (p->top_k && (int)p->top_k < model.n) ||
                       p->typical_p > 0 || p->top_p > 0 || p->min_p > 0 || does_xtc;
        if (model.is_close) {
            n_close++;
            continue;
        }
        ck_assert_int_eq(choice.id, id);
        ck_assert_int_eq((int)choice.n_left, filters ? model.n_left : model.n);
    }
    kt_sampler_destroy(sampler);
    return n_close;
}

#define CASES 1500

START_TEST(test_filters)
{
    int n_close = 0;
    for (int i = 0; i < CASES; i++) {
        struct kt_sampling_params params;
        make_logits();
        make_params(&params);
        model.params = &params;
        model.n_ids = 0;
        n_close += compare_case(&params, false);
    }
    ck_assert_int_lt(n_close, CASES * 4 / 20);
}
END_TEST

START_TEST(test_everything)
{
    int n_close = 0;
    for (int i = 0; i < CASES; i++) {
        struct kt_sampling_params params;
        make_logits();
        make_params(&params);
        make_looking_back(&params);
        make_bias(&params);
        model.params = &params;
        n_close += compare_case(&params, random_below(2) == 0);
    }
    ck_assert_int_lt(n_close, CASES * 4 / 20);
}
END_TEST

/* Filters one at a time: a combination may hide what one of them does wrong. */
START_TEST(test_filters_alone)
{
    int n_close = 0;
    for (int i = 0; i < CASES; i++) {
        struct kt_sampling_params params = KT_SAMPLING_PARAMS_INIT;
        make_logits();
        params.seed = (uint64_t)i;
        params.temperature = i % 2 ? 1 : 3;
        double number = random_real();
        switch (i % 6) {
        case 0:
            params.top_k = 1 + (uint32_t)random_below(100);
            break;
        case 1:
            params.top_p = number;
            break;
        case 2:
            params.min_p = number * number;
            break;
        case 3:
            params.typical_p = number;
            break;
        case 4:
            params.top_n_sigma = number * 3;
            break;
        default:
            params.xtc_probability = 1;
            params.xtc_threshold = number / 4;
        }
        model.params = &params;
        model.n_ids = 0;
        n_close += compare_case(&params, false);
    }
    ck_assert_int_lt(n_close, CASES * 4 / 20);
}
END_TEST

/* A repetition far back and a long one, by hand: "1 2 3 9 ... 1 2 3" and then 9 would be the fourth. */
START_TEST(test_dry)
{
    static const int32_t ids[] = {1, 2, 3, 9, 4, 2, 3, 8, 1, 2, 3};
    struct kt_sampling_params params = KT_SAMPLING_PARAMS_INIT;
    const float equal[10] = {[9] = 3.1f, [8] = 1.5f, [7] = 1};
    params.dry_multiplier = 1;
    params.dry_base = 2;
    params.logprobs = 1;
    struct kt_sampler *sampler = make(10, &params);
    ck_assert_int_eq(choose(sampler, equal, 0, NULL).id, 9);
    ck_assert_int_eq(kt_sampler_accept(sampler, ids, 11, KT_ORIGIN_PROMPT, NULL), KT_OK);
    /* 9 loses 2^(3 - 2), 8 loses 2^(2 - 2): 1.1, 0.5 and 1 */
    ck_assert_int_eq(choose(sampler, equal, 11, NULL).id, 9);
    kt_sampler_destroy(sampler);
    params.dry_multiplier = 1.06; /* 0.98, 0.44 and 1 */
    sampler = make(10, &params);
    ck_assert_int_eq(kt_sampler_accept(sampler, ids, 11, KT_ORIGIN_PROMPT, NULL), KT_OK);
    ck_assert_int_eq(choose(sampler, equal, 11, NULL).id, 7);
    kt_sampler_reset(sampler);
    ck_assert_int_eq(choose(sampler, equal, 11, NULL).id, 9);
    kt_sampler_destroy(sampler);
}
END_TEST

/* ---- what is drawn ---------------------------------------------------------------------------- */

START_TEST(test_random)
{
    /* Random123's known answers */
    static const uint32_t counters[2][4] = {{0, 0, 0, 0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}};
    static const uint32_t keys[2][2] = {{0, 0}, {0xa4093822, 0x299f31d0}};
    static const uint32_t answers[2][4] = {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                                           {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
    for (int i = 0; i < 2; i++) {
        uint32_t out[4];
        model_philox(counters[i], keys[i], out);
        ck_assert_mem_eq(out, answers[i], sizeof(out));
    }
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t seed = i * i * 0x123456789ABCDEF, position = i << (i % 60);
        double u = kt_sampling_random(seed, position, (uint32_t)i % 3);
        ck_assert(u == model_random(seed, position, (uint32_t)i % 3));
        ck_assert(u >= 0 && u < 1);
    }
}
END_TEST

/* Pearson's statistic of what 20000 positions draw, beside the model's probabilities. Seeds are fixed, so the
 * outcome is, too; the bound is the distribution's 99.9 % quantile by Wilson and Hilferty. */
static void check_distribution(const struct kt_sampling_params *p, int n)
{
    enum { DRAWS = 20000 };
    static int counts[MODEL_MOST];
    struct kt_sampler *sampler = make((uint64_t)n, p);
    memset(counts, 0, sizeof(counts));
    model.params = p;
    model.n = n;
    model.n_ids = 0;
    model_run(&model, logits, NULL, false);
    for (int i = 0; i < DRAWS; i++)
        counts[choose(sampler, logits, (uint64_t)i, NULL).id]++;
    double statistic = 0, rest_expected = 0, rest = 0;
    int freedom = -1;
    for (int i = 0; i < n; i++) {
        double expected = model.p[i] * DRAWS;
        if (model.p[i] == 0)
            ck_assert_int_eq(counts[i], 0);
        if (expected < 8) { /* too few for the approximation: all of them together */
            rest_expected += expected;
            rest += counts[i];
            continue;
        }
        statistic += pow(counts[i] - expected, 2) / expected;
        freedom++;
    }
    if (rest_expected >= 8) {
        statistic += pow(rest - rest_expected, 2) / rest_expected;
        freedom++;
    }
    ck_assert_int_gt(freedom, 2);
    double k = 2.0 / (9 * freedom), bound = freedom * pow(1 - k + 3.09 * sqrt(k), 3);
    ck_assert_msg(statistic < bound, "%f, not below %f", statistic, bound);
    kt_sampler_destroy(sampler);
}

START_TEST(test_distribution)
{
    struct kt_sampling_params params = KT_SAMPLING_PARAMS_INIT;
    for (int i = 0; i < 300; i++)
        logits[i] = (float)(random_normal() * 1.5);
    params.seed = 7;
    params.temperature = 1;
    check_distribution(&params, 300);
    params.temperature = 0.5;
    params.top_p = 0.8;
    check_distribution(&params, 300);
    params.top_k = 30;
    params.temperature = 1.3;
    check_distribution(&params, 299);
}
END_TEST

/* Draws of neighboring positions, and of neighboring seeds, have nothing to do with each other. */
START_TEST(test_independence)
{
    enum { DRAWS = 20000 };
    const float even[2] = {0, 0};
    struct kt_sampling_params params = KT_SAMPLING_PARAMS_INIT;
    int pairs[2][4] = {{0}};
    params.temperature = 1;
    struct kt_sampler *sampler = make(2, &params);
    for (int i = 0; i < DRAWS; i++)
        pairs[0][choose(sampler, even, (uint64_t)i, NULL).id +
                 2 * choose(sampler, even, (uint64_t)i + 1, NULL).id]++;
    kt_sampler_destroy(sampler);
    for (int i = 0; i < DRAWS / 10; i++) {
        struct kt_sampler *other;
        params.seed = (uint64_t)i;
        sampler = make(2, &params);
        params.seed = (uint64_t)i + 1;
        other = make(2, &params);
        for (uint64_t at = 0; at < 10; at++)
            pairs[1][choose(sampler, even, at, NULL).id + 2 * choose(other, even, at, NULL).id]++;
        kt_sampler_destroy(sampler);
        kt_sampler_destroy(other);
    }
    for (int i = 0; i < 8; i++) /* five standard deviations of a quarter of the draws */
        ck_assert_int_lt(abs(pairs[i / 4][i % 4] - DRAWS / 4), (int)(5 * sqrt(DRAWS * 3.0 / 16)));
}
END_TEST

/* ---- what a choice depends on ----------------------------------------------------------------- */

START_TEST(test_greedy)
{
    struct kt_sampling_params greedy = KT_SAMPLING_PARAMS_INIT, one = KT_SAMPLING_PARAMS_INIT;
    one.temperature = 5;
    one.top_k = 1;
    for (int round = 0; round < 200; round++) {
        make_logits();
        struct kt_sampler *a = make((uint64_t)model.n, &greedy), *b = make((uint64_t)model.n, &one);
        int best = 0;
        for (int i = 1; i < model.n; i++)
            best = logits[i] > logits[best] ? i : best;
        struct kt_choice choice = choose(a, logits, (uint64_t)round, NULL);
        ck_assert_int_eq(choice.id, best);
        ck_assert_uint_eq(choice.n_left, 1);
        ck_assert(isnan(choice.logprob));
        ck_assert_uint_eq(choice.n_top, 0);
        choice = choose(b, logits, (uint64_t)round, NULL);
        ck_assert_int_eq(choice.id, best);
        ck_assert_uint_eq(choice.n_left, 1);
        kt_sampler_destroy(a);
        kt_sampler_destroy(b);
    }
}
END_TEST

/* The order of calls, what another sampler does, what this one did before: nothing of it matters. Nor does a
 * filter that takes nothing out. */
START_TEST(test_order)
{
    enum { N = 500, POSITIONS = 64 };
    struct kt_sampling_params params = KT_SAMPLING_PARAMS_INIT;
    int32_t ids[POSITIONS];
    params.seed = 99;
    params.temperature = 1;
    struct kt_sampler *sampler = make(N, &params), *other = make(N, &params);
    for (int i = 0; i < N; i++)
        logits[i] = (float)random_normal();
    int n_different = 0;
    for (int i = 0; i < POSITIONS; i++) {
        ids[i] = choose(sampler, logits, (uint64_t)i, NULL).id;
        n_different += ids[i] != ids[0];
    }
    ck_assert_int_gt(n_different, POSITIONS / 2);
    for (int i = POSITIONS - 1; i >= 0; i--) {
        (void)choose(other, logits + 1, 3, NULL);
        ck_assert_int_eq(choose(other, logits, (uint64_t)i, NULL).id, ids[i]);
    }
    kt_sampler_destroy(other);
    params.top_k = N;
    params.min_p = 1e-9;
    params.top_n_sigma = 100;
    other = make(N, &params);
    for (int i = 0; i < POSITIONS; i++)
        ck_assert_int_eq(choose(other, logits, (uint64_t)i, NULL).id, ids[i]);
    kt_sampler_destroy(other);
    params.seed = 100;
    other = make(N, &params);
    n_different = 0;
    for (int i = 0; i < POSITIONS; i++)
        n_different += choose(other, logits, (uint64_t)i, NULL).id != ids[i];
    ck_assert_int_gt(n_different, POSITIONS / 2);
    kt_sampler_destroy(other);
    kt_sampler_destroy(sampler);
}
END_TEST

/* Choices of all paths as x86 with and without AVX-512, by GCC and clang, and ARM made them. */
START_TEST(test_any_cpu)
{
    uint64_t hash = 1469598103934665603u;
    for (int i = 0; i < 400; i++) {
        struct kt_sampling_params params;
        make_logits();
        make_params(&params);
        make_looking_back(&params);
        struct kt_sampler *sampler = make((uint64_t)model.n, &params);
        accept_history(sampler);
        for (uint64_t position = 0; position < 10; position++) {
            struct kt_choice choice = choose(sampler, logits, position, NULL);
            hash = (hash ^ (uint64_t)choice.id) * 1099511628211u;
            hash = (hash ^ choice.n_left) * 1099511628211u;
        }
        kt_sampler_destroy(sampler);
    }
    ck_assert_msg(hash == 0xb380009e8131246, "%#llx", (unsigned long long)hash);
}
END_TEST

START_TEST(test_logprobs)
{
    struct kt_sampling_params params = KT_SAMPLING_PARAMS_INIT;
    params.temperature = 0.7;
    params.n_top = 20;
    params.repetition_penalty = 3;
    params.top_k = 2;
    for (int round = 0; round < 100; round++) {
        make_logits();
        struct kt_sampling_params none = KT_SAMPLING_PARAMS_INIT;
        none.temperature = 1;
        model.params = &none;
        model.n_ids = 0;
        model_run(&model, logits, NULL, false);
        struct kt_sampler *sampler = make((uint64_t)model.n, &params);
        ck_assert_int_eq(kt_sampler_accept(sampler, &(int32_t){0}, 1, KT_ORIGIN_PROMPT, NULL), KT_OK);
        struct kt_choice choice = choose(sampler, logits, 3, NULL);
        ck_assert(fabs((double)choice.logprob - log(model.p[choice.id])) < 1e-4);
        ck_assert_int_eq((int)choice.n_top, model.n_left < 20 ? model.n_left : 20);
        for (uint32_t i = 0; i < choice.n_top; i++) {
            int n_before = 0, id = choice.top[i].id;
            for (int j = 0; j < model.n; j++)
                n_before += logits[j] > logits[id] || (logits[j] == logits[id] && j < id);
            ck_assert_int_eq(n_before, (int)i);
            ck_assert(fabs((double)choice.top[i].logprob - log(model.p[id])) < 1e-4);
        }
        kt_sampler_destroy(sampler);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("sampling");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, test_filters);
    tcase_add_test(tcase, test_everything);
    tcase_add_test(tcase, test_filters_alone);
    tcase_add_test(tcase, test_dry);
    tcase_add_test(tcase, test_random);
    tcase_add_test(tcase, test_distribution);
    tcase_add_test(tcase, test_independence);
    tcase_add_test(tcase, test_greedy);
    tcase_add_test(tcase, test_order);
    tcase_add_test(tcase, test_any_cpu);
    tcase_add_test(tcase, test_logprobs);
    tcase_set_timeout(tcase, 120);
    return run_tests("sampling", tcase);
}

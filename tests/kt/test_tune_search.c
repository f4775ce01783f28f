/* SPDX-License-Identifier: Apache-2.0 */
/* The search of kt tune on costs that are known exactly, with noise of a known size and no clock. */
#include "tools/kt/tune/tune.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Each knob costs 1 + slope * distance from its best value, in steps of doubling or of 1; a point may like
 * another value. */
struct machine {
    struct tune_space space;
    uint64_t best[KT_MAX_TUNABLES], other[KT_MAX_TUNABLES]; /* at even and odd points */
    double slope[KT_MAX_TUNABLES];
    double noise; /* deviation of a burst's time */
    double drift; /* added with each burst, which goes up and down: a machine that others use */
    uint64_t n_pairs, time_limit;
    bool extended;
    struct bench_random random;
};

static double cost(const struct machine *machine, const struct tune_values *values, size_t point)
{
    double product = 1;
    for (size_t k = 0; k < machine->space.n_knobs; k++) {
        double best = (double)(point % 2 ? machine->other : machine->best)[k];
        double value = (double)values->value[k];
        double distance = machine->space.knob[k].doubling ? fabs(log2(value / best)) : fabs(value - best);
        product *= 1 + machine->slope[k] * distance;
    }
    return product;
}

static double burst(struct machine *machine, const struct tune_values *values, size_t point)
{
    double noise = 1 + machine->noise * bench_random_gauss(&machine->random);
    double load = 1 + machine->drift * fabs(bench_random_gauss(&machine->random));
    return cost(machine, values, point) * (noise > 0.5 ? noise : 0.5) * load;
}

static double pair(void *data, const struct tune_values *a, const struct tune_values *b, size_t point,
                   unsigned turn)
{
    struct machine *machine = data;
    (void)turn;
    if (machine->n_pairs++ >= machine->time_limit && !machine->extended)
        return 0;
    double first = burst(machine, a, point);
    return first / burst(machine, b, point);
}

static void extend(void *data)
{
    struct machine *machine = data;
    machine->extended = true;
}

/* Two knobs by doubling and one by 1, whose standards are `standard` of their steps away from the least. */
static void make(struct machine *machine, double noise, bool at_end, uint64_t seed)
{
    *machine = (struct machine){.noise = noise, .time_limit = UINT64_MAX};
    machine->space = (struct tune_space){.n_knobs = 3,
                                         .n_points = 3,
                                         .knob = {{64, 16384, at_end ? 64 : 1024, true},
                                                  {1, 2048, at_end ? 2048 : 24, true},
                                                  {1, 12, at_end ? 12 : 4, false}},
                                         .pair = pair,
                                         .extend = extend,
                                         .data = machine};
    memcpy(machine->best, (uint64_t[]){2048, 16, 6}, 3 * sizeof(uint64_t));
    memcpy(machine->other, machine->best, sizeof machine->best);
    memcpy(machine->slope, (double[]){0.07, 0.05, 0.04}, 3 * sizeof(double));
    bench_random_seed(&machine->random, seed);
}

/* The part of what the best values gain over the standards that these gain. */
static double recovered(const struct machine *machine, const struct tune_values *values)
{
    struct tune_values standard = {{0}}, best = {{0}};
    for (size_t k = 0; k < machine->space.n_knobs; k++) {
        standard.value[k] = machine->space.knob[k].standard;
        best.value[k] = machine->best[k];
    }
    return log(cost(machine, &standard, 0) / cost(machine, values, 0)) /
           log(cost(machine, &standard, 0) / cost(machine, &best, 0));
}

START_TEST(intervals_hold_the_median)
{
    double nine[] = {9, 1, 8, 2, 7, 3, 6, 4, 5}, five[] = {5, 1, 4, 2, 3}, many[27];
    for (int i = 0; i < 27; i++)
        many[i] = (i * 10) % 27;
    struct tune_interval interval = tune_interval(nine, 9);
    /* P(fewer than 2 of 9 coins) = 10 / 512 at each side, together 0.039. */
    ck_assert(interval.low == 2 && interval.median == 5 && interval.high == 8 && interval.n == 9);
    interval = tune_interval(five, 5); /* 2 / 32 is more than 0.05: all of them */
    ck_assert(interval.low == 1 && interval.median == 3 && interval.high == 5);
    interval = tune_interval(many, 27); /* 8 of 27: 0.0192 at each side */
    ck_assert(interval.low == 7 && interval.median == 13 && interval.high == 19);
}
END_TEST

START_TEST(gain_is_recovered_from_an_end_of_the_range)
{
    struct machine machine;
    struct tune_result result;
    make(&machine, 0.03, true, (uint64_t)_i + 1);
    tune_search(&machine.space, &result);
    ck_assert_int_eq(result.verdict, TUNE_FASTER);
    ck_assert_double_ge(recovered(&machine, &result.values), 0.9);
    ck_assert_uint_ge(result.all.n, TUNE_MIN_PAIRS);
    for (size_t p = 0; p < machine.space.n_points; p++)
        ck_assert_double_gt(result.point[p].low, 0.98);
}
END_TEST

/* A distance that is not used where all rows are paced, and rows that might as well be where it is short. */
static double masked_pair(void *data, const struct tune_values *a, const struct tune_values *b, size_t point,
                          unsigned turn)
{
    struct machine *machine = data;
    struct tune_values seen[2] = {*a, *b};
    for (int i = 0; i < 2; i++)
        if (seen[i].value[0] <= 128 || seen[i].value[1] <= 1) {
            seen[i].value[0] = machine->space.knob[0].minimum;
            seen[i].value[1] = machine->space.knob[1].minimum;
        }
    return pair(machine, &seen[0], &seen[1], point, turn);
}

START_TEST(gain_is_recovered_where_tunables_hide_each_other)
{
    struct machine machine;
    struct tune_result result;
    make(&machine, 0.03, true, (uint64_t)_i + 1);
    machine.space.n_knobs = 2;
    machine.space.knob[1].standard = 1;
    machine.space.pair = masked_pair;
    tune_search(&machine.space, &result);
    ck_assert_int_eq(result.verdict, TUNE_FASTER);
    ck_assert_double_ge(recovered(&machine, &result.values), 0.9);
}
END_TEST

START_TEST(the_best_standards_stay)
{
    struct machine machine;
    struct tune_result result;
    make(&machine, 0.03, false, (uint64_t)_i + 1);
    for (size_t k = 0; k < 3; k++)
        machine.space.knob[k].standard = machine.best[k];
    tune_search(&machine.space, &result);
    ck_assert_int_eq(result.verdict, TUNE_STANDARD);
    for (size_t k = 0; k < 3; k++)
        ck_assert_uint_eq(result.values.value[k], machine.best[k]);
}
END_TEST

/* What one number of tokens likes and costs another 10 % is not taken. */
START_TEST(no_point_gets_slower)
{
    struct machine machine;
    struct tune_result result;
    make(&machine, 0.01, false, (uint64_t)_i + 1);
    machine.space.n_knobs = 1;
    machine.space.knob[0].standard = 1024;
    machine.best[0] = 16384; /* points 0 and 2 gain up to 28 % */
    machine.other[0] = 512;
    tune_search(&machine.space, &result);
    ck_assert_uint_eq(result.values.value[0], 1024);
    ck_assert_int_ne(result.verdict, TUNE_FASTER);
}
END_TEST

/* Times that jump by half from burst to burst show no 3 %. */
START_TEST(a_noisy_machine_keeps_the_standards)
{
    struct machine machine;
    struct tune_result result;
    make(&machine, 0.2, false, (uint64_t)_i + 1);
    machine.drift = 0.5;
    for (size_t k = 0; k < 3; k++)
        machine.slope[k] = 0.003;
    tune_search(&machine.space, &result);
    ck_assert(result.verdict == TUNE_NOISY || result.verdict == TUNE_STANDARD);
    for (size_t k = 0; k < 3; k++)
        ck_assert_uint_eq(result.values.value[k], machine.space.knob[k].standard);
}
END_TEST

START_TEST(noise_is_named)
{
    struct machine machine;
    struct tune_result result;
    unsigned n_noisy = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        make(&machine, 0.2, false, seed);
        machine.drift = 0.5;
        tune_search(&machine.space, &result);
        n_noisy += result.verdict == TUNE_NOISY;
    }
    ck_assert_uint_ge(n_noisy, 3);
}
END_TEST

/* Time that ends within the search leaves what was found, and that is still compared in full. */
START_TEST(time_that_is_up)
{
    struct machine machine;
    struct tune_result result;
    make(&machine, 0.01, true, 5);
    machine.time_limit = 4; /* not even the first round */
    tune_search(&machine.space, &result);
    ck_assert_int_eq(result.verdict, TUNE_NO_TIME);
    make(&machine, 0.01, true, 5);
    machine.time_limit = 250; /* one knob or two */
    tune_search(&machine.space, &result);
    ck_assert_int_eq(result.verdict, TUNE_FASTER);
    ck_assert_uint_ge(result.all.n, TUNE_MIN_PAIRS);
    ck_assert(recovered(&machine, &result.values) > 0.2 && recovered(&machine, &result.values) < 0.9);
}
END_TEST

static double broken(void *data, const struct tune_values *a, const struct tune_values *b, size_t point,
                     unsigned turn)
{
    (void)data, (void)a, (void)b, (void)point, (void)turn;
    return -1;
}

START_TEST(a_failure_ends_it)
{
    struct machine machine;
    struct tune_result result;
    make(&machine, 0.01, true, 5);
    machine.space.pair = broken;
    tune_search(&machine.space, &result);
    ck_assert_int_eq(result.verdict, TUNE_FAILED);
    ck_assert_uint_eq(result.values.value[0], 64);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tune_search");
    TCase *tests = tcase_create("tune_search");
    tcase_add_test(tests, intervals_hold_the_median);
    tcase_add_loop_test(tests, gain_is_recovered_from_an_end_of_the_range, 0, 20);
    tcase_add_loop_test(tests, gain_is_recovered_where_tunables_hide_each_other, 0, 20);
    tcase_add_loop_test(tests, the_best_standards_stay, 0, 20);
    tcase_add_loop_test(tests, no_point_gets_slower, 0, 20);
    tcase_add_loop_test(tests, a_noisy_machine_keeps_the_standards, 0, 20);
    tcase_add_test(tests, noise_is_named);
    tcase_add_test(tests, time_that_is_up);
    tcase_add_test(tests, a_failure_ends_it);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

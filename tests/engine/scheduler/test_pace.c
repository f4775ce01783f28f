/* SPDX-License-Identifier: Apache-2.0 */
/* test_pace.c - slices of prompts on machines that are made up: does their time come to what it may be? */
#include "tools/engine/scheduler/pace.h"
#include "tests/support/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

/* Seconds of a step: of what every step costs, of answers, and of n tokens of prompts. Experts: the more
 * tokens, the more of them share one, up to all of them. */
struct machine {
    double step, answer, token, experts;
};

static const struct machine machines[] = {{0.002, 0.001, 0.0005, 0},
                                          {0.050, 0.004, 0.002, 0.200},
                                          {0.0001, 0.00002, 0.00001, 0},
                                          {0.400, 0.010, 0.030, 1}};
enum { N_MACHINES = sizeof(machines) / sizeof(machines[0]) };

static double slice(const struct machine *m, uint32_t n)
{
    return m->token * n + m->experts * (1 - exp(-0.05 * n));
}

static double run(struct kt_pace *pace, const struct machine *m, uint32_t n_answers, uint32_t *n_tokens)
{
    *n_tokens = kt_pace_tokens(pace, n_answers);
    double answers = n_answers ? m->step + n_answers * m->answer : 0, seconds = answers + slice(m, *n_tokens);
    kt_pace_learn(pace, n_answers, *n_tokens, seconds);
    return seconds;
}

/* The slice takes what is aimed at of `bound`, to a token, unless that is less than its least or more than
 * its most. */
static void expect_slices(struct kt_pace *pace, const struct machine *m, uint32_t n_answers, double bound)
{
    uint32_t n, n_plain = 0;
    bound *= KT_PACE_AIM;
    for (int i = 0; i < 100; i++)
        run(pace, m, n_answers, &n);
    for (int i = 0; i < 100; i++) {
        run(pace, m, n_answers, &n);
        n_plain += n == 0;
        if (n == 0)
            continue;
        ck_assert_msg(n == pace->least || slice(m, n - 1) <= bound * 1.05, "%u tokens take %g s of %g", n,
                      slice(m, n), bound);
        ck_assert_msg(n == pace->most || slice(m, n + 2) >= bound * 0.9, "%u tokens take %g s of %g only", n,
                      slice(m, n), bound);
    }
    ck_assert_uint_ge(n_plain, 5); /* so that the answers' own time is known */
    ck_assert_uint_le(n_plain, 10);
}

START_TEST(a_slice_takes_as_long_as_the_answers)
{
    const struct machine *m = &machines[_i];
    struct kt_pace pace;
    kt_pace_init(&pace, 4, 512, 0, 1);
    for (uint32_t n_answers = 1; n_answers <= 64; n_answers *= 4)
        expect_slices(&pace, m, n_answers, m->step + n_answers * m->answer);
    /* contexts grow, and the machine becomes slower */
    struct machine slower = {m->step * 2, m->answer * 3, m->token, m->experts};
    expect_slices(&pace, &slower, 64, slower.step + 64 * slower.answer);
    expect_slices(&pace, m, 2, m->step + 2 * m->answer);
}
END_TEST

START_TEST(a_slice_has_a_bound_of_its_own)
{
    const struct machine *m = &machines[_i];
    struct kt_pace pace;
    double answers = m->step + 16 * m->answer;
    kt_pace_init(&pace, 1, 512, answers / 3, 1);
    expect_slices(&pace, m, 16, answers / 3);
    kt_pace_init(&pace, 1, 512, answers * 3, 1); /* it only makes them shorter */
    expect_slices(&pace, m, 16, answers);
}
END_TEST

START_TEST(alone_a_slice_takes_what_a_step_may)
{
    const struct machine *m = &machines[_i];
    struct kt_pace pace;
    uint32_t n;
    kt_pace_init(&pace, 8, 512, 0, 0.25);
    for (int i = 0; i < 30; i++)
        run(&pace, m, 0, &n);
    ck_assert(n == 8 || slice(m, n) <= 0.25 * 1.05);
    ck_assert(n == 512 || slice(m, n + 2) >= 0.25 * 0.9);
}
END_TEST

/* The end of a prompt is shorter than it might be, which is no reason for shorter slices. */
START_TEST(short_prompts_change_nothing)
{
    struct kt_pace pace;
    uint32_t n;
    kt_pace_init(&pace, 8, 512, 0, 1);
    for (int i = 0; i < 50; i++)
        run(&pace, &machines[0], 64, &n);
    double before = pace.mixed;
    for (int i = 0; i < 20; i++)
        kt_pace_learn(&pace, 64, 9, 0.066 + slice(&machines[0], 9));
    ck_assert_double_eq(pace.mixed, before);
    ck_assert_double_ge(before, 100);
    kt_pace_learn(&pace, 0, 3, 0.001);
    ck_assert_uint_eq(kt_pace_tokens(&pace, 0), 128);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("pace");
    tcase_add_loop_test(tests, a_slice_takes_as_long_as_the_answers, 0, N_MACHINES);
    tcase_add_loop_test(tests, a_slice_has_a_bound_of_its_own, 0, N_MACHINES);
    tcase_add_loop_test(tests, alone_a_slice_takes_what_a_step_may, 0, N_MACHINES);
    tcase_add_test(tests, short_prompts_change_nothing);
    return run_tests("pace", tests);
}

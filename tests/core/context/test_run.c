/* SPDX-License-Identifier: Apache-2.0 */
/* test_run.c - functions of the caller on the threads of a context, between forwards: who runs, what barriers
 * and counters promise, and that runs of several threads follow one another. */
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_THREADS = 6, TASKS = 500, PHASES = 200 };

static const struct {
    const char *machine;
    unsigned threads, nodes;
} places[] = {{NULL, 1, 1},
              {NULL, 2, 1},
              {NULL, 3, 1},
              {"numa:2 core:1 pu:1", 2, 2},
              {"numa:3 core:2 pu:1", 6, 3}};
enum { PLACES = sizeof places / sizeof places[0] };

static struct kt_context *make_context(int place)
{
    char threads[32];
    (void)snprintf(threads, sizeof threads, "core.threads=%u", places[place].threads);
    if (places[place].machine)
        ck_assert_int_eq(setenv("HWLOC_SYNTHETIC", places[place].machine, 1), 0);
    struct kt_context *context = fixture_context_with((const char *const[]){threads, "core.spin_us=0"}, 2);
    ck_assert_int_eq(unsetenv("HWLOC_SYNTHETIC"), 0);
    return context;
}

struct state {
    struct kt_thread seen[MAX_THREADS];
    atomic_uint calls, claimed[MAX_THREADS][TASKS], in_phase[PHASES];
    unsigned plain[MAX_THREADS]; /* written before a barrier, read behind it */
    atomic_uint wrong;
};

static void note(void *data, const struct kt_thread *thread)
{
    struct state *state = data;
    (void)atomic_fetch_add(&state->calls, 1);
    state->seen[thread->index] = *thread;
}

START_TEST(every_thread_runs_once)
{
    struct kt_context *context = make_context(_i);
    struct state *state = calloc(1, sizeof *state);
    uint32_t in_node[MAX_THREADS] = {0};
    ck_ok(kt_context_run_threads(context, note, state, &ck_error));
    ck_assert_uint_eq(atomic_load(&state->calls), places[_i].threads);
    for (uint32_t t = 0; t < places[_i].threads; t++) {
        const struct kt_thread *thread = &state->seen[t];
        ck_assert_uint_eq(thread->index, t);
        ck_assert_uint_eq(thread->n_threads, places[_i].threads);
        ck_assert_uint_eq(thread->n_nodes, places[_i].nodes);
        ck_assert_uint_lt(thread->node, thread->n_nodes);
        ck_assert_uint_eq(thread->index_in_node, in_node[thread->node]++);
    }
    for (uint32_t t = 0; t < places[_i].threads; t++)
        ck_assert_uint_eq(state->seen[t].n_in_node, in_node[state->seen[t].node]);
    free(state);
    kt_context_destroy(context);
}
END_TEST

/* Each node hands out its own numbers, from 0 in each run. */
static void claim(void *data, const struct kt_thread *thread)
{
    struct state *state = data;
    for (uint32_t task; (task = kt_thread_claim(thread, 2)) < TASKS;)
        (void)atomic_fetch_add(&state->claimed[thread->node][task], 1);
}

START_TEST(each_task_has_one_thread)
{
    struct kt_context *context = make_context(_i);
    struct state *state = calloc(1, sizeof *state);
    for (unsigned run = 1; run <= 3; run++) {
        ck_ok(kt_context_run_threads(context, claim, state, &ck_error));
        for (uint32_t n = 0; n < places[_i].nodes; n++)
            for (uint32_t task = 0; task < TASKS; task++)
                ck_assert_uint_eq(atomic_load(&state->claimed[n][task]), run);
    }
    free(state);
    kt_context_destroy(context);
}
END_TEST

/* Nobody is in a phase before all have left the one before, and all see what was written there. */
static void step(void *data, const struct kt_thread *thread)
{
    struct state *state = data;
    for (unsigned phase = 0; phase < PHASES; phase++) {
        state->plain[thread->index] = phase;
        (void)atomic_fetch_add(&state->in_phase[phase], 1);
        kt_thread_barrier(thread);
        if (atomic_load(&state->in_phase[phase]) != thread->n_threads)
            (void)atomic_fetch_add(&state->wrong, 1);
        for (uint32_t t = 0; t < thread->n_threads; t++)
            if (state->plain[t] != phase)
                (void)atomic_fetch_add(&state->wrong, 1);
        kt_thread_node_barrier(thread);
        kt_thread_barrier(thread);
    }
}

START_TEST(barriers_separate_phases)
{
    struct kt_context *context = make_context(_i);
    struct state *state = calloc(1, sizeof *state);
    ck_ok(kt_context_run_threads(context, step, state, &ck_error));
    ck_assert_uint_eq(atomic_load(&state->wrong), 0);
    free(state);
    kt_context_destroy(context);
}
END_TEST

/* Callers on several threads: a run has the threads to itself. */
struct caller {
    struct kt_context *context;
    struct state *state;
};

static void *call_often(void *argument)
{
    struct caller *caller = argument;
    for (int i = 0; i < 50; i++) {
        memset(caller->state, 0, sizeof *caller->state);
        ck_ok(kt_context_run_threads(caller->context, claim, caller->state, &ck_error));
        for (uint32_t task = 0; task < TASKS; task++)
            if (atomic_load(&caller->state->claimed[0][task]) != 1)
                return caller->state; /* a task was claimed by another run */
    }
    return NULL;
}

START_TEST(runs_follow_one_another)
{
    struct kt_context *context = make_context(1);
    struct caller callers[3];
    pthread_t threads[3];
    void *wrong;
    for (int i = 0; i < 3; i++) {
        callers[i] = (struct caller){context, calloc(1, sizeof *callers[i].state)};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(pthread_join(threads[i], &wrong), 0);
        ck_assert_ptr_null(wrong);
        free(callers[i].state);
    }
    kt_context_destroy(context);
}
END_TEST

START_TEST(wrong_calls)
{
    struct kt_context *context = make_context(1);
    struct kt_error error = {KT_OK, ""};
    struct state state;
    ck_assert_int_eq(kt_context_run_threads(NULL, note, &state, &error), KT_E_INVALID);
    ck_assert_str_eq(error.message, "a run needs a context and a function, not NULL");
    ck_assert_int_eq(kt_context_run_threads(context, NULL, &state, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_context_run(context, NULL, &state, &error), KT_E_INVALID);
    pid_t child = fork();
    if (child == 0)
        _exit(kt_context_run_threads(context, note, &state, NULL) == KT_E_STATE ? 0 : 1);
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    kt_context_destroy(context);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("run");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, every_thread_runs_once, 0, PLACES);
    tcase_add_loop_test(tests, each_task_has_one_thread, 0, PLACES);
    tcase_add_loop_test(tests, barriers_separate_phases, 0, PLACES);
    tcase_add_test(tests, runs_follow_one_another);
    tcase_add_test(tests, wrong_calls);
    return run_tests("run", tests);
}

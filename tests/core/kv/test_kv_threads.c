/* SPDX-License-Identifier: Apache-2.0 */
/* test_kv_threads.c - many threads write rows of one sequence and read others, while another one opens, forks
 * and closes sequences. For the thread sanitizer. */
#include "tests/core/kv/kv_model.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { WRITERS = 6, STEPS = 5, TOKENS = 70 };

static struct kt_context *context;
static struct kt_kv_params params;
static struct kt_kv *kv;
static struct kt_kv_sequence *written, *finished;
static uint64_t tags[STEPS * TOKENS];
static atomic_uint next_task;
static atomic_bool stop;
static atomic_int failures;

/* A task is a token of a field: neighbors share pages, blocks and cache lines. */
static void *write_tasks(void *argument)
{
    uint64_t base = *(const uint64_t *)argument;
    struct kt_kv_rows rows = KT_KV_ROWS_INIT;
    float numbers[64];
    rows.n_rows = rows.n_heads = 1;
    rows.field = 0;
    rows.dtype = KT_DTYPE_F32;
    for (unsigned task; (task = atomic_fetch_add(&next_task, 1)) < TOKENS;) {
        uint64_t token = base + (task * 37 + 11) % TOKENS;
        for (uint32_t l = 0; l < params.n_layers; l++)
            for (uint32_t f = 0; f < params.layers[l].n_fields; f++) {
                uint64_t stride = params.layers[l].fields[f].stride;
                stride = stride ? stride : 1;
                if ((token + 1) % stride == 0 &&
                    kv_write(written, &params, l, f, token / stride, 1, &tags[token], NULL) != KT_OK)
                    atomic_fetch_add(&failures, 1);
            }
        rows.row = task;
        if (kt_kv_sequence_read(finished, &rows, numbers, NULL) != KT_OK)
            atomic_fetch_add(&failures, 1);
    }
    return NULL;
}

static void *manage(void *argument)
{
    (void)argument;
    while (!atomic_load(&stop)) {
        struct kt_kv_sequence *made = NULL, *fork = NULL;
        struct kt_kv_info info;
        bool failed = kt_kv_sequence_open(kv, &made, NULL) != KT_OK ||
                      kt_kv_sequence_reserve(made, 0, 100, NULL) != KT_OK ||
                      kt_kv_sequence_commit(made, 90, NULL) != KT_OK ||
                      kt_kv_sequence_truncate(made, 80, NULL) != KT_OK ||
                      kt_kv_sequence_fork(made, 70, &fork, NULL) != KT_OK;
        kt_kv_info(kv, &info);
        kt_kv_sequence_close(fork);
        kt_kv_sequence_close(made);
        failed = failed || info.used_pages < 2;
        /* This one shares its pages with the sequence that is read meanwhile. */
        failed = failed || kt_kv_sequence_fork(finished, TOKENS, &fork, NULL) != KT_OK ||
                 kt_kv_sequence_reserve(fork, TOKENS, 20, NULL) != KT_OK;
        kt_kv_sequence_close(fork);
        if (failed)
            atomic_fetch_add(&failures, 1);
    }
    return NULL;
}

static void write_all(uint64_t base)
{
    pthread_t thread[WRITERS];
    atomic_store(&next_task, 0);
    for (int i = 0; i < WRITERS; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, write_tasks, &base), 0);
    for (int i = 0; i < WRITERS; i++)
        (void)pthread_join(thread[i], NULL);
}

START_TEST(writers_and_a_manager)
{
    pthread_t manager;
    atomic_store(&stop, false);
    context = kv_context(_i);
    params = kv_mixed(false);
    params.tokens = 20 * 64;
    ck_ok(kt_kv_create(context, &params, &kv, &ck_error));
    ck_ok(kt_kv_sequence_open(kv, &written, &ck_error));
    ck_ok(kt_kv_sequence_open(kv, &finished, &ck_error));
    ck_ok(kt_kv_sequence_reserve(finished, 0, TOKENS, &ck_error));
    ck_ok(kt_kv_sequence_commit(finished, TOKENS, &ck_error));
    for (uint64_t i = 0; i < STEPS * TOKENS; i++)
        tags[i] = i + 1;
    ck_assert_int_eq(pthread_create(&manager, NULL, manage, NULL), 0);
    for (uint64_t step = 0; step < STEPS; step++) {
        ck_ok(kt_kv_sequence_reserve(written, step * TOKENS, TOKENS, &ck_error));
        write_all(step * TOKENS);
        ck_ok(kt_kv_sequence_commit(written, TOKENS, &ck_error));
    }
    atomic_store(&stop, true);
    (void)pthread_join(manager, NULL);
    ck_assert_int_eq(atomic_load(&failures), 0);
    const char *wrong = kv_check(kv, written, &params, tags, STEPS * TOKENS);
    ck_assert_msg(!*wrong, "%s", wrong);
    kt_kv_sequence_close(written);
    kt_kv_sequence_close(finished);
    kt_kv_destroy(kv);
    kt_context_destroy(context);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("threads");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, writers_and_a_manager, 0, 3);
    return run_tests("kv threads", tests);
}

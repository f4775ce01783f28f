/* SPDX-License-Identifier: Apache-2.0 */
/* test_queue.c - submit and wait: order, a full queue, wrong tickets, many threads, early ends. */
#include "tests/support/layer_fixture.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct kt_context *small_queue(void)
{
    static const char *const settings[] = {"core.threads=2", "core.queue_depth=3", "core.spin_us=0"};
    return fixture_context_with(settings, 3);
}

static void load_in(struct fixture *fixture, struct kt_context *context)
{
    struct kt_layer_params params = fixture_params(fixture);
    fixture->context = context;
    ck_ok(kt_layer_create(context, &params, &fixture->layer, &ck_error));
    ck_ok(kt_layer_load(fixture->layer, fixture->experts, fixture->n_experts, &ck_error));
}

START_TEST(test_order_and_capacity)
{
    struct fixture fixture = {.n_tokens = 4};
    fixture_fill(&fixture, 1);
    load_in(&fixture, small_queue());
    fixture_model(&fixture);
    struct kt_forward forward = fixture_forward(&fixture);
    struct kt_error error;
    memset(fixture.output, 0, fixture.n_tokens * fixture.hidden * sizeof(float));
    uint64_t ticket[4];
    /* The second adds to what the first wrote: right only in order. */
    ck_ok(kt_layer_submit(fixture.layer, &forward, &ticket[0], &ck_error));
    forward.accumulate = 1;
    ck_ok(kt_layer_submit(fixture.layer, &forward, &ticket[1], &ck_error));
    ck_ok(kt_layer_submit(fixture.layer, &forward, &ticket[2], &ck_error));
    ck_assert_int_eq(kt_layer_submit(fixture.layer, &forward, &ticket[3], &error), KT_E_BUSY);
    ck_assert_ptr_nonnull(strstr(error.message, "queue_depth is 3"));
    ck_ok(kt_wait(fixture.context, ticket[1], &ck_error));
    ck_ok(kt_wait(fixture.context, ticket[0], &ck_error));
    ck_ok(kt_layer_submit(fixture.layer, &forward, &ticket[3], &ck_error));
    ck_ok(kt_wait(fixture.context, ticket[2], &ck_error));
    ck_ok(kt_wait(fixture.context, ticket[3], &ck_error));
    for (uint64_t i = 0; i < fixture.n_tokens * fixture.hidden; i++)
        fixture.expected[i] *= 4;
    ck_assert_double_le(fixture_error(&fixture), 2e-6);
    fixture_free(&fixture);
}
END_TEST

/* A ticket that is waited for late takes one place of the queue, however many come and go meanwhile. */
START_TEST(test_late_waiter)
{
    struct fixture fixture = {.n_tokens = 2};
    fixture_fill(&fixture, 8);
    load_in(&fixture, small_queue());
    struct kt_forward forward = fixture_forward(&fixture);
    uint64_t late, last = 0, ticket[2];
    ck_ok(kt_layer_submit(fixture.layer, &forward, &late, &ck_error));
    for (int i = 0; i < 10; i++) {
        ck_ok(kt_layer_submit(fixture.layer, &forward, &ticket[0], &ck_error));
        ck_ok(kt_layer_submit(fixture.layer, &forward, &ticket[1], &ck_error));
        ck_assert(ticket[0] > last && ticket[1] > ticket[0] && ticket[0] > late);
        last = ticket[1];
        ck_ok(kt_wait(fixture.context, ticket[i % 2], &ck_error));
        ck_ok(kt_wait(fixture.context, ticket[1 - i % 2], &ck_error));
    }
    ck_ok(kt_wait(fixture.context, late, &ck_error));
    fixture_free(&fixture);
}
END_TEST

/* Every submit is timed, and leaves the queue as it was. */
START_TEST(test_submit_times)
{
    struct kt_context *context = small_queue();
    struct kt_error error;
    double times[10];
    for (uint32_t gap_us = 0; gap_us <= 200; gap_us += 100) {
        for (int i = 0; i < 10; i++)
            times[i] = -1;
        ck_ok(kt_context_submit_times(context, 9, gap_us, times, &ck_error));
        for (int i = 0; i < 9; i++)
            ck_assert(times[i] > 0);
        ck_assert(times[9] < 0);
    }
    ck_assert_int_eq(kt_context_submit_times(NULL, 1, 0, times, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_context_submit_times(context, 0, 0, times, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_context_submit_times(context, 1, 0, NULL, &error), KT_E_INVALID);
    kt_context_destroy(context);
}
END_TEST

START_TEST(test_wrong_tickets)
{
    struct fixture fixture = {0};
    fixture_fill(&fixture, 1);
    load_in(&fixture, small_queue());
    struct kt_forward forward = fixture_forward(&fixture);
    struct kt_error error;
    uint64_t ticket = 0;
    static const uint64_t wrong[] = {0, 1, 77, UINT64_MAX};
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(kt_wait(fixture.context, wrong[i], &error), KT_E_INVALID);
    ck_ok(kt_layer_submit(fixture.layer, &forward, &ticket, &ck_error));
    ck_ok(kt_wait(fixture.context, ticket, &ck_error));
    ck_assert_int_eq(kt_wait(fixture.context, ticket, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_wait(NULL, ticket, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_layer_submit(fixture.layer, &forward, NULL, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_layer_submit(NULL, &forward, &ticket, &error), KT_E_INVALID);
    fixture_free(&fixture);
}
END_TEST

/* A ticket's error is its own: the next one is right again. */
START_TEST(test_error_of_a_ticket)
{
    struct fixture fixture = {0};
    fixture_fill(&fixture, 1);
    load_in(&fixture, small_queue());
    fixture_model(&fixture);
    struct kt_forward forward = fixture_forward(&fixture);
    struct kt_error error = {KT_OK, ""};
    uint64_t bad, good;
    int64_t ids[14];
    memcpy(ids, fixture.ids, sizeof ids);
    ids[13] = 99;
    forward.expert_ids = ids;
    ck_ok(kt_layer_submit(fixture.layer, &forward, &bad, &ck_error));
    forward.expert_ids = fixture.ids;
    ck_ok(kt_layer_submit(fixture.layer, &forward, &good, &ck_error));
    ck_assert_int_eq(kt_wait(fixture.context, bad, &error), KT_E_RANGE);
    ck_assert_ptr_nonnull(strstr(error.message, "expert 99"));
    ck_ok(kt_wait(fixture.context, good, &ck_error));
    ck_assert_double_le(fixture_error(&fixture), 2e-6);
    fixture_free(&fixture);
}
END_TEST

/* Loading while work is outstanding is refused and leaves the layer as it is; any other failure to
 * load leaves it without weights. */
START_TEST(test_load_while_busy)
{
    struct fixture fixture = {.n_tokens = 200};
    fixture_fill(&fixture, 1);
    load_in(&fixture, small_queue());
    fixture_model(&fixture);
    struct kt_forward forward = fixture_forward(&fixture);
    struct kt_error error;
    uint64_t ticket;
    enum kt_status status;
    do { /* until the load comes before the end of the work */
        ck_ok(kt_layer_submit(fixture.layer, &forward, &ticket, &ck_error));
        status = kt_layer_load(fixture.layer, fixture.experts, fixture.n_experts, &error);
        ck_ok(kt_wait(fixture.context, ticket, &ck_error));
    } while (status == KT_OK);
    ck_assert_int_eq(status, KT_E_BUSY);
    ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
    ck_assert_double_le(fixture_error(&fixture), 2e-6);
    ck_assert_int_eq(kt_layer_load(fixture.layer, NULL, 5, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_layer_forward(fixture.layer, &forward, &error), KT_E_STATE);
    fixture_free(&fixture);
}
END_TEST

/* A forked child has no queue: it is told so instead of waiting forever. */
START_TEST(test_fork)
{
    struct fixture fixture = {0};
    fixture_fill(&fixture, 1);
    load_in(&fixture, small_queue());
    struct kt_forward forward = fixture_forward(&fixture);
    uint64_t ticket;
    ck_ok(kt_layer_submit(fixture.layer, &forward, &ticket, &ck_error));
    pid_t child = fork();
    if (child == 0)
        _exit(kt_wait(fixture.context, ticket, NULL) == KT_E_STATE &&
                      kt_layer_submit(fixture.layer, &forward, &ticket, NULL) == KT_E_STATE &&
                      kt_layer_forward(fixture.layer, &forward, NULL) == KT_E_STATE
                  ? 0
                  : 1);
    int state = 0;
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    ck_assert_int_eq(state, 0);
    ck_ok(kt_wait(fixture.context, ticket, &ck_error));
    fixture_free(&fixture);
}
END_TEST

struct client {
    struct fixture *fixture;
    float *output;
    int submits;
    int failures;
};

static void *submit_often(void *argument)
{
    struct client *client = argument;
    struct fixture *fixture = client->fixture;
    size_t size = fixture->n_tokens * fixture->hidden * sizeof(float);
    struct kt_forward forward = fixture_forward(fixture);
    forward.output = client->output;
    struct kt_error error;
    for (int i = 0; i < client->submits;) {
        uint64_t ticket;
        enum kt_status status;
        memset(client->output, 0x55, size);
        if (i % 3 == 0) {
            status = kt_layer_forward(fixture->layer, &forward, &error);
        } else {
            status = kt_layer_submit(fixture->layer, &forward, &ticket, &error);
            if (status == KT_E_BUSY)
                continue; /* the other clients hold all tickets */
            if (status == KT_OK)
                status = kt_wait(fixture->context, ticket, &error);
        }
        client->failures += status != KT_OK || memcmp(client->output, fixture->output, size) != 0;
        i++;
    }
    return NULL;
}

START_TEST(test_many_threads)
{
    struct fixture fixture = {.n_tokens = 3};
    fixture_fill(&fixture, 6);
    load_in(&fixture, small_queue());
    struct kt_forward forward = fixture_forward(&fixture);
    ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
    struct client client[4];
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) {
        client[i] =
            (struct client){&fixture, malloc(fixture.n_tokens * fixture.hidden * sizeof(float)), 100, 0};
        ck_assert_int_eq(pthread_create(&thread[i], NULL, submit_often, &client[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(thread[i], NULL);
        ck_assert_int_eq(client[i].failures, 0);
        free(client[i].output);
    }
    fixture_free(&fixture);
}
END_TEST

/* Destroying with work outstanding finishes it first. */
START_TEST(test_early_end)
{
    for (int i = 0; i < 20; i++) {
        struct fixture fixture = {.n_tokens = 5};
        fixture_fill(&fixture, 1);
        load_in(&fixture, small_queue());
        fixture_model(&fixture);
        struct kt_forward forward = fixture_forward(&fixture);
        uint64_t ticket;
        ck_ok(kt_layer_submit(fixture.layer, &forward, &ticket, &ck_error));
        kt_layer_destroy(fixture.layer);
        fixture.layer = NULL;
        ck_assert_double_le(fixture_error(&fixture), 2e-6);
        fixture_free(&fixture);
    }
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 120);
    tcase_add_test(all, test_order_and_capacity);
    tcase_add_test(all, test_late_waiter);
    tcase_add_test(all, test_submit_times);
    tcase_add_test(all, test_wrong_tickets);
    tcase_add_test(all, test_error_of_a_ticket);
    tcase_add_test(all, test_load_while_busy);
    tcase_add_test(all, test_fork);
    tcase_add_test(all, test_many_threads);
    tcase_add_test(all, test_early_end);
    return run_tests("queue", all);
}

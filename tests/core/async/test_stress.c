/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that submit batches of random sizes, ids and masks in every way there is, and between them what
 * must fail. Every output is compared bit by bit with sums of products that were computed beforehand.
 *     KT_TEST_SUBMITS=1000000 tests/core/async/test_stress     how many, instead of 3000
 */
#include "tests/support/deferral_rule.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 4, EXPERTS = 6, TOP_K = 3, HIDDEN = 9, TOKENS = 20, ROWS = 16, N_FAILING = 4, CHUNK = 8 };
enum { INTERMEDIATE = 7, LINEARS = 2 };

/* An input that starts with one of these makes a stage of the fake backend fail: act_pack, then gate_up,
 * act_pack of h and down. */
static const float failing[N_FAILING] = {4096, 8192, 16384, 32768};

struct batch {
    int64_t ids[TOKENS * TOP_K];
    float weights[TOKENS * TOP_K], input[TOKENS * HIDDEN], output[TOKENS * HIDDEN];
    int row[TOKENS]; /* ROWS and more: one that a stage fails at */
    struct kt_forward forward;
};

struct client {
    struct kt_context *context;
    struct fixture fixture;
    struct kt_layer *layer;
    struct kt_deferral *deferral;
    struct kt_host_call *call;
    struct kt_linear *linear[LINEARS];
    bool fake;
    uint32_t per_token;
    uint8_t mask[EXPERTS];
    int32_t n_tokens; /* of `call` */
    float rows[ROWS][HIDDEN];
    float y[ROWS][EXPERTS][HIDDEN];
    float product[ROWS][LINEARS][INTERMEDIATE];
    struct batch batch[2];
    uint64_t state;
    long submits, refused, failures, lost;
    char text[2 * sizeof(struct kt_error)]; /* what went wrong; "": nothing */
};

static uint32_t below(struct client *client, uint32_t n)
{
    return (uint32_t)(fixture_uniform(&client->state) * n);
}

/* ---- what is expected ---- */

static void add_slot(const struct client *client, const struct batch *batch, uint32_t t, uint32_t k,
                     float *sums)
{
    int64_t id = batch->ids[t * TOP_K + k];
    if (id < 0 || client->mask[id])
        return;
    for (int i = 0; i < HIDDEN; i++)
        sums[t * HIDDEN + (uint32_t)i] +=
            batch->weights[t * TOP_K + k] * client->y[batch->row[t] % ROWS][id][i];
}

static bool is_at_once(const struct client *client, const struct batch *batch, uint32_t t, uint32_t k,
                       uint32_t n_protected)
{
    return n_protected == TOP_K ||
           rule_is_immediate(&batch->forward, t, k, n_protected, client->per_token != 0);
}

/* Adds slots that are computed at once to `now`, the others to `late`; n_protected of TOP_K: all at once. */
static void expect(const struct client *client, const struct batch *batch, uint32_t n_protected, float *now,
                   float *late)
{
    memset(now, 0, sizeof batch->output);
    memset(late, 0, sizeof batch->output);
    for (uint32_t t = 0; t < batch->forward.n_tokens; t++)
        for (uint32_t k = 0; k < TOP_K; k++)
            add_slot(client, batch, t, k, is_at_once(client, batch, t, k, n_protected) ? now : late);
}

/* Is a stage reached that fails? Rows are packed where their chunk has any expert to compute, and multiplied
 * where they have one themselves. */
static enum kt_status expect_status(const struct client *client, const struct batch *batch,
                                    uint32_t n_protected, bool at_once)
{
    for (uint32_t first = 0; first < batch->forward.n_tokens; first += CHUNK) {
        bool computed = false, unpackable = false;
        for (uint32_t t = first; t < first + CHUNK && t < batch->forward.n_tokens; t++) {
            bool used = false;
            for (uint32_t k = 0; k < TOP_K; k++) {
                int64_t id = batch->ids[t * TOP_K + k];
                used |=
                    id >= 0 && !client->mask[id] && is_at_once(client, batch, t, k, n_protected) == at_once;
            }
            if (used && batch->row[t] > ROWS)
                return KT_E_BACKEND;
            computed |= used;
            unpackable |= batch->row[t] == ROWS;
        }
        if (computed && unpackable)
            return KT_E_BACKEND;
    }
    return KT_OK;
}

static void complain(struct client *client, const char *what, const char *message)
{
    if (!client->text[0])
        (void)snprintf(client->text, sizeof client->text, "submit %ld, %s: %s", client->submits, what,
                       message);
}

static void compare(struct client *client, const struct batch *batch, const float *expected, const char *what)
{
    for (uint32_t i = 0; i < batch->forward.n_tokens * HIDDEN; i++)
        if (!(batch->output[i] == expected[i])) {
            char text[100];
            (void)snprintf(text, sizeof text, "number %u of %u tokens is %.9g instead of %.9g", i,
                           batch->forward.n_tokens, (double)batch->output[i], (double)expected[i]);
            complain(client, what, text);
            return;
        }
    for (uint32_t i = batch->forward.n_tokens * HIDDEN; i < TOKENS * HIDDEN; i++)
        if (batch->output[i] != -77)
            complain(client, what, "wrote past its tokens");
}

static void compare_status(struct client *client, enum kt_status status, enum kt_status wanted,
                           const struct kt_error *error, const char *what)
{
    if (status != wanted)
        complain(client, what, status == KT_OK ? "no error" : error->message);
}

/* What became of a batch whose experts were all computed at once. */
static void compare_all(struct client *client, const struct batch *batch, enum kt_status status,
                        const struct kt_error *error, const char *what)
{
    float now[TOKENS * HIDDEN], late[TOKENS * HIDDEN];
    enum kt_status wanted = expect_status(client, batch, TOP_K, true);
    compare_status(client, status, wanted, error, what);
    client->lost += wanted != KT_OK;
    if (wanted != KT_OK)
        return;
    expect(client, batch, TOP_K, now, late);
    compare(client, batch, now, what);
}

/* ---- batches ---- */

static void make_batch(struct client *client, struct batch *batch, uint32_t n_tokens)
{
    for (uint32_t t = 0; t < n_tokens; t++) {
        bool fails = client->fake && below(client, 50) == 0;
        batch->row[t] = (int)(fails ? ROWS + below(client, N_FAILING) : below(client, ROWS));
        memcpy(batch->input + t * HIDDEN, client->rows[fails ? 0 : batch->row[t]], sizeof client->rows[0]);
        if (fails)
            batch->input[t * HIDDEN] = failing[batch->row[t] - ROWS];
        int64_t first = below(client, EXPERTS);
        for (int64_t k = 0; k < TOP_K; k++) {
            batch->ids[t * TOP_K + k] = below(client, 10) == 0 ? -1 : (first + k) % EXPERTS;
            batch->weights[t * TOP_K + k] = (float)(1 + below(client, 6)) / 4;
        }
    }
    for (int i = 0; i < TOKENS * HIDDEN; i++)
        batch->output[i] = -77;
    batch->forward = (struct kt_forward)KT_FORWARD_INIT;
    batch->forward.n_tokens = n_tokens;
    batch->forward.top_k = TOP_K;
    batch->forward.expert_ids = batch->ids;
    batch->forward.router_weights = batch->weights;
    batch->forward.input = batch->input;
    batch->forward.output = batch->output;
    batch->forward.input_dtype = batch->forward.output_dtype = KT_DTYPE_F32;
}

/* Experts move while nothing of this layer is on its way. */
static void move_experts(struct client *client)
{
    for (int e = 0; e < EXPERTS; e++)
        if (below(client, 8) == 0)
            client->mask[e] ^= 1;
}

/* ---- ways to submit ---- */

static void run_forward(struct client *client)
{
    struct kt_error error;
    client->submits++;
    enum kt_status status = kt_layer_forward(client->layer, &client->batch[0].forward, &error);
    compare_all(client, &client->batch[0], status, &error, "forward");
}

/* One or two at once, waited for in any order. The others may hold all tickets. */
static void run_submit(struct client *client, uint32_t n)
{
    struct kt_error error;
    uint64_t ticket[2];
    uint32_t given = 0, first = below(client, n);
    for (; given < n; given++) {
        enum kt_status status =
            kt_layer_submit(client->layer, &client->batch[given].forward, &ticket[given], &error);
        client->refused += status == KT_E_BUSY;
        if (status == KT_E_BUSY)
            break;
        compare_status(client, status, KT_OK, &error, "submit");
        client->submits++;
    }
    for (uint32_t i = 0; i < given; i++) {
        uint32_t which = given == 2 ? (first + i) % 2 : i;
        enum kt_status status = kt_wait(client->context, ticket[which], &error);
        compare_all(client, &client->batch[which], status, &error, "submit");
    }
}

static enum kt_status submit_deferral(struct client *client, uint32_t position, struct batch *batch,
                                      struct kt_error *error)
{
    uint64_t ticket;
    enum kt_status status;
    while ((status = kt_deferral_submit(client->deferral, position, client->layer, &batch->forward, &ticket,
                                        error)) == KT_E_BUSY)
        (void)sched_yield();
    client->submits++;
    return status == KT_OK ? kt_wait(client->context, ticket, error) : status;
}

static void run_deferral(struct client *client)
{
    float now[TOKENS * HIDDEN], late[TOKENS * HIDDEN], all[TOKENS * HIDDEN], none[TOKENS * HIDDEN];
    struct batch *batch = client->batch;
    struct kt_error error;
    bool abandoned = below(client, 8) == 0;
    make_batch(client, &batch[1], batch[0].forward.n_tokens);
    expect(client, &batch[0], 1, now, late);
    enum kt_status first = expect_status(client, &batch[0], 1, true), second = KT_OK;
    compare_status(client, submit_deferral(client, 0, &batch[0], &error), first, &error, "position 0");
    if (first == KT_OK)
        compare(client, &batch[0], now, "position 0");
    if (abandoned) /* what is pending is dropped by the next pass */
        return;
    /* Nothing is deferred of a batch that failed; what fails late fails the next batch. */
    if (first != KT_OK)
        memset(late, 0, sizeof late);
    else
        second = expect_status(client, &batch[0], 1, false);
    if (second == KT_OK)
        second = expect_status(client, &batch[1], TOP_K, true);
    expect(client, &batch[1], TOP_K, all, none);
    for (int i = 0; i < TOKENS * HIDDEN; i++)
        all[i] = late[i] + all[i];
    compare_status(client, submit_deferral(client, 1, &batch[1], &error), second, &error, "position 1");
    if (second == KT_OK)
        compare(client, &batch[1], all, "position 1");
    client->lost += (first != KT_OK) + (second != KT_OK);
}

/* A wait that gives up is followed by others, until the forward is done. */
static void run_host_call(struct client *client)
{
    struct kt_error error;
    enum kt_status status = KT_OK;
    client->n_tokens = (int32_t)client->batch[0].forward.n_tokens;
    for (;;) {
        kt_host_submit(client->call);
        if ((status = kt_host_call_status(client->call, &error)) != KT_E_BUSY)
            break;
        (void)sched_yield(); /* all tickets are taken */
    }
    compare_status(client, status, KT_OK, &error, "host submit");
    client->submits++;
    do {
        kt_host_wait(client->call);
        status = kt_host_call_status(client->call, &error);
        client->refused += status == KT_E_BUSY;
    } while (status == KT_E_BUSY);
    compare_all(client, &client->batch[0], status, &error, "host call");
}

/* All linears of a client over one input, and whether they gave what they gave for each row alone. */
static enum kt_status multiply(const struct client *client, const float *input, uint32_t n_tokens,
                               float *const *outputs, struct kt_error *error)
{
    struct kt_linear_batch batch = KT_LINEAR_BATCH_INIT;
    struct kt_linear_output to[LINEARS];
    for (int l = 0; l < LINEARS; l++)
        to[l] = (struct kt_linear_output){.linear = client->linear[l],
                                          .output = outputs[l],
                                          .output_dtype = KT_DTYPE_F32};
    batch.outputs = to;
    batch.n_outputs = LINEARS;
    batch.n_tokens = n_tokens;
    batch.input = input;
    batch.input_dtype = KT_DTYPE_F32;
    return kt_linear_forward(&batch, error);
}

static void run_linears(struct client *client)
{
    float input[TOKENS][HIDDEN] = {{0}}, output[LINEARS][TOKENS][INTERMEDIATE];
    const struct batch *batch = &client->batch[0];
    uint32_t n_tokens = batch->forward.n_tokens;
    struct kt_error error = {KT_OK, ""};
    for (uint32_t t = 0; t < n_tokens; t++)
        memcpy(input[t], client->rows[batch->row[t] % ROWS], sizeof input[t]);
    client->submits++;
    enum kt_status status =
        multiply(client, input[0], n_tokens, (float *[]){output[0][0], output[1][0]}, &error);
    compare_status(client, status, KT_OK, &error, "linears");
    for (uint32_t t = 0; t < n_tokens && status == KT_OK; t++)
        for (int l = 0; l < LINEARS; l++)
            if (memcmp(output[l][t], client->product[batch->row[t] % ROWS][l], sizeof output[l][t]) != 0)
                complain(client, "linears", "another product than of the row alone");
}

/* ---- what must fail ---- */

static void check_untouched(struct client *client, const struct batch *batch)
{
    for (int i = 0; i < TOKENS * HIDDEN; i++)
        if (batch->output[i] != -77)
            complain(client, "a batch that was refused", "was written");
}

static void run_wrong(struct client *client)
{
    struct batch *batch = client->batch;
    struct kt_error error;
    uint32_t n = batch->forward.n_tokens, kind = below(client, 4);
    if (n == 0)
        return;
    client->failures++;
    client->submits++;
    batch->ids[below(client, n * TOP_K)] = kind % 2 ? EXPERTS : INT64_MAX;
    if (kind == 0) {
        enum kt_status status = kt_layer_forward(client->layer, &batch->forward, &error);
        compare_status(client, status, KT_E_RANGE, &error, "bad id");
    } else if (kind == 1) {
        uint64_t ticket = 0;
        enum kt_status status = kt_layer_submit(client->layer, &batch->forward, &ticket, &error);
        if (status == KT_OK)
            status = kt_wait(client->context, ticket, &error);
        if (status != KT_E_BUSY)
            compare_status(client, status, KT_E_RANGE, &error, "submitted bad id");
    } else if (kind == 2) {
        /* An abandoned pass may be pending still, or have failed. */
        uint32_t position = below(client, 2);
        enum kt_status status = submit_deferral(client, position, batch, &error);
        if (position == 0 || (status != KT_E_STATE && status != KT_E_BACKEND))
            compare_status(client, status, KT_E_RANGE, &error, "deferred bad id");
    } else {
        client->n_tokens = TOKENS + 1;
        kt_host_submit(client->call);
        kt_host_wait(client->call);
        compare_status(client, kt_host_call_status(client->call, &error), KT_E_RANGE, &error,
                       "too many tokens");
    }
    check_untouched(client, batch);
}

static void *run(void *argument)
{
    struct client *client = argument;
    long wanted = client->submits;
    client->submits = 0;
    while (client->submits < wanted && !client->text[0]) {
        move_experts(client);
        for (int b = 0; b < 2; b++)
            make_batch(client, &client->batch[b],
                       below(client, 4) ? below(client, 4) : below(client, TOKENS + 1));
        switch (below(client, 7)) {
        case 0:
            run_forward(client);
            break;
        case 1:
            run_submit(client, 1);
            break;
        case 2:
            run_submit(client, 2);
            break;
        case 3:
            run_deferral(client);
            break;
        case 4:
            run_host_call(client);
            break;
        case 5:
            run_linears(client);
            break;
        default:
            run_wrong(client);
            break;
        }
    }
    return NULL;
}

/* ---- clients ---- */

static void compute_products(struct client *client)
{
    uint64_t state = client->state;
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < HIDDEN; i++)
            client->rows[r][i] = (float)fixture_gaussian(&state);
        for (int64_t e = 0; e < EXPERTS; e++) {
            struct kt_forward forward = KT_FORWARD_INIT;
            forward.n_tokens = forward.top_k = 1;
            forward.expert_ids = &e;
            forward.router_weights = &(float){1};
            forward.input = client->rows[r];
            forward.output = client->y[r][e];
            forward.input_dtype = forward.output_dtype = KT_DTYPE_F32;
            ck_ok(kt_layer_forward(client->layer, &forward, &ck_error));
        }
        ck_ok(multiply(client, client->rows[r], 1, (float *[]){client->product[r][0], client->product[r][1]},
                       &ck_error));
    }
}

static void make_linears(struct client *client)
{
    struct kt_linear_params params = KT_LINEAR_PARAMS_INIT;
    params.rows = INTERMEDIATE;
    params.cols = HIDDEN;
    params.max_tokens = CHUNK;
    params.backend = "reference";
    for (int l = 0; l < LINEARS; l++) {
        ck_ok(kt_linear_create(client->context, &params, &client->linear[l], &ck_error));
        ck_ok(kt_linear_load(client->linear[l], &client->fixture.experts[l].gate, NULL, &ck_error));
    }
}

static void make_calls(struct client *client, uint32_t number)
{
    struct kt_deferral_params deferral = KT_DEFERRAL_PARAMS_INIT;
    struct kt_host_params host = KT_HOST_PARAMS_INIT;
    deferral.n_layers = 2;
    deferral.n_experts = EXPERTS;
    deferral.top_k = TOP_K;
    deferral.max_tokens = TOKENS;
    deferral.hidden_size = HIDDEN;
    deferral.max_deferred = 2;
    deferral.per_token = client->per_token = number / 2;
    ck_ok(kt_deferral_create(client->context, &deferral, &client->deferral, &ck_error));
    make_batch(client, &client->batch[0], TOKENS);
    host.layer = client->layer;
    host.max_tokens = TOKENS;
    host.n_tokens = &client->n_tokens;
    host.timeout_ms = number % 2 ? 1 : 0;
    host.forward = client->batch[0].forward;
    ck_ok(kt_host_call_create(&host, &client->call, &ck_error));
}

static void open_client(struct client *client, struct kt_context *context, uint32_t number)
{
    memset(client, 0, sizeof *client);
    client->context = context;
    client->state = number + 40;
    client->fake = number < 2;
    client->fixture = (struct fixture){.n_experts = EXPERTS,
                                       .top_k = TOP_K,
                                       .max_tokens = CHUNK, /* so that batches run in chunks */
                                       .hidden = HIDDEN,
                                       .intermediate = INTERMEDIATE,
                                       .mask = client->mask};
    fixture_fill(&client->fixture, client->state);
    struct kt_layer_params params = fixture_params(&client->fixture);
    params.backend = client->fake ? "fake" : "reference";
    ck_ok(kt_layer_create(context, &params, &client->layer, &ck_error));
    ck_ok(kt_layer_load(client->layer, client->fixture.experts, EXPERTS, &ck_error));
    make_linears(client);
    compute_products(client);
    make_calls(client, number);
}

static void close_client(struct client *client)
{
    kt_host_call_destroy(client->call);
    kt_deferral_destroy(client->deferral);
    kt_layer_destroy(client->layer);
    for (int l = 0; l < LINEARS; l++)
        kt_linear_destroy(client->linear[l]);
    fixture_free(&client->fixture);
}

/* On one NUMA node, since a sum of several shards is rounded in another order. */
static struct kt_context *open_context(void)
{
    char module[4096];
    (void)snprintf(module, sizeof module, "plugin.fake.module=%s", sandbox_plugin("fake", "lib/kt_fake.so"));
    ck_assert_int_eq(setenv("HWLOC_SYNTHETIC", "numa:1 core:2 pu:1", 1), 0);
    struct kt_context *context =
        fixture_context_with((const char *const[]){"core.threads=2", "core.queue_depth=3", "core.spin_us=20",
                                                   "core.strict=yes", module},
                             5);
    ck_assert_int_eq(unsetenv("HWLOC_SYNTHETIC"), 0);
    return context;
}

START_TEST(every_output_is_right)
{
    static struct client client[CLIENTS];
    pthread_t thread[CLIENTS];
    const char *text = getenv("KT_TEST_SUBMITS");
    long wanted = text ? strtol(text, NULL, 10) : 3000, submits = 0, failures = 0, lost = 0;
    struct kt_context *context = open_context();
    for (uint32_t c = 0; c < CLIENTS; c++)
        open_client(&client[c], context, c);
    for (int c = 0; c < CLIENTS; c++) {
        client[c].submits = (wanted + CLIENTS - 1) / CLIENTS;
        ck_assert_int_eq(pthread_create(&thread[c], NULL, run, &client[c]), 0);
    }
    for (int c = 0; c < CLIENTS; c++) {
        (void)pthread_join(thread[c], NULL);
        ck_assert_msg(!client[c].text[0], "client %d: %s", c, client[c].text);
        printf("client %d: %ld submits, %ld that must fail, %ld that a stage failed, %ld refused at first\n",
               c, client[c].submits, client[c].failures, client[c].lost, client[c].refused);
        submits += client[c].submits;
        failures += client[c].failures;
        lost += client[c].lost;
        close_client(&client[c]);
    }
    ck_assert_int_ge(submits, wanted);
    ck_assert(wanted < 1000 || (failures > 0 && lost > 0));
    kt_context_destroy(context);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("stress");
    tcase_set_timeout(tests, getenv("KT_TEST_SUBMITS") ? 36000 : 120);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_test(tests, every_output_is_right);
    return run_tests("stress", tests);
}

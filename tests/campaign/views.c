/* SPDX-License-Identifier: Apache-2.0 */
/*
 * views.c - weights of the caller's own, of random dtypes, sizes, groups and strides, each next to a page
 * that faults, through everything that takes such weights.
 *
 *     views SECONDS SEED FOLDER
 *
 * FOLDER is for stores. Prints what attack.c prints. Each hundred rounds are a process of its own, so that
 * one that ends by a signal is counted, with the round's seed. Wrong is an error without words, weights that
 * the reference loads with other bits than kt_view_row gives, and a forward that fails after a load.
 */
#define _GNU_SOURCE
#include "tests/campaign/change.h"
#include "tests/campaign/user.h"
#include "tests/support/own_view.h"

#include <kt/kt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 100, MOST_EXPERTS = 2, MOST_SIZE = 768, HANG_SECONDS = 60 };

/* What the processes share. */
static struct shared {
    uint64_t seed; /* of the round that is running */
    long tried, wrong;
} * shared;

static const char *folder, *backend;
static struct kt_context *context;

static uint32_t below(uint64_t *state, uint32_t n)
{
    return (uint32_t)kt_below(state, n);
}

static void wrong(const char *what, const char *words)
{
    printf("wrong: seed %llu, %s: %s: %.300s\n", (unsigned long long)shared->seed,
           backend ? backend : "a backend", what, words);
    shared->wrong++;
}

/* Counts the call; is it done? */
static bool done(const char *what, enum kt_status status, struct kt_error *error)
{
    shared->tried++;
    if (status != KT_OK && (error->status != status || !error->message[0]))
        wrong(what, "an error without its words");
    if (status == KT_OK)
        return true;
    *error = (struct kt_error){KT_OK, ""};
    return false;
}

/* Two behind the last one. */
static uint32_t end_of_dtypes(void)
{
    static uint32_t end;
    for (uint32_t dtype = 256; end == 0; dtype--)
        if (strcmp(kt_dtype_name(dtype), "?") != 0)
            end = dtype + 2;
    return end;
}

/* Mostly one of the dtypes that mean something there. */
static uint32_t any_dtype(uint64_t *state, const uint32_t *likely, uint32_t n)
{
    if (below(state, 100) == 0)
        return (uint32_t)kt_roll(state);
    return below(state, 3) ? likely[below(state, n)] : below(state, end_of_dtypes());
}

static void draw_shape(uint64_t *state, struct own_shape *shape)
{
    static const uint32_t weights[] = {KT_DTYPE_F32,     KT_DTYPE_BF16,    KT_DTYPE_I8,   KT_DTYPE_INT4,
                                       KT_DTYPE_F8_E4M3, KT_DTYPE_F4_E2M1, KT_DTYPE_Q4_0, KT_DTYPE_Q4_K};
    static const uint32_t scales[] = {KT_DTYPE_NONE, KT_DTYPE_F32, KT_DTYPE_F16, KT_DTYPE_BF16,
                                      KT_DTYPE_F8_E8M0};
    static const uint32_t zeros[] = {KT_DTYPE_NONE, KT_DTYPE_NONE, KT_DTYPE_U8};
    static const uint64_t groups[] = {1, 16, 32, 64, 128, 1 << 24};
    shape->dtype = any_dtype(state, weights, 8);
    shape->scale_dtype = any_dtype(state, scales, 5);
    shape->zero_dtype = any_dtype(state, zeros, 3);
    shape->group_rows = below(state, 3) ? 1 : groups[below(state, 6)];
    shape->group_cols = groups[below(state, 6)];
    shape->way = below(state, 3) ? below(state, 2) * OWN_FIRST : below(state, OWN_WAYS);
    shape->scale_way = below(state, OWN_WAYS);
    shape->wild = below(state, 4) == 0;
}

static uint64_t draw_size(uint64_t *state, uint32_t most)
{
    static const uint32_t units[] = {1, 8, 32, 64, 256};
    uint32_t unit = units[below(state, 5)];
    return (uint64_t)unit * (1 + below(state, most / unit));
}

/* ---- a view, and a linear of it ---- */

static void try_rows(uint64_t *state, const struct kt_view *view)
{
    static float row[MOST_SIZE];
    struct kt_error error = {KT_OK, ""};
    int64_t ids[2] = {(int64_t)below(state, (uint32_t)view->rows), 0};
    (void)done("kt_view_row", kt_view_row(view, below(state, (uint32_t)view->rows), row, &error), &error);
    (void)done("kt_view_gather", kt_view_gather(view, ids, 1, KT_DTYPE_BF16, row, 0, &error), &error);
    (void)kt_view_bytes(view);
}

static void compare(const struct kt_linear *linear, const struct kt_view *view)
{
    static float loaded[MOST_SIZE], expected[MOST_SIZE];
    struct kt_error error = {KT_OK, ""};
    uint64_t row = view->rows - 1;
    if (!done("kt_view_row", kt_view_row(view, row, expected, &error), &error) ||
        !done("kt_linear_weights", kt_linear_weights(linear, row, 1, loaded, &error), &error) ||
        memcmp(loaded, expected, view->cols * sizeof *loaded) != 0)
        wrong("kt_linear_weights", "not what kt_view_row gives");
}

static void run_linear(const struct kt_linear *linear)
{
    static float input[MOST_SIZE], output[MOST_SIZE];
    struct kt_linear_output to = {.linear = linear, .output = output, .output_dtype = KT_DTYPE_F32};
    struct kt_linear_batch batch = KT_LINEAR_BATCH_INIT;
    struct kt_error error = {KT_OK, ""};
    batch.outputs = &to;
    batch.n_outputs = batch.n_tokens = 1;
    batch.input = input;
    batch.input_dtype = KT_DTYPE_F32;
    if (!done("kt_linear_forward", kt_linear_forward(&batch, &error), &error))
        wrong("kt_linear_forward", "it failed");
}

static void try_linear(uint64_t *state)
{
    struct kt_linear_params params = KT_LINEAR_PARAMS_INIT;
    struct kt_store_params store = KT_STORE_PARAMS_INIT;
    struct kt_error error = {KT_OK, ""};
    struct own_shape shape = {.rows = draw_size(state, 96), .cols = draw_size(state, MOST_SIZE)};
    struct kt_linear *linear;
    struct kt_linear_info info;
    struct kt_plan plan;
    struct kt_view view;
    draw_shape(state, &shape);
    if (!own_view(0, &shape, state, &view))
        return;
    try_rows(state, &view);
    params.rows = view.rows;
    params.cols = view.cols;
    params.max_tokens = 1;
    params.backend = backend;
    if (!done("kt_linear_create", kt_linear_create(context, &params, &linear, &error), &error))
        return;
    (void)done("kt_linear_plan", kt_linear_plan(linear, &view, 0, &plan, &error), &error);
    if (done("kt_linear_load", kt_linear_load(linear, &view, NULL, &error), &error)) {
        kt_linear_info(linear, &info);
        run_linear(linear);
        if (strcmp(info.backend, "reference") == 0)
            compare(linear, &view);
    }
    store.folder = folder;
    if (below(state, 8) == 0)
        (void)done("kt_linear_store_view", kt_linear_store_view(linear, &view, NULL, "views", &store, &error),
                   &error);
    kt_linear_destroy(linear);
}

/* ---- experts ---- */

static void run_layer(struct kt_layer *layer, uint32_t n_experts)
{
    static float input[MOST_SIZE], output[MOST_SIZE];
    struct kt_forward forward = KT_FORWARD_INIT;
    struct kt_error error = {KT_OK, ""};
    int64_t id = (int64_t)n_experts - 1;
    float weight = 1;
    forward.n_tokens = 1;
    forward.expert_ids = &id;
    forward.router_weights = &weight;
    forward.input = input;
    forward.output = output;
    forward.input_dtype = forward.output_dtype = KT_DTYPE_F32;
    if (!done("kt_layer_forward", kt_layer_forward(layer, &forward, &error), &error))
        wrong("kt_layer_forward", "it failed");
}

/* Experts alike, or by chance not. False: they are too large. */
static bool draw_experts(uint64_t *state, const struct kt_layer_params *params, struct kt_expert *experts)
{
    struct own_shape shape = {.dtype = 0};
    draw_shape(state, &shape);
    for (unsigned e = 0; e < params->n_experts; e++) {
        struct kt_view *const views[] = {&experts[e].gate, &experts[e].up, &experts[e].down};
        for (unsigned p = 0; p < 3; p++) {
            if (below(state, 30) == 0)
                draw_shape(state, &shape);
            shape.rows = p == KT_DOWN ? params->hidden_size : params->intermediate_size;
            shape.cols = p == KT_DOWN ? params->intermediate_size : params->hidden_size;
            if (!own_view(3 * e + p, &shape, state, views[p]))
                return false;
        }
    }
    return true;
}

static void try_layer(uint64_t *state)
{
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_store_params store = KT_STORE_PARAMS_INIT;
    struct kt_error error = {KT_OK, ""};
    struct kt_expert experts[MOST_EXPERTS];
    struct kt_layer *layer;
    struct kt_plan plan;
    memset(experts, 0, sizeof experts);
    params.n_experts = 1 + below(state, MOST_EXPERTS);
    params.top_k = params.max_tokens = 1;
    params.hidden_size = draw_size(state, 512);
    params.intermediate_size = draw_size(state, 512);
    params.backend = backend;
    if (!draw_experts(state, &params, experts) ||
        !done("kt_layer_create", kt_layer_create(context, &params, &layer, &error), &error))
        return;
    (void)done("kt_layer_plan", kt_layer_plan(layer, experts, &plan, &error), &error);
    if (done("kt_layer_load", kt_layer_load(layer, experts, params.n_experts, &error), &error))
        run_layer(layer, params.n_experts);
    store.folder = folder;
    if (below(state, 8) == 0)
        (void)done("kt_layer_store_experts",
                   kt_layer_store_experts(layer, experts, params.n_experts, 0, &store, &error), &error);
    kt_layer_destroy(layer);
}

/* ---- processes ---- */

/* One of the backends that are loaded, or NULL: the core's choice. */
static const char *draw_backend(uint64_t *state)
{
    struct kt_backend_info info;
    struct kt_error error;
    uint32_t n = (uint32_t)kt_context_backend_count(context), i = below(state, n + 1);
    if (i == n)
        return NULL;
    need(kt_context_backend(context, i, &info, &error), "kt_context_backend", &error);
    return info.state == KT_BACKEND_LOADED ? info.name : NULL;
}

static int run_rounds(uint64_t seed)
{
    context = make_context("core.threads=2");
    (void)alarm(HANG_SECONDS);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t state = shared->seed = seed + (uint64_t)i;
        backend = draw_backend(&state);
        try_linear(&state);
        try_layer(&state);
    }
    kt_context_destroy(context);
    return fflush(stdout);
}

int main(int argc, char **argv)
{
    double end = now() + (argc > 1 ? atof(argv[1]) : 1);
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    long crashes = 0, hangs = 0;
    folder = argc > 3 ? argv[3] : ".";
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    do {
        int status;
        pid_t pid = fork();
        if (pid == 0)
            _exit(run_rounds(seed));
        if (pid < 0 || waitpid(pid, &status, 0) != pid || (WIFEXITED(status) && WEXITSTATUS(status)))
            return 2;
        if (!WIFEXITED(status)) {
            bool hang = WTERMSIG(status) == SIGALRM;
            printf("%s: seed %llu, signal %d\n", hang ? "hang" : "crash", (unsigned long long)shared->seed,
                   WTERMSIG(status));
            hang ? hangs++ : crashes++;
        }
        seed = shared->seed + 1;
    } while (now() < end);
    printf("%ld %ld %ld %ld 0 %llu\n", shared->tried, crashes, hangs, shared->wrong,
           (unsigned long long)seed);
    return crashes + hangs + shared->wrong > 0;
}

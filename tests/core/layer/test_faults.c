/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_faults.c - every allocation, mapping and thread start of the core fails once: the call says so,
 * nothing leaks, nothing crashes, and the same call works afterwards. Also: a forward allocates nothing.
 * The linker turns the core's calls of malloc and its kin into the __wrap_ functions here.
 */
#include "tests/support/gguf_build.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_long countdown = -1; /* the call that brings it to 0 fails; negative: none does */
static atomic_long calls;

static int fails(void)
{
    atomic_fetch_add(&calls, 1);
    return atomic_load(&countdown) > 0 && atomic_fetch_sub(&countdown, 1) == 1;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
void *__real_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                          void *argument);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                          void *argument);

static void *none(void)
{
    errno = ENOMEM;
    return NULL;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? none() : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? none() : __real_calloc(n, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails() ? none() : __real_realloc(memory, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? none() : __real_aligned_alloc(alignment, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? none() : __real_strdup(text);
}

void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
    if (!fails())
        return __real_mmap(address, size, protection, flags, file, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                          void *argument)
{
    return fails() ? EAGAIN : __real_pthread_create(thread, attributes, start, argument);
}

/* What an engine with a GPU makes besides, and a forward through it. */
static enum kt_status engine_life(const struct fixture *fixture, struct kt_context *context,
                                  struct kt_layer *layer, struct kt_error *error)
{
    struct kt_staging_params staging_params = KT_STAGING_PARAMS_INIT;
    struct kt_deferral_params deferral_params = KT_DEFERRAL_PARAMS_INIT;
    struct kt_host_params host_params = KT_HOST_PARAMS_INIT;
    struct kt_staging staging;
    struct kt_deferral *deferral = NULL;
    struct kt_host_call *call = NULL;
    staging_params.hidden_size = deferral_params.hidden_size = fixture->hidden;
    staging_params.top_k = deferral_params.top_k = fixture->top_k;
    staging_params.input_dtype = staging_params.output_dtype = KT_DTYPE_F32;
    deferral_params.n_layers = deferral_params.max_deferred = 1;
    deferral_params.n_experts = fixture->n_experts;
    deferral_params.max_tokens = host_params.max_tokens = fixture->n_tokens;
    enum kt_status status =
        kt_capture_batch_sizes(context, &staging_params, (const uint32_t[]){1, 2}, 2, error);
    if (status == KT_OK)
        status = kt_staging_get(context, &staging_params, fixture->n_tokens, 0, &staging, error);
    if (status == KT_OK)
        status = kt_deferral_create(context, &deferral_params, &deferral, error);
    host_params.layer = layer;
    host_params.deferral = deferral;
    host_params.forward = fixture_forward(fixture);
    if (status == KT_OK)
        status = kt_host_call_create(&host_params, &call, error);
    if (status == KT_OK) {
        kt_host_submit(call);
        kt_host_wait(call);
        status = kt_host_call_status(call, error);
    }
    kt_host_call_destroy(call);
    kt_deferral_destroy(deferral);
    return status;
}

/* Writes what the layer counted and recorded, adds it up and describes it. */
static enum kt_status keep(const struct kt_layer *layer, struct kt_recorder *recorder, struct kt_error *error)
{
    const uint64_t counts[5] = {1, 2, 3, 4, 5};
    struct kt_stats *stats = NULL;
    struct kt_skew skew;
    enum kt_status status = kt_stats_create(5, &stats, error);
    if (status == KT_OK)
        status = kt_stats_add_layer(stats, 0, layer, error);
    if (status == KT_OK)
        status = kt_usage_skew(counts, 5, &skew, error);
    if (status == KT_OK)
        status = kt_stats_save(stats, "/dev/null", error);
    if (status == KT_OK)
        status = kt_recorder_save(recorder, "/dev/null", error);
    kt_stats_destroy(stats);
    return status;
}

/* What a life is made of. */
struct life {
    const struct fixture *fixture;
    const char *model;          /* a checkpoint */
    const char *module, *store; /* the setting that names a backend, and an empty folder */
};

/* Everything from the configuration to the last forward; stops at the first error. */
static enum kt_status whole_life(const struct life *life, struct kt_error *error)
{
    const struct fixture *fixture = life->fixture;
    static const char *const settings[] = {"core.threads=3", "core.spin_us=0", "core.queue_depth=2"};
    struct kt_config_params config_params = KT_CONFIG_PARAMS_INIT;
    config_params.settings = settings;
    config_params.n_settings = 3;
    struct kt_config *config = NULL;
    struct kt_context *context = NULL;
    struct kt_layer *layer = NULL;
    struct kt_layer_params params = fixture_params(fixture);
    struct kt_forward forward = fixture_forward(fixture);
    struct kt_recorder_params recorder_params = KT_RECORDER_PARAMS_INIT;
    struct kt_recorder *recorder = NULL;
    recorder_params.size = 1 << 16;
    enum kt_status status = kt_config_create(&config_params, &config, error);
    if (status == KT_OK)
        status = kt_context_create(config, &context, error);
    if (status == KT_OK)
        status = kt_layer_create(context, &params, &layer, error);
    if (status == KT_OK)
        status = kt_layer_load(layer, fixture->experts, fixture->n_experts, error);
    if (status == KT_OK)
        status = kt_recorder_create(context, &recorder_params, &recorder, error);
    if (status == KT_OK)
        status = kt_layer_record(layer, recorder, 0, error);
    if (status == KT_OK)
        status = kt_layer_forward(layer, &forward, error);
    if (status == KT_OK)
        status = engine_life(fixture, context, layer, error);
    if (status == KT_OK)
        status = keep(layer, recorder, error);
    kt_recorder_destroy(recorder);
    kt_layer_destroy(layer);
    kt_context_destroy(context);
    kt_config_destroy(config);
    return status;
}

/* A linear that could not be loaded has no weights. libcheck's assertions allocate: none here. */
static enum kt_status check_load(const struct kt_linear *linear, enum kt_status status)
{
    struct kt_linear_info info;
    kt_linear_info(linear, &info);
    return (info.backend[0] != '\0') == (status == KT_OK) ? status : KT_E_STATE;
}

/* A linear that gets weights with a bias, and then those of a checkpoint, which it keeps open. */
static enum kt_status linear_life(const struct life *life, struct kt_error *error)
{
    enum { ROWS = 128, COLS = 256 }; /* of the checkpoint's weight */
    static const char *const settings[] = {"core.threads=2", "core.spin_us=0"};
    struct kt_config_params config_params = KT_CONFIG_PARAMS_INIT;
    config_params.settings = settings;
    config_params.n_settings = 2;
    struct kt_config *config = NULL;
    struct kt_context *context = NULL;
    struct kt_checkpoint *checkpoint = NULL;
    struct kt_linear *linear = NULL;
    struct kt_linear_params params = KT_LINEAR_PARAMS_INIT;
    static const float input[COLS] = {1, 0, 0, -2}, weights[ROWS * COLS] = {3, 1, 0, 4}, bias[ROWS] = {0.5f};
    static float output[ROWS];
    struct kt_view view;
    struct kt_linear_output to = {.output = output, .output_dtype = KT_DTYPE_F32};
    struct kt_linear_batch batch = KT_LINEAR_BATCH_INIT;
    params.rows = ROWS;
    params.cols = COLS;
    params.max_tokens = 1;
    params.backend = "reference";
    batch.outputs = &to;
    batch.n_outputs = batch.n_tokens = 1;
    batch.input = input;
    batch.input_dtype = KT_DTYPE_F32;
    enum kt_status status = kt_config_create(&config_params, &config, error);
    if (status == KT_OK)
        status = kt_context_create(config, &context, error);
    if (status == KT_OK)
        status = kt_linear_create(context, &params, &linear, error);
    if (status == KT_OK)
        status = kt_view_dense(&view, KT_DTYPE_F32, weights, sizeof weights, ROWS, COLS, error);
    if (status == KT_OK)
        status = check_load(linear, kt_linear_load(linear, &view, bias, error));
    to.linear = linear;
    if (status == KT_OK)
        status = kt_linear_forward(&batch, error);
    if (status == KT_OK && output[0] != 0.5f + 3 - 2 * 4)
        status = KT_E_BACKEND;
    if (status == KT_OK)
        status = kt_checkpoint_open(life->model, NULL, &checkpoint, error);
    if (status == KT_OK)
        status = check_load(linear, kt_linear_load_checkpoint(linear, checkpoint, "blk.0.attn_k", error));
    kt_checkpoint_close(checkpoint);
    if (status == KT_OK)
        status = kt_linear_forward(&batch, error);
    kt_linear_destroy(linear);
    kt_context_destroy(context);
    kt_config_destroy(config);
    return status;
}

/* A linear that is stored, read and verified. What it takes to load a backend is not to fail: it would be
 * left out. */
static enum kt_status store_life(const struct life *life, struct kt_error *error)
{
    enum { ROWS = 40, COLS = 48 };
    const char *const settings[] = {life->module, "plugin.fake.stored=yes", "core.threads=2",
                                    "core.spin_us=0"};
    static const float weights[ROWS * COLS] = {3, 1, 0, 4}, bias[ROWS] = {0.5f};
    struct kt_linear_params params = KT_LINEAR_PARAMS_INIT;
    struct kt_store_params store_params = KT_STORE_PARAMS_INIT;
    struct kt_checkpoint_params read = KT_CHECKPOINT_PARAMS_INIT;
    struct kt_checkpoint *checkpoint = NULL;
    struct kt_linear *linear = NULL;
    struct kt_view view;
    long armed = atomic_exchange(&countdown, -1);
    struct kt_context *context = fixture_context_with(settings, 4);
    atomic_store(&countdown, armed);
    params.rows = ROWS;
    params.cols = COLS;
    params.max_tokens = 1;
    params.backend = "fake";
    store_params.folder = life->store;
    read.io = KT_IO_READ;
    enum kt_status status = kt_linear_create(context, &params, &linear, error);
    if (status == KT_OK)
        status = kt_view_dense(&view, KT_DTYPE_F32, weights, sizeof weights, ROWS, COLS, error);
    if (status == KT_OK)
        status = kt_linear_store_view(linear, &view, bias, "a.linear", &store_params, error);
    if (status == KT_OK)
        status = kt_checkpoint_open(life->store, &read, &checkpoint, error);
    if (status == KT_OK)
        status = check_load(linear, kt_linear_load_checkpoint(linear, checkpoint, "a.linear", error));
    if (status == KT_OK)
        status = kt_checkpoint_verify_linear(checkpoint, "a.linear", error);
    kt_checkpoint_close(checkpoint);
    kt_linear_destroy(linear);
    kt_context_destroy(context);
    return status;
}

static enum kt_status (*const lives[])(const struct life *, struct kt_error *) = {whole_life, linear_life,
                                                                                  store_life};

START_TEST(test_every_allocation)
{
    const int64_t map[5] = {4, 3, 2, 1, 0};
    struct fixture fixture = {.bias = 1, .map = map};
    fixture_fill(&fixture, 1);
    fixture_model(&fixture);
    bool has_output = lives[_i] == whole_life;
    char *model = data_path("tiny-moe/tiny-moe-q4_k_m.gguf"), module[512];
    sandbox_folder("store");
    (void)snprintf(module, sizeof module, "plugin.fake.module=%s", sandbox_plugin("fake", "lib/kt_fake.so"));
    const struct life life = {&fixture, model, module, sandbox_path("store")};
    const char *part = sandbox_path("store/.linear-a.linear.part");
    long n = 1;
    enum kt_status status;
    do {
        struct kt_error error = {KT_OK, ""};
        atomic_store(&countdown, n++);
        status = lives[_i](&life, &error);
        int reached = atomic_load(&countdown) <= 0;
        atomic_store(&countdown, -1);
        ck_assert_int_ne(access(part, F_OK), 0);
        if (status != KT_OK) {
            bool unmapped = status == KT_E_IO && strstr(error.message, "Cannot allocate memory");
            ck_assert_msg(status == KT_E_NOMEM || status == KT_E_SYSTEM || unmapped, "call %ld: %s: %s",
                          n - 1, kt_status_name(status), error.message);
            ck_assert_msg(error.message[0] && error.status == status, "call %ld", n - 1);
        } else if (reached) { /* a failure that costs nothing, such as one in a diagnosis */
            ck_assert(!has_output || fixture_error(&fixture) <= 2e-6);
            status = KT_E_NOMEM;
        }
    } while (status != KT_OK);
    ck_assert_int_gt(n, 20);
    ck_assert(!has_output || fixture_error(&fixture) <= 2e-6);
    free(model);
    fixture_free(&fixture);
}
END_TEST

START_TEST(test_forward_allocates_nothing)
{
    struct fixture fixture = {.n_tokens = 50, .max_tokens = 20};
    fixture_fill(&fixture, 1);
    fixture_load(&fixture, 3);
    struct kt_forward forward = fixture_forward(&fixture);
    struct kt_recorder_params params = KT_RECORDER_PARAMS_INIT;
    struct kt_recorder *recorder;
    params.size = 40000; /* not all of them fit */
    params.hidden_states = 1;
    ck_ok(kt_recorder_create(fixture.context, &params, &recorder, &ck_error));
    ck_ok(kt_layer_record(fixture.layer, recorder, 0, &ck_error));
    long before = atomic_load(&calls);
    int failures = 0; /* libcheck's assertions allocate: none in the loop */
    for (uint32_t n = 1; n <= fixture.n_tokens; n++) {
        uint64_t ticket = 0;
        forward.n_tokens = n;
        failures += kt_layer_forward(fixture.layer, &forward, NULL) != KT_OK;
        failures += kt_layer_submit(fixture.layer, &forward, &ticket, NULL) != KT_OK;
        failures += kt_wait(fixture.context, ticket, NULL) != KT_OK;
    }
    long made = atomic_load(&calls) - before;
    ck_assert_int_eq(failures, 0);
    ck_assert_int_eq(made, 0);
    struct kt_recorder_info info;
    kt_recorder_info(recorder, &info);
    ck_assert(info.n_batches > 0 && info.n_dropped_batches > 0);
    kt_recorder_destroy(recorder);
    fixture_free(&fixture);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 120);
    tcase_add_checked_fixture(all, sandbox_open, sandbox_close);
    tcase_add_loop_test(all, test_every_allocation, 0, 3);
    tcase_add_test(all, test_forward_allocates_nothing);
    return run_tests("faults", all);
}

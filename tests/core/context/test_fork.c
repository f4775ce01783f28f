/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fork.c - a child that is forked while other threads of its parent are within the library: it is told
 * that it cannot continue with what they worked on, frees what it has, and waits for nothing.
 */
#include "core/async/host_call.h"
#include "core/base/lock.h"
#include "core/context/context.h"
#include "core/kv/cache.h"
#include "core/layer/recorder.h"
#include "core/weights/table/checkpoint.h"
#include "tests/support/gguf_build.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a thread that is within the library ---- */

static sem_t inside, leave;
static struct kt_lock *held[3];
static struct kt_recorder *emptied; /* NULL: none */

static void *hold(void *argument)
{
    struct kt_held_records records;
    struct kt_error error;
    for (int i = 0; i < 3 && held[i]; i++)
        ck_assert(kt_lock_take(held[i]));
    if (emptied)
        ck_assert_int_eq(kt_recorder_hold(emptied, &records, &error), KT_OK);
    (void)sem_post(&inside);
    (void)sem_wait(&leave);
    for (int i = 0; i < 3 && held[i]; i++)
        kt_lock_give(held[i]);
    if (emptied)
        kt_recorder_release(emptied, &records, false);
    return argument;
}

static pthread_t start_holding(void)
{
    pthread_t thread;
    ck_assert_int_eq(sem_init(&inside, 0, 0) | sem_init(&leave, 0, 0), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, hold, NULL), 0);
    (void)sem_wait(&inside);
    return thread;
}

static void stop_holding(pthread_t thread)
{
    (void)sem_post(&leave);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* Runs in a child, which a signal ends if it hangs; its result must be 0. */
static void expect_child(int (*function)(void))
{
    int state = 0;
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(20);
        _exit(function());
    }
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    ck_assert_msg(state == 0, "the child ended with %x", (unsigned)state);
}

/* ---- the lock ---- */

static struct kt_lock lock;

static int cannot_take(void)
{
    return kt_lock_take(&lock) || kt_lock_take(&lock);
}

static int child_cannot_take(void)
{
    expect_child(cannot_take);
    return cannot_take();
}

static int takes(void)
{
    for (int i = 0; i < 3; i++) {
        if (!kt_lock_take(&lock))
            return 1;
        kt_lock_give(&lock);
    }
    kt_lock_destroy(&lock);
    return 0;
}

static void *take_often(void *argument)
{
    int *sum = argument;
    for (int i = 0; i < 1000; i++) {
        if (!kt_lock_take(&lock))
            return argument;
        ++*sum;
        kt_lock_give(&lock);
    }
    return NULL;
}

/* The first ones to come make the lock again. */
static int threads_take(void)
{
    pthread_t thread[4];
    void *failed[4];
    int sum = 0;
    for (int i = 0; i < 4; i++)
        if (pthread_create(&thread[i], NULL, take_often, &sum) != 0)
            return 1;
    for (int i = 0; i < 4; i++)
        if (pthread_join(thread[i], &failed[i]) != 0 || failed[i])
            return 2;
    return sum == 4000 ? 0 : 3;
}

static int gives(void)
{
    kt_lock_give(&lock);
    return takes();
}

START_TEST(locks)
{
    kt_lock_init(&lock);
    expect_child(takes);
    expect_child(threads_take);
    ck_assert(kt_lock_take(&lock)); /* by the thread that forks: its child goes on where it is */
    expect_child(gives);
    kt_lock_give(&lock);
    held[0] = &lock;
    pthread_t thread = start_holding();
    expect_child(cannot_take);
    expect_child(child_cannot_take);
    stop_holding(thread);
    expect_child(takes);
    kt_lock_destroy(&lock);
}
END_TEST

/* ---- objects ---- */

static struct objects {
    struct kt_context *context;
    struct kt_checkpoint *checkpoint;
    struct kt_layer *layer;
    struct kt_linear *linear;
    struct kt_kv *kv;
    struct kt_kv_sequence *sequence;
    struct kt_recorder *recorder;
    struct kt_deferral *deferral;
    struct kt_staging_params staging;
} o;

static void make_objects(void)
{
    struct kt_layer_params layer = KT_LAYER_PARAMS_INIT;
    struct kt_recorder_params recorder = KT_RECORDER_PARAMS_INIT;
    struct kt_deferral_params deferral = KT_DEFERRAL_PARAMS_INIT;
    struct kt_kv_params kv = KT_KV_PARAMS_INIT;
    const struct kt_kv_field field = {.heads = 1, .width = 32, .stride = 1, .dtype = KT_DTYPE_F32};
    const struct kt_kv_layer declared = {.fields = &field, .n_fields = 1};
    struct kt_staging staging;
    char *model = data_path("tiny-moe/tiny-moe-bf16-l0-l3.gguf");
    o.context = fixture_context(2);
    ck_ok(kt_checkpoint_open(model, NULL, &o.checkpoint, &ck_error));
    free(model);
    ck_ok(kt_checkpoint_layer_params(o.checkpoint, 0, &layer, &ck_error));
    layer.max_tokens = 4;
    ck_ok(kt_layer_create(o.context, &layer, &o.layer, &ck_error));
    ck_ok(kt_layer_load_checkpoint(o.layer, o.checkpoint, 0, &ck_error));
    recorder.size = 4096;
    ck_ok(kt_recorder_create(o.context, &recorder, &o.recorder, &ck_error));
    kv.n_layers = 1;
    kv.layers = &declared;
    kv.max_sequences = 2;
    kv.max_tokens = 256;
    kv.tokens = 256;
    ck_ok(kt_kv_create(o.context, &kv, &o.kv, &ck_error));
    ck_ok(kt_kv_sequence_open(o.kv, &o.sequence, &ck_error));
    ck_ok(kt_kv_sequence_reserve(o.sequence, 0, 10, &ck_error));
    deferral.n_layers = deferral.top_k = deferral.max_tokens = 1;
    deferral.n_experts = layer.n_experts;
    deferral.hidden_size = layer.hidden_size;
    ck_ok(kt_deferral_create(o.context, &deferral, &o.deferral, &ck_error));
    o.staging = (struct kt_staging_params)KT_STAGING_PARAMS_INIT;
    o.staging.hidden_size = 64;
    o.staging.top_k = 1;
    o.staging.input_dtype = o.staging.output_dtype = KT_DTYPE_F32;
    ck_ok(kt_staging_get(o.context, &o.staging, 1, 0, &staging, &ck_error));
}

static int free_objects(void)
{
    kt_deferral_destroy(o.deferral);
    kt_recorder_destroy(o.recorder);
    kt_kv_sequence_close(o.sequence);
    kt_kv_destroy(o.kv);
    kt_layer_destroy(o.layer);
    kt_checkpoint_close(o.checkpoint);
    kt_context_destroy(o.context);
    return 0;
}

static int take_batch(void *data, const struct kt_recorded *batch)
{
    (void)data;
    (void)batch;
    return 0;
}

/* Is it refused, in words? */
static bool refused(enum kt_status status, const struct kt_error *error)
{
    return status == KT_E_STATE && strstr(error->message, "fork") != NULL;
}

static int is_refused(void)
{
    struct kt_error error;
    struct kt_expert experts[1];
    struct kt_kv_sequence *sequence;
    struct kt_kv_info kv;
    struct kt_kv_sequence_info info;
    struct kt_staging staging;
    if (!refused(kt_checkpoint_experts(o.checkpoint, 0, experts, 1, &error), &error) ||
        !refused(kt_checkpoint_release_layer(o.checkpoint, 0, &error), &error) ||
        !refused(kt_layer_load_checkpoint(o.layer, o.checkpoint, 0, &error), &error))
        return 1;
    if (!refused(kt_kv_sequence_open(o.kv, &sequence, &error), &error) ||
        !refused(kt_kv_sequence_reserve(o.sequence, 0, 20, &error), &error) ||
        !refused(kt_kv_sequence_truncate(o.sequence, 0, &error), &error) ||
        !refused(kt_kv_sequence_fork(o.sequence, 0, &sequence, &error), &error))
        return 2;
    kt_kv_info(o.kv, &kv);
    kt_kv_sequence_info(o.sequence, &info);
    if (!refused(kt_staging_get(o.context, &o.staging, 1, 0, &staging, &error), &error) ||
        !refused(kt_clear_buffers(o.context, NULL, &error), &error))
        return 3;
    if (!refused(kt_recorder_drain(o.recorder, take_batch, NULL, &error), &error))
        return 4;
    return free_objects();
}

/* Nobody was within the library: only threads are missing. */
static int is_whole(void)
{
    struct kt_error error;
    struct kt_expert experts[1];
    struct kt_context *context;
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_layer *layer;
    if (kt_checkpoint_experts(o.checkpoint, 0, experts, 1, &error) != KT_OK ||
        kt_checkpoint_release_layer(o.checkpoint, 0, &error) != KT_OK ||
        kt_kv_sequence_truncate(o.sequence, 0, &error) != KT_OK ||
        kt_clear_buffers(o.context, NULL, &error) != KT_OK ||
        kt_recorder_drain(o.recorder, take_batch, NULL, &error) != KT_OK)
        return 1;
    context = fixture_context(2);
    if (kt_checkpoint_layer_params(o.checkpoint, 0, &params, &error) != KT_OK)
        return 2;
    params.max_tokens = 1;
    if (kt_layer_create(context, &params, &layer, &error) != KT_OK ||
        kt_layer_load_checkpoint(layer, o.checkpoint, 0, &error) != KT_OK)
        return 3;
    kt_layer_destroy(layer);
    kt_context_destroy(context);
    return free_objects();
}

START_TEST(objects)
{
    make_objects();
    expect_child(is_whole);
    expect_child(free_objects);
    held[0] = &o.checkpoint->lock;
    held[1] = &o.kv->lock;
    held[2] = &o.context->stagings.lock;
    emptied = o.recorder;
    pthread_t thread = start_holding();
    expect_child(is_refused);
    expect_child(free_objects);
    stop_holding(thread);
    expect_child(is_whole);
    (void)free_objects();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("fork");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, locks);
    tcase_add_test(tests, objects);
    return run_tests("fork", tests);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forks.c - a program forks again and again while its threads load layers of a checkpoint, compute, manage
 * sequences of a cache and empty a recorder; each child frees what it has, in any order.
 *
 *     forks SECONDS SEED MODEL
 *
 * Prints what attack.c prints. A child that ends by a signal is a crash, one that does not end in time a
 * hang; wrong is a call that computes in a child instead of saying that it is one.
 */
#define _GNU_SOURCE
#include "tests/campaign/change.h"
#include "tests/campaign/user.h"

#include <kt/kt.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HANG_SECONDS = 30, WORKERS = 4, MOST_HIDDEN = 4096 };

static struct kt_context *context;
static struct kt_checkpoint *checkpoint;
static struct kt_layer *layer, *other; /* a thread loads `other` */
static struct kt_recorder *recorder;
static struct kt_kv *kv;
static struct kt_kv_sequence *sequence;
static atomic_bool stop;

/* ---- what threads do ---- */

static enum kt_status compute(struct kt_error *error)
{
    static __thread float input[MOST_HIDDEN], output[MOST_HIDDEN];
    struct kt_forward forward = KT_FORWARD_INIT;
    int64_t id = 0;
    float weight = 1;
    forward.n_tokens = forward.top_k = 1;
    forward.expert_ids = &id;
    forward.router_weights = &weight;
    forward.input = input;
    forward.output = output;
    forward.input_dtype = forward.output_dtype = KT_DTYPE_F32;
    return kt_layer_forward(layer, &forward, error);
}

static void load(struct kt_error *error)
{
    need(kt_layer_load_checkpoint(other, checkpoint, 0, error), "kt_layer_load_checkpoint", error);
}

static void manage(struct kt_error *error)
{
    struct kt_kv_sequence *made;
    struct kt_expert expert;
    need(kt_kv_sequence_open(kv, &made, error), "kt_kv_sequence_open", error);
    need(kt_kv_sequence_reserve(made, 0, 40, error), "kt_kv_sequence_reserve", error);
    kt_kv_sequence_close(made);
    need(kt_checkpoint_experts(checkpoint, 0, &expert, 1, error), "kt_checkpoint_experts", error);
    need(kt_checkpoint_release_layer(checkpoint, 0, error), "kt_checkpoint_release_layer", error);
}

static int take(void *data, const struct kt_recorded *batch)
{
    *(uint64_t *)data += batch->n_tokens;
    return 0;
}

static void *work(void *argument)
{
    const int number = *(const int *)argument;
    struct kt_error error;
    uint64_t taken = 0;
    while (!atomic_load(&stop))
        switch (number) {
        case 0:
            need(compute(&error), "kt_layer_forward", &error);
            break;
        case 1:
            load(&error);
            break;
        case 2:
            manage(&error);
            break;
        default:
            need(kt_recorder_drain(recorder, take, &taken, &error), "kt_recorder_drain", &error);
            break;
        }
    return NULL;
}

/* ---- what a child does ---- */

static void free_one(uint32_t i)
{
    switch (i) {
    case 0:
        kt_layer_destroy(layer);
        break;
    case 1:
        kt_recorder_destroy(recorder);
        break;
    case 2:
        kt_checkpoint_close(checkpoint);
        break;
    case 3:
        kt_kv_sequence_close(sequence);
        break;
    default:
        kt_context_destroy(context);
        break;
    }
}

/* Not `other`, which a thread may be loading. */
static int be_child(uint64_t seed)
{
    uint32_t order[] = {0, 1, 2, 3, 4};
    struct kt_expert expert;
    struct kt_error error = {KT_OK, ""};
    (void)alarm(HANG_SECONDS);
    if (compute(&error) != KT_E_STATE || !error.message[0])
        return 1;
    for (uint32_t n = 5; n > 1; n--) {
        uint32_t i = (uint32_t)kt_below(&seed, n), swapped = order[i];
        order[i] = order[n - 1];
        order[n - 1] = swapped;
    }
    if (kt_below(&seed, 2))
        (void)kt_checkpoint_experts(checkpoint, 0, &expert, 1, &error);
    for (int i = 0; i < 5; i++)
        free_one(order[i]);
    kt_kv_destroy(kv);
    return 0;
}

/* ---- the parent ---- */

static void make_layers(struct kt_error *error)
{
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    need(kt_checkpoint_layer_params(checkpoint, 0, &params, error), "kt_checkpoint_layer_params", error);
    params.max_tokens = 1;
    if (params.hidden_size > MOST_HIDDEN)
        exit(2);
    need(kt_layer_create(context, &params, &layer, error), "kt_layer_create", error);
    need(kt_layer_create(context, &params, &other, error), "kt_layer_create", error);
    need(kt_layer_load_checkpoint(layer, checkpoint, 0, error), "kt_layer_load_checkpoint", error);
}

static void make_cache(struct kt_error *error)
{
    struct kt_kv_params params = KT_KV_PARAMS_INIT;
    const struct kt_kv_field field = {.heads = 2, .width = 64, .stride = 1, .dtype = KT_DTYPE_BF16};
    const struct kt_kv_layer declared = {.fields = &field, .n_fields = 1};
    params.n_layers = 1;
    params.layers = &declared;
    params.tokens = 512;
    need(kt_kv_create(context, &params, &kv, error), "kt_kv_create", error);
    need(kt_kv_sequence_open(kv, &sequence, error), "kt_kv_sequence_open", error);
}

static void make_all(const char *model)
{
    struct kt_recorder_params recording = KT_RECORDER_PARAMS_INIT;
    struct kt_error error;
    context = make_context("core.threads=2");
    need(kt_checkpoint_open(model, NULL, &checkpoint, &error), model, &error);
    make_layers(&error);
    make_cache(&error);
    recording.size = 1 << 16;
    need(kt_recorder_create(context, &recording, &recorder, &error), "kt_recorder_create", &error);
    need(kt_layer_record(layer, recorder, 0, &error), "kt_layer_record", &error);
}

int main(int argc, char **argv)
{
    static int numbers[WORKERS] = {0, 1, 2, 3};
    double end = now() + (argc > 1 ? atof(argv[1]) : 1);
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    long tried = 0, crashes = 0, hangs = 0, wrong = 0;
    pthread_t thread[WORKERS];
    if (argc < 4)
        return 2;
    make_all(argv[3]);
    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&thread[i], NULL, work, &numbers[i]) != 0)
            return 2;
    for (; now() < end; seed++, tried++) {
        int status = 0;
        pid_t pid = fork();
        if (pid == 0)
            _exit(be_child(seed));
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
            return 2;
        bool hang = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
        if (status != 0)
            printf("%s: fork %llu, status %x\n",
                   hang                  ? "hang"
                   : WIFSIGNALED(status) ? "crash"
                                         : "wrong",
                   (unsigned long long)seed, (unsigned)status);
        hangs += hang;
        crashes += WIFSIGNALED(status) && !hang;
        wrong += WIFEXITED(status) && status != 0;
    }
    atomic_store(&stop, true);
    for (int i = 0; i < WORKERS; i++)
        (void)pthread_join(thread[i], NULL);
    printf("%ld %ld %ld %ld 0 %llu\n", tried, crashes, hangs, wrong, (unsigned long long)seed);
    return crashes + hangs + wrong > 0;
}

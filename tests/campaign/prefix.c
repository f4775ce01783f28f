/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefix.c - restores sessions from files that are changed at random; half of them get right checksums again,
 * as whoever means harm would see to.
 *
 *     prefix SECONDS SEED MODEL FILE
 *
 * A session that is restored continues with a token. Prints what attack.c prints; a crash is one of this
 * program, in whose message is the seed.
 */
#define _GNU_SOURCE
#include "tests/campaign/change.h"
#include "tests/support/session_seal.h"

#include <kt/engine.h>
#include <kt/kt.h>
#include <kt/text.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { TOKENS = 40, ROOM = 64 << 20, MEMORY_KB = 64 << 10 };

static struct kt_model *model;
static float *logits;
static unsigned long tried, wrong;
static volatile unsigned long long seed; /* for the handler */

static double clock_of(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void say_crash(int number)
{
    char text[80];
    int length = snprintf(text, sizeof text, "crash: signal %d, seed %llu\n", number, seed);
    (void)!write(STDOUT_FILENO, text, (size_t)length);
    _exit(2);
}

static void need(enum kt_status status, const struct kt_error *error)
{
    if (status == KT_OK)
        return;
    printf("%s\n", error->message);
    exit(2);
}

static void complain(const char *what, const char *message)
{
    printf("wrong: seed %llu: %s: %s\n", seed, what, message);
    wrong++;
}

static int is_text(const char *words)
{
    for (const unsigned char *c = (const unsigned char *)words; *c; c++)
        if (*c < 0x20 || *c == 0x7f)
            return 0;
    return *words != '\0';
}

static void restore(const char *path)
{
    struct kt_session *session = NULL;
    struct kt_error error = {.status = KT_OK};
    int32_t *ids = NULL, token = 1;
    uint64_t n = 0;
    if (kt_session_restore(model, path, &session, &ids, &n, &error) != KT_OK) {
        if (!is_text(error.message))
            complain("the message is not text", error.message);
        return;
    }
    struct kt_step step = {session, n > 0 ? ids : &token, 1, 1, logits};
    if (n > TOKENS)
        complain("more tokens than were saved", path);
    if (kt_model_step(model, &step, 1, &error) != KT_OK)
        complain("the session cannot go on", error.message);
    kt_session_close(session);
    kt_ids_free(ids);
}

static void attack(const char *path, const uint8_t *good, size_t size, double end)
{
    uint8_t *data = malloc(size);
    struct rusage before, after;
    if (!data)
        exit(2);
    (void)getrusage(RUSAGE_SELF, &before);
    for (; clock_of(CLOCK_MONOTONIC) < end; seed++) {
        uint64_t state = seed;
        memcpy(data, good, size);
        size_t left = kt_change(data, size, &state);
        if (kt_below(&state, 2))
            session_seal(data, left);
        FILE *file = fopen(path, "wb");
        if (!file || fwrite(data, 1, left, file) != left || fclose(file) != 0)
            exit(2);
        double start = clock_of(CLOCK_PROCESS_CPUTIME_ID);
        restore(path);
        tried++;
        if (clock_of(CLOCK_PROCESS_CPUTIME_ID) - start > 1)
            complain("takes longer than a second", path);
    }
    (void)getrusage(RUSAGE_SELF, &after);
    if (after.ru_maxrss > before.ru_maxrss + MEMORY_KB)
        complain("takes more than 64 MB", path);
    free(data);
}

int main(int argc, char **argv)
{
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    struct kt_model_info info;
    struct kt_config *config;
    struct kt_context *context;
    struct kt_checkpoint *checkpoint;
    struct kt_session *session;
    struct kt_error error;
    int32_t ids[TOKENS];
    static uint8_t good[ROOM];
    if (argc != 5)
        return 2;
    double end = clock_of(CLOCK_MONOTONIC) + atof(argv[1]);
    seed = strtoull(argv[2], NULL, 10);
    need(kt_config_create(NULL, &config, &error), &error);
    need(kt_context_create(config, &context, &error), &error);
    need(kt_checkpoint_open(argv[3], NULL, &checkpoint, &error), &error);
    params.max_sessions = 2;
    params.max_tokens = 256;
    need(kt_model_open(context, checkpoint, &params, &model, &error), &error);
    kt_model_info(model, &info);
    logits = malloc(info.vocabulary * sizeof *logits);
    need(kt_session_open(model, &session, &error), &error);
    for (int i = 0; i < TOKENS; i++)
        ids[i] = i * 3;
    struct kt_step step = {session, ids, TOKENS, 1, logits};
    need(kt_model_step(model, &step, 1, &error), &error);
    need(kt_session_save(session, argv[4], ids, &error), &error);
    kt_session_close(session);
    FILE *file = fopen(argv[4], "rb");
    size_t size = file ? fread(good, 1, sizeof good, file) : 0;
    if (!logits || size == 0 || size == sizeof good)
        return 2;
    (void)fclose(file);
    signal(SIGSEGV, say_crash);
    signal(SIGBUS, say_crash);
    signal(SIGFPE, say_crash);
    signal(SIGABRT, say_crash);
    attack(argv[4], good, size, end);
    free(logits);
    kt_model_close(model);
    kt_checkpoint_close(checkpoint);
    kt_context_destroy(context);
    kt_config_destroy(config);
    printf("%lu 0 0 %lu 0 %llu\n", tried, wrong, seed);
    return wrong > 0;
}

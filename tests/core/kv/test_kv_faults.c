/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_kv_faults.c - every allocation, mapping and write of a cache's life fails once: the call says so,
 * nothing leaks, no half file stays, and a sequence that exists is as it was. Also: sequences allocate
 * nothing.
 */
#include "tests/core/kv/kv_model.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_long countdown = -1; /* the call that brings it to 0 fails; negative: none does */
static atomic_long calls;

static bool fails(int why)
{
    atomic_fetch_add(&calls, 1);
    if (atomic_load(&countdown) <= 0 || atomic_fetch_sub(&countdown, 1) != 1)
        return false;
    errno = why;
    return true;
}

#define WRAP(type, name, parameters, arguments, why, result)    \
    type __real_##name parameters;                              \
    type __wrap_##name parameters;                              \
    type __wrap_##name parameters                               \
    {                                                           \
        return fails(why) ? (result) : __real_##name arguments; \
    }
WRAP(void *, malloc, (size_t size), (size), ENOMEM, NULL)
WRAP(void *, calloc, (size_t n, size_t size), (n, size), ENOMEM, NULL)
WRAP(char *, strdup, (const char *text), (text), ENOMEM, NULL)
WRAP(void *, mmap, (void *address, size_t size, int protection, int flags, int file, off_t offset),
     (address, size, protection, flags, file, offset), ENOMEM, MAP_FAILED)
WRAP(size_t, fwrite, (const void *from, size_t size, size_t n, FILE *file), (from, size, n, file), ENOSPC, 0)
WRAP(int, fsync, (int fd), (fd), EIO, -1)
WRAP(int, rename, (const char *from, const char *to), (from, to), EACCES, -1)

static struct kt_context *context;
static struct kt_kv_params params;
static uint64_t tags[100];
static char path[256];

/* Everything between creating a cache and reading a sequence from a file; stops at the first error. */
static enum kt_status whole_life(struct kt_error *error)
{
    struct kt_kv *kv = NULL;
    struct kt_kv_sequence *sequence = NULL, *fork = NULL, *copy = NULL;
    enum kt_status status = kt_kv_create(context, &params, &kv, error);
    if (status == KT_OK)
        status = kt_kv_sequence_open(kv, &sequence, error);
    if (status == KT_OK)
        status = kt_kv_sequence_reserve(sequence, 0, 100, error);
    if (status == KT_OK)
        status = kv_write(sequence, &params, 0, 0, 0, 100, tags, error);
    if (status == KT_OK)
        status = kt_kv_sequence_commit(sequence, 100, error);
    if (status == KT_OK)
        status = kt_kv_sequence_fork(sequence, 100, &fork, error);
    if (status == KT_OK)
        status = kt_kv_sequence_export(sequence, path, tags, sizeof tags, error);
    if (status == KT_OK)
        status = kt_kv_import(kv, path, NULL, NULL, &copy, error);
    long left = atomic_exchange(&countdown, -1);
    struct kt_kv_sequence_info info;
    if (sequence) { /* what happened to files did not touch it */
        kt_kv_sequence_info(sequence, &info);
        ck_assert(info.tokens == 0 || info.tokens == 100);
    }
    atomic_store(&countdown, left);
    kt_kv_sequence_close(copy);
    kt_kv_sequence_close(fork);
    kt_kv_sequence_close(sequence);
    kt_kv_destroy(kv);
    return status;
}

START_TEST(every_call)
{
    static const char *const settings[] = {"core.threads=2", "core.spin_us=0"};
    char command[300], found[64] = "";
    context = fixture_context_with(settings, 2);
    params = kv_mixed(false);
    params.tokens = 300;
    (void)snprintf(path, sizeof path, "%s", sandbox_path("sequence"));
    (void)snprintf(command, sizeof command, "ls %s* 2>/dev/null | wc -l", path);
    for (uint64_t i = 0; i < 100; i++)
        tags[i] = i + 1;
    enum kt_status status;
    long n = 1, reached;
    do {
        struct kt_error error = {KT_OK, ""};
        (void)unlink(path);
        atomic_store(&countdown, n++);
        status = whole_life(&error);
        reached = atomic_exchange(&countdown, -1) <= 0;
        if (status != KT_OK)
            ck_assert_msg((status == KT_E_NOMEM || status == KT_E_IO) && error.message[0] &&
                              error.status == status,
                          "call %ld: %s: %s", n - 1, kt_status_name(status), error.message);
        /* The complete file, or none, and no temporary one. */
        FILE *pipe = popen(command, "r");
        ck_assert_ptr_nonnull(pipe);
        ck_assert_ptr_nonnull(fgets(found, sizeof found, pipe));
        (void)pclose(pipe);
        ck_assert_msg(atoi(found) <= 1 && (access(path, F_OK) == 0) == atoi(found), "call %ld: %s", n - 1,
                      found);
    } while (status != KT_OK || reached);
    ck_assert_int_gt(n, 20);
    kt_context_destroy(context);
}
END_TEST

START_TEST(sequences_allocate_nothing)
{
    struct kt_kv *kv = NULL;
    context = kv_context(0);
    params = kv_mixed(true);
    params.tokens = 300;
    ck_ok(kt_kv_create(context, &params, &kv, &ck_error));
    int failures = 0; /* libcheck's assertions allocate: none in the loop */
    long before = atomic_load(&calls);
    for (int life = 0; life < 3; life++) {
        struct kt_kv_sequence *sequence = NULL, *fork = NULL;
        failures += kt_kv_sequence_open(kv, &sequence, NULL) != KT_OK;
        failures += kt_kv_sequence_reserve(sequence, 0, 100, NULL) != KT_OK;
        failures += kv_write(sequence, &params, 0, 0, 0, 100, tags, NULL) != KT_OK;
        failures += kt_kv_sequence_commit(sequence, 100, NULL) != KT_OK;
        failures += kt_kv_sequence_fork(sequence, 100, &fork, NULL) != KT_OK;
        failures += kt_kv_sequence_reserve(fork, 100, 100, NULL) != KT_OK;
        failures += kt_kv_sequence_truncate(fork, 0, NULL) != KT_OK;
        kt_kv_sequence_close(fork);
        kt_kv_sequence_close(sequence);
    }
    long made = atomic_load(&calls) - before;
    ck_assert_int_eq(failures, 0);
    ck_assert_int_eq(made, 0);
    kt_kv_destroy(kv);
    kt_context_destroy(context);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("faults");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_test(tests, every_call);
    tcase_add_test(tests, sequences_allocate_nothing);
    return run_tests("kv faults", tests);
}

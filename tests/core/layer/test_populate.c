/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that are used where they lie are brought into memory, and compared with their checksums. */
#include "tests/core/layer/stored_layer.h"
#include "tests/support/mapped.h"
#include "tests/support/suite.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct kt_checkpoint *checkpoint;
static struct kt_layer *layer;

static void load(const char *path, const char *backend)
{
    checkpoint = store_open(path, KT_IO_MMAP);
    layer = store_make_layer(store_context, NULL, backend);
    ck_ok(kt_layer_load_checkpoint(layer, checkpoint, 3, &ck_error));
}

static void setup(void)
{
    store_setup();
    store_layer();
}

static void teardown(void)
{
    kt_layer_destroy(layer);
    kt_checkpoint_close(checkpoint);
    layer = NULL;
    checkpoint = NULL;
    store_teardown();
}

/* Changes a byte of the first expert without another inode: what is mapped changes, too. */
static void damage(void)
{
    const uint8_t wrong = 0x5a;
    uint8_t right;
    int fd = open(sandbox_path("store/layer-00003.safetensors"), O_RDWR);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pread(fd, &right, 1, 4096 + 100), 1);
    right ^= wrong;
    ck_assert_int_eq(pwrite(fd, &right, 1, 4096 + 100), 1);
    ck_assert_int_eq(close(fd), 0);
}

/* Of a store, and of a checkpoint that a backend reads in place. */
START_TEST(all_pages_are_there)
{
    const char *path = _i ? store_source : sandbox_path("store/layer-00003.safetensors");
    struct kt_layer_info info;
    uint64_t done, total;
    load(_i ? store_source : sandbox_path("store"), _i ? "reference" : "fake");
    mapped_forget(path);
    ck_assert(!mapped_is_known() || mapped_bytes(path) == 0);
    ck_ok(kt_layer_populate(layer, &ck_error));
    kt_layer_info(layer, &info);
    uint64_t size = _i ? info.nominal_size * 2 : info.packed_size;
    ck_assert_uint_gt(size, 4096);
    if (mapped_is_known())
        ck_assert_msg(mapped_bytes(path) >= size, "%llu bytes are mapped in, the weights have %llu",
                      (unsigned long long)mapped_bytes(path), (unsigned long long)size);
    kt_layer_load_progress(layer, &done, &total);
    ck_assert(done == total && total == info.packed_size);
}
END_TEST

START_TEST(damage_is_found)
{
    struct kt_error error = {KT_OK, ""};
    float row[32];
    damage();
    load(sandbox_path("store"), "fake");
    for (int again = 0; again < 2; again++) {
        ck_assert_int_eq(kt_layer_populate(layer, &error), KT_E_FORMAT);
        ck_assert_msg(strstr(error.message, "layer-00003.safetensors"), "%s", error.message);
    }
    ck_ok(kt_layer_weights(layer, 1, KT_UP, 0, 1, row, &ck_error));
    ck_assert_int_eq(kt_layer_weights(layer, 0, KT_UP, 0, 1, row, &error), KT_E_FORMAT);
    damage(); /* back */
    ck_ok(kt_layer_populate(layer, &ck_error));
}
END_TEST

/* A forward would find this, were it to compare again. */
START_TEST(what_was_compared_is_not_compared_again)
{
    float output[TOKENS * 32];
    load(sandbox_path("store"), "fake");
    ck_ok(kt_layer_populate(layer, &ck_error));
    damage();
    ck_ok(store_forward(layer, output, &ck_error));
    ck_ok(kt_layer_populate(layer, &ck_error));
}
END_TEST

static atomic_bool go_on;

static void *stop(void *argument)
{
    (void)argument;
    while (atomic_load(&go_on))
        kt_layer_load_stop(layer);
    return NULL;
}

START_TEST(it_is_stopped)
{
    struct kt_error error = {KT_OK, ""};
    enum kt_status status = KT_OK;
    float output[TOKENS * 32], expected[TOKENS * 32];
    uint64_t done, total;
    pthread_t thread;
    load(sandbox_path("store"), "fake");
    atomic_store(&go_on, true);
    ck_assert_int_eq(pthread_create(&thread, NULL, stop, NULL), 0);
    while (status == KT_OK)
        status = kt_layer_populate(layer, &error);
    atomic_store(&go_on, false);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(status, KT_E_STATE);
    ck_assert_str_eq(error.message, "layer 3: loading was stopped");
    kt_layer_load_progress(layer, &done, &total);
    ck_assert(done == total && total > 0);
    ck_ok(store_forward(layer, output, &ck_error)); /* it is as it was */
    store_run(store_context, store_source, KT_IO_MMAP, NULL, expected);
    ck_assert_mem_eq(output, expected, sizeof(output));
}
END_TEST

START_TEST(what_is_packed_has_nothing_to_populate)
{
    float output[TOKENS * 32];
    load(store_source, "fake");
    ck_ok(kt_layer_populate(layer, &ck_error));
    ck_ok(store_forward(layer, output, &ck_error));
}
END_TEST

START_TEST(without_weights_it_is_refused)
{
    struct kt_error error = {KT_OK, ""};
    layer = store_make_layer(store_context, NULL, "fake");
    ck_assert_int_eq(kt_layer_populate(layer, &error), KT_E_STATE);
    ck_assert_str_eq(error.message, "layer 3 has no weights; load it first");
    ck_assert_int_eq(kt_layer_populate(NULL, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_linear_populate(NULL, &error), KT_E_INVALID);
}
END_TEST

/* Where the system can say it; else it is a signal, as it is for each other access. */
START_TEST(a_file_that_became_shorter_is_said)
{
#ifdef MADV_POPULATE_READ
    static _Alignas(65536) char page[65536];
    struct kt_error error = {KT_OK, ""};
    if (!mapped_is_known() || madvise(page, sizeof(page), MADV_POPULATE_READ) != 0)
        return;
    load(sandbox_path("store"), "fake");
    ck_assert_int_eq(truncate(sandbox_path("store/layer-00003.safetensors"), 4096), 0);
    ck_assert_int_eq(kt_layer_populate(layer, &error), KT_E_IO);
    ck_assert_msg(strstr(error.message, "truncated"), "%s", error.message);
#endif
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("populate");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, all_pages_are_there, 0, 2);
    tcase_add_test(tests, damage_is_found);
    tcase_add_test(tests, what_was_compared_is_not_compared_again);
    tcase_add_test(tests, it_is_stopped);
    tcase_add_test(tests, what_is_packed_has_nothing_to_populate);
    tcase_add_test(tests, without_weights_it_is_refused);
    tcase_add_test(tests, a_file_that_became_shorter_is_said);
    return run_tests("populate", tests);
}

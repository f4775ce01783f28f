/* SPDX-License-Identifier: Apache-2.0 */
/* Packed weights in a store: what comes back is what was packed, on any nodes; nothing else is taken. */
#include "tests/core/layer/stored_layer.h"
#include "tests/support/suite.h"
#include "tests/support/write_faults.h"

#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

START_TEST(a_store_gives_the_same_bits_as_its_source)
{
    static const int64_t map[2] = {1, 0};
    float expected[TOKENS * 32], output[TOKENS * 32];
    if (_i)
        store_drop_gate();
    store_layer();
    struct kt_context *two = store_make_context("4", 2);
    for (int i = 0; i < 8; i++) {
        struct kt_context *of = i & 1 ? two : store_context;
        enum kt_io io = i & 2 ? KT_IO_READ : KT_IO_MMAP;
        const int64_t *of_map = i & 4 ? map : NULL;
        store_run(of, store_source, io, of_map, expected);
        memset(output, 0, sizeof output);
        store_run(of, sandbox_path("store"), io, of_map, output);
        ck_assert_msg(memcmp(expected, output, sizeof output) == 0, "case %d", i);
    }
    kt_context_destroy(two);
}
END_TEST

static enum kt_status store_views(uint32_t n_experts, uint64_t index, struct kt_error *error)
{
    struct kt_store_params params = KT_STORE_PARAMS_INIT;
    struct kt_checkpoint *checkpoint = store_open(store_source, KT_IO_MMAP);
    struct kt_layer *layer = store_make_layer(store_context, NULL, "fake");
    struct kt_expert experts[2];
    params.folder = sandbox_path("store");
    ck_ok(kt_checkpoint_experts(checkpoint, 3, experts, 2, &ck_error));
    enum kt_status status = kt_layer_store_experts(layer, experts, n_experts, index, &params, error);
    kt_layer_destroy(layer);
    kt_checkpoint_close(checkpoint);
    return status;
}

START_TEST(weights_of_the_callers_own_are_stored_alike)
{
    float expected[TOKENS * 32], output[TOKENS * 32];
    struct kt_error error = {KT_OK, ""};
    struct kt_checkpoint *checkpoint;
    struct kt_moe_info info;
    ck_ok(store_views(2, 3, &ck_error));
    ck_ok(store_views(2, 0, &ck_error));
    store_run(store_context, store_source, KT_IO_MMAP, NULL, expected);
    store_run(store_context, sandbox_path("store"), KT_IO_MMAP, NULL, output);
    ck_assert_mem_eq(expected, output, sizeof output);
    checkpoint = store_open(sandbox_path("store"), KT_IO_MMAP);
    for (uint64_t l = 0; l <= 3; l += 3) {
        ck_ok(kt_checkpoint_moe(checkpoint, l, &info, &ck_error));
        ck_ok(kt_checkpoint_verify(checkpoint, l, &ck_error));
        ck_assert_str_eq(info.stored_source, "");
        ck_assert_str_eq(info.stored_layers, "...");
    }
    kt_checkpoint_close(checkpoint);
    ck_assert_int_eq(store_views(3, 3, &error), KT_E_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "3 were passed"));
    ck_assert_int_eq(store_views(2, UINT64_MAX, &error), KT_E_RANGE);
    ck_assert_int_eq(kt_layer_store_experts(NULL, NULL, 0, 0, NULL, &error), KT_E_INVALID);
    store_layer(); /* layer 3 is now of the checkpoint, layer 0 is not */
    ck_assert_int_eq(kt_checkpoint_open(sandbox_path("store"), NULL, &checkpoint, &error), KT_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, "packed from another checkpoint"));
}
END_TEST

START_TEST(a_store_says_what_it_holds)
{
    struct kt_moe_info info, original;
    struct kt_plan plan;
    char fingerprint[17];
    store_layer();
    struct kt_checkpoint *checkpoint = store_open(sandbox_path("store"), KT_IO_MMAP);
    struct kt_checkpoint *from = store_open(store_source, KT_IO_MMAP);
    ck_ok(kt_checkpoint_moe(checkpoint, 3, &info, &ck_error));
    ck_ok(kt_checkpoint_moe(from, 3, &original, &ck_error));
    ck_ok(kt_checkpoint_fingerprint(from, fingerprint, &ck_error));
    ck_assert_str_eq(info.stored_backend, "fake");
    ck_assert_str_eq(info.stored_form, "fake-p4-1");
    ck_assert_str_eq(info.stored_source, fingerprint);
    ck_assert_str_eq(original.stored_backend, "");
    ck_assert_uint_eq(info.has_bias, 7);
    ck_assert_mem_eq(info.dtype, original.dtype, sizeof info.dtype);
    struct kt_layer *layer = store_make_layer(store_context, NULL, NULL);
    ck_ok(kt_layer_plan_checkpoint(layer, checkpoint, 3, &plan, &ck_error));
    ck_assert_str_eq(plan.form, "fake-p4-1");
    kt_layer_destroy(layer);
    ck_ok(kt_checkpoint_verify(checkpoint, 3, &ck_error));
    ck_assert_int_eq(kt_checkpoint_verify(from, 3, NULL), KT_E_UNSUPPORTED);
    kt_checkpoint_close(from);
    kt_checkpoint_close(checkpoint);
}
END_TEST

static atomic_bool go_on;

static void *stop_loads(void *layer)
{
    while (atomic_load(&go_on))
        kt_layer_load_stop(layer);
    return NULL;
}

/* Packing, and copying out of a store. */
START_TEST(a_load_is_watched_and_stopped)
{
    struct kt_layer *layer = store_make_layer(store_context, NULL, "fake");
    struct kt_error error = {KT_OK, ""};
    enum kt_status status = KT_OK;
    struct kt_layer_info info;
    uint64_t done, total;
    pthread_t thread;
    store_layer();
    struct kt_checkpoint *checkpoint = store_open(_i ? sandbox_path("store") : store_source, KT_IO_READ);
    kt_layer_load_progress(layer, &done, &total);
    ck_assert(done == 0 && total == 0);
    for (int again = 0; again < 2; again++) {
        ck_ok(kt_layer_load_checkpoint(layer, checkpoint, 3, &ck_error));
        kt_layer_load_progress(layer, &done, &total);
        kt_layer_info(layer, &info);
        ck_assert(done == total && total == info.packed_size && total > 0);
        if (again)
            break;
        atomic_store(&go_on, true);
        ck_assert_int_eq(pthread_create(&thread, NULL, stop_loads, layer), 0);
        while (status == KT_OK)
            status = kt_layer_load_checkpoint(layer, checkpoint, 3, &error);
        atomic_store(&go_on, false);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_int_eq(status, KT_E_STATE);
        ck_assert_str_eq(error.message, "layer 3: loading was stopped");
        kt_layer_load_progress(layer, &done, &total);
        ck_assert(done == 0 && total == 0);
    }
    kt_layer_destroy(layer);
    kt_checkpoint_close(checkpoint);
}
END_TEST

START_TEST(what_does_not_fit_is_refused_by_the_plan_too)
{
    struct kt_error error = {KT_OK, ""};
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_layer *layer;
    struct kt_plan plan;
    store_layer();
    struct kt_checkpoint *checkpoint = store_open(sandbox_path("store"), KT_IO_MMAP);
    ck_ok(kt_checkpoint_layer_params(checkpoint, 3, &params, &ck_error));
    params.max_tokens = 1;
    params.intermediate_size = 16;
    ck_ok(kt_layer_create(store_context, &params, &layer, &ck_error));
    ck_assert_int_eq(kt_layer_plan_checkpoint(layer, checkpoint, 3, &plan, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_layer_load_checkpoint(layer, checkpoint, 3, &error), KT_E_INVALID);
    params.struct_size = 8;
    ck_assert_int_eq(kt_checkpoint_layer_params(checkpoint, 3, &params, &error), KT_E_INVALID);
    kt_layer_destroy(layer);
    kt_checkpoint_close(checkpoint);
}
END_TEST

START_TEST(what_cannot_be_stored_is_said)
{
    struct kt_error error = {KT_OK, ""};
    ck_assert_int_eq(store_try(store_context, NULL, &error), KT_E_INVALID);
    ck_assert_int_eq(store_try(store_context, "reference", &error), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "cannot be stored"));
    ck_assert_int_eq(store_try(store_context, "nobody", &error), KT_E_NOT_FOUND);
    ck_assert_int_eq(rmdir(sandbox_path("store")), 0);
    ck_assert_int_eq(store_try(store_context, "fake", &error), KT_E_IO);
    ck_assert_ptr_nonnull(strstr(error.message, "store/.layer-00003.part"));
}
END_TEST

/* A write that fails leaves no file behind, whichever it is. */
START_TEST(a_full_disk_leaves_nothing)
{
    struct kt_error error = {KT_OK, ""};
    enum kt_status status = KT_E_IO;
    int n = 0;
    for (; status != KT_OK; n++) {
        write_faults_after(n);
        status = store_try(store_context, "fake", &error);
        write_faults_after(-1);
        ck_assert_msg(status == KT_OK || status == KT_E_IO, "call %d: %s", n, error.message);
        if (status == KT_OK || access(sandbox_path("store/layer-00003.safetensors"), F_OK) == 0)
            continue; /* whole, though the folder could not be synced */
        ck_assert_int_eq(rmdir(sandbox_path("store")), 0);
        sandbox_folder("store");
    }
    ck_assert_int_ge(n, 8);
    ck_ok(store_load_and_run(KT_IO_MMAP, &ck_error));
}
END_TEST

/* As it stands in a folder that others may write to. */
START_TEST(a_file_of_another_name_is_not_written)
{
    struct kt_error error = {KT_OK, ""};
    size_t size;
    sandbox_write("precious", "precious");
    ck_assert_int_eq(link(sandbox_path("precious"), sandbox_path("store/.layer-00003.part")), 0);
    ck_assert_int_eq(store_try(store_context, "fake", &error), KT_E_IO);
    ck_assert_ptr_nonnull(strstr(error.message, ".layer-00003.part: is a link to a file of another name"));
    FILE *file = fopen(sandbox_path("precious"), "r");
    char text[16] = "";
    size = fread(text, 1, sizeof text, file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_uint_eq(size, 8);
    ck_assert_str_eq(text, "precious");
    ck_assert_int_eq(unlink(sandbox_path("store/.layer-00003.part")), 0);
    store_layer();
}
END_TEST

/* A locale whose numbers have a comma; false: this system cannot make one. */
static bool take_comma(void)
{
    char command[512];
    sandbox_folder("locales");
    (void)snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 '%s' >'%s' 2>&1",
                   sandbox_path("locales/de_DE.UTF-8"), sandbox_path("locales/words"));
    ck_assert_int_eq(setenv("LOCPATH", sandbox_path("locales"), 1), 0);
    if (system(command) != 0 || !setlocale(LC_ALL, "de_DE.UTF-8"))
        return false;
    (void)snprintf(command, sizeof command, "%.1f", 7.5);
    ck_assert_str_eq(command, "7,5");
    return true;
}

static void store_activation(void)
{
    struct kt_store_params params = KT_STORE_PARAMS_INIT;
    struct kt_layer_params layer_params = KT_LAYER_PARAMS_INIT;
    struct kt_checkpoint *checkpoint = store_open(store_source, KT_IO_MMAP);
    struct kt_layer *layer;
    ck_ok(kt_checkpoint_layer_params(checkpoint, 3, &layer_params, &ck_error));
    layer_params.max_tokens = 4;
    layer_params.backend = "fake";
    layer_params.activation = KT_ACTIVATION_SWIGLUOAI;
    layer_params.limit = 7.5f;
    layer_params.alpha = 1.702f;
    ck_ok(kt_layer_create(store_context, &layer_params, &layer, &ck_error));
    params.folder = sandbox_path("store");
    ck_ok(kt_layer_store(layer, checkpoint, 3, &params, &ck_error));
    kt_layer_destroy(layer);
    kt_checkpoint_close(checkpoint);
}

/* A program that called setlocale writes the same bytes, and reads those of any other. */
START_TEST(stores_know_no_locale)
{
    static uint8_t before[1 << 17];
    struct kt_moe_info info;
    size_t size, again;
    store_activation();
    memcpy(before, store_read(&size), sizeof before);
    if (!take_comma())
        return;
    struct kt_checkpoint *checkpoint = store_open(sandbox_path("store"), KT_IO_MMAP);
    ck_ok(kt_checkpoint_moe(checkpoint, 3, &info, &ck_error));
    ck_assert(info.limit == 7.5f && info.alpha == 1.702f);
    kt_checkpoint_close(checkpoint);
    store_activation();
    ck_assert(memcmp(before, store_read(&again), size) == 0 && again == size);
    struct kt_error error;
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_layer *layer;
    params.n_experts = params.top_k = 1;
    params.hidden_size = params.intermediate_size = 32;
    params.activation = KT_ACTIVATION_SWIGLU;
    params.limit = -1.5f;
    ck_assert_int_ne(kt_layer_create(store_context, &params, &layer, &error), KT_OK);
    ck_assert_msg(strstr(error.message, "-1.5") != NULL, "%s", error.message);
}
END_TEST

START_TEST(two_writers_do_not_meet)
{
    struct kt_error error = {KT_OK, ""};
    int fd = open(sandbox_path("store/.layer-00003.part"), O_RDWR | O_CREAT, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    ck_assert_int_eq(store_try(store_context, "fake", &error), KT_E_BUSY);
    ck_assert_int_eq(close(fd), 0);
    store_layer(); /* what a killed run left is no hindrance */
    ck_assert_int_ne(access(sandbox_path("store/.layer-00003.part"), F_OK), 0);
    ck_ok(store_load_and_run(KT_IO_MMAP, &ck_error));
}
END_TEST

START_TEST(other_options_and_backends_are_refused)
{
    struct kt_error error = {KT_OK, ""};
    store_layer();
    struct kt_context *eight = store_make_context("8", 1);
    struct kt_checkpoint *checkpoint = store_open(sandbox_path("store"), KT_IO_MMAP);
    struct kt_layer *layer = store_make_layer(eight, NULL, NULL);
    ck_assert_int_eq(kt_layer_load_checkpoint(layer, checkpoint, 3, &error), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "fake-p8-1"));
    kt_layer_destroy(layer);
    layer = store_make_layer(store_context, NULL, "reference");
    ck_assert_int_eq(kt_layer_load_checkpoint(layer, checkpoint, 3, &error), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "stored for backend fake"));
    kt_layer_destroy(layer);
    kt_checkpoint_close(checkpoint);
    kt_context_destroy(eight);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("store");
    tcase_add_checked_fixture(tcase, store_setup, store_teardown);
    tcase_add_loop_test(tcase, a_store_gives_the_same_bits_as_its_source, 0, 2); /* 1: without a gate */
    tcase_add_test(tcase, weights_of_the_callers_own_are_stored_alike);
    tcase_add_test(tcase, a_store_says_what_it_holds);
    tcase_add_loop_test(tcase, a_load_is_watched_and_stopped, 0, 2);
    tcase_add_test(tcase, what_does_not_fit_is_refused_by_the_plan_too);
    tcase_add_test(tcase, what_cannot_be_stored_is_said);
    tcase_add_test(tcase, a_full_disk_leaves_nothing);
    tcase_add_test(tcase, a_file_of_another_name_is_not_written);
    tcase_add_test(tcase, stores_know_no_locale);
    tcase_add_test(tcase, two_writers_do_not_meet);
    tcase_add_test(tcase, other_options_and_backends_are_refused);
    return run_tests("store", tcase);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_linear_store_file.c - the file of a packed linear: what it says, damage, lies, writes that fail. The
 * linear is a small one of the backend for tests. */
#define _GNU_SOURCE /* memmem */
#include "tests/core/layer/stored_linear.h"
#include "core/weights/store/store_read.h"
#include "tests/support/gguf_build.h"
#include "tests/support/random_view.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"
#include "tests/support/write_faults.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const struct random_source small = {"fake", KT_DTYPE_F32, 1, 4, 3, 0x3d, 0};
static struct kt_context *context;
static struct kt_view view;

static struct kt_context *fake_context(const char *panel_rows)
{
    char module[256], panel[64];
    (void)snprintf(module, sizeof module, "plugin.fake.module=%s", sandbox_path("lib/kt_fake.so"));
    (void)snprintf(panel, sizeof panel, "plugin.fake.panel_rows=%s", panel_rows);
    return fixture_context_with((const char *const[]){module, panel, "core.threads=2",
                                                      "plugin.fake.stored=yes"},
                                4);
}

static void setup(void)
{
    stored_make_folder();
    (void)sandbox_plugin("fake", "lib/kt_fake.so");
    context = fake_context("4");
    view = random_view(&small, 40, 48);
}

static void teardown(void)
{
    random_view_free(&view);
    kt_context_destroy(context);
    sandbox_close();
}

static float bias_of[40] = {1, -1, 0.5f};

static void store(void)
{
    ck_ok(stored_try(context, "fake", &view, bias_of, NAME, &ck_error));
}

static enum kt_status load(enum kt_io io, struct kt_error *error)
{
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    struct kt_checkpoint *checkpoint;
    struct kt_linear_info info;
    params.io = io;
    enum kt_status status = kt_checkpoint_open(stored_folder, &params, &checkpoint, error);
    if (status != KT_OK)
        return status;
    struct kt_linear *linear = stored_make(context, "fake", view.rows, view.cols, KT_SPLIT_ROWS);
    status = kt_linear_load_checkpoint(linear, checkpoint, NAME, error);
    kt_linear_info(linear, &info);
    ck_assert_int_eq(info.backend[0] != '\0', status == KT_OK);
    kt_linear_destroy(linear);
    kt_checkpoint_close(checkpoint);
    return status;
}

/* A weight of a model, by the same calls and the same name. */
START_TEST(a_store_says_what_it_holds)
{
    char *path = data_path("tiny-moe/tiny-moe-q4_k_m.gguf"), fingerprint[17];
    struct kt_store_params params = KT_STORE_PARAMS_INIT;
    struct kt_error error = {KT_OK, ""};
    struct kt_stored_linear_info info;
    struct kt_plan *plan = calloc(1, sizeof *plan);
    struct kt_view original, packed;
    const float *bias;
    struct kt_checkpoint *from = stored_open(path, KT_IO_MMAP), *checkpoint;
    ck_ok(kt_checkpoint_fingerprint(from, fingerprint, &ck_error));
    ck_ok(kt_checkpoint_weight(from, "blk.0.attn_q", &original, NULL, &ck_error));
    struct kt_linear *linear = stored_make(context, "fake", original.rows, original.cols, KT_SPLIT_ROWS);
    params.folder = stored_folder;
    ck_ok(kt_linear_store(linear, from, "blk.0.attn_q", &params, &ck_error));
    ck_assert_uint_eq(kt_checkpoint_linear_count(from), 0);
    ck_assert_uint_eq(kt_checkpoint_linear_count(NULL), 0);
    checkpoint = stored_open(params.folder, KT_IO_MMAP);
    ck_assert_uint_eq(kt_checkpoint_linear_count(checkpoint), 1);
    ck_ok(kt_checkpoint_linear(checkpoint, 0, &info, &ck_error));
    ck_assert_str_eq(info.name, "blk.0.attn_q");
    ck_assert_str_eq(info.stored_backend, "fake");
    ck_assert_str_eq(info.stored_form, "fake-p4-1");
    ck_assert_str_eq(info.stored_source, fingerprint);
    ck_assert(info.rows == original.rows && info.cols == original.cols && info.dtype == original.dtype);
    ck_assert(!info.has_bias && info.size >= info.rows * info.cols);
    ck_ok(kt_checkpoint_weight(checkpoint, "blk.0.attn_q", &packed, &bias, &ck_error));
    ck_assert(packed.rows == original.rows && packed.cols == original.cols && packed.dtype == original.dtype);
    ck_assert(!packed.data && !bias);
    ck_ok(kt_linear_plan_checkpoint(linear, checkpoint, "blk.0.attn_q", plan, &ck_error));
    ck_assert_str_eq(plan->form, "fake-p4-1");
    ck_assert_uint_eq(plan->weight_size, info.size);
    ck_ok(kt_linear_plan_checkpoint(linear, from, "blk.0.attn_q", plan, &ck_error));
    ck_ok(kt_checkpoint_verify_linear(checkpoint, "blk.0.attn_q", &ck_error));

    ck_assert_int_eq(kt_checkpoint_linear(checkpoint, 1, &info, &error), KT_E_RANGE);
    ck_assert_int_eq(kt_checkpoint_linear_find(from, "blk.0.attn_q", &info, &error), KT_E_NOT_FOUND);
    ck_assert_int_eq(kt_checkpoint_verify_linear(from, "blk.0.attn_q", &error), KT_E_NOT_FOUND);
    ck_assert_int_eq(kt_linear_load(linear, &packed, NULL, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_linear_store(linear, checkpoint, "blk.0.attn_q", &params, &error), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "packed already"));
    ck_assert_int_eq(kt_linear_load_checkpoint(linear, checkpoint, "blk.0.attn_k", &error), KT_E_NOT_FOUND);
    kt_linear_destroy(linear);
    kt_checkpoint_close(checkpoint);
    kt_checkpoint_close(from);
    free(plan);
    free(path);

    store(); /* of no checkpoint */
    ck_assert_int_eq(kt_checkpoint_open(stored_folder, NULL, &checkpoint, &error), KT_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, "packed from another checkpoint"));
}
END_TEST

/* What a file must not be called so stands for itself all the same. */
START_TEST(any_name_has_a_file)
{
    static const struct {
        const char *name, *file;
    } names[] = {
        {"../etc/x y", "linear-..%2Fetc%2Fx%20y.safetensors"},
        {"50%", "linear-50%25.safetensors"},
        {"q\xc3\xa4", "linear-q%C3%A4.safetensors"},
        {"blk.0.ATTN_q-1", "linear-blk.0.ATTN_q-1.safetensors"},
    };
    enum { N = sizeof names / sizeof names[0] };
    char long_name[KT_STORE_LINEAR_SIZE + 2], path[512], file[KT_STORE_NAME_SIZE];
    struct kt_error error = {KT_OK, ""};
    struct kt_stored_linear_info info;
    memset(long_name, 'x', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    for (int i = 0; i < N; i++) {
        ck_ok(stored_try(context, "fake", &view, NULL, names[i].name, &ck_error));
        (void)snprintf(path, sizeof path, "store/%s", names[i].file);
        ck_assert_msg(access(sandbox_path(path), R_OK) == 0, "%s", path);
    }
    ck_assert_int_eq(stored_try(context, "fake", &view, NULL, long_name, &error), KT_E_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "1 to 248 are allowed"));
    ck_assert_int_eq(stored_try(context, "fake", &view, NULL, "", &error), KT_E_INVALID);
    ck_assert_int_eq(stored_try(context, "fake", &view, NULL, "a\nb", &error), KT_E_INVALID);
    long_name[KT_STORE_LINEAR_SIZE] = '\0';
    ck_ok(stored_try(context, "fake", &view, NULL, long_name, &ck_error));
    long_name[KT_STORE_LINEAR_SIZE - 1] = 'y'; /* the same letters in the name of the file */
    ck_ok(stored_try(context, "fake", &view, NULL, long_name, &ck_error));
    kt_store_name_linear(long_name, file);
    ck_assert_uint_lt(strlen(file), 143 - strlen(".safetensors"));
    struct kt_checkpoint *checkpoint = stored_open(stored_folder, KT_IO_MMAP);
    ck_assert_uint_eq(kt_checkpoint_linear_count(checkpoint), N + 2);
    for (uint64_t i = 0; i < N + 2; i++) {
        char before[KT_NAME_SIZE] = "";
        ck_ok(kt_checkpoint_linear(checkpoint, i, &info, &ck_error));
        ck_assert_str_lt(before, info.name);
        (void)snprintf(before, sizeof before, "%s", info.name);
        ck_ok(kt_checkpoint_verify_linear(checkpoint, info.name, &ck_error));
    }
    for (int i = 0; i < N; i++)
        ck_ok(kt_checkpoint_linear_find(checkpoint, names[i].name, &info, &ck_error));
    ck_ok(kt_checkpoint_linear_find(checkpoint, long_name, &info, &ck_error));
    kt_checkpoint_close(checkpoint);
}
END_TEST

/* Layers and linears may lie beside one another. */
START_TEST(a_store_has_both)
{
    struct kt_store_params params = KT_STORE_PARAMS_INIT;
    struct kt_layer_params of = KT_LAYER_PARAMS_INIT;
    struct kt_view square = random_view(&small, 48, 48);
    struct kt_expert expert = {.gate = square, .up = square, .down = square};
    struct kt_checkpoint_info info;
    struct kt_layer *layer;
    of.n_experts = of.top_k = of.max_tokens = 1;
    of.hidden_size = of.intermediate_size = 48;
    of.backend = "fake";
    params.folder = stored_folder;
    ck_ok(kt_layer_create(context, &of, &layer, &ck_error));
    ck_ok(kt_layer_store_experts(layer, &expert, 1, 7, &params, &ck_error));
    store();
    struct kt_checkpoint *checkpoint = stored_open(params.folder, KT_IO_MMAP);
    kt_checkpoint_info(checkpoint, &info);
    ck_assert_uint_eq(info.n_moe_layers, 1);
    ck_assert_uint_eq(kt_checkpoint_linear_count(checkpoint), 1);
    ck_ok(kt_layer_load_checkpoint(layer, checkpoint, 7, &ck_error));
    kt_checkpoint_close(checkpoint);
    kt_layer_destroy(layer);
    ck_ok(load(KT_IO_MMAP, &ck_error));
    random_view_free(&square);
}
END_TEST

/* ---- what is refused ---- */

static uint8_t *read_file(size_t *size)
{
    FILE *file = fopen(stored_file, "r");
    static uint8_t bytes[1 << 15];
    ck_assert_ptr_nonnull(file);
    *size = fread(bytes, 1, sizeof bytes, file);
    ck_assert(*size > 4096 && feof(file));
    ck_assert_int_eq(fclose(file), 0);
    return bytes;
}

static void write_file_again(const uint8_t *bytes, size_t size)
{
    FILE *file = fopen(stored_file, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(damage_anywhere_is_found)
{
    size_t size;
    store();
    uint8_t *bytes = read_file(&size);
    for (size_t at = 4096 + 1; at < size; at += 97) {
        struct kt_error error = {KT_OK, ""};
        bytes[at] ^= 0x10;
        write_file_again(bytes, size);
        ck_assert_msg(load(at % 2 ? KT_IO_MMAP : KT_IO_READ, &error) == KT_E_FORMAT, "byte %zu: %s", at,
                      error.message);
        ck_assert_ptr_nonnull(strstr(error.message, FILE_NAME ".safetensors: offset "));
        bytes[at] ^= 0x10;
    }
    write_file_again(bytes, size);
    ck_ok(load(KT_IO_MMAP, &ck_error));
}
END_TEST

START_TEST(a_file_that_is_cut_off_is_refused)
{
    size_t size;
    store();
    uint8_t *bytes = read_file(&size);
    for (size_t left = 0; left < size; left += left < 4200 ? 61 : 401) {
        struct kt_error error = {KT_OK, ""};
        write_file_again(bytes, left);
        ck_assert_int_eq(load(KT_IO_MMAP, &error), KT_E_FORMAT);
    }
}
END_TEST

/* A change of the header that keeps its length: what stands there, what comes in its place. */
static const struct {
    const char *from, *to;
    enum kt_status status;
    const char *fragment;
} changes[] = {
    {"\"kt.version\":\"1\"", "\"kt.version\":\"2\"", KT_E_UNSUPPORTED, "of version 2 of the format"},
    {"\"kt.version\"", "\"kt.versioN\"", KT_E_FORMAT, "lacks kt.version"},
    {"\"kt.form\":\"fake-p4-1\"", "\"kt.form\":\"fake-p8-1\"", KT_E_FORMAT, "not what was stored"},
    {"\"kt.backend\":\"fake\"", "\"kt.backend\":\"gone\"", KT_E_FORMAT, "not what was stored"},
    {"\"kt.linear\":\"blk.7", "\"kt.linear\":\"blk.8", KT_E_FORMAT, "not what was stored"},
    {"\"kt.linear\":\"blk.7", "\"kt.lineaR\":\"blk.7", KT_E_FORMAT, "lacks kt.linear"},
    {"\"kt.shape\":\"40 48\"", "\"kt.shape\":\"48 40\"", KT_E_FORMAT, "not what was stored"},
    {"\"kt.shape\":\"40 48\"", "\"kt.shape\":\"00 48\"", KT_E_FORMAT, "0 x 48 is beyond any model"},
    {"\"kt.shape\":\"40 48\"", "\"kt.shape\":\"4x 48\"", KT_E_FORMAT, "not 2 whole numbers"},
    {"\"kt.source_types\":\"1\"", "\"kt.source_types\":\"0\"", KT_E_FORMAT, "type 0"},
    {"\"kt.source_scales\":\"0 0", "\"kt.source_scales\":\"1 0", KT_E_FORMAT, "says 1 0 0 0"},
    {"\"kt.model\":\" 0\"", "\"kt.model\":\"x0\"", KT_E_FORMAT, "not what was stored"},
    {"\"kt.xxh3\":\"", "\"kt.xxh3\":\"z", KT_E_FORMAT, "not what was stored"},
    {"\"kt.xxh3_header\":\"", "\"kt.xxh3_header\":\"z", KT_E_FORMAT, "not what was stored"},
    {"\"kt.format\"", "\"kt.formaT\"", KT_E_NOT_FOUND, "has no tensor"},
    {"blk.7.attn_q.packed", "blk.7.attn_q.pack3d", KT_E_FORMAT, "blk.7.attn_q.packed"},
    {"blk.7.attn_q.bias", "blk.7.attn_q.bia5", KT_E_FORMAT, "does not belong here"},
    {"\"F32\",\"shape\":[40]", "\"I32\",\"shape\":[40]", KT_E_FORMAT, "blk.7.attn_q.bias\" of type f32"},
};

START_TEST(a_header_that_lies_is_refused)
{
    size_t size;
    struct kt_error error = {KT_OK, ""};
    store();
    uint8_t *bytes = read_file(&size);
    uint8_t *at = memmem(bytes, size, changes[_i].from, strlen(changes[_i].from));
    ck_assert_msg(at != NULL, "%s is not in the header", changes[_i].from);
    memcpy(at, changes[_i].to, strlen(changes[_i].to));
    write_file_again(bytes, size);
    ck_assert_msg(load(KT_IO_MMAP, &error) == changes[_i].status, "%s: %s", kt_status_name(error.status),
                  error.message);
    ck_assert_msg(strstr(error.message, changes[_i].fragment) != NULL, "%s", error.message);
}
END_TEST

/* The same file under another name would be replaced by that linear. */
START_TEST(a_file_is_called_after_its_linear)
{
    struct kt_error error = {KT_OK, ""};
    store();
    char *from = strdup(stored_file);
    ck_assert_int_eq(rename(from, sandbox_path("store/linear-blk.8.attn_q.safetensors")), 0);
    free(from);
    ck_assert_int_eq(load(KT_IO_MMAP, &error), KT_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, "holds linear \"" NAME "\" of a store: call it " FILE_NAME));
}
END_TEST

START_TEST(what_does_not_fit_is_refused)
{
    struct kt_plan *plan = calloc(1, sizeof *plan);
    store();
    struct kt_context *eight = fake_context("8");
    struct kt_checkpoint *checkpoint = stored_open(stored_folder, KT_IO_MMAP);
    struct kt_linear *linear = stored_make(context, "fake", 48, 40, KT_SPLIT_ROWS);
    ck_fails(kt_linear_load_checkpoint(linear, checkpoint, NAME, &ck_error), KT_E_INVALID,
             NAME "\" is 40 x 48 in ");
    ck_fails(kt_linear_load_checkpoint(linear, checkpoint, NAME, &ck_error), KT_E_INVALID,
             FILE_NAME ".safetensors; the linear needs 48 x 40");
    ck_fails(kt_linear_plan_checkpoint(linear, checkpoint, NAME, plan, &ck_error), KT_E_INVALID,
             "needs 48 x 40");
    kt_linear_destroy(linear);
    linear = stored_make(eight, NULL, 40, 48, KT_SPLIT_ROWS);
    ck_fails(kt_linear_load_checkpoint(linear, checkpoint, NAME, &ck_error), KT_E_UNSUPPORTED, "fake-p8-1");
    kt_linear_destroy(linear);
    linear = stored_make(context, "reference", 40, 48, KT_SPLIT_ROWS);
    ck_fails(kt_linear_load_checkpoint(linear, checkpoint, NAME, &ck_error), KT_E_UNSUPPORTED,
             "stored for backend fake, not reference");
    ck_fails(kt_linear_plan_checkpoint(linear, checkpoint, NAME, plan, &ck_error), KT_E_UNSUPPORTED,
             "stored for backend fake");
    ck_fails(kt_linear_plan_checkpoint(linear, checkpoint, NAME, NULL, &ck_error), KT_E_INVALID, "plan");
    kt_linear_destroy(linear);
    kt_checkpoint_close(checkpoint);
    kt_context_destroy(eight);
    free(plan);
}
END_TEST

START_TEST(what_cannot_be_stored_is_said)
{
    struct kt_linear *linear = stored_make(context, "fake", 40, 40, KT_SPLIT_ROWS);
    struct kt_store_params params = KT_STORE_PARAMS_INIT;
    ck_fails(stored_try(context, NULL, &view, NULL, NAME, &ck_error), KT_E_INVALID, "the name of a backend");
    ck_fails(stored_try(context, "reference", &view, NULL, NAME, &ck_error), KT_E_UNSUPPORTED,
             "cannot be stored");
    ck_fails(stored_try(context, "nobody", &view, NULL, NAME, &ck_error), KT_E_NOT_FOUND, "nobody");
    ck_fails(kt_linear_store_view(linear, &view, NULL, NAME, &params, &ck_error), KT_E_INVALID, "folder");
    params.folder = stored_folder;
    ck_fails(kt_linear_store_view(linear, &view, NULL, NAME, &params, &ck_error), KT_E_INVALID,
             "is 40 x 48; the linear needs 40 x 40");
    ck_fails(kt_linear_store_view(linear, &view, NULL, NULL, &params, &ck_error), KT_E_INVALID,
             "must not be NULL");
    ck_fails(kt_linear_store(linear, NULL, NAME, &params, &ck_error), KT_E_INVALID, "must not be NULL");
    params.struct_size = 3;
    ck_fails(kt_linear_store_view(linear, &view, NULL, NAME, &params, &ck_error), KT_E_INVALID,
             "struct_size 3");
    kt_linear_destroy(linear);
    ck_assert_int_eq(rmdir(stored_folder), 0);
    ck_fails(stored_try(context, "fake", &view, NULL, NAME, &ck_error), KT_E_IO, "store/." FILE_NAME ".part");
}
END_TEST

/* ---- writes that fail ---- */

START_TEST(a_full_disk_leaves_nothing)
{
    struct kt_error error = {KT_OK, ""};
    enum kt_status status = KT_E_IO;
    int n = 0;
    for (; status != KT_OK; n++) {
        write_faults_after(n);
        status = stored_try(context, "fake", &view, bias_of, NAME, &error);
        write_faults_after(-1);
        ck_assert_msg(status == KT_OK || status == KT_E_IO, "call %d: %s", n, error.message);
        if (status == KT_OK || access(stored_file, F_OK) == 0)
            continue; /* whole, though the stored_folder could not be synced */
        ck_assert_int_eq(rmdir(stored_folder), 0);
        sandbox_folder("store");
    }
    ck_assert_int_ge(n, 8);
    ck_ok(load(KT_IO_MMAP, &ck_error));
}
END_TEST

START_TEST(two_writers_do_not_meet)
{
    struct kt_error error = {KT_OK, ""};
    int fd = open(sandbox_path("store/." FILE_NAME ".part"), O_RDWR | O_CREAT, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    ck_assert_int_eq(stored_try(context, "fake", &view, NULL, NAME, &error), KT_E_BUSY);
    ck_assert_ptr_nonnull(strstr(error.message, "another process is writing this linear"));
    ck_assert_int_eq(close(fd), 0);
    store(); /* what a killed run left is no hindrance */
    ck_assert_int_ne(access(sandbox_path("store/." FILE_NAME ".part"), F_OK), 0);
    ck_ok(load(KT_IO_MMAP, &ck_error));
}
END_TEST

int main(void)
{
    TCase *fake = tcase_create("fake");
    tcase_add_checked_fixture(fake, setup, teardown);
    tcase_add_test(fake, a_store_says_what_it_holds);
    tcase_add_test(fake, any_name_has_a_file);
    tcase_add_test(fake, a_store_has_both);
    tcase_add_test(fake, damage_anywhere_is_found);
    tcase_add_test(fake, a_file_that_is_cut_off_is_refused);
    tcase_add_loop_test(fake, a_header_that_lies_is_refused, 0, (int)(sizeof changes / sizeof changes[0]));
    tcase_add_test(fake, a_file_is_called_after_its_linear);
    tcase_add_test(fake, what_does_not_fit_is_refused);
    tcase_add_test(fake, what_cannot_be_stored_is_said);
    tcase_add_test(fake, a_full_disk_leaves_nothing);
    tcase_add_test(fake, two_writers_do_not_meet);
    return run_tests("files of linears", fake);
}

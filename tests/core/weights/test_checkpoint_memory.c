/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of checkpoints: what a file claims costs nothing, and every allocation may fail. So may
 * every call to the disk.
 */
#define _GNU_SOURCE /* nftw */
#include "core/weights/table/checkpoint.h"
#include "tests/core/weights/counted_calls.h"
#include "tests/support/folder_build.h"
#include "tests/support/gguf_build.h"
#include "tests/support/ktkernel_build.h"
#include "tests/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct kt_error error;
static struct bytes file;

/* Opens, takes all experts and all data, closes. */
static enum kt_status use(const char *path, enum kt_io io)
{
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    struct kt_checkpoint *checkpoint;
    struct kt_expert experts[2];
    params.io = io;
    enum kt_status status = kt_checkpoint_open(path, &params, &checkpoint, &error);
    if (status != KT_OK)
        return status;
    for (uint64_t i = 0; status == KT_OK && i < checkpoint->n_moe; i++)
        status = kt_checkpoint_experts(checkpoint, checkpoint->moe[i].info.layer, experts, 2, &error);
    for (uint64_t i = 0; status == KT_OK && i < checkpoint->tensors.n; i++) {
        const void *data;
        status = kt_checkpoint_data(checkpoint, i, &data, &error);
    }
    kt_checkpoint_close(checkpoint);
    return status;
}

/* Fails one allocation after the other. The JSON library takes some failures of its own for bad
 * JSON. */
static void fail_each(const char *path, enum kt_io io, unsigned least, int json)
{
    for (unsigned n = 1;; n++) {
        memset(&error, 0, sizeof error);
        arm(n);
        enum kt_status status = use(path, io);
        disarm("a failed allocation");
        if (counter.calls < n) {
            ck_assert_msg(status == KT_OK, "%s", error.message);
            ck_assert_uint_gt(n, least);
            return;
        }
        bool bad_json = json && status == KT_E_FORMAT && strstr(error.message, "is not JSON");
        ck_assert_msg(bad_json || (status == KT_E_NOMEM && error.status == status &&
                                   strstr(error.message, "no memory")),
                      "allocation %d: %s: %s", (int)n, kt_status_name(status), error.message);
    }
}

START_TEST(every_allocation_of_gguf_fails)
{
    struct model model = MODEL_INIT;
    model.has_bias = model.has_scale = 1;
    model.bias_type = 1;
    model.alignment = 1;
    build_model(&file, &model);
    char *path = write_file(file.data, file.size);
    fail_each(path, (enum kt_io)_i, 30, 0);
    ck_assert_int_eq(unlink(path), 0);
    free(path);
    /* A type that is not known. */
    file.size = 0;
    put_header(&file, 3, 1, 0);
    put_tensor(&file, "t", 1, (uint64_t[]){8}, 99, 0);
    put_padding(&file, 32);
    put_zeros(&file, 32);
    path = write_file(file.data, file.size);
    fail_each(path, (enum kt_io)_i, 5, 0);
    ck_assert_int_eq(unlink(path), 0);
    free(path);
}
END_TEST

START_TEST(every_allocation_of_safetensors_fails)
{
    file.size = 0;
    put_string(&file, "{\"__metadata__\":{\"a\":\"b\"},"
                      "\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                      "\"y\":{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[8,12]},"
                      "\"z\":{\"dtype\":\"NEW\",\"shape\":[2,2],\"data_offsets\":[12,13]}}");
    put_zeros(&file, 13);
    char *path = write_file(file.data, file.size);
    fail_each(path, (enum kt_io)_i, 30, 1);
    ck_assert_int_eq(unlink(path), 0);
    free(path);
}
END_TEST

/* Two layers of two experts in two files, with biases, an index and a configuration. */
static void make_folder(int index)
{
    static const char *const names[] = {"gate_proj", "up_proj", "down_proj"};
    static struct shard shard;
    char map[4096] = "";
    folder_make();
    for (int layer = 0; layer < 4; layer += 3) {
        shard_begin(&shard);
        shard_metadata(&shard, "{\"format\":\"pt\"}");
        for (int t = 0; t < 12; t++) {
            char name[64];
            snprintf(name, sizeof name, "layers.%d.mlp.experts.%d.%s.%s", layer, t / 6, names[t / 2 % 3],
                     t % 2 ? "bias" : "weight");
            shard_add(&shard, name, "BF16", t % 2 ? 1 : 2, (uint64_t[]){4, 4});
            snprintf(map + strlen(map), sizeof map - strlen(map), "%s\"%s\":\"%d.safetensors\"",
                     *map ? "," : "", name, layer);
        }
        shard_write(&shard, layer ? "3.safetensors" : "0.safetensors");
    }
    folder_text("config.json", "{\"model_type\":\"a\",\"num_experts\":2,"
                               "\"quantization_config\":{\"weight_block_size\":[4,4]}}");
    shard_write(&shard, "consolidated.safetensors"); /* which is left out */
    if (index)
        folder_text("model.safetensors.index.json", "{\"weight_map\":{%s}}", map);
}

START_TEST(every_allocation_of_folders_fails)
{
    make_folder(_i / 2);
    fail_each(folder_path(""), _i % 2 ? KT_IO_READ : KT_IO_MMAP, 200, 1);
    fail_each(folder_path("0.safetensors"), _i % 2 ? KT_IO_READ : KT_IO_MMAP, 100, 1);
    folder_remove();
}
END_TEST

/* Fails one call after the other; gives the number of calls. */
static unsigned fail_each_call(const char *path, enum kt_io io)
{
    for (unsigned n = 1;; n++) {
        memset(&error, 0, sizeof error);
        memset(&disk, 0, sizeof disk);
        disk.failing = n;
        arm(0);
        disk.armed = 1;
        enum kt_status status = use(path, io);
        disk.armed = 0;
        disarm("a failed call");
        if (disk.calls < n)
            return n;
        ck_assert_msg(status == KT_E_IO && error.status == status && strstr(error.message, strerror(EIO)) &&
                          strstr(error.message, "kt-test-"),
                      "call %d: %s: %s", (int)n, kt_status_name(status), error.message);
    }
}

static void make_split(void)
{
    struct model model = MODEL_INIT;
    folder_make();
    for (unsigned i = 0; i < 3; i++) {
        struct part part = {.begin = 2 * i, .end = 2 * i + 2, .no = i, .count = 3, .tensors = 6};
        char name[64];
        part.has_model_keys = i == 0;
        build_part(&file, &model, &part);
        snprintf(name, sizeof name, "m-%05u-of-00003.gguf", i + 1);
        folder_write(name, file.data, file.size);
    }
}

START_TEST(every_call_and_allocation_of_split_gguf_fails)
{
    make_split();
    fail_each(folder_path("m-00002-of-00003.gguf"), (enum kt_io)_i, 40, 0);
    fail_each(folder_path(""), (enum kt_io)_i, 44, 0);
    ck_assert_uint_gt(fail_each_call(folder_path(""), (enum kt_io)_i), 20);
    folder_remove();
}
END_TEST

START_TEST(every_call_to_the_disk_fails)
{
    struct model model = MODEL_INIT;
    build_model(&file, &model);
    char *path = write_file(file.data, file.size);
    ck_assert_uint_gt(fail_each_call(path, (enum kt_io)_i), 5);
    ck_assert_int_eq(unlink(path), 0);
    free(path);
    make_folder(0);
    ck_assert_uint_gt(fail_each_call(folder_path(""), (enum kt_io)_i), 30);
    folder_remove();
    make_folder(1);
    ck_assert_uint_gt(fail_each_call(folder_path(""), (enum kt_io)_i), 30);
    folder_remove();
}
END_TEST

/* What KT-Kernel's converter leaves, in files of their own or in safetensors files. */
static void make_packed(int files)
{
    struct ktk_model model = {.method = KTK_INT8,
                              .n_experts = 2,
                              .n_parts = 2,
                              .intermediate = 128,
                              .hidden = 64};
    folder_make();
    ktk_fill(&model, 1);
    ktk_write(&model, folder_path(""), 2, files);
    ktk_free(&model);
}

static int delete_entry(const char *name, const struct stat *entry, int kind, struct FTW *state)
{
    (void)entry;
    (void)kind;
    return state->level == 0 ? 0 : remove(name);
}

START_TEST(every_call_and_allocation_of_packed_weights_fails)
{
    enum kt_io io = _i % 2 ? KT_IO_READ : KT_IO_MMAP;
    make_packed(_i / 2);
    fail_each(folder_path(""), io, 15, _i < 2);
    ck_assert_uint_gt(fail_each_call(folder_path(""), io), 5);
    ck_assert_int_eq(nftw(folder_path(""), delete_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
    folder_remove();
}
END_TEST

/* AWQ's weights are decoded; those of GPTQ have small tensors that are looked at. */
static void make_int4(bool awq)
{
    static const char *const names[] = {"gate_proj", "up_proj", "down_proj"};
    static const uint32_t zeros = 0x77777777, order[8];
    static struct shard shard;
    folder_make();
    shard_begin(&shard);
    for (int e = 0; e < 2; e++)
        for (int p = 0; p < 3; p++) {
            char name[64];
            int length = snprintf(name, sizeof name, "layers.1.mlp.experts.%d.%s.", e, names[p]);
            char *part = name + length;
            strcpy(part, "qweight");
            shard_add(&shard, name, "I32", 2, awq ? (uint64_t[]){8, 1} : (uint64_t[]){1, 8});
            strcpy(part, "scales");
            shard_add(&shard, name, "F16", 2, (uint64_t[]){1, 8});
            strcpy(part, "qzeros");
            shard_put(&shard, name, "I32", 2, (uint64_t[]){1, 1}, &zeros);
            strcpy(part, "g_idx");
            if (!awq)
                shard_put(&shard, name, "I32", 1, (uint64_t[]){8}, order);
        }
    shard_write(&shard, "model.safetensors");
    folder_text("config.json", "{\"num_experts\":2,\"quantization_config\":{\"bits\":4}}");
}

START_TEST(every_call_and_allocation_of_int4_fails)
{
    enum kt_io io = _i % 2 ? KT_IO_READ : KT_IO_MMAP;
    make_int4(_i / 2);
    fail_each(folder_path(""), io, 50, 1);
    ck_assert_uint_gt(fail_each_call(folder_path(""), io), 5);
    folder_remove();
}
END_TEST

START_TEST(reads_are_interrupted_and_short)
{
    struct model model = MODEL_INIT;
    build_model(&file, &model);
    char *path = write_file(file.data, file.size);
    memset(&disk, 0, sizeof disk);
    disk.armed = disk.interrupt = 1;
    enum kt_status status = use(path, KT_IO_READ);
    disk.armed = 0;
    ck_assert_msg(status == KT_OK, "%s", error.message);
    ck_assert_int_gt(disk.interrupt, 20);
    ck_assert_int_eq(unlink(path), 0);
    free(path);
}
END_TEST

static size_t measure(const char *path, enum kt_io io, enum kt_status expected, const char *what)
{
    arm(0);
    enum kt_status status = use(path, io);
    disarm(what);
    ck_assert_msg(status == expected, "%s: %s: %s", what, kt_status_name(status), error.message);
    return counter.peak;
}

/* Whatever a header claims, what it costs is bounded by the bytes that it has. */
START_TEST(malformed_files_cost_nothing)
{
    for (size_t i = 0; i < n_malformed_gguf; i++) {
        const struct bytes *made = make_file(&malformed_gguf[i]);
        char *path = write_file(made->data, made->size);
        size_t peak = measure(path, KT_IO_MMAP, malformed_gguf[i].status, malformed_gguf[i].name);
        ck_assert_msg(peak <= 65536 + 16 * made->size, "%s: %d bytes for a file of %d",
                      malformed_gguf[i].name, (int)peak, (int)made->size);
        ck_assert_int_eq(unlink(path), 0);
        free(path);
    }
}
END_TEST

/* The file itself is huge, but for its first bytes it is a hole. */
static void expect_cheap(const char *what)
{
    char *path = write_file(file.data, file.size);
    ck_assert_int_eq(truncate(path, (off_t)1 << 34), 0);
    size_t peak = measure(path, KT_IO_READ, KT_E_FORMAT, what);
    ck_assert_msg(peak <= 1 << 17, "%s: %d bytes", what, (int)peak);
    ck_assert_int_eq(unlink(path), 0);
    free(path);
}

START_TEST(large_files_cost_nothing)
{
    file.size = 0;
    put_header(&file, 3, 1 << 28, 0);
    expect_cheap("2^28 tensors");
    file.size = 0;
    put_header(&file, 3, 0, 1 << 30);
    expect_cheap("2^30 keys");
    file.size = 0;
    put_header(&file, 3, 0, 1);
    put_u64(&file, UINT64_C(1) << 33);
    expect_cheap("a name of 2^33 letters");
    file.size = 0;
    put_header(&file, 3, 0, 2);
    put_string(&file, "tokenizer.ggml.tokens");
    put_u32(&file, 9);
    put_u32(&file, 10);
    put_u64(&file, UINT64_C(1) << 30);
    expect_cheap("an array of 8 GiB, and a key without a name after it");
    file.size = 0;
    put_u64(&file, 100000000);
    put_raw(&file, "{\"", 2);
    expect_cheap("a safetensors header of 100 MB of zeros");
}
END_TEST

/* A header of many tensors costs less than three times its size, whichever member needs most. A file
 * may have 2^20; sanitizers and emulators get fewer. */
START_TEST(many_tensors_cost_little)
{
    uint64_t n = getenv("KT_TEST_QUICK") ? 40000 : 1 << 20;
    char *text = malloc(80000 + 72 * n);
    ck_assert_ptr_nonnull(text);
    size_t used = 8 + (size_t)sprintf(text + 8, "{\"__metadata__\":{\"a\":\"%070000d\"}", 0);
    for (uint64_t i = 0; i < n; i++)
        used += (size_t)sprintf(text + used,
                                ",\"t%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", (int)i);
    used += (size_t)sprintf(text + used, "}");
    for (int i = 0; i < 8; i++)
        text[i] = (char)((used - 8) >> 8 * i);
    char *path = write_file((const uint8_t *)text, used);
    free(text);
    struct kt_checkpoint *checkpoint;
    arm(0);
    ck_assert_int_eq(kt_checkpoint_open(path, NULL, &checkpoint, &error), KT_OK);
    ck_assert_uint_eq(checkpoint->tensors.n, n);
    kt_checkpoint_close(checkpoint);
    disarm("a header of many tensors");
    ck_assert_msg(counter.peak <= 3 * used, "%zu bytes of memory for %zu of header", counter.peak, used);
    ck_assert_int_eq(unlink(path), 0);
    free(path);
}
END_TEST

/* Whatever fails, a file that was written is not there, or is right. */
START_TEST(what_is_written_is_absent_or_right)
{
    static const char *const metadata[] = {"format", "pt", "a key of several letters", "and its value"};
    struct kt_tensor_info tensors[2] =
        {{.name = "layers.0.output", .dtype = KT_DTYPE_F32, .n_dims = 3, .dims = {2, 1, 3}},
         {.name = "layers.1.output", .dtype = KT_DTYPE_U8, .n_dims = 1, .dims = {8}}};
    struct kt_writer_params params = KT_WRITER_PARAMS_INIT;
    static char good[4096], now[4096];
    size_t good_size = 0;
    params.tensors = tensors;
    params.n_tensors = params.n_metadata = 2;
    params.metadata = metadata;
    folder_make();
    const char *path = folder_path("out.safetensors");
    for (unsigned n = 0;; n++) { /* the first time, nothing fails */
        struct kt_writer *writer;
        (void)unlink(path);
        arm(n);
        enum kt_status status = kt_writer_create(path, &params, &writer, &error);
        if (status == KT_OK)
            status = kt_writer_add(writer, "32 bytes of data for the tensors", 32, &error);
        if (status == KT_OK)
            status = kt_writer_finish(writer, &error);
        counter.armed = 0;
        FILE *written = fopen(path, "r");
        size_t size = written ? fread(now, 1, sizeof now, written) : 0;
        if (written)
            (void)fclose(written);
        if (n == 0) {
            good_size = size;
            memcpy(good, now, size);
        }
        ck_assert_msg(status == KT_OK ? size == good_size && memcmp(now, good, size) == 0
                                      : status == KT_E_NOMEM && !written,
                      "allocation %u: %s, %zu bytes: %.400s", n, kt_status_name(status), size, now + 8);
        if (n > 0 && counter.calls < n) {
            ck_assert_uint_gt(n, 40);
            break;
        }
    }
    ck_assert_int_eq(use(path, KT_IO_READ), KT_OK);
    folder_remove();
}
END_TEST

/* Only what lies on the disk is read: where a header ends in a hole it is refused, after no time. */
START_TEST(holes_are_no_header)
{
    file.size = 0;
    put_header(&file, 3, 0, 1);
    put_string(&file, "tokenizer.ggml.tokens");
    put_u32(&file, 9);
    put_u32(&file, 8);
    put_u64(&file, UINT64_C(1) << (_i ? 36 : 24));
    char *path = write_file(file.data, file.size);
    ck_assert_int_eq(truncate(path, (off_t)1 << 40), 0);
    int fd = open(path, O_RDONLY);
    bool knows = lseek(fd, 0, SEEK_HOLE) < (off_t)1 << 30;
    ck_assert_int_eq(close(fd), 0);
    if (knows || _i) {
        ck_assert_int_eq(use(path, KT_IO_READ), KT_E_FORMAT);
        ck_assert_msg(strstr(error.message, _i ? "68719476736 strings" : "in a hole") != NULL, "%s",
                      error.message);
    }
    ck_assert_int_eq(unlink(path), 0);
    free(path);
}
END_TEST

/* JSON of as many objects, or as many keys and files, as its size allows. */
START_TEST(large_configurations_cost_little)
{
    static char text[1 << 16];
    static const char *const units[] = {"[],", "{},", "1,", "\"\",", "{\"a\":1234567}, "};
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
        size_t length = strlen(units[u]), used = 6;
        make_folder(1);
        memcpy(text, "{\"a\":[", 7);
        for (used = 6; used + length + 4 < sizeof text; used += length)
            memcpy(text + used, units[u], length);
        memcpy(text + used, "0]}", 4);
        folder_write("config.json", text, used + 3);
        size_t peak = measure(folder_path(""), KT_IO_MMAP, u < 2 ? KT_E_FORMAT : KT_OK, units[u]);
        ck_assert_msg(peak <= 65536 + 48 * sizeof text, "%s: %d bytes", units[u], (int)peak);
        folder_remove();
    }
    make_folder(0);
    size_t used = (size_t)snprintf(text, sizeof text, "{\"weight_map\":{");
    for (int i = 0; used < sizeof text - 64; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%d\":\"%d.safetensors\"", i ? "," : "",
                                 i, i + 10);
    used += (size_t)snprintf(text + used, sizeof text - used, "}}");
    folder_write("model.safetensors.index.json", text, used);
    size_t peak = measure(folder_path(""), KT_IO_MMAP, KT_E_IO, "an index of many files");
    ck_assert_msg(peak <= 65536 + 48 * sizeof text, "%d bytes", (int)peak);
    folder_remove();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("checkpoint memory");
    json_set_alloc_funcs(__wrap_malloc, __wrap_free);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, every_allocation_of_gguf_fails, KT_IO_MMAP, KT_IO_READ + 1);
    tcase_add_loop_test(tests, every_call_and_allocation_of_split_gguf_fails, KT_IO_MMAP, KT_IO_READ + 1);
    tcase_add_loop_test(tests, every_allocation_of_safetensors_fails, KT_IO_MMAP, KT_IO_READ + 1);
    tcase_add_loop_test(tests, every_allocation_of_folders_fails, 0, 4);
    tcase_add_test(tests, large_configurations_cost_little);
    tcase_add_test(tests, many_tensors_cost_little);
    tcase_add_test(tests, what_is_written_is_absent_or_right);
    tcase_add_loop_test(tests, holes_are_no_header, 0, 2);
    tcase_add_loop_test(tests, every_call_to_the_disk_fails, KT_IO_MMAP, KT_IO_READ + 1);
    tcase_add_loop_test(tests, every_call_and_allocation_of_packed_weights_fails, 0, 4);
    tcase_add_loop_test(tests, every_call_and_allocation_of_int4_fails, 0, 4);
    tcase_add_test(tests, reads_are_interrupted_and_short);
    tcase_add_test(tests, malformed_files_cost_nothing);
    tcase_add_test(tests, large_files_cost_nothing);
    return run_tests("checkpoint memory", tests);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF headers: malformed files, files cut off, files with a byte changed. */
#include "tests/support/gguf_build.h"
#include "tests/support/suite.h"

#include <check.h>
#include <string.h>

static struct kt_error error;
static struct bytes file;

static void expect(const struct malformed *wrong, enum kt_io io)
{
    const struct bytes *made = make_file(wrong);
    struct kt_checkpoint *checkpoint = NULL;
    memset(&error, 0, sizeof error);
    enum kt_status status = open_bytes(made->data, made->size, io, &checkpoint, &error);
    ck_assert_msg(status == wrong->status && error.status == status, "%s: \"%s\", not \"%s\": %s",
                  wrong->name, kt_status_name(status), kt_status_name(wrong->status), error.message);
    ck_assert_ptr_null(checkpoint);
    ck_assert_msg(strstr(error.message, wrong->fragment) != NULL, "%s: \"%s\" is not in: %s", wrong->name,
                  wrong->fragment, error.message);
    ck_assert_msg(strstr(error.message, "kt-test-") != NULL, "%s: no file in: %s", wrong->name,
                  error.message);
    ck_assert_msg(strchr(error.message, '\n') == NULL, "%s: %s", wrong->name, error.message);
}

START_TEST(malformed_files)
{
    expect(&malformed_gguf[_i], KT_IO_MMAP);
    expect(&malformed_gguf[_i], KT_IO_READ);
}
END_TEST

START_TEST(right_files)
{
    struct kt_checkpoint *checkpoint;
    struct kt_checkpoint_info info;
    const struct bytes *made = make_file(&right_gguf[_i]);
    enum kt_status status = open_bytes(made->data, made->size, KT_IO_READ, &checkpoint, &error);
    ck_assert_msg(status == KT_OK, "%s: %s", right_gguf[_i].name, error.message);
    kt_checkpoint_info(checkpoint, &info);
    ck_assert_str_eq(info.format, "gguf");
    ck_assert_uint_eq(info.size, made->size);
    kt_checkpoint_close(checkpoint);
}
END_TEST

/* Every type that a file may hold is listed, also those that cannot be decoded. */
START_TEST(every_type)
{
    static const uint32_t numbers[] = {0,  1,  2,  3,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19,
                                       20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 34, 35, 39, 40, 41, 42};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct kt_checkpoint *checkpoint;
        struct kt_tensor_info info;
        uint32_t elements, bytes;
        file.size = 0;
        put_header(&file, 3, 1, 0);
        put_tensor(&file, "t", 1, (uint64_t[]){256}, numbers[i], 0);
        put_padding(&file, 32);
        put_zeros(&file, 2048);
        ck_assert_msg(open_bytes(file.data, file.size, KT_IO_MMAP, &checkpoint, &error) == KT_OK, "%s",
                      error.message);
        ck_assert_int_eq(kt_checkpoint_tensor(checkpoint, 0, &info, &error), KT_OK);
        kt_dtype_block(info.dtype, &elements, &bytes);
        ck_assert_uint_eq(info.size, 256 / elements * bytes);
        kt_checkpoint_close(checkpoint);
    }
}
END_TEST

/* A tensor of a type that is not known reaches up to the next one, or to the end, and keeps nobody from the
 * others. */
START_TEST(unknown_types)
{
    static const struct {
        const char *name, *type;
        uint64_t size;
    } wanted[] = {{"a", "f32", 32}, {"b", "ggml type 43", 64}, {"c", "f32", 32}, {"d", "ggml type 99", 96}};
    struct kt_checkpoint *checkpoint;
    struct kt_tensor_info info;
    struct kt_view view;
    const void *data;
    file.size = 0;
    put_header(&file, 3, 4, 0);
    put_tensor(&file, "d", 1, (uint64_t[]){7}, 99, 128);
    put_tensor(&file, "a", 1, (uint64_t[]){8}, 0, 0);
    put_tensor(&file, "b", 2, (uint64_t[]){3, 3}, 43, 32);
    put_tensor(&file, "c", 1, (uint64_t[]){8}, 0, 96);
    put_padding(&file, 32);
    put_zeros(&file, 224);
    ck_assert_msg(open_bytes(file.data, file.size, (enum kt_io)_i, &checkpoint, &error) == KT_OK, "%s",
                  error.message);
    for (uint64_t i = 0; i < 4; i++) {
        ck_assert_int_eq(kt_checkpoint_tensor(checkpoint, i, &info, &error), KT_OK);
        ck_assert_str_eq(info.name, wanted[i].name);
        ck_assert_uint_eq(info.size, wanted[i].size);
        ck_assert_str_eq(kt_checkpoint_tensor_type(checkpoint, i), wanted[i].type);
        ck_assert_int_eq(kt_checkpoint_data(checkpoint, i, &data, &error), KT_OK);
    }
    ck_assert_str_eq(kt_checkpoint_tensor_type(checkpoint, 4), "?");
    ck_assert_str_eq(kt_checkpoint_tensor_type(NULL, 0), "?");
    ck_assert_int_eq(kt_checkpoint_weight(checkpoint, "c", &view, NULL, &error), KT_OK);
    ck_assert_int_eq(kt_checkpoint_weight(checkpoint, "b", &view, NULL, &error), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(
        strstr(error.message, "tensor \"b\" is of type ggml type 43, which cannot be read"));
    kt_checkpoint_close(checkpoint);
}
END_TEST

/* The experts are listed, but cannot be asked for. */
START_TEST(experts_of_an_unknown_type)
{
    static const char scale[] = "blk.0.ffn_gate_exps.scale", weight[] = "blk.0.ffn_gate_exps.weight";
    for (int what = 0; what < 2; what++) {
        const char *name = what ? scale : weight;
        struct model model = MODEL_INIT;
        struct kt_checkpoint *checkpoint;
        struct kt_moe_info info;
        struct kt_expert expert;
        model.has_scale = 1;
        build_model(&file, &model);
        uint8_t *at = file.data;
        while (memcmp(at, name, strlen(name)) != 0)
            at++;
        /* The type stands after the name and, if there are as many, 1 or 3 dimensions. */
        at += strlen(name) + 4 + (what ? 8 : 24);
        *at = 200;
        ck_assert_msg(open_bytes(file.data, file.size, KT_IO_MMAP, &checkpoint, &error) == KT_OK, "%s",
                      error.message);
        ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 0, &info, &error), KT_OK);
        ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, &expert, 1, &error), KT_E_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(error.message, name));
        ck_assert_ptr_nonnull(strstr(error.message, "is of type ggml type 200"));
        kt_checkpoint_close(checkpoint);
    }
}
END_TEST

static void open_part(size_t size, enum kt_io io, const char *what, size_t at)
{
    struct kt_checkpoint *checkpoint = NULL;
    memset(&error, 0, sizeof error);
    enum kt_status status = open_bytes(file.data, size, io, &checkpoint, &error);
    ck_assert_msg(status == KT_E_FORMAT || status == KT_E_UNSUPPORTED, "%s %d: %s: %s", what, (int)at,
                  kt_status_name(status), error.message);
    ck_assert_msg(strstr(error.message, "kt-test-") != NULL, "%s %d: %s", what, (int)at, error.message);
}

/* CVE-2024-32878: cut at every byte; and short files (CVE-2024-39720). */
START_TEST(cut_at_every_byte)
{
    struct model model = MODEL_INIT;
    struct kt_checkpoint *checkpoint;
    model.has_bias = model.has_scale = 1;
    build_model(&file, &model);
    ck_assert_msg(open_bytes(file.data, file.size, (enum kt_io)_i, &checkpoint, &error) == KT_OK, "%s",
                  error.message);
    kt_checkpoint_close(checkpoint);
    for (size_t size = 0; size < file.size; size += size < 4096 ? 1 : 17)
        open_part(size, (enum kt_io)_i, "cut to", size);
}
END_TEST

/* Every byte of a header set to bad values: an error or not, never anything else. */
START_TEST(every_byte_changed)
{
    static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    struct model model = MODEL_INIT;
    size_t refused = 0, header = build_model(&file, &model);
    for (size_t at = 0; at < header; at++)
        for (size_t v = 0; v < sizeof values; v++) {
            struct kt_checkpoint *checkpoint = NULL;
            uint8_t saved = file.data[at];
            file.data[at] = values[v];
            enum kt_status status = open_bytes(file.data, file.size, KT_IO_READ, &checkpoint, &error);
            file.data[at] = saved;
            ck_assert_msg((status == KT_OK) == (checkpoint != NULL), "byte %d", (int)at);
            refused += status != KT_OK;
            if (status == KT_OK) {
                struct kt_expert experts[2];
                struct kt_moe_info info;
                if (kt_checkpoint_moe(checkpoint, 0, &info, NULL) == KT_OK && info.n_experts == 2)
                    (void)kt_checkpoint_experts(checkpoint, 0, experts, 2, NULL);
                kt_checkpoint_close(checkpoint);
            } else {
                ck_assert_int_eq(status, error.status);
            }
        }
    ck_assert_uint_gt(refused, header);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("gguf");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, malformed_files, 0, (int)n_malformed_gguf);
    tcase_add_loop_test(tests, right_files, 0, (int)n_right_gguf);
    tcase_add_test(tests, every_type);
    tcase_add_loop_test(tests, unknown_types, KT_IO_MMAP, KT_IO_READ + 1);
    tcase_add_test(tests, experts_of_an_unknown_type);
    tcase_add_loop_test(tests, cut_at_every_byte, KT_IO_MMAP, KT_IO_READ + 1);
    tcase_add_test(tests, every_byte_changed);
    return run_tests("gguf", tests);
}

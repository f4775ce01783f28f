/* SPDX-License-Identifier: Apache-2.0 */
/* Weights by name, rows of embeddings, files of a folder. */
#include "tests/support/folder_build.h"
#include "tests/support/gguf_build.h"
#include "tests/support/suite.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct kt_error error;

#define ok(call) ck_assert_msg((call) == KT_OK, "%s", error.message)

/* A matrix of an expert by its own name is what the expert shows, in every format. */
static void compare(struct kt_checkpoint *checkpoint, const struct kt_view *expected)
{
    char name[512];
    struct kt_view view;
    const float *bias = &(float){0};
    float rows[2][1024];
    (void)snprintf(name, sizeof name, "%s", expected->name);
    *strrchr(name, '.') = '\0';
    ok(kt_checkpoint_weight(checkpoint, name, &view, &bias, &error));
    ck_assert_ptr_null(bias);
    ck_assert_uint_eq(view.rows, expected->rows);
    ck_assert_uint_eq(view.cols, expected->cols);
    ck_assert_uint_eq(view.dtype, expected->dtype);
    for (uint64_t r = 0; r < view.rows; r += 37) {
        ok(kt_view_row(&view, r, rows[0], &error));
        ok(kt_view_row(expected, r, rows[1], &error));
        ck_assert_mem_eq(rows[0], rows[1], view.cols * sizeof(float));
    }
}

START_TEST(as_experts_show_them)
{
    static const char *const folders[] = {"int4-g32-l0", "gptq-g128-l0", "mxfp4-l0",
                                          "mxfp8-l0",    "fp8-block-l0", "fp8-channel-l0"};
    char text[64];
    struct kt_checkpoint *checkpoint;
    struct kt_expert experts[8];
    (void)snprintf(text, sizeof text, "tiny-moe/%s", folders[_i]);
    char *path = data_path(text);
    ok(kt_checkpoint_open(path, NULL, &checkpoint, &error));
    ok(kt_checkpoint_experts(checkpoint, 0, experts, 8, &error));
    for (int e = 0; e < 8; e += 7) {
        compare(checkpoint, &experts[e].gate);
        compare(checkpoint, &experts[e].up);
        compare(checkpoint, &experts[e].down);
    }
    kt_checkpoint_close(checkpoint);
    free(path);
}
END_TEST

static struct shard shard;

START_TEST(plain_weights_of_a_folder)
{
    struct kt_checkpoint *checkpoint;
    struct kt_view view;
    const float *bias;
    float row[64];
    folder_make();
    shard_begin(&shard);
    shard_add(&shard, "q.weight", "BF16", 2, (uint64_t[]){6, 40});
    shard_add(&shard, "q.bias", "F16", 1, (uint64_t[]){6});
    shard_add(&shard, "norm.weight", "F32", 1, (uint64_t[]){40});
    shard_add(&shard, "normal.weight", "F32", 1, (uint64_t[]){40});
    shard_add(&shard, "normal.bias", "F32", 1, (uint64_t[]){40});
    shard_add(&shard, "wrong.weight", "F32", 1, (uint64_t[]){40});
    shard_add(&shard, "wrong.bias", "F32", 1, (uint64_t[]){39});
    shard_add(&shard, "conv1d.weight", "BF16", 3, (uint64_t[]){5, 1, 4});
    shard_add(&shard, "A_log", "F32", 1, (uint64_t[]){3});
    shard_add(&shard, "short.weight", "BF16", 2, (uint64_t[]){6, 40});
    shard_add(&shard, "short.bias", "F32", 1, (uint64_t[]){5});
    shard_add(&shard, "fp4.weight", "U8", 2, (uint64_t[]){6, 40});
    shard_add(&shard, "fp4.weight_scale_2", "F32", 1, (uint64_t[]){1});
    shard_write(&shard, "model.safetensors");
    ok(folder_open("", _i ? KT_IO_READ : KT_IO_MMAP, &checkpoint, &error));
    for (int again = 0; again < 2; again++) {
        ok(kt_checkpoint_weight(checkpoint, "q", &view, &bias, &error));
        ck_assert_uint_eq(view.rows, 6);
        ck_assert_uint_eq(view.cols, 40);
        ok(kt_view_row(&view, 5, row, &error));
        ck_assert_float_eq(row[39], value_of("q.weight", "BF16", 239));
        ck_assert_float_eq(bias[5], value_of("q.bias", "F16", 5));
    }
    ok(kt_checkpoint_weight(checkpoint, "norm", &view, &bias, &error));
    ck_assert_uint_eq(view.rows, 1);
    ck_assert_ptr_null(bias);
    ok(kt_checkpoint_weight(checkpoint, "normal", &view, &bias, &error));
    ck_assert_uint_eq(view.rows, 1);
    ck_assert_float_eq(bias[39], value_of("normal.bias", "F32", 39));
    ck_assert_int_eq(kt_checkpoint_weight(checkpoint, "wrong", &view, &bias, &error), KT_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, "\"wrong.bias\" is [39]; a bias of 40 numbers is needed"));
    ok(kt_checkpoint_weight(checkpoint, "conv1d", &view, NULL, &error));
    ck_assert_uint_eq(view.rows, 5);
    ck_assert_uint_eq(view.cols, 4);
    ok(kt_checkpoint_weight(checkpoint, "A_log", &view, &bias, &error));
    ck_assert_uint_eq(view.cols, 3);
    ck_assert_int_eq(kt_checkpoint_weight(checkpoint, "k", &view, &bias, &error), KT_E_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.message, "\"k.weight\""));
    ck_assert_int_eq(kt_checkpoint_weight(checkpoint, "short", &view, &bias, &error), KT_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, "\"short.bias\" is [5]; a bias of 6 numbers is needed"));
    ck_assert_int_eq(kt_checkpoint_weight(checkpoint, "fp4", &view, &bias, &error), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "NVFP4"));
    kt_checkpoint_close(checkpoint);
    folder_remove();
}
END_TEST

/* AWQ is decoded; a second request shows the same memory. */
START_TEST(awq_is_decoded_once)
{
    struct kt_checkpoint *checkpoint;
    struct kt_view first, second;
    float row[64];
    folder_make();
    folder_text("config.json", "{\"quantization_config\": {\"quant_method\": \"awq\", \"bits\": 4, "
                               "\"group_size\": 32, \"version\": \"gemm\", \"zero_point\": true}}");
    shard_begin(&shard);
    shard_add(&shard, "q.qweight", "I32", 2, (uint64_t[]){64, 2});
    shard_add(&shard, "q.scales", "F16", 2, (uint64_t[]){2, 16});
    shard_add(&shard, "q.qzeros", "I32", 2, (uint64_t[]){2, 2});
    shard_write(&shard, "model.safetensors");
    ok(folder_open("", KT_IO_MMAP, &checkpoint, &error));
    ok(kt_checkpoint_weight(checkpoint, "q", &first, NULL, &error));
    ck_assert_uint_eq(first.rows, 16);
    ck_assert_uint_eq(first.cols, 64);
    ok(kt_view_row(&first, 15, row, &error));
    ok(kt_checkpoint_weight(checkpoint, "q", &second, NULL, &error));
    ck_assert_ptr_eq(first.data, second.data);
    kt_checkpoint_close(checkpoint);
    folder_remove();
}
END_TEST

START_TEST(weights_of_gguf)
{
    static struct bytes file;
    struct kt_checkpoint *checkpoint;
    struct kt_view view;
    const float *bias;
    float row[32];
    file.size = 0;
    put_header(&file, 3, 4, 0);
    put_tensor(&file, "q.weight", 2, (uint64_t[]){32, 3}, 8, 0); /* Q8_0 */
    put_tensor(&file, "q.bias", 1, (uint64_t[]){3}, 0, 128);
    put_tensor(&file, "ssm_a", 1, (uint64_t[]){3}, 0, 160);
    put_tensor(&file, "k.weight", 2, (uint64_t[]){32, 3}, 0, 192);
    put_padding(&file, 32);
    for (int r = 0; r < 3; r++) {
        put_number(&file, 0x3c00, 2); /* 1 */
        for (int c = 0; c < 32; c++)
            put_u8(&file, (uint8_t)(r + c));
    }
    put_padding(&file, 32);
    for (int i = 0; i < 3; i++)
        put_u32(&file, 0x40000000);
    put_zeros(&file, 1024);
    ok(open_bytes(file.data, file.size, _i ? KT_IO_READ : KT_IO_MMAP, &checkpoint, &error));
    ok(kt_checkpoint_weight(checkpoint, "q", &view, &bias, &error));
    ck_assert_uint_eq(view.rows, 3);
    ok(kt_view_row(&view, 2, row, &error));
    ck_assert_float_eq(row[31], 33);
    ck_assert_float_eq(bias[2], 2);
    ok(kt_checkpoint_weight(checkpoint, "ssm_a", &view, &bias, &error));
    ok(kt_checkpoint_weight(checkpoint, "k", &view, &bias, &error));
    ck_assert_ptr_null(bias);
    ck_assert_int_eq(kt_checkpoint_weight(checkpoint, "v", &view, &bias, &error), KT_E_NOT_FOUND);
    const void *data;
    uint64_t size;
    ck_assert_int_eq(kt_checkpoint_file(checkpoint, "config.json", &data, &size, &error), KT_E_NOT_FOUND);
    kt_checkpoint_close(checkpoint);
}
END_TEST

START_TEST(gathered_rows)
{
    float source[4][3] = {{1, 2, 3}, {1.0009765625f, -0.0f, 1e30f}, {NAN, INFINITY, 0}, {65520, 1e-8f, 4}};
    float out[3][4];
    uint16_t halves[2][3], before[2][3];
    struct kt_view view;
    ok(kt_view_dense(&view, KT_DTYPE_F32, source, sizeof source, 4, 3, &error));
    memset(out, 0, sizeof out);
    ok(kt_view_gather(&view, (const int64_t[]){3, 0, 3}, 3, KT_DTYPE_F32, out, sizeof out[0], &error));
    ck_assert_mem_eq(out[0], source[3], sizeof source[3]);
    ck_assert_mem_eq(out[1], source[0], sizeof source[0]);
    ck_assert_mem_eq(out[2], source[3], sizeof source[3]);
    ck_assert_float_eq(out[1][3], 0);
    ok(kt_view_gather(&view, (const int64_t[]){1, 3}, 2, KT_DTYPE_BF16, halves, 0, &error));
    ck_assert_uint_eq(halves[0][0], 0x3f80);
    ck_assert_uint_eq(halves[0][1], 0x8000);
    ok(kt_view_gather(&view, (const int64_t[]){2, 3}, 2, KT_DTYPE_F16, halves, 0, &error));
    ck_assert_uint_eq(halves[0][1], 0x7c00);
    ck_assert_uint_eq(halves[1][0], 0x7c00);
    memcpy(before, halves, sizeof halves);
    ck_assert_int_eq(kt_view_gather(&view, (const int64_t[]){0, 4}, 2, KT_DTYPE_F16, halves, 0, &error),
                     KT_E_RANGE);
    ck_assert_ptr_nonnull(strstr(error.message, "ids[1] is 4; the view has rows 0 to 3"));
    ck_assert_int_eq(kt_view_gather(&view, (const int64_t[]){-1}, 1, KT_DTYPE_F16, halves, 0, &error),
                     KT_E_RANGE);
    ck_assert_int_eq(kt_view_gather(&view, (const int64_t[]){0}, 1, KT_DTYPE_I8, halves, 0, &error),
                     KT_E_INVALID);
    ck_assert_mem_eq(before, halves, sizeof halves);
    ok(kt_view_gather(&view, NULL, 0, KT_DTYPE_F32, NULL, 0, &error));
}
END_TEST

/* Of long rows in blocks, piece by piece. */
START_TEST(gathered_blocks)
{
    enum { COLS = 2560, BLOCK = 34 };
    static uint8_t blocks[2 * COLS / 32 * BLOCK];
    static float out[COLS], row[COLS];
    struct kt_view view;
    for (size_t i = 0; i < sizeof blocks; i++)
        blocks[i] = i % BLOCK == 1 ? 0x2c : (uint8_t)(i * 37);
    ok(kt_view_dense(&view, KT_DTYPE_Q8_0, blocks, sizeof blocks, 2, COLS, &error));
    ok(kt_view_gather(&view, (const int64_t[]){1}, 1, KT_DTYPE_F32, out, 0, &error));
    ok(kt_view_row(&view, 1, row, &error));
    ck_assert_mem_eq(out, row, sizeof row);
}
END_TEST

START_TEST(files_of_a_folder)
{
    struct kt_checkpoint *checkpoint;
    const void *data, *again;
    uint64_t size;
    static const char *const wrong[] = {"", ".", "..", "../x", "a/b"};
    folder_make();
    folder_text("tokenizer.json", "{\"a\": 1}");
    folder_text("empty", "%s", "");
    shard_begin(&shard);
    shard_add(&shard, "q.weight", "BF16", 2, (uint64_t[]){6, 40});
    shard_write(&shard, "model.safetensors");
    ok(folder_open("", KT_IO_MMAP, &checkpoint, &error));
    ok(kt_checkpoint_file(checkpoint, "tokenizer.json", &data, &size, &error));
    ck_assert_uint_eq(size, 8);
    ck_assert_mem_eq(data, "{\"a\": 1}", 8);
    ok(kt_checkpoint_file(checkpoint, "tokenizer.json", &again, &size, &error));
    ck_assert_ptr_eq(data, again);
    ck_assert_int_eq(kt_checkpoint_file(checkpoint, "vocab.json", &data, &size, &error), KT_E_NOT_FOUND);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ck_assert_int_eq(kt_checkpoint_file(checkpoint, wrong[i], &data, &size, &error), KT_E_INVALID);
    kt_checkpoint_close(checkpoint);
    folder_remove();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("weight");
    tcase_add_loop_test(tests, as_experts_show_them, 0, 6);
    tcase_add_loop_test(tests, plain_weights_of_a_folder, 0, 2);
    tcase_add_test(tests, awq_is_decoded_once);
    tcase_add_loop_test(tests, weights_of_gguf, 0, 2);
    tcase_add_test(tests, gathered_rows);
    tcase_add_test(tests, gathered_blocks);
    tcase_add_test(tests, files_of_a_folder);
    return run_tests("weight", tests);
}

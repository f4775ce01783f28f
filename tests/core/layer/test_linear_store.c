/* SPDX-License-Identifier: Apache-2.0 */
/* test_linear_store.c - packed linears in a store: what comes back is what was packed, on any nodes. */
#include "tests/core/layer/stored_linear.h"
#include "core/weights/store/store_read.h"
#include "tests/support/random_view.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- weights and contexts ---- */

struct source {
    struct random_source weights;
    bool rescales; /* columns that are packed alone have scales of their own */
};

static const struct source sources[] = {
    {{"bf16", KT_DTYPE_BF16, 1, 2, 1, 0x3d, 0}, false},
    {{"rawint4", KT_DTYPE_INT4, 8, 4, 0, 0x77, 32}, false},
    {{"avx512_fp8", KT_DTYPE_F8_E4M3, 1, 1, 0, 0x33, 32}, false},
    {{"amx_int8", KT_DTYPE_BF16, 1, 2, 1, 0x3d, 0}, true},
    {{"amx_int4", KT_DTYPE_BF16, 1, 2, 1, 0x3d, 0}, true},
    {{"blis_int8", KT_DTYPE_BF16, 1, 2, 1, 0x3d, 0}, true},
};
enum { SOURCES = sizeof sources / sizeof sources[0] };

static struct kt_context *make_context(const struct source *source, const char *nodes)
{
    return random_view_context(&source->weights, NULL, 2, nodes, NULL);
}

static float *make_bias(uint64_t rows)
{
    float *bias = malloc(rows * sizeof *bias);
    ck_assert_ptr_nonnull(bias);
    for (uint64_t i = 0; i < rows; i++)
        bias[i] = (float)(i % 31) / 8 - 2;
    return bias;
}

/* ---- what comes back ---- */

/* In place and copied, rows over nodes and columns, which are cut; of one piece and of several. */
static void check_round_trip(const struct source *source, uint64_t rows, uint64_t cols)
{
    struct kt_context *context = make_context(source, NULL), *two = make_context(source, TWO_NODES);
    const char *backend = source->weights.backend;
    struct kt_view view = random_view(&source->weights, rows, cols);
    uint64_t outputs = TOKENS * rows * sizeof(float), all = outputs + cols * rows * sizeof(float);
    float *bias = make_bias(rows), *whole = stored_run_loaded(context, backend, &view, bias, KT_SPLIT_ROWS);
    float *cut = stored_run_loaded(two, backend, &view, bias, KT_SPLIT_COLS);
    ck_ok(stored_try(context, backend, &view, bias, NAME, &ck_error));
    for (int i = 0; i < 6; i++) {
        enum kt_split split = i & 4 ? KT_SPLIT_COLS : KT_SPLIT_ROWS;
        float *output =
            stored_run_stored(i < 2 ? context : two, backend, &view, i & 1 ? KT_IO_READ : KT_IO_MMAP, split);
        if (split == KT_SPLIT_ROWS)
            ck_assert_msg(memcmp(output, whole, all) == 0, "%s %s, case %d", backend,
                          kt_dtype_name(view.dtype), i);
        else if (source->rescales) /* the object of all columns has one scale for a row of them */
            ck_assert_msg(memcmp(output + TOKENS * rows, whole + TOKENS * rows, all - outputs) == 0,
                          "%s, case %d", backend, i);
        else
            ck_assert_msg(memcmp(output, cut, all) == 0, "%s %s, case %d", backend, kt_dtype_name(view.dtype),
                          i);
        free(output);
    }
    free(whole);
    free(cut);
    free(bias);
    random_view_free(&view);
    kt_context_destroy(two);
    kt_context_destroy(context);
}

static bool is_built(const struct source *source)
{
    struct kt_context *context = make_context(source, NULL);
    kt_context_destroy(context);
    return context != NULL;
}

START_TEST(a_store_gives_the_same_bits)
{
    if (is_built(&sources[_i]))
        check_round_trip(&sources[_i], 96, 512);
}
END_TEST

START_TEST(large_ones_come_in_pieces)
{
    struct kt_error error = {KT_OK, ""};
    struct kt_stored_linear_info info;
    if (!is_built(&sources[_i]))
        return;
    check_round_trip(&sources[_i], 1100, 4096);
    struct kt_checkpoint *checkpoint = stored_open(stored_folder, KT_IO_MMAP);
    ck_ok(kt_checkpoint_linear_find(checkpoint, NAME, &info, &ck_error));
    ck_assert_uint_gt(info.size, 2 * KT_STORE_PIECE);
    const struct kt_stored *stored = kt_stored_linear(checkpoint, NAME);
    int fd = open(stored_file, O_WRONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(lseek(fd, (off_t)(stored->offset + KT_STORE_PIECE + 99), SEEK_SET) < 0, 0);
    ck_assert_int_eq(write(fd, "damage", 6), 6);
    ck_assert_int_eq(close(fd), 0);
    char where[64];
    (void)snprintf(where, sizeof where, "offset %llu: the 1048576 bytes",
                   (unsigned long long)(stored->offset + KT_STORE_PIECE));
    ck_assert_int_eq(kt_checkpoint_verify_linear(checkpoint, NAME, &error), KT_E_FORMAT);
    ck_assert_msg(strstr(error.message, where) && strstr(error.message, FILE_NAME ".safetensors"), "%s",
                  error.message);
    kt_checkpoint_close(checkpoint);
}
END_TEST

/* What a backend uses where the model has it has no form of its own. */
START_TEST(what_is_used_in_place_is_not_stored)
{
    static const struct source q4_k = {{"llamafile", KT_DTYPE_Q4_K, 256, 144, 1, 0x10, 0}, false};
    struct kt_context *context = make_context(&q4_k, NULL);
    struct kt_error error = {KT_OK, ""};
    if (!context)
        return;
    struct kt_view view = random_view(&q4_k.weights, 32, 256);
    ck_assert_int_eq(stored_try(context, "llamafile", &view, NULL, NAME, &error), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "weights packed by backend llamafile cannot be stored"));
    ck_assert_int_eq(rmdir(stored_folder), 0); /* nothing is in it */
    random_view_free(&view);
    kt_context_destroy(context);
}
END_TEST

int main(void)
{
    TCase *backends = tcase_create("backends");
    tcase_set_timeout(backends, 120);
    tcase_add_checked_fixture(backends, stored_make_folder, sandbox_close);
    tcase_add_loop_test(backends, a_store_gives_the_same_bits, 0, SOURCES);
    tcase_add_loop_test(backends, large_ones_come_in_pieces, 0, getenv("KT_TEST_QUICK") ? 1 : SOURCES);
    tcase_add_test(backends, what_is_used_in_place_is_not_stored);
    return run_tests("linear store", backends);
}

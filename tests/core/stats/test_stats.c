/* SPDX-License-Identifier: Apache-2.0 */
/* test_stats.c - what layers count, and the files that hold it, damaged ones too. */
#include "tests/support/layer_fixture.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct kt_error error;
static char folder[32], path[64];

static void make_folder(void)
{
    strcpy(folder, "/tmp/kt-test-stats.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/stats.safetensors", folder);
}

static void remove_folder(void)
{
    (void)unlink(path);
    ck_assert_msg(rmdir(folder) == 0, "a file is left in %s", folder);
}

/* ---- counting ---- */

/* What the fixture's ids ask for, by the definition. */
static void expect_counts(const struct fixture *fixture, uint64_t times)
{
    uint64_t asked[5] = {0}, computed[5] = {0};
    double weights[5] = {0};
    struct kt_stats *stats;
    struct kt_stats_info info;
    for (uint32_t s = 0; s < fixture->n_tokens * fixture->top_k; s++) {
        int64_t id = fixture->ids[s];
        if (id < 0)
            continue;
        asked[id] += times;
        computed[id] += fixture->mask && fixture->mask[id] ? 0 : times;
        if (isfinite(fixture->router[s]))
            weights[id] += (double)times * (double)fixture->router[s];
    }
    ck_ok(kt_stats_create(5, &stats, &ck_error));
    ck_ok(kt_stats_add_layer(stats, 7, fixture->layer, &ck_error));
    kt_stats_info(stats, &info);
    ck_assert_uint_eq(info.n_layers, 1);
    ck_assert_uint_eq(info.layers[0], 7);
    ck_assert_uint_eq(info.n_batches[0], times);
    ck_assert_uint_eq(info.n_tokens[0], times * fixture->n_tokens);
    for (int e = 0; e < 5; e++) {
        ck_assert_uint_eq(info.counts[e], asked[e]);
        ck_assert_uint_eq(info.computed[e], computed[e]);
        ck_assert_double_le(fabs(info.weights[e] - weights[e]), 1e-12 * (1 + fabs(weights[e])));
    }
    kt_stats_destroy(stats);
}

/* In chunks, submitted, with masked, negative and repeated ids, and weights that are not numbers. */
START_TEST(layers_count)
{
    const uint8_t mask[5] = {0, 1, 0, 0, 1};
    struct fixture fixture = {.mask = mask, .max_tokens = 3, .n_tokens = 11};
    fixture_fill(&fixture, 3);
    fixture.ids[0] = -1;
    fixture.ids[2] = INT64_MIN;
    fixture.ids[4] = fixture.ids[5] = 3;
    fixture.router[6] = NAN;
    fixture.router[7] = INFINITY;
    fixture.router[8] = -0.5f;
    fixture_load(&fixture, 2);
    struct kt_forward forward = fixture_forward(&fixture);
    uint64_t ticket;
    ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
    ck_ok(kt_layer_submit(fixture.layer, &forward, &ticket, &ck_error));
    ck_ok(kt_wait(fixture.context, ticket, &ck_error));
    expect_counts(&fixture, 2);
    /* A batch that is refused, and one without tokens, count nothing. */
    int64_t id = fixture.ids[9];
    fixture.ids[9] = 5;
    ck_assert_int_eq(kt_layer_forward(fixture.layer, &forward, &error), KT_E_RANGE);
    fixture.ids[9] = id;
    forward.n_tokens = 0;
    ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
    ck_ok(kt_layer_submit(fixture.layer, &forward, &ticket, &ck_error));
    ck_ok(kt_wait(fixture.context, ticket, &ck_error));
    expect_counts(&fixture, 2);
    kt_layer_usage_reset(fixture.layer);
    expect_counts(&fixture, 0);
    fixture_free(&fixture);
}
END_TEST

/* An expert that comes late was asked for once, and so was a masked one. */
START_TEST(deferred_experts_count_once)
{
    const uint8_t mask[5] = {1, 0, 0, 0, 0};
    struct fixture fixture = {.mask = mask, .n_tokens = 9};
    struct kt_deferral_params params = KT_DEFERRAL_PARAMS_INIT;
    struct kt_deferral *deferral;
    fixture_fill(&fixture, 4);
    fixture_load(&fixture, 2);
    params.n_layers = 2;
    params.n_experts = 5;
    params.top_k = fixture.top_k;
    params.max_tokens = fixture.n_tokens;
    params.hidden_size = fixture.hidden;
    params.max_deferred = 1;
    params.per_token = 1;
    ck_ok(kt_deferral_create(fixture.context, &params, &deferral, &ck_error));
    struct kt_forward forward = fixture_forward(&fixture);
    for (uint32_t position = 0; position < 2; position++) {
        uint64_t ticket;
        ck_ok(kt_deferral_submit(deferral, position, fixture.layer, &forward, &ticket, &ck_error));
        ck_ok(kt_wait(fixture.context, ticket, &ck_error));
    }
    kt_deferral_destroy(deferral);
    expect_counts(&fixture, 2);
    fixture_free(&fixture);
}
END_TEST

/* ---- skew ---- */

START_TEST(skew_of_known_counts)
{
    struct kt_skew skew;
    const uint64_t even[4] = {6, 6, 6, 6}, alone[4] = {0, 9, 0, 0}, rising[4] = {1, 2, 3, 4}, none[4] = {0};
    uint64_t many[20];
    ck_ok(kt_usage_skew(even, 4, &skew, &ck_error));
    ck_assert_uint_eq(skew.n_used, 4);
    ck_assert_uint_eq(skew.most_used, 0);
    ck_assert_double_eq_tol(skew.most_share, 0.25, 1e-12);
    ck_assert_double_eq_tol(skew.top_share, 0.25, 1e-12);
    ck_assert_double_eq_tol(skew.gini, 0, 1e-12);
    ck_assert_double_eq_tol(skew.entropy, 1, 1e-12);
    ck_ok(kt_usage_skew(alone, 4, &skew, &ck_error));
    ck_assert_uint_eq(skew.n_used, 1);
    ck_assert_uint_eq(skew.most_used, 1);
    ck_assert_double_eq_tol(skew.top_share, 1, 1e-12);
    ck_assert_double_eq_tol(skew.gini, 0.75, 1e-12);
    ck_assert_double_eq_tol(skew.entropy, 0, 1e-12);
    /* Gini: the mean distance of all pairs, 20 / 16, by twice the mean, 5. */
    ck_ok(kt_usage_skew(rising, 4, &skew, &ck_error));
    ck_assert_double_eq_tol(skew.gini, 0.25, 1e-12);
    double bits = 0.1 * log2(10) + 0.2 * log2(5) + 0.3 * log2(10 / 3.0) + 0.4 * log2(2.5);
    ck_assert_double_eq_tol(skew.entropy, bits / 2, 1e-12);
    ck_ok(kt_usage_skew(none, 4, &skew, &ck_error));
    ck_assert_uint_eq(skew.n_used, 0);
    ck_assert(skew.most_share == 0 && skew.top_share == 0 && skew.gini == 0 && skew.entropy == 1);
    /* A tenth of 20 is two. Sums beyond 64 bits do not matter here. */
    for (uint64_t i = 0; i < 20; i++)
        many[i] = i < 2 ? UINT64_MAX : UINT64_MAX / 2;
    ck_ok(kt_usage_skew(many, 20, &skew, &ck_error));
    ck_assert_double_eq_tol(skew.top_share, 2 / 11.0, 1e-12);
    ck_ok(kt_usage_skew(many, 1, &skew, &ck_error));
    ck_assert(skew.most_share == 1 && skew.top_share == 1 && skew.gini == 0 && skew.entropy == 1);
    ck_assert_int_eq(kt_usage_skew(many, 0, &skew, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_usage_skew(NULL, 4, &skew, &error), KT_E_INVALID);
}
END_TEST

/* ---- files ---- */

/* A file with these tensors; data of each is one after the other. */
struct part {
    const char *name;
    uint32_t dtype, n_dims;
    uint64_t rows, cols;
    const void *data;
    uint64_t size;
};

static void write_parts(const struct part *parts, size_t n)
{
    struct kt_tensor_info infos[8];
    struct kt_writer_params params = KT_WRITER_PARAMS_INIT;
    struct kt_writer *writer;
    for (size_t i = 0; i < n; i++)
        infos[i] = (struct kt_tensor_info){.name = parts[i].name,
                                           .dtype = parts[i].dtype,
                                           .n_dims = parts[i].n_dims,
                                           .dims = {parts[i].rows, parts[i].cols}};
    params.tensors = infos;
    params.n_tensors = n;
    ck_ok(kt_writer_create(path, &params, &writer, &ck_error));
    for (size_t i = 0; i < n; i++)
        ck_ok(kt_writer_add(writer, parts[i].data, parts[i].size, &ck_error));
    ck_ok(kt_writer_finish(writer, &ck_error));
}

static const int64_t counts[6] = {1, 2, 3, 4, 5, 0};
#define COUNTS                                                 \
    {                                                          \
        "counts", KT_DTYPE_I64, 2, 2, 3, counts, sizeof counts \
    }

static struct kt_stats *open_parts(const struct part *parts, size_t n)
{
    struct kt_stats *stats = NULL;
    write_parts(parts, n);
    ck_ok(kt_stats_open(path, &stats, &ck_error));
    return stats;
}

static void refuse_parts(const struct part *parts, size_t n, const char *words)
{
    struct kt_stats *stats = NULL;
    write_parts(parts, n);
    ck_assert_int_eq(kt_stats_open(path, &stats, &error), KT_E_FORMAT);
    ck_assert_ptr_null(stats);
    ck_assert_msg(strstr(error.message, words) && strstr(error.message, "stats.safetensors: "), "%s",
                  error.message);
}

/* What was counted elsewhere: only counts. Then rows are added in any order, and all comes back. */
START_TEST(files_come_back)
{
    const struct part only[] = {COUNTS};
    const int64_t numbers[2] = {1, 9}, tokens[2] = {40, 50}, computed[6] = {1, 0, 0, 4, 5, 0};
    const double weights[6] = {0.5, 1, 1.5, -2, 0, 1e300};
    const struct part all[] = {COUNTS,
                               {"computed", KT_DTYPE_I64, 2, 2, 3, computed, sizeof computed},
                               {"weights", KT_DTYPE_F64, 2, 2, 3, weights, sizeof weights},
                               {"tokens", KT_DTYPE_I64, 1, 2, 0, tokens, sizeof tokens},
                               {"layers", KT_DTYPE_I64, 1, 2, 0, numbers, sizeof numbers}};
    struct kt_stats *sum = open_parts(only, 1), *other = open_parts(all, 5), *again = NULL;
    struct kt_stats_info info;
    ck_ok(kt_stats_add(sum, other, &ck_error));
    ck_ok(kt_stats_save(sum, path, &ck_error));
    ck_ok(kt_stats_open(path, &again, &ck_error));
    kt_stats_info(again, &info);
    ck_assert_uint_eq(info.n_layers, 3);
    ck_assert_uint_eq(info.n_experts, 3);
    ck_assert_mem_eq(info.layers, ((const uint64_t[]){0, 1, 9}), 24);
    ck_assert_mem_eq(info.n_tokens, ((const uint64_t[]){0, 40, 50}), 24);
    ck_assert_mem_eq(info.n_batches, ((const uint64_t[]){0, 0, 0}), 24);
    ck_assert_mem_eq(info.counts, ((const uint64_t[]){1, 2, 3, 5, 7, 3, 4, 5, 0}), 72);
    ck_assert_mem_eq(info.computed, ((const uint64_t[]){0, 0, 0, 1, 0, 0, 4, 5, 0}), 72);
    ck_assert_mem_eq(info.weights, ((const double[]){0, 0, 0, 0.5, 1, 1.5, -2, 0, 1e300}), 72);
    /* To itself: twice as much. */
    ck_ok(kt_stats_add(again, again, &ck_error));
    kt_stats_info(again, &info);
    ck_assert_mem_eq(info.counts, ((const uint64_t[]){2, 4, 6, 10, 14, 6, 8, 10, 0}), 72);
    kt_stats_destroy(again);
    kt_stats_destroy(other);
    kt_stats_destroy(sum);
}
END_TEST

START_TEST(wrong_files)
{
    const double nan[6] = {0, 0, 0, NAN, 0, 0};
    const uint8_t bytes[8] = {0};
#define REFUSE(words, ...)                           \
    refuse_parts((const struct part[]){__VA_ARGS__}, \
                 sizeof((const struct part[]){__VA_ARGS__}) / sizeof(struct part), words)
    REFUSE("holds no tensor \"counts\"", {"weights", KT_DTYPE_F64, 2, 2, 3, nan, sizeof nan});
    REFUSE("\"counts\" is u8, but must be i64", {"counts", KT_DTYPE_U8, 2, 2, 3, bytes, 6});
    REFUSE("\"counts\" has 1 dimensions, but must have 2", {"counts", KT_DTYPE_I64, 1, 6, 0, counts, 48});
    REFUSE("for 0 layers of 3 experts", {"counts", KT_DTYPE_I64, 2, 0, 3, NULL, 0});
    REFUSE("for 3 layers of 0 experts", {"counts", KT_DTYPE_I64, 2, 3, 0, NULL, 0});
    REFUSE("for 0 layers of 1152921504606846975 experts",
           {"counts", KT_DTYPE_I64, 2, 0, UINT64_MAX / 16, NULL, 0});
    int64_t *many = calloc(65537, sizeof *many);
    REFUSE("for 65537 layers of 1 experts", {"counts", KT_DTYPE_I64, 2, 65537, 1, many, 65537 * 8});
    REFUSE("for 1 layers of 65537 experts", {"counts", KT_DTYPE_I64, 2, 1, 65537, many, 65537 * 8});
    free(many);
}
END_TEST

START_TEST(wrong_columns)
{
    const int64_t falling[2] = {3, 3}, negative[2] = {1, -1}, more[6] = {1, 2, 4, 0, 0, 0};
    const int64_t huge[6] = {INT64_MAX, 1, 0, 0, 0, 0}, below[6] = {0, 0, 0, 0, -5, 0};
    const double nan[6] = {0, 0, 0, NAN, 0, 0}, infinite[6] = {-INFINITY, 0, 0, 0, 0, 0};
    REFUSE("\"counts\", element 4 is -5", {"counts", KT_DTYPE_I64, 2, 2, 3, below, 48});
    REFUSE("\"counts\" adds up to more", {"counts", KT_DTYPE_I64, 2, 2, 3, huge, 48});
    REFUSE("\"layers\", element 1 is 3; numbers must rise", COUNTS,
           {"layers", KT_DTYPE_I64, 1, 2, 0, falling, 16});
    REFUSE("\"layers\", element 1 is -1", COUNTS, {"layers", KT_DTYPE_I64, 1, 2, 0, negative, 16});
    REFUSE("\"tokens\", element 1 is -1", COUNTS, {"tokens", KT_DTYPE_I64, 1, 2, 0, negative, 16});
    REFUSE("\"layers\" is not for the 2 layers of 3 experts", COUNTS,
           {"layers", KT_DTYPE_I64, 1, 1, 0, falling, 8});
    REFUSE("\"computed\" is not for the 2 layers", COUNTS, {"computed", KT_DTYPE_I64, 2, 3, 2, more, 48});
    REFUSE("\"computed\", element 2 is 4, but \"counts\" has 3", COUNTS,
           {"computed", KT_DTYPE_I64, 2, 2, 3, more, 48});
    REFUSE("\"weights\" is i64, but must be f64", COUNTS, {"weights", KT_DTYPE_I64, 2, 2, 3, counts, 48});
    REFUSE("\"weights\", element 3 is nan", COUNTS, {"weights", KT_DTYPE_F64, 2, 2, 3, nan, 48});
    REFUSE("\"weights\", element 0 is -inf", COUNTS, {"weights", KT_DTYPE_F64, 2, 2, 3, infinite, 48});
}
END_TEST

/* A file that is cut off anywhere is refused, and nothing leaks. */
START_TEST(cut_files)
{
    struct stat whole;
    struct kt_stats *stats = open_parts((const struct part[]){COUNTS}, 1), *cut = NULL;
    ck_ok(kt_stats_save(stats, path, &ck_error));
    kt_stats_destroy(stats);
    ck_assert_int_eq(stat(path, &whole), 0);
    for (off_t size = whole.st_size; size-- > 0;) {
        ck_assert_int_eq(truncate(path, size), 0);
        ck_assert_int_ne(kt_stats_open(path, &cut, &error), KT_OK);
        ck_assert_ptr_null(cut);
    }
    (void)unlink(path);
    ck_assert_int_ne(kt_stats_open(path, &cut, &error), KT_OK);
    ck_assert_int_ne(kt_stats_open(folder, &cut, &error), KT_OK);
}
END_TEST

/* Sums that would not be numbers any more change nothing. */
START_TEST(sums_that_overflow)
{
    const int64_t large[3] = {INT64_MAX - 5, 0, 5}, one[3] = {0, 1, 0}, tokens[1] = {INT64_MAX};
    const double weights[3] = {1.7e308, 0, 0};
    const struct part parts[] = {{"counts", KT_DTYPE_I64, 2, 1, 3, large, 24}};
    struct kt_stats *full = open_parts(parts, 1);
    const struct part more[] = {{"counts", KT_DTYPE_I64, 2, 1, 3, one, 24},
                                {"weights", KT_DTYPE_F64, 2, 1, 3, weights, 24},
                                {"tokens", KT_DTYPE_I64, 1, 1, 0, tokens, 8}};
    struct kt_stats *small = open_parts(more, 1), *heavy = open_parts(more, 2);
    struct kt_stats *long_one = open_parts(more, 3);
    struct kt_stats_info info;
    ck_assert_int_eq(kt_stats_add(full, small, &error), KT_E_RANGE);
    kt_stats_info(full, &info);
    ck_assert_mem_eq(info.counts, large, sizeof large);
    ck_assert_int_eq(kt_stats_add(heavy, heavy, &error), KT_E_RANGE);
    kt_stats_info(heavy, &info);
    ck_assert(info.weights[0] == 1.7e308 && info.counts[1] == 1);
    ck_assert_int_eq(kt_stats_add(heavy, small, &error), KT_OK);
    ck_assert_int_eq(kt_stats_add(long_one, long_one, &error), KT_E_RANGE);
    ck_assert_msg(strstr(error.message, "layer 0") != NULL, "%s", error.message);
    struct kt_stats *wide;
    ck_ok(kt_stats_create(4, &wide, &ck_error));
    ck_assert_int_eq(kt_stats_add(wide, small, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_stats_save(wide, path, &error), KT_E_INVALID); /* no layer */
    ck_assert_int_eq(kt_stats_add(NULL, small, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_stats_create(0, &wide, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_stats_create(65537, &wide, &error), KT_E_INVALID);
    kt_stats_destroy(wide);
    kt_stats_destroy(long_one);
    kt_stats_destroy(heavy);
    kt_stats_destroy(small);
    kt_stats_destroy(full);
}
END_TEST

/* ---- the writer ---- */

START_TEST(wrong_tensors)
{
    const struct kt_tensor_info good = {.name = "a", .dtype = KT_DTYPE_F32, .n_dims = 1, .dims = {2}};
    struct kt_tensor_info infos[2] = {good, good};
    struct kt_writer_params params = KT_WRITER_PARAMS_INIT;
    struct kt_writer *writer = NULL;
    params.tensors = infos;
    params.n_tensors = 2;
#define WRONG(words)                                                                  \
    ck_assert_int_eq(kt_writer_create(path, &params, &writer, &error), KT_E_INVALID); \
    ck_assert_ptr_null(writer);                                                       \
    ck_assert_msg(strstr(error.message, words) != NULL, "%s", error.message);         \
    infos[1] = good;                                                                  \
    infos[1].name = "b"
    WRONG("\"a\" is a duplicate");
    infos[1].name = "__metadata__";
    WRONG("is a duplicate");
    infos[1].name = "";
    WRONG("1 to 256 characters");
    infos[1].name = "a\nb";
    WRONG("control character");
    infos[1].dtype = KT_DTYPE_Q4_K;
    WRONG("no dtype q4_k");
    infos[1].dtype = 77777;
    WRONG("no dtype ?");
    infos[1].n_dims = 9;
    WRONG("too many dimensions");
    infos[1].dims[0] = UINT64_MAX / 4;
    WRONG("too large");
    infos[1].dims[0] = UINT64_MAX / 2 + 1;
    WRONG("too large");
    params.struct_size = 8;
    WRONG("struct_size");
    params.struct_size = sizeof params;
    ck_assert_int_eq(kt_writer_create("", &params, &writer, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_writer_create("/nowhere/at/all", &params, &writer, &error), KT_E_IO);
    /* Too many bytes, and too few. */
    const float data[5] = {0};
    ck_ok(kt_writer_create(path, &params, &writer, &ck_error));
    ck_assert_ptr_nonnull(strstr(kt_writer_temporary(writer), path));
    ck_ok(kt_writer_add(writer, data, 12, &ck_error));
    ck_assert_int_eq(kt_writer_add(writer, data, 5, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_writer_finish(writer, &error), KT_E_INVALID);
    ck_assert_msg(strstr(error.message, "16 bytes, but 12") != NULL, "%s", error.message);
    ck_assert_int_ne(access(path, F_OK), 0);
    kt_writer_cancel(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stats");
    TCase *serving = tcase_create("serving"), *files = tcase_create("files");
    tcase_add_test(serving, layers_count);
    tcase_add_test(serving, deferred_experts_count_once);
    tcase_add_test(serving, skew_of_known_counts);
    tcase_add_checked_fixture(files, make_folder, remove_folder);
    tcase_add_test(files, files_come_back);
    tcase_add_test(files, wrong_files);
    tcase_add_test(files, wrong_columns);
    tcase_add_test(files, cut_files);
    tcase_add_test(files, sums_that_overflow);
    tcase_add_test(files, wrong_tensors);
    suite_add_tcase(suite, serving);
    suite_add_tcase(suite, files);
    return run_suite(suite);
}

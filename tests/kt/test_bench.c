/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of kt bench that decide what its figures mean: routing and weights; test_bench_reads.c has reads.
 */
#include "tools/kt/bench/bench.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The command's own ends the process with a message. */
void *kt_cli_alloc(const struct kt_cli *cli, size_t n, size_t size)
{
    (void)cli;
    void *memory = calloc(n, size);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

/* ---- routing ----------------------------------------------------------------------------------
 */

#define N_EXPERTS 32
#define TOP_K 4
#define N_COPIES 3

/* One token a call: a copy's experts are all used once before one comes again. */
START_TEST(route_takes_least_recently_used)
{
    struct bench_route route;
    bench_route_create(NULL, &route, N_EXPERTS, TOP_K, N_COPIES);
    bool used[N_COPIES][N_EXPERTS] = {{false}};
    for (unsigned call = 0; call < N_COPIES * N_EXPERTS / TOP_K; call++) {
        int64_t ids[TOP_K];
        float weights[TOP_K];
        uint32_t copy;
        ck_assert_uint_eq(bench_route_next(&route, 1, ids, weights, &copy), TOP_K);
        ck_assert_uint_eq(copy, call % N_COPIES);
        for (unsigned k = 0; k < TOP_K; k++) {
            ck_assert(ids[k] >= 0 && ids[k] < N_EXPERTS);
            ck_assert(!used[copy][ids[k]]);
            used[copy][ids[k]] = true;
        }
    }
    bench_route_destroy(&route);
}
END_TEST

/* Recorded ids keep who shares an expert, and -1; the experts that stand for them come in turns. */
START_TEST(routes_are_replayed)
{
    const int64_t labels[6] = {900, -1, 17, 900, 3, -5};
    uint8_t used[N_EXPERTS] = {0};
    int64_t ids[6];
    struct bench_route route;
    uint32_t copy;
    bench_route_create(NULL, &route, N_EXPERTS, TOP_K, N_COPIES);
    bench_route_widen(NULL, &route, 901);
    for (uint32_t call = 0; call < N_COPIES * (N_EXPERTS / 3); call++) {
        ck_assert_uint_eq(bench_route_replay(&route, labels, 6, ids, &copy), 3);
        ck_assert_uint_eq(copy, call % N_COPIES);
        ck_assert(ids[0] == ids[3] && ids[1] == -1 && ids[5] == -1);
        ck_assert(ids[0] != ids[2] && ids[0] != ids[4] && ids[2] != ids[4]);
        for (int i = 0; i < 6; i++)
            ck_assert(ids[i] < N_EXPERTS);
        if (copy == 0)
            ck_assert_msg(!used[ids[0]]++ && !used[ids[2]]++ && !used[ids[4]]++,
                          "an expert came back before all others");
    }
    bench_route_destroy(&route);
}
END_TEST

START_TEST(route_draws_distinct_experts)
{
    enum { N_TOKENS = 16 };
    struct bench_route route;
    bench_route_create(NULL, &route, N_EXPERTS, TOP_K, 1);
    double touched = 0;
    for (unsigned call = 0; call < 200; call++) {
        int64_t ids[N_TOKENS * TOP_K];
        float weights[N_TOKENS * TOP_K];
        uint32_t copy, n_used = 0, n = bench_route_next(&route, N_TOKENS, ids, weights, &copy);
        bool used[N_EXPERTS] = {false};
        for (unsigned token = 0; token < N_TOKENS; token++) {
            float sum = 0;
            for (unsigned k = 0; k < TOP_K; k++) {
                int64_t id = ids[token * TOP_K + k];
                for (unsigned other = 0; other < k; other++)
                    ck_assert_int_ne(id, ids[token * TOP_K + other]);
                n_used += !used[id];
                used[id] = true;
                ck_assert(weights[token * TOP_K + k] > 0);
                sum += weights[token * TOP_K + k];
            }
            ck_assert(fabsf(sum - 1) < 1e-5f);
        }
        ck_assert_uint_eq(n, n_used);
        touched += n;
    }
    /* A token misses an expert with probability 1 - top_k / n, all do with its 16th power. */
    double expected = N_EXPERTS * (1 - pow(1 - (double)TOP_K / N_EXPERTS, N_TOKENS));
    ck_assert(fabs(touched / 200 - expected) < 0.4);
    bench_route_destroy(&route);
}
END_TEST

/* ---- weights ----------------------------------------------------------------------------------
 */

START_TEST(sources_have_their_deviation)
{
    enum { HIDDEN = 512, INTERMEDIATE = 256 };
    char names[512];
    snprintf(names, sizeof names, "%s", bench_source_names());
    unsigned n_types = 0;
    for (char *rest = names, *name; (name = strsep(&rest, " ")) != NULL; n_types++) {
        const struct bench_source_type *type = bench_source_find(name);
        struct bench_source source;
        struct kt_error error;
        ck_assert_ptr_nonnull(type);
        ck_assert_int_eq(bench_source_create(type, HIDDEN, INTERMEDIATE, 3, KT_ACTIVATION_SILU, &source,
                                             &error),
                         KT_OK);
        ck_assert_uint_eq(source.n_distinct, 3);
        ck_assert(memcmp(source.experts[0].up.data, source.experts[1].up.data, 1024) != 0);
        double sum = 0, squares = 0;
        float row[INTERMEDIATE];
        for (uint64_t r = 0; r < HIDDEN; r++) {
            ck_assert_int_eq(kt_view_row(&source.experts[2].down, r, row, &error), KT_OK);
            for (unsigned i = 0; i < INTERMEDIATE; i++) {
                if (!isfinite(row[i])) /* an assertion for each number is a write to a file */
                    ck_abort_msg("%s", name);
                sum += (double)row[i];
                squares += (double)row[i] * (double)row[i];
            }
        }
        double n = (double)HIDDEN * INTERMEDIATE, sigma = sqrt(squares / n);
        double spread = type->dtype == KT_DTYPE_MXFP4 ? 0.42 : 0.08; /* its scales are powers of 2 */
        ck_assert_msg(fabs(sigma * sqrt(INTERMEDIATE) - 1) < spread, "%s: %g", name, sigma);
        ck_assert_msg(fabs(sum / n) < 0.1 * sigma, "%s: %g", name, sum / n);
        bench_source_destroy(&source);
    }
    ck_assert_uint_ge(n_types, 38);
}
END_TEST

START_TEST(usual_sources_are_found)
{
    static const char *const usual[][2] = {
        {"f32 f16 bf16 q4_0 q4_k", "q4_k"},
        {"bf16 f16 f32 f64 and GGUF's blocks", "bf16"},
        {"f32 bf16", "bf16"},
        {"int4 f4_e2m1", "int4_g32"},
        {"f8_e4m3", "fp8_block"},
        {"  f64 f4_e2m1", "fp4_g32"},
        {"every format that the core decodes", "bf16"},
        {"", "bf16"},
    };
    const char *name = bench_source_usual(usual[_i][0])->name;
    ck_assert_msg(strcmp(name, usual[_i][1]) == 0, "of \"%s\": %s", usual[_i][0], name);
}
END_TEST

START_TEST(sources_refuse_cut_blocks)
{
    uint32_t n;
    ck_assert_uint_eq(bench_source_size(bench_source_find("q4_k"), 2048, 700, 8, KT_ACTIVATION_SILU, &n), 0);
    ck_assert_uint_eq(bench_source_size(bench_source_find("q4_k"), 512, 256, 2, KT_ACTIVATION_SILU, &n),
                      2 * 3 * 512 * 256 * 9 / 16);
    ck_assert_uint_eq(bench_source_size(bench_source_find("bf16"), UINT64_MAX / 2, 700, 8, KT_ACTIVATION_SILU,
                                        &n),
                      0);
    ck_assert_uint_eq(bench_source_size(bench_source_find("int4_g32"), 512, 256, 2, KT_ACTIVATION_SILU, &n),
                      2 * 3 * 512 * 256 * 9 / 16);
    ck_assert_uint_eq(bench_source_size(bench_source_find("q4_k"), 512, 256, 2, KT_ACTIVATION_RELU2, &n),
                      2 * 2 * 512 * 256 * 9 / 16);
    ck_assert_uint_eq(bench_source_size(bench_source_find("int4_g32"), 512, 252, 2, KT_ACTIVATION_SILU, &n),
                      0);
    ck_assert_ptr_null(bench_source_find("int4_g7"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench");
    TCase *tcase = tcase_create("bench");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, routes_are_replayed);
    tcase_add_test(tcase, route_takes_least_recently_used);
    tcase_add_test(tcase, route_draws_distinct_experts);
    tcase_add_test(tcase, sources_have_their_deviation);
    tcase_add_loop_test(tcase, usual_sources_are_found, 0, 8);
    tcase_add_test(tcase, sources_refuse_cut_blocks);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_families.c - tiny random models of each family, from safetensors and from GGUF, beside the logits that
 * make_expected.py recorded of Hugging Face transformers. What deliberate errors give there must be far away,
 * so that each of them, made in the engine, would fail the test. With KT_TEST_ALL also second models of
 * families, and longer runs of all.
 */
#include "tests/engine/families/world.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"

#include <check.h>
#include <kt/text.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Inputs of matrices, keys and values rounded to bfloat16: half a unit in the last of 8 bits, 2^-9, at
 * most 1.1e-3 on average, in 14 places of each of 4 layers: 1.1e-3 * sqrt(56) = 8e-3. Attention and routing
 * pass it on with a slope above 1. */
#define BF16_TOLERANCE 3e-2

static void compare(const struct world *w, const float *logits, double tolerance, const char *what)
{
    const struct family *f = &w->family;
    for (int i = 0; i < f->n_keep; i++) {
        double error = numbers_away(logits + (size_t)f->keep[i] * f->vocabulary, f->vocabulary, f->keep[i],
                                    w->expected + (size_t)i * RECORDED);
        ck_assert_msg(error < SHOWN * tolerance, "%s, %s: token %u: relative difference %g", f->name, what,
                      f->keep[i], error);
    }
}

/* To the first n tokens; states cannot be taken back, so those are computed again. */
static void go_back(struct world *w, uint32_t n)
{
    struct kt_model_info info;
    kt_model_info(w->model, &info);
    ck_ok(kt_session_truncate(w->session, info.has_states ? 0 : n, &ck_error));
    const struct kt_step one = {w->session, w->ids, n, 0, NULL};
    if (info.has_states)
        ck_ok(kt_model_step(w->model, &one, 1, &ck_error));
}

static void run_whole(struct world *w, float *logits, const char *what)
{
    ck_ok(kt_session_truncate(w->session, 0, &ck_error));
    world_step(w, logits, 0, w->family.n_tokens, w->family.n_tokens);
    compare(w, logits, TOLERANCE, what);
}

/* In pieces; token by token over the border of a page of the cache. */
static void run_pieces(struct world *w, float *logits)
{
    const struct family *f = &w->family;
    uint64_t row = f->vocabulary;
    ck_ok(kt_session_truncate(w->session, 0, &ck_error));
    memset(logits, 0, f->n_tokens * row * sizeof(*logits));
    world_step(w, logits, 0, f->n_tokens, 37);
    compare(w, logits, TOLERANCE, "in pieces");
    go_back(w, 60);
    memset(logits + 60 * row, 0, (f->n_tokens - 60) * row * sizeof(*logits));
    world_step(w, logits, 60, 70, 1);
    world_step(w, logits, 70, f->n_tokens, f->n_tokens);
    compare(w, logits, TOLERANCE, "token by token");
}

/* The plan of config.json alone is that of the whole folder. */
static void compare_plans(const struct world *w)
{
    /* whose networks are as wide as those of the file */
    static const char *const by_file[] = {"gemma4-e2b", "more/gemma4", "hunyuan-moe", "more/hunyuan-moe"};
    struct kt_model_plan whole, alone;
    struct kt_error error;
    const void *json;
    uint64_t size;
    ck_ok(kt_checkpoint_file(w->checkpoint, "config.json", &json, &size, &ck_error));
    ck_ok(kt_model_plan(w->context, w->checkpoint, NULL, &whole, &ck_error));
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    params.experts = w->checkpoint;
    ck_fails(kt_model_plan_config(w->context, json, size, &params, &alone, &ck_error), KT_E_INVALID,
             "experts");
    ck_fails(kt_model_plan_config(w->context, NULL, 0, NULL, &alone, &ck_error), KT_E_INVALID, "NULL");
    enum kt_status status = kt_model_plan_config(w->context, json, size, NULL, &alone, &error);
    for (size_t i = 0; i < sizeof(by_file) / sizeof(by_file[0]); i++)
        if (strcmp(w->family.name, by_file[i]) == 0) {
            ck_assert_int_eq(status, KT_E_NOT_FOUND);
            return;
        }
    ck_assert_msg(status == KT_OK, "%s: %s", w->family.name, error.message);
    ck_assert_str_eq(alone.model.family, whole.model.family);
    ck_assert_msg(alone.weight_size == whole.weight_size && alone.mapped_size == whole.mapped_size,
                  "%s: config.json alone: weights of %llu and %llu bytes, not %llu and %llu", w->family.name,
                  (unsigned long long)alone.weight_size, (unsigned long long)alone.mapped_size,
                  (unsigned long long)whole.weight_size, (unsigned long long)whole.mapped_size);
    ck_assert_uint_eq(alone.cache_size, whole.cache_size);
    ck_assert_uint_eq(alone.buffer_size, whole.buffer_size);
    ck_assert_uint_eq(alone.model.n_weights, whole.model.n_weights);
    /* Tensors of the file have a byte each; routers may be float32 beside bfloat16. */
    ck_assert_uint_le(alone.row_size, whole.row_size);
    ck_assert_uint_le(whole.row_size, alone.row_size + alone.row_size / 4);
}

START_TEST(logits_are_those_of_transformers)
{
    static const char *const files[N_FILES] = {"safetensors", "GGUF", "GGUF in float32"};
    struct world w;
    if (!world_open(&w, _i, "reference"))
        return;
    float *logits = malloc((size_t)w.family.n_tokens * w.family.vocabulary * sizeof(*logits));
    for (int file = 0; file < (family_has_gguf(&w.family) ? N_FILES : GGUF); file++) {
        world_open_model(&w, (enum file)file, KT_DTYPE_F32);
        run_whole(&w, logits, files[file]);
        if (file == SAFETENSORS) {
            run_pieces(&w, logits);
            compare_plans(&w);
        }
        world_close_model(&w);
    }
    free(logits);
    world_close(&w);
}
END_TEST

/* Weights of few bits are the numbers that they stand for, wherever a family has them. */
START_TEST(coded_weights_are_their_numbers)
{
    static const enum file pairs[2][2] = {{FP8, FP8_DECODED}, {QUANTS, QUANTS_DECODED}};
    struct world w;
    if (!world_open(&w, _i, "reference"))
        return;
    const uint32_t n = 40; /* as good as all, and cheaper */
    float *logits[2];
    size_t row = w.family.vocabulary, size = n * row * sizeof(**logits);
    bool has_bytes = false; /* MXFP4, which no model has beside FP8 */
    for (int i = 0; i < w.family.n_sources; i++)
        has_bytes |= w.family.sources[i].is_byte;
    for (int i = has_bytes; i < (family_has_gguf(&w.family) ? 2 : 1); i++) {
        for (int way = 0; way < 2; way++) {
            logits[way] = malloc(size);
            world_open_model(&w, pairs[i][way], KT_DTYPE_F32);
            world_step(&w, logits[way], 0, n, n);
            world_close_model(&w);
        }
        double away = world_difference(logits[0], logits[1], n * row);
        ck_assert_msg(away < 1e-6, "%s: %s: relative difference %g", w.family.name,
                      i ? "quantized GGUF" : "FP8", away);
        free(logits[0]);
        free(logits[1]);
    }
    world_close(&w);
}
END_TEST

/* Three tokens a step of one session, one of another, which goes on in a fork. */
START_TEST(sessions_mix)
{
    struct world w;
    struct kt_session *other, *fork;
    if (!world_open(&w, _i, "reference"))
        return;
    const struct family *f = &w.family;
    uint64_t row = f->vocabulary;
    float *logits = calloc(f->n_tokens, row * sizeof(*logits)),
          *others = calloc(f->n_tokens, row * sizeof(*others));
    world_open_model(&w, SAFETENSORS, KT_DTYPE_F32);
    ck_ok(kt_session_open(w.model, &other, &ck_error));
    for (uint32_t at = 0; 3 * at < f->n_tokens; at++) {
        uint32_t n = f->n_tokens - 3 * at < 3 ? f->n_tokens - 3 * at : 3;
        const struct kt_step both[] = {{w.session, w.ids + 3 * at, n, n, logits + 3 * at * row},
                                       {other, w.ids + at, 1, 1, others + at * row}};
        ck_ok(kt_model_step(w.model, both, 2, &ck_error));
    }
    uint32_t done = (uint32_t)kt_session_tokens(other), rest = f->n_tokens - done;
    ck_ok(kt_session_fork(other, done, &fork, &ck_error));
    const struct kt_step last[] = {{other, w.ids, 1, 0, NULL},
                                   {fork, w.ids + done, rest, rest, others + done * row}};
    ck_ok(kt_model_step(w.model, last, 2, &ck_error));
    compare(&w, logits, TOLERANCE, "beside another session");
    compare(&w, others, TOLERANCE, "beside a prompt, then in a fork");
    kt_session_close(fork);
    kt_session_close(other);
    world_close_model(&w);
    free(logits);
    free(others);
    world_close(&w);
}
END_TEST

/* Where an indexer selects, rounding changes which rows it does: only tokens that see them all are compared.
 */
static void keep_all_rows(struct family *f)
{
    const double budget = expression_value(f, &(struct scope){0}, "index_topk");
    while (budget > 0 && f->n_keep > 1 && f->keep[f->n_keep - 1] >= budget)
        f->n_keep--;
}

/* Beside float32, whose logits are right as far as the tests before tell: all logits count here, not sums. */
START_TEST(bfloat16_is_near)
{
    static const char *const backends[] = {"reference", "bf16"};
    float *logits[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        struct world w;
        if (!world_open(&w, _i, backends[i]))
            return;
        keep_all_rows(&w.family);
        const struct family *f = &w.family;
        const bool is_json = i == 0 || _i % 2 || !family_has_gguf(f);
        logits[i] = malloc((size_t)f->n_tokens * f->vocabulary * sizeof(*logits[i]));
        world_open_model(&w, is_json ? SAFETENSORS : GGUF, i == 0 ? KT_DTYPE_F32 : KT_DTYPE_BF16);
        world_step(&w, logits[i], 0, f->n_tokens, f->n_tokens);
        world_close_model(&w);
        for (int k = 0; k < f->n_keep && i == 1; k++) {
            const size_t at = (size_t)f->keep[k] * f->vocabulary;
            double error = world_difference(logits[1] + at, logits[0] + at, f->vocabulary);
            ck_assert_msg(error < BF16_TOLERANCE, "%s, in bfloat16: token %u: relative difference %g",
                          f->name, f->keep[k], error);
        }
        world_close(&w);
    }
    free(logits[0]);
    free(logits[1]);
}
END_TEST

/* The session goes on as what a file has of it; without states also after a step back. */
static void save_and_restore(struct world *w)
{
    const char *path = sandbox_path("session");
    int32_t *ids;
    uint64_t n_ids;
    const uint32_t n = (uint32_t)kt_session_tokens(w->session);
    ck_ok(kt_session_save(w->session, path, w->ids, &ck_error));
    kt_session_close(w->session);
    ck_ok(kt_session_restore(w->model, path, &w->session, &ids, &n_ids, &ck_error));
    ck_assert_uint_eq(n_ids, n);
    ck_assert_mem_eq(ids, w->ids, n * sizeof(*ids));
    kt_ids_free(ids);
    go_back(w, n - 5);
    const struct kt_step again = {w->session, w->ids + n - 5, 5, 0, NULL};
    ck_ok(kt_model_step(w->model, &again, 1, &ck_error));
}

/* The same logits, whatever threads there are and however a prompt is cut. */
START_TEST(bits_are_the_same)
{
    static const char *const threads[] = {"core.threads=1", "core.threads=2"};
    float *logits[2];
    for (int way = 0; way < 2; way++) {
        struct world w;
        if (!world_open_with(&w, _i, "bf16", threads[way], true))
            return;
        const uint32_t n = w.family.n_tokens, row = w.family.vocabulary, cut = n < 90 ? n - 16 : 74;
        logits[way] = malloc((size_t)n * row * sizeof(**logits));
        world_open_model(&w, SAFETENSORS, KT_DTYPE_BF16);
        world_step(&w, logits[way], 0, way ? cut : n, way ? 37 : n);
        world_step(&w, logits[way], way ? cut : n, way ? n - 10 : n, 3);
        if (way)
            save_and_restore(&w);
        world_step(&w, logits[way], way ? n - 10 : n, n, 1);
        for (size_t token = 0; way && token < n; token++)
            ck_assert_msg(memcmp(logits[0] + token * row, logits[1] + token * row, row * sizeof(**logits)) ==
                              0,
                          "%s: token %zu has other bits in small steps", w.family.name, token);
        world_close_model(&w);
        world_close(&w);
    }
    free(logits[0]);
    free(logits[1]);
}
END_TEST

/* What the engine makes of a model with that error, or refuses by name. */
static void run_error(struct world *w, int error, float *logits)
{
    const struct family *f = &w->family;
    struct kt_error problem = {KT_OK, ""};
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    params.cache_dtype = KT_DTYPE_F32;
    ck_ok(kt_checkpoint_open(world_write(f, SAFETENSORS), NULL, &w->checkpoint, &ck_error));
    enum kt_status status = kt_model_open(w->context, w->checkpoint, &params, &w->model, &problem);
    if (status == KT_OK) {
        ck_ok(kt_session_open(w->model, &w->session, &ck_error));
        world_step(w, logits, 0, f->n_tokens, f->n_tokens);
        world_close_model(w);
        const uint32_t last = f->keep[f->n_keep - 1];
        double away =
            numbers_away(logits + (size_t)last * f->vocabulary, ERROR_LOGITS, last, world_error(w, error));
        ck_assert_msg(away < SHOWN * TOLERANCE, "%s with the error %s: relative difference %g", f->name,
                      family_error_name(f, error), away);
    } else {
        ck_assert_msg(status == KT_E_UNSUPPORTED, "%s with the error %s: %s", f->name,
                      family_error_name(f, error), problem.message);
        kt_checkpoint_close(w->checkpoint);
    }
}

/* Each error is far from the truth, and a model which has it has its logits: those of transformers again. */
START_TEST(errors_show)
{
    struct world w;
    for (int i = 0, n = 1; i < n; i++) {
        if (!world_open(&w, _i, "reference"))
            return;
        const struct family *f = &w.family;
        double away = numbers_apart(world_error(&w, i), world_last(&w));
        n = f->n_errors;
        ck_assert_int_ge(n, f->like[0] ? 1 : 3);
        ck_assert_msg(away > 20 * TOLERANCE, "%s: the error %s is only %g away", f->name,
                      family_error_name(f, i), away);
        float *logits = malloc((size_t)f->n_tokens * f->vocabulary * sizeof(*logits));
        if (family_spoil(&w.family, i))
            run_error(&w, i, logits);
        free(logits);
        world_close(&w);
    }
}
END_TEST

/* A difference that the bound of all logits would show is found in what was recorded of them. */
START_TEST(recorded_sums_show_differences)
{
    struct world w;
    if (!world_open(&w, _i, "reference"))
        return;
    world_open_model(&w, SAFETENSORS, KT_DTYPE_F32);
    const struct family *f = &w.family;
    float *logits = malloc((size_t)f->n_tokens * f->vocabulary * sizeof(*logits));
    world_step(&w, logits, 0, f->n_tokens, f->n_tokens);
    for (int i = 0; i < f->n_keep; i++) {
        float *row = logits + (size_t)f->keep[i] * f->vocabulary;
        const float *recorded = w.expected + (size_t)i * RECORDED;
        const uint32_t one = (uint32_t)(numbers_draw(f->keep[i], 0) % f->vocabulary);
        const float was = row[one], by = (float)(2 * TOLERANCE) * recorded[0];
        row[one] = was + by;
        ck_assert_msg(numbers_away(row, f->vocabulary, f->keep[i], recorded) > SHOWN * TOLERANCE,
                      "%s: token %u: logit %u may be %g too large", f->name, f->keep[i], one, (double)by);
        row[one] = was;
        for (uint32_t n = 0; n < f->vocabulary; n++)
            row[n] *= (float)(1 + 2 * TOLERANCE);
        ck_assert_msg(numbers_away(row, f->vocabulary, f->keep[i], recorded) > SHOWN * TOLERANCE,
                      "%s: token %u: all logits may be %g too large", f->name, f->keep[i], 2 * TOLERANCE);
    }
    free(logits);
    world_close_model(&w);
    world_close(&w);
}
END_TEST

/* ---- longer runs ---- */

static void compare_long(const struct world *w, const float *logits, const char *what)
{
    const struct family *f = &w->family;
    for (int i = 0; i < LONG_ROWS; i++) {
        static const uint32_t places[LONG_ROWS] = {17, 130, LONGEST};
        uint32_t at = places[i] * f->longest / LONGEST - 1;
        double error = numbers_away(logits + (size_t)at * f->vocabulary, f->vocabulary, at,
                                    world_long(w) + 1 + (size_t)i * RECORDED);
        ck_assert_msg(error < SHOWN * TOLERANCE, "%s, %s: token %u: relative difference %g", f->name, what,
                      at, error);
    }
}

/* Steps of these sizes, again and again; all logits are those of the first run. */
static void run_steps(struct world *w, float *logits, const float *first, const uint32_t *sizes, int n,
                      const char *what)
{
    const uint32_t row = w->family.vocabulary;
    uint32_t at = 0;
    ck_ok(kt_session_truncate(w->session, 0, &ck_error));
    for (int i = 0; at < w->family.longest; i = (i + 1) % n) {
        uint32_t end = at + sizes[i] < w->family.longest ? at + sizes[i] : w->family.longest;
        world_step(w, logits, at, end, end - at);
        at = end;
    }
    compare_long(w, logits, what);
    for (uint32_t t = 0; t < w->family.longest && first != logits; t++) {
        double away = world_difference(logits + (size_t)t * row, first + (size_t)t * row, row);
        ck_assert_msg(away < TOLERANCE, "%s, %s: token %u: %g from that of a whole prompt", w->family.name,
                      what, t, away);
    }
}

static void draw_long(struct world *w)
{
    free(w->ids);
    w->ids = malloc(w->family.longest * sizeof(*w->ids));
    for (uint32_t i = 0; i < w->family.longest; i++)
        w->ids[i] = family_long_id(&w->family, (int)world_long(w)[0], i);
}

START_TEST(long_prompts_are_those_of_transformers)
{
    static const uint32_t all[] = {LONGEST}, ones[] = {1}, some[] = {13, 7, 11, 9}, other[] = {1, 2, 17, 130};
    struct world w;
    if (!world_open(&w, _i, "reference"))
        return;
    draw_long(&w);
    size_t size = (size_t)w.family.longest * w.family.vocabulary * sizeof(float);
    float *first = malloc(size), *logits = malloc(size);
    world_open_model(&w, SAFETENSORS, KT_DTYPE_F32);
    run_steps(&w, first, first, all, 1, "a long prompt");
    run_steps(&w, logits, first, some, 4, "in small pieces");
    run_steps(&w, logits, first, other, 4, "in growing pieces");
    run_steps(&w, logits, first, ones, 1, "token by token");
    world_close_model(&w);
    if (family_has_gguf(&w.family)) {
        world_open_model(&w, GGUF, KT_DTYPE_F32);
        run_steps(&w, logits, first, all, 1, "a long prompt, GGUF");
        world_close_model(&w);
    }
    free(first);
    free(logits);
    world_close(&w);
}
END_TEST

/* The best token but for those before it, at `ids`, as such models repeat themselves. */
static int32_t find_best(float *logits, uint32_t n, const int32_t *ids)
{
    uint32_t best = 0;
    for (int i = 1; i <= WITHOUT; i++)
        logits[ids[-i]] = -INFINITY;
    for (uint32_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return (int32_t)best;
}

START_TEST(greedy_tokens_are_those_of_transformers)
{
    struct world w;
    if (!world_open(&w, _i, "reference"))
        return;
    draw_long(&w);
    const float *recorded = world_long(&w) + 1 + LONG_ROWS * RECORDED;
    uint32_t n = (uint32_t)recorded[0];
    ck_assert_uint_le(n + GREEDY, w.family.longest);
    float *logits = malloc((size_t)(n + GREEDY) * w.family.vocabulary * sizeof(*logits));
    world_open_model(&w, SAFETENSORS, KT_DTYPE_F32);
    world_step(&w, logits, 0, n, n);
    for (uint32_t i = 0; i < GREEDY; i++, n++) {
        w.ids[n] = find_best(logits + (size_t)(n - 1) * w.family.vocabulary, w.family.vocabulary, w.ids + n);
        ck_assert_msg(w.ids[n] == (int32_t)recorded[1 + i], "%s: greedy token %u is %d instead of %d",
                      w.family.name, i, (int)w.ids[n], (int)recorded[1 + i]);
        world_step(&w, logits, n, n + 1, 1);
    }
    free(logits);
    world_close_model(&w);
    world_close(&w);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name)
{
    TCase *tests = tcase_create(name);
    tcase_set_timeout(tests, 300);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    suite_add_tcase(suite, tests);
    return tests;
}

/* Of tables first to below end. */
static void add_tests(TCase *tests, int first, int end)
{
    tcase_add_loop_test(tests, logits_are_those_of_transformers, first, end);
    tcase_add_loop_test(tests, coded_weights_are_their_numbers, first, end);
    tcase_add_loop_test(tests, sessions_mix, first, end);
    tcase_add_loop_test(tests, bits_are_the_same, first, end);
    tcase_add_loop_test(tests, errors_show, first, end);
}

int main(void)
{
    const int n = world_find_tables("*/model");
    Suite *suite = suite_create("families");
    TCase *tests = add_case(suite, "families");
    add_tests(tests, 0, n);
    tcase_add_loop_test(tests, bfloat16_is_near, 0, n);
    tcase_add_test(tests, recorded_sums_show_differences);
    if (getenv("KT_TEST_ALL")) { /* second models, and longer runs of all */
        const int all = world_find_tables("more/*/model");
        add_tests(add_case(suite, "more"), n, all);
        tests = add_case(suite, "long");
        tcase_add_loop_test(tests, recorded_sums_show_differences, 1, all);
        tcase_add_loop_test(tests, long_prompts_are_those_of_transformers, 0, all);
        tcase_add_loop_test(tests, greedy_tokens_are_those_of_transformers, 0, all);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_families.c - tiny random models of each family, from safetensors and from GGUF, beside the logits that
 * make_expected.py recorded of Hugging Face transformers. What deliberate errors give there must be far away,
 * so that each of them, made in the engine, would fail the test.
 */
#include "tests/engine/families/family.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"

#include <check.h>
#include <glob.h>
#include <kt/engine.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Tables: tests/data/families/NAME/model. */
static glob_t tables;

/* So many logits of a deliberate error tell it apart, and keep the tarball small. */
enum { ERROR_LOGITS = 64 };

enum file { SAFETENSORS, GGUF, GGUF_F32, N_FILES, FP8 = N_FILES, FP8_DECODED, QUANTS, QUANTS_DECODED };

/* float32 through four layers; make_expected.py asks for errors 20 times as far. */
#define TOLERANCE 1e-4
/* Inputs of matrices, keys and values rounded to bfloat16: half a unit in the last of 8 bits, 2^-9, at
 * most 1.1e-3 on average, in 14 places of each of 4 layers: 1.1e-3 * sqrt(56) = 8e-3. Attention and routing
 * pass it on with a slope above 1. */
#define BF16_TOLERANCE 3e-2

struct world {
    struct family family;
    struct kt_context *context;
    struct kt_checkpoint *checkpoint;
    struct kt_model *model;
    struct kt_session *session;
    float *expected; /* rows of keep, then of errors */
    int32_t *ids;
};

/* Threads of a model so small would mostly wait for each other. */
static struct kt_context *open_context(const char *backend, const char *threads, bool is_deterministic)
{
    char modules[2][512], wish[64];
    const char *settings[6];
    size_t n = 0;
    const char *const plugins[] = {"attention", backend};
    for (int i = 0; i < 2; i++) {
        if (strcmp(plugins[i], "reference") == 0)
            continue;
        const char *file = sandbox_backend(plugins[i]);
        if (!file) {
            printf("SKIP: the plugin %s was not built\n", plugins[i]);
            return NULL;
        }
        (void)snprintf(modules[i], sizeof(modules[i]), "plugin.%s.module=%s", plugins[i], file);
        settings[n++] = modules[i];
    }
    (void)snprintf(wish, sizeof(wish), "core.backend=%s", backend);
    settings[n++] = wish;
    settings[n++] = threads;
    if (is_deterministic)
        settings[n++] = "core.deterministic=yes";
    return fixture_context_with(settings, n);
}

static const char *write_file(const struct family *family, enum file file)
{
    static const enum form forms[] = {FORM_BF16,    FORM_BF16,  FORM_F32,    FORM_CODED,
                                      FORM_DECODED, FORM_CODED, FORM_DECODED};
    bool is_folder = file == SAFETENSORS || file == FP8 || file == FP8_DECODED;
    const char *path = sandbox_path(is_folder ? "model" : "model.gguf");
    if (is_folder) {
        sandbox_folder("model");
        family_write_folder(family, path, forms[file]);
    } else {
        family_write_gguf(family, path, forms[file]);
    }
    return path;
}

static void read_expected(struct world *w)
{
    char path[4300];
    size_t count =
        (size_t)w->family.n_keep * w->family.vocabulary + (size_t)w->family.n_errors * ERROR_LOGITS;
    (void)snprintf(path, sizeof(path), "%s/expected.f32", w->family.folder);
    FILE *file = fopen(path, "re");
    ck_assert_msg(file != NULL, "cannot open %s", path);
    w->expected = malloc(count * sizeof(float));
    ck_assert_uint_eq(fread(w->expected, sizeof(float), count, file), count);
    ck_assert_msg(fgetc(file) == EOF, "%s is longer than its table says", path);
    ck_assert_int_eq(fclose(file), 0);
    w->ids = malloc(w->family.n_tokens * sizeof(*w->ids));
    for (uint32_t i = 0; i < w->family.n_tokens; i++)
        w->ids[i] = family_id(&w->family, i);
}

static const float *expected_error(const struct world *w, int error)
{
    return w->expected + (size_t)w->family.n_keep * w->family.vocabulary + (size_t)error * ERROR_LOGITS;
}

static void open_model(struct world *w, enum file file, uint32_t cache)
{
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    params.cache_dtype = cache;
    params.max_sessions = 3;
    params.cache_tokens = 1024;
    ck_ok(kt_checkpoint_open(write_file(&w->family, file), NULL, &w->checkpoint, &ck_error));
    ck_ok(kt_model_open(w->context, w->checkpoint, &params, &w->model, &ck_error));
    ck_ok(kt_session_open(w->model, &w->session, &ck_error));
}

static bool open_world_with(struct world *w, int number, const char *backend, const char *threads,
                            bool is_deterministic)
{
    char folder[4096];
    memset(w, 0, sizeof(*w));
    w->context = open_context(backend, threads, is_deterministic);
    if (!w->context)
        return false;
    (void)snprintf(folder, sizeof(folder), "%s", tables.gl_pathv[number]);
    *strrchr(folder, '/') = '\0';
    char *name = strrchr(folder, '/');
    *name++ = '\0';
    family_open(&w->family, folder, name);
    read_expected(w);
    return true;
}

static bool open_world(struct world *w, int number, const char *backend)
{
    return open_world_with(w, number, backend, "core.threads=1", false);
}

static void close_model(struct world *w)
{
    kt_session_close(w->session);
    kt_model_close(w->model);
    kt_checkpoint_close(w->checkpoint);
}

static void close_world(struct world *w)
{
    kt_context_destroy(w->context);
    family_close(&w->family);
    free(w->expected);
    free(w->ids);
}

static double difference(const float *got, const float *wanted, size_t n)
{
    double sum = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        sum += pow((double)got[i] - (double)wanted[i], 2);
        size += pow((double)wanted[i], 2);
    }
    return sqrt(sum / size);
}

/* Tokens from `first` on go in steps of `size` tokens; their logits to their rows. */
static void step(struct world *w, float *logits, uint32_t first, uint32_t end, uint32_t size)
{
    for (uint32_t at = first; at < end; at += size) {
        uint32_t n = end - at < size ? end - at : size;
        const struct kt_step one = {w->session, w->ids + at, n, n,
                                    logits + (size_t)at * w->family.vocabulary};
        ck_ok(kt_model_step(w->model, &one, 1, &ck_error));
    }
}

static void compare(const struct world *w, const float *logits, double tolerance, const char *what)
{
    const struct family *f = &w->family;
    for (int i = 0; i < f->n_keep; i++) {
        double error = difference(logits + (size_t)f->keep[i] * f->vocabulary,
                                  w->expected + (size_t)i * f->vocabulary, f->vocabulary);
        ck_assert_msg(error < tolerance, "%s, %s: token %u: relative difference %g", f->name, what,
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
    step(w, logits, 0, w->family.n_tokens, w->family.n_tokens);
    compare(w, logits, TOLERANCE, what);
}

/* In pieces; token by token over the border of a page of the cache. */
static void run_pieces(struct world *w, float *logits)
{
    const struct family *f = &w->family;
    uint64_t row = f->vocabulary;
    ck_ok(kt_session_truncate(w->session, 0, &ck_error));
    memset(logits, 0, f->n_tokens * row * sizeof(*logits));
    step(w, logits, 0, f->n_tokens, 37);
    compare(w, logits, TOLERANCE, "in pieces");
    go_back(w, 60);
    memset(logits + 60 * row, 0, (f->n_tokens - 60) * row * sizeof(*logits));
    step(w, logits, 60, 70, 1);
    step(w, logits, 70, f->n_tokens, f->n_tokens);
    compare(w, logits, TOLERANCE, "token by token");
}

/* The plan of config.json alone is that of the whole folder. */
static void compare_plans(const struct world *w)
{
    struct kt_model_plan whole, alone;
    struct kt_error error;
    const void *json;
    uint64_t size;
    ck_ok(kt_checkpoint_file(w->checkpoint, "config.json", &json, &size, &ck_error));
    ck_ok(kt_model_plan(w->context, w->checkpoint, NULL, &whole, &ck_error));
    enum kt_status status = kt_model_plan_config(w->context, json, size, NULL, &alone, &error);
    if (strcmp(w->family.name, "gemma4-e2b") == 0 || strcmp(w->family.name, "hunyuan-moe") == 0) {
        ck_assert_int_eq(status, KT_E_NOT_FOUND); /* as wide as networks of the file are */
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
    if (!open_world(&w, _i, "reference"))
        return;
    float *logits = malloc((size_t)w.family.n_tokens * w.family.vocabulary * sizeof(*logits));
    for (int file = 0; file < (family_has_gguf(&w.family) ? N_FILES : GGUF); file++) {
        open_model(&w, (enum file)file, KT_DTYPE_F32);
        run_whole(&w, logits, files[file]);
        if (file == SAFETENSORS) {
            run_pieces(&w, logits);
            compare_plans(&w);
        }
        close_model(&w);
    }
    free(logits);
    close_world(&w);
}
END_TEST

/* Weights of few bits are the numbers that they stand for, wherever a family has them. */
START_TEST(coded_weights_are_their_numbers)
{
    static const enum file pairs[2][2] = {{FP8, FP8_DECODED}, {QUANTS, QUANTS_DECODED}};
    struct world w;
    if (!open_world(&w, _i, "reference"))
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
            open_model(&w, pairs[i][way], KT_DTYPE_F32);
            step(&w, logits[way], 0, n, n);
            close_model(&w);
        }
        double away = difference(logits[0], logits[1], n * row);
        ck_assert_msg(away < 1e-6, "%s: %s: relative difference %g", w.family.name,
                      i ? "quantized GGUF" : "FP8", away);
        free(logits[0]);
        free(logits[1]);
    }
    close_world(&w);
}
END_TEST

/* Three tokens a step of one session, one of another, which goes on in a fork. */
START_TEST(sessions_mix)
{
    struct world w;
    struct kt_session *other, *fork;
    if (!open_world(&w, _i, "reference"))
        return;
    const struct family *f = &w.family;
    uint64_t row = f->vocabulary;
    float *logits = calloc(f->n_tokens, row * sizeof(*logits)),
          *others = calloc(f->n_tokens, row * sizeof(*others));
    open_model(&w, SAFETENSORS, KT_DTYPE_F32);
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
    close_model(&w);
    free(logits);
    free(others);
    close_world(&w);
}
END_TEST

START_TEST(bfloat16_is_near)
{
    struct world w;
    if (!open_world(&w, _i, "bf16"))
        return;
    open_model(&w, _i % 2 || !family_has_gguf(&w.family) ? SAFETENSORS : GGUF, KT_DTYPE_BF16);
    float *logits = malloc((size_t)w.family.n_tokens * w.family.vocabulary * sizeof(*logits));
    step(&w, logits, 0, w.family.n_tokens, w.family.n_tokens);
    compare(&w, logits, BF16_TOLERANCE, "in bfloat16");
    free(logits);
    close_model(&w);
    close_world(&w);
}
END_TEST

/* The same logits, whatever threads there are and however a prompt is cut. */
START_TEST(bits_are_the_same)
{
    static const char *const threads[] = {"core.threads=1", "core.threads=2"};
    float *logits[2];
    for (int way = 0; way < 2; way++) {
        struct world w;
        if (!open_world_with(&w, _i, "bf16", threads[way], true))
            return;
        uint32_t n = w.family.n_tokens, row = w.family.vocabulary;
        logits[way] = malloc((size_t)n * row * sizeof(**logits));
        open_model(&w, SAFETENSORS, KT_DTYPE_BF16);
        step(&w, logits[way], 0, way ? 74 : n, way ? 37 : n);
        step(&w, logits[way], way ? 74 : n, way ? n - 10 : n, 3);
        step(&w, logits[way], way ? n - 10 : n, n, 1);
        for (size_t token = 0; way && token < n; token++)
            ck_assert_msg(memcmp(logits[0] + token * row, logits[1] + token * row, row * sizeof(**logits)) ==
                              0,
                          "%s: token %zu has other bits in small steps", w.family.name, token);
        close_model(&w);
        close_world(&w);
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
    ck_ok(kt_checkpoint_open(write_file(f, SAFETENSORS), NULL, &w->checkpoint, &ck_error));
    enum kt_status status = kt_model_open(w->context, w->checkpoint, &params, &w->model, &problem);
    if (status == KT_OK) {
        ck_ok(kt_session_open(w->model, &w->session, &ck_error));
        step(w, logits, 0, f->n_tokens, f->n_tokens);
        close_model(w);
        double away = difference(logits + (size_t)f->keep[f->n_keep - 1] * f->vocabulary,
                                 expected_error(w, error), ERROR_LOGITS);
        ck_assert_msg(away < TOLERANCE, "%s with the error %s: relative difference %g", f->name,
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
        if (!open_world(&w, _i, "reference"))
            return;
        const struct family *f = &w.family;
        const float *wanted = w.expected + (size_t)(f->n_keep - 1) * f->vocabulary;
        double away = difference(expected_error(&w, i), wanted, ERROR_LOGITS);
        n = f->n_errors;
        ck_assert_int_ge(n, 3);
        ck_assert_msg(away > 20 * TOLERANCE, "%s: the error %s is only %g away", f->name,
                      family_error_name(f, i), away);
        float *logits = malloc((size_t)f->n_tokens * f->vocabulary * sizeof(*logits));
        if (family_spoil(&w.family, i))
            run_error(&w, i, logits);
        free(logits);
        close_world(&w);
    }
}
END_TEST

int main(void)
{
    char pattern[4096];
    (void)snprintf(pattern, sizeof(pattern), "%s/tests/data/families/*/model", getenv("KT_TEST_SOURCE"));
    if (glob(pattern, 0, NULL, &tables) != 0)
        die("there is no %s", pattern);
    Suite *suite = suite_create("families");
    TCase *tests = tcase_create("families");
    tcase_set_timeout(tests, 300);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, logits_are_those_of_transformers, 0, (int)tables.gl_pathc);
    tcase_add_loop_test(tests, coded_weights_are_their_numbers, 0, (int)tables.gl_pathc);
    tcase_add_loop_test(tests, sessions_mix, 0, (int)tables.gl_pathc);
    tcase_add_loop_test(tests, bits_are_the_same, 0, (int)tables.gl_pathc);
    tcase_add_loop_test(tests, bfloat16_is_near, 0, (int)tables.gl_pathc);
    tcase_add_loop_test(tests, errors_show, 0, (int)tables.gl_pathc);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    globfree(&tables);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

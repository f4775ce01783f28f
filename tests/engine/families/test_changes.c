/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_changes.c - what a setting does to logits that no recorded ones tell: the same bits as those of a
 * model that is made otherwise.
 */
#include "tests/engine/families/opened.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TOKENS = 130, VOCABULARY = 256 /* at most */ };

/* The logits behind n tokens, in steps of `size`. */
static void run(const struct family *family, bool is_gguf, uint32_t n, uint32_t size, float *logits)
{
    struct opened o = {.context = opened_context(2, "core.deterministic=yes")};
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    struct kt_session *session;
    int32_t ids[MOST_TOKENS];
    params.cache_dtype = KT_DTYPE_F32;
    opened_model(&o, opened_file(family, is_gguf), &params);
    ck_assert_uint_le(o.info.vocabulary, VOCABULARY);
    memset(logits, 0, VOCABULARY * sizeof(*logits));
    ck_ok(kt_session_open(o.model, &session, &ck_error));
    for (uint32_t i = 0; i < n; i++)
        ids[i] = family_id(family, i);
    for (uint32_t at = 0; at < n; at += size) {
        const struct kt_step step = {session, ids + at, n - at < size ? n - at : size, at + size >= n,
                                     logits};
        ck_ok(kt_model_step(o.model, &step, 1, &ck_error));
    }
    kt_session_close(session);
    opened_close(&o);
}

static bool has_attention(void)
{
    struct kt_context *context = opened_context(1, "core.spin_us=0");
    kt_context_destroy(context);
    return context != NULL;
}

static bool are_same(const float *a, const float *b)
{
    return memcmp(a, b, VOCABULARY * sizeof(*a)) == 0;
}

/* ---- the head ---- */

START_TEST(a_head_in_the_file_counts_though_it_is_tied)
{
    static const char *const names[] = {"qwen3", "glm4moe", "mixtral", "deepseek-v3", "qwen35moe"};
    float plain[VOCABULARY], tied[VOCABULARY];
    struct family family;
    if (!has_attention())
        return;
    opened_tables(&family, names[_i]);
    run(&family, false, 3, 3, plain);
    ck_assert_int_eq(json_object_set_new(family.config, "tie_word_embeddings", json_true()), 0);
    run(&family, false, 3, 3, tied);
    ck_assert(are_same(plain, tied));
    family_close(&family);
}
END_TEST

/* ---- models that see images ---- */

/* Their language model has a configuration within theirs, and names with another beginning. */
static void wrap(struct family *family, const char *class, const char *type, const char *begin,
                 char (*names)[160])
{
    json_t *whole = json_pack("{s:[s], s:s}", "architectures", class, "model_type", type);
    for (int i = 0; i < family->n_sources; i++) {
        struct source *source = &family->sources[i];
        memcpy(names[i], source->name, sizeof(names[i]));
        source->drawn = names[i];
        if (strncmp(names[i], "model.", 6) == 0)
            (void)snprintf(source->name, sizeof(source->name), "%s%.130s", begin, names[i] + 6);
        else if (strcmp(begin, "language_model.model.") == 0)
            (void)snprintf(source->name, sizeof(source->name), "language_model.%.130s", names[i]);
    }
    ck_assert_int_eq(json_object_set_new(whole, "text_config", family->config), 0);
    family->config = whole;
}

START_TEST(the_language_model_of_one_that_sees_images_is_the_same)
{
    static const struct {
        const char *family, *class, *type, *begin;
    } cases[] = {{"step3p5", "Step3p7ForConditionalGeneration", "step3p7", "model."},
                 {"minimax-m3", "MiniMaxM3SparseForConditionalGeneration", "minimax_m3_vl",
                  "language_model.model."},
                 {"ministral3", "Mistral3ForConditionalGeneration", "mistral3", "language_model.model."},
                 {"kimi-k2", "KimiK25ForConditionalGeneration", "kimi_k25", "language_model.model."},
                 {"glm4moe", "Glm4vMoeForConditionalGeneration", "glm4v_moe", "model.language_model."},
                 {"qwen3moe", "Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe", "model.language_model."},
                 {"aria", "AriaForConditionalGeneration", "aria", "language_model.model."},
                 {"gemma3", "Gemma3ForConditionalGeneration", "gemma3", "language_model.model."},
                 {"gemma3", "Gemma3ForConditionalGeneration", "gemma3", "model.language_model."},
                 {"gemma4-e2b", "Gemma4ForConditionalGeneration", "gemma4", "model.language_model."}};
    float plain[VOCABULARY], wrapped[VOCABULARY];
    struct family family;
    if (!has_attention())
        return;
    opened_tables(&family, cases[_i].family);
    char(*names)[160] = calloc((size_t)family.n_sources, sizeof(*names));
    run(&family, false, 40, 40, plain);
    wrap(&family, cases[_i].class, cases[_i].type, cases[_i].begin, names);
    run(&family, false, 40, 40, wrapped);
    ck_assert(are_same(plain, wrapped));
    free(names);
    family_close(&family);
}
END_TEST

/* ---- divisors of a rope ---- */

/* A tensor of six twos. */
static void add_divisors(struct family *family, const struct source *source, const char *name)
{
    struct target *targets = realloc(family->targets, ((size_t)family->n_targets + 1) * sizeof(*targets));
    struct part *part = calloc(1, sizeof(*part));
    ck_assert(targets && part);
    *part = (struct part){.source = source, .n_axes = 1, .stride = {1}, .count = {source->count}};
    family->targets = targets;
    struct target *target = &targets[family->n_targets++];
    *target = (struct target){.dims = {source->count},
                              .count = source->count,
                              .n_dims = 1,
                              .parts = part,
                              .n_parts = 1,
                              .is_wide = true};
    (void)snprintf(target->name, sizeof(target->name), "%s", name);
}

START_TEST(divisors_of_gguf_files_are_those_of_config_json)
{
    static char key[] = "key", f32[] = "f32", factor[] = "rope.scaling.attn_factor", value[] = "1.25";
    static const struct source twos = {.name = "divisors", .count = 6, .mean = 2};
    float json[VOCABULARY], gguf[VOCABULARY], away = 0;
    struct family family;
    if (!has_attention())
        return;
    opened_tables(&family, "phi3-long");
    json_t *scaling = json_object_get(family.config, "rope_scaling");
    ck_assert_int_eq(json_object_set_new(scaling, "attention_factor", json_real(1.25)), 0);
    json_t *short_factors = json_pack("[f,f,f,f,f,f]", 2.0, 2.0, 2.0, 2.0, 2.0, 2.0);
    ck_assert_int_eq(json_object_set_new(scaling, "short_factor", short_factors), 0);
    run(&family, false, 40, 40, json);
    (void)snprintf(family.arch, sizeof(family.arch), "phi3");
    add_divisors(&family, &twos, "rope_factors_short.weight");
    add_divisors(&family, &twos, "rope_factors_long.weight");
    struct line *lines = realloc(family.lines, ((size_t)family.n_lines + 1) * sizeof(*lines));
    ck_assert_ptr_nonnull(lines);
    lines[family.n_lines++] = (struct line){.word = {key, f32, factor, value}, .n_words = 4};
    family.lines = lines;
    run(&family, true, 40, 40, gguf);
    for (int i = 0; i < VOCABULARY; i++)
        away = fmaxf(away, fabsf(json[i] - gguf[i]));
    ck_assert_msg(away < 1e-5F, "logits differ by %g", (double)away);
    family_close(&family);
}
END_TEST

/* ---- temperature ---- */

/* One layer, so that what earlier tokens were asked with is in no later one. `factor`: of the queries. */
static void open_latent(struct family *family, double factor, const char *scale)
{
    static char key[] = "key", u32[] = "u32", f32[] = "f32", length[] = "attention.temperature_length",
                temperature[] = "attention.temperature_scale", tokens[] = "16", value[40];
    int n = 0;
    opened_tables(family, "deepseek-v2-lite");
    ck_assert_int_eq(json_object_set_new(family->config, "num_hidden_layers", json_integer(1)), 0);
    for (int i = 0; i < family->n_targets; i++)
        if (strncmp(family->targets[i].name, "blk.", 4) == 0 && family->targets[i].name[4] != '0')
            free(family->targets[i].parts);
        else
            family->targets[n++] = family->targets[i];
    family->n_targets = n;
    for (int i = 0; i < family->n_sources; i++)
        if (strstr(family->sources[i].name, "self_attn.q_proj"))
            family->sources[i].deviation *= factor;
    if (!scale)
        return;
    (void)snprintf(value, sizeof(value), "%s", scale);
    struct line *lines = realloc(family->lines, ((size_t)family->n_lines + 2) * sizeof(*lines));
    ck_assert_ptr_nonnull(lines);
    lines[family->n_lines++] = (struct line){.word = {key, u32, length, tokens}, .n_words = 4};
    lines[family->n_lines++] = (struct line){.word = {key, f32, temperature, value}, .n_words = 4};
    family->lines = lines;
}

/* Queries at position p are multiplied by 1 + s ln(1 + floor(p / 16)): with s = 1 / ln 2 by 1 up to 15, by 2
 * up to 31, by 4 at 112. Powers of two change no bits elsewhere. */
START_TEST(attention_gets_sharper_with_the_position)
{
    static const struct {
        uint32_t position;
        double factor;
    } cases[] = {{15, 1}, {16, 2}, {31, 2}, {112, 4}};
    float got[VOCABULARY], wanted[VOCABULARY], plain[VOCABULARY], pieces[VOCABULARY];
    uint32_t n = cases[_i].position + 1;
    struct family family;
    if (!has_attention())
        return;
    open_latent(&family, cases[_i].factor, NULL);
    run(&family, true, n, n, wanted);
    family_close(&family);
    open_latent(&family, 1, NULL);
    run(&family, true, n, n, plain);
    family_close(&family);
    open_latent(&family, 1, "1.4426950408889634");
    run(&family, true, n, n, got);
    run(&family, true, n, 7, pieces);
    family_close(&family);
    ck_assert(are_same(got, pieces));
    ck_assert_msg(are_same(plain, wanted) == (cases[_i].factor == 1), "position %u", cases[_i].position);
    for (int i = 0; i < VOCABULARY; i++)
        ck_assert_msg(fabsf(got[i] - wanted[i]) <= 1e-5F, "position %u: logit %d is %g instead of %g",
                      cases[_i].position, i, (double)got[i], (double)wanted[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("changes");
    TCase *tests = tcase_create("changes");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, a_head_in_the_file_counts_though_it_is_tied, 0, 5);
    tcase_add_loop_test(tests, the_language_model_of_one_that_sees_images_is_the_same, 0, 10);
    tcase_add_test(tests, divisors_of_gguf_files_are_those_of_config_json);
    tcase_add_loop_test(tests, attention_gets_sharper_with_the_position, 0, 4);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

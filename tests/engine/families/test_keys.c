/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_keys.c - no key of a GGUF file is passed over. tests/data/families/gguf_keys has all that gguf-py
 * knows; each is set to something unusual in a file of every architecture, and then the model is another one
 * or is refused, but for keys that the table calls harmless. Keys that are left out are what llama.cpp's
 * loader takes.
 */
#include "tests/engine/families/described.h"
#include "tests/engine/families/family.h"
#include "tests/support/sandbox.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* One of each architecture, and those of it that have another rope. */
static const char *const names[] = {"qwen3moe",   "qwen3",        "qwen2",          "llama3",
                                    "llama-yarn", "mixtral",      "gpt-oss",        "glm4moe",
                                    "minimax-m2", "deepseek-v3",  "deepseek-v2",    "qwen3next",
                                    "qwen35moe",  "qwen35",       "qwen2moe",       "dots1",
                                    "ernie4_5",   "ernie4_5-moe", "hunyuan-moe",    "hunyuan-dense",
                                    "hy_v3",      "exaone-moe",   "smollm3",        "olmoe",
                                    "seed-oss",   "laguna",       "mimo2",          "mellum",
                                    "ministral3", "mistral4",     "exaone4",        "olmo3",
                                    "glm4",       "phi3",         "granite",        "granitemoe",
                                    "olmo2",      "phimoe",       "gemma3",         "gemma4",
                                    "gemma4-e2b", "afmoe",        "cohere2_moe",    "llama4",
                                    "dbrx",       "step3p5",      "granitemoe-swa", "deepseek-v32",
                                    "glm-dsa"};
enum { N_NAMES = sizeof(names) / sizeof(names[0]) };

/* A family without its tensors, of which only names count here. */
struct keys {
    struct family family;
    int n_sources, n_targets, n_lines;
    char usual[DESCRIBED];
};

static enum kt_status describe_file(const struct keys *keys, char *text)
{
    const char *path = sandbox_path("model.gguf");
    family_write_gguf(&keys->family, path, FORM_BF16);
    return described(path, text, DESCRIBED);
}

static void open_keys(struct keys *keys, const char *name)
{
    struct family *f = &keys->family;
    char folder[4096];
    (void)snprintf(folder, sizeof(folder), "%s/tests/data/families", getenv("KT_TEST_SOURCE"));
    family_open(f, folder, name);
    keys->n_targets = f->n_targets;
    f->n_targets = 0;
    keys->n_lines = f->n_lines;
    struct line *lines = realloc(f->lines, (size_t)(f->n_lines + 1) * sizeof(*lines));
    ck_assert_ptr_nonnull(lines);
    f->lines = lines;
    ck_assert_msg(describe_file(keys, keys->usual) == KT_OK, "%s: %s", name, keys->usual);
}

static void close_keys(struct keys *keys)
{
    keys->family.n_targets = keys->n_targets;
    family_close(&keys->family);
}

/* The line that sets a key, "key TYPE NAME VALUE" or "array ...", or NULL. */
static struct line *find_line(const struct keys *keys, const char *name)
{
    const struct scope scope = {0, 0, 0};
    for (int i = 0; i < keys->n_lines; i++) {
        struct line *line = &keys->family.lines[i];
        if ((strcmp(line->word[0], "key") == 0 || strcmp(line->word[0], "array") == 0) &&
            strcmp(line->word[2], name) == 0 && family_applies(&keys->family, line, &scope))
            return line;
    }
    return NULL;
}

/* With a key of another value, or (NULL) without it. */
static enum kt_status describe_with(struct keys *keys, char *type, char *name, char *value, char *text)
{
    static char key[] = "key", none[] = "none";
    struct line *found = find_line(keys, name), *added = &keys->family.lines[keys->n_lines];
    struct line saved = {.n_words = 0};
    if (found) {
        saved = *found;
        found->word[0] = none;
    }
    *added = (struct line){.word = {key, type, name, value}, .n_words = 4};
    keys->family.n_lines = keys->n_lines + (value != NULL);
    enum kt_status status = describe_file(keys, text);
    keys->family.n_lines = keys->n_lines;
    if (found)
        *found = saved;
    return status;
}

START_TEST(a_key_is_read_or_refused_or_harmless)
{
    struct keys keys;
    char path[4200], line[200], text[DESCRIBED], *type, *name, *value, *rest;
    open_keys(&keys, names[_i]);
    (void)snprintf(path, sizeof(path), "%s/tests/data/families/gguf_keys", getenv("KT_TEST_SOURCE"));
    FILE *file = fopen(path, "re");
    ck_assert_msg(file != NULL, "cannot open %s", path);
    while (fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        if (!*line || line[0] == '#')
            continue;
        name = strtok_r(line, " ", &rest);
        type = strtok_r(NULL, " ", &rest);
        value = strtok_r(NULL, " ", &rest);
        enum kt_status status = describe_with(&keys, type, name, value, text);
        bool is_same = status == KT_OK && strcmp(text, keys.usual) == 0;
        bool may_be = strcmp(rest, "any") == 0 || strstr(rest, keys.family.arch) ||
                      (strstr(rest, " dense") && strstr(keys.usual, "experts 0 "));
        ck_assert_msg(!is_same || may_be, "%s: %s is %s, and nothing is otherwise", names[_i], name, value);
        ck_assert_msg(!strstr(text, " is of type "), "%s: %s is %s: %s", names[_i], name, value, text);
    }
    (void)fclose(file);
    close_keys(&keys);
}
END_TEST

/* ---- what is left out ---- */

/* Name, type, value; no value: the file is refused. */
static char missing[][3][40] = {{"rope.freq_base", "f32", "10000"},
                                {"attention.layer_norm_rms_epsilon", "f32", ""},
                                {"context_length", "u32", ""},
                                {"attention.head_count", "u32", ""},
                                {"expert_weights_scale", "f32", "1"},
                                {"full_attention_interval", "u32", "4"},
                                {"leading_dense_block_count", "u32", "0"},
                                {"nextn_predict_layers", "u32", "0"},
                                {"rope.scaling.yarn_beta_fast", "f32", "32"},
                                {"rope.scaling.yarn_beta_slow", "f32", "1"},
                                {"attention.q_lora_rank", "u32", "0"},
                                {"expert_shared_count", "u32", "0"},
                                {"expert_count", "u32", "0"},
                                {"expert_weights_norm", "bool", "0"},
                                {"rope.scaling.factor", "f32", "0"},
                                {"rope.scaling.original_context_length", "u32", "max_position_embeddings"}};

START_TEST(what_is_left_out_is_what_llama_cpp_takes)
{
    struct keys keys;
    char without[DESCRIBED], with[DESCRIBED];
    open_keys(&keys, names[_i]);
    for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) {
        char *name = missing[i][0], *type = missing[i][1], *value = missing[i][2];
        if (!find_line(&keys, name))
            continue;
        enum kt_status status = describe_with(&keys, type, name, NULL, without);
        if (!*value)
            ck_assert_msg(status == KT_E_FORMAT && strstr(without, name), "%s without %s: %s", names[_i],
                          name, without);
        else
            ck_assert_msg(describe_with(&keys, type, name, value, with) == status &&
                              strcmp(with, without) == 0,
                          "%s without %s, which is %s then: %s\nand with it: %s", names[_i], name, value,
                          without, with);
    }
    close_keys(&keys);
}
END_TEST

/* A factor alone is the linear scaling, also by the name of old; YaRN without one is nothing. */
START_TEST(a_factor_alone_scales_linearly)
{
    struct keys keys;
    char text[DESCRIBED], type[] = "f32", value[] = "4", one[] = "1";
    char factor[] = "rope.scaling.factor", old[] = "rope.scale_linear";
    open_keys(&keys, "qwen3");
    ck_assert_int_eq(describe_with(&keys, type, factor, value, text), KT_OK);
    ck_assert_msg(strstr(text, "rope 32 1 base 10000 factor 4 of 512"), "%s", text);
    ck_assert_int_eq(describe_with(&keys, type, old, value, text), KT_OK);
    ck_assert_msg(strstr(text, "rope 32 1 base 10000 factor 4 of 512"), "%s", text);
    ck_assert_int_eq(describe_with(&keys, type, old, one, text), KT_OK);
    close_keys(&keys);
    open_keys(&keys, "llama-yarn");
    ck_assert_int_eq(describe_with(&keys, type, factor, NULL, text), KT_E_FORMAT);
    ck_assert_msg(strstr(text, "'yarn' of rope has no factor above 0") != NULL, "%s", text);
    close_keys(&keys);
}
END_TEST

/* Layers that are recurrent, as a list, with the blocks that predict or without; it counts before the
 * interval. */
START_TEST(recurrent_layers_are_listed)
{
    static const char *const families[] = {"qwen3next", "qwen35moe", "qwen35"};
    static const char *const counts[] = {"LAYERS", "LAYERS+1", "LAYERS-1"};
    struct keys keys;
    char text[DESCRIBED], type[] = "bool", name[] = "attention.recurrent_layers", odd[] = "l%2", count[20];
    char array[] = "array";
    open_keys(&keys, families[_i]);
    bool has_block = strstr(keys.usual, "skipped 1") != NULL;
    for (int i = 0; i < 3; i++) {
        (void)snprintf(count, sizeof(count), "%s", counts[i]);
        keys.family.lines[keys.n_lines] =
            (struct line){.word = {array, type, name, count, odd}, .n_words = 5};
        keys.family.n_lines = keys.n_lines + 1;
        enum kt_status status = describe_file(&keys, text);
        keys.family.n_lines = keys.n_lines;
        if (i == 0 || (i == 1 && has_block))
            ck_assert_msg(strstr(text, "layer 0 0 0\nlayer 2 0 0\nlayer 0 0 0\nlayer 2 0 0\n") ||
                              strstr(text, "layer 0 1 0\nlayer 2 1 0\nlayer 0 1 0\nlayer 2 1 0\n"),
                          "%s", text);
        else
            ck_assert_msg(status == KT_E_FORMAT && strstr(text, "attention.recurrent_layers of 4"), "%s",
                          text);
    }
    close_keys(&keys);
}
END_TEST

START_TEST(windows_of_gpt_oss_are_listed)
{
    struct keys keys;
    char text[DESCRIBED], u32[] = "u32", type[] = "bool", name[] = "attention.sliding_window_pattern";
    char three[] = "3", none[] = "0", odd[] = "l%2", count[] = "LAYERS", array[] = "array";
    char layers[200], w[20];
    open_keys(&keys, "gpt-oss");
    const char *first = strstr(keys.usual, "layer ");
    ck_assert_ptr_nonnull(first);
    ck_assert_int_eq(sscanf(first, "layer 0 0 %19s", w), 1);
    (void)snprintf(layers, sizeof(layers), "layer 0 0 %s\nlayer 0 0 %s\nlayer 0 0 0\nlayer 0 0 %s\n", w, w,
                   w);
    ck_assert_int_eq(describe_with(&keys, u32, name, three, text), KT_OK);
    ck_assert_msg(strstr(text, layers) != NULL, "%s", text);
    (void)snprintf(layers, sizeof(layers), "layer 0 0 %s\nlayer 0 0 %s\nlayer 0 0 %s\n", w, w, w);
    ck_assert_int_eq(describe_with(&keys, u32, name, none, text), KT_OK);
    ck_assert_msg(strstr(text, layers) != NULL, "%s", text);
    keys.family.lines[keys.n_lines] = (struct line){.word = {array, type, name, count, odd}, .n_words = 5};
    keys.family.n_lines++;
    ck_assert_int_eq(describe_file(&keys, text), KT_OK);
    (void)snprintf(layers, sizeof(layers), "layer 0 0 0\nlayer 0 0 %s\nlayer 0 0 0\nlayer 0 0 %s\n", w, w);
    ck_assert_msg(strstr(text, layers) != NULL, "%s", text);
    close_keys(&keys);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("keys");
    TCase *tests = tcase_create("keys");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, a_key_is_read_or_refused_or_harmless, 0, N_NAMES);
    tcase_add_loop_test(tests, what_is_left_out_is_what_llama_cpp_takes, 0, N_NAMES);
    tcase_add_loop_test(tests, recurrent_layers_are_listed, 0, 3);
    tcase_add_test(tests, windows_of_gpt_oss_are_listed);
    tcase_add_test(tests, a_factor_alone_scales_linearly);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

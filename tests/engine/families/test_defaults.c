/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_defaults.c - what config.json leaves out is what transformers' configuration classes say, and no
 * setting of theirs is passed over: tests/data/families/defaults, which make_defaults.py writes. A line's key
 * is left out and given as the class has it, which must be the same; another value must be something else, or
 * refused.
 */
#include "tests/engine/families/described.h"
#include "tests/support/sandbox.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CLASSES = 80, MOST_LINES = 64, LINE = 400 };

/* The lines of a class. */
struct section {
    char line[MOST_LINES][LINE];
    int n_lines;
};

static struct section sections[MOST_CLASSES];
static int n_sections;

static void read_sections(void)
{
    char path[4200], line[LINE];
    (void)snprintf(path, sizeof(path), "%s/tests/data/families/defaults", getenv("KT_TEST_SOURCE"));
    FILE *file = fopen(path, "re");
    if (!file) {
        fprintf(stderr, "cannot open %s\n", path);
        exit(EXIT_FAILURE);
    }
    while (fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        n_sections += strncmp(line, "class ", 6) == 0;
        struct section *section = &sections[n_sections > 0 ? n_sections - 1 : 0];
        if (n_sections > MOST_CLASSES || section->n_lines == MOST_LINES)
            exit(EXIT_FAILURE);
        if (line[0] != '#')
            memcpy(section->line[section->n_lines++], line, sizeof(line));
    }
    (void)fclose(file);
}

/* The config.json of a family, beside a file of tensors that says nothing. */
static json_t *open_folder(const char *family)
{
    static const char tensors[] = "\x38\0\0\0\0\0\0\0{\"x\":{\"dtype\":\"U8\",\"shape\":[2],"
                                  "\"data_offsets\":[0,2]}}   !!";
    char path[4200];
    (void)snprintf(path, sizeof(path), "%s/tests/data/families/%s/config.json", getenv("KT_TEST_SOURCE"),
                   family);
    json_t *config = json_load_file(path, 0, NULL);
    ck_assert_msg(config != NULL, "cannot read %s", path);
    sandbox_folder("model");
    FILE *file = fopen(sandbox_path("model/model.safetensors"), "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(tensors, 1, sizeof(tensors) - 1, file), sizeof(tensors) - 1);
    ck_assert_int_eq(fclose(file), 0);
    return config;
}

static json_t *parse(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    ck_assert_msg(value != NULL, "'%s' is not JSON", text);
    return value;
}

/* Leaves out a key, OBJECT/KEY, or one in the objects of the rope, too; value: and gives it another one. */
static enum kt_status describe_with(const json_t *config, const char *key, const char *value, char *text)
{
    static const char *const ropes[] = {"rope_scaling", "rope_parameters"};
    json_t *changed = json_deep_copy(config);
    bool is_rope = strcmp(key, ropes[0]) == 0;
    const char *slash = strchr(key, '/');
    char outer[40];
    (void)snprintf(outer, sizeof(outer), "%.*s", slash ? (int)(slash - key) : 0, key);
    json_t *object = slash ? json_object_get(changed, outer) : changed;
    const char *name = slash ? slash + 1 : key;
    (void)json_object_del(object, name);
    if (is_rope)
        (void)json_object_del(changed, ropes[1]);
    for (int i = 0; i < 2; i++)
        (void)json_object_del(json_object_get(changed, ropes[i]), key);
    if (value)
        (void)json_object_set_new(object, name, parse(value));
    char path[4200];
    (void)snprintf(path, sizeof(path), "%s", sandbox_path("model/config.json"));
    ck_assert_int_eq(json_dump_file(changed, path, 0), 0);
    json_decref(changed);
    return described(sandbox_path("model"), text, DESCRIBED);
}

static void check_default(const json_t *config, const char *class, char *line)
{
    char *rest = line, missing[DESCRIBED], given[DESCRIBED], other[DESCRIBED];
    const char *kind = strtok_r(NULL, " ", &rest), *key = strtok_r(NULL, " ", &rest);
    enum kt_status status = describe_with(config, key, NULL, missing);
    if (strcmp(kind, "required") == 0) {
        ck_assert_msg(status == KT_E_FORMAT && strstr(missing, key) && strstr(missing, "is missing"),
                      "%s without %s: %s", class, key, missing);
        return;
    }
    const char *value = strtok_r(NULL, " ", &rest);
    ck_assert_msg(strcmp(kind, "default") == 0 && value, "%s: '%s %s'", class, kind, key);
    ck_assert_msg(describe_with(config, key, value, given) == status && strcmp(missing, given) == 0,
                  "%s without %s, whose default is %s: %s\nand with it: %s", class, key, value, missing,
                  given);
    if (!*rest)
        return;
    (void)describe_with(config, key, rest, other);
    ck_assert_msg(strcmp(other, given) != 0, "%s: %s is %s, and nothing is otherwise", class, key, rest);
}

START_TEST(what_is_left_out_is_the_default_of_its_class)
{
    struct section *section = &sections[_i];
    char family[80], class[80], text[DESCRIBED];
    ck_assert_int_eq(sscanf(section->line[0], "class %79s %79s", family, class), 2);
    json_t *config = open_folder(family);
    int i = 1;
    for (; i < section->n_lines && strncmp(section->line[i], "with ", 5) == 0; i++) {
        char key[80], value[80];
        ck_assert_int_eq(sscanf(section->line[i], "with %79s %79s", key, value), 2);
        (void)json_object_set_new(config, key, parse(value));
    }
    ck_assert_msg(describe_with(config, "none", NULL, text) == KT_OK, "%s: %s", class, text);
    for (; i < section->n_lines; i++)
        check_default(config, class, section->line[i]);
    json_decref(config);
}
END_TEST

START_TEST(windows_are_of_the_layers_that_slide)
{
    static const struct {
        const char *family, *key, *value;
        unsigned windows[4];
    } cases[] = {{"qwen3", "max_window_layers", "2", {0, 0, 48, 48}},
                 {"qwen2", "max_window_layers", "3", {0, 0, 0, 48}},
                 {"qwen3", "max_window_layers", "0", {48, 48, 48, 48}},
                 {"qwen3moe", "max_window_layers", "2", {48, 48, 48, 48}},
                 {"qwen3", "use_sliding_window", "false", {0, 0, 0, 0}},
                 {"qwen3", "sliding_window", "null", {0, 0, 0, 0}},
                 {"qwen3",
                  "layer_types",
                  "[\"sliding_attention\",\"full_attention\",\"full_attention\",\"sliding_attention\"]",
                  {48, 0, 0, 48}}};
    json_t *config = open_folder(cases[_i].family);
    char text[DESCRIBED];
    unsigned mixer, is_dense, window;
    (void)json_object_set_new(config, "use_sliding_window", json_true());
    (void)json_object_set_new(config, "sliding_window", json_integer(48));
    (void)json_object_set_new(config, "max_window_layers", json_integer(1));
    ck_assert_msg(describe_with(config, cases[_i].key, cases[_i].value, text) == KT_OK, "%s", text);
    const char *layer = text;
    for (int i = 0; i < 4; i++) {
        layer = strstr(layer + 1, "layer ");
        ck_assert(layer && sscanf(layer, "layer %u %u %u", &mixer, &is_dense, &window) == 3);
        ck_assert_msg(window == cases[_i].windows[i], "case %d: %s", _i, text);
    }
    json_decref(config);
}
END_TEST

/* Only prompts longer than the context have other angles, which are refused. */
START_TEST(a_dynamic_rope_is_plain_within_the_context)
{
    json_t *config = open_folder("qwen3");
    char plain[DESCRIBED], dynamic[DESCRIBED];
    ck_assert_int_eq(describe_with(config, "rope_scaling", NULL, plain), KT_OK);
    ck_assert_int_eq(describe_with(config, "rope_scaling", "{\"rope_type\": \"dynamic\", \"factor\": 4.0}",
                                   dynamic),
                     KT_OK);
    ck_assert_ptr_nonnull(strstr(plain, " context 512 "));
    ck_assert_str_eq(plain, dynamic);
    json_decref(config);
}
END_TEST

/* As transformers writes what it has read of Step 3.5. */
START_TEST(lists_of_layers_and_objects_of_types_say_the_same)
{
    static const char *const gone[] =
        {"attention_other_setting", "moe_layers_enum",        "moe_num_experts", "moe_top_k",
         "num_attention_groups",    "partial_rotary_factors", "rope_scaling",    "rope_theta"};
    static const char written[] =
        "{\"num_sliding_attention_heads\": 6, \"mlp_layer_types\": [\"dense\", \"sparse\", \"sparse\", \"sparse\"],"
        " \"n_routed_experts\": 8, \"num_experts_per_tok\": 3, \"num_key_value_heads\": 2, \"rope_parameters\":"
        " {\"full_attention\": {\"rope_type\": \"llama3\", \"factor\": 2.0, \"low_freq_factor\": 1.0,"
        " \"high_freq_factor\": 16.0, \"original_max_position_embeddings\": 64, \"rope_theta\": 500000.0,"
        " \"partial_rotary_factor\": 0.5}, \"sliding_attention\": {\"rope_type\": \"default\","
        " \"rope_theta\": 10000.0, \"partial_rotary_factor\": 1.0}}}";
    json_t *config = open_folder("step3p5"), *others = parse(written);
    char listed[DESCRIBED], saved[DESCRIBED];
    ck_assert_int_eq(describe_with(config, "none", NULL, listed), KT_OK);
    ck_assert_msg(strstr(listed, "attention 6 2 16") && strstr(listed, "rope 16 0 base 10000"), "%s", listed);
    for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++)
        (void)json_object_del(config, gone[i]);
    ck_assert_int_eq(json_object_update(config, others), 0);
    ck_assert_int_eq(describe_with(config, "none", NULL, saved), KT_OK);
    ck_assert_str_eq(listed, saved);
    json_decref(others);
    json_decref(config);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("defaults");
    TCase *tests = tcase_create("defaults");
    read_sections();
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, what_is_left_out_is_the_default_of_its_class, 0, n_sections);
    tcase_add_loop_test(tests, windows_are_of_the_layers_that_slide, 0, 7);
    tcase_add_test(tests, a_dynamic_rope_is_plain_within_the_context);
    tcase_add_test(tests, lists_of_layers_and_objects_of_types_say_the_same);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE

#include "tests/engine/text/text_cases.h"

#include "tools/engine/text/utf8.h"

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- where data are ---- */

static const char *join(const char *folder, const char *name)
{
    static char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

const char *text_data(const char *name)
{
    const char *source = getenv("KT_TEST_SOURCE");
    ck_assert_ptr_nonnull(source);
    char below[512];
    snprintf(below, sizeof(below), "tests/data/%s", name);
    return join(source, below);
}

const char *text_large_data(const char *name)
{
    const char *folder = getenv("KT_TEST_DATA_SHARED");
    if (folder && folder[0])
        return join(folder, name);
    printf("SKIP: %s: KT_TEST_DATA names no folder with large test data\n", name);
    return NULL;
}

/* ---- cases ---- */

static char *copy(const json_t *text, size_t *length)
{
    ck_assert(json_is_string(text));
    *length = json_string_length(text);
    char *bytes = malloc(*length + 1);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, json_string_value(text), *length + 1);
    return bytes;
}

static void read_case(const json_t *value, struct text_case *one)
{
    bool is_list = json_is_array(value);
    const json_t *ids = is_list ? json_array_get(value, 1) : json_object_get(value, "ids");
    one->text = copy(is_list ? json_array_get(value, 0) : json_object_get(value, "text"), &one->length);
    one->n_ids = json_array_size(ids);
    one->ids = calloc(one->n_ids + 1, sizeof(*one->ids));
    for (size_t i = 0; i < one->n_ids; i++)
        one->ids[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    if (is_list)
        one->decoded = copy(json_array_get(value, 2), &one->decoded_length);
}

struct text_cases text_cases_read(const char *path)
{
    json_error_t place;
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &place);
    ck_assert_msg(json_is_array(root), "%s: %s", path, place.text);
    struct text_cases cases = {.n = json_array_size(root)};
    cases.cases = calloc(cases.n, sizeof(*cases.cases));
    for (size_t i = 0; i < cases.n; i++)
        read_case(json_array_get(root, i), &cases.cases[i]);
    json_decref(root);
    return cases;
}

static char *read_whole(const char *path, size_t *length)
{
    FILE *file = fopen(path, "re");
    ck_assert_msg(file != NULL, "%s cannot be opened", path);
    char *bytes = malloc(1 << 20);
    *length = fread(bytes, 1, (1 << 20) - 1, file);
    bytes[*length] = '\0';
    fclose(file);
    return bytes;
}

struct text_cases text_cases_read_ggml(const char *vocabulary)
{
    static const char between[] = "\n__ggml_vocab_test__\n";
    char path[4096];
    size_t length, ids_length;
    snprintf(path, sizeof(path), "%s.inp", vocabulary);
    char *texts = read_whole(path, &length), *text = texts;
    snprintf(path, sizeof(path), "%s.out", vocabulary);
    char *lines = read_whole(path, &ids_length), *rest = lines;
    struct text_cases cases = {.cases = calloc(100, sizeof(*cases.cases))};
    while (text && cases.n < 100) {
        struct text_case *one = &cases.cases[cases.n];
        char *end = memmem(text, (size_t)(texts + length - text), between, sizeof(between) - 1);
        char *line = strsep(&rest, "\n");
        ck_assert_ptr_nonnull(line);
        one->length = end ? (size_t)(end - text) : (size_t)(texts + length - text);
        one->text = strndup(text, one->length);
        one->ids = calloc(strlen(line) + 1, sizeof(*one->ids));
        for (char *word = strtok(line, " "); word; word = strtok(NULL, " "))
            one->ids[one->n_ids++] = (int32_t)strtol(word, NULL, 10);
        text = end ? end + sizeof(between) - 1 : NULL;
        cases.n++;
    }
    free(texts);
    free(lines);
    return cases;
}

void text_cases_free(struct text_cases *cases)
{
    for (size_t i = 0; i < cases->n; i++) {
        free(cases->cases[i].text);
        free(cases->cases[i].ids);
        free(cases->cases[i].decoded);
    }
    free(cases->cases);
}

/* ---- what is asked ---- */

struct kt_tokenizer *text_open(const char *path)
{
    struct kt_tokenizer *tokenizer = NULL;
    struct kt_error error = {KT_OK, ""};
    enum kt_status status = kt_tokenizer_open(path, &tokenizer, &error);
    ck_assert_msg(status == KT_OK, "%s", error.message);
    return tokenizer;
}

void text_expect_ids(const struct kt_tokenizer *tokenizer, const struct text_case *one)
{
    struct kt_text_part part = {.text = one->text, .length = one->length};
    struct kt_error error = {KT_OK, ""};
    int32_t *ids;
    uint64_t n_ids;
    ck_assert_msg(kt_tokenizer_encode(tokenizer, &part, 1, 0, &ids, &n_ids, &error) == KT_OK, "%s",
                  error.message);
    ck_assert_msg(n_ids == one->n_ids, "'%s': %zu ids, wanted %zu", one->text, (size_t)n_ids, one->n_ids);
    for (size_t i = 0; i < one->n_ids; i++)
        ck_assert_msg(ids[i] == one->ids[i], "'%s': id %zu is %d, wanted %d", one->text, i, ids[i],
                      one->ids[i]);
    kt_ids_free(ids);
}

/* ---- random texts ---- */

static uint32_t draw_below(uint64_t *random, uint32_t n)
{
    *random = *random * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)((*random >> 33) % n);
}

static uint32_t draw_code(uint64_t *random, uint32_t range)
{
    static const uint32_t ranges[][2] = {{32, 126},           {9, 13},
                                         {0x80, 0x24F},       {0x300, 0x36F},
                                         {0x370, 0x1200},     {0x2000, 0x206F},
                                         {0x3000, 0x9FFF},    {0xAC00, 0xD7FF},
                                         {0xE000, 0xFFFF},    {0x1F300, 0x1FAFF},
                                         {0x10000, 0x10FFFF}, {0, 8}};
    const uint32_t *bounds = ranges[range % (sizeof(ranges) / sizeof(ranges[0]))];
    return bounds[0] + draw_below(random, bounds[1] - bounds[0] + 1);
}

size_t text_draw(uint64_t *random, char *out)
{
    static const char *const scraps[] = {"'s",    " the",    "  ",           "\n\n",
                                         "\r\n",  "123",     "<|im_start|>", "<|im_end|>",
                                         "<|im_", "<think>", "<tool> ",      " <mask>",
                                         "word",  " ",       "<s>",          "e\xCC\x81"};
    uint32_t kinds[3] = {draw_below(random, 12), draw_below(random, 12), draw_below(random, 12)};
    uint32_t n = draw_below(random, 30);
    size_t length = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (draw_below(random, 5) == 0) {
            const char *scrap = scraps[draw_below(random, sizeof(scraps) / sizeof(scraps[0]))];
            memcpy(out + length, scrap, strlen(scrap));
            length += strlen(scrap);
        } else {
            length += kt_utf8_write(draw_code(random, kinds[draw_below(random, 3)]), out + length);
        }
    }
    out[length] = '\0';
    return length;
}

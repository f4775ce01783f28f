/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer_exact.c - small tokenizer.json files with what is seldom in one; the ids are those of
 * Hugging Face's tokenizers 0.23.3. */
#define _GNU_SOURCE

#include "tests/engine/text/text_cases.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file whose quotes are written as '. */
static const char *write_file(const char *json)
{
    char *text = strdup(json);
    ck_assert_ptr_nonnull(text);
    for (char *at = text; *at; at++)
        if (*at == '\'')
            *at = '"';
    sandbox_write("t/tokenizer.json", "%s", text);
    free(text);
    return sandbox_path("t");
}

static void expect_ids(struct kt_tokenizer *tokenizer, const char *text, uint32_t is_content,
                       const char *wanted)
{
    const struct kt_text_part part = {text, strlen(text), is_content, 0};
    struct kt_error error = {KT_OK, ""};
    char got[512] = "";
    int32_t *ids;
    uint64_t n_ids;
    enum kt_status status = kt_tokenizer_encode(tokenizer, &part, 1, 0, &ids, &n_ids, &error);
    ck_assert_msg(status == KT_OK, "'%s': %s", text, error.message);
    for (uint64_t i = 0; i < n_ids; i++)
        snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%d", i ? " " : "", ids[i]);
    ck_assert_msg(strcmp(got, wanted) == 0, "'%s': %s, wanted %s", text, got, wanted);
    kt_ids_free(ids);
}

/* ---- as Hugging Face's tokenizers do ---- */

#define BYTES                                                                                \
    "'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': false, 'use_regex': true}, " \
    "'decoder': {'type': 'ByteLevel'}, "
#define SPACED                                                                               \
    "{'added_tokens': [{'id': 9, 'content': '<a>', 'rstrip': true}, "                        \
    "{'id': 10, 'content': '\\n\\n'}, {'id': 11, 'content': '\\n', 'lstrip': true}, "        \
    "{'id': 8, 'content': 'xy', 'single_word': true, 'special': true}], "                    \
    "'model': {'vocab': {'a': 0, 'b': 1, 'x': 2, 'y': 3, '<': 4, '>': 5, ' ': 6, '\\n': 7, " \
    "'xy': 8}, 'merges': ['x y']}}"
#define BYTE_TOKENS                                                              \
    "{" BYTES "'added_tokens': [{'id': 0, 'content': 'a', 'single_word': true, " \
    "'special': true}, {'id': 2, 'content': '\u0120'}, "                         \
    "{'id': 3, 'content': 'ab', 'single_word': true, 'special': true}], "        \
    "'model': {'vocab': {'a': 0, 'b': 1, '\u0120': 2, 'ab': 3}, 'merges': ['a b']}}"

/* Tokens that join any two letters, where a regular expression lets them. */
#define CLASSES(regex)                                                                                           \
    "{'pre_tokenizer': {'type': 'Split', 'pattern': {'Regex': '" regex                                           \
    "'}, 'behavior': 'Isolated'}, 'model': "                                                                     \
    "{'vocab': {'a': 0, 'b': 1, 'c': 2, '.': 3, ',': 4, 'ac': 5, 'cb': 6, 'ab': 7, 'bb': 8, 'a.': 9, 'bc': 10, " \
    "'^.': 11, '^': 12, 'ca': 13, '.c': 14}, 'merges': ['a c', 'c b', 'a b', 'b b', 'a .', 'b c', '^ .', "       \
    "'c a', '. c']}}"

static const struct {
    const char *json;
    const char *cases[8][2]; /* text, ids */
} files[] = {
    /* Unknown characters are one token, whatever was encoded before. */
    {"{'model': {'unk_token': '<unk>', 'fuse_unk': true, 'vocab': {'<unk>': 0, 'a': 1, "
     "'\u2581': 2, '\u2581a': 3}, 'merges': ['\u2581 a']}}",
     {{"\ufb01a", "0 1"},
      {"\u20ac\ufb01a", "0 1"},
      {"\u20ac", "0"},
      {"\u20aca", "0 1"},
      {"a\u20ac", "1 0"},
      {"\u2581a\u20ac\u20ac\u2581a", "3 0 3"},
      {"\u20ac\u20ac", "0"}}},
    /* Bytes go before the unknown character before them; both may be joined with what follows. */
    {"{'model': {'unk_token': '<unk>', 'byte_fallback': true, 'vocab': {'<unk>': 0, 'a': 1, "
     "'<0xC3>': 2, '<0xA9>': 3}, 'merges': []}}",
     {{"\u20ac\u00e9\u20ac\u00e9\u20ac", "2 3 0 2 3 0 0"},
      {"a\u00e9\u20aca", "1 2 3 0 1"},
      {"\u20ac\u20ac", "0 0"}}},
    {"{'model': {'unk_token': '<unk>', 'byte_fallback': true, 'fuse_unk': true, "
     "'vocab': {'<unk>': 0, 'a': 1, '<0xC3>': 2, '<0xA9>': 3, '<0xC3><0xA9>': 4, "
     "'<unk>a': 5}, 'merges': ['<0xC3> <0xA9>', '<unk> a']}}",
     {{"\u20ac\u00e9\u20ac\u00e9\u20aca", "4 4 5"},
      {"a\u00e9\u20aca", "1 4 5"},
      {"\u00e9", "4"},
      {"\u20ac\u20ac", "0"}}},
    {"{'model': {'byte_fallback': true, 'ignore_merges': true, 'vocab': {'a': 0, '<0x41>': 1, "
     "'<': 2}, 'merges': []}}",
     {{"<0x41>", "1"}, {"A", "1"}, {"a", "0"}}},
    /* Without words, the whole text is looked up, and no part of it. */
    {"{'model': {'ignore_merges': true, 'vocab': {'A': 1, 'B': 2, 'K': 3, 'AB': 4}, "
     "'merges': []}}",
     {{"KAB", "3 1 2"}, {"AB", "4"}, {"ABK", "1 2 3"}, {"KAB", "3 1 2"}}},
    /* White space that a token takes may be tokens of its own; a single word that is none is joined. */
    {SPACED,
     {{"<a>\n\nb", "9 10 1"},
      {"<a> \n\n b", "9 10 6 1"},
      {"a\n\n\nb", "0 10 7 1"},
      {"<a> b<a>", "9 1 9"},
      {"axyb", "0 8 1"},
      {"xy", "8"},
      {"b xy b", "1 6 8 6 1"},
      {"b \n\n", "1 6 10"}}},
    /* A byte's token that is added, too. */
    {BYTE_TOKENS, {{"bab", "1 3"}, {"a b", "0 2 1"}, {"aab ab", "0 3 2 3"}, {"b aab", "1 2 0 3"}}},
    /* Ids of added tokens are the next ones, or those of the vocabulary. */
    {"{'added_tokens': [{'id': 20, 'content': '<x>'}, {'id': 30, 'content': 'b'}, {'id': 7, "
     "'content': '<y>'}], 'model': {'vocab': {'a': 0, 'b': 1}, 'merges': []}}",
     {{"a<x>b<y>", "0 2 1 3"}}},
    /* Alone, \\w has the fractions of Latin-1; in a class it has not. */
    {"{'pre_tokenizer': {'type': 'Split', 'pattern': {'Regex': '\\\\w+|[^\\\\w]'}, 'behavior': 'Isolated'}, "
     "'model': {'vocab': {'a': 0, '\u00bd': 1, '\u2074': 2, 'a\u00bd': 3, '\u00bd\u2074': 4}, "
     "'merges': ['\u00bd \u2074', 'a \u00bd']}}",
     {{"a\u00bd\u2074", "3 2"}}},
    {"{'pre_tokenizer': {'type': 'Split', 'pattern': {'Regex': '\\\\b'}, 'behavior': 'Isolated'}, "
     "'model': {'vocab': {'a': 0, '\u00bd': 1, '\u2074': 2, 'a\u00bd': 3, '\u00bd\u2074': 4}, "
     "'merges': ['\u00bd \u2074', 'a \u00bd']}}",
     {{"a\u00bd\u2074", "3 2"}, {"\u00bd\u00bd", "1 1"}}},
    /* A script has its own characters, and not those that it shares with others. */
    {"{'pre_tokenizer': {'type': 'Split', 'pattern': {'Regex': '\\\\p{Han}+|[\\\\p{^Han}]'}, 'behavior': "
     "'Isolated'}, 'model': {'vocab': {'\u4e00': 0, '\u3013': 1, 'a': 2, '\u4e00\u3013': 3, '\u4e00\u4e00': 4}, "
     "'merges': ['\u4e00 \u3013', '\u4e00 \u4e00']}}",
     {{"\u4e00\u3013", "0 1"}, {"\u4e00\u4e00\u3013a", "4 1 2"}}},
    /* Classes in classes, and parts that all must hold. */
    {CLASSES("[a-z&&[^b]]+|[^(\\\\s|[.,])^]"),
     {{"acb", "5 1"}, {"bc", "1 2"}, {"abac.cb,", "0 1 5 3 2 1 4"}}},
    {CLASSES("[^[a]c[.,]]+|[[^a-b]&&[^.]]"),
     {{"acb", "0 2 1"}, {"bbc", "8 2"}, {"b,bcac.c", "1 4 1 2 0 2 3 2"}}},
    {CLASSES("[[[.]^]a&&[^b[,]]]+"), {{"a.c,^.a", "9 2 4 11 0"}, {"ac", "0 2"}}},
    /* What stood first is gone. */
    {"{'normalizer': {'type': 'Strip', 'strip_left': true}, "
     "'pre_tokenizer': {'type': 'Metaspace', 'replacement': '\u2581', "
     "'prepend_scheme': 'first', 'split': false}, 'model': {'vocab': {'\u2581': 0, 'a': 1, "
     "'b': 2, '\u2581a': 3}, 'merges': ['\u2581 a']}}",
     {{"ab", "3 2"}, {" ab", "1 2"}}},
};
#define N_FILES ((int)(sizeof(files) / sizeof(*files)))

/* In turn and backwards: an id depends on nothing that was encoded before. */
START_TEST(gives_the_ids_of_tokenizers)
{
    struct kt_tokenizer *tokenizer = text_open(write_file(files[_i].json));
    int n = 0;
    for (; n < 8 && files[_i].cases[n][0]; n++)
        expect_ids(tokenizer, files[_i].cases[n][0], 0, files[_i].cases[n][1]);
    while (n-- > 0)
        expect_ids(tokenizer, files[_i].cases[n][0], 0, files[_i].cases[n][1]);
    kt_tokenizer_destroy(tokenizer);
}
END_TEST

/* What merges join to a control token in a template stays in pieces in content, whichever came first; a
 * single byte is what it is. */
START_TEST(content_is_not_joined_to_control_tokens)
{
    for (uint32_t first = 0; first < 2; first++) {
        struct kt_tokenizer *tokenizer = text_open(write_file(BYTE_TOKENS));
        const struct kt_text_part both[] = {{"ba", 2, 0, 0}, {"b", 1, 1, 0}};
        int32_t *ids;
        uint64_t n_ids;
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t is_content = (i + first) % 2;
            expect_ids(tokenizer, "bab aab", is_content, is_content ? "1 0 1 2 0 0 1" : "1 3 2 0 3");
        }
        ck_assert(kt_tokenizer_encode(tokenizer, both, 2, 0, &ids, &n_ids, NULL) == KT_OK);
        ck_assert_uint_eq(n_ids, 3);
        kt_ids_free(ids);
        kt_tokenizer_destroy(tokenizer);
    }
    struct kt_tokenizer *tokenizer = text_open(
        write_file("{'added_tokens': [{'id': 3, 'content': '<|>'}], 'model': {'ignore_merges': true, "
                   "'vocab': {'<': 0, '|': 1, '>': 2, '<|>': 3, '<|': 4}, 'merges': ['< |', '<| >']}}"));
    expect_ids(tokenizer, "<|><|>", 0, "3 3");
    expect_ids(tokenizer, "<|><|>", 1, "3 3"); /* no part of a template's language */
    kt_tokenizer_destroy(tokenizer);
    tokenizer = text_open(
        write_file("{'added_tokens': [{'id': 4, 'content': '<|a|>'}], 'model': {'ignore_merges': true, "
                   "'vocab': {'<': 0, '|': 1, '>': 2, 'a': 3, '<|a|>': 4, '<|': 5, '<|a': 6, '|>': 7}, "
                   "'merges': ['< |', '| >', '<| a', '<|a |>']}}"));
    expect_ids(tokenizer, "<|a|>", 0, "4");
    expect_ids(tokenizer, "<|a|>", 1, "6 7");
    expect_ids(tokenizer, "<|a|>a", 1, "6 7 3");
    kt_tokenizer_destroy(tokenizer);
}
END_TEST

START_TEST(refuses_what_has_no_sense)
{
    static const struct {
        const char *json;
        enum kt_status status;
        const char *words;
    } cases[] = {
        {"{'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': [{'type': 'ByteLevel', "
         "'use_regex': true}, {'type': 'Digits'}]}, 'model': {'vocab': {'a': 0}, 'merges': []}}",
         KT_E_UNSUPPORTED, "Digits, behind ByteLevel"},
        {"{" BYTES "'model': {'byte_fallback': true, 'vocab': {'a': 0}, 'merges': []}}", KT_E_UNSUPPORTED,
         "no token of the byte 0x00"},
        {"{'model': {'vocab': {'a': 0, 'b': 0}, 'merges': []}}", KT_E_UNSUPPORTED, "the id of another token"},
        {"{'added_tokens': [{'id': 3, 'content': '<x>'}], 'model': {'vocab': {'a': 0, 'b': 2}, "
         "'merges': []}}",
         KT_E_UNSUPPORTED, "'<x>' gets the id 2"},
        {"{'added_tokens': [{'id': 2, 'content': '<x>'}, {'id': 2, 'content': '<x>', "
         "'lstrip': true}], 'model': {'vocab': {'a': 0}, 'merges': []}}",
         KT_E_UNSUPPORTED, "two added tokens are '<x>', and one of them is lstrip"},
        /* Of these, tokenizers takes either, by chance. */
        {"{'normalizer': {'type': 'Replace', 'pattern': {'String': 'y'}, 'content': 'x'}, "
         "'added_tokens': [{'id': 2, 'content': '<x>', 'normalized': true}, {'id': 3, "
         "'content': '<y>', 'normalized': true}], 'model': {'vocab': {'a': 0, 'b': 1}, "
         "'merges': []}}",
         KT_E_UNSUPPORTED, "two added tokens are '<x>' once normalized"},
    };
    struct kt_tokenizer *tokenizer = NULL;
    struct kt_error error = {KT_OK, ""};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        ck_assert_int_eq(kt_tokenizer_open(write_file(cases[i].json), &tokenizer, &error), cases[i].status);
        ck_assert_msg(strstr(error.message, cases[i].words) != NULL, "%s", error.message);
    }
}
END_TEST

/* ---- bytes that are not characters ---- */

static void expect_decoded(struct kt_tokenizer *tokenizer, const char *text, size_t length, char **decoded)
{
    const struct kt_text_part part = {text, length, 0, 0};
    uint64_t n_ids, n;
    int32_t *ids;
    ck_assert(kt_tokenizer_encode(tokenizer, &part, 1, 0, &ids, &n_ids, NULL) == KT_OK);
    ck_assert(kt_tokenizer_decode(tokenizer, ids, n_ids, 0, decoded, &n, NULL) == KT_OK);
    kt_ids_free(ids);
}

/* They cut words as a sign would, and put no space before what follows them. */
START_TEST(broken_bytes_put_no_space_before_text)
{
    static const char *const names[] = {"spm-legacy", "spm-first",   "spm-never", "gpt-2-prefix",
                                        "nfkd",       "deepseek-v3", "qwen2"};
    static const char *const texts[][2] = {{"a\xFFz", "a\uFFFDz"},
                                           {"\xFFz", "\uFFFDz"},
                                           {"a\xFF", "a\uFFFD"},
                                           {" \xFF \xFE ", " \uFFFD \uFFFD "},
                                           {"a \xFF b \xFE", "a \uFFFD b \uFFFD"},
                                           {"\xFF", "\uFFFD"},
                                           {"<think>\xFFz", "<think>\uFFFDz"}};
    char name[64];
    snprintf(name, sizeof(name), "tokenizers/%s.json", names[_i]);
    struct kt_tokenizer *tokenizer = text_open(text_data(name));
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        char *broken, *whole;
        expect_decoded(tokenizer, texts[i][0], strlen(texts[i][0]), &broken);
        expect_decoded(tokenizer, texts[i][1], strlen(texts[i][1]), &whole);
        ck_assert_str_eq(broken, whole);
        kt_text_free(broken);
        kt_text_free(whole);
    }
    kt_tokenizer_destroy(tokenizer);
}
END_TEST

/* ---- time ---- */

/* Each of many tokens within white space may take all that follows it. */
START_TEST(white_space_is_looked_at_once)
{
    size_t n = 1000000;
    char *text = malloc(n);
    memset(text, '\n', n);
    struct kt_tokenizer *tokenizer =
        text_open(write_file("{'added_tokens': [{'id': 1, 'content': '\\n', 'rstrip': true}], "
                             "'model': {'vocab': {'a': 0}, 'merges': []}}"));
    const struct kt_text_part part = {text, n, 0, 0};
    uint64_t n_ids;
    int32_t *ids;
    ck_assert(kt_tokenizer_encode(tokenizer, &part, 1, 0, &ids, &n_ids, NULL) == KT_OK);
    ck_assert_uint_eq(n_ids, n);
    kt_ids_free(ids);
    kt_tokenizer_destroy(tokenizer);
    free(text);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("exact");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, gives_the_ids_of_tokenizers, 0, N_FILES);
    tcase_add_test(tests, content_is_not_joined_to_control_tokens);
    tcase_add_test(tests, refuses_what_has_no_sense);
    tcase_add_loop_test(tests, broken_bytes_put_no_space_before_text, 0, 7);
    tcase_add_test(tests, white_space_is_looked_at_once);
    return run_tests("tokenizers, exactly", tests);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer_files.c - tokenizers of damaged, odd and missing files, and what stands beside a vocabulary.
 */
#define _GNU_SOURCE

#include "tests/engine/text/text_cases.h"
#include "tests/support/alloc_faults.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A vocabulary of five tokens; %s are keys of the whole and of the model. */
#define TINY                                                                                     \
    "{\"added_tokens\": [{\"id\": 4, \"content\": \"<s>\", \"special\": true}], %s "             \
    "\"model\": {\"type\": \"BPE\", %s \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"abb\": 3}, " \
    "\"merges\": [\"a b\", [\"ab\", \"b\"]]}}"
#define BYTES "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"use_regex\": false},"

/* Opens FOLDER/NAME of the sandbox, which has to fail. */
static void expect_failure(const char *name, enum kt_status status, const char *words)
{
    struct kt_tokenizer *tokenizer = NULL;
    struct kt_error error = {KT_OK, ""};
    enum kt_status got = kt_tokenizer_open(sandbox_path(name), &tokenizer, &error);
    ck_assert_msg(got == status, "%s: status %d, wanted %d (%s)", words, (int)got, (int)status,
                  error.message);
    ck_assert_msg(strstr(error.message, words) != NULL, "'%s' has no '%s'", error.message, words);
    ck_assert_ptr_null(tokenizer);
}

static void expect_ids(struct kt_tokenizer *tokenizer, const char *text, uint32_t flags, const char *wanted)
{
    const struct kt_text_part part = {text, strlen(text), 0, 0};
    char got[512] = "";
    int32_t *ids;
    uint64_t n_ids;
    ck_assert(kt_tokenizer_encode(tokenizer, &part, 1, flags, &ids, &n_ids, NULL) == KT_OK);
    for (uint64_t i = 0; i < n_ids; i++)
        snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%d", i ? " " : "", ids[i]);
    ck_assert_str_eq(got, wanted);
    kt_ids_free(ids);
}

/* ---- tokenizer.json ---- */

#define SPLIT(regex) \
    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" regex "\"}, \"behavior\": \"Isolated\"}"
#define PREPEND "{\"type\": \"Prepend\", \"prepend\": \"x\"}"
#define TIMES_4(text) text text text text
#define TIMES_16(text) TIMES_4(TIMES_4(text))

START_TEST(names_what_is_wrong_with_a_file)
{
    static const struct {
        const char *whole, *model;
        enum kt_status status;
        const char *words;
    } cases[] = {
        {"\"normalizer\": {\"type\": \"Precompiled\"},", "", KT_E_UNSUPPORTED, "Precompiled"},
        {"\"normalizer\": {\"type\": \"Lowercase\"},", "", KT_E_UNSUPPORTED,
         "normalizer of the type 'Lowercase'"},
        {"\"normalizer\": {\"type\": \"Replace\", \"pattern\": {}, \"content\": \"x\"},", "", KT_E_FORMAT,
         "Replace"},
        {"\"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"},", "", KT_E_UNSUPPORTED, "BertPreTokenizer"},
        {"\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"(a\"}, \"behavior\": "
         "\"Isolated\"},",
         "", KT_E_UNSUPPORTED, "regular expression (a"},
        {"\"pre_tokenizer\": " SPLIT("[&&b]") ",", "", KT_E_UNSUPPORTED, "'&&' behind nothing"},
        {"\"pre_tokenizer\": " SPLIT("[a[b]&&]") ",", "", KT_E_UNSUPPORTED, "nothing behind '&&'"},
        {"\"pre_tokenizer\": " SPLIT("[a-[b]]") ",", "", KT_E_UNSUPPORTED, "'-' before a class"},
        {"\"pre_tokenizer\": " SPLIT("[a[b]") ",", "", KT_E_FORMAT, "has no end"},
        {"\"pre_tokenizer\": " SPLIT("[[[[[[[[[a]]]]]]]]]") ",", "", KT_E_UNSUPPORTED, "more than 8"},
        {"\"pre_tokenizer\": {\"type\": \"Split\", \"behavior\": \"Isolated\"},", "", KT_E_FORMAT,
         "a Split without pattern"},
        {"\"pre_tokenizer\": {\"type\": \"Punctuation\", \"behavior\": \"Odd\"},", "", KT_E_FORMAT,
         "a Punctuation with the behavior 'Odd'"},
        {"\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"a\"}, \"behavior\": \"Odd\"},",
         "", KT_E_FORMAT, "'Odd'"},
        {"\"pre_tokenizer\": " SPLIT("a\\\\") ",", "", KT_E_FORMAT, "ends with a backslash"},
        {"\"pre_tokenizer\": " SPLIT("[\\\\W]") ",", "", KT_E_UNSUPPORTED, "\\W in a class"},
        {"\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [" SPLIT(
             "a") ", {\"type\": \"ByteLevel\", \"add_prefix_space\": true}]},",
         "", KT_E_UNSUPPORTED, "ByteLevel with add_prefix_space after other steps"},
        {"\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [" TIMES_16(SPLIT("a") ",")
             SPLIT("a") "]},",
         "", KT_E_UNSUPPORTED, "more than 16 steps that cut text into words"},
        {"\"pre_tokenizer\": {\"type\": \"Metaspace\"},", "", KT_E_UNSUPPORTED,
         "Metaspace after other steps or without replacement"},
        {"\"normalizer\": {\"type\": \"Prepend\"},", "", KT_E_FORMAT, "a Prepend without text"},
        {"\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}},", "", KT_E_FORMAT,
         "a Replace without content"},
        {"\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [" TIMES_16(PREPEND ",") PREPEND "]},",
         "", KT_E_UNSUPPORTED, "more than 16 steps of normalization"},
        {"", "\"dropout\": 0.5,", KT_E_UNSUPPORTED, "dropout"},
        {"", "\"continuing_subword_prefix\": \"##\",", KT_E_UNSUPPORTED, "continuing_subword_prefix"},
        {"", "\"end_of_word_suffix\": \"</w>\",", KT_E_UNSUPPORTED, "end_of_word_suffix"},
    };
    sandbox_write("t/tokenizer.json", TINY, cases[_i].whole, cases[_i].model);
    expect_failure("t", cases[_i].status, cases[_i].words);
}
END_TEST
#define N_WRONG 24

START_TEST(names_what_is_wrong_with_a_vocabulary)
{
    static const struct {
        const char *text;
        enum kt_status status;
        const char *words;
    } cases[] = {
        {"", KT_E_FORMAT, "tokenizer.json"},
        {"[]", KT_E_FORMAT, "not a JSON object"},
        {"{\"model\"", KT_E_FORMAT, "tokenizer.json:1"},
        {"{}", KT_E_FORMAT, "no object 'model'"},
        {"{\"model\": {\"type\": \"WordPiece\"}}", KT_E_UNSUPPORTED, "WordPiece"},
        {"{\"model\": {\"vocab\": {}}}", KT_E_FORMAT, "model.vocab"},
        {"{\"model\": {\"vocab\": {\"a\": -1}}}", KT_E_FORMAT, "'a' has no id"},
        {"{\"model\": {\"vocab\": {\"a\": 99999999}}}", KT_E_FORMAT, "99999999"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": {}}}", KT_E_FORMAT, "model.merges"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 16000000}, \"merges\": []}}", KT_E_FORMAT,
         "ids end at 2097151"}, /* which would take 400 MB */
        {"{\"model\": {\"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": [\"a b\"]}}", KT_E_FORMAT, "merges[0]"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"aa\"]}}", KT_E_FORMAT, "merges[0]"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [[\"a\"]]}}", KT_E_FORMAT, "merges[0]"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [[1, 2]]}}", KT_E_FORMAT, "merges[0]"},
        {"{\"added_tokens\": [{\"id\": 3}], \"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}}", KT_E_FORMAT,
         "added token 3"},
        {"{\"added_tokens\": [{\"id\": 1, \"content\": \"" TIMES_16(
             TIMES_16("xxxxxxxxxxxxxxxxx")) "\"}], \"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}}",
         KT_E_UNSUPPORTED, "an added token, 1, of 4352 bytes; 1 to 4096 are possible"},
        {"{\"added_tokens\": [{\"content\": \"x\"}], \"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}}",
         KT_E_FORMAT, "added_tokens[0]"},
    };
    sandbox_write("t/tokenizer.json", "%s", cases[_i].text);
    expect_failure("t", cases[_i].status, cases[_i].words);
    expect_failure("t/tokenizer.json", cases[_i].status, cases[_i].words);
}
END_TEST
#define N_VOCABULARIES 17

START_TEST(names_what_no_tokenizer_is_in)
{
    struct kt_tokenizer *tokenizer;
    struct kt_error error;
    char name[400];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    ck_assert(kt_tokenizer_open("/dev/null", &tokenizer, &error) == KT_E_IO);
    ck_assert_ptr_nonnull(strstr(error.message, "/dev/null: neither a regular file nor a folder"));
    ck_assert(kt_tokenizer_open(name, &tokenizer, &error) == KT_E_IO);
    ck_assert(kt_tokenizer_create(NULL, &tokenizer, &error) == KT_E_INVALID);
    sandbox_write("t/tokenizer.json", TINY, "", "");
    sandbox_write("t/tokenizer_config.json", "{\"added_tokens_decoder\": {\"x\": {}}}");
    expect_failure("t", KT_E_FORMAT, "added_tokens_decoder: 'x' is not an id");
}
END_TEST

/* A vocabulary with what JSON escapes; %s are the merges with their key. */
#define QUOTES                                                                                      \
    "{\"model\": {\"vocab\": {\"\\\"\": 0, \"\\\\\": 1, \"\u00e9\": 2, \"\\\"\\\\\": 3, \"/\": 4, " \
    "\"\\\"\\\\\u00e9\": 5, \"\u00e9/\": 6}, %s}, \"version\": \"1.0\"}"

/* Most merges are read from the file's text, the others as a tree of JSON: the ids are the same. */
START_TEST(reads_merges_however_they_are_written)
{
    static const char *const merges[] = {
        "\"merges\": [\"\\\" \\\\\", \"\\\"\\\\ \u00e9\", \"\u00e9 /\"]",
        "\"merges\":[[\"\\\"\",\"\\\\\"],[\"\\\"\\\\\",\"\u00e9\"],[\"\u00e9\",\"/\"]]",
        " \"merges\" : [\n [ \"\\\"\" , \"\\\\\" ]\t,\r\n \"\\\"\\\\ \u00e9\" ,\"\u00e9 /\" ] ",
        "\"merges\": [\"\\u0022 \\u005C\", \"\\u0022\\u005c \\u00E9\", \"\\u00e9 \\/\"]", /* \/: a tree */
        "\"merges\": [[\"\\\"\", \"\\\\\"], [\"\\\"\\\\\", \"\u00e9\"], \"\u00e9 \\/\"]",
        "\"m\\u0065rges\": [\"\\\" \\\\\", \"\\\"\\\\ \u00e9\", \"\u00e9 /\"]",
        "\"merges\": [\"no pair\"], \"merges\": [\"\\\" \\\\\", \"\\\"\\\\ \u00e9\", \"\u00e9 /\"]",
        "\"merges\": [\"no pair\"], \"m\\u0065rges\": [\"\\\" \\\\\", \"\\\"\\\\ \u00e9\", \"\u00e9 /\"]",
        "\"merges\": [\"\u00e9 /\", \"\\\" \\\\\", \"\\\"\\\\ \u00e9\"]", /* another order, other ids */
    };
    for (size_t i = 0; i < sizeof(merges) / sizeof(*merges); i++) {
        sandbox_write("t/tokenizer.json", QUOTES, merges[i]);
        struct kt_tokenizer *tokenizer = text_open(sandbox_path("t"));
        expect_ids(tokenizer, "\"\\\u00e9/\"\\/\u00e9/", 0, i == 8 ? "3 6 3 4 6" : "5 4 3 4 6");
        kt_tokenizer_destroy(tokenizer);
    }
}
END_TEST

START_TEST(names_what_is_wrong_with_merges)
{
    static const struct {
        const char *merges, *words;
    } cases[] = {
        {"[\"\\\" \\\\\",]", "tokenizer.json"},
        {"[\"\\\" \\\\\" \"\u00e9 /\"]", "tokenizer.json"},
        {"[[\"\u00e9\", \"/\"]", "tokenizer.json"},
        {"[\"\u00e9 /\"]]", "tokenizer.json"},
        {"[\"\u00e9 /\"}", "tokenizer.json"},
        {"[\"\u00e9 /\\u00g0\"]", "its line 1: invalid escape"},
        {"[\"\u00e9 /\", \"\\ud83d /\"]", "its line 1: invalid Unicode"},
        {"[\"\u00e9 /\", \"\x01\"]", "line 1: "},
        {"[\"\u00e9 /\", \"\t /\"]", "its line 1: "},
        {"[\"\u00e9 /\", \"/ \xff\"]", "merges[1]"},
        {"[[\"\u00e9\", \"/\", \"/\"]]", "merges[0]"},
        {"[{\"\u00e9\": \"/\"}]", "merges[0]"},
        {"[\"\u00e9 /\", []]", "merges[1]"},
        {"[\"\u00e9 /\", \"/ /\"]", "merges[1]"},
        {"[\"\u00e9 /\", \"\"]", "merges[1]"},
        {"[\"\u00e9 /\", \" /\"]", "merges[1]"},
        {"[\"\u00e9 /\", \"\u00e9 \"]", "merges[1]"},
        {"[,]", "tokenizer.json"},
        {"\"[]\"", "not an array"},
        {"0", "not an array"},
    };
    char text[256];
    snprintf(text, sizeof(text), "\"merges\": %s", cases[_i].merges);
    sandbox_write("t/tokenizer.json", QUOTES, text);
    expect_failure("t", KT_E_FORMAT, cases[_i].words);
}
END_TEST
#define N_MERGES 20

START_TEST(reads_what_stands_beside_a_vocabulary)
{
    sandbox_write("t/tokenizer.json", TINY, BYTES, "");
    sandbox_write(
        "t/tokenizer_config.json",
        "{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"<end>\"}, \"add_bos_token\": true, "
        "\"model_max_length\": 1000000000000000019884624838656, \"chat_template\": ["
        "{\"name\": \"tools\", \"template\": \"T\"}, {\"name\": \"default\", \"template\": \"D\"}], "
        "\"added_tokens_decoder\": {\"4\": {\"content\": \"other\"}, \"7\": {\"content\": \"<end>\", "
        "\"special\": true}, \"8\": {\"content\": \"<user>\"}}}");
    sandbox_write("t/generation_config.json", "{\"eos_token_id\": [7, 8, 99, -1, \"x\"]}");
    struct kt_tokenizer *tokenizer = text_open(sandbox_path("t"));
    struct kt_tokenizer_info info;
    struct kt_token token;
    kt_tokenizer_info(tokenizer, &info);
    ck_assert_int_eq(info.bos_token_id, 4);
    ck_assert_int_eq(info.eos_token_id, 7);
    ck_assert(info.adds_bos && !info.adds_eos && !info.normalizes);
    ck_assert_uint_eq(info.n_tokens, 9);
    for (int id = 0; id < 9; id++) {
        enum kt_status status = kt_tokenizer_token(tokenizer, id, &token, NULL);
        ck_assert_int_eq((int)status, id == 5 || id == 6 ? KT_E_RANGE : KT_OK);
        if (status == KT_OK)
            ck_assert_uint_eq(token.ends, id >= 7);
    }
    expect_ids(tokenizer, "abb<end>a<user>", 0, "3 7 0 8");
    expect_ids(tokenizer, "ab", KT_ENCODE_BOS, "4 2");
    expect_ids(tokenizer, "<s>ab", KT_ENCODE_BOS, "4 2");
    expect_ids(tokenizer, "", KT_ENCODE_BOS, "4");
    expect_ids(tokenizer, "", 0, "");
    kt_tokenizer_destroy(tokenizer);
}
END_TEST

static uint64_t count_control(const struct kt_tokenizer *tokenizer, const char *text, bool is_content)
{
    const struct kt_text_part part = {text, strlen(text), is_content, 0};
    int32_t *ids;
    uint64_t n_ids, n = 0;
    ck_assert(kt_tokenizer_encode(tokenizer, &part, 1, 0, &ids, &n_ids, NULL) == KT_OK);
    for (uint64_t i = 0; i < n_ids; i++) {
        struct kt_token token;
        ck_assert(kt_tokenizer_token(tokenizer, ids[i], &token, NULL) == KT_OK);
        n += token.type == KT_TOKEN_CONTROL || (token.length > 2 && token.text[0] == '<');
    }
    kt_ids_free(ids);
    return n;
}

/* Tags of a template's language are not content, even where files do not call them special; nor is a token
 * that only the files beside a vocabulary call so, and that its merges would make. */
START_TEST(tags_of_the_template_are_no_content)
{
    sandbox_write(
        "t/tokenizer.json",
        "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"use_regex\": false}, \"added_tokens\": ["
        "{\"id\": 20, \"content\": \"<tool>\"}, {\"id\": 21, \"content\": \"<|turn|>\"}, "
        "{\"id\": 22, \"content\": \"<other>\"}], \"model\": {\"vocab\": {\"<\": 0, \"s\": 1, \">\": 2, "
        "\"<s\": 3, \"<s>\": 4, \"t\": 5, \"o\": 6, \"l\": 7, \"|\": 8, \"u\": 9, \"r\": 10, \"n\": 11, "
        "\"h\": 12, \"e\": 13, \"!\": 14}, \"merges\": [\"< s\", \"<s >\"]}}");
    sandbox_write("t/tokenizer_config.json",
                  "{\"eos_token\": \"<s>\", \"pad_token\": \"!\", \"chat_template\": "
                  "\"{{ '<tool>' }}\"}");
    struct kt_tokenizer *tokenizer = text_open(sandbox_path("t"));
    ck_assert_uint_eq(count_control(tokenizer, "<s>", false), 1);
    ck_assert_uint_eq(count_control(tokenizer, "<s><tool><|turn|>", false), 3);
    ck_assert_uint_eq(count_control(tokenizer, "<s><tool><|turn|>!", true), 0);
    ck_assert_uint_eq(count_control(tokenizer, "<other>", true), 1); /* no part of the template's language */
    kt_tokenizer_destroy(tokenizer);
}
END_TEST

/* 100,000 marks of two classes in turns, and a step that would make gigabytes of a letter. */
START_TEST(normalizing_is_bounded)
{
    size_t n = 200000;
    char *text = malloc(n + 1);
    struct kt_error error = {KT_OK, ""};
    struct kt_tokenizer *tokenizer = text_open(text_data("tokenizers/qwen2.json"));
    text[0] = 'e';
    for (size_t i = 0; 4 * i + 5 <= n; i++)
        memcpy(text + 1 + 4 * i, "\xCC\x81\xCC\xA3", 4);
    const struct kt_text_part part = {text, n - 3, 0, 0};
    int32_t *ids;
    uint64_t n_ids;
    ck_assert(kt_tokenizer_encode(tokenizer, &part, 1, 0, &ids, &n_ids, NULL) == KT_OK);
    kt_ids_free(ids);
    free(text);
    kt_tokenizer_destroy(tokenizer);
    sandbox_write(
        "t/tokenizer.json", TINY,
        BYTES
        "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": ["
        "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"aaaaaaaaaaaaaaaa\"}, "
        "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"aaaaaaaaaaaaaaaa\"}, "
        "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"aaaaaaaaaaaaaaaa\"}, "
        "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"aaaaaaaaaaaaaaaa\"}]},",
        "");
    tokenizer = text_open(sandbox_path("t"));
    const struct kt_text_part letter = {"a", 1, 0, 0};
    ck_assert(kt_tokenizer_encode(tokenizer, &letter, 1, 0, &ids, &n_ids, &error) == KT_E_RANGE);
    ck_assert(strstr(error.message, "normalizing") != NULL);
    kt_tokenizer_destroy(tokenizer);
}
END_TEST

START_TEST(says_which_byte_cannot_be_written)
{
    sandbox_write("t/tokenizer.json", TINY, BYTES, "");
    struct kt_tokenizer *tokenizer = text_open(sandbox_path("t"));
    const struct kt_text_part part = {"abz", 3, 0, 0};
    struct kt_error error;
    int32_t *ids;
    uint64_t n_ids;
    ck_assert(kt_tokenizer_encode(tokenizer, &part, 1, 0, &ids, &n_ids, &error) == KT_E_UNSUPPORTED);
    ck_assert(strstr(error.message, "0x7A") != NULL);
    kt_tokenizer_destroy(tokenizer);
}
END_TEST

/* Empty matches cut text as they do in Hugging Face's tokenizers, which gave these ids. */
START_TEST(an_empty_match_cuts)
{
    static const struct {
        const char *pattern, *behavior, *invert, *text, *ids;
    } cases[] = {
        {"(?=b)", "Isolated", "false", "abbab", "0 1 1 0 1"},
        {"(?=ab)|$", "Removed", "false", "bababb", "1 2 3"},
        {"(?=ab)|$", "Removed", "true", "bababb", ""},
        {"b*", "Removed", "false", "aababb", "0 0 0"},
        {"b*", "Removed", "true", "aababb", "1 1 1"},
        {"(?<=ab)", "MergedWithPrevious", "false", "abbab", "2 1 2"},
        {"(?<=b)(?=b)", "MergedWithNext", "false", "abbab", "2 1 2"},
        {"a|", "MergedWithNext", "false", "abbabb", "2 1 2 1"},
        {"a|", "MergedWithNext", "true", "abbabb", "0 1 1 0 1 1"},
        {"(?<=ab)", "Contiguous", "false", "abbab", "2 1 2"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char step[256];
        snprintf(step, sizeof(step),
                 "\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"%s\"}, "
                 "\"behavior\": \"%s\", \"invert\": %s},",
                 cases[i].pattern, cases[i].behavior, cases[i].invert);
        sandbox_write("t/tokenizer.json", TINY, step, "");
        struct kt_tokenizer *tokenizer = text_open(sandbox_path("t"));
        expect_ids(tokenizer, cases[i].text, 0, cases[i].ids);
        kt_tokenizer_destroy(tokenizer);
    }
}
END_TEST

/* They are replaced likewise. */
START_TEST(an_empty_match_is_replaced)
{
    static const struct {
        const char *pattern, *text, *ids;
    } cases[] = {
        {"b*", "aab", "1 2 2"}, {"(?=b)", "abab", "3 3"}, {"", "ab", "1 3 1"}, {"b?", "abba", "1 3 2"},
        {"$", "ab", "3"},       {"^", "ab", "1 2"},       {"", "", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char step[256];
        snprintf(step, sizeof(step),
                 "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"Regex\": \"%s\"}, "
                 "\"content\": \"b\"},",
                 cases[i].pattern);
        sandbox_write("t/tokenizer.json", TINY, step, "");
        struct kt_tokenizer *tokenizer = text_open(sandbox_path("t"));
        expect_ids(tokenizer, cases[i].text, 0, cases[i].ids);
        kt_tokenizer_destroy(tokenizer);
    }
}
END_TEST

/* A regular expression that takes exponentially many steps ends in an error, not in days. */
START_TEST(a_hostile_expression_ends)
{
    sandbox_write(
        "t/tokenizer.json", TINY,
        "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": "
        "{\"Regex\": \"(a+)+(a+)+(a+)+$(?!a)b\"}, \"behavior\": \"Isolated\"}, {\"type\": \"ByteLevel\", "
        "\"use_regex\": false}]},",
        "");
    struct kt_tokenizer *tokenizer = text_open(sandbox_path("t"));
    char text[61];
    memset(text, 'a', 60);
    text[60] = 'b';
    const struct kt_text_part part = {text, 61, 0, 0};
    struct kt_error error;
    int32_t *ids;
    uint64_t n_ids;
    ck_assert(kt_tokenizer_encode(tokenizer, &part, 1, 0, &ids, &n_ids, &error) == KT_E_RANGE);
    ck_assert(strstr(error.message, "too many steps") != NULL);
    kt_tokenizer_destroy(tokenizer);
}
END_TEST

/* ---- where files are ---- */

START_TEST(says_what_a_path_lacks)
{
    sandbox_folder("empty");
    expect_failure("empty", KT_E_NOT_FOUND, "neither tokenizer.json nor a tiktoken file");
    expect_failure("nowhere", KT_E_IO, "nowhere: No such file");
    sandbox_folder("t/tokenizer.json");
    expect_failure("t", KT_E_IO, "not a regular file");
    sandbox_write("x.gguf", "GGUF");
    expect_failure("x.gguf", KT_E_FORMAT, "x.gguf");
    struct kt_tokenizer *tokenizer;
    ck_assert(kt_tokenizer_open("", &tokenizer, NULL) == KT_E_INVALID);
    ck_assert(kt_tokenizer_open(NULL, &tokenizer, NULL) == KT_E_INVALID);
}
END_TEST

/* ---- tiktoken ---- */

START_TEST(names_lines_of_tiktoken_files)
{
    static const struct {
        const char *text, *words;
    } cases[] = {{"YQ== 0\nYg== x\n", ":2:"}, {"YQ==\n", ":1:"},          {"*** 0\n", ":1:"},
                 {"YQ== 0 1\n", ":1:"},       {"YQ== 99999999999\n", ""}, {"", "no tokens"}};
    sandbox_write("x.tiktoken", "%s", cases[_i].text);
    struct kt_tokenizer *tokenizer;
    struct kt_error error;
    ck_assert(kt_tokenizer_open(sandbox_path("x.tiktoken"), &tokenizer, &error) != KT_OK);
    if (_i < 5)
        ck_assert_msg(strstr(error.message, cases[_i].words) != NULL, "%s", error.message);
}
END_TEST

static void write_base64(FILE *file, const char *bytes, size_t length)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < length; i += 3) {
        unsigned bits = 0;
        for (size_t j = 0; j < 3; j++)
            bits = bits << 8 | (i + j < length ? (unsigned char)bytes[i + j] : 0);
        for (size_t j = 0; j < 4; j++)
            fputc(i + j > length ? '=' : digits[bits >> (18 - 6 * j) & 63], file);
    }
}

/* Qwen's vocabulary as a tiktoken file gives the same ids: there a rank is an id. */
START_TEST(reads_tiktoken_files)
{
    const char *path = text_large_data("tokenizers/qwen3");
    if (!path)
        return;
    struct kt_tokenizer *model = text_open(path);
    struct text_cases cases = text_cases_read(text_large_data("tokenizers/qwen3/encodings.json"));
    sandbox_folder("t");
    FILE *file = fopen(sandbox_path("t/qwen.tiktoken"), "we");
    for (int id = 0; id < 151643; id++) {
        struct kt_token token;
        ck_assert(kt_tokenizer_token(model, id, &token, NULL) == KT_OK);
        write_base64(file, token.text, token.length);
        fprintf(file, " %d\n", id);
    }
    fclose(file);
    struct kt_tokenizer *tokenizer = text_open(sandbox_path("t"));
    struct kt_tokenizer_info info;
    kt_tokenizer_info(tokenizer, &info);
    ck_assert_str_eq(info.pre, "qwen2");
    size_t n = 0;
    for (size_t i = 0; i < cases.n; i++) {
        bool has_special = false;
        for (size_t j = 0; j < cases.cases[i].n_ids; j++)
            has_special |= cases.cases[i].ids[j] >= 151643;
        if (has_special)
            continue;
        text_expect_ids(tokenizer, &cases.cases[i]);
        n++;
    }
    ck_assert_uint_ge(n, 200);
    kt_tokenizer_destroy(tokenizer);
    kt_tokenizer_destroy(model);
    text_cases_free(&cases);
}
END_TEST

/* ---- memory ---- */

/* The allocation number n fails, for every n: an error and nothing left. */
START_TEST(survives_every_failed_allocation)
{
    static const char *const names[] = {"tokenizers/spm-first.json", "tokenizers/nfkd.json"};
    const char *path = text_data(names[_i]);
    const struct kt_text_part parts[] = {{"<|im_start|>e", 13, 0, 0},
                                         {"\xCC\x81 the words ab<|im_end|> \xF0\x9F\x99\x82", 29, 1, 0}};
    unsigned long n = 0;
    enum kt_status status;
    do {
        struct kt_tokenizer *tokenizer = NULL;
        struct kt_error error = {KT_OK, ""};
        int32_t *ids = NULL;
        char *text = NULL;
        uint64_t n_ids = 0, length;
        faults_arm(++n);
        status = kt_tokenizer_open(path, &tokenizer, &error);
        if (status == KT_OK)
            status = kt_tokenizer_encode(tokenizer, parts, 2, 0, &ids, &n_ids, &error);
        if (status == KT_OK)
            status = kt_tokenizer_decode(tokenizer, ids, n_ids, 0, &text, &length, &error);
        bool hit = faults_hit();
        faults_arm(0);
        ck_assert_msg(status == KT_OK || status == KT_E_NOMEM, "allocation %lu: %s", n, error.message);
        ck_assert_msg(!hit || status == KT_E_NOMEM, "allocation %lu failed, and nobody said so", n);
        kt_text_free(text);
        kt_ids_free(ids);
        kt_tokenizer_destroy(tokenizer);
        if (!hit)
            break;
    } while (n < 100000);
    ck_assert_uint_ge(n, 50);
    ck_assert(status == KT_OK);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("files");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, names_what_is_wrong_with_a_file, 0, N_WRONG);
    tcase_add_test(tests, names_what_no_tokenizer_is_in);
    tcase_add_loop_test(tests, names_what_is_wrong_with_a_vocabulary, 0, N_VOCABULARIES);
    tcase_add_test(tests, reads_merges_however_they_are_written);
    tcase_add_loop_test(tests, names_what_is_wrong_with_merges, 0, N_MERGES);
    tcase_add_test(tests, reads_what_stands_beside_a_vocabulary);
    tcase_add_test(tests, tags_of_the_template_are_no_content);
    tcase_add_test(tests, normalizing_is_bounded);
    tcase_add_test(tests, says_which_byte_cannot_be_written);
    tcase_add_test(tests, an_empty_match_cuts);
    tcase_add_test(tests, an_empty_match_is_replaced);
    tcase_add_test(tests, a_hostile_expression_ends);
    tcase_add_test(tests, says_what_a_path_lacks);
    tcase_add_loop_test(tests, names_lines_of_tiktoken_files, 0, 6);
    tcase_add_test(tests, reads_tiktoken_files);
    tcase_add_loop_test(tests, survives_every_failed_allocation, 0, 2);
    return run_tests("files of tokenizers", tests);
}

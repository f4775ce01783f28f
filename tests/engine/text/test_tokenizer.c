/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer.c - text to ids and back, beside what Hugging Face's tokenizers and ggml gave. */
#define _GNU_SOURCE

#include "tests/engine/text/text_cases.h"
#include "tests/support/suite.h"
#include "tools/engine/text/tokenizer/tokenizer.h"
#include "tools/engine/text/utf8.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const small[] = {"qwen2",     "qwen35",    "deepseek-v3",  "deepseek-coder", "gpt-4o",
                                    "llama-bpe", "tekken",    "gpt-2-prefix", "nfkd",           "spm-legacy",
                                    "spm-first", "spm-never", "spm-unknown"};
#define N_SMALL (int)(sizeof(small) / sizeof(small[0]))

static const char *name_small(int i, const char *ending)
{
    char name[128];
    snprintf(name, sizeof(name), "tokenizers/%s%s", small[i], ending);
    return text_data(name);
}

/* ---- against others ---- */

static void expect_text(const struct kt_tokenizer *tokenizer, const int32_t *ids, size_t n_ids,
                        const char *text, size_t length)
{
    char *decoded;
    uint64_t decoded_length;
    ck_assert(kt_tokenizer_decode(tokenizer, ids, n_ids, 0, &decoded, &decoded_length, NULL) == KT_OK);
    ck_assert_msg(decoded_length == length && memcmp(decoded, text, length) == 0, "'%s' instead of '%s'",
                  decoded, text);
    kt_text_free(decoded);
}

START_TEST(gives_the_ids_of_small_vocabularies)
{
    struct text_cases cases = text_cases_read(name_small(_i, ".cases"));
    struct kt_tokenizer *tokenizer = text_open(name_small(_i, ".json"));
    for (size_t i = 0; i < cases.n; i++) {
        const struct text_case *one = &cases.cases[i];
        text_expect_ids(tokenizer, one);
        expect_text(tokenizer, one->ids, one->n_ids, one->decoded, one->decoded_length);
    }
    kt_tokenizer_destroy(tokenizer);
    text_cases_free(&cases);
}
END_TEST

START_TEST(gives_the_ids_of_models)
{
    static const char *const models[] = {"qwen3", "deepseek_v3", "gptoss"};
    char name[256];
    snprintf(name, sizeof(name), "tokenizers/%s/encodings.json", models[_i]);
    const char *path = text_large_data(name);
    if (!path)
        return;
    struct text_cases cases = text_cases_read(path);
    snprintf(name, sizeof(name), "tokenizers/%s", models[_i]);
    struct kt_tokenizer *tokenizer = text_open(text_large_data(name));
    ck_assert_uint_eq(cases.n, 288);
    for (size_t i = 0; i < cases.n; i++)
        text_expect_ids(tokenizer, &cases.cases[i]);
    kt_tokenizer_destroy(tokenizer);
    text_cases_free(&cases);
}
END_TEST

START_TEST(gives_the_ids_of_gguf_vocabularies)
{
    static const char *const names[] = {"gpt-2", "deepseek-llm", "llama-spm"};
    char name[256];
    snprintf(name, sizeof(name), "tokenizers/gguf/ggml-vocab-%s.gguf", names[_i]);
    const char *path = text_large_data(name);
    if (!path)
        return;
    struct text_cases cases = text_cases_read_ggml(path);
    struct kt_tokenizer *tokenizer = text_open(path);
    ck_assert_uint_ge(cases.n, 46);
    for (size_t i = 0; i < cases.n; i++)
        text_expect_ids(tokenizer, &cases.cases[i]);
    kt_tokenizer_destroy(tokenizer);
    text_cases_free(&cases);
}
END_TEST

/* ---- there and back ---- */

static int32_t *encode(const struct kt_tokenizer *tokenizer, const struct kt_text_part *parts,
                       uint64_t n_parts, uint32_t flags, uint64_t *n_ids)
{
    struct kt_error error = {KT_OK, ""};
    int32_t *ids;
    ck_assert_msg(kt_tokenizer_encode(tokenizer, parts, n_parts, flags, &ids, n_ids, &error) == KT_OK, "%s",
                  error.message);
    return ids;
}

/* One id at a time: the same text, each piece of whole characters. */
static void expect_stream(const struct kt_tokenizer *tokenizer, const int32_t *ids, size_t n_ids,
                          const char *text, size_t length)
{
    struct kt_detokenizer *detokenizer;
    const char *piece;
    uint64_t n;
    size_t at = 0;
    ck_assert(kt_detokenizer_create(tokenizer, 0, &detokenizer, NULL) == KT_OK);
    for (size_t i = 0; i <= n_ids; i++) {
        if (i < n_ids)
            ck_assert(kt_detokenizer_add(detokenizer, ids + i, 1, &piece, &n, NULL) == KT_OK);
        else
            ck_assert(kt_detokenizer_end(detokenizer, &piece, &n, NULL) == KT_OK);
        ck_assert_uint_le(at + n, length);
        ck_assert(memcmp(text + at, piece, n) == 0);
        ck_assert_uint_eq(kt_utf8_valid(piece, n), n);
        at += n;
    }
    ck_assert_uint_eq(at, length);
    kt_detokenizer_destroy(detokenizer);
}

/* Those that change nothing: no normalizer, no prefix, a token for each byte. */
START_TEST(decodes_what_it_encoded)
{
    static const char *const names[] = {"deepseek-v3", "gpt-4o", "tekken", "spm-never"};
    char name[128], text[700];
    snprintf(name, sizeof(name), "tokenizers/%s.json", names[_i]);
    struct kt_tokenizer *tokenizer = text_open(text_data(name));
    uint64_t random = 7 + (uint64_t)_i, n_ids;
    int n = getenv("KT_TEST_QUICK") ? 2000 : 25000;
    for (int i = 0; i < n; i++) {
        size_t length = text_draw(&random, text);
        /* These take white space, and with it what would come back; SentencePiece's space comes back as one.
         */
        if (memmem(text, length, "<mask>", 6) || memmem(text, length, "<tool>", 6) ||
            memmem(text, length, "\xE2\x96\x81", 3))
            continue;
        const struct kt_text_part part = {.text = text, .length = length};
        int32_t *ids = encode(tokenizer, &part, 1, 0, &n_ids);
        expect_text(tokenizer, ids, n_ids, text, length);
        if (i % 10 == 0)
            expect_stream(tokenizer, ids, n_ids, text, length);
        kt_ids_free(ids);
    }
    kt_tokenizer_destroy(tokenizer);
}
END_TEST

START_TEST(bytes_that_are_no_characters_become_one_sign_each)
{
    static const struct {
        const char *bytes, *shown;
    } cases[] = {
        {"a\xFFz", "a\xEF\xBF\xBDz"},
        {"\xE4\xB8", "\xEF\xBF\xBD"}, /* cut off: one sign for what could have been a character */
        {"\xE4\xB8 \xE4\xB8\xAD", "\xEF\xBF\xBD \xE4\xB8\xAD"},
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* a surrogate */
        {"\xF0\x9F\x99x", "\xEF\xBF\xBDx"},
        {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    };
    struct kt_tokenizer *tokenizer = text_open(text_data("tokenizers/gpt-4o.json"));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct kt_text_part part = {.text = cases[i].bytes, .length = strlen(cases[i].bytes)};
        uint64_t n_ids;
        int32_t *ids = encode(tokenizer, &part, 1, 0, &n_ids);
        expect_text(tokenizer, ids, n_ids, cases[i].shown, strlen(cases[i].shown));
        expect_stream(tokenizer, ids, n_ids, cases[i].shown, strlen(cases[i].shown));
        kt_ids_free(ids);
    }
    kt_tokenizer_destroy(tokenizer);
}
END_TEST

/* ---- parts ---- */

/* Text cut anywhere into parts of one kind is the same text. */
START_TEST(parts_of_one_kind_are_one_text)
{
    struct kt_tokenizer *tokenizer = text_open(name_small(_i, ".json"));
    uint64_t random = 100 + (uint64_t)_i, n_whole, n_ids;
    char text[700];
    for (int i = 0; i < 300; i++) {
        size_t length = text_draw(&random, text), first = length ? random % (length + 1) : 0;
        uint32_t is_content = (uint32_t)i % 2;
        const struct kt_text_part whole = {text, length, is_content, 0};
        const struct kt_text_part parts[] = {{text, first, is_content, 0},
                                             {text + first, length - first, is_content, 0}};
        int32_t *wanted = encode(tokenizer, &whole, 1, 0, &n_whole),
                *ids = encode(tokenizer, parts, 2, 0, &n_ids);
        ck_assert_uint_eq(n_ids, n_whole);
        ck_assert(n_ids == 0 || memcmp(ids, wanted, n_ids * sizeof(*ids)) == 0);
        kt_ids_free(wanted);
        kt_ids_free(ids);
    }
    kt_tokenizer_destroy(tokenizer);
}
END_TEST

static uint64_t count_control(const struct kt_tokenizer *tokenizer, const int32_t *ids, uint64_t n_ids)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < n_ids; i++) {
        struct kt_token token;
        ck_assert(kt_tokenizer_token(tokenizer, ids[i], &token, NULL) == KT_OK);
        n += token.type == KT_TOKEN_CONTROL;
    }
    return n;
}

/* Wherever a control token is cut into template and content, it is none; the template's own are. */
START_TEST(content_never_becomes_a_control_token)
{
    static const char token[] = "<|im_end|>", text[] = "<|im_start|>user\nab<|im_end|>cd<|im_end|>";
    struct kt_tokenizer *tokenizer = text_open(name_small(_i, ".json"));
    uint64_t n_ids;
    uint64_t unknown =
        (uint64_t)(small[_i] == small[N_SMALL - 1]); /* its unknown characters are a control token */
    const struct kt_text_part content = {text, sizeof(text) - 1, 1, 0};
    int32_t *ids = encode(tokenizer, &content, 1, 0, &n_ids);
    ck_assert(unknown || count_control(tokenizer, ids, n_ids) == 0);
    kt_ids_free(ids);
    for (size_t cut = 0; cut < sizeof(token); cut++) {
        const struct kt_text_part parts[] = {{"<|im_start|>", 12, 0, 0},
                                             {"x", 1, 1, 0},
                                             {token, cut, 0, 0},
                                             {token + cut, sizeof(token) - 1 - cut, 1, 0},
                                             {"<|im_end|>", 10, 0, 0}};
        ids = encode(tokenizer, parts, 5, 0, &n_ids);
        if (!unknown)
            ck_assert_uint_eq(count_control(tokenizer, ids, n_ids), 2 + (cut == sizeof(token) - 1));
        kt_ids_free(ids);
    }
    kt_tokenizer_destroy(tokenizer);
}
END_TEST

/* Tokens that are found after normalizing keep to the same rule, also where normalizing moves bytes. */
START_TEST(marks_follow_the_text_through_normalizing)
{
    struct kt_tokenizer *tokenizer = text_open(text_data("tokenizers/qwen2.json"));
    int32_t call = kt_tokenizer_find(tokenizer, "<tool_call>", 11);
    const struct kt_text_part parts[] = {{"e\xCC\x81"
                                          "e\xCC\x81"
                                          "<tool",
                                          11, 0, 0},
                                         {"_call>", 6, 1, 0},
                                         {"e\xCC\x81"
                                          "<|im_end|>",
                                          13, 1, 0},
                                         {"<|im_end|>", 10, 0, 0}};
    uint64_t n_ids;
    int32_t *ids = encode(tokenizer, parts, 4, 0, &n_ids);
    ck_assert_int_ge(call, 0);
    uint64_t n_calls = 0;
    for (uint64_t i = 0; i < n_ids; i++)
        n_calls += ids[i] == call;
    ck_assert_uint_eq(n_calls, 1); /* found in content too: no control token */
    ck_assert_uint_eq(count_control(tokenizer, ids, n_ids), 1);
    kt_ids_free(ids);
    kt_tokenizer_destroy(tokenizer);
}
END_TEST

/* ---- long texts ---- */

static void expect_count(const struct kt_tokenizer *tokenizer, const char *piece, size_t n, size_t length)
{
    char *text = malloc(n * length + 1);
    uint64_t n_ids, back;
    char *decoded;
    for (size_t i = 0; i < n; i++)
        memcpy(text + i * length, piece, length);
    const struct kt_text_part part = {text, n * length, 0, 0};
    int32_t *ids = encode(tokenizer, &part, 1, 0, &n_ids);
    ck_assert(kt_tokenizer_decode(tokenizer, ids, n_ids, 0, &decoded, &back, NULL) == KT_OK);
    ck_assert_uint_eq(back, n * length);
    ck_assert(memcmp(decoded, text, back) == 0);
    kt_text_free(decoded);
    kt_ids_free(ids);
    free(text);
}

/* What would take days if a word's pairs, or look-alikes of tokens, were looked for again and again. */
START_TEST(long_words_end)
{
    static const char *const names[] = {"deepseek-v3", "deepseek-coder", "gpt-4o", "spm-never"};
    char name[128];
    snprintf(name, sizeof(name), "tokenizers/%s.json", names[_i]);
    struct kt_tokenizer *tokenizer = text_open(text_data(name));
    size_t n = getenv("KT_TEST_QUICK") ? 10000 : 100000;
    expect_count(tokenizer, "a", n, 1);
    expect_count(tokenizer, "1234567890", n, 10);
    expect_count(tokenizer, "<|im_star", n, 9);
    expect_count(tokenizer, "e\xCC\x81", n, 3);
    expect_count(tokenizer, "\xF0\x9F\x99\x82", n, 4);
    expect_count(tokenizer, "x\n", n, 2);
    kt_tokenizer_destroy(tokenizer);
}
END_TEST

/* ---- threads ---- */

struct work {
    const struct kt_tokenizer *tokenizer;
    const struct text_cases *cases;
};

static void *encode_all(void *data)
{
    const struct work *work = data;
    for (int turn = 0; turn < 3; turn++)
        for (size_t i = 0; i < work->cases->n; i++)
            text_expect_ids(work->tokenizer, &work->cases->cases[i]);
    return NULL;
}

START_TEST(many_threads_use_one_tokenizer)
{
    struct text_cases cases = text_cases_read(text_data("tokenizers/qwen2.cases"));
    struct kt_tokenizer *tokenizer = text_open(text_data("tokenizers/qwen2.json"));
    struct work work = {tokenizer, &cases};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, encode_all, &work), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    kt_tokenizer_destroy(tokenizer);
    text_cases_free(&cases);
}
END_TEST

/* ---- what is asked of a vocabulary ---- */

/* Its lock may be held forever: in a child that was forked while another thread held it. */
START_TEST(nobody_waits_for_its_lock)
{
    struct kt_tokenizer *tokenizer = text_open(name_small(0, ".json"));
    const struct kt_text_part part = {"Hello, world", 12, 0, 0};
    for (int held = 0; held < 3; held++) {
        int32_t *ids;
        uint64_t n_ids;
        if (held == 1)
            ck_assert_int_eq(pthread_mutex_lock(&tokenizer->lock), 0);
        if (held == 2)
            ck_assert_int_eq(pthread_mutex_unlock(&tokenizer->lock), 0);
        ck_assert(kt_tokenizer_encode(tokenizer, &part, 1, 0, &ids, &n_ids, NULL) == KT_OK);
        expect_text(tokenizer, ids, n_ids, part.text, part.length);
        kt_ids_free(ids);
    }
    kt_tokenizer_destroy(tokenizer);
}
END_TEST

START_TEST(answers_what_a_token_is)
{
    struct kt_tokenizer *tokenizer = text_open(text_data("tokenizers/qwen2.json"));
    struct kt_tokenizer_info info;
    struct kt_token token;
    struct kt_error error;
    kt_tokenizer_info(tokenizer, &info);
    ck_assert_uint_eq(info.kind, KT_TOKENIZER_BPE);
    ck_assert_str_eq(info.pre, "custom");
    ck_assert_int_eq(info.bos_token_id, -1);
    ck_assert(info.normalizes);
    int32_t end = kt_tokenizer_find(tokenizer, "<|im_end|>", 10);
    ck_assert(kt_tokenizer_token(tokenizer, end, &token, NULL) == KT_OK);
    ck_assert(token.length == 10 && memcmp(token.text, "<|im_end|>", 10) == 0);
    ck_assert_uint_eq(token.type, KT_TOKEN_CONTROL);
    ck_assert(token.ends);
    int32_t letter = kt_tokenizer_find(tokenizer, "e", 1);
    ck_assert(kt_tokenizer_token(tokenizer, letter, &token, NULL) == KT_OK);
    ck_assert(token.type == KT_TOKEN_NORMAL && !token.ends);
    ck_assert_int_eq(kt_tokenizer_find(tokenizer, "no token is this", 16), -1);
    ck_assert(kt_tokenizer_token(tokenizer, -1, &token, &error) == KT_E_RANGE);
    ck_assert(kt_tokenizer_token(tokenizer, info.n_tokens, &token, &error) == KT_E_RANGE);
    ck_assert(strstr(error.message, "qwen2.json") != NULL);
    kt_tokenizer_destroy(tokenizer);
}
END_TEST

START_TEST(refuses_wrong_calls)
{
    struct kt_tokenizer *tokenizer = text_open(text_data("tokenizers/qwen2.json"));
    const struct kt_text_part part = {"abc", 3, 0, 0}, none = {NULL, 3, 0, 0};
    int32_t *ids = NULL, wrong[] = {5, 1 << 20};
    uint64_t n, length;
    char *text;
    const char *piece;
    struct kt_detokenizer *detokenizer;
    struct kt_error error;
    ck_assert(kt_tokenizer_encode(NULL, &part, 1, 0, &ids, &n, &error) == KT_E_INVALID);
    ck_assert(kt_tokenizer_encode(tokenizer, NULL, 1, 0, &ids, &n, &error) == KT_E_INVALID);
    ck_assert(kt_tokenizer_encode(tokenizer, &none, 1, 0, &ids, &n, &error) == KT_E_INVALID);
    ck_assert(kt_tokenizer_encode(tokenizer, &part, 1, 64, &ids, &n, &error) == KT_E_INVALID);
    ck_assert(kt_tokenizer_encode(tokenizer, NULL, 0, 0, &ids, &n, &error) == KT_OK);
    ck_assert_uint_eq(n, 0);
    kt_ids_free(ids);
    ck_assert(kt_tokenizer_decode(tokenizer, wrong, 2, 0, &text, &length, &error) == KT_E_RANGE);
    ck_assert(strstr(error.message, "1048576") != NULL);
    ck_assert(kt_detokenizer_create(tokenizer, 0, &detokenizer, NULL) == KT_OK);
    ck_assert(kt_detokenizer_add(detokenizer, wrong, 2, &piece, &length, &error) == KT_E_RANGE);
    ck_assert(kt_detokenizer_add(detokenizer, wrong, 1, &piece, &length, &error) == KT_OK);
    ck_assert(kt_detokenizer_add(detokenizer, NULL, 1, &piece, &length, &error) == KT_E_INVALID);
    ck_assert(kt_detokenizer_end(detokenizer, NULL, &length, &error) == KT_E_INVALID);
    kt_detokenizer_destroy(detokenizer);
    kt_detokenizer_destroy(NULL);
    kt_tokenizer_destroy(tokenizer);
    kt_tokenizer_destroy(NULL);
    ck_assert(kt_detokenizer_create(NULL, 0, &detokenizer, &error) == KT_E_INVALID);
    ck_assert(kt_tokenizer_decode(NULL, wrong, 1, 0, &text, &length, &error) == KT_E_INVALID);
}
END_TEST

/* A text with zero bytes, and one that is all of them. */
START_TEST(zero_bytes_are_text)
{
    struct kt_tokenizer *tokenizer = text_open(text_data("tokenizers/deepseek-v3.json"));
    static const char text[] = "a\0b\0\0c";
    const struct kt_text_part part = {text, sizeof(text) - 1, 0, 0};
    uint64_t n_ids;
    int32_t *ids = encode(tokenizer, &part, 1, 0, &n_ids);
    expect_text(tokenizer, ids, n_ids, text, sizeof(text) - 1);
    kt_ids_free(ids);
    kt_tokenizer_destroy(tokenizer);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("tokenizer");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, gives_the_ids_of_small_vocabularies, 0, N_SMALL);
    tcase_add_loop_test(tests, gives_the_ids_of_models, 0, 3);
    tcase_add_loop_test(tests, gives_the_ids_of_gguf_vocabularies, 0, 3);
    tcase_add_loop_test(tests, decodes_what_it_encoded, 0, 4);
    tcase_add_test(tests, bytes_that_are_no_characters_become_one_sign_each);
    tcase_add_loop_test(tests, parts_of_one_kind_are_one_text, 0, N_SMALL);
    tcase_add_loop_test(tests, content_never_becomes_a_control_token, 0, N_SMALL);
    tcase_add_test(tests, marks_follow_the_text_through_normalizing);
    tcase_add_loop_test(tests, long_words_end, 0, 4);
    tcase_add_test(tests, many_threads_use_one_tokenizer);
    tcase_add_test(tests, nobody_waits_for_its_lock);
    tcase_add_test(tests, answers_what_a_token_is);
    tcase_add_test(tests, refuses_wrong_calls);
    tcase_add_test(tests, zero_bytes_are_text);
    return run_tests("tokenizer", tests);
}

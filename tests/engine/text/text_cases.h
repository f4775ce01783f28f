/* SPDX-License-Identifier: Apache-2.0 */
/* text_cases.h - texts with their ids, as other tokenizers gave them, and random texts. */
#ifndef KT_TESTS_ENGINE_TEXT_TEXT_CASES_H
#define KT_TESTS_ENGINE_TEXT_TEXT_CASES_H

#include <kt/text.h>
#include <stdbool.h>
#include <stddef.h>

struct text_case {
    char *text; /**< ends with a zero byte that is not counted */
    size_t length;
    int32_t *ids;
    size_t n_ids;
    char *decoded; /**< NULL: not known */
    size_t decoded_length;
};

struct text_cases {
    struct text_case *cases;
    size_t n;
};

/** [[TEXT, IDS, DECODED], ...] or [{"text": .., "ids": ..}, ...] of a file; ends the test if it cannot be
 * read. */
struct text_cases text_cases_read(const char *path);
/** ggml's NAME.inp and NAME.out. */
struct text_cases text_cases_read_ggml(const char *vocabulary);
void text_cases_free(struct text_cases *cases);

/** FOLDER/NAME of what make check has in tests/data, or of the large data that KT_TEST_DATA named when it was
 * started; NULL: it named none, and the test says so and skips. Static, until the next call. */
const char *text_data(const char *name);
const char *text_large_data(const char *name);

struct kt_tokenizer *text_open(const char *path);

/** Encodes one part and compares. */
void text_expect_ids(const struct kt_tokenizer *tokenizer, const struct text_case *one);

/** A random text of up to 30 characters, of few kinds and with scraps of tokens; its bytes go to `out`, at
 * least 600. */
size_t text_draw(uint64_t *random, char *out);

#endif

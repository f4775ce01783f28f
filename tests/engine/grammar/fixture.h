/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h - a tokenizer and its vocabulary, for tests that feed texts to a constraint. */
#ifndef KT_TESTS_ENGINE_GRAMMAR_FIXTURE_H
#define KT_TESTS_ENGINE_GRAMMAR_FIXTURE_H

#include "tests/engine/text/text_cases.h"

#include <check.h>
#include <kt/constraint.h>
#include <string.h>

static struct kt_tokenizer *tokenizer;
static struct kt_vocabulary *vocabulary;
static struct kt_tokenizer_info info;

static inline void setup(void)
{
    tokenizer = text_open(text_data("tiny-moe/tiny-moe-q8_0-l0-l3.gguf"));
    ck_assert_int_eq(kt_vocabulary_create(tokenizer, &vocabulary, NULL), KT_OK);
    kt_tokenizer_info(tokenizer, &info);
}

static inline void teardown(void)
{
    kt_vocabulary_destroy(vocabulary);
    kt_tokenizer_destroy(tokenizer);
}

/* Feeds a text. Returns false if it may not come; the constraint is then somewhere within it. */
static inline bool feed(struct kt_constraint *constraint, const char *text)
{
    const struct kt_text_part part = {.text = text, .length = strlen(text)};
    int32_t *ids;
    uint64_t n, i = 0;
    ck_assert_int_eq(kt_tokenizer_encode(tokenizer, &part, 1, 0, &ids, &n, NULL), KT_OK);
    while (i < n && kt_constraint_accept(constraint, ids[i], NULL) == KT_OK)
        i++;
    kt_ids_free(ids);
    return i == n;
}

#endif

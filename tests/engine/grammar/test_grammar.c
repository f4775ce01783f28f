/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas and the documents that fit them, token by token; masks; what they cost. */
#include "tests/engine/grammar/fixture.h"
#include "tests/engine/grammar/schema_cases.h"
#include "tests/support/alloc_faults.h"
#include "tests/support/suite.h"

#include <check.h>
#include <jansson.h>
#include <kt/constraint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct kt_grammar *open_grammar(const char *schema, uint32_t reasoning)
{
    struct kt_grammar_params params = KT_GRAMMAR_PARAMS_INIT;
    struct kt_grammar *grammar = NULL;
    struct kt_error error = {KT_OK, ""};
    params.reasoning = reasoning;
    enum kt_status status = kt_grammar_json(schema, schema ? strlen(schema) : 0, &params, &grammar, &error);
    ck_assert_msg(status == KT_OK, "%s: %s", schema, error.message);
    return grammar;
}

static struct kt_constraint *begin(struct kt_grammar *grammar)
{
    struct kt_constraint *constraint;
    ck_assert_int_eq(kt_constraint_create(grammar, vocabulary, &constraint, NULL), KT_OK);
    return constraint;
}

/* Where the constraint refuses a text, its length if it takes all of it. */
static size_t feed_some(struct kt_constraint *constraint, const char *text, size_t length)
{
    const struct kt_text_part part = {.text = text, .length = length};
    int32_t *ids;
    uint64_t n, i = 0;
    size_t fed = 0;
    ck_assert_int_eq(kt_tokenizer_encode(tokenizer, &part, 1, 0, &ids, &n, NULL), KT_OK);
    for (; i < n; i++) {
        struct kt_token token;
        uint32_t allowed;
        ck_assert_int_eq(kt_constraint_allows(constraint, ids[i], &allowed, NULL), KT_OK);
        enum kt_status status = kt_constraint_accept(constraint, ids[i], NULL);
        ck_assert_int_eq(status, allowed ? KT_OK : KT_E_RANGE);
        if (!allowed)
            break;
        ck_assert_int_eq(kt_tokenizer_token(tokenizer, ids[i], &token, NULL), KT_OK);
        fed += token.length;
    }
    kt_ids_free(ids);
    return i == n ? length : fed;
}

static bool takes(struct kt_grammar *grammar, const char *text)
{
    struct kt_constraint *constraint = begin(grammar);
    size_t n = strlen(text);
    bool whole = feed_some(constraint, text, n) == n && kt_constraint_place(constraint) != KT_CONSTRAINT_OPEN;
    kt_constraint_destroy(constraint);
    return whole;
}

START_TEST(test_documents)
{
    struct kt_grammar *grammar = open_grammar(schema_cases[_i].schema, KT_REASONING_NONE);
    for (size_t i = 0; schema_cases[_i].good[i]; i++)
        ck_assert_msg(takes(grammar, schema_cases[_i].good[i]), "%s refuses %s", schema_cases[_i].schema,
                      schema_cases[_i].good[i]);
    for (size_t i = 0; schema_cases[_i].bad[i]; i++)
        ck_assert_msg(!takes(grammar, schema_cases[_i].bad[i]), "%s takes %s", schema_cases[_i].schema,
                      schema_cases[_i].bad[i]);
    kt_grammar_destroy(grammar);
}
END_TEST

/* ---- masks ---- */

static bool is_set(const uint64_t *mask, uint32_t id)
{
    return mask[id / 64] >> (id % 64) & 1;
}

/* The mask says of each token what kt_constraint_allows says. Returns a random one that may come, -1: none.
 */
static int32_t compare_mask(struct kt_constraint *constraint, uint64_t *random)
{
    const uint64_t *mask;
    uint64_t n;
    int32_t chosen = -1;
    uint32_t n_allowed = 0;
    ck_assert_int_eq(kt_constraint_mask(constraint, &mask, &n, NULL), KT_OK);
    ck_assert_uint_eq(n, (info.n_tokens + 63) / 64);
    for (uint32_t id = 0; id < info.n_tokens; id++) {
        uint32_t allowed;
        if (kt_constraint_allows(constraint, (int32_t)id, &allowed, NULL) != KT_OK ||
            allowed != is_set(mask, id))
            ck_abort_msg("the mask is wrong about token %u", id); /* each ck_assert is a call of the system */
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        n_allowed += allowed;
        if (allowed && (*random >> 33) % n_allowed == 0)
            chosen = (int32_t)id;
    }
    return chosen;
}

START_TEST(test_walks)
{
    struct kt_grammar *grammar = open_grammar(schema_cases[_i].schema, KT_REASONING_NONE);
    uint64_t random = (uint64_t)_i + 1;
    for (int round = 0; round < 3; round++) {
        struct kt_constraint *constraint = begin(grammar), *fork;
        char text[4096];
        size_t length = 0;
        for (int step = 0; step < 40 && kt_constraint_place(constraint) != KT_CONSTRAINT_DONE; step++) {
            struct kt_token token;
            int32_t id = compare_mask(constraint, &random);
            ck_assert_int_ge(id, 0);
            ck_assert_int_eq(kt_tokenizer_token(tokenizer, id, &token, NULL), KT_OK);
            if (step % 8 == 5) { /* a fork goes on where the other one was */
                ck_assert_int_eq(kt_constraint_fork(constraint, &fork, NULL), KT_OK);
                kt_constraint_destroy(constraint);
                constraint = fork;
            }
            ck_assert_int_eq(kt_constraint_accept(constraint, id, NULL), KT_OK);
            if (token.ends)
                break;
            memcpy(text + length, token.text, token.length);
            length += token.length;
        }
        if (kt_constraint_place(constraint) != KT_CONSTRAINT_OPEN) {
            json_error_t where;
            json_t *document =
                json_loadb(text, length, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &where);
            ck_assert_msg(document, "%.*s: %s", (int)length, text, where.text);
            json_decref(document);
        }
        kt_constraint_destroy(constraint);
    }
    kt_grammar_destroy(grammar);
}
END_TEST

/* Tokens that end a turn come only where the text may end; a number may end or go on. */
START_TEST(test_ends)
{
    struct kt_grammar *grammar = open_grammar("{\"type\": \"integer\"}", KT_REASONING_NONE);
    struct kt_constraint *constraint = begin(grammar);
    uint32_t allowed;
    ck_assert_int_ge(info.eos_token_id, 0);
    kt_grammar_destroy(grammar); /* the constraint keeps it */
    ck_assert_int_eq(kt_constraint_allows(constraint, info.eos_token_id, &allowed, NULL), KT_OK);
    ck_assert_uint_eq(allowed, 0);
    ck_assert_int_eq(kt_constraint_accept(constraint, info.eos_token_id, NULL), KT_E_RANGE);
    ck_assert_int_eq(kt_constraint_place(constraint), KT_CONSTRAINT_OPEN);
    ck_assert_uint_eq(feed_some(constraint, "12", 2), 2);
    ck_assert_int_eq(kt_constraint_place(constraint), KT_CONSTRAINT_MAY_END);
    ck_assert_uint_eq(feed_some(constraint, "3", 1), 1);
    ck_assert_int_eq(kt_constraint_allows(constraint, info.eos_token_id, &allowed, NULL), KT_OK);
    ck_assert_uint_eq(allowed, 1);
    ck_assert_int_eq(kt_constraint_accept(constraint, info.eos_token_id, NULL), KT_OK);
    ck_assert_int_eq(kt_constraint_place(constraint), KT_CONSTRAINT_DONE);
    ck_assert_uint_eq(feed_some(constraint, "4", 1), 0);
    kt_constraint_destroy(constraint);
}
END_TEST

START_TEST(test_reasoning)
{
    static const char schema[] = "{\"const\": 1}";
    struct kt_grammar *none = open_grammar(schema, KT_REASONING_NONE);
    struct kt_grammar *may = open_grammar(schema, KT_REASONING_MAY),
                      *in = open_grammar(schema, KT_REASONING_IN);
    ck_assert(takes(none, "1") && !takes(none, "<think>a</think>1"));
    ck_assert(takes(may, "1") && takes(may, "\n<think>\na {</thin</think>\n\n1"));
    ck_assert(!takes(may, "<think>1") && !takes(may, "<think></think>2"));
    ck_assert(takes(in, "a < b</</think>1") && !takes(in, "1"));
    kt_grammar_destroy(none);
    kt_grammar_destroy(may);
    kt_grammar_destroy(in);
}
END_TEST

/* A mask of 30000 letters' string: what is remembered is forgotten in between. */
START_TEST(test_long)
{
    struct kt_grammar *grammar =
        open_grammar("{\"type\": \"string\", \"maxLength\": 6000}", KT_REASONING_NONE);
    struct kt_constraint *constraint = begin(grammar);
    uint64_t random = 1;
    ck_assert_uint_eq(feed_some(constraint, "\"", 1), 1);
    for (int i = 0; i < 600; i++) {
        ck_assert_uint_eq(feed_some(constraint, "abcdefghij", 10), 10);
        if (i % 40 == 0 || i > 597)
            (void)compare_mask(constraint, &random);
    }
    ck_assert_uint_eq(feed_some(constraint, "x", 1), 0);
    ck_assert_uint_eq(feed_some(constraint, "\"", 1), 1);
    ck_assert_int_eq(kt_constraint_place(constraint), KT_CONSTRAINT_DONE);
    kt_constraint_destroy(constraint);
    kt_grammar_destroy(grammar);
}
END_TEST

/* Any depth that is begun can be ended. */
START_TEST(test_deep)
{
    struct kt_grammar *grammar = open_grammar("true", KT_REASONING_NONE);
    struct kt_constraint *constraint = begin(grammar);
    int depth = 0;
    while (feed_some(constraint, "[", 1) == 1)
        depth++;
    ck_assert_int_gt(depth, 50);
    ck_assert_int_lt(depth, 65);
    while (depth-- > 0)
        ck_assert_uint_eq(feed_some(constraint, "]", 1), 1);
    ck_assert_int_eq(kt_constraint_place(constraint), KT_CONSTRAINT_DONE);
    kt_constraint_destroy(constraint);
    kt_grammar_destroy(grammar);
}
END_TEST

/* Memory that runs out, wherever it does. */
static enum kt_status run_short(struct kt_grammar **grammar, struct kt_constraint **constraint)
{
    static const char schema[] =
        "{\"$ref\": \"#/$defs/a\", \"$defs\": {\"a\": {\"type\": \"object\", \"properties\": {"
        "\"k\": {\"enum\": [\"x\", \"y\"]}, \"p\": {\"pattern\": \"^a+$\", \"maxLength\": 3},"
        "\"l\": {\"allOf\": [{\"minItems\": 1}, {\"maxItems\": 2}]}}, \"patternProperties\": {\"^k\": {}}}}}";
    const uint64_t *mask;
    uint32_t allowed;
    enum kt_status status = kt_grammar_json(schema, strlen(schema), NULL, grammar, NULL);
    if (status == KT_OK)
        status = kt_constraint_create(*grammar, vocabulary, constraint, NULL);
    if (status == KT_OK)
        status = kt_constraint_mask(*constraint, &mask, NULL, NULL);
    if (status == KT_OK)
        status = kt_constraint_allows(*constraint, 5, &allowed, NULL);
    return status;
}

START_TEST(test_faults)
{
    for (unsigned long n = 1;; n++) {
        struct kt_grammar *grammar = NULL;
        struct kt_constraint *constraint = NULL;
        faults_arm(n);
        enum kt_status status = run_short(&grammar, &constraint);
        bool hit = faults_hit();
        faults_arm(0);
        kt_constraint_destroy(constraint);
        kt_grammar_destroy(grammar);
        ck_assert_msg(status == (hit ? KT_E_NOMEM : KT_OK), "allocation %lu: %d", n, (int)status);
        if (!hit) {
            ck_assert_uint_gt(n, 25);
            break;
        }
    }
}
END_TEST

/* Tokens of the mask here. */
static unsigned count_allowed(struct kt_constraint *constraint)
{
    const uint64_t *mask;
    uint64_t n_words;
    unsigned n = 0;
    ck_assert_int_eq(kt_constraint_mask(constraint, &mask, &n_words, NULL), KT_OK);
    for (uint64_t i = 0; i < n_words; i++)
        n += (unsigned)__builtin_popcountll(mask[i]);
    return n;
}

/* Masks of a grammar that is in hundreds of places at once are paid by the tokens before them: one after the
 * other they get fewer, though never none; after tokens without a mask they are whole again. */
START_TEST(test_costs)
{
    struct kt_grammar *grammar =
        open_grammar("{\"type\": \"string\", \"pattern\": \"^[a-z ]*[aeiou ]([a-z ]|[a-y ]){900}$\"}",
                     KT_REASONING_NONE);
    struct kt_constraint *spender = begin(grammar), *saver;
    static const char text[] = "aouaeioaueoiuaeoaiueoauieoaueioaueaoiueaouieaouea";
    unsigned fewest = 0;
    ck_assert_uint_eq(feed_some(spender, "\"", 1), 1);
    for (unsigned i = 0; i < 15; i++)
        ck_assert_uint_eq(feed_some(spender, text, sizeof(text) - 1), sizeof(text) - 1);
    ck_assert_int_eq(kt_constraint_fork(spender, &saver, NULL), KT_OK);
    unsigned whole = count_allowed(saver);
    for (unsigned i = 0; i < 40; i++) {
        fewest = count_allowed(spender);
        ck_assert_uint_gt(fewest, 0);
        ck_assert_uint_eq(feed_some(spender, text + i, 1), 1);
        ck_assert_uint_eq(feed_some(saver, text + i, 1), 1);
    }
    ck_assert(fewest < whole / 2 && count_allowed(saver) >= whole);
    kt_constraint_destroy(spender);
    kt_constraint_destroy(saver);
    kt_grammar_destroy(grammar);
}
END_TEST

/* A schema with an enum of n texts: each is the one before it and one byte more, the first of `length` bytes.
 */
static enum kt_status read_alike(unsigned n, size_t length)
{
    json_t *list = json_array(), *schema = json_pack("{s:o}", "enum", list);
    struct kt_grammar *grammar = NULL;
    char *text = calloc(length + n, 1);
    memset(text, 'a', length + n - 1);
    for (unsigned i = 0; i < n; i++)
        json_array_append_new(list, json_stringn(text, length + i));
    char *dumped = json_dumps(schema, 0), *last = json_dumps(json_array_get(list, n - 1), JSON_ENCODE_ANY);
    enum kt_status status = kt_grammar_json(dumped, strlen(dumped), NULL, &grammar, NULL);
    ck_assert(status != KT_OK || takes(grammar, last));
    kt_grammar_destroy(grammar);
    json_decref(schema);
    free(last), free(dumped), free(text);
    return status;
}

START_TEST(test_alike)
{
    ck_assert_int_eq(read_alike(3, 100000), KT_OK);
    ck_assert_int_eq(read_alike(200, 1), KT_OK);
    ck_assert_int_eq(read_alike(3000, 1), KT_E_RANGE);
}
END_TEST

START_TEST(test_arguments)
{
    struct kt_grammar_params params = KT_GRAMMAR_PARAMS_INIT;
    struct kt_grammar *grammar;
    struct kt_constraint *constraint;
    ck_assert_int_eq(kt_grammar_json("{}", 2, NULL, NULL, NULL), KT_E_INVALID);
    params.reasoning = 3;
    ck_assert_int_eq(kt_grammar_json("{}", 2, &params, &grammar, NULL), KT_E_INVALID);
    params = (struct kt_grammar_params){.struct_size = 1};
    ck_assert_int_eq(kt_grammar_json("{}", 2, &params, &grammar, NULL), KT_E_INVALID);
    ck_assert_int_eq(kt_vocabulary_create(NULL, &vocabulary, NULL), KT_E_INVALID);
    ck_assert_int_eq(kt_constraint_create(NULL, vocabulary, &constraint, NULL), KT_E_INVALID);
    ck_assert_int_eq(kt_constraint_fork(NULL, &constraint, NULL), KT_E_INVALID);
    kt_constraint_destroy(NULL);
    kt_grammar_destroy(NULL);
    kt_vocabulary_destroy(NULL);
}
END_TEST

int main(void)
{
    TCase *group = tcase_create("grammar");
    tcase_add_unchecked_fixture(group, setup, teardown);
    tcase_add_loop_test(group, test_documents, 0, (int)n_schema_cases);
    tcase_add_loop_test(group, test_walks, 0, (int)n_schema_cases);
    tcase_add_test(group, test_ends);
    tcase_add_test(group, test_reasoning);
    tcase_add_test(group, test_long);
    tcase_add_test(group, test_deep);
    tcase_add_test(group, test_faults);
    tcase_add_test(group, test_costs);
    tcase_add_test(group, test_alike);
    tcase_add_test(group, test_arguments);
    return run_tests("grammar", group);
}

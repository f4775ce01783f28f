/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas and the documents that fit them, token by token; masks; what they cost. */
#include "tests/engine/text/text_cases.h"
#include "tests/support/alloc_faults.h"

#include <check.h>
#include <jansson.h>
#include <kt/constraint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct kt_tokenizer *tokenizer;
static struct kt_vocabulary *vocabulary;
static struct kt_tokenizer_info info;

static void setup(void)
{
    tokenizer = text_open(text_data("tiny-moe/tiny-moe-q8_0-l0-l3.gguf"));
    ck_assert_int_eq(kt_vocabulary_create(tokenizer, &vocabulary, NULL), KT_OK);
    kt_tokenizer_info(tokenizer, &info);
}

static void teardown(void)
{
    kt_vocabulary_destroy(vocabulary);
    kt_tokenizer_destroy(tokenizer);
}

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
static size_t feed(struct kt_constraint *constraint, const char *text, size_t length)
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
    bool whole = feed(constraint, text, n) == n && kt_constraint_place(constraint) != KT_CONSTRAINT_OPEN;
    kt_constraint_destroy(constraint);
    return whole;
}

/* A schema, documents that fit it, and some that do not; each ends with NULL. */
static const struct {
    const char *schema, *good[9], *bad[12];
} cases[] = {
    {NULL,
     {"{}", "{\"a\": [1, {\"b\": null}]}", "\n\n{ \"a\": -1.5e+10}"},
     {"[]", "1", "{", "{\"a\"}", "{,}", "\n\n\n{}", "{}{"}},
    {"true",
     {"1", "\"a\"", "[true, false, null]", "-0", "0.5", "1E5", "[]"},
     {"01", "1.", ".5", "+1", "tru", "[1,]", "1e", "--1", "'a'"}},
    {"{\"type\": \"string\"}",
     {"\"\"", "\"a\\n\\\"\"", "\"\\u00e9\\ud83d\\ude00\"", "\"\xc3\xa9\xf0\x9f\x98\x80\""},
     {"\"\\ud83d\"", "\"\\ude00\"", "\"\\x\"", "\"\n\"", "\"\xc3\"", "\"\xed\xa0\x80\"", "\"\xc0\x80\"",
      "\"\xf4\x90\x80\x80\"", "\"\\ud83d\\u0041\""}},
    {"{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}",
     {"\"ab\"", "\"\xe6\x97\xa5\xe6\x9c\xac\"", "\"\\ud83d\\ude00\\n!\""},
     {"\"\"", "\"a\"", "\"abcd\"", "\"\xf0\x9f\x98\x80\"", "\"\\n\""}},
    {"{\"type\": \"integer\", \"minimum\": -12, \"exclusiveMaximum\": 305}",
     {"0", "-12", "304", "-1", "99", "100", "300", "7"},
     {"305", "-13", "-0", "1000", "399", "310", "1.0", "-20", "00", "-100"}},
    {"{\"type\": \"integer\", \"minimum\": 10.5, \"maximum\": 1e30}",
     {"11", "999999999999999999"},
     {"10", "1000000000000000000", "-11"}},
    {"{\"type\": \"integer\", \"multipleOf\": 7, \"minimum\": -20, \"maximum\": 1000}",
     {"0", "7", "-14", "994", "98"},
     {"1", "-21", "1001", "70.0", "8", "-", "-0", "999"}},
    {"{\"allOf\": [{\"multipleOf\": 4}, {\"multipleOf\": 6.0, \"type\": \"number\"}]}",
     {"12", "-24", "0"},
     {"4", "6", "1.5"}},
    {"{\"patternProperties\": {\"^x-\": {\"type\": \"null\"}, \"-[0-9]$\": {\"enum\": [1, null]}}, \"additionalProperties\": false}",
     {"{}", "{\"x-\": null}", "{\"x-9\": null}", "{\"a-9\": 1, \"x-b\": null}",
      "{\"x-9\": null, \"x-9\": null}"},
     {"{\"a\": 1}", "{\"x\": null}", "{\"x-9\": 1}", "{\"x-\": 1}", "{\"a-9\": 2}", "{\"\\u0078-\": null}",
      "{\"-\": 1}"}},
    {"{\"properties\": {\"b\": {\"type\": \"integer\"}, \"ab\": {}}, \"patternProperties\": {\"b\": {\"minimum\": 5}, \"^\\\"\\u001f\": {\"type\": \"boolean\"}}, \"required\": [\"bb\", \"c\"], \"additionalProperties\": {\"type\": \"string\"}}",
     {"{\"b\": 5, \"ab\": 6.5, \"bb\": 7, \"c\": \"\"}",
      "{\"bb\": 5, \"c\": \"x\", \"cbc\": 6, \"d\": \"y\"}",
      "{\"bb\": 5, \"c\": \"\", \"\\\"\\u001f\xc3\xa9"
      "\": true}"},
     {"{\"b\": 4, \"bb\": 7, \"c\": \"\"}", "{\"ab\": 4, \"bb\": 7, \"c\": \"\"}", "{\"bb\": 4, \"c\": \"\"}",
      "{\"bb\": 5, \"c\": 6}", "{\"bb\": 5, \"c\": \"\", \"cb\": \"\"}", "{\"bb\": 5, \"c\": \"\", \"d\": 6}",
      "{\"c\": \"\", \"bb\": 5}", "{\"bb\": 5, \"c\": \"\", \"bb\": 6}",
      "{\"bb\": 5, \"c\": \"\", \"\\\"\\u001fa\": \"x\"}"}},
    {"{\"allOf\": [{\"type\": \"object\", \"patternProperties\": {\"^a\": {\"minimum\": 3}}}, {\"patternProperties\": {\"^a\": {\"maximum\": 5}, \"^b\": false}, \"properties\": {\"ac\": {\"type\": \"integer\"}}}]}",
     {"{\"a\": 4}", "{\"ac\": 3, \"c\": \"b\"}"},
     {"{\"a\": 2}", "{\"a\": 6}", "{\"b\": 1}", "{\"ac\": 3.5}", "{\"ac\": 6}"}},
    {"{\"properties\": {\"\\u001f\": {\"type\": \"integer\"}}, \"patternProperties\": {\"^x\": {\"type\": \"null\"}}, \"additionalProperties\": {\"type\": \"boolean\"}}",
     {"{\"\\u001F\": 1, \"\\\\\": true}", "{\"\\\"\": true, \"\xc3\xa9\": false, \"x\\t\": null}"},
     {"{\"\\u001f\": true}", "{\"\\\": true}", "{\"\\\": true, \"\\\": true}", "{\"x\": true}",
      "{\"x\\n\": true}", "{\"x\xe2\x80\xa8\": true}"}},
    /* Keys that may be anything, and some that may not, in places that need more frames than others. */
    {"{\"patternProperties\": {\"^x-\": {\"type\": \"null\"}, \"[0-9]$\": {\"type\": \"null\"}}, \"additionalProperties\": {\"type\": \"null\"}}",
     {"{\"the 9 other\": null, \"x-\": null, \"\xe6\x97\xa5\\\"\": null}", "{\"9\": null, \"\": null}"},
     {"{\"\xe2\x80\xa8\": 1}", "{\"a\": 1}", "{\"\xe6\x97\": null}"}},
    {"{\"patternProperties\": {\"other$\": false, \"^x\": {\"type\": \"null\"}}, \"additionalProperties\": false}",
     {"{\"x the other \": null}"},
     {"{\"x other\": null}", "{\"the\": null}"}},
    {"{\"patternProperties\": {\"^x\": {\"type\": \"null\"}, \"^the\": {\"type\": \"null\"}}, \"additionalProperties\": false}",
     {"{\"the other\": null, \"x\": null}"},
     {"{\"other\": null}", "{\"to\": null}"}},
    {"{\"patternProperties\": {\"^x\": {\"items\": {\"items\": {\"type\": \"null\"}, \"type\": \"array\"}, \"type\": \"array\", \"minItems\": 1}}, \"additionalProperties\": {\"type\": \"null\"}}",
     {"{\"x\": [[null]], \"the other\": null}"},
     {"{\"x\": null}"}},
    {"{\"patternProperties\": {\"^x\\\\S$\": {\"type\": \"null\"}}, \"additionalProperties\": {\"type\": \"boolean\"}}",
     {"{\"xy\": null, \"x\": true, \"x \": false, \"x\xc3\xa9\": null, \"x\xc2\xa0\": true, \"\xe6\x97\xa5\": true}"},
     {"{\"xy\": true}", "{\"x\xc3\xa9\": true}", "{\"x\xc2\xa0\": null}"}},
    {"{\"properties\": {\"x\\n\": {}, \"\xc3\xa9\": {}}, \"patternProperties\": {\"^x\\\\s\": {\"type\": \"null\"}, \"\\\\W$\": {\"minimum\": 5}},"
     " \"additionalProperties\": {\"type\": \"boolean\"}}",
     {"{\"\\n\": 5, \"a\\n\xe2\x80\xa8z\": true, \"x\xe2\x80\xa8y\": null}", "{\"\xc3\xa9\": 6, \"xy\": true}"},
     {"{\"x\\n\": true}", "{\"x\\n\": 5}", "{\"\xc3\xa9\": 4}", "{\"\xe6\x97\xa5\": true}"}},
    {"{\"enum\": [4, 5, 5.0, 7.5, \"a\"], \"multipleOf\": 5}", {"5", "5.0", "\"a\""}, {"4", "7.5"}},
    {"{\"type\": \"number\", \"minimum\": 0}",
     {"0", "0.5", "12345.25", "999999999999999", "10000000000000.9"},
     {"-1", "-0.1", "1e5", "1.", "00", "0.123456789012345"}},
    {"{\"type\": \"number\", \"exclusiveMinimum\": -1.25, \"maximum\": 30.5}",
     {"-1.2", "0", "-0.0", "-1.24999", "30.5", "30.50", "29.99", "7"},
     {"-1.25", "-1.250", "-2", "30.51", "31", "100", "-1.3"}},
    {"{\"type\": \"number\", \"minimum\": 0.1, \"exclusiveMaximum\": 0.3}",
     {"0.1", "0.10", "0.2", "0.2999"},
     {"0", "0.09", "0.3", "0.30", "1", "0.4"}},
    {"{\"type\": \"number\", \"exclusiveMaximum\": -99}",
     {"-100", "-99.5", "-1000000"},
     {"-99", "-99.0", "0", "-98.9", "5"}},
    {"{\"type\": \"number\", \"exclusiveMinimum\": 0}", {"0.1", "1", "0.01"}, {"0", "0.0", "-1"}},
    {"{\"type\": \"string\", \"pattern\": \"^(a*){1000}$\"}", {"\"\"", "\"aaa\""}, {"\"b\""}},
    {"{\"enum\": [\"red\", \"re\", 1, 1.5, null, {\"a\": [1]}, \"\\n\"]}",
     {"\"red\"", "\"re\"", "1", "1.5", "null", "{ \"a\": [1]}", "\"\\n\""},
     {"\"r\"", "\"redd\"", "2", "1.0", "{}", "{\"a\":[]}"}},
    {"{\"type\": \"string\", \"enum\": [\"a\", 1]}", {"\"a\""}, {"1"}},
    {"{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": \"null\"}, \"c\": true},"
     " \"required\": [\"b\"], \"additionalProperties\": false}",
     {"{\"b\":null}", "{\"a\":1,\"b\":null}", "{\n  \"a\": 1,\n  \"b\": null,\n  \"c\": []\n}",
      "{\"b\": null, \"c\": \"\"}"},
     {"{}", "{\"a\":1}", "{\"b\":null,\"a\":1}", "{\"b\":null,}", "{\"b\":null,\"d\":1}",
      "{\"b\":null,\"b\":null}", "{\"a\" :1,\"b\":null}"}},
    {"{\"properties\": {\"ab\": {\"type\": \"integer\"}, \"\\\"\": {\"type\": \"null\"}}, \"additionalProperties\": {\"type\": \"boolean\"}}",
     {"{}", "{\"a\":true}", "{\"abc\":true}", "{\"ab\":1,\"b\":true,\"\":false}", "{\"\xc3\xa9\":true}",
      "{\"c\\u0061\":true}", "{\"\\n\":true}"},
     {"{\"ab\":true}", "{\"\\u0061b\":true}", "{\"\\\"\":true}", "{\"a\":1}", "{\"a\\u0062\":true}",
      "{\"b\":true,\"ab\":1}", "{\"\\x\":true}", "1"}},
    {"{\"required\": [\"z\"], \"additionalProperties\": {\"type\": \"integer\"}}",
     {"{\"z\":1}", "{\"z\":1,\"y\":2}"},
     {"{}", "{\"y\":1}"}},
    {"{\"type\": \"array\", \"items\": {\"type\": \"integer\"}, \"minItems\": 2, \"maxItems\": 3}",
     {"[1,2]", "[1, 2, 3]", "[\n 1,\n 2\n]"},
     {"[]", "[1]", "[1,2,3,4]", "[1,2,]", "[1 ,2]"}},
    {"{\"prefixItems\": [{\"type\": \"integer\"}, {\"type\": \"null\"}], \"items\": false, \"minItems\": 1}",
     {"[1]", "[1,null]"},
     {"[]", "[null]", "[1,null,1]"}},
    {"{\"prefixItems\": [{\"type\": \"integer\"}], \"items\": {\"type\": \"null\"}, \"minItems\": 3, \"maxItems\": 4}",
     {"[1,null,null]", "[1,null,null,null]"},
     {"[1]", "[1,null]", "[1,null,null,null,null]"}},
    {"{\"type\": \"array\", \"maxItems\": 0}", {"[]", "[ ]"}, {"[1]"}},
    {"{\"type\": [\"string\", \"null\"], \"maxLength\": 1}", {"null", "\"a\""}, {"\"ab\"", "1"}},
    {"{\"type\": \"integer\", \"nullable\": true}", {"null", "5"}, {"\"\""}},
    {"{\"anyOf\": [{\"type\": \"object\", \"properties\": {\"k\": {\"const\": \"a\"}}, \"required\": [\"k\"], \"additionalProperties\": false},"
     " {\"type\": \"object\", \"properties\": {\"k\": {\"const\": \"ab\"}, \"n\": {\"type\": \"integer\"}}, \"required\": [\"k\", \"n\"]}]}",
     {"{\"k\":\"a\"}", "{\"k\":\"ab\",\"n\":1}"},
     {"{\"k\":\"ab\"}", "{\"k\":\"a\",\"n\":1}"}},
    {"{\"oneOf\": [{\"type\": \"string\"}, {\"type\": \"integer\"}, {\"type\": \"null\"}]}",
     {"\"\"", "3", "null"},
     {"[]", "3.5"}},
    {"{\"allOf\": [{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\", \"minimum\": 5}}, \"required\": [\"a\"]},"
     " {\"properties\": {\"a\": {\"maximum\": 7}, \"b\": {\"type\": \"null\"}}, \"additionalProperties\": false}]}",
     {"{\"a\":5}", "{\"a\":7,\"b\":null}"},
     {"{\"a\":4}", "{\"a\":8}", "{\"b\":null}", "{\"a\":5,\"c\":1}"}},
    {"{\"$ref\": \"#/$defs/n~1\", \"$defs\": {\"n/\": {\"type\": \"object\", \"properties\": {\"n\": {\"anyOf\": [{\"$ref\": \"#/$defs/n%7E1\"}, {\"type\": \"null\"}]}},"
     " \"required\": [\"n\"], \"additionalProperties\": false}}}",
     {"{\"n\":null}", "{\"n\":{\"n\": {\"n\":null}}}"},
     {"{}", "{\"n\":{}}", "{\"n\":{\"n\":null}"}},
    {"{\"$ref\": \"#/$defs/a\", \"maxLength\": 1, \"$defs\": {\"a\": {\"type\": \"string\", \"minLength\": 1}}}",
     {"\"x\""},
     {"\"\"", "\"xy\""}},
    {"{\"type\": \"string\", \"pattern\": \"^[a-z_][\\\\w.]*(-(x|yz){2,3})?$\"}",
     {"\"a\"", "\"_9.b\"", "\"a-xyz\"", "\"a-xxyz\""},
     {"\"\"", "\"9\"", "\"a-\"", "\"a-x\"", "\"a-xxxx\"", "\"\xc3\xa9\""}},
    {"{\"pattern\": \"b+[^c\\\"]$\"}",
     {"\"bd\"", "\"xbb\xe6\x97\xa5\"", "\"b\\n\"", "\"\\\"ba\""},
     {"\"bc\"", "\"b\"", "\"b\\\"\"", "\"bdx\""}},
    {"{\"type\": \"string\", \"pattern\": \"^(ab)*c?$\", \"minLength\": 3, \"maxLength\": 4}",
     {"\"abc\"", "\"abab\""},
     {"\"\"", "\"ab\"", "\"ababc\""}},
    {"{\"type\": \"string\", \"pattern\": \"^[^/]{0,5}$\"}",
     {"\"\"", "\"a b!z\"", "\"\\n\\\"\xe6\x97\xa5\xe2\x80\xa8\\\\\""},
     {"\"a/\"", "\"abcdef\"", "\"\xe2\x80\""}},
    {"{\"type\": \"string\", \"pattern\": \"^[A-Za-z0-9 ,.-]{1,4}(\u00e9[!-~]*)?$\"}",
     {"\"a,-.\"", "\"Zz\xc3\xa9\\\"~!\""},
     {"\"\"", "\"abcde\"", "\"a_\"", "\"a\xc3\xa9 \""}},
    {"{\"type\": \"string\", \"pattern\": \"^[^/]{0,2}[a-z]*$\"}",
     {"\"A~bcd\"", "\"abcd\""},
     {"\"~~~\"", "\"aAA\""}},
    {"{\"type\": \"string\", \"pattern\": \"^[^a]*$\"}", {"\"the other\""}, {"\"that\"", "\"a\""}},
    {"{\"type\": \"string\", \"pattern\": \"^[ -\\u2027\\ue000-\\udbff\\udfff]*$\"}",
     {"\"a\xc3\xa9\xef\xbf\xbd\xf0\x9f\x98\x80\""},
     {"\"\xe6\x97\xa5\""}},
    {"{\"type\": \"string\", \"pattern\": \"^.{3}$\"}",
     {"\"abc\"", "\"\xe2\x80\xa7\xe2\x80\xaa\xe2\x81\xa8\"", "\"\xe3\x80\xa8\\t\xf0\x9f\x98\x80\""},
     {"\"ab\"", "\"abcd\"", "\"a\xe2\x80\xa8z\"", "\"a\xe2\x80\xa9z\"", "\"\xe2\x80\"", "\"a\\nb\""}},
    /* Behind the x it is in so many places that some are left out. */
    {"{\"type\": \"string\", \"pattern\": \"^([ -~]*|y?x(b*c?){600}b)$\"}",
     {"\"xy z\"", "\"xbcb\""},
     {"\"\xc3\xa9\""}},
    /* What ECMA-262 means, beyond ASCII and over the ends of lines. */
    {"{\"pattern\": \"^[\\\\s\\\\S]*$\"}",
     {"\"\"", "\"\xc3\xa9\xe6\x97\xa5\\n\xe2\x80\xa8\xf0\x9f\x98\x80\\u0000\""},
     {"\"\xe6\x97\"", "\"\xed\xa0\x80\"", "\"\n\""}},
    {"{\"pattern\": \"^\\\\S+[^\\\\s][^\\\\d\\\\w]$\"}",
     {"\"\xc3\xa9\xe6\x97\xa5\xd9\xa3\"", "\"ab-\"", "\"\xc2\x85\xc3\xa9 \"", "\"ab\xe2\x80\xa8\""},
     {"\"\xc2\xa0-\xc3\xa9\"", "\"a\xe3\x80\x80-\"", "\"a\xef\xbb\xbf-\"", "\"a\xe2\x80\xa8-\"", "\"abc\"",
      "\"\\t--\"", "\"ab\xe6\x97\""}},
    {"{\"pattern\": \"[0-9]\"}", {"\"1\\nb\"", "\"\xe6\x97\xa5\\r\\n\xe2\x80\xa9" "7\""}, {"\"\\n\"", "\"\xd9\xa3\""}},
    {"{\"pattern\": \"^Dear\"}", {"\"Dear\\nx\"", "\"Dear \xc3\xa9\""}, {"\"\\nDear\"", "\"dear\""}},
    {"{\"pattern\": \"^(a|(^b|c$))$|\\\\bthe\\\\B\"}",
     {"\"a\"", "\"b\"", "\"c\"", "\"other them\"", "\"\\nthe9\"", "\"\xc3\xa9thes\""},
     {"\"\"", "\"ab\"", "\"the\"", "\"other\"", "\"_thes\"", "\"the other\"", "\"the\xc3\xa9\""}},
    {"{\"pattern\": \"^\\\\B.?\\\\b[^ ]{2}\\\\b$\", \"minLength\": 3, \"maxLength\": 3}",
     {"\" ab\"", "\"-ab\""},
     {"\"ab\"", "\"-a-\"", "\"aab\"", "\" a-\"", "\"---\""}},
    {"{\"pattern\": \"^\\\\u{1f600}\\\\ud83d\\\\ude01\\\\xe9\\\\cJ\\\\0[^]?[\\\\b-\\\\cK]$\"}",
     {"\"\xf0\x9f\x98\x80\xf0\x9f\x98\x81\xc3\xa9\\n\\u0000\\n\\t\"", "\"\xf0\x9f\x98\x80\xf0\x9f\x98\x81\xc3\xa9\\n\\u0000\\b\""},
     {"\"\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xc3\xa9\\n\\u0000\\t\"", "\"\xf0\x9f\x98\x80\xf0\x9f\x98\x81\xc3\xa9\\n\\u0000\\f\""}},
    {"{\"pattern\": \"^(?<first>\\\\p{Lu})[\\\\p{gc=Lowercase_Letter}\\\\p{ASCII}]*\\\\P{L}$\"}",
     {"\"\xc3\x89\xc3\xa9" "a1\"", "\"Z\xe3\x80\x82\"", "\"\xd0\x96" "a \\n\""},
     {"\"\xc3\xa9.\"", "\"Aa\"", "\"A\xe6\x97\xa5.\"", "\"A\""}},
    {"{\"pattern\": \"^.{0,2}\\\\w{2}\"}", {"\"-the other\"", "\"ab\""}, {"\"a\"", "\"---a\""}},
    {"{\"anyOf\": [{\"type\": \"string\", \"maxLength\": 2}, {\"pattern\": \"^[a-z]*$\"}]}",
     {"\"other\"", "\"A\\n\""},
     {"\"Other\""}},
    {"{\"type\": \"string\", \"format\": \"date\"}",
     {"\"2024-02-28\"", "\"1999-12-31\""},
     {"\"2024-02-30\"", "\"2024-13-01\"", "\"24-01-01\""}},
};

START_TEST(test_documents)
{
    struct kt_grammar *grammar = open_grammar(cases[_i].schema, KT_REASONING_NONE);
    for (size_t i = 0; cases[_i].good[i]; i++)
        ck_assert_msg(takes(grammar, cases[_i].good[i]), "%s refuses %s", cases[_i].schema,
                      cases[_i].good[i]);
    for (size_t i = 0; cases[_i].bad[i]; i++)
        ck_assert_msg(!takes(grammar, cases[_i].bad[i]), "%s takes %s", cases[_i].schema, cases[_i].bad[i]);
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
    struct kt_grammar *grammar = open_grammar(cases[_i].schema, KT_REASONING_NONE);
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
            json_t *document = json_loadb(text, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &where);
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
    ck_assert_uint_eq(feed(constraint, "12", 2), 2);
    ck_assert_int_eq(kt_constraint_place(constraint), KT_CONSTRAINT_MAY_END);
    ck_assert_uint_eq(feed(constraint, "3", 1), 1);
    ck_assert_int_eq(kt_constraint_allows(constraint, info.eos_token_id, &allowed, NULL), KT_OK);
    ck_assert_uint_eq(allowed, 1);
    ck_assert_int_eq(kt_constraint_accept(constraint, info.eos_token_id, NULL), KT_OK);
    ck_assert_int_eq(kt_constraint_place(constraint), KT_CONSTRAINT_DONE);
    ck_assert_uint_eq(feed(constraint, "4", 1), 0);
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
    ck_assert_uint_eq(feed(constraint, "\"", 1), 1);
    for (int i = 0; i < 600; i++) {
        ck_assert_uint_eq(feed(constraint, "abcdefghij", 10), 10);
        if (i % 40 == 0 || i > 597)
            (void)compare_mask(constraint, &random);
    }
    ck_assert_uint_eq(feed(constraint, "x", 1), 0);
    ck_assert_uint_eq(feed(constraint, "\"", 1), 1);
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
    while (feed(constraint, "[", 1) == 1)
        depth++;
    ck_assert_int_gt(depth, 50);
    ck_assert_int_lt(depth, 65);
    while (depth-- > 0)
        ck_assert_uint_eq(feed(constraint, "]", 1), 1);
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
    ck_assert_uint_eq(feed(spender, "\"", 1), 1);
    for (unsigned i = 0; i < 15; i++)
        ck_assert_uint_eq(feed(spender, text, sizeof(text) - 1), sizeof(text) - 1);
    ck_assert_int_eq(kt_constraint_fork(spender, &saver, NULL), KT_OK);
    unsigned whole = count_allowed(saver);
    for (unsigned i = 0; i < 40; i++) {
        fewest = count_allowed(spender);
        ck_assert_uint_gt(fewest, 0);
        ck_assert_uint_eq(feed(spender, text + i, 1), 1);
        ck_assert_uint_eq(feed(saver, text + i, 1), 1);
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
    Suite *suite = suite_create("grammar");
    TCase *group = tcase_create("grammar");
    tcase_add_unchecked_fixture(group, setup, teardown);
    tcase_add_loop_test(group, test_documents, 0, (int)(sizeof(cases) / sizeof(cases[0])));
    tcase_add_loop_test(group, test_walks, 0, (int)(sizeof(cases) / sizeof(cases[0])));
    tcase_add_test(group, test_ends);
    tcase_add_test(group, test_reasoning);
    tcase_add_test(group, test_long);
    tcase_add_test(group, test_deep);
    tcase_add_test(group, test_faults);
    tcase_add_test(group, test_costs);
    tcase_add_test(group, test_alike);
    tcase_add_test(group, test_arguments);
    suite_add_tcase(suite, group);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed > 0;
}

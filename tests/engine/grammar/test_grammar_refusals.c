/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas that are refused, and where. */
#include "tests/support/suite.h"

#include <check.h>
#include <kt/constraint.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *schema;
    enum kt_status status;
    const char *words; /* of the message */
} refusals[] = {
    {"{", KT_E_FORMAT, "not JSON"},
    {"1", KT_E_FORMAT, "#: a schema"},
    {"{\"type\": \"text\"}", KT_E_FORMAT, "#/type: not a type"},
    {"{\"properties\": {\"a\": {\"uniqueItems\": true}}}", KT_E_UNSUPPORTED,
     "#/properties/a: 'uniqueItems' is supported for items"},
    {"{\"uniqueItems\": true, \"items\": {\"enum\": [1, 2]}, \"contains\": {\"const\": 1}}", KT_E_UNSUPPORTED,
     "'uniqueItems' beside 'contains'"},
    {"{\"uniqueItems\": true, \"items\": {\"enum\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14]}}", KT_E_UNSUPPORTED,
     "'uniqueItems' of so many values"},
    {"{\"contains\": {\"const\": 1}, \"maxItems\": 9000}", KT_E_UNSUPPORTED, "'contains' beside such large"},
    {"{\"not\": {}}", KT_E_INVALID, "nothing can fit"},
    {"{\"not\": {\"uniqueItems\": true}}", KT_E_UNSUPPORTED, "#/not: 'uniqueItems'"},
    {"{\"not\": {\"propertyNames\": {\"pattern\": \"a\"}}}", KT_E_UNSUPPORTED, "#/not: 'propertyNames'"},
    {"{\"not\": {\"pattern\": \"^(?=a)b\"}}", KT_E_UNSUPPORTED, "which looks ahead, is not supported"},
    {"{\"not\": {\"multipleOf\": 0.5}}", KT_E_UNSUPPORTED, "multipleOf is supported for whole numbers"},
    {"{\"multipleOf\": 40, \"not\": {\"multipleOf\": 30}}", KT_E_UNSUPPORTED, "whose product is up to 1000"},
    {"{\"if\": {\"patternProperties\": {\"a\": false}}, \"else\": false}", KT_E_UNSUPPORTED,
     "#/if: 'patternProperties'"},
    {"{\"propertyNames\": {\"anyOf\": [{\"pattern\": \"a\"}, {\"pattern\": \"b\"}]}}", KT_E_UNSUPPORTED,
     "#/propertyNames: alternatives"},
    {"{\"unevaluatedItems\": false, \"not\": {\"items\": {\"type\": \"null\"}}}", KT_E_UNSUPPORTED,
     "#/unevaluatedItems: beside 'not'"},
    {"{\"type\": [\"\\u0001fraction\"]}", KT_E_FORMAT, "#/type: not a type"},
    {"{\"\\u0001none\": [1]}", KT_E_UNSUPPORTED, "this keyword is not supported"},
    {"{\"$schema\": \"http://example.org/my\"}", KT_E_UNSUPPORTED, "#/$schema: this dialect"},
    {"{\"items\": {\"$id\": \"http://example.org/a\"}}", KT_E_UNSUPPORTED, "#/items/$id: an $id within"},
    {"{\"$ref\": \"#/$defs/a/b\", \"$defs\": {\"a\": {\"$id\": \"x\", \"b\": {}}}}", KT_E_UNSUPPORTED,
     "leads elsewhere"},
    {"{\"$ref\": \"#a\", \"$defs\": {\"a\": {\"$anchor\": \"a\"}, \"b\": {\"$anchor\": \"a\"}}}",
     KT_E_UNSUPPORTED, "leads elsewhere"},
    {"{\"contentEncoding\": \"base64\"}", KT_E_UNSUPPORTED, "#/contentEncoding: this keyword"},
    {"{\"dependentRequired\": {\"a\": [1]}}", KT_E_FORMAT,
     "#/dependentRequired/a: this must be a list of names"},
    {"{\"patternProperties\": []}", KT_E_FORMAT, "#/patternProperties: this must be an object"},
    {"{\"patternProperties\": {\"(\": {}}}", KT_E_UNSUPPORTED, "#/patternProperties/(: the pattern '('"},
    {"{\"patternProperties\": {\"1\":{},\"2\":{},\"3\":{},\"4\":{},\"5\":{},\"6\":{},\"7\":{},\"8\":{},\"9\":{}}}",
     KT_E_RANGE, "more than 8 expressions"},
    {"{\"patternProperties\": {\"a([^b]{900}){20}c\": {}}}", KT_E_RANGE,
     "#/patternProperties: an expression of keys has too"},
    {"{\"patternProperties\": {\"a([ac-z]|[ac-z]|[ac-z]|[ac-z]|[ac-z]|[ac-z]|[ac-z]|[ac-z]){300}[a-f]{90}c\": {}}}",
     KT_E_RANGE, "#/patternProperties: reading it requires more than 10000000 steps"},
    {"{\"pattern\": \"^(?=.*\\\\d).*$\", \"maxLength\": 2000}", KT_E_RANGE,
     "#: the expressions together need more than 32768 places"},
    {"{\"allOf\": [{\"patternProperties\": {\"a\": {}}, \"additionalProperties\": false}, {\"additionalProperties\": {\"type\": \"null\"}}]}",
     KT_E_UNSUPPORTED, "of schemas that hold together"},
    {"{\"oneOf\": [{\"type\": \"object\", \"patternProperties\": {\"^x\": {}}, \"additionalProperties\": false, \"required\": "
     "[\"x\"]}, {\"type\": \"object\", \"required\": [\"x\"]}]}",
     KT_E_UNSUPPORTED, "'additionalProperties beside patternProperties'"},
    {"{\"type\": \"object\", \"patternProperties\": {\"^x\": false}, \"required\": [\"x\"]}", KT_E_INVALID,
     "nothing can fit"},
    {"{\"multipleOf\": 0.01}", KT_E_UNSUPPORTED, "whole numbers up to 1000"},
    {"{\"multipleOf\": 1001}", KT_E_UNSUPPORTED, "whole numbers up to 1000"},
    {"{\"multipleOf\": 0}", KT_E_FORMAT, "#/multipleOf"},
    {"{\"minProperties\": 2}", KT_E_UNSUPPORTED, "minProperties above 1"},
    {"{\"maxProperties\": 5, \"not\": {\"additionalProperties\": {\"type\": \"null\"}}, \"patternProperties\": {\"^a\": {}}}",
     KT_E_UNSUPPORTED, "beside patternProperties, is not supported"},
    {"{\"items\": [{}]}", KT_E_UNSUPPORTED, "#/items: a list"},
    {"{\"anyOf\": [{}, {\"contains\": 1}]}", KT_E_FORMAT, "#/anyOf/1/contains"},
    {"{\"format\": \"hostname\"}", KT_E_UNSUPPORTED, "format 'hostname'"},
    {"{\"type\": \"number\", \"exclusiveMinimum\": 5e-324, \"exclusiveMaximum\": 1e-323}", KT_E_INVALID,
     "nothing can fit"},
    {"{\"type\": \"integer\", \"minimum\": 18446744073709551616, \"maximum\": 18446744073709551615}",
     KT_E_UNSUPPORTED, "are one number as doubles"},
    {"{\"type\": \"number\", \"minimum\": 18446744073709551616.0, \"maximum\": 18446744073709551615}",
     KT_E_UNSUPPORTED, "are one number as doubles"},
    {"{\"minimum\": 1e400}", KT_E_UNSUPPORTED, "real number overflow"},
    {"{\"type\": \"number\", \"minimum\": 1, \"exclusiveMaximum\": 1}", KT_E_INVALID, "nothing can fit"},
    {"{\"type\": \"integer\", \"minimum\": 8, \"maximum\": 13, \"multipleOf\": 7}", KT_E_INVALID,
     "nothing can fit"},
    {"{\"pattern\": \"a(?=b)\"}", KT_E_UNSUPPORTED, "lookahead"},
    {"{\"pattern\": \"(?=b)\"}", KT_E_UNSUPPORTED, "lookahead, which is only supported after ^"},
    {"{\"pattern\": \"^(?=b)b|c\"}", KT_E_UNSUPPORTED, "lookahead"},
    {"{\"pattern\": \"^(?=b\"}", KT_E_UNSUPPORTED, "lookahead"},
    {"{\"pattern\": \"^(?=.*\\\\d).*$\", \"maxLength\": 20000}", KT_E_RANGE, "too large to be counted"},
    {"{\"pattern\": \"^(?=b)+c\"}", KT_E_UNSUPPORTED, "a repetition of nothing"},
    {"{\"pattern\": \"^(?=a(?!b))a\"}", KT_E_UNSUPPORTED, "lookahead"},
    {"{\"type\": \"string\", \"pattern\": \"^(?=b)(?!b)\"}", KT_E_INVALID, "nothing can fit"},
    {"{\"pattern\": \"^(?=a)(?=b)(?=c)(?=d)(?=e)(?=f)(?=g)(?=h)\"}", KT_E_RANGE,
     "#: more than 8 expressions"},
    {"{\"pattern\": \"a(?<!b)\"}", KT_E_UNSUPPORTED, "lookbehind"},
    {"{\"pattern\": \"(?i:a)\"}", KT_E_UNSUPPORTED, "a kind of group"},
    {"{\"pattern\": \"(?P<a>b)\"}", KT_E_UNSUPPORTED, "a kind of group"},
    {"{\"pattern\": \"(?<a\"}", KT_E_UNSUPPORTED, "an unterminated group"},
    {"{\"pattern\": \"(a)\\\\1\"}", KT_E_UNSUPPORTED, "a reference to a group"},
    {"{\"pattern\": \"(?<a>b)\\\\k<a>\"}", KT_E_UNSUPPORTED, "a reference to a group"},
    {"{\"pattern\": \"\\\\Aword\"}", KT_E_UNSUPPORTED, "an escape that is not supported"},
    {"{\"pattern\": \"a\\\\\"}", KT_E_UNSUPPORTED, "an escape that is not supported"},
    {"{\"pattern\": \"[\\\\B]\"}", KT_E_UNSUPPORTED, "an escape that is not supported"},
    {"{\"pattern\": \"\\\\p{Script=Greek}\"}", KT_E_UNSUPPORTED, "a property that is not a general category"},
    {"{\"pattern\": \"\\\\pL\"}", KT_E_UNSUPPORTED, "a property that is not a general category"},
    {"{\"pattern\": \"\\\\p{gc=Any}\"}", KT_E_UNSUPPORTED, "a property that is not a general category"},
    {"{\"pattern\": \"\\\\u{110000}\"}", KT_E_UNSUPPORTED, "an invalid escape"},
    {"{\"pattern\": \"\\\\u{41\"}", KT_E_UNSUPPORTED, "an invalid escape"},
    {"{\"pattern\": \"\\\\ud83d\\\\u0041\"}", KT_E_UNSUPPORTED, "a surrogate"},
    {"{\"pattern\": \"\\\\b+\"}", KT_E_UNSUPPORTED, "a repetition of nothing"},
    {"{\"pattern\": \"^*\"}", KT_E_UNSUPPORTED, "a repetition of nothing"},
    {"{\"pattern\": \"\\\\ba{1000}(b{1000}){30}\"}", KT_E_RANGE, "to have \\b, ^ or $ inside"},
    {"{\"pattern\": \"(((a{1000}){1000}){1000})\"}", KT_E_RANGE, "too large"},
    {"{\"pattern\": \"a\", \"maxLength\": 4000000000}", KT_E_RANGE, "too large to be counted"},
    {"{\"oneOf\": [{\"type\": \"integer\"}, {\"type\": \"integer\"}]}", KT_E_INVALID, "nothing can fit"},
    {"{\"$ref\": \"http://example.org/a\"}", KT_E_UNSUPPORTED, "leads elsewhere"},
    {"{\"$ref\": \"#/$defs/a\"}", KT_E_FORMAT, "leads to nothing"},
    {"{\"$ref\": \"#\"}", KT_E_INVALID, "nothing can fit"},
    {"{\"$ref\": \"#\", \"type\": \"object\"}", KT_E_RANGE, "refers to itself"},
    {"{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"#\"}}, \"required\": [\"a\"]}",
     KT_E_INVALID, "nothing can fit"},
    {"false", KT_E_INVALID, "nothing can fit"},
    {"{\"type\": \"string\", \"enum\": [1]}", KT_E_INVALID, "nothing can fit"},
    {"{\"type\": \"integer\", \"minimum\": 2, \"maximum\": 1}", KT_E_INVALID, "nothing can fit"},
    {"{\"minLength\": 4294967295}", KT_E_UNSUPPORTED, "#/minLength: a count of 2^32"},
    {"{\"maxItems\": 1.5}", KT_E_FORMAT, "#/maxItems: this must be a count"},
    {"{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 1}", KT_E_INVALID, "nothing can fit"},
    {"{\"type\": \"string\", \"pattern\": \"^a$\", \"minLength\": 2}", KT_E_INVALID, "nothing can fit"},
    {"{\"type\": \"string\", \"pattern\": \"[]|a^|$b|[^\\\\d\\\\D]\"}", KT_E_INVALID, "nothing can fit"},
    {"{\"minItems\": -1}", KT_E_FORMAT, "#/minItems"},
    {"{\"enum\": []}", KT_E_FORMAT, "#/enum"},
    {"{\"a\": 1, \"a\": 2}", KT_E_FORMAT, "not JSON"},
    {"{\"anyOf\": []}", KT_E_FORMAT, "#/anyOf: this must be a list of schemas"},
    {"{\"pattern\": 1}", KT_E_FORMAT, "#/pattern: this must be a string"},
    {"{\"nullable\": 1}", KT_E_FORMAT, "#/nullable: this must be true or false"},
    {"{\"enum\": [\"a\"], \"pattern\": \"b\"}", KT_E_INVALID, "nothing can fit"},
    {"{\"enum\": [{\"a\": 1}, [2]], \"required\": [\"b\"], \"items\": {\"type\": \"null\"}}", KT_E_INVALID,
     "nothing can fit"},
    {"{\"pattern\": \"\\\\u12\"}", KT_E_UNSUPPORTED, "an invalid escape"},
    {"{\"pattern\": \"[b-a]\"}", KT_E_UNSUPPORTED, "an invalid range"},
    {"{\"pattern\": \"[a\"}", KT_E_UNSUPPORTED, "an unterminated class"},
    {"{\"pattern\": \"a{2,1}\"}", KT_E_UNSUPPORTED, "an invalid repetition, or one above 1000,"},
    {"{\"pattern\": \"a)\"}", KT_E_UNSUPPORTED, "an unmatched bracket"},
    {"{\"pattern\": \"((((((((((((((((((((((((((((((((((a))))))))))))))))))))))))))))))))))\"}",
     KT_E_UNSUPPORTED, "groups nested too deeply"},
};

START_TEST(test_refusals)
{
    struct kt_grammar *grammar = NULL;
    struct kt_error error = {KT_OK, ""};
    enum kt_status status =
        kt_grammar_json(refusals[_i].schema, strlen(refusals[_i].schema), NULL, &grammar, &error);
    ck_assert_ptr_null(grammar);
    ck_assert_msg(status == refusals[_i].status && error.status == status, "%s: %d, %s", refusals[_i].schema,
                  (int)status, error.message);
    ck_assert_msg(strstr(error.message, refusals[_i].words), "%s: %s", refusals[_i].schema, error.message);
}
END_TEST

/* A text that is put together. */
static char text[1 << 20];
static size_t n_text;

static void put(const char *part)
{
    size_t n = strlen(part);
    ck_assert_uint_lt(n_text + n, sizeof(text));
    memcpy(text + n_text, part, n + 1);
    n_text += n;
}

static void put_times(const char *part, int times)
{
    while (times-- > 0)
        put(part);
}

static enum kt_status ask(struct kt_error *error)
{
    struct kt_grammar *grammar = NULL;
    *error = (struct kt_error){KT_OK, ""};
    enum kt_status status = kt_grammar_json(text, n_text, NULL, &grammar, error);
    kt_grammar_destroy(grammar);
    n_text = 0;
    return status;
}

/* In a thread with the stack of kt run's. */
static void *ask_about_names(void *data)
{
    struct kt_error *errors = data;
    for (int i = 0; i < 2; i++) {
        put("{\"properties\": {\"");
        put_times("abcdefgh", i ? 50000 : 62);
        put("\": {}}}");
        (void)ask(&errors[i]);
    }
    return NULL;
}

START_TEST(test_long_names)
{
    struct kt_error errors[2];
    pthread_attr_t attributes;
    pthread_t thread;
    ck_assert_int_eq(pthread_attr_init(&attributes), 0);
    ck_assert_int_eq(pthread_attr_setstacksize(&attributes, 2 << 20), 0);
    ck_assert_int_eq(pthread_create(&thread, &attributes, ask_about_names, errors), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_msg(errors[0].status == KT_OK, "%s", errors[0].message);
    ck_assert_int_eq(errors[1].status, KT_E_RANGE);
    ck_assert_ptr_nonnull(strstr(errors[1].message, "longer than 500 bytes"));
    put("{\"properties\": {\"");
    put_times("abcdefgh", 50000);
    put("\": {}}, \"patternProperties\": {\"^b\": {}}}");
    ck_assert_int_eq(ask(&errors[0]), KT_E_RANGE);
    ck_assert_ptr_nonnull(strstr(errors[0].message, "names of members have too many parts"));
}
END_TEST

static void expect_too_much(const char *what)
{
    struct kt_error error;
    enum kt_status status = ask(&error);
    ck_assert_msg(status == KT_E_RANGE && strstr(error.message, "requires more than 10000000 steps"),
                  "%s: %d, %s", what, (int)status, error.message);
}

/* What is cheap once, many times; whoever asks pays for all of it. */
START_TEST(test_costs_add_up)
{
    put("{\"properties\": {\"last\": {}");
    for (int i = 0; i < 400; i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), ", \"p%d\": {\"patternProperties\": {\"^a{100}c\": {}}}", i);
        put(name);
    }
    put("}}");
    expect_too_much("keys of many objects");

    put("{\"properties\": {\"");
    for (uint32_t i = 0, random = 1; i < 100000; i++, random = random * 1103515245 + 12345)
        put(random >> 16 & 1 ? "a" : "x");
    put("\": {}, \"y\\n\": {}}, \"patternProperties\": {\"a[^b]{300}c\": {}}}");
    expect_too_much("a name that leads to ever new states");

    put("{\"allOf\": [");
    for (int side = 0; side < 2; side++) {
        put(side ? "]}, {\"enum\": [1" : "{\"enum\": [1");
        put_times(side ? ",2" : ",3", 4000);
    }
    put("]}]}");
    expect_too_much("enums of many values");

    put("{\"required\": [\"a\"");
    put_times(",\"a\"", 100);
    put("], \"allOf\": [{\"anyOf\": [{}");
    put_times(",{}", 199);
    put("]}");
    put_times(",{}", 300);
    put("]}");
    expect_too_much("many merges");
}
END_TEST

static void expect(enum kt_status wanted, const char *words)
{
    struct kt_error error;
    enum kt_status status = ask(&error);
    ck_assert_msg(status == wanted && strstr(error.message, words), "%s: %d, %s", words, (int)status,
                  error.message);
}

/* What is too much of something. */
START_TEST(test_limits)
{
    char name[64];
    put("{\"pattern\": \"");
    put_times("a", 3000);
    put("\"}");
    expect(KT_E_UNSUPPORTED, "too many parts");
    put("{\"pattern\": \"");
    for (int i = 0; i < 200; i++) {
        put(i % 2 ? "[^x" : "[");
        for (int code = 0; code < 100; code++) {
            (void)snprintf(name, sizeof(name), "\\\\u{%x}", 2 * code + 0x100 * i);
            put(name);
        }
        put("]");
    }
    put("\"}");
    expect(KT_E_UNSUPPORTED, "too many ranges of characters");
    put("{\"properties\": {\"last\": {}");
    for (int i = 0; i < 600; i++) {
        (void)snprintf(name, sizeof(name), ", \"p%d\": {\"pattern\": \"", i);
        put(name);
        put_times("\\\\p{Lu}", 8);
        put("\"}");
    }
    put("}}");
    expect(KT_E_RANGE, "requires more than 10000000 steps");
    put("{\"properties\": {\"last\": {}");
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof(name), ", \"p%d\": {}", i);
        put(name);
    }
    put("}}");
    expect(KT_E_RANGE, "an object has more than 1000 members");
    put("{\"anyOf\": [{}");
    put_times(",{}", 20000);
    put("]}");
    expect(KT_E_RANGE, "more than 20000 schemas are needed");
    for (int one = 0; one < 2; one++) {
        put("{\"allOf\": [{\"anyOf\": [{}");
        put_times(",{}", one ? 200 : 20);
        put(one ? "]}], \"anyOf\": [{}" : "]}, {\"anyOf\": [{}");
        put_times(",{}", one ? 200 : 20);
        put(one ? "]}" : "]}]}");
        expect(KT_E_RANGE, "more than 256 alternatives");
    }
    for (int i = 0; i < 80; i++)
        put("{\"type\": \"array\", \"minItems\": 1, \"items\": ");
    put("{}");
    put_times("}", 80);
    expect(KT_E_RANGE, "whatever fits it nests deeper than 64");
    ck_assert_int_eq(kt_grammar_json("{}", 2, NULL, NULL, NULL), KT_E_INVALID);
}
END_TEST

int main(void)
{
    TCase *group = tcase_create("refusals");
    tcase_add_loop_test(group, test_refusals, 0, (int)(sizeof(refusals) / sizeof(refusals[0])));
    tcase_add_test(group, test_long_names);
    tcase_add_test(group, test_costs_add_up);
    tcase_add_test(group, test_limits);
    return run_tests("grammar refusals", group);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas that are refused, and where. */
#include <check.h>
#include <kt/constraint.h>
#include <string.h>

static const struct {
    const char *schema;
    enum kt_status status;
    const char *words; /* of the message */
} refusals[] = {
    {"{", KT_E_FORMAT, "no JSON"},
    {"1", KT_E_FORMAT, "#: a schema"},
    {"{\"type\": \"text\"}", KT_E_FORMAT, "#/type: this is no type"},
    {"{\"properties\": {\"a\": {\"uniqueItems\": true}}}", KT_E_UNSUPPORTED,
     "#/properties/a/uniqueItems: this keyword"},
    {"{\"not\": {}}", KT_E_UNSUPPORTED, "#/not"},
    {"{\"patternProperties\": []}", KT_E_FORMAT, "#/patternProperties: this must be an object"},
    {"{\"patternProperties\": {\"(\": {}}}", KT_E_UNSUPPORTED, "#/patternProperties/(: the pattern '('"},
    {"{\"patternProperties\": {\"a\": {\"not\": {}}}}", KT_E_UNSUPPORTED, "#/patternProperties/a/not"},
    {"{\"patternProperties\": {\"1\":{},\"2\":{},\"3\":{},\"4\":{},\"5\":{},\"6\":{},\"7\":{},\"8\":{},\"9\":{}}}",
     KT_E_RANGE, "more than 8 expressions"},
    {"{\"patternProperties\": {\"a[^b]{900}[a-f]{90}c\": {}}}", KT_E_RANGE,
     "#/patternProperties: an expression of keys has too"},
    {"{\"patternProperties\": {\"a([ac-z]|[ac-z]|[ac-z]|[ac-z]|[ac-z]|[ac-z]|[ac-z]|[ac-z]){300}[a-f]{90}c\": {}}}",
     KT_E_RANGE, "#/patternProperties: the expressions together take more than 10000000 steps"},
    {"{\"patternProperties\": {\"^([a-z]{70}){70}$\": {}}}", KT_E_RANGE,
     "#/patternProperties: the expressions together need more than 4096 places"},
    {"{\"allOf\": [{\"patternProperties\": {\"a\": {}}, \"additionalProperties\": false}, {\"properties\": {\"b\": {}}}]}",
     KT_E_UNSUPPORTED, "of schemas that hold together"},
    {"{\"properties\": {\"x\\n\": {}}, \"patternProperties\": {\"^x\": {}}}", KT_E_UNSUPPORTED,
     "an end of a line"},
    {"{\"properties\": {\"x\xc3\xa9\": {}}, \"patternProperties\": {\"^x\\\\S\": {}}}", KT_E_UNSUPPORTED,
     "beyond ASCII"},
    {"{\"oneOf\": [{\"type\": \"object\", \"patternProperties\": {\"^x\": {}}, \"additionalProperties\": false, \"required\": "
     "[\"x\"]}, {\"type\": \"object\", \"required\": [\"x\"]}]}",
     KT_E_UNSUPPORTED, "could fit both"},
    {"{\"type\": \"object\", \"patternProperties\": {\"^x\": false}, \"required\": [\"x\"]}", KT_E_INVALID,
     "nothing can fit"},
    {"{\"if\": {}}", KT_E_UNSUPPORTED, "#/if"},
    {"{\"multipleOf\": 0.01}", KT_E_UNSUPPORTED, "whole numbers up to 1000"},
    {"{\"multipleOf\": 1001}", KT_E_UNSUPPORTED, "whole numbers up to 1000"},
    {"{\"multipleOf\": 0}", KT_E_FORMAT, "#/multipleOf"},
    {"{\"minProperties\": 1}", KT_E_UNSUPPORTED, "#/minProperties"},
    {"{\"items\": [{}]}", KT_E_UNSUPPORTED, "#/items: a list"},
    {"{\"anyOf\": [{}, {\"contains\": 1}]}", KT_E_UNSUPPORTED, "#/anyOf/1/contains"},
    {"{\"format\": \"uri\"}", KT_E_UNSUPPORTED, "format 'uri'"},
    {"{\"type\": \"number\", \"minimum\": 1e-20}", KT_E_UNSUPPORTED, "a bound of numbers"},
    {"{\"type\": \"number\", \"minimum\": 1, \"exclusiveMaximum\": 1}", KT_E_INVALID, "nothing can fit"},
    {"{\"type\": \"integer\", \"minimum\": 8, \"maximum\": 13, \"multipleOf\": 7}", KT_E_INVALID,
     "nothing can fit"},
    {"{\"pattern\": \"a(?=b)\"}", KT_E_UNSUPPORTED, "looks ahead"},
    {"{\"pattern\": \"(a)\\\\1\"}", KT_E_UNSUPPORTED, "an escape"},
    {"{\"pattern\": \"\\\\bword\"}", KT_E_UNSUPPORTED, "an escape"},
    {"{\"pattern\": \"a(b$)\"}", KT_E_UNSUPPORTED, "an anchor"},
    {"{\"pattern\": \"(((a{1000}){1000}){1000})\"}", KT_E_RANGE, "too large"},
    {"{\"pattern\": \"a\", \"maxLength\": 4000000000}", KT_E_RANGE, "too large to be counted"},
    {"{\"oneOf\": [{\"type\": \"integer\"}, {\"type\": \"number\"}]}", KT_E_UNSUPPORTED,
     "#/oneOf: a value could fit both alternative 0 and 1"},
    {"{\"oneOf\": [{\"type\": \"object\"}, {\"type\": \"object\", \"required\": [\"a\"]}]}", KT_E_UNSUPPORTED,
     "#/oneOf"},
    {"{\"allOf\": [{\"pattern\": \"a\"}, {\"pattern\": \"b\"}]}", KT_E_UNSUPPORTED, "two different patterns"},
    {"{\"$ref\": \"http://example.org/a\"}", KT_E_UNSUPPORTED, "leads elsewhere"},
    {"{\"$ref\": \"#/$defs/a\"}", KT_E_FORMAT, "leads to nothing"},
    {"{\"$ref\": \"#\"}", KT_E_INVALID, "nothing can fit"},
    {"{\"$ref\": \"#\", \"type\": \"object\"}", KT_E_RANGE, "refers to itself"},
    {"{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"#\"}}, \"required\": [\"a\"]}",
     KT_E_INVALID, "nothing can fit"},
    {"false", KT_E_INVALID, "nothing can fit"},
    {"{\"type\": \"string\", \"enum\": [1]}", KT_E_INVALID, "nothing can fit"},
    {"{\"type\": \"integer\", \"minimum\": 2, \"maximum\": 1}", KT_E_INVALID, "nothing can fit"},
    {"{\"minLength\": 2, \"maxLength\": 1}", KT_E_INVALID, "nothing can fit"},
    {"{\"pattern\": \"^a$\", \"minLength\": 2}", KT_E_INVALID, "nothing can fit"},
    {"{\"minItems\": -1}", KT_E_FORMAT, "#/minItems"},
    {"{\"enum\": []}", KT_E_FORMAT, "#/enum"},
    {"{\"a\": 1, \"a\": 2}", KT_E_FORMAT, "no JSON"},
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

int main(void)
{
    Suite *suite = suite_create("grammar refusals");
    TCase *group = tcase_create("refusals");
    tcase_add_loop_test(group, test_refusals, 0, (int)(sizeof(refusals) / sizeof(refusals[0])));
    suite_add_tcase(suite, group);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed > 0;
}

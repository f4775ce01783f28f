/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/output/schema.h"

#include "tools/engine/base/big.h"
#include "tools/engine/base/fail.h"
#include "tools/engine/base/load.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct kt_schema {
    json_t *tools; /* a list; NULL: unknown */
    unsigned n_users;
};

/* How many schemas of one argument are read, and how deep: they come with requests, and may refer in circles.
 */
#define MAX_SCHEMAS 1000
#define MAX_DEPTH 16

struct search {
    json_t *root; /* to which references are relative */
    int n_left;
};

static const json_t *function_of(const json_t *tool)
{
    const json_t *function = json_object_get(tool, "function");
    return json_is_object(function) ? function : tool;
}

static const json_t *find_tool(const struct kt_schema *schema, const char *name)
{
    size_t i;
    json_t *tool;
    json_array_foreach (schema->tools, i, tool) {
        const json_t *function = function_of(tool);
        const char *its_name = json_string_value(json_object_get(function, "name"));
        if (its_name && strcmp(its_name, name) == 0)
            return function;
    }
    return NULL;
}

enum kt_status kt_schema_create_of(json_t *tools, struct kt_schema **schema, struct kt_error *error)
{
    struct kt_schema *made = calloc(1, sizeof *made);
    if (!made)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a parser of output");
    made->n_users = 1;
    made->tools = json_incref(tools);
    *schema = made;
    return KT_OK;
}

enum kt_status kt_schema_create(const char *text, uint64_t length, struct kt_schema **schema,
                                struct kt_error *error)
{
    json_error_t where;
    json_t *tools = NULL;
    enum kt_status status = KT_OK;
    if (text) {
        tools = kt_json_load(text, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL, &where);
        if (!tools) /* 1e400: of no consequence for types */
            tools = kt_json_read(text, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &where);
        if (!tools)
            return kt_engine_fail(error, KT_E_FORMAT, "tools: %s (line %d, column %d)", where.text,
                                  where.line, where.column);
        if (!json_is_array(tools) && !json_is_null(tools))
            status = kt_engine_fail(error, KT_E_FORMAT, "tools: no list");
    }
    if (status == KT_OK)
        status = kt_schema_create_of(tools, schema, error);
    json_decref(tools);
    return status;
}

struct kt_schema *kt_schema_share(struct kt_schema *schema)
{
    schema->n_users++;
    return schema;
}

void kt_schema_destroy(struct kt_schema *schema)
{
    if (!schema || --schema->n_users > 0)
        return;
    json_decref(schema->tools);
    free(schema);
}

bool kt_schema_lacks(const struct kt_schema *schema, const char *tool)
{
    return json_array_size(schema->tools) > 0 && !find_tool(schema, tool);
}

static uint32_t type_of_name(const char *name)
{
    static const struct {
        const char *name;
        uint32_t type;
    } types[] = {{"string", KT_SCHEMA_STRING},   {"integer", KT_SCHEMA_INTEGER}, {"number", KT_SCHEMA_NUMBER},
                 {"boolean", KT_SCHEMA_BOOLEAN}, {"object", KT_SCHEMA_OBJECT},   {"array", KT_SCHEMA_ARRAY},
                 {"null", KT_SCHEMA_NULL}};
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0)
            return types[i].type;
    return KT_SCHEMA_UNKNOWN;
}

static uint32_t type_of_value(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return KT_SCHEMA_OBJECT;
    case JSON_ARRAY:
        return KT_SCHEMA_ARRAY;
    case JSON_STRING:
        return KT_SCHEMA_STRING;
    case JSON_INTEGER:
        return KT_SCHEMA_INTEGER;
    case JSON_REAL:
        return KT_SCHEMA_NUMBER;
    case JSON_NULL:
        return KT_SCHEMA_NULL;
    default:
        return KT_SCHEMA_BOOLEAN;
    }
}

static uint32_t types_of(struct search *search, json_t *schema, int depth);

/* "type": "string", or ["string", "null"]. */
static uint32_t types_by_name(const json_t *type)
{
    uint32_t types = type_of_name(json_string_value(type));
    size_t i;
    json_t *one;
    json_array_foreach (type, i, one)
        types |= type_of_name(json_string_value(one));
    return types;
}

static uint32_t types_by_values(const json_t *schema)
{
    uint32_t types = 0;
    size_t i;
    json_t *value, *constant = json_object_get(schema, "const");
    json_array_foreach (json_object_get(schema, "enum"), i, value)
        types |= type_of_value(value);
    return constant ? types | type_of_value(constant) : types;
}

/* anyOf and the like: what one of them may be. One of which nothing is known makes all unknown. */
static uint32_t types_by_choice(struct search *search, const json_t *schema, int depth)
{
    static const char *const names[] = {"anyOf", "oneOf"};
    uint32_t types = 0;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        size_t i;
        json_t *one;
        json_array_foreach (json_object_get(schema, names[n]), i, one) {
            uint32_t more = types_of(search, one, depth + 1);
            if (more == KT_SCHEMA_UNKNOWN)
                return KT_SCHEMA_UNKNOWN;
            types |= more;
        }
    }
    return types;
}

/* allOf: the first that says something. */
static uint32_t types_by_parts(struct search *search, const json_t *schema, int depth)
{
    uint32_t types = 0;
    size_t i;
    json_t *one;
    json_array_foreach (json_object_get(schema, "allOf"), i, one) {
        if (types == 0)
            types = types_of(search, one, depth + 1);
    }
    return types;
}

/* "#/$defs/Unit"; escapes of JSON pointers are not read. */
static json_t *follow(const struct search *search, const char *reference)
{
    json_t *at = search->root;
    char name[256];
    if (!reference || reference[0] != '#')
        return NULL;
    for (const char *slash = strchr(reference, '/'); slash && at;) {
        const char *next = strchr(slash + 1, '/');
        size_t length = next ? (size_t)(next - slash - 1) : strlen(slash + 1);
        if (length >= sizeof name)
            return NULL;
        memcpy(name, slash + 1, length);
        name[length] = '\0';
        at = json_object_get(at, name);
        slash = next;
    }
    return at;
}

static uint32_t types_of(struct search *search, json_t *schema, int depth)
{
    if (!json_is_object(schema) || depth > MAX_DEPTH || search->n_left-- <= 0)
        return KT_SCHEMA_UNKNOWN;
    json_t *type = json_object_get(schema, "type");
    uint32_t types = types_by_name(type);
    if (!types)
        types = types_by_choice(search, schema, depth);
    if (!types)
        types = types_by_values(schema);
    if (!types)
        types = types_by_parts(search, schema, depth);
    if (!types)
        types =
            types_of(search, follow(search, json_string_value(json_object_get(schema, "$ref"))), depth + 1);
    if (!types && (json_object_get(schema, "properties") || json_object_get(schema, "additionalProperties")))
        types = KT_SCHEMA_OBJECT;
    if (!types && json_object_get(schema, "items"))
        types = KT_SCHEMA_ARRAY;
    if (types && json_is_true(json_object_get(schema, "nullable")))
        types |= KT_SCHEMA_NULL;
    return types;
}

static json_t *find_arguments(const struct kt_schema *schema, const char *tool)
{
    const json_t *function = find_tool(schema, tool);
    json_t *arguments = json_object_get(function, "parameters");
    return arguments ? arguments : json_object_get(function, "input_schema");
}

bool kt_schema_has(const struct kt_schema *schema, const char *tool, const char *key)
{
    return json_object_get(json_object_get(find_arguments(schema, tool), "properties"), key) != NULL;
}

uint32_t kt_schema_types(const struct kt_schema *schema, const char *tool, const char *key)
{
    struct search search = {.root = find_arguments(schema, tool), .n_left = MAX_SCHEMAS};
    json_t *argument = json_object_get(json_object_get(search.root, "properties"), key);
    if (!argument)
        argument = json_object_get(search.root, "additionalProperties");
    return types_of(&search, argument, 0);
}

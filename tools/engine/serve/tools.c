/* SPDX-License-Identifier: Apache-2.0 */
/* tools.c - definitions of tools, as a template takes them. */
#include "tools/engine/base/big.h"
#include "tools/engine/base/buffer.h"
#include "tools/engine/base/dump.h"
#include "tools/engine/serve/history.h"

#include <stdlib.h>
#include <string.h>

/* ---- properties ---- */

static const char *type_of(const json_t *value)
{
    switch (value ? json_typeof(value) : JSON_STRING) {
    case JSON_OBJECT:
        return kt_json_big(value) ? "number" : "object";
    case JSON_ARRAY:
        return "array";
    case JSON_INTEGER:
        return "integer";
    case JSON_REAL:
        return "number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "boolean";
    case JSON_NULL:
        return "null";
    default:
        return "string";
    }
}

/* What a schema without a type is about, as far as one word says it. */
static json_t *guess_type(const json_t *schema)
{
    static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
    const json_t *values = json_object_get(schema, "enum"), *constant = json_object_get(schema, "const");
    for (size_t i = 0; i < 3; i++) {
        json_t *type = json_object_get(json_array_get(json_object_get(schema, lists[i]), 0), "type");
        if (json_is_string(type))
            return json_incref(type);
    }
    return json_string(constant ? type_of(constant) : type_of(json_array_get(values, 0)));
}

/* Its type, if that is a word; else the first one that is not null. */
static json_t *single_type(json_t *type)
{
    json_t *word;
    size_t i;
    json_array_foreach (type, i, word) {
        if (json_is_string(word) && strcmp(json_string_value(word), "null") != 0)
            return json_incref(word);
    }
    return json_incref(json_array_size(type) > 0 ? json_array_get(type, 0) : type);
}

static bool fit_schema(const struct kt_needs *needs, json_t *schema);

static bool fit_property(const struct kt_needs *needs, json_t *property)
{
    json_t *type = json_object_get(property, "type"), *preset = json_object_get(property, "default");
    bool done = true, has_words = json_object_get(property, "enum") || json_object_get(property, "oneOf");
    if (needs->types && !type)
        done = json_object_set_new(property, "type", guess_type(property)) == 0;
    if (done && needs->single_types && json_is_array(type))
        done = json_object_set_new(property, "type", single_type(type)) == 0;
    if (done && needs->text_defaults && preset && has_words && !json_is_string(preset)) {
        char *text = kt_json_dump(preset, JSON_ENCODE_ANY);
        done = text && json_object_set_new(property, "default", json_string(text)) == 0;
        free(text);
    }
    return done && fit_schema(needs, property);
}

/* Properties, items and alternatives of a schema that is our own. */
static bool fit_schema(const struct kt_needs *needs, json_t *schema)
{
    static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
    json_t *properties = json_object_get(schema, "properties"), *items = json_object_get(schema, "items"),
           *one;
    const char *name;
    void *next;
    bool done = true;
    size_t k;
    json_object_foreach_safe (properties, next, name, one) {
        if (!json_is_object(one) && needs->types) { /* true: anything */
            done = done && json_object_set_new(properties, name, json_object()) == 0;
            one = json_object_get(properties, name);
        }
        done = done && (!json_is_object(one) || fit_property(needs, one));
    }
    if (json_is_object(items))
        done = done && fit_property(needs, items);
    for (size_t i = 0; i < 3; i++)
        json_array_foreach (json_object_get(schema, lists[i]), k, one) {
            done = done && (!json_is_object(one) || fit_property(needs, one));
        }
    return done;
}

/* ---- tools ---- */

/* A copy with what the template asks for. */
static json_t *fit_tool(const struct kt_needs *needs, json_t *tool)
{
    json_t *function = json_object_get(tool, "function"), *about = json_object_get(function, "description");
    json_t *parameters = json_object_get(function, "parameters"), *copy = json_copy(tool);
    bool has_none = !json_is_object(parameters);
    bool done = copy && json_object_set_new(copy, "function", json_copy(function)) == 0;
    function = json_object_get(copy, "function");
    if (done && !json_is_string(about))
        (void)json_object_del(function, "description");
    if (done && has_none)
        (void)json_object_del(function, "parameters");
    if (done && needs->description && !json_is_string(about))
        done = json_object_set_new(function, "description", json_string("")) == 0;
    if (done && has_none && needs->parameters)
        done = json_object_set_new(function, "parameters",
                                   json_pack("{s:s, s:{}}", "type", "object", "properties")) == 0;
    if (done && !has_none && needs->properties &&
        !json_is_object(json_object_get(parameters, "properties"))) {
        json_t *whole = json_copy(parameters);
        done = whole && json_object_set_new(whole, "properties", json_object()) == 0 &&
               (json_object_get(whole, "type") ||
                json_object_set_new(whole, "type", json_string("object")) == 0) &&
               json_object_set(function, "parameters", whole) == 0;
        json_decref(whole);
    }
    parameters = json_object_get(function, "parameters");
    if (done && parameters && (needs->types || needs->single_types || needs->text_defaults)) {
        json_t *own = json_deep_copy(parameters);
        done = own && fit_schema(needs, own) && json_object_set(function, "parameters", own) == 0;
        json_decref(own);
    }
    if (done)
        return copy;
    json_decref(copy);
    return NULL;
}

json_t *kt_history_tools(const struct kt_needs *needs, json_t *tools)
{
    json_t *fitted = json_array(), *tool;
    bool done = fitted != NULL;
    size_t i;
    json_array_foreach (tools, i, tool) {
        done = done && json_array_append_new(fitted, fit_tool(needs, tool)) == 0;
    }
    if (done)
        return fitted;
    json_decref(fitted);
    return NULL;
}

/* ---- tools in words ---- */

static bool add_tool(struct kt_buffer *text, const json_t *tool)
{
    const json_t *function = json_object_get(tool, "function"),
                 *about = json_object_get(function, "description");
    const json_t *parameters = json_object_get(function, "parameters");
    char *words = json_is_object(parameters) ? kt_json_dump(parameters, 0) : strdup("{}");
    bool done = words && kt_buffer_add_text(text, "\n\n### ") &&
                kt_buffer_add_text(text, json_string_value(json_object_get(function, "name"))) &&
                kt_buffer_add_text(text, "\nDescription: ") &&
                kt_buffer_add_text(text, json_is_string(about) ? json_string_value(about) : "") &&
                kt_buffer_add_text(text, "\n\nParameters: ") && kt_buffer_add_text(text, words);
    free(words);
    return done;
}

json_t *kt_history_about_tools(const struct kt_needs *needs, const json_t *tools)
{
    static const char head[] = "## Tools\nYou have access to the following tools:";
    /* DeepSeek's own words; other formats have them in their templates. */
    static const char own[] =
        "\n\nIMPORTANT: ALWAYS adhere to this exact format for tool use:\n"
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>tool_call_name<｜tool▁sep｜>tool_call_arguments<｜tool▁call▁end｜>"
        "{additional_tool_calls}<｜tool▁calls▁end｜>\n\nWhere:\n"
        "- `tool_call_name` must be an exact match to one of the available tools\n"
        "- `tool_call_arguments` must be valid JSON that strictly follows the tool's Parameters Schema\n"
        "- For multiple tool calls, chain them directly without separators or spaces";
    static const char plain[] =
        "\n\nTo call a tool, write a JSON object with its name and its arguments within <tool_call></tool_call>:\n"
        "<tool_call>\n{\"name\": \"the tool's name\", \"arguments\": {\"an argument\": \"its value\"}}\n</tool_call>\n"
        "Results come within <tool_response></tool_response>.";
    struct kt_buffer text = {.data = NULL};
    json_t *tool, *words = NULL;
    size_t i;
    bool done = kt_buffer_add_text(&text, head);
    json_array_foreach (tools, i, tool) {
        done = done && add_tool(&text, tool);
    }
    if (done && kt_buffer_add_text(&text, needs->own_calls ? own : plain))
        words = json_stringn(text.data, text.length);
    kt_buffer_free(&text);
    return words;
}

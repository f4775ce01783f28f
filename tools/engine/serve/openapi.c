/* SPDX-License-Identifier: Apache-2.0 */
/* openapi.c - the document at /openapi.json: the paths as they are routed, the fields as they are read, and
 * what openapi.json has of both: summaries, and fields that are more than a number or a word. */
#include "tools/engine/serve/native.h"

#include <kt/version.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char words[] =
#include "tools/engine/serve/openapi_json.h"
    ;

/* ---- fields ---- */

static const struct kt_field *find_table(char letter)
{
    switch (letter) {
    case 'A':
        return kt_ask_tables[0];
    case 'B':
        return kt_ask_tables[1];
    case 'C':
        return kt_chat_table;
    case 'D':
        return kt_ask_tables[2];
    case 'E':
        return kt_responses_table;
    case 'F':
        return kt_messages_table;
    case 'H':
        return kt_embed_table;
    default:
        return kt_text_table;
    }
}

static json_t *make_bound(const struct kt_field *field, double bound)
{
    return field->type == KT_FIELD_REAL ? json_real(bound)
                                        : json_integer(bound < 0x1p63 ? (json_int_t)bound : INT64_MAX);
}

static json_t *describe_field(const struct kt_field *field)
{
    static const char *const types[] =
        {[KT_FIELD_BOOL] = "boolean", [KT_FIELD_INT] = "integer", [KT_FIELD_REAL] = "number",
         [KT_FIELD_TEXT] = "string",  [KT_FIELD_LIST] = "array",  [KT_FIELD_OBJECT] = "object"};
    if (field->type == KT_FIELD_OBJECT || field->type == KT_FIELD_TEXT) /* no zero bytes */
        return json_pack("{s:[{s:s}, {s:s}]}", "anyOf", "type", "null", "$ref",
                         field->type == KT_FIELD_TEXT ? "#/components/schemas/Line"
                                                      : "#/components/schemas/Object");
    json_t *schema = json_pack("{s:[s, s]}", "type", types[field->type], "null");
    if (field->type == KT_FIELD_LIST) /* of what, openapi.json says where it matters */
        (void)json_object_set_new(schema, "items", json_pack("{s:s}", "$ref", "#/components/schemas/Scalar"));
    if ((field->type == KT_FIELD_REAL || field->type == KT_FIELD_INT) && isfinite(field->maximum)) {
        (void)json_object_set_new(schema, "minimum", make_bound(field, field->minimum));
        (void)json_object_set_new(schema, "maximum", make_bound(field, field->maximum));
    }
    return schema;
}

/* Fields that need another one, or what the server does not do: null alone holds for each of them. */
static bool is_narrow(const char *name)
{
    static const char *const names[] = {"stream_options",
                                        "top_logprobs",
                                        "suffix",
                                        "best_of",
                                        "n",
                                        "continue_final_message",
                                        "metadata",
                                        "dimensions",
                                        "dry_sequence_breakers"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* What holds for one of the models, or for all: the document says too little rather than too much. */
struct facts {
    bool has_chat, infills;
    uint64_t vocabulary, hidden_size;
};
static struct facts find_facts(const struct kt_models *models)
{
    struct facts facts = {.vocabulary = UINT64_MAX, .hidden_size = UINT64_MAX};
    for (const struct kt_served *model = models->list; model < models->list + models->n; model++) {
        facts.has_chat |= model->chat != NULL;
        facts.infills |= kt_native_infills(model);
        if (model->n_vocabulary < facts.vocabulary)
            facts.vocabulary = model->n_vocabulary;
        if (model->info.hidden_size < facts.hidden_size)
            facts.hidden_size = model->info.hidden_size;
    }
    return facts;
}

/* The fields that a path reads, in the order of `words`: its tables by letter, then those that it names. */
static json_t *make_properties(const struct kt_server *server, const json_t *path)
{
    const char *tables = json_string_value(json_object_get(path, "tables")), *name;
    json_t *properties = json_object(), *value, *names = json_array();
    for (size_t i = 0; tables && tables[i]; i++)
        for (const struct kt_field *field = find_table(tables[i]); field && field->name; field++)
            if (!is_narrow(field->name))
                (void)json_object_set_new(properties, field->name, describe_field(field));
    for (size_t i = 0; i < server->models.n; i++) {
        const struct kt_served *model = &server->models.list[i];
        for (size_t j = 0; j < model->n_names; j++)
            (void)json_array_append_new(names, kt_json_text(model->names[j], strlen(model->names[j])));
    }
    if (json_object_get(path, "is_ollama") == NULL)
        (void)json_array_append_new(names, json_null());
    (void)json_object_set_new(properties, "model", json_pack("{s:o}", "enum", names));
    json_object_foreach (json_object_get(path, "properties"), name, value) {
        json_t *schema = json_is_string(value)
                             ? json_pack("{s:o}", "$ref",
                                         json_sprintf("#/components/schemas/%s", json_string_value(value)))
                             : json_incref(value);
        (void)json_object_set_new(properties, name, schema);
    }
    return properties;
}

static json_t *make_request(const struct kt_server *server, const json_t *path)
{
    /* Keys with a zero byte are refused, wherever they are. */
    json_t *schema = json_pack("{s:s, s:o, s:{s:s}, s:{s:s}}", "type", "object", "properties",
                               make_properties(server, path), "propertyNames", "pattern", "^[^\\u0000]*$",
                               "additionalProperties", "$ref", "#/components/schemas/Other");
    json_t *required = json_object_get(path, "required");
    required = required ? json_copy(required) : json_array();
    if (json_object_get(path, "is_ollama"))
        (void)json_array_append_new(required, json_string("model"));
    (void)json_object_set_new(schema, "required", required);
    (void)json_object_update(schema, json_object_get(path, "schema"));
    if (!find_facts(&server->models).has_chat)
        (void)json_object_update(schema, json_object_get(path, "without_chat"));
    return json_pack("{s:b, s:{s:{s:o}}}", "required", 1, "content", "application/json", "schema", schema);
}

/* ---- replies ---- */

static void add_status(json_t *responses, const char *status, const char *about, json_t *content)
{
    (void)json_object_set_new(responses, status,
                              json_pack("{s:s, s:o*}", "description", about, "content", content));
}

static json_t *make_responses(const struct kt_route *route, const json_t *words_of, bool has_keys)
{
    static const struct {
        const char *status, *about;
        bool of_posts, of_models;
    } errors[] = {{"400", "The request says something wrong", false, false},
                  {"403", "Another host or origin than this server's", false, false},
                  {"404", "There is no such path, model or tool", false, false},
                  {"405", "The path takes another method", false, false},
                  {"413", "The body is too long", true, false},
                  {"429", "The queue is full", true, true},
                  {"500", "There is no memory, or the model failed", false, false},
                  {"503", "The model is being loaded, the server ends or is full", false, false}};
    json_t *responses = json_object(), *content = json_object(), *keys = json_object_get(words_of, "reply");
    bool is_ollama = json_object_get(words_of, "is_ollama") != NULL,
         is_post = strcmp(route->method, "POST") == 0;
    const char *type = strcmp(route->path, "/") == 0           ? "text/html"
                       : strcmp(route->path, "/page.css") == 0 ? "text/css"
                       : strcmp(route->path, "/page.js") == 0  ? "text/javascript"
                       : strcmp(route->path, "/metrics") == 0  ? "text/plain"
                                                               : "application/json";
    json_t *schema = keys ? json_pack("{s:s, s:O}", "type", "object", "required", keys) : json_object();
    (void)json_object_set_new(content, type, json_pack("{s:o}", "schema", schema));
    if (json_object_get(words_of, "streams"))
        (void)json_object_set_new(content, is_ollama ? "application/x-ndjson" : "text/event-stream",
                                  json_object());
    add_status(responses, "200", "The answer", content);
    if (has_keys && !route->is_open)
        add_status(responses, "401", "The API key is missing or wrong", NULL);
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if ((errors[i].of_posts && !is_post) || (errors[i].of_models && !route->needs_model))
            continue;
        json_t *error =
            json_pack("{s:{s:{s:s}}}", "application/json", "schema", "$ref",
                      is_ollama ? "#/components/schemas/OllamaError" : "#/components/schemas/Error");
        add_status(responses, errors[i].status, errors[i].about,
                   strstr(route->path, "/health") && strcmp(errors[i].status, "503") == 0
                       ? (json_decref(error), json_pack("{s:{}}", "application/json"))
                       : error);
    }
    return responses;
}

/* ---- paths ---- */

/* What `words` has of a path: under its own name, under that behind /v1, or of the one that it is like. */
static json_t *find_words(const json_t *paths, const char *path)
{
    char longer[64];
    (void)snprintf(longer, sizeof(longer), "/v1%s", path);
    json_t *found = json_object_get(paths, path);
    found = found ? found : json_object_get(paths, longer);
    const char *like = json_string_value(json_object_get(found, "like"));
    json_t *whole = like ? json_copy(json_object_get(paths, like)) : json_copy(found);
    if (like) {
        json_t *properties = json_copy(json_object_get(whole, "properties"));
        (void)json_object_update(properties, json_object_get(found, "properties"));
        (void)json_object_del(whole, "streams");
        (void)json_object_update(whole, found);
        (void)json_object_set_new(whole, "properties", properties);
    }
    return whole ? whole : json_object();
}

/* Does a model have the template, or the tokens, without which the path refuses all? */
static bool is_served(const struct kt_server *server, const json_t *words_of)
{
    const char *needs = json_string_value(json_object_get(words_of, "needs"));
    const struct facts facts = find_facts(&server->models);
    return !needs || (strcmp(needs, "chat") == 0 ? facts.has_chat : facts.infills);
}

static void add_route(const struct kt_server *server, const struct kt_route *route, json_t *words_of,
                      json_t *paths)
{
    char name[80];
    size_t length = strlen(route->path);
    bool is_prefix = route->path[length - 1] == '*', has_keys = server->keys.n > 0;
    json_t *about = json_object_get(words_of, "summary");
    json_t *operation =
        json_pack("{s:O*, s:o}", "summary", about, "responses", make_responses(route, words_of, has_keys));
    (void)snprintf(name, sizeof(name), "%.*s%s", (int)(is_prefix ? length - 1 : length), route->path,
                   is_prefix ? "{name}" : "");
    if (is_prefix)
        (void)json_object_set_new(operation, "parameters",
                                  json_pack("[{s:s, s:s, s:b, s:{s:s}}]", "name", "name", "in", "path",
                                            "required", 1, "schema", "type", "string"));
    if (strcmp(route->method, "POST") == 0)
        (void)json_object_set_new(operation, "requestBody", make_request(server, words_of));
    if (has_keys && !route->is_open)
        (void)json_object_set_new(operation, "security", json_pack("[{s:[]}]", "key"));
    json_t *item = json_object_get(paths, name);
    if (!item)
        (void)json_object_set_new(paths, name, item = json_object());
    (void)json_object_set_new(item, strcmp(route->method, "POST") == 0 ? "post" : "get", operation);
}

bool kt_answer_openapi(struct kt_exchange *exchange)
{
    const struct kt_server *server = exchange->server;
    const struct facts facts = find_facts(&server->models);
    json_t *all = json_loads(words, 0, NULL), *paths = json_object();
    const struct {
        const char *name;
        uint64_t most;
    } sizes[] = {{"Id", facts.vocabulary - 1},
                 {"Dimensions", facts.hidden_size},
                 {"OllamaDimensions", facts.hidden_size}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        (void)json_object_set_new(json_object_get(json_object_get(all, "schemas"), sizes[i].name), "maximum",
                                  json_integer((json_int_t)sizes[i].most));
    for (const struct kt_route *route = kt_routes; all && route->path; route++) {
        json_t *words_of = find_words(json_object_get(all, "paths"), route->path);
        if (is_served(server, words_of))
            add_route(server, route, words_of, paths);
        json_decref(words_of);
    }
    json_t *document = json_pack("{s:s, s:{s:s, s:s}, s:o, s:{s:O, s:{s:{s:s, s:s}}}}", "openapi", "3.1.0",
                                 "info", "title", "kt run", "version", KT_VERSION, "paths", paths,
                                 "components", "schemas", json_object_get(all, "schemas"), "securitySchemes",
                                 "key", "type", "http", "scheme", "bearer");
    json_decref(all);
    return kt_reply_json(exchange, 200, document);
}

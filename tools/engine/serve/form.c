/* SPDX-License-Identifier: Apache-2.0 */
/* form.c - what form an answer must have: response_format, tool_choice, strict tools, --json-schema. */
#include "tools/engine/serve/ask.h"
#include "tools/engine/base/dump.h"

#include <stdlib.h>
#include <string.h>

/* What may stand before: reasoning, as the model's template and the prompt have it. */
static struct kt_grammar_params lead_params(const struct kt_server *server, const struct kt_ask *ask)
{
    struct kt_grammar_params params = KT_GRAMMAR_PARAMS_INIT;
    params.format = ask->parser.format;
    params.reasoning = kt_form_reasoning(&server->chat_info, ask->thought);
    return params;
}

static bool refuse(struct kt_problem *problem, const char *param, const struct kt_error *error)
{
    if (error->status == KT_E_NOMEM)
        return kt_problem_memory(problem);
    return kt_problem_field(problem, param, "'%s': %s", param, error->message);
}

/* Sets *schema to the text of a schema, allocated. False after a problem. */
static bool read_schema(const json_t *format, char **schema, struct kt_problem *problem)
{
    static const char param[] = "response_format";
    const char *type = json_string_value(json_object_get(format, "type"));
    json_t *given = json_object_get(json_object_get(format, "json_schema"), "schema");
    *schema = NULL;
    if (type && strcmp(type, "json_object") == 0) {
        *schema = strdup("{\"type\": \"object\"}");
        return *schema || kt_problem_memory(problem);
    }
    if (!type || strcmp(type, "json_schema") != 0)
        return kt_problem_field(problem, param, "'%s.type' must be text, json_object or json_schema", param);
    if (!json_is_object(given))
        return kt_problem_field(problem, param, "'%s.json_schema.schema' must be an object, not %s", param,
                                given ? kt_fields_type(given) : "missing");
    *schema = kt_json_dump(given, JSON_COMPACT);
    return *schema || kt_problem_memory(problem);
}

static bool make_json(const struct kt_server *server, struct kt_ask *ask, const char *schema,
                      const char *param, struct kt_problem *problem)
{
    struct kt_grammar_params params = lead_params(server, ask);
    struct kt_error error;
    return kt_grammar_json(schema, strlen(schema), &params, &ask->grammar, &error) == KT_OK ||
           refuse(problem, param, &error);
}

/* ---- calls ---- */

static bool has_strict(const json_t *tools)
{
    const json_t *tool;
    size_t i;
    json_array_foreach (tools, i, tool) {
        if (json_is_true(json_object_get(json_object_get(tool, "function"), "strict")))
            return true;
    }
    return false;
}

/* `schema`: what an answer without calls must fit; NULL: any text. */
static bool make_calls(const struct kt_server *server, struct kt_ask *ask, const struct kt_wished_form *form,
                       const char *schema, struct kt_problem *problem)
{
    const char *word = json_string_value(form->choice);
    const struct kt_grammar_params lead = lead_params(server, ask);
    struct kt_calls_params params = KT_CALLS_PARAMS_INIT;
    struct kt_error error;
    params.name = json_string_value(json_object_get(json_object_get(form->choice, "function"), "name"));
    params.is_required = params.name || (word && strcmp(word, "required") == 0);
    if (!params.is_required && !schema && (!has_strict(form->tools) || lead.format == KT_OUTPUT_PLAIN))
        return true;
    if (form->is_begun && params.is_required)
        return kt_problem_field(problem, "tool_choice",
                                "an answer that has begun already cannot be a call only");
    params.format = lead.format;
    params.reasoning = lead.reasoning;
    params.tools = ask->tools;
    params.tools_length = strlen(ask->tools);
    params.is_serial = ask->serial_calls;
    params.form = schema;
    params.form_length = schema ? strlen(schema) : 0;
    enum kt_status status = kt_grammar_calls(&params, &ask->grammar, &error);
    return status == KT_OK || refuse(problem, status == KT_E_NOT_FOUND ? "tool_choice" : "tools", &error);
}

/* JSON; or calls, if there are tools that the model can call. */
static bool make_form(const struct kt_server *server, struct kt_ask *ask, const struct kt_wished_form *form,
                      const char *schema, struct kt_problem *problem)
{
    if (!make_json(server, ask, schema, form->format ? "response_format" : "--json-schema", problem))
        return false;
    if (!form->tools || ask->parser.format == KT_OUTPUT_PLAIN)
        return true;
    kt_grammar_destroy(ask->grammar); /* it has found what is wrong with the schema alone */
    ask->grammar = NULL;
    return make_calls(server, ask, form, schema, problem);
}

bool kt_ask_read_form(const struct kt_server *server, struct kt_ask *ask, const struct kt_wished_form *form,
                      struct kt_problem *problem)
{
    const char *type = json_string_value(json_object_get(form->format, "type"));
    char *schema = NULL;
    if (form->format ? type && strcmp(type, "text") == 0 : !server->schema)
        return !form->tools || make_calls(server, ask, form, NULL, problem);
    if (form->is_begun)
        return kt_problem_field(problem, "response_format",
                                "'response_format' and an answer that has begun already exclude each other");
    if (form->format && !read_schema(form->format, &schema, problem))
        return false;
    bool done = make_form(server, ask, form, schema ? schema : server->schema, problem);
    free(schema);
    return done;
}

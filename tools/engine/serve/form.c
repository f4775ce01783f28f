/* SPDX-License-Identifier: Apache-2.0 */
/* form.c - what form an answer must have: what a request wishes (wish.c), tool_choice, strict tools,
 * --json-schema. */
#include "tools/engine/grammar/calls.h"
#include "tools/engine/serve/ask.h"
#include "tools/engine/serve/dialect.h"
#include "tools/engine/serve/wish.h"

#include <stdlib.h>
#include <string.h>

/* What may stand before: reasoning, as the model's template and the prompt have it. */
static struct kt_grammar_params lead_params(const struct kt_served *model, const struct kt_ask *ask)
{
    struct kt_grammar_params params = KT_GRAMMAR_PARAMS_INIT;
    params.format = ask->parser.format;
    params.reasoning =
        ask->is_chat ? kt_form_reasoning(&model->chat_info, ask->thought) : (uint32_t)KT_REASONING_NONE;
    return params;
}

static bool refuse(struct kt_problem *problem, const char *param, const struct kt_error *error)
{
    if (error->status == KT_E_NOMEM)
        return kt_problem_memory(problem);
    return kt_problem_field(problem, param, "'%s': %s", param, error->message);
}

static bool make_json(const struct kt_served *model, struct kt_ask *ask, const char *schema,
                      const char *param, struct kt_problem *problem)
{
    struct kt_grammar_params params = lead_params(model, ask);
    struct kt_error error;
    return kt_grammar_json(schema, strlen(schema), &params, &ask->grammar, &error) == KT_OK ||
           refuse(problem, param, &error);
}

static bool make_text(const struct kt_served *model, struct kt_ask *ask, const struct kt_wish *wish,
                      struct kt_problem *problem)
{
    struct kt_grammar_params params = lead_params(model, ask);
    struct kt_error error;
    return kt_grammar_text(wish->kind - KT_WISH_TEXT, wish->text, strlen(wish->text), &params, &ask->grammar,
                           &error) == KT_OK ||
           refuse(problem, wish->param, &error);
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
static bool make_calls(const struct kt_served *model, struct kt_ask *ask, const struct kt_wished_form *form,
                       const char *schema, struct kt_problem *problem)
{
    const char *word = json_string_value(form->choice);
    const struct kt_grammar_params lead = lead_params(model, ask);
    struct kt_calls_params params = KT_CALLS_PARAMS_INIT;
    struct kt_error error;
    params.name = json_string_value(json_object_get(json_object_get(form->choice, "function"), "name"));
    params.is_required = params.name || (word && strcmp(word, "required") == 0);
    if (!params.is_required && !schema &&
        ((!has_strict(form->tools) && !json_object_get(ask->body, KT_LIMITED)) ||
         lead.format == KT_OUTPUT_PLAIN))
        return true;
    if (form->is_begun && params.is_required)
        return kt_problem_field(problem, "tool_choice",
                                "an answer that has begun already cannot be a call only");
    ask->must_call = params.is_required;
    params.format = lead.format;
    params.reasoning = lead.reasoning;
    params.is_serial = ask->serial_calls;
    params.form = schema;
    params.form_length = schema ? strlen(schema) : 0;
    enum kt_status status = kt_grammar_calls_of(&params, ask->tools, &ask->grammar, &error);
    return status == KT_OK || refuse(problem, status == KT_E_NOT_FOUND ? "tool_choice" : "tools", &error);
}

/* JSON; or calls, if there are tools that the model can call. */
static bool make_form(const struct kt_served *model, struct kt_ask *ask, const struct kt_wished_form *form,
                      const char *schema, const char *param, struct kt_problem *problem)
{
    if (!make_json(model, ask, schema, param, problem))
        return false;
    if (!form->tools || ask->parser.format == KT_OUTPUT_PLAIN)
        return true;
    kt_grammar_destroy(ask->grammar); /* it has found what is wrong with the schema alone */
    ask->grammar = NULL;
    return make_calls(model, ask, form, schema, problem);
}

static bool make_wish(const struct kt_served *model, struct kt_ask *ask, const struct kt_wished_form *form,
                      const struct kt_wish *wish, struct kt_problem *problem)
{
    if (form->is_begun)
        return kt_problem_field(problem, wish->param,
                                "'%s' and an answer that has begun already exclude each other", wish->param);
    if (wish->kind == KT_WISH_SCHEMA)
        return make_form(model, ask, form, wish->text, wish->param, problem);
    if (form->tools && ask->parser.format != KT_OUTPUT_PLAIN)
        return kt_problem_field(problem, wish->param,
                                "'%s' and tools that may be called exclude each other; set 'tool_choice' to "
                                "none, or ask for a JSON Schema",
                                wish->param);
    return make_text(model, ask, wish, problem);
}

bool kt_ask_read_form(const struct kt_served *model, struct kt_ask *ask, const struct kt_wished_form *form,
                      struct kt_problem *problem)
{
    const char *type =
        json_string_value(json_object_get(json_object_get(ask->body, "response_format"), "type"));
    bool is_text = type && strcmp(type, "text") == 0, done;
    struct kt_wish wish;
    if (!kt_wish_read(ask->body, &wish, problem))
        return false;
    if (wish.kind != KT_WISH_NONE)
        done = make_wish(model, ask, form, &wish, problem);
    else if (!ask->is_chat || is_text || !model->server->schema)
        done = !form->tools || make_calls(model, ask, form, NULL, problem);
    else if (form->is_begun)
        done = kt_problem_field(problem, "continue_final_message",
                                "--json-schema and an answer that has begun already exclude each other");
    else
        done = make_form(model, ask, form, model->server->schema, "--json-schema", problem);
    kt_wish_free(&wish);
    return done;
}

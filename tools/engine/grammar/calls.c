/* SPDX-License-Identifier: Apache-2.0 */
/* calls.c - answers that call tools: the tags of each format, and arguments as JSON. */
#include "tools/engine/base/fail.h"
#include "tools/engine/base/big.h"
#include "tools/engine/base/dump.h"
#include "tools/engine/grammar/calls.h"
#include "tools/engine/text/output/parser.h"

#include <stdlib.h>
#include <string.h>

uint32_t kt_op_tag(struct kt_program *p, const char *text, uint32_t next)
{
    return kt_op_text(p, text, strlen(text), KT_OP_TAG, next);
}

uint32_t kt_op_line(struct kt_program *p, uint32_t next)
{
    return kt_op_split(p, next, kt_op_byte(p, '\n', 0, next));
}

/* ---- one call ---- */

static uint32_t arguments(struct kt_calls *c, struct kt_tool *tool, uint32_t next)
{
    if (tool->arguments == 0) {
        c->reader->n_rules = 0;
        tool->arguments = kt_form_compile(c->reader, tool->parameters, kt_op_return(c->program));
    }
    return tool->arguments ? kt_op_call(c->program, tool->arguments, next) : 0;
}

/* {"name": "N", "arguments": {..}} */
static uint32_t object(struct kt_calls *c, struct kt_tool *tool, const char *key, uint32_t next)
{
    struct kt_program *p = c->program;
    json_t *name = json_string(tool->name);
    char *text = name ? kt_json_dump(name, JSON_ENCODE_ANY) : NULL;
    json_decref(name);
    if (!text) {
        kt_form_no_memory(c->reader);
        return 0;
    }
    uint32_t op = arguments(c, tool, kt_op_blank(p, kt_op_byte(p, '}', 0, next)));
    op = kt_op_tag(p, key, kt_op_byte(p, ':', 0, kt_op_blank(p, op)));
    op = kt_op_tag(p, text, kt_op_byte(p, ',', 0, kt_op_blank(p, op)));
    op = kt_op_tag(p, "\"name\":", kt_op_blank(p, op));
    free(text);
    return kt_op_byte(p, '{', 0, kt_op_blank(p, op));
}

/* What follows the tag that opens a call. */
static uint32_t one_call(struct kt_calls *c, struct kt_tool *tool, uint32_t next)
{
    struct kt_program *p = c->program;
    uint32_t op, other;
    switch (c->format) {
    case KT_OUTPUT_HERMES:
    case KT_OUTPUT_LONGCAT:
        next = kt_op_blank(p, kt_op_tag(p, kt_parser_families[c->format].close[0], next));
        return kt_op_blank(p, object(c, tool, "\"arguments\"", next));
    case KT_OUTPUT_DEEPSEEK: /* V3.1, and V3 */
        next = kt_op_tag(p, "<｜tool▁call▁end｜>", next);
        op = kt_op_tag(p, tool->name, kt_op_tag(p, "<｜tool▁sep｜>", arguments(c, tool, next)));
        other = kt_op_tag(p, "\n```json\n", arguments(c, tool, kt_op_tag(p, "\n```", next)));
        return kt_op_split(p, op, kt_op_tag(p, "function<｜tool▁sep｜>", kt_op_tag(p, tool->name, other)));
    case KT_OUTPUT_KIMI:
        op = arguments(c, tool, kt_op_tag(p, "<|tool_call_end|>", next));
        op = kt_op_tag(p, "<|tool_call_argument_begin|>", op);
        op = kt_op_class(p, "09", kt_op_split(p, op, kt_op_class(p, "09", op)));
        return kt_op_tag(p, "functions.", kt_op_tag(p, tool->name, kt_op_byte(p, ':', 0, op)));
    case KT_OUTPUT_MISTRAL:
        op = kt_op_tag(p, "[ARGS]", arguments(c, tool, next));
        other = op;
        for (int i = 0; i < 9; i++)
            other = kt_op_class(p, "09AZaz", other);
        return kt_op_tag(p, tool->name, kt_op_split(p, op, kt_op_tag(p, "[CALL_ID]", other)));
    case KT_OUTPUT_HARMONY:
        op = arguments(c, tool, next);
        other = kt_op_tag(p, "<|message|>", op);
        op = kt_op_split(p, kt_op_tag(p, "<|constrain|>json", other), kt_op_tag(p, "json", other));
        op = kt_op_split(p, kt_op_byte(p, ' ', 0, op), other);
        return kt_op_tag(p, tool->name, kt_op_split(p, op, kt_op_tag(p, "<|channel|>commentary", op)));
    case KT_OUTPUT_JSON:
        return object(c, tool, "\"parameters\"", next);
    default:
        return kt_calls_markup(c, tool, next);
    }
}

/* A call of any tool. */
static uint32_t any_call(struct kt_calls *c, uint32_t next)
{
    uint32_t op = 0;
    for (size_t i = 0; i < c->n && c->reader->status == KT_OK; i++)
        op = kt_op_split(c->program, one_call(c, &c->tools[i], next), op);
    return op;
}

/* ---- all calls ---- */

/* The tags around calls: before all of them, before each, behind all of them. */
struct frame {
    const char *section, *call, *end;
};

static struct frame frame_of(uint32_t format)
{
    const struct kt_markup *markup = kt_parser_families[format].markup;
    switch (format) {
    case KT_OUTPUT_HERMES:
    case KT_OUTPUT_GLM:
        return (struct frame){"", "<tool_call>", ""};
    case KT_OUTPUT_LONGCAT:
    case KT_OUTPUT_LONGCAT_MARKUP:
        return (struct frame){"", "<longcat_tool_call>", ""};
    case KT_OUTPUT_FUNCTION: /* each has a section of its own */
        return (struct frame){"", "<tool_call>", ""};
    case KT_OUTPUT_DEEPSEEK:
        return (struct frame){"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁calls▁end｜>"};
    case KT_OUTPUT_KIMI:
        return (struct frame){"<|tool_calls_section_begin|>", "<|tool_call_begin|>",
                              "<|tool_calls_section_end|>"};
    case KT_OUTPUT_MISTRAL:
        return (struct frame){"", "[TOOL_CALLS]", ""};
    case KT_OUTPUT_MINIMAX:
    case KT_OUTPUT_DSML:
        return (struct frame){markup->section, markup->call, markup->section_end};
    default:
        return (struct frame){"", "", ""};
    }
}

/* Behind the first opening tag, which *open is set to. */
static uint32_t all_calls(struct kt_calls *c, const char **open, uint32_t next)
{
    struct kt_program *p = c->program;
    const struct frame frame = frame_of(c->format);
    bool has_section = *frame.section, has_more = !c->is_serial && *frame.call;
    uint32_t after = kt_op_reserve(p), first = any_call(c, after);
    uint32_t end = has_section ? kt_op_line(p, kt_op_tag(p, frame.end, next)) : next;
    uint32_t call = kt_op_tag(p, frame.call, first);
    kt_op_place(p, after, has_more ? kt_op_split(p, end, kt_op_line(p, call)) : end);
    *open = has_section ? frame.section : frame.call;
    return has_section ? kt_op_line(p, call) : first;
}

/* ---- answers ---- */

/* Without an opening tag a call is the whole answer, or there is none: it does not begin with a bracket. */
static uint32_t bare(struct kt_calls *c, bool is_required, uint32_t end)
{
    struct kt_program *p = c->program;
    uint32_t call = any_call(c, end);
    struct kt_until tags[KT_UNTIL_MOST];
    struct kt_range first[256];
    uint32_t targets[256] = {0};
    size_t n = 0;
    if (is_required)
        return call;
    (void)kt_op_until_any(p, tags, kt_grammar_opens(KT_OUTPUT_JSON, NULL, 0, tags), KT_OP_TAG, end, targets);
    for (unsigned byte = '!'; byte < 256; byte++)
        if (byte != '{' && targets[byte])
            first[n++] = (struct kt_range){(uint8_t)byte, (uint8_t)byte, targets[byte]};
    return kt_op_split(p, call, kt_op_split(p, end, kt_op_switch(p, first, n, 0)));
}

static uint32_t answer(struct kt_calls *c, const struct kt_calls_params *params)
{
    struct kt_grammar_params lead = {sizeof(lead), params->format, params->reasoning};
    struct kt_program *p = c->program;
    struct kt_until tags[KT_UNTIL_MOST];
    const char *open = "";
    uint32_t end = kt_op_return(p);
    if (c->format == KT_OUTPUT_JSON)
        return kt_grammar_lead(p, &lead, bare(c, params->is_required, end), NULL, 0);
    uint32_t after = all_calls(c, &open, end);
    if (c->format == KT_OUTPUT_HARMONY)
        return params->is_required
                   ? kt_grammar_channels(p, params->reasoning,
                                         kt_op_tag(p, "<|channel|>commentary to=functions.", after))
                   : kt_op_until(p, "to=functions.", KT_OP_TAG, after, end);
    if (params->is_required)
        return kt_grammar_lead(p, &lead, kt_op_tag(p, open, after), open, after);
    size_t n = kt_grammar_opens(c->format, open, after, tags);
    return kt_op_until_any(p, tags, n, KT_OP_TAG, end, NULL);
}

/* Calls, or else JSON that fits `form`. */
static uint32_t answer_or_form(struct kt_calls *c, const struct kt_calls_params *params, json_t *form)
{
    struct kt_grammar_params lead = {sizeof(lead), params->format, params->reasoning};
    struct kt_program *p = c->program;
    const char *open = "";
    uint32_t end = kt_op_return(p), calls;
    if (c->format == KT_OUTPUT_JSON)
        calls = any_call(c, end);
    else
        calls = all_calls(c, &open, end);
    uint32_t body = kt_form_compile(c->reader, form, end);
    if (c->format == KT_OUTPUT_HARMONY)
        return kt_grammar_channels(p, params->reasoning,
                                   kt_op_split(p, kt_op_tag(p, "<|channel|>commentary to=functions.", calls),
                                               kt_grammar_final(p, body)));
    return kt_grammar_lead(p, &lead, kt_op_split(p, kt_op_tag(p, open, calls), body), *open ? open : NULL,
                           calls);
}

/* ---- tools ---- */

/* A tool's schema: of objects, and any where it has none. */
static json_t *schema_of(json_t *function, bool is_any)
{
    json_t *given = json_object_get(function, "parameters"), *made;
    const char *type = json_string_value(json_object_get(given, "type"));
    if (is_any || !json_is_object(given))
        return json_pack("{s:s}", "type", "object");
    if (type && strcmp(type, "object") == 0)
        return json_incref(given);
    made = json_copy(given);
    if (made && !json_object_get(made, "type"))
        (void)json_object_set_new(made, "type", json_string("object"));
    return made;
}

static bool collect(struct kt_calls *c, const struct kt_calls_params *params, const json_t *list,
                    struct kt_error *error)
{
    json_t *tool;
    size_t i;
    c->tools = calloc(json_array_size(list) + 1, sizeof(*c->tools));
    if (!c->tools)
        return kt_form_no_memory(c->reader);
    json_array_foreach (list, i, tool) {
        json_t *function = json_object_get(tool, "function");
        const char *name = json_string_value(json_object_get(function, "name"));
        bool is_strict = params->is_required || json_is_true(json_object_get(function, "strict"));
        if (!name || !kt_parser_is_name(name, strlen(name))) {
            c->reader->status =
                kt_engine_fail(error, KT_E_FORMAT, "tool %zu has no name, or none that can be called", i);
            return false;
        }
        if (params->name && strcmp(params->name, name) != 0)
            continue;
        c->tools[c->n++] = (struct kt_tool){.name = name, .parameters = schema_of(function, !is_strict)};
        if (!c->tools[c->n - 1].parameters)
            return kt_form_no_memory(c->reader);
    }
    if (c->n == 0)
        c->reader->status =
            kt_engine_fail(error, KT_E_NOT_FOUND, "no such tool: %s%s%s", params->name ? "'" : "",
                           params->name ? params->name : "that could be called", params->name ? "'" : "");
    return c->n > 0;
}

static enum kt_status check(const struct kt_calls_params *params, struct kt_grammar **grammar,
                            struct kt_error *error)
{
    if (!params || !grammar || params->struct_size < sizeof(*params))
        return kt_engine_fail(
            error, KT_E_INVALID,
            "kt_grammar_calls: params, tools or grammar is NULL, or struct_size is too small");
    if (params->format == KT_OUTPUT_PLAIN || params->format >= kt_parser_n_families ||
        params->reasoning > KT_REASONING_IN)
        return kt_engine_fail(error, KT_E_UNSUPPORTED, "the model's chat template has no calls of tools");
    return KT_OK;
}

/* The list of tools; NULL: it cannot be read. */
static json_t *read_tools(struct kt_form_reader *reader, const struct kt_calls_params *params, json_t *tools,
                          json_error_t *where)
{
    if (!tools)
        return kt_form_load(reader, params->tools, params->tools_length, 0, where);
    if (kt_json_is_plain(tools))
        return json_incref(tools);
    char *text = kt_json_dump(tools, JSON_COMPACT); /* for its numbers beyond 64 bits */
    json_t *list = text ? kt_form_load(reader, text, strlen(text), 0, where) : NULL;
    if (!text)
        (void)kt_form_no_memory(reader);
    free(text);
    return list;
}

enum kt_status kt_grammar_calls(const struct kt_calls_params *params, struct kt_grammar **grammar,
                                struct kt_error *error)
{
    bool has_tools = params && params->struct_size >= sizeof(*params) && params->tools;
    return kt_grammar_calls_of(has_tools ? params : NULL, NULL, grammar, error);
}

enum kt_status kt_grammar_calls_of(const struct kt_calls_params *params, json_t *tools,
                                   struct kt_grammar **grammar, struct kt_error *error)
{
    struct kt_grammar *made = NULL;
    json_error_t where = {.text = ""};
    enum kt_status status = check(params, grammar, error);
    if (status == KT_OK)
        status = kt_grammar_open(NULL, "kt_grammar_calls", &made, error);
    if (status != KT_OK)
        return status;
    struct kt_form_reader reader = {.program = &made->program, .error = error};
    struct kt_calls calls = {.reader = &reader,
                             .program = &made->program,
                             .format = params->format,
                             .is_serial = params->is_serial != 0};
    json_t *list = read_tools(&reader, params, tools, &where), *form = NULL;
    if (list && params->form && !params->is_required)
        form = kt_form_load(&reader, params->form, params->form_length,
                            JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &where);
    if (!list && reader.status == KT_E_NOMEM)
        status = reader.status;
    else if (!list)
        status = kt_engine_fail(error, KT_E_FORMAT, "tools: %s (line %d, column %d)", where.text, where.line,
                                where.column);
    else if (params->form && !params->is_required && !form)
        status = kt_engine_fail(error, KT_E_FORMAT, "form: %s (line %d, column %d)", where.text, where.line,
                                where.column);
    else if (collect(&calls, params, list, error))
        status = kt_grammar_finish(made, form ? answer_or_form(&calls, params, form) : answer(&calls, params),
                                   &reader);
    else
        status = reader.status;
    json_decref(form);
    for (size_t i = 0; i < calls.n; i++)
        json_decref(calls.tools[i].parameters);
    free(calls.tools);
    json_decref(list);
    kt_form_free(&reader);
    if (status == KT_OK)
        *grammar = made;
    else
        kt_grammar_destroy(made);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of <kt/text.h>: bytes in, events out. */
#define _GNU_SOURCE /* reallocarray */
#include "tools/engine/text/output/parser.h"

#include "tools/engine/base/fail.h"

#include <stdlib.h>
#include <string.h>

static struct kt_bytes *const *buffers_of(struct kt_parser *parser, struct kt_bytes **list)
{
    struct kt_bytes *all[] = {&parser->name, &parser->id,    &parser->header, &parser->key,   &parser->value,
                              &parser->gap,  &parser->stash, &parser->held,   &parser->given, &parser->text};
    memcpy(list, all, sizeof all);
    return list;
}
#define N_BUFFERS 10

/* To the beginning of an answer; memory is kept. */
static void reset(struct kt_parser *parser)
{
    struct kt_bytes *list[N_BUFFERS];
    buffers_of(parser, list);
    for (size_t i = 0; i + 1 < N_BUFFERS; i++) /* not the text: its events may not have been read yet */
        list[i]->length = 0;
    parser->step = kt_parser_text;
    parser->n_part = parser->n_unread = 0;
    parser->reasons = parser->skips_lines = parser->starts_reasoning;
    parser->is_blank = true;
    parser->after_call = parser->is_candidate = false;
    parser->n_calls = 0;
    parser->in_call = parser->in_section = parser->in_list = parser->is_bare = false;
}

static void collect_tags(struct kt_parser *parser)
{
    const struct kt_parser_family *family = parser->family;
    int n = 0;
    for (int i = 0; i < 2 && family->think[i]; i++)
        parser->tags[n++] = family->think[i];
    parser->first_open = n;
    for (int i = 0; i < 9 && family->open[i]; i++)
        parser->tags[n++] = family->open[i];
    parser->first_stop = n;
    for (int i = 0; i < 4 && family->stop[i]; i++)
        parser->tags[n++] = family->stop[i];
    n = 0;
    for (int i = 0; i < 8 && family->close[i]; i++)
        parser->ends[n++] = family->close[i];
    parser->n_closes = n;
    for (int i = 0; i < 9 && family->open[i]; i++)
        if (family->open[i][0] != ' ') /* of harmony, the last one: it stands at the beginning only */
            parser->ends[n++] = family->open[i];
}

static enum kt_status check_params(const struct kt_parser_params *params, struct kt_parser **parser,
                                   struct kt_error *error)
{
    if (!params || !parser)
        return kt_engine_fail(error, KT_E_INVALID, "kt_parser_create: params or parser is NULL");
    if (params->struct_size < sizeof *params)
        return kt_engine_fail(
            error, KT_E_INVALID,
            "kt_parser_create: struct_size %zu is too small; start with KT_PARSER_PARAMS_INIT",
            params->struct_size);
    if (params->format >= kt_parser_n_families)
        return kt_engine_fail(error, KT_E_INVALID, "kt_parser_create: there is no format %u", params->format);
    return KT_OK;
}

/* Takes the schema. */
static enum kt_status make(const struct kt_parser_params *params, struct kt_schema *schema,
                           struct kt_parser **parser, struct kt_error *error)
{
    struct kt_parser *made = calloc(1, sizeof *made);
    if (!made) {
        kt_schema_destroy(schema);
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a parser of output");
    }
    made->schema = schema;
    made->family = &kt_parser_families[params->format];
    made->starts_reasoning = params->starts_reasoning;
    collect_tags(made);
    reset(made);
    *parser = made;
    return KT_OK;
}

enum kt_status kt_parser_create(const struct kt_parser_params *params, struct kt_parser **parser,
                                struct kt_error *error)
{
    enum kt_status status = check_params(params, parser, error);
    if (status != KT_OK)
        return status;
    struct kt_schema *schema;
    status = kt_schema_create(params->tools, params->tools_length, &schema, error);
    return status == KT_OK ? make(params, schema, parser, error) : status;
}

enum kt_status kt_parser_create_of(const struct kt_parser_params *params, json_t *tools,
                                   struct kt_parser **parser, struct kt_error *error)
{
    struct kt_schema *schema;
    enum kt_status status = check_params(params, parser, error);
    if (status == KT_OK)
        status = kt_schema_create_of(tools, &schema, error);
    return status == KT_OK ? make(params, schema, parser, error) : status;
}

enum kt_status kt_parser_create_like(const struct kt_parser *other, struct kt_parser **parser,
                                     struct kt_error *error)
{
    struct kt_parser_params params = KT_PARSER_PARAMS_INIT;
    params.format = (uint32_t)(other->family - kt_parser_families);
    params.starts_reasoning = other->starts_reasoning;
    return make(&params, kt_schema_share(other->schema), parser, error);
}

void kt_parser_destroy(struct kt_parser *parser)
{
    struct kt_bytes *list[N_BUFFERS];
    if (!parser)
        return;
    buffers_of(parser, list);
    for (size_t i = 0; i < N_BUFFERS; i++)
        kt_bytes_free(list[i]);
    kt_schema_destroy(parser->schema);
    free(parser->marks);
    free(parser->events);
    free(parser);
}

const char *kt_output_format_name(uint32_t format)
{
    return format < kt_parser_n_families ? kt_parser_families[format].name : NULL;
}

static struct kt_parser_mark *new_mark(struct kt_parser *parser)
{
    if (parser->n_marks == parser->room_marks) {
        size_t room = parser->room_marks ? 2 * parser->room_marks : 16;
        struct kt_parser_mark *marks = reallocarray(parser->marks, room, sizeof *marks);
        if (!marks) {
            parser->failed = true;
            return NULL;
        }
        parser->marks = marks;
        parser->room_marks = room;
    }
    struct kt_parser_mark *mark = &parser->marks[parser->n_marks++];
    *mark = (struct kt_parser_mark){.text = parser->text.length};
    return mark;
}

void kt_parser_emit(struct kt_parser *parser, uint32_t kind, const char *bytes, size_t length)
{
    struct kt_parser_mark *last = parser->n_marks ? &parser->marks[parser->n_marks - 1] : NULL;
    bool is_text = kind == KT_OUTPUT_REASONING || kind == KT_OUTPUT_CONTENT || kind == KT_OUTPUT_ARGUMENTS;
    if (is_text && length == 0)
        return;
    if (!is_text || !last || last->kind != kind) {
        last = new_mark(parser);
        if (!last)
            return;
        last->kind = kind;
        if (kind >= KT_OUTPUT_CALL && kind <= KT_OUTPUT_CALL_END)
            last->call = parser->n_calls - 1;
    }
    kt_bytes_add(&parser->text, bytes, length);
    last->length += length;
}

void kt_parser_end_reasoning(struct kt_parser *parser, bool is_cut)
{
    kt_parser_emit(parser, KT_OUTPUT_REASONING_END, NULL, 0);
    if (!parser->failed)
        parser->marks[parser->n_marks - 1].is_cut = is_cut;
    parser->reasons = false;
}

/* Call and call's end: the id is behind the text. */
static void emit_with_id(struct kt_parser *parser, uint32_t kind, bool is_cut)
{
    const struct kt_bytes *name = &parser->name, *id = &parser->id;
    kt_parser_emit(parser, kind, name->data, kind == KT_OUTPUT_CALL ? name->length : 0);
    if (parser->failed)
        return;
    struct kt_parser_mark *mark = &parser->marks[parser->n_marks - 1];
    mark->id = parser->text.length;
    mark->id_length = id->length;
    mark->is_cut = is_cut;
    kt_bytes_add(&parser->text, id->data, id->length);
}

void kt_parser_confirm(struct kt_parser *parser)
{
    if (parser->reasons)
        kt_parser_end_reasoning(parser, false);
    parser->is_candidate = false;
    parser->held.length = parser->gap.length = 0;
    parser->n_calls++;
    parser->in_call = parser->in_section = true;
    emit_with_id(parser, KT_OUTPUT_CALL, false);
    kt_parser_emit(parser, KT_OUTPUT_ARGUMENTS, parser->stash.data, parser->stash.length);
    parser->stash.length = 0;
}

void kt_parser_end_call(struct kt_parser *parser, bool is_cut)
{
    if (!is_cut && !parser->has_arguments)
        kt_parser_put(parser, "{}", 2);
    emit_with_id(parser, KT_OUTPUT_CALL_END, is_cut);
    parser->in_call = false;
}

void kt_parser_unread(struct kt_parser *parser, const char *bytes, size_t length)
{
    if (length > sizeof parser->unread - parser->n_unread) { /* cannot be, by the length of tags */
        parser->failed = true;
        return;
    }
    for (size_t i = length; i-- > 0;)
        parser->unread[parser->n_unread++] = bytes[i];
    if (parser->is_candidate && parser->held.failed)
        parser->failed = true; /* they may not be in there */
    else if (parser->is_candidate)
        parser->held.length -= length;
}

static void feed(struct kt_parser *parser, char byte)
{
    parser->unread[parser->n_unread++] = byte;
    while (parser->n_unread && !parser->failed) {
        char next = parser->unread[--parser->n_unread];
        if (parser->is_candidate)
            kt_bytes_add(&parser->held, &next, 1);
        parser->n_steps++;
        parser->step(parser, next);
    }
}

static bool short_of_memory(struct kt_parser *parser)
{
    struct kt_bytes *list[N_BUFFERS];
    buffers_of(parser, list);
    for (size_t i = 0; i < N_BUFFERS; i++)
        parser->failed = parser->failed || list[i]->failed;
    return parser->failed;
}

/* The events, with pointers: from here on the text does not move. */
static enum kt_status hand_over(struct kt_parser *parser, const struct kt_parser_event **events,
                                uint64_t *n_events, struct kt_error *error)
{
    if (parser->n_marks > parser->room_events && !parser->failed) {
        free(parser->events);
        parser->events = reallocarray(NULL, parser->room_marks, sizeof *parser->events);
        parser->room_events = parser->events ? parser->room_marks : 0;
        parser->failed = !parser->events;
    }
    if (short_of_memory(parser))
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a model's output");
    for (size_t i = 0; i < parser->n_marks; i++) {
        const struct kt_parser_mark *mark = &parser->marks[i];
        struct kt_parser_event event = {.kind = mark->kind, .call = mark->call, .is_cut = mark->is_cut};
        event.text = mark->length ? parser->text.data + mark->text : "";
        event.length = mark->length;
        event.id = mark->id_length ? parser->text.data + mark->id : "";
        event.id_length = mark->id_length;
        parser->events[i] = event;
    }
    *events = parser->events;
    *n_events = parser->n_marks;
    return KT_OK;
}

static enum kt_status begin(struct kt_parser *parser, const void *events, const void *n_events,
                            struct kt_error *error)
{
    if (!parser || !events || !n_events)
        return kt_engine_fail(error, KT_E_INVALID, "kt_parser: an argument is NULL");
    if (parser->failed)
        return kt_engine_fail(error, KT_E_NOMEM, "the parser of output ran out of memory before");
    parser->n_marks = 0;
    parser->text.length = 0;
    return KT_OK;
}

enum kt_status kt_parser_add(struct kt_parser *parser, const char *text, uint64_t length,
                             const struct kt_parser_event **events, uint64_t *n_events,
                             struct kt_error *error)
{
    enum kt_status status = begin(parser, events, n_events, error);
    if (status != KT_OK)
        return status;
    if (!text && length)
        return kt_engine_fail(error, KT_E_INVALID, "kt_parser_add: text is NULL");
    for (uint64_t i = 0; i < length && !parser->failed; i++)
        feed(parser, text[i]);
    return hand_over(parser, events, n_events, error);
}

/* What was held back, by where the machine stands. */
static void flush(struct kt_parser *parser)
{
    if (parser->in_call) {
        if (parser->step == kt_parser_raw)
            kt_parser_put(parser, parser->part, parser->n_part);
        else
            kt_parser_markup_cut(parser);
        if (parser->in_call)
            kt_parser_end_call(parser, true);
    } else if (parser->is_candidate) {
        kt_parser_emit_text(parser, NULL, 0);
    } else if (parser->step == kt_parser_text && (parser->n_part || !parser->after_call)) {
        kt_parser_emit_text(parser, parser->part, parser->n_part);
    }
    if (parser->reasons)
        kt_parser_end_reasoning(parser, true);
}

enum kt_status kt_parser_end(struct kt_parser *parser, const struct kt_parser_event **events,
                             uint64_t *n_events, struct kt_error *error)
{
    enum kt_status status = begin(parser, events, n_events, error);
    if (status != KT_OK)
        return status;
    flush(parser);
    status = hand_over(parser, events, n_events, error);
    if (status == KT_OK)
        reset(parser);
    return status;
}

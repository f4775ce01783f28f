/* SPDX-License-Identifier: Apache-2.0 */
/* Calls whose arguments stand in tags, each key and value by itself: a JSON object is made of them. */
#include "tools/engine/text/output/parser.h"

#include <string.h>

static kt_parser_step in_name, between, in_key, before_value, in_value, in_next_key, behind_value,
    behind_section, behind_call;

void kt_parser_markup_section(struct kt_parser *parser, char byte)
{
    const char *const tags[] = {parser->family->markup->call, NULL};
    int tag = kt_parser_expect(parser, tags, byte);
    if (tag == 0)
        parser->step = kt_parser_markup_name;
    else if (tag == KT_TAG_NONE)
        kt_parser_break(parser);
}

/* A byte of white space, which may stand before a name where it may stand behind it. */
void kt_parser_markup_name(struct kt_parser *parser, char byte)
{
    parser->step = in_name;
    parser->name.length = 0;
    in_name(parser, byte);
}

/* The section's tag was left out: so what follows must show that this is a call. */
void kt_parser_markup_bare(struct kt_parser *parser, char byte)
{
    parser->is_bare = true;
    kt_parser_markup_name(parser, byte);
}

static void end_name(struct kt_parser *parser)
{
    if (!kt_parser_is_name(parser->name.data, parser->name.length)) {
        kt_parser_break(parser);
        return;
    }
    if (!parser->is_bare && parser->family->markup->name_end)
        kt_parser_confirm(parser);
    parser->gap.length = parser->given.length = 0;
    parser->step = between;
}

static void in_name(struct kt_parser *parser, char byte)
{
    const char *const tags[] = {parser->family->markup->name_end, NULL};
    int tag = kt_parser_match(parser, tags, byte);
    if (tag == KT_TAG_PART)
        return;
    if (tag == 0) {
        end_name(parser);
        return;
    }
    char first = kt_parser_first(parser);
    bool is_name = kt_parser_is_name(&first, 1) && parser->name.length < KT_PARSER_NAME;
    if (is_name) {
        kt_bytes_add(&parser->name, &first, 1);
    } else if (!tags[0] && parser->name.length && (kt_is_space(first) || first == '<')) {
        kt_parser_unread(parser, &first, 1);
        end_name(parser);
    } else if (parser->name.length || !kt_is_space(first)) {
        kt_parser_unread(parser, &first, 1);
        kt_parser_break(parser);
    }
}

static void begin_key(struct kt_parser *parser)
{
    parser->key.length = 0;
    parser->step = in_key;
}

static void end_call(struct kt_parser *parser, bool ends_section)
{
    if (parser->has_arguments)
        kt_parser_put(parser, "}", 1);
    kt_parser_end_call(parser, false);
    parser->gap.length = 0;
    parser->step = behind_call;
    if (ends_section || !parser->family->markup->section)
        kt_parser_after_call(parser);
}

/* What may follow a name or a value: 0 a key, 1 and 2 the end of the call. */
static void follow(struct kt_parser *parser, int tag)
{
    if (parser->is_candidate)
        kt_parser_confirm(parser);
    if (tag == 0)
        begin_key(parser);
    else
        end_call(parser, tag == 2);
}

static void between(struct kt_parser *parser, char byte)
{
    const struct kt_markup *markup = parser->family->markup;
    const char *const tags[] = {markup->key, markup->call_end, markup->section_end, NULL};
    int tag = kt_parser_expect(parser, tags, byte);
    if (tag >= 0)
        follow(parser, tag);
    else if (tag == KT_TAG_NONE)
        kt_parser_break(parser);
}

/* The types that the value may have; KT_SCHEMA_UNKNOWN: JSON if it is JSON. */
static uint32_t find_types(struct kt_parser *parser, int key_end)
{
    uint32_t types;
    if (key_end == 1)
        return KT_SCHEMA_STRING;
    types = kt_schema_types(parser->schema, kt_bytes_string(&parser->name), kt_bytes_string(&parser->key));
    return key_end == 2 ? types & ~(uint32_t)KT_SCHEMA_STRING : types;
}

static void begin_value(struct kt_parser *parser)
{
    if (parser->streams)
        kt_parser_put(parser, "\"", 1);
    parser->value.length = 0;
    parser->at_start = true;
    parser->step = in_value;
}

/* A key of the tool that the call has not given yet. */
static bool is_new_key(struct kt_parser *parser, struct kt_bytes *bytes)
{
    const struct kt_bytes *given = &parser->given;
    const char *key = kt_bytes_string(bytes);
    if (strlen(key) != bytes->length || !kt_schema_has(parser->schema, kt_bytes_string(&parser->name), key))
        return false;
    for (size_t at = 0; at < given->length; at += strlen(given->data + at) + 1)
        if (strcmp(given->data + at, key) == 0)
            return false;
    return true;
}

static void end_key(struct kt_parser *parser, int key_end)
{
    const char *key = kt_bytes_string(&parser->key);
    if (parser->family->markup->next_key && is_new_key(parser, &parser->key))
        kt_bytes_add(&parser->given, key, strlen(key) + 1);
    parser->types = find_types(parser, key_end);
    parser->streams = parser->types == KT_SCHEMA_STRING;
    if (parser->has_arguments)
        kt_parser_put(parser, ", \"", 3);
    else
        kt_parser_put(parser, "{\"", 2);
    kt_parser_put_string(parser, parser->key.data, parser->key.length);
    kt_parser_put(parser, "\": ", 3);
    parser->gap.length = 0;
    if (parser->family->markup->value)
        parser->step = before_value;
    else
        begin_value(parser);
}

static void in_key(struct kt_parser *parser, char byte)
{
    int tag = kt_parser_match(parser, parser->family->markup->key_ends, byte);
    if (tag >= 0) {
        end_key(parser, tag);
    } else if (tag == KT_TAG_NONE) {
        char first = kt_parser_first(parser);
        kt_bytes_add(&parser->key, &first, 1);
    }
}

static void before_value(struct kt_parser *parser, char byte)
{
    const char *const tags[] = {parser->family->markup->value, NULL};
    int tag = kt_parser_expect(parser, tags, byte);
    if (tag == 0)
        begin_value(parser);
    else if (tag == KT_TAG_NONE)
        kt_parser_break(parser);
}

static void add_value(struct kt_parser *parser, const char *bytes, size_t length)
{
    if (parser->streams)
        kt_parser_put_string(parser, bytes, length);
    else
        kt_bytes_add(&parser->value, bytes, length);
}

static void in_value(struct kt_parser *parser, char byte)
{
    const struct kt_markup *markup = parser->family->markup;
    int tag = kt_parser_match(parser, markup->value_ends, byte);
    if (tag > 0 && tag == markup->next_key) {
        parser->header.length = 0;
        parser->step = in_next_key;
    } else if (tag >= 0) { /* it may be a part of the value yet */
        parser->header.length = parser->gap.length = 0;
        kt_bytes_add(&parser->header, markup->value_ends[tag], strlen(markup->value_ends[tag]));
        parser->depth = tag < markup->n_value_ends ? 0 : 2;
        parser->step = tag > 0 && tag == markup->lost_ends ? behind_section : behind_value;
    } else if (tag == KT_TAG_NONE) {
        char first = kt_parser_first(parser);
        if (!markup->lines || !parser->at_start || first != '\n')
            add_value(parser, &first, 1);
        parser->at_start = false;
    }
}

static uint32_t type_of(const char *text, size_t length, char first)
{
    switch (first) {
    case '{':
        return KT_SCHEMA_OBJECT;
    case '[':
        return KT_SCHEMA_ARRAY;
    case '"':
        return KT_SCHEMA_STRING;
    case 't':
    case 'f':
        return KT_SCHEMA_BOOLEAN;
    case 'n':
        return KT_SCHEMA_NULL;
    default:
        for (size_t i = 0; i < length; i++)
            if (strchr(".eE", text[i]))
                return KT_SCHEMA_NUMBER;
        return KT_SCHEMA_INTEGER | KT_SCHEMA_NUMBER;
    }
}

/* What templates that print values as Python does write. */
static const char *python_literal(const struct kt_parser *parser)
{
    const struct kt_bytes *value = &parser->value;
    if (value->length == 4 && memcmp(value->data, "True", 4) == 0)
        return parser->types & KT_SCHEMA_BOOLEAN ? "true" : NULL;
    if (value->length == 5 && memcmp(value->data, "False", 5) == 0)
        return parser->types & KT_SCHEMA_BOOLEAN ? "false" : NULL;
    if (value->length == 4 && memcmp(value->data, "None", 4) == 0)
        return parser->types & KT_SCHEMA_NULL ? "null" : NULL;
    return NULL;
}

/* The value is JSON: without the white space around it, control characters escaped. */
static void put_json(struct kt_parser *parser)
{
    const char *text = parser->value.data;
    size_t from = 0, to = parser->value.length;
    struct kt_json json = {.state = 0};
    while (kt_is_space(text[from]))
        from++;
    while (kt_is_space(text[to - 1]))
        to--;
    for (; from < to; from++) {
        if (kt_json_control(&json, text[from]))
            kt_parser_put_string(parser, &text[from], 1);
        else
            kt_parser_put(parser, &text[from], 1);
        (void)kt_json_scan(&json, text[from]);
    }
}

static void end_value(struct kt_parser *parser)
{
    const struct kt_bytes *value = &parser->value;
    const char *literal = python_literal(parser);
    char first = '\0';
    bool is_json = kt_json_whole(value->data, value->length, &first);
    if (is_json && parser->types & KT_SCHEMA_STRING) {
        uint32_t type = type_of(value->data, value->length, first);
        is_json = type != KT_SCHEMA_STRING && type & parser->types;
    }
    if (parser->streams) {
        kt_parser_put(parser, "\"", 1);
    } else if (literal) {
        kt_parser_put(parser, literal, strlen(literal));
    } else if (is_json) {
        put_json(parser);
    } else {
        kt_parser_put(parser, "\"", 1);
        kt_parser_put_string(parser, value->data, value->length);
        kt_parser_put(parser, "\"", 1);
    }
}

/* What looked like the end of a value was a part of it. */
static void go_on(struct kt_parser *parser)
{
    const struct kt_bytes *gap = &parser->gap, *end = &parser->header;
    bool ends_line = gap->length && gap->data[gap->length - 1] == '\n'; /* which may begin a tag */
    bool begins_line =
        parser->family->markup->lines && parser->at_start && end->length && end->data[0] == '\n';
    add_value(parser, end->data + begins_line, end->length - begins_line);
    add_value(parser, gap->data, gap->length - ends_line);
    kt_parser_unread(parser, "\n", ends_line);
    parser->at_start = false;
    parser->step = in_value;
}

/* A value ends where its end is followed by what may follow: a text about markup goes on. */
static void behind_value(struct kt_parser *parser, char byte)
{
    const struct kt_markup *markup = parser->family->markup;
    const char *const all[] = {markup->key, markup->call_end, markup->section_end, NULL};
    int from = (int)parser->depth;
    int tag = kt_parser_expect(parser, all + from, byte);
    if (tag >= 0) {
        end_value(parser);
        follow(parser, from + tag);
    } else if (tag == KT_TAG_NONE) {
        go_on(parser);
    }
}

/* The ends of a value and of its call were forgotten, if a call on a line of its own or the end of the output
 * follows. */
static void behind_section(struct kt_parser *parser, char byte)
{
    const char *next = parser->family->markup->next_section;
    const char *const tags[] = {next, NULL};
    int tag = kt_parser_expect(parser, tags, byte);
    if (tag == 0 && parser->gap.length && parser->gap.data[0] == '\n') {
        end_value(parser);
        end_call(parser, true);
        kt_parser_unread(parser, next, strlen(next));
    } else if (tag == 0 || tag == KT_TAG_NONE) {
        kt_parser_unread(parser, next, tag == 0 ? strlen(next) : 0);
        go_on(parser);
    }
}

/* What would be a key was a part of the value. */
static void add_next_key(struct kt_parser *parser)
{
    const struct kt_markup *markup = parser->family->markup;
    const char *tag = markup->value_ends[markup->next_key] + (markup->lines && parser->at_start);
    add_value(parser, tag, strlen(tag));
    add_value(parser, parser->header.data, parser->header.length);
    parser->at_start = false;
}

/* A value's end was forgotten where a key follows that the tool has and the call has not; else the value
 * speaks of parameters. */
static void in_next_key(struct kt_parser *parser, char byte)
{
    if (byte == '>' && is_new_key(parser, &parser->header)) {
        end_value(parser);
        parser->key.length = 0;
        kt_bytes_add(&parser->key, parser->header.data, parser->header.length);
        end_key(parser, 0);
    } else if (byte == '>' || byte == '<' || byte == '\n' || parser->header.length == KT_PARSER_NAME) {
        add_next_key(parser);
        kt_parser_unread(parser, &byte, 1);
        parser->step = in_value;
    } else {
        kt_bytes_add(&parser->header, &byte, 1);
    }
}

/* Between the calls of a section. */
static void behind_call(struct kt_parser *parser, char byte)
{
    const struct kt_markup *markup = parser->family->markup;
    const char *const tags[] = {markup->section_end, markup->call, markup->other_end, NULL};
    int tag = kt_parser_expect(parser, tags, byte);
    if (tag == KT_TAG_PART)
        return;
    if (tag == 1) {
        kt_parser_next(parser, kt_parser_markup_name, markup->call);
        return;
    }
    if (tag >= 0)
        parser->gap.length = 0;
    kt_parser_after_call(parser);
}

void kt_parser_markup_cut(struct kt_parser *parser)
{
    if (parser->step == behind_section) {
        end_value(parser);
        end_call(parser, true);
        kt_parser_emit_text(parser, parser->part, parser->n_part);
    } else if (parser->step == behind_value)
        end_value(parser);
    else if (parser->step == in_next_key && parser->streams)
        add_next_key(parser);
    else if (parser->step == in_value && parser->streams)
        kt_parser_put_string(parser, parser->part, parser->n_part);
}

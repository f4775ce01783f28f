/* SPDX-License-Identifier: Apache-2.0 */
/* {"name": .., "arguments": {..}}, alone or in a list. */
#include "tools/engine/text/output/parser.h"

#include <string.h>

/* Longer keys are none of ours. */
#define MAX_KEY 16

static kt_parser_step after_brace, next_key, in_key, colon, value, in_name, in_id, in_arguments, in_other,
    comma, item;

/* What stands here does not belong to a call. */
static void stumble(struct kt_parser *parser, char byte)
{
    kt_parser_unread(parser, &byte, 1);
    if (parser->in_call && parser->arguments_done) { /* but it is whole: a brace was forgotten, say */
        kt_parser_end_call(parser, false);
        parser->in_list = false;
        parser->step = kt_parser_json_after;
    } else {
        kt_parser_begin_raw(parser);
    }
}

static void begin_object(struct kt_parser *parser)
{
    parser->step = after_brace;
    parser->arguments = (struct kt_arguments){.kind = KT_ARGUMENTS_NONE};
}

static bool may_confirm(const struct kt_parser *parser)
{
    return parser->name.length && (!parser->is_bare || parser->has_arguments || parser->arguments.kind);
}

/* A name was read; where no tag said that this is a call, arguments and a known name do. */
static bool take_name(struct kt_parser *parser)
{
    if (!kt_parser_is_name(parser->name.data, parser->name.length))
        return false;
    if (parser->is_bare && kt_schema_lacks(parser->schema, kt_bytes_string(&parser->name)))
        return false;
    if (may_confirm(parser))
        kt_parser_confirm(parser);
    return true;
}

void kt_parser_json(struct kt_parser *parser, char byte)
{
    if (kt_is_space(byte))
        return;
    if (byte == '{') {
        begin_object(parser);
    } else if (byte == '[') {
        parser->in_list = true;
        parser->step = item;
    } else {
        stumble(parser, byte);
    }
}

/* An object of a list, or the first call of one in Python's syntax. */
static void item(struct kt_parser *parser, char byte)
{
    if (kt_is_space(byte))
        return;
    if (byte == '{') {
        begin_object(parser);
    } else if (parser->family->takes_bare && kt_parser_is_name(&byte, 1)) {
        kt_parser_unread(parser, &byte, 1);
        parser->step = kt_parser_python;
    } else {
        stumble(parser, byte);
    }
}

static void end_object(struct kt_parser *parser)
{
    if (!parser->in_call && (parser->is_bare || parser->name.length == 0)) {
        kt_parser_refuse(parser);
        return;
    }
    kt_parser_end_call(parser, false);
    parser->step = kt_parser_json_after;
}

static void begin_key(struct kt_parser *parser)
{
    parser->key.length = 0;
    parser->string = (struct kt_unescape){.state = 0};
    parser->step = in_key;
}

static void after_brace(struct kt_parser *parser, char byte)
{
    if (byte == '}')
        end_object(parser);
    else
        next_key(parser, byte);
}

static void next_key(struct kt_parser *parser, char byte)
{
    if (byte == '"')
        begin_key(parser);
    else if (!kt_is_space(byte))
        stumble(parser, byte);
}

static void in_key(struct kt_parser *parser, char byte)
{
    enum kt_scan scan = kt_unescape(&parser->string, byte);
    if (scan == KT_SCAN_BAD) {
        stumble(parser, byte);
        return;
    }
    if (parser->key.length <= MAX_KEY)
        kt_bytes_add(&parser->key, parser->string.text, parser->string.length);
    if (scan == KT_SCAN_DONE)
        parser->step = colon;
}

static void colon(struct kt_parser *parser, char byte)
{
    if (byte == ':')
        parser->step = value;
    else if (!kt_is_space(byte))
        stumble(parser, byte);
}

static bool is_key(struct kt_parser *parser, const char *key)
{
    return strcmp(kt_bytes_string(&parser->key), key) == 0;
}

static void begin_text(struct kt_parser *parser, kt_parser_step *step, struct kt_bytes *text)
{
    text->length = 0;
    parser->string = (struct kt_unescape){.state = 0};
    parser->step = step;
}

static void value(struct kt_parser *parser, char byte)
{
    bool is_text = byte == '"';
    if (kt_is_space(byte))
        return;
    if (is_key(parser, "name") && parser->name.length == 0 && is_text) {
        begin_text(parser, in_name, &parser->name);
    } else if (is_key(parser, "id") && is_text) {
        begin_text(parser, in_id, &parser->id);
    } else if ((is_key(parser, "arguments") || is_key(parser, "parameters")) && !parser->arguments.kind) {
        kt_parser_unread(parser, &byte, 1);
        parser->step = in_arguments;
    } else {
        kt_parser_unread(parser, &byte, 1);
        parser->json = (struct kt_json){.state = 0};
        parser->step = in_other;
    }
}

static void in_name(struct kt_parser *parser, char byte)
{
    enum kt_scan scan = kt_unescape(&parser->string, byte);
    if (scan != KT_SCAN_BAD)
        kt_bytes_add(&parser->name, parser->string.text, parser->string.length);
    if (scan == KT_SCAN_BAD || parser->name.length > KT_PARSER_NAME) {
        stumble(parser, byte);
        return;
    }
    if (scan != KT_SCAN_DONE)
        return;
    if (take_name(parser))
        parser->step = comma;
    else
        kt_parser_refuse(parser);
}

static void in_id(struct kt_parser *parser, char byte)
{
    enum kt_scan scan = kt_unescape(&parser->string, byte);
    if (scan == KT_SCAN_BAD) {
        stumble(parser, byte);
        return;
    }
    kt_bytes_add(&parser->id, parser->string.text, parser->string.length);
    if (scan == KT_SCAN_DONE)
        parser->step = comma;
}

static void in_arguments(struct kt_parser *parser, char byte)
{
    bool is_first = parser->arguments.kind == KT_ARGUMENTS_NONE;
    enum kt_scan scan = kt_parser_argue(parser, byte);
    if (scan == KT_SCAN_BAD) {
        stumble(parser, byte);
        return;
    }
    if (is_first && parser->is_candidate && may_confirm(parser))
        kt_parser_confirm(parser);
    if (scan == KT_SCAN_DONE)
        parser->step = comma;
}

static void in_other(struct kt_parser *parser, char byte)
{
    enum kt_scan scan = kt_json_scan(&parser->json, byte);
    if (scan == KT_SCAN_BAD) {
        stumble(parser, byte);
    } else if (scan != KT_SCAN_MORE) {
        parser->step = comma;
        if (scan == KT_SCAN_BEFORE)
            kt_parser_unread(parser, &byte, 1);
    }
}

static void comma(struct kt_parser *parser, char byte)
{
    if (byte == ',')
        parser->step = next_key;
    else if (byte == '}')
        end_object(parser);
    else if (!kt_is_space(byte))
        stumble(parser, byte);
}

/* Behind a call: the next one of the list, the closing tag, or text. */
void kt_parser_json_after(struct kt_parser *parser, char byte)
{
    const char *const *close = parser->family->close;
    bool is_tagged = close[0] && !parser->is_bare;
    if (parser->n_part == 0 && byte == '{') { /* one more without a tag of its own */
        bool is_bare = parser->is_bare;
        kt_parser_next(parser, kt_parser_json, "{");
        parser->is_bare = is_bare;
        begin_object(parser);
        return;
    }
    if (parser->n_part == 0 && parser->in_list && (byte == ',' || byte == ']')) {
        parser->gap.length = 0;
        parser->in_list = byte == ',';
        return;
    }
    if (parser->n_part == 0 &&
        ((byte == ';' && parser->is_bare) || (is_tagged && (byte == '}' || byte == ']')))) {
        kt_bytes_add(&parser->gap, &byte,
                     1); /* models write a bracket too many: not text, if the tag comes */
        return;
    }
    int tag = kt_parser_expect(parser, close, byte);
    if (tag >= 0)
        parser->gap.length = 0;
    if (tag != KT_TAG_PART)
        kt_parser_after_call(parser);
}

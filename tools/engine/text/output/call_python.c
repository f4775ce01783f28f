/* SPDX-License-Identifier: Apache-2.0 */
/* [f(a=1, b=["x", None]), g()]: calls in Python's syntax, with literals as arguments (LFM2). */
#include "tools/engine/text/output/parser.h"

#include <string.h>

static kt_parser_step in_name, argument, in_key, before_value, in_string, in_escape, in_word, behind_value,
    behind_call;

static void stumble(struct kt_parser *parser, char byte)
{
    kt_parser_unread(parser, &byte, 1);
    kt_parser_begin_raw(parser);
}

void kt_parser_python(struct kt_parser *parser, char byte)
{
    parser->name.length = 0;
    parser->step = in_name;
    in_name(parser, byte);
}

static void in_name(struct kt_parser *parser, char byte)
{
    if (byte == '(' && parser->name.length) {
        kt_parser_confirm(parser);
        parser->depth = 0;
        parser->step = argument;
    } else if (kt_parser_is_name(&byte, 1) && parser->name.length < KT_PARSER_NAME) {
        kt_bytes_add(&parser->name, &byte, 1);
    } else if (parser->name.length || !kt_is_space(byte)) {
        kt_parser_unread(parser, &byte, 1);
        kt_parser_break(parser);
    }
}

static void end_call(struct kt_parser *parser)
{
    if (parser->has_arguments)
        kt_parser_put(parser, "}", 1);
    kt_parser_end_call(parser, false);
    parser->gap.length = 0;
    parser->step = behind_call;
}

/* A keyword, or the end. */
static void argument(struct kt_parser *parser, char byte)
{
    if (kt_is_space(byte))
        return;
    if (byte == ')') {
        end_call(parser);
    } else if (kt_parser_is_name(&byte, 1)) {
        parser->key.length = 0;
        parser->step = in_key;
        in_key(parser, byte);
    } else {
        stumble(parser, byte);
    }
}

static void in_key(struct kt_parser *parser, char byte)
{
    if (byte == '=') {
        if (parser->has_arguments)
            kt_parser_put(parser, ", \"", 3);
        else
            kt_parser_put(parser, "{\"", 2);
        kt_parser_put_string(parser, parser->key.data, parser->key.length);
        kt_parser_put(parser, "\": ", 3);
        parser->is_key = parser->at_start = parser->has_comma = false;
        parser->step = before_value;
    } else if (kt_parser_is_name(&byte, 1)) {
        kt_bytes_add(&parser->key, &byte, 1);
    } else if (!kt_is_space(byte)) {
        stumble(parser, byte);
    }
}

static bool in_dict(const struct kt_parser *parser)
{
    return parser->depth && parser->brackets[parser->depth - 1] == '}';
}

static void open_bracket(struct kt_parser *parser, char byte)
{
    if (parser->depth == sizeof parser->brackets || parser->is_key) {
        stumble(parser, byte);
        return;
    }
    parser->brackets[parser->depth++] = byte == '[' ? ']' : byte == '(' ? ')' : '}';
    kt_parser_put(parser, byte == '{' ? "{" : "[", 1);
    parser->is_key = byte == '{';
    parser->at_start = true;
    parser->step = before_value;
}

static void close_bracket(struct kt_parser *parser)
{
    kt_parser_put(parser, in_dict(parser) ? "}" : "]", 1);
    parser->depth--;
    parser->is_key = parser->has_comma = false;
    parser->step = behind_value;
}

/* A value, or the end of a list that has just begun or ends with a comma. */
static void before_value(struct kt_parser *parser, char byte)
{
    if (kt_is_space(byte))
        return;
    if (parser->at_start && parser->depth && byte == parser->brackets[parser->depth - 1]) {
        close_bracket(parser);
        return;
    }
    if (parser->has_comma)
        kt_parser_put(parser, ", ", 2);
    parser->has_comma = false;
    if (byte && strchr("[({", byte)) {
        open_bracket(parser, byte);
    } else if (byte == '"' || byte == '\'') {
        kt_parser_put(parser, "\"", 1);
        parser->quote = byte;
        parser->step = in_string;
    } else if (byte && strchr(")]},=:", byte)) {
        stumble(parser, byte);
    } else {
        parser->value.length = 0;
        parser->step = in_word;
        in_word(parser, byte);
    }
}

static void in_string(struct kt_parser *parser, char byte)
{
    if (byte == '\\') {
        parser->step = in_escape;
        parser->value.length = 0;
    } else if (byte == parser->quote) {
        kt_parser_put(parser, "\"", 1);
        parser->step = behind_value;
    } else {
        kt_parser_put_string(parser, &byte, 1);
    }
}

/* Letters with a meaning become JSON's escapes; before others, Python keeps the backslash. */
static void in_escape(struct kt_parser *parser, char byte)
{
    static const char same[] = "ntrbf\\\"";
    size_t wanted = parser->value.length && parser->value.data[0] == 'x' ? 3 : 5;
    bool is_hex = byte && strchr("0123456789abcdefABCDEF", byte);
    if (parser->value.length ? is_hex : byte == 'x' || byte == 'u') {
        kt_bytes_add(&parser->value, &byte, 1);
        if (parser->value.length > 1 && parser->value.length == wanted) {
            kt_parser_put(parser, wanted == 3 ? "\\u00" : "\\u", wanted == 3 ? 4 : 2);
            kt_parser_put(parser, parser->value.data + 1, wanted - 1);
            parser->step = in_string;
        }
        return;
    }
    parser->step = in_string;
    if (parser->value.length) { /* no code after all */
        kt_parser_put_string(parser, "\\", 1);
        kt_parser_put_string(parser, parser->value.data, parser->value.length);
        kt_parser_unread(parser, &byte, 1);
    } else if (byte && strchr(same, byte)) {
        kt_parser_put(parser, (char[]){'\\', byte}, 2);
    } else if (byte == '\'') {
        kt_parser_put_string(parser, &byte, 1);
    } else if (byte != '\n') { /* a line goes on */
        kt_parser_put_string(parser, "\\", 1);
        kt_parser_put_string(parser, &byte, 1);
    }
}

static void put_word(struct kt_parser *parser)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    const char *word = kt_bytes_string(&parser->value);
    char first;
    for (size_t i = 0; i < sizeof words / sizeof *words && !parser->is_key; i++)
        if (strcmp(word, words[i][0]) == 0) {
            kt_parser_put(parser, words[i][1], strlen(words[i][1]));
            return;
        }
    if (!parser->is_key && kt_json_whole(word, parser->value.length, &first)) {
        kt_parser_put(parser, word, parser->value.length);
        return;
    }
    kt_parser_put(parser, "\"", 1);
    kt_parser_put_string(parser, parser->value.data, parser->value.length);
    kt_parser_put(parser, "\"", 1);
}

/* A number or a name. */
static void in_word(struct kt_parser *parser, char byte)
{
    if (kt_is_space(byte) || (byte && strchr(",)]}:", byte))) {
        put_word(parser);
        parser->step = behind_value;
        kt_parser_unread(parser, &byte, 1);
    } else if (byte && strchr("([{\"'=", byte)) {
        stumble(parser, byte);
    } else {
        kt_bytes_add(&parser->value, &byte, 1);
    }
}

static void behind_value(struct kt_parser *parser, char byte)
{
    if (kt_is_space(byte))
        return;
    if (parser->is_key) {
        parser->is_key = parser->at_start = false;
        parser->step = before_value;
        if (byte == ':')
            kt_parser_put(parser, ": ", 2);
        else
            stumble(parser, byte);
    } else if (parser->depth == 0 && byte == ',') {
        parser->step = argument;
    } else if (parser->depth == 0 && byte == ')') {
        end_call(parser);
    } else if (parser->depth && byte == parser->brackets[parser->depth - 1]) {
        close_bracket(parser);
    } else if (parser->depth && byte == ',') {
        parser->step = before_value;
        parser->is_key = in_dict(parser);
        parser->at_start = parser->has_comma = true;
    } else {
        stumble(parser, byte);
    }
}

/* The next call of the list, or its end. */
static void behind_call(struct kt_parser *parser, char byte)
{
    if (byte == ']') {
        parser->gap.length = 0;
        parser->in_list = false;
        parser->step = kt_parser_json_after;
    } else if (byte == ',') {
        kt_parser_next(parser, kt_parser_python, ",");
    } else if (kt_is_space(byte)) {
        kt_bytes_add(&parser->gap, &byte, 1);
    } else {
        kt_parser_unread(parser, &byte, 1);
        kt_parser_after_call(parser);
    }
}

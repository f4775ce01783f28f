/* SPDX-License-Identifier: Apache-2.0 */
/* A name, a tag, and the arguments as JSON: DeepSeek, Kimi, Mistral; and the arguments of harmony. */
#include "tools/engine/text/output/parser.h"

#include <string.h>

static kt_parser_step deepseek_body, deepseek_name, deepseek_fence, arguments_or_end, after;

static void trim(struct kt_bytes *bytes)
{
    size_t from = 0;
    while (bytes->length && kt_is_space(bytes->data[bytes->length - 1]))
        bytes->length--;
    while (from < bytes->length && kt_is_space(bytes->data[from]))
        from++;
    if (from) {
        memmove(bytes->data, bytes->data + from, bytes->length - from);
        bytes->length -= from;
    }
}

static void copy(struct kt_bytes *to, const struct kt_bytes *from)
{
    to->length = 0;
    kt_bytes_add(to, from->data, from->length);
}

/* The name is whole, and arguments follow. */
static void begin_arguments(struct kt_parser *parser)
{
    if (!kt_parser_is_name(parser->name.data, parser->name.length)) {
        kt_parser_break(parser);
        return;
    }
    kt_parser_confirm(parser);
    kt_parser_begin_arguments(parser);
}

void kt_parser_begin_arguments(struct kt_parser *parser)
{
    parser->arguments = (struct kt_arguments){.kind = KT_ARGUMENTS_NONE};
    parser->step = arguments_or_end;
}

/* "functions.get_weather:0", of which the name is the middle. */
static void name_of_id(struct kt_parser *parser)
{
    static const char prefix[] = "functions.";
    const char *id = parser->id.data;
    size_t end = parser->id.length, from = 0, digits = end;
    while (digits && id[digits - 1] >= '0' && id[digits - 1] <= '9')
        digits--;
    if (digits && digits < end && id[digits - 1] == ':')
        end = digits - 1;
    if (end > sizeof prefix - 1 && memcmp(id, prefix, sizeof prefix - 1) == 0)
        from = sizeof prefix - 1;
    parser->name.length = 0;
    if (id)
        kt_bytes_add(&parser->name, id + from, end - from);
}

/* What stands before the tag `head_end[tag]`. */
static void end_head(struct kt_parser *parser, int tag)
{
    trim(&parser->header);
    switch (parser->family - kt_parser_families) {
    case KT_OUTPUT_DEEPSEEK:
        copy(&parser->name, &parser->header);
        parser->header.length = 0;
        parser->step = deepseek_body;
        return;
    case KT_OUTPUT_KIMI:
        copy(&parser->id, &parser->header);
        name_of_id(parser);
        break;
    default: /* Mistral: NAME[CALL_ID]ID[ARGS] */
        copy(parser->name.length ? &parser->id : &parser->name, &parser->header);
        parser->header.length = 0;
        if (tag == 1)
            return;
    }
    begin_arguments(parser);
}

void kt_parser_named(struct kt_parser *parser, char byte)
{
    bool is_mistral = parser->family == &kt_parser_families[KT_OUTPUT_MISTRAL];
    int tag = kt_parser_match(parser, parser->family->head_end, byte);
    if (tag == KT_TAG_PART)
        return;
    if (tag >= 0) {
        end_head(parser, tag);
        return;
    }
    char first = kt_parser_first(parser);
    if (is_mistral && first == '{' && parser->header.length) { /* the tag was left out */
        kt_parser_unread(parser, &first, 1);
        end_head(parser, 0);
    } else if (strchr("<[{", first) || parser->header.length == KT_PARSER_HEADER) {
        kt_parser_unread(parser, &first, 1);
        kt_parser_break(parser);
    } else {
        kt_bytes_add(&parser->header, &first, 1);
    }
}

/* [TOOL_CALLS], with a list behind it or a name. */
void kt_parser_mistral(struct kt_parser *parser, char byte)
{
    if (kt_is_space(byte))
        return;
    kt_parser_unread(parser, &byte, 1);
    parser->step = byte == '[' || byte == '{' ? kt_parser_json : kt_parser_named;
}

/* V3.1 has arguments here; V3 and R1 a name, after the word "function". */
static void deepseek_body(struct kt_parser *parser, char byte)
{
    if (kt_is_space(byte) && parser->header.length == 0)
        return;
    kt_parser_unread(parser, &byte, 1);
    if (byte == '{' || byte == '"')
        begin_arguments(parser);
    else if (strcmp(kt_bytes_string(&parser->name), "function") == 0)
        parser->step = deepseek_name;
    else if (byte == '`')
        parser->step = deepseek_fence;
    else
        begin_arguments(parser);
}

static void deepseek_name(struct kt_parser *parser, char byte)
{
    if (byte == '\n') {
        trim(&parser->header);
        copy(&parser->name, &parser->header);
        parser->gap.length = 0;
        parser->step = deepseek_fence;
    } else if (byte == '<' || parser->header.length == KT_PARSER_HEADER) {
        kt_parser_unread(parser, &byte, 1);
        kt_parser_break(parser);
    } else {
        kt_bytes_add(&parser->header, &byte, 1);
    }
}

static void deepseek_fence(struct kt_parser *parser, char byte)
{
    static const char *const fences[] = {"```json", NULL};
    if (kt_parser_expect(parser, fences, byte) != KT_TAG_PART)
        begin_arguments(parser);
}

/* The first of the arguments, or the end of a call that has none. */
static void arguments_or_end(struct kt_parser *parser, char byte)
{
    int tag = kt_parser_expect(parser, parser->family->close, byte);
    if (tag == KT_TAG_PART)
        return;
    parser->gap.length = 0;
    if (tag == KT_TAG_NONE) {
        parser->step = kt_parser_named_arguments;
        return;
    }
    kt_parser_end_call(parser, false);
    parser->step = after;
    kt_parser_unread(parser, parser->family->close[tag], strlen(parser->family->close[tag]));
}

void kt_parser_named_arguments(struct kt_parser *parser, char byte)
{
    enum kt_scan scan = kt_parser_argue(parser, byte);
    if (scan == KT_SCAN_BAD) {
        kt_parser_unread(parser, &byte, 1);
        kt_parser_begin_raw(parser);
    } else if (scan == KT_SCAN_DONE) {
        kt_parser_end_call(parser, false);
        parser->step = after;
        if (!parser->family->close[0])
            kt_parser_after_call(parser);
    }
}

/* Behind the arguments; V3 of DeepSeek ends its block of code. */
static void after(struct kt_parser *parser, char byte)
{
    const struct kt_parser_family *family = parser->family;
    const char *tags[9] = {NULL};
    int n = 0;
    while (family->close[n]) {
        tags[n] = family->close[n];
        n++;
    }
    if (family == &kt_parser_families[KT_OUTPUT_DEEPSEEK])
        tags[n] = "```";
    int tag = kt_parser_expect(parser, tags, byte);
    if (tag == KT_TAG_PART || tag == n)
        return;
    if (tag >= 0)
        parser->gap.length = 0;
    if (family->section_call[0] && tag < family->n_call_ends) /* the end may have been left out */
        parser->step = kt_parser_named_section;
    else
        kt_parser_after_call(parser);
}

/* Between the calls of a section. */
void kt_parser_named_section(struct kt_parser *parser, char byte)
{
    const struct kt_parser_family *family = parser->family;
    const char *tags[12] = {NULL};
    int n_calls = 0, n;
    for (; n_calls < 4 && family->section_call[n_calls]; n_calls++)
        tags[n_calls] = family->section_call[n_calls];
    n = n_calls;
    for (int i = family->n_call_ends; i < 8 && family->close[i]; i++)
        tags[n++] = family->close[i];
    int tag = kt_parser_expect(parser, tags, byte);
    if (tag == KT_TAG_PART)
        return;
    bool is_call = tag >= 0 && tag < n_calls;
    if (is_call && parser->is_candidate) {
        parser->step = kt_parser_named;
    } else if (is_call) {
        kt_parser_next(parser, kt_parser_named, tags[tag]);
    } else {
        if (tag >= n_calls)
            parser->gap.length = 0;
        kt_parser_break(parser);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments that a model writes as JSON, and what is left of them when they are none. */
#include "tools/engine/text/output/parser.h"

#include <string.h>

void kt_parser_put(struct kt_parser *parser, const char *bytes, size_t length)
{
    parser->has_arguments = parser->has_arguments || length;
    if (parser->is_candidate)
        kt_bytes_add(&parser->stash, bytes, length);
    else
        kt_parser_emit(parser, KT_OUTPUT_ARGUMENTS, bytes, length);
}

void kt_parser_put_string(struct kt_parser *parser, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        struct kt_escape escape = kt_json_escape(bytes[i]);
        kt_parser_put(parser, escape.text, escape.length);
    }
}

/* A byte of the object. Control characters in strings, which models write, are escaped. */
static enum kt_scan argue_object(struct kt_parser *parser, char byte)
{
    struct kt_json *json = &parser->arguments.json;
    if (kt_json_control(json, byte)) {
        kt_parser_put_string(parser, &byte, 1);
        return KT_SCAN_MORE;
    }
    enum kt_scan scan = kt_json_scan(json, byte);
    if (scan != KT_SCAN_BAD)
        kt_parser_put(parser, &byte, 1);
    return scan;
}

/* A byte of the string that holds an object. */
static enum kt_scan argue_inner(struct kt_parser *parser, char byte)
{
    struct kt_arguments *arguments = &parser->arguments;
    if ((!arguments->has_begun || arguments->has_ended) && kt_is_space(byte))
        return KT_SCAN_MORE;
    if (!arguments->has_begun && byte != '{')
        return KT_SCAN_BAD;
    arguments->has_begun = true;
    enum kt_scan scan = argue_object(parser, byte);
    arguments->has_ended = scan == KT_SCAN_DONE;
    return scan == KT_SCAN_BAD ? scan : KT_SCAN_MORE;
}

static enum kt_scan argue_text(struct kt_parser *parser, char byte)
{
    struct kt_arguments *arguments = &parser->arguments;
    enum kt_scan scan = kt_unescape(&arguments->text, byte);
    if (scan == KT_SCAN_BAD)
        return scan;
    for (size_t i = 0; i < arguments->text.length; i++)
        if (argue_inner(parser, arguments->text.text[i]) == KT_SCAN_BAD)
            return KT_SCAN_BAD;
    if (scan == KT_SCAN_DONE && arguments->has_begun && !arguments->has_ended)
        return KT_SCAN_BAD;
    return scan;
}

static enum kt_scan argue_first(struct kt_parser *parser, char byte)
{
    struct kt_arguments *arguments = &parser->arguments;
    if (kt_is_space(byte))
        return KT_SCAN_MORE;
    if (byte == '"') {
        arguments->kind = KT_ARGUMENTS_TEXT;
        return KT_SCAN_MORE;
    }
    if (byte != '{' && byte != 'n')
        return KT_SCAN_BAD;
    arguments->kind = byte == '{' ? KT_ARGUMENTS_OBJECT : KT_ARGUMENTS_NULL;
    return byte == '{' ? argue_object(parser, byte) : kt_json_scan(&arguments->json, byte);
}

static enum kt_scan argue_more(struct kt_parser *parser, char byte)
{
    switch (parser->arguments.kind) {
    case KT_ARGUMENTS_OBJECT:
        return argue_object(parser, byte);
    case KT_ARGUMENTS_TEXT:
        return argue_text(parser, byte);
    case KT_ARGUMENTS_NULL:
        return kt_json_scan(&parser->arguments.json, byte);
    default:
        return argue_first(parser, byte);
    }
}

enum kt_scan kt_parser_argue(struct kt_parser *parser, char byte)
{
    enum kt_scan scan = argue_more(parser, byte);
    parser->arguments_done = scan == KT_SCAN_DONE; /* null and "" are the same as none */
    return scan;
}

void kt_parser_raw(struct kt_parser *parser, char byte)
{
    int tag = kt_parser_match(parser, parser->ends, byte);
    if (tag == KT_TAG_PART)
        return;
    if (tag == KT_TAG_NONE) {
        char first = kt_parser_first(parser);
        kt_parser_put(parser, &first, 1);
        return;
    }
    kt_parser_end_call(parser, true);
    parser->gap.length = 0;
    if (tag >= parser->n_closes) {
        parser->held.length = 0;
        kt_parser_open(parser, tag - parser->n_closes);
    } else if (tag < parser->family->n_call_ends && parser->family->section_call[0]) {
        parser->step = kt_parser_named_section;
    } else {
        kt_parser_after_call(parser);
    }
}

void kt_parser_begin_raw(struct kt_parser *parser)
{
    if (parser->is_candidate) {
        kt_parser_refuse(parser);
        return;
    }
    parser->step = kt_parser_raw;
}

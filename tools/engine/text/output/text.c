/* SPDX-License-Identifier: Apache-2.0 */
/* Text between calls, tags, and what becomes of a candidate. */
#include "tools/engine/text/output/parser.h"

#include <string.h>

int kt_parser_match(struct kt_parser *parser, const char *const *tags, char byte)
{
    size_t n = parser->n_part;
    int found = KT_TAG_NONE;
    parser->part[n++] = byte;
    parser->n_part = n;
    for (int i = 0; tags[i]; i++) {
        if (tags[i][0] != parser->part[0] || strncmp(tags[i], parser->part, n) != 0)
            continue;
        if (!tags[i][n]) {
            parser->n_part = 0;
            return i;
        }
        found = KT_TAG_PART;
    }
    return found;
}

char kt_parser_first(struct kt_parser *parser)
{
    size_t n = parser->n_part;
    parser->n_part = 0;
    kt_parser_unread(parser, parser->part + 1, n - 1);
    return parser->part[0];
}

int kt_parser_expect(struct kt_parser *parser, const char *const *tags, char byte)
{
    if (parser->n_part == 0 && kt_is_space(byte)) {
        kt_bytes_add(&parser->gap, &byte, 1);
        return KT_TAG_PART;
    }
    int tag = kt_parser_match(parser, tags, byte);
    if (tag == KT_TAG_NONE) {
        kt_parser_unread(parser, parser->part, parser->n_part);
        parser->n_part = 0;
    }
    return tag;
}

void kt_parser_emit_text(struct kt_parser *parser, const char *bytes, size_t length)
{
    uint32_t kind = parser->reasons ? KT_OUTPUT_REASONING : KT_OUTPUT_CONTENT;
    kt_parser_emit(parser, kind, parser->held.data, parser->held.length);
    kt_parser_emit(parser, kind, bytes, length);
    if (parser->held.length + length)
        parser->is_blank = parser->after_call = false;
    parser->held.length = 0;
}

static void clear_call(struct kt_parser *parser, kt_parser_step *step)
{
    parser->is_candidate = true;
    parser->step = step;
    parser->is_bare = parser->has_arguments = parser->arguments_done = false;
    parser->name.length = parser->id.length = parser->stash.length = parser->gap.length = 0;
    parser->header.length = 0;
}

void kt_parser_begin(struct kt_parser *parser, kt_parser_step *step)
{
    parser->in_section = parser->in_list = false;
    clear_call(parser, step);
}

void kt_parser_next(struct kt_parser *parser, kt_parser_step *step, const char *tag)
{
    parser->held.length = 0;
    kt_bytes_add(&parser->held, parser->gap.data, parser->gap.length);
    kt_bytes_add(&parser->held, tag, strlen(tag));
    clear_call(parser, step);
}

/* How many of the last bytes of a candidate may begin a tag of text. */
static size_t tag_at_end(const struct kt_parser *parser)
{
    const struct kt_bytes *held = &parser->held;
    for (size_t n = held->length > KT_PARSER_TAG ? KT_PARSER_TAG : held->length; n-- > 1;)
        for (int i = 0; parser->tags[i]; i++)
            if (strncmp(parser->tags[i], held->data + held->length - n, n) == 0)
                return n;
    return 0;
}

void kt_parser_refuse(struct kt_parser *parser)
{
    size_t n = tag_at_end(parser);
    if (n) {
        char bytes[KT_PARSER_TAG];
        memcpy(bytes, parser->held.data + parser->held.length - n, n);
        kt_parser_unread(parser, bytes, n);
    }
    parser->is_candidate = false;
    parser->step = kt_parser_text;
    kt_parser_emit_text(parser, NULL, 0);
}

void kt_parser_after_call(struct kt_parser *parser)
{
    parser->is_candidate = false;
    parser->step = kt_parser_text;
    parser->is_blank = parser->after_call = true;
    parser->held.length = 0;
    for (size_t i = 0; i < parser->gap.length; i++) /* stray brackets are text */
        if (!kt_is_space(parser->gap.data[i]))
            parser->is_blank = false;
    kt_bytes_add(&parser->held, parser->gap.data, parser->gap.length);
    if (!parser->is_blank)
        kt_parser_emit_text(parser, NULL, 0);
    parser->gap.length = 0;
}

void kt_parser_break(struct kt_parser *parser)
{
    if (parser->is_candidate) {
        kt_parser_refuse(parser);
        return;
    }
    if (parser->in_call)
        kt_parser_end_call(parser, true);
    kt_parser_after_call(parser);
}

bool kt_parser_is_name(const char *name, size_t length)
{
    if (length == 0 || length > KT_PARSER_NAME)
        return false;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)name[i] <= ' ' || strchr("<>\"'{}[](),=`\x7f", name[i]))
            return false;
    return true;
}

/* May this white space belong to the tag that follows? */
static bool holds(const struct kt_parser *parser, char byte)
{
    if (parser->family->stop[0])
        return parser->is_blank && kt_is_space(byte);
    if (parser->reasons)
        return byte == '\n';
    return kt_is_space(byte) && (parser->is_blank || parser->family->strips);
}

static void take_plain(struct kt_parser *parser, char byte)
{
    if (parser->skips_lines && byte == '\n')
        return;
    parser->skips_lines = false;
    if (parser->family->takes_bare && byte == '{' && parser->is_blank && !parser->reasons &&
        !parser->after_call) {
        kt_parser_begin(parser, kt_parser_json);
        parser->is_bare = true;
        kt_bytes_add(&parser->held, &byte, 1);
        kt_parser_unread(parser, &byte, 1);
    } else if (holds(parser, byte)) {
        kt_bytes_add(&parser->held, &byte, 1);
    } else {
        kt_parser_emit_text(parser, &byte, 1);
    }
}

/* <think> at the beginning of text, or repeated by a model whose prompt ended in it. */
static bool open_reasoning(struct kt_parser *parser)
{
    if (!parser->is_blank)
        return false;
    parser->held.length = 0;
    parser->reasons = parser->skips_lines = true;
    parser->after_call = false;
    return true;
}

/* </think>; also before any text, where the template began with it. */
static bool close_reasoning(struct kt_parser *parser)
{
    if (!parser->reasons && !parser->is_blank)
        return false;
    parser->held.length = 0;
    if (parser->reasons)
        kt_parser_end_reasoning(parser, false);
    parser->skips_lines = parser->is_blank = true;
    parser->after_call = false;
    return true;
}

static bool stop_message(struct kt_parser *parser)
{
    parser->held.length = 0;
    if (parser->reasons)
        kt_parser_end_reasoning(parser, false);
    parser->is_blank = true;
    return true;
}

void kt_parser_open(struct kt_parser *parser, int index)
{
    const char *text = parser->family->open[index];
    kt_parser_begin(parser, parser->family->begin[index]);
    kt_bytes_add(&parser->held, text, strlen(text));
    kt_bytes_add(&parser->header, text, parser->family->stop[0] ? strlen(text) : 0);
}

static bool open_call(struct kt_parser *parser, int tag)
{
    const char *text = parser->tags[tag];
    if (text[0] == ' ' && (!parser->is_blank || parser->held.length || parser->n_calls))
        return false; /* " to=" of harmony, which stands at the beginning only */
    kt_parser_open(parser, tag - parser->first_open);
    return true;
}

static bool take_tag(struct kt_parser *parser, int tag)
{
    if (tag >= parser->first_stop)
        return stop_message(parser);
    if (tag >= parser->first_open)
        return open_call(parser, tag);
    return tag == 0 ? open_reasoning(parser) : close_reasoning(parser);
}

void kt_parser_text(struct kt_parser *parser, char byte)
{
    int tag = kt_parser_match(parser, parser->tags, byte);
    if (tag == KT_TAG_PART)
        return;
    if (tag == KT_TAG_NONE) {
        take_plain(parser, kt_parser_first(parser));
    } else if (!take_tag(parser, tag)) {
        const char *text = parser->tags[tag];
        for (size_t i = 0; text[i]; i++)
            take_plain(parser, text[i]);
    }
}

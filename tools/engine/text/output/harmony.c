/* SPDX-License-Identifier: Apache-2.0 */
/* The channels of gpt-oss: <|start|>assistant<|channel|>commentary to=functions.N
 * <|constrain|>json<|message|>{..} */
#include "tools/engine/text/output/parser.h"

#include <string.h>

/* The word behind `mark` in a header, up to white space or a tag. */
static size_t word_behind(const char *header, const char *mark, const char **word)
{
    const char *at = strstr(header, mark);
    if (!at)
        return 0;
    *word = at + strlen(mark);
    return strcspn(*word, " \t\r\n<");
}

static void begin_message(struct kt_parser *parser)
{
    static const char space[] = "functions.";
    const char *header = kt_bytes_string(&parser->header), *to = NULL, *channel = NULL;
    size_t length = word_behind(header, " to=", &to);
    if (length > sizeof space - 1 && memcmp(to, space, sizeof space - 1) == 0) {
        to += sizeof space - 1;
        length -= sizeof space - 1;
    }
    if (kt_parser_is_name(to, length)) {
        kt_bytes_add(&parser->name, to, length);
        kt_parser_confirm(parser);
        kt_parser_begin_arguments(parser);
        return;
    }
    length = word_behind(header, "<|channel|>", &channel);
    if (parser->reasons)
        kt_parser_end_reasoning(parser, false);
    parser->reasons = length == 8 && memcmp(channel, "analysis", 8) == 0;
    parser->is_candidate = parser->is_blank = parser->after_call = parser->skips_lines = false;
    parser->held.length = 0;
    parser->step = kt_parser_text;
}

void kt_parser_harmony(struct kt_parser *parser, char byte)
{
    static const char *const tags[] = {"<|message|>", "<|start|>", NULL};
    int tag = kt_parser_match(parser, tags, byte);
    if (tag == KT_TAG_PART)
        return;
    if (tag == 0) {
        begin_message(parser);
    } else if (tag == 1) { /* the message has no body, and another one begins */
        kt_parser_unread(parser, tags[tag], strlen(tags[tag]));
        kt_parser_refuse(parser);
    } else {
        char first = kt_parser_first(parser);
        kt_bytes_add(&parser->header, &first, 1);
        if (parser->header.length > KT_PARSER_HEADER)
            kt_parser_refuse(parser);
    }
}

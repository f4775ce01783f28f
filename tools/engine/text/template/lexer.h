/* SPDX-License-Identifier: Apache-2.0 */
/* lexer.h - a template's source as tokens: text, and what stands within {{ }} and {% %}. */
#ifndef KT_ENGINE_TEXT_TEMPLATE_LEXER_H
#define KT_ENGINE_TEXT_TEMPLATE_LEXER_H

#include "tools/engine/text/template/machine.h"

enum jinja_token_type {
    /* operators of one character are themselves */
    JINJA_TOKEN_END = 256,
    JINJA_TOKEN_DATA,
    JINJA_TOKEN_PRINT_BEGIN, /* {{ */
    JINJA_TOKEN_PRINT_END,
    JINJA_TOKEN_BLOCK_BEGIN, /* {% */
    JINJA_TOKEN_BLOCK_END,
    JINJA_TOKEN_NAME,
    JINJA_TOKEN_STRING, /* with its quotes */
    JINJA_TOKEN_INTEGER,
    JINJA_TOKEN_REAL,
    JINJA_TOKEN_FLOOR, /* two characters */
    JINJA_TOKEN_POWER,
    JINJA_TOKEN_EQUAL,
    JINJA_TOKEN_UNEQUAL,
    JINJA_TOKEN_NOT_LESS,
    JINJA_TOKEN_NOT_MORE
};

struct jinja_token {
    uint32_t type;
    uint32_t at; /* offset in the source */
    uint32_t length;
};

struct jinja_tokens {
    struct jinja_token *list; /* the last one is JINJA_TOKEN_END */
    uint32_t n;
    uint32_t room;
};

/** Of j->chat->source, whose lines end in \n. */
struct jinja_tokens *jinja_lex(struct jinja *j);

#endif

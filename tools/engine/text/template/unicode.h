/* SPDX-License-Identifier: Apache-2.0 */
/* unicode.h - what Python knows of characters: spaces, upper and lower case, what repr shows. */
#ifndef KT_ENGINE_TEXT_TEMPLATE_UNICODE_H
#define KT_ENGINE_TEXT_TEMPLATE_UNICODE_H

#include "tools/engine/text/template/text.h"

bool jinja_is_space(uint32_t character);
bool jinja_is_printable(uint32_t character);
bool jinja_is_letter(uint32_t character);
bool jinja_is_decimal(uint32_t character); /* str.isdecimal: digits of decimal numbers */
bool jinja_is_digit(uint32_t character);   /* str.isdigit: other digits, too, such as superscripts */
bool jinja_is_numeric(uint32_t character); /* str.isnumeric: whatever has a number as its value */
bool jinja_is_cased(uint32_t character);
bool jinja_is_upper(uint32_t character);
bool jinja_is_lower(uint32_t character);

enum jinja_case {
    JINJA_UPPER,
    JINJA_LOWER,
    JINJA_TITLE,      /* str.title: a word is a run of letters that have cases */
    JINJA_CAPITALIZE, /* str.capitalize */
    JINJA_SWAP
};
const struct jinja_text *jinja_change_case(struct jinja *j, const struct jinja_text *text,
                                           enum jinja_case how);

#endif

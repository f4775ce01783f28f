/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - texts with the mark of each byte, and buffers that they are written into. */
#ifndef KT_ENGINE_TEXT_TEMPLATE_TEXT_H
#define KT_ENGINE_TEXT_TEMPLATE_TEXT_H

#include "tools/engine/text/template/value.h"

struct jinja_buffer {
    char *bytes;
    uint8_t *marks; /* NULL: all are as `content` says */
    uint64_t used;
    uint64_t room;
    bool content;
};

/* Is any of it content? */
bool jinja_has_content(const struct jinja_text *text);

/** Bytes that outlive the machine or are its own; not copied. */
const struct jinja_text *jinja_text_of(struct jinja *j, const char *bytes, uint64_t length, bool content);
/** Words of the template's side, static or the machine's own. */
const struct jinja_text *jinja_words(struct jinja *j, const char *words);
const struct jinja_text *jinja_slice(struct jinja *j, const struct jinja_text *text, uint64_t from,
                                     uint64_t to);
const struct jinja_text *jinja_join(struct jinja *j, const struct jinja_text *a, const struct jinja_text *b);
/** Without marks: for comparisons. */
bool jinja_text_is(const struct jinja_text *text, const char *words);
bool jinja_text_equal(const struct jinja_text *a, const struct jinja_text *b);
int jinja_text_compare(const struct jinja_text *a, const struct jinja_text *b);
/** Where `what` begins at or after `from`; -1: nowhere. */
int64_t jinja_find(struct jinja *j, const struct jinja_text *text, const struct jinja_text *what,
                   uint64_t from);
int64_t jinja_find_last(struct jinja *j, const struct jinja_text *text, const struct jinja_text *what,
                        uint64_t end);
/** The same with escapes of HTML, for what is added to markup. */
const struct jinja_text *jinja_escape(struct jinja *j, const struct jinja_text *text);
const struct jinja_text *jinja_as_markup(struct jinja *j, const struct jinja_text *text, bool markup);

bool jinja_mark(const struct jinja_text *text, uint64_t at);
int64_t jinja_chars(const struct jinja_text *text);
/** The byte where a character begins; `at` is 0 .. number of characters. */
uint64_t jinja_offset(const struct jinja_text *text, int64_t at);
/** The character at a byte and its size. */
uint32_t jinja_char(const struct jinja_text *text, uint64_t at, uint64_t *size);
uint64_t jinja_encode(uint32_t character, char bytes[4]);

struct jinja_buffer *jinja_buffer_new(struct jinja *j);
void jinja_add(struct jinja *j, struct jinja_buffer *buffer, const struct jinja_text *text);
void jinja_add_part(struct jinja *j, struct jinja_buffer *buffer, const struct jinja_text *text,
                    uint64_t from, uint64_t to);
void jinja_add_bytes(struct jinja *j, struct jinja_buffer *buffer, const char *bytes, uint64_t length,
                     bool content);
void jinja_add_words(struct jinja *j, struct jinja_buffer *buffer, const char *words);
void jinja_add_char(struct jinja *j, struct jinja_buffer *buffer, uint32_t character, bool content);
void jinja_add_repeated(struct jinja *j, struct jinja_buffer *buffer, const struct jinja_text *text,
                        int64_t times);
const struct jinja_text *jinja_buffer_text(struct jinja *j, struct jinja_buffer *buffer);

#endif

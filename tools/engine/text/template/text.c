/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* memmem */
#include "tools/engine/text/template/text.h"

#include <string.h>

const struct jinja_text *jinja_text_of(struct jinja *j, const char *bytes, uint64_t length, bool content)
{
    struct jinja_text *text = jinja_alloc(j, sizeof *text);
    *text = (struct jinja_text){.bytes = bytes, .length = length, .n_chars = -1, .content = content};
    return text;
}

const struct jinja_text *jinja_words(struct jinja *j, const char *words)
{
    return jinja_text_of(j, words, strlen(words), false);
}

const struct jinja_text *jinja_slice(struct jinja *j, const struct jinja_text *text, uint64_t from,
                                     uint64_t to)
{
    if (from == 0 && to == text->length)
        return text;
    if (to < from)
        to = from;
    struct jinja_text *part = jinja_alloc(j, sizeof *part);
    *part = *text;
    part->bytes = text->bytes + from;
    part->marks = text->marks ? text->marks + from : NULL;
    part->length = to - from;
    part->n_chars = text->n_chars == (int64_t)text->length ? (int64_t)(to - from) : -1;
    return part;
}

bool jinja_text_is(const struct jinja_text *text, const char *words)
{
    return text->length == strlen(words) && memcmp(text->bytes, words, text->length) == 0;
}

bool jinja_text_equal(const struct jinja_text *a, const struct jinja_text *b)
{
    return a == b || (a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0);
}

/* UTF-8 is ordered as its characters are. */
int jinja_text_compare(const struct jinja_text *a, const struct jinja_text *b)
{
    int order = memcmp(a->bytes, b->bytes, a->length < b->length ? a->length : b->length);
    if (order != 0)
        return order < 0 ? -1 : 1;
    return a->length < b->length ? -1 : a->length > b->length;
}

bool jinja_has_content(const struct jinja_text *text)
{
    return text->marks ? memchr(text->marks, 1, text->length) != NULL : text->content;
}

int64_t jinja_find(struct jinja *j, const struct jinja_text *text, const struct jinja_text *what,
                   uint64_t from)
{
    if (from > text->length || what->length > text->length - from)
        return -1;
    if (what->length == 0)
        return (int64_t)from;
    const char *found = memmem(text->bytes + from, text->length - from, what->bytes, what->length);
    uint64_t seen = found ? (uint64_t)(found - text->bytes) - from : text->length - from;
    jinja_charge(j, 8 * (what->length + seen));
    return found ? found - text->bytes : -1;
}

int64_t jinja_find_last(struct jinja *j, const struct jinja_text *text, const struct jinja_text *what,
                        uint64_t end)
{
    if (what->length > end)
        return -1;
    for (uint64_t at = end - what->length;; at--) {
        if (what->length == 0 || text->bytes[at] == what->bytes[0]) {
            jinja_charge(j, what->length);
            if (memcmp(text->bytes + at, what->bytes, what->length) == 0) {
                jinja_charge(j, end - at);
                return (int64_t)at;
            }
        }
        if (at == 0)
            break;
    }
    jinja_charge(j, end);
    return -1;
}

const struct jinja_text *jinja_escape(struct jinja *j, const struct jinja_text *text)
{
    struct jinja_buffer *out = jinja_buffer_new(j);
    uint64_t done = 0;
    for (uint64_t i = 0; i < text->length && !text->markup; i++) {
        char c = text->bytes[i];
        const char *entity = c == '&'    ? "&amp;"
                             : c == '<'  ? "&lt;"
                             : c == '>'  ? "&gt;"
                             : c == '\'' ? "&#39;"
                             : c == '"'  ? "&#34;"
                                         : NULL;
        if (!entity)
            continue;
        jinja_add_part(j, out, text, done, i);
        jinja_add_bytes(j, out, entity, strlen(entity), jinja_mark(text, i));
        done = i + 1;
    }
    jinja_add_part(j, out, text, done, text->length);
    return jinja_as_markup(j, jinja_buffer_text(j, out), true);
}

const struct jinja_text *jinja_as_markup(struct jinja *j, const struct jinja_text *text, bool markup)
{
    if (text->markup == markup)
        return text;
    struct jinja_text *copy = jinja_alloc(j, sizeof *copy);
    *copy = *text;
    copy->markup = markup;
    return copy;
}

bool jinja_mark(const struct jinja_text *text, uint64_t at)
{
    return text->marks ? text->marks[at] != 0 : text->content;
}

int64_t jinja_chars(const struct jinja_text *text)
{
    if (text->n_chars < 0) {
        int64_t n = 0;
        for (uint64_t i = 0; i < text->length; i++)
            n += ((unsigned char)text->bytes[i] & 0xc0) != 0x80;
        if (text->length == 0)
            return 0;
        /* A text belongs to one machine, and constants are counted when they are made. */
        ((struct jinja_text *)(uintptr_t)text)->n_chars = n;
    }
    return text->n_chars;
}

uint64_t jinja_offset(const struct jinja_text *text, int64_t at)
{
    if (jinja_chars(text) == (int64_t)text->length)
        return (uint64_t)at;
    uint64_t i = 0;
    for (; i < text->length; i++)
        if (((unsigned char)text->bytes[i] & 0xc0) != 0x80 && at-- == 0)
            break;
    return i;
}

uint32_t jinja_char(const struct jinja_text *text, uint64_t at, uint64_t *size)
{
    const unsigned char *b = (const unsigned char *)text->bytes + at;
    if (b[0] < 0x80) {
        *size = 1;
        return b[0];
    }
    *size = b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : 4;
    uint32_t character = b[0] & (0xffU >> (*size + 1));
    for (uint64_t i = 1; i < *size; i++)
        character = character << 6 | (b[i] & 0x3f);
    return character;
}

uint64_t jinja_encode(uint32_t c, char bytes[4])
{
    if (c < 0x80) {
        bytes[0] = (char)c;
        return 1;
    }
    uint64_t size = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (uint64_t i = size - 1; i > 0; i--, c >>= 6)
        bytes[i] = (char)(0x80 | (c & 0x3f));
    bytes[0] = (char)((0xf00U >> size & 0xf0) | c);
    return size;
}

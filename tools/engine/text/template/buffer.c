/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer.c - buffers. A text that ends where its buffer ends is made longer in place: `x = x + y` in a loop
 * takes time for what is added, not for all of x.
 */
#include "tools/engine/text/template/text.h"

#include <string.h>

struct jinja_buffer *jinja_buffer_new(struct jinja *j)
{
    return jinja_new(j, sizeof(struct jinja_buffer));
}

static void make_room(struct jinja *j, struct jinja_buffer *buffer, uint64_t more)
{
    if (buffer->used + more > j->max_output)
        jinja_raise(j, KT_E_RANGE, "makes a text of more than %llu bytes", (unsigned long long)j->max_output);
    if (more <= buffer->room - buffer->used)
        return;
    uint64_t room = buffer->used ? 2 * (buffer->used + more) : more;
    buffer->bytes = jinja_grow(j, buffer->bytes, buffer->used, room);
    if (buffer->marks)
        buffer->marks = jinja_grow(j, buffer->marks, buffer->used, room);
    buffer->room = room;
}

/* From here on, marks differ. */
static void make_marks(struct jinja *j, struct jinja_buffer *buffer)
{
    buffer->marks = jinja_alloc(j, buffer->room);
    memset(buffer->marks, buffer->content, buffer->used);
}

static void add(struct jinja *j, struct jinja_buffer *buffer, const char *bytes, uint64_t length,
                const uint8_t *marks, bool content)
{
    if (length == 0)
        return;
    jinja_charge(j, length);
    make_room(j, buffer, length);
    if (buffer->used == 0 && !marks)
        buffer->content = content;
    if (!buffer->marks && (marks || content != buffer->content))
        make_marks(j, buffer);
    memcpy(buffer->bytes + buffer->used, bytes, length);
    if (marks)
        memcpy(buffer->marks + buffer->used, marks, length);
    else if (buffer->marks)
        memset(buffer->marks + buffer->used, content, length);
    buffer->used += length;
}

void jinja_add_part(struct jinja *j, struct jinja_buffer *buffer, const struct jinja_text *text,
                    uint64_t from, uint64_t to)
{
    add(j, buffer, text->bytes + from, to - from, text->marks ? text->marks + from : NULL, text->content);
}

void jinja_add(struct jinja *j, struct jinja_buffer *buffer, const struct jinja_text *text)
{
    add(j, buffer, text->bytes, text->length, text->marks, text->content);
}

void jinja_add_bytes(struct jinja *j, struct jinja_buffer *buffer, const char *bytes, uint64_t length,
                     bool content)
{
    add(j, buffer, bytes, length, NULL, content);
}

void jinja_add_words(struct jinja *j, struct jinja_buffer *buffer, const char *words)
{
    add(j, buffer, words, strlen(words), NULL, false);
}

void jinja_add_char(struct jinja *j, struct jinja_buffer *buffer, uint32_t character, bool content)
{
    char bytes[4];
    add(j, buffer, bytes, jinja_encode(character, bytes), NULL, content);
}

void jinja_add_repeated(struct jinja *j, struct jinja_buffer *buffer, const struct jinja_text *text,
                        int64_t times)
{
    uint64_t all;
    if (times <= 0 || text->length == 0)
        return;
    if (__builtin_mul_overflow(text->length, (uint64_t)times, &all) || all > j->max_output)
        jinja_raise(j, KT_E_RANGE, "makes a text of more than %llu bytes", (unsigned long long)j->max_output);
    make_room(j, buffer, all);
    while (times-- > 0)
        jinja_add(j, buffer, text);
}

const struct jinja_text *jinja_buffer_text(struct jinja *j, struct jinja_buffer *buffer)
{
    struct jinja_text *text = jinja_alloc(j, sizeof *text);
    *text = (struct jinja_text){.bytes = buffer->bytes ? buffer->bytes : "",
                                .marks = buffer->marks,
                                .owner = buffer,
                                .length = buffer->used,
                                .n_chars = -1,
                                .content = buffer->content};
    return text;
}

const struct jinja_text *jinja_join(struct jinja *j, const struct jinja_text *a, const struct jinja_text *b)
{
    if (b->length == 0 && a->markup == b->markup)
        return a;
    struct jinja_buffer *buffer = a->owner;
    if (!buffer || a->bytes != buffer->bytes || a->length != buffer->used || a->length == 0) {
        buffer = jinja_buffer_new(j);
        make_room(j, buffer, a->length + b->length);
        jinja_add(j, buffer, a);
    }
    jinja_add(j, buffer, b);
    return jinja_as_markup(j, jinja_buffer_text(j, buffer), a->markup);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/template/machine.h"

#include "tools/engine/text/template/template.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 32 << 10,
    LEVELS = 8 /* nested nodes of the tree for each of max_depth */
};

struct jinja_chunk {
    _Alignas(16) struct jinja_chunk *next;
};

void jinja_begin(struct jinja *j, const struct kt_template *chat, uint64_t memory)
{
    memset(j, 0, sizeof *j);
    j->chat = chat;
    j->memory_left = memory;
    j->steps_left = j->max_steps = UINT64_MAX;
    j->max_output = UINT64_MAX;
    j->max_depth = 100;
}

void jinja_end(struct jinja *j)
{
    while (j->chunks) {
        struct jinja_chunk *next = j->chunks->next;
        free(j->chunks);
        j->chunks = next;
    }
    json_decref(j->json);
    j->json = NULL;
}

void *jinja_alloc(struct jinja *j, uint64_t size)
{
    size = (size + 15) & ~UINT64_C(15);
    if (size > j->free_size) {
        uint64_t room = size > CHUNK / 4 ? size : CHUNK;
        if (size > (UINT64_C(1) << 40) || room > j->memory_left)
            jinja_raise(j, KT_E_RANGE, "needs more memory than a template may use");
        struct jinja_chunk *chunk = malloc(sizeof *chunk + room);
        if (!chunk)
            jinja_raise(j, KT_E_NOMEM, "out of memory: %llu bytes", (unsigned long long)room);
        j->memory_left -= room;
        chunk->next = j->chunks;
        j->chunks = chunk;
        if (room == size)
            return chunk + 1;
        j->free_room = (char *)(chunk + 1);
        j->free_size = room;
    }
    void *memory = j->free_room;
    j->free_room += size;
    j->free_size -= size;
    return memory;
}

void *jinja_new(struct jinja *j, uint64_t size)
{
    return memset(jinja_alloc(j, size), 0, size);
}

void *jinja_grow(struct jinja *j, const void *old, uint64_t used, uint64_t room)
{
    void *memory = jinja_alloc(j, room);
    if (used)
        memcpy(memory, old, used);
    return memory;
}

/* A message is one line of UTF-8, cut where a character begins. */
static void tidy(char *text, size_t room)
{
    size_t length = strlen(text);
    if (length + 1 == room) {
        while (length && ((unsigned char)text[length - 1] & 0xc0) == 0x80)
            length--;
        if (length && (unsigned char)text[length - 1] >= 0xc0)
            length--;
        text[length] = 0;
    }
    for (char *c = text; *c; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
}

void jinja_raise(struct jinja *j, enum kt_status status, const char *format, ...)
{
    char *text = j->error.message;
    size_t room = sizeof j->error.message;
    if (j->at != JINJA_NOWHERE) {
        uint32_t line = 1, column = 1;
        for (uint32_t i = 0; i < j->at && i < j->chat->length; i++) {
            unsigned char c = (unsigned char)j->chat->source[i];
            line += c == '\n';
            column = c == '\n' ? 1 : column + ((c & 0xc0) != 0x80);
        }
        int used = snprintf(text, room, "%.200s:%u:%u: ", j->chat->name, line, column);
        text += used;
        room -= (size_t)used;
    }
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, room, format, arguments);
    va_end(arguments);
    tidy(text, room);
    j->error.status = status;
    longjmp(j->escape, 1);
}

void jinja_raise_words(struct jinja *j, enum kt_status status, const char *words, uint64_t length)
{
    size_t room = sizeof j->error.message;
    if (length >= room)
        length = room - 1;
    memcpy(j->error.message, words, length);
    j->error.message[length] = 0;
    tidy(j->error.message, room);
    j->error.status = status;
    longjmp(j->escape, 1);
}

void jinja_charge(struct jinja *j, uint64_t bytes)
{
    uint64_t steps = 1 + bytes / 64;
    if (steps > j->steps_left)
        jinja_raise(j, KT_E_RANGE, "takes more than %llu steps", (unsigned long long)j->max_steps);
    j->steps_left -= steps;
}

void jinja_enter(struct jinja *j)
{
    if (++j->depth > j->max_depth * LEVELS)
        jinja_raise(j, KT_E_RANGE, "nested more than %u levels deep", j->max_depth * LEVELS);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine.h - what parsing a template or rendering it works in: memory that is freed at once, limits, and the
 * way out of an error. Errors leave by longjmp, which is safe because nothing but the machine owns anything.
 */
#ifndef KT_ENGINE_TEXT_TEMPLATE_MACHINE_H
#define KT_ENGINE_TEXT_TEMPLATE_MACHINE_H

#include <kt/text.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdbool.h>

struct jinja_chunk;
struct jinja_scope;
struct jinja_buffer;
struct jinja_dict;

/** No place in the source: the error is about something else. */
#define JINJA_NOWHERE UINT32_MAX

struct jinja {
    /* memory */
    struct jinja_chunk *chunks;
    char *free_room;
    uint64_t free_size;
    uint64_t memory_left;
    json_t *json; /* what is being read, freed with the rest */
    /* the way out */
    jmp_buf escape;
    struct kt_error error;
    /* limits */
    uint64_t steps_left;
    uint64_t max_steps;
    uint64_t max_output;
    uint32_t depth; /* nested calls of C functions */
    uint32_t macros;
    uint32_t max_depth;
    /* rendering */
    const struct kt_template *chat;
    uint32_t at; /* the offset in the source that an error is about */
    const struct kt_render_params *params;
    struct jinja_dict *variables;
    struct jinja_scope *scope;
    struct jinja_buffer *out;
};

/** `if (setjmp(j->escape) == 0) work; jinja_end(j)`. */
void jinja_begin(struct jinja *j, const struct kt_template *chat, uint64_t memory);
void jinja_end(struct jinja *j);

/** Not cleared, aligned to 16. Raises KT_E_NOMEM, or KT_E_RANGE at the limit. */
void *jinja_alloc(struct jinja *j, uint64_t size);
/** Cleared. */
void *jinja_new(struct jinja *j, uint64_t size);
/** A copy of the first `used` bytes with room for more. */
void *jinja_grow(struct jinja *j, const void *old, uint64_t used, uint64_t room);

/** Ends the work with "NAME:LINE:COLUMN: text". */
_Noreturn void jinja_raise(struct jinja *j, enum kt_status status, const char *format, ...) KT_PRINTF(3, 4);
/** The same with these words and nothing else. */
_Noreturn void jinja_raise_words(struct jinja *j, enum kt_status status, const char *words, uint64_t length);

/** Counts a step, and one more for each 64 of `bytes`. */
void jinja_charge(struct jinja *j, uint64_t bytes);
/** Around whatever calls itself. */
void jinja_enter(struct jinja *j);
static inline void jinja_leave(struct jinja *j)
{
    j->depth--;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/tokenizer/regex.h"

#include "tools/engine/base/buffer.h"
#include "tools/engine/base/fail.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define MAX_PATTERN 65536
#define MAX_STEPS 100000000

/* ---- Oniguruma's words in PCRE2's ---- */

struct translation {
    const char *at, *end;
    struct kt_buffer out;
    bool in_class;
    struct kt_error *error;
};

/* Outside of a class, Oniguruma's words have the numbers of Latin-1 besides: superscripts and fractions. */
#define WORDS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define ALONE WORDS "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"

/* Escapes that mean something else in PCRE2. Its \s has U+180E besides, its \w lacks marks, and \h are
 * blanks. */
static const struct {
    char letter;
    const char *outside, *inside; /* of a class */
} escapes[] = {
    {'s', "[\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}]",
     "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"},
    {'S',
     "[^\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}]",
     "\\P{White_Space}"},
    {'w', "[" ALONE "]", WORDS},
    {'W', "[^" ALONE "]", NULL},
    {'b', "(?:(?<=[" ALONE "])(?![" ALONE "])|(?<![" ALONE "])(?=[" ALONE "]))", "\\x{8}"},
    {'B', "(?:(?<=[" ALONE "])(?=[" ALONE "])|(?<![" ALONE "])(?![" ALONE "]))", NULL},
    {'h', "[0-9A-Fa-f]", "0-9A-Fa-f"},
    {'H', "[^0-9A-Fa-f]", NULL},
};

/* Is it the name of a script? */
static bool is_script(const char *name, size_t length)
{
    char pattern[64];
    int code, n = snprintf(pattern, sizeof(pattern), "\\p{sc:%.*s}", length < 40 ? (int)length : 0, name);
    PCRE2_SIZE place;
    pcre2_code *script = pcre2_compile((PCRE2_SPTR)pattern, (PCRE2_SIZE)n, PCRE2_UTF, &code, &place, NULL);
    pcre2_code_free(script);
    return script != NULL;
}

/* "\p{Han}": the characters of a script. To PCRE2 they are those that are used with it, too. */
static enum kt_status copy_property(struct translation *t)
{
    const char *name = t->at + 3, *close = memchr(name, '}', (size_t)(t->end - name));
    if (close && *name == '^')
        name++;
    bool taken = kt_buffer_add(&t->out, t->at, (size_t)(name - t->at));
    if (taken && close && is_script(name, (size_t)(close - name)))
        taken = kt_buffer_add_text(&t->out, "sc:");
    t->at = name;
    return taken ? KT_OK : KT_E_NOMEM;
}

static enum kt_status copy_escape(struct translation *t)
{
    if (t->end - t->at < 2)
        return kt_engine_fail(t->error, KT_E_FORMAT, "the regular expression ends with a backslash");
    char letter = t->at[1];
    if ((letter == 'p' || letter == 'P') && t->end - t->at > 3 && t->at[2] == '{')
        return copy_property(t);
    for (size_t i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++) {
        if (escapes[i].letter != letter)
            continue;
        const char *text = t->in_class ? escapes[i].inside : escapes[i].outside;
        if (!text)
            return kt_engine_fail(t->error, KT_E_UNSUPPORTED, "\\%c in a class of a regular expression",
                                  letter);
        t->at += 2;
        return kt_buffer_add_text(&t->out, text) ? KT_OK : KT_E_NOMEM;
    }
    bool taken = kt_buffer_add(&t->out, t->at, 2);
    t->at += 2;
    return taken ? KT_OK : KT_E_NOMEM;
}

/* The flags of "(?im-x:": Oniguruma's m lets a point match line ends, which is PCRE2's s. */
static enum kt_status copy_flags(struct translation *t)
{
    bool taken = kt_buffer_add(&t->out, "(?", 2);
    for (t->at += 2; taken && t->at < t->end && (isalpha((unsigned char)*t->at) || *t->at == '-'); t->at++)
        taken = kt_buffer_add(&t->out, *t->at == 'm' ? "s" : t->at, 1);
    return taken ? KT_OK : KT_E_NOMEM;
}

static enum kt_status copy_class(struct translation *t)
{
    if (*t->at == '[' && t->end - t->at > 1 && t->at[1] == ':') { /* [:alpha:] */
        const char *close = memchr(t->at, ']', (size_t)(t->end - t->at));
        size_t length = close ? (size_t)(close - t->at) + 1 : 1;
        bool taken = kt_buffer_add(&t->out, t->at, length);
        t->at += length;
        return taken ? KT_OK : KT_E_NOMEM;
    }
    if (*t->at == '[' || (*t->at == '&' && t->end - t->at > 1 && t->at[1] == '&'))
        return kt_engine_fail(t->error, KT_E_UNSUPPORTED, "'%s' in a class of a regular expression",
                              *t->at == '[' ? "[" : "&&");
    t->in_class = *t->at != ']';
    return kt_buffer_add(&t->out, t->at++, 1) ? KT_OK : KT_E_NOMEM;
}

static enum kt_status translate(struct translation *t)
{
    enum kt_status status = KT_OK;
    while (status == KT_OK && t->at < t->end) {
        if (*t->at == '\\') {
            status = copy_escape(t);
        } else if (t->in_class) {
            status = copy_class(t);
        } else if (*t->at == '(' && t->end - t->at > 2 && t->at[1] == '?' &&
                   isalpha((unsigned char)t->at[2])) {
            status = copy_flags(t);
        } else {
            size_t length = 1;
            if (*t->at == '[') { /* "[^" and "[]" go with their bracket */
                t->in_class = true;
                length += t->end - t->at > 1 && t->at[1] == '^';
                length += (size_t)(t->end - t->at) > length && t->at[length] == ']';
            }
            status = kt_buffer_add(&t->out, t->at, length) ? KT_OK : KT_E_NOMEM;
            t->at += length;
        }
    }
    return status;
}

/* ---- compiling ---- */

static enum kt_status compile(const struct kt_buffer *pattern, struct kt_regex *regex, struct kt_error *error)
{
    int code;
    PCRE2_SIZE place;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a regular expression");
    (void)pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    /* Oniguruma's ^ and $ are those of lines. */
    regex->code = pcre2_compile((PCRE2_SPTR)pattern->data, pattern->length,
                                PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code,
                                &place, context);
    pcre2_compile_context_free(context);
    if (!regex->code) {
        PCRE2_UCHAR message[160];
        if (code == PCRE2_ERROR_NOMEMORY)
            return kt_engine_fail(error, KT_E_NOMEM, "no memory for a regular expression");
        (void)pcre2_get_error_message(code, message, sizeof(message));
        return kt_engine_fail(error, KT_E_UNSUPPORTED, "the regular expression %.300s: %s at byte %zu",
                              pattern->data, (const char *)message, (size_t)place);
    }
    regex->is_compiled = pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE) == 0;
    return KT_OK;
}

enum kt_status kt_regex_create(const char *pattern, size_t length, struct kt_regex *regex,
                               struct kt_error *error)
{
    struct translation t = {.at = pattern, .end = pattern + length, .error = error};
    *regex = (struct kt_regex){.code = NULL};
    if (length > MAX_PATTERN)
        return kt_engine_fail(error, KT_E_UNSUPPORTED, "a regular expression of %zu bytes, more than %d",
                              length, MAX_PATTERN);
    enum kt_status status = translate(&t);
    if (status == KT_OK)
        status = kt_buffer_add_text(&t.out, "") ? compile(&t.out, regex, error) : KT_E_NOMEM;
    kt_buffer_free(&t.out);
    if (status == KT_E_NOMEM)
        return kt_engine_fail(error, status, "no memory for a regular expression");
    return status;
}

void kt_regex_free(struct kt_regex *regex)
{
    pcre2_code_free(regex->code);
    *regex = (struct kt_regex){.code = NULL};
}

/* ---- matching ---- */

bool kt_regex_room_create(struct kt_regex_room *room)
{
    room->data = pcre2_match_data_create(1, NULL);
    room->context = pcre2_match_context_create(NULL);
    room->stack = pcre2_jit_stack_create(32768, 8388608, NULL);
    if (!room->data || !room->context) {
        kt_regex_room_free(room);
        return false;
    }
    (void)pcre2_set_match_limit(room->context, MAX_STEPS);
    if (room->stack) /* NULL where there is no compiler: pcre2_match does without */
        pcre2_jit_stack_assign(room->context, NULL, room->stack);
    return true;
}

void kt_regex_room_free(struct kt_regex_room *room)
{
    pcre2_match_data_free(room->data);
    pcre2_match_context_free(room->context);
    pcre2_jit_stack_free(room->stack);
    *room = (struct kt_regex_room){.data = NULL};
}

enum kt_status kt_regex_find(const struct kt_regex *regex, struct kt_regex_room *room, const char *text,
                             size_t length, size_t at, bool *found, size_t *begin, size_t *end,
                             struct kt_error *error)
{
    int result = PCRE2_ERROR_JIT_STACKLIMIT;
    if (regex->is_compiled)
        result = pcre2_jit_match(regex->code, (PCRE2_SPTR)text, length, at, 0, room->data, room->context);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT || result == PCRE2_ERROR_JIT_BADOPTION)
        result = pcre2_match(regex->code, (PCRE2_SPTR)text, length, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                             room->data, room->context);
    *found = result >= 0;
    if (*found) {
        const PCRE2_SIZE *places = pcre2_get_ovector_pointer(room->data);
        *begin = places[0];
        *end = places[1] > places[0] ? places[1] : places[0]; /* \K may have turned them round */
        return KT_OK;
    }
    if (result == PCRE2_ERROR_NOMATCH)
        return KT_OK;
    if (result == PCRE2_ERROR_NOMEMORY || result == PCRE2_ERROR_HEAPLIMIT)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory to match a regular expression");
    return kt_engine_fail(
        error, KT_E_RANGE,
        "the tokenizer's regular expression requires too many steps at byte %zu of %zu (PCRE2: %d)", at,
        length, result);
}

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

/* ---- classes ---- */

#define MAX_DEPTH 8

/* A class at work: Oniguruma's may have classes within, [a[bc]], and parts that all must hold, [a-z&&[^b]].
 */
struct class
{
    struct kt_buffer flat;   /* what is no class, of the last part */
    struct kt_buffer nested; /* classes of the last part, each behind a bar */
    struct kt_buffer before; /* parts before the last one, as looks ahead */
    bool is_negated;
};

static void free_class(struct class *class)
{
    kt_buffer_free(&class->flat);
    kt_buffer_free(&class->nested);
    kt_buffer_free(&class->before);
}

/* The last part as an expression for one character. */
static bool write_part(const struct class *class, struct kt_buffer *out)
{
    const struct kt_buffer *flat = &class->flat, *nested = &class->nested;
    bool has_flat = flat->length > 0, taken = kt_buffer_add(out, "(?:", 3);
    if (has_flat)
        taken = taken && kt_buffer_add(out, *flat->data == '^' ? "[\\" : "[", *flat->data == '^' ? 2 : 1) &&
                kt_buffer_add(out, flat->data, flat->length) && kt_buffer_add(out, "]", 1);
    if (nested->length > 0)
        taken = taken && kt_buffer_add(out, nested->data + !has_flat, nested->length - !has_flat);
    return taken && kt_buffer_add(out, ")", 1);
}

static bool write_class(const struct class *class, struct kt_buffer *out)
{
    if (class->nested.length == 0 && class->before.length == 0)
        return kt_buffer_add(out, "[^", class->is_negated ? 2 : 1) &&
               kt_buffer_add(out, class->flat.data ? class->flat.data : "", class->flat.length) &&
               kt_buffer_add(out, "]", 1);
    return kt_buffer_add_text(out, class->is_negated ? "(?:(?!" : "(?:") &&
           kt_buffer_add(out, class->before.data ? class->before.data : "", class->before.length) &&
           write_part(class, out) && kt_buffer_add_text(out, class->is_negated ? ")(?s:.))" : ")");
}

/* "&&": what was read must hold, and what follows, too. */
static enum kt_status end_part(struct translation *t, struct class *class)
{
    if (class->flat.length + class->nested.length == 0)
        return kt_engine_fail(t->error, KT_E_UNSUPPORTED,
                              "'&&' behind nothing in a class of a regular expression");
    if (!(kt_buffer_add(&class->before, "(?=", 3) && write_part(class, &class->before) &&
          kt_buffer_add(&class->before, ")", 1)))
        return KT_E_NOMEM;
    class->flat.length = class->nested.length = 0;
    t->at += 2;
    return KT_OK;
}

static bool is_at(const struct translation *t, const char *pair)
{
    return t->end - t->at > 1 && t->at[0] == pair[0] && t->at[1] == pair[1];
}

static enum kt_status copy_class(struct translation *t, int depth);

/* What stands in a class next. */
static enum kt_status copy_member(struct translation *t, struct class *class, int depth)
{
    struct kt_buffer outer = t->out;
    enum kt_status status = KT_OK;
    bool is_nested = *t->at == '[' && !is_at(t, "[:");
    if (is_at(t, "&&"))
        return end_part(t, class);
    if (is_nested && class->flat.length > 0 && class->flat.data[class->flat.length - 1] == '-')
        return kt_engine_fail(t->error, KT_E_UNSUPPORTED,
                              "'-' before a class in one of a regular expression");
    if (is_nested && !kt_buffer_add(&class->nested, "|", 1))
        return KT_E_NOMEM;
    t->out = is_nested ? class->nested : class->flat;
    if (is_nested) {
        status = copy_class(t, depth + 1);
    } else if (*t->at == '\\') {
        status = copy_escape(t);
    } else {
        const char *close = is_at(t, "[:") ? memchr(t->at, ']', (size_t)(t->end - t->at)) : NULL;
        size_t length = close ? (size_t)(close - t->at) + 1 : 1; /* [:alpha:] */
        status = kt_buffer_add(&t->out, t->at, length) ? KT_OK : KT_E_NOMEM;
        t->at += length;
    }
    *(is_nested ? &class->nested : &class->flat) = t->out;
    t->out = outer;
    return status;
}

/* From its bracket on. */
static enum kt_status copy_class(struct translation *t, int depth)
{
    struct class class = {.is_negated = is_at(t, "[^")};
    enum kt_status status = KT_OK;
    if (depth > MAX_DEPTH)
        return kt_engine_fail(t->error, KT_E_UNSUPPORTED,
                              "classes within classes of a regular expression, more than %d", MAX_DEPTH);
    t->at += class.is_negated ? 2 : 1;
    t->in_class = true;
    if (t->at < t->end && *t->at == ']') { /* "[]" and "[^]" go with their bracket */
        status = kt_buffer_add(&class.flat, "]", 1) ? KT_OK : KT_E_NOMEM;
        t->at++;
    }
    while (status == KT_OK && t->at < t->end && *t->at != ']')
        status = copy_member(t, &class, depth);
    if (status == KT_OK && t->at == t->end)
        status = kt_engine_fail(t->error, KT_E_FORMAT, "a class of the regular expression has no end");
    else if (status == KT_OK && class.before.length > 0 && class.flat.length + class.nested.length == 0)
        status = kt_engine_fail(t->error, KT_E_UNSUPPORTED,
                                "nothing behind '&&' in a class of a regular expression");
    else if (status == KT_OK && !write_class(&class, &t->out))
        status = KT_E_NOMEM;
    t->at += status == KT_OK;
    t->in_class = depth > 1;
    free_class(&class);
    return status;
}

/* ---- all of it ---- */

static enum kt_status translate(struct translation *t)
{
    enum kt_status status = KT_OK;
    while (status == KT_OK && t->at < t->end) {
        if (*t->at == '\\') {
            status = copy_escape(t);
        } else if (*t->at == '[') {
            status = copy_class(t, 1);
        } else if (*t->at == '(' && t->end - t->at > 2 && t->at[1] == '?' &&
                   isalpha((unsigned char)t->at[2])) {
            status = copy_flags(t);
        } else {
            status = kt_buffer_add(&t->out, t->at, 1) ? KT_OK : KT_E_NOMEM;
            t->at++;
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

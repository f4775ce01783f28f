/* SPDX-License-Identifier: Apache-2.0 */
/*
 * look.c - regular expressions that look ahead from the beginning of a text: ^(?=a)(?!b)c is found where ^c
 * and ^(?:a) are and ^(?:b) is not. Which of several expressions are found in a text is what keys.c computes.
 */
#include "tools/engine/grammar/keys.h"
#include "tools/engine/grammar/pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct looked {
    json_t *parts; /* expressions, and what is asked of each */
    uint32_t next;
    bool is_met; /* by any text */
};

static bool looks_ahead(const char *text)
{
    return strncmp(text, "(?=", 3) == 0 || strncmp(text, "(?!", 3) == 0;
}

/* Up to a bar or the bracket that closes, outside of what brackets open here; the end of the text if there is
 * none. */
static const char *find_end(const char *text)
{
    unsigned depth = 0;
    bool in_class = false;
    for (; *text; text++) {
        if (*text == '\\' && text[1])
            text++;
        else if (in_class || *text == '[')
            in_class = *text != ']';
        else if (*text == '(')
            depth++;
        else if (*text == ')' && depth > 0)
            depth--;
        else if (depth == 0 && (*text == '|' || *text == ')'))
            break;
    }
    return text;
}

/* Where a group ends that begins at `text`; NULL: nowhere. */
static const char *find_bracket(const char *text)
{
    const char *end = find_end(text);
    while (*end == '|')
        end = find_end(end + 1);
    return *end == ')' ? end : NULL;
}

/* Whether a pattern is from ^ to $, and has no other alternative. */
static bool is_whole(const char *pattern)
{
    size_t n = strlen(pattern), escapes = 0;
    while (escapes + 2 <= n && pattern[n - 2 - escapes] == '\\')
        escapes++;
    return n >= 2 && pattern[0] == '^' && pattern[n - 1] == '$' && escapes % 2 == 0 && !*find_end(pattern);
}

char *kt_regex_whole(const char *pattern)
{
    const char *at = pattern + (*pattern == '^');
    size_t size = strlen(pattern) + 8;
    char *made = malloc(size);
    if (!made || is_whole(pattern)) {
        if (made)
            (void)snprintf(made, size, "%s", pattern);
        return made;
    }
    (void)snprintf(made, size, "^%s", at);
    const char *rest = at;
    while (kt_regex_looks_ahead(made) && looks_ahead(rest))
        rest = find_bracket(rest + 3) + 1;
    at = rest > at ? at : pattern; /* which may have other alternatives */
    rest = rest > at ? rest : pattern;
    (void)snprintf(made, size, "^%.*s(?:%s)$", (int)(rest - at), at, rest);
    return made;
}

bool kt_regex_looks_ahead(const char *pattern)
{
    const char *at = pattern + 1;
    if (*pattern != '^' || !looks_ahead(at))
        return false;
    while (at && looks_ahead(at)) {
        at = find_bracket(at + 3);
        at = at ? at + 1 : NULL;
    }
    return at && *find_end(at) == '\0';
}

/* "^(?:text)", or "^text". */
static bool add_part(struct kt_form_reader *reader, json_t *parts, const char *text, size_t n, bool is_group,
                     int asked)
{
    char *part = malloc(n + 8);
    if (!part)
        return kt_form_no_memory(reader);
    (void)snprintf(part, n + 8, is_group ? "^(?:%.*s)" : "^%.*s", (int)n, text);
    asked |= (int)json_integer_value(json_object_get(parts, part));
    bool done = json_object_set_new(parts, part, json_integer(asked)) == 0;
    free(part);
    return done || kt_form_no_memory(reader);
}

/* Where a text goes on in which these expressions are found. */
static uint32_t judge(void *data, uint32_t bits)
{
    struct looked *looked = data;
    const char *part;
    json_t *asked;
    uint32_t i = 0;
    json_object_foreach (looked->parts, part, asked) {
        if (json_integer_value(asked) & (bits >> i & 1 ? KT_TEXT_NOT_FOUND : KT_TEXT_FOUND))
            return 0;
        i++;
    }
    looked->is_met = true;
    return looked->next;
}

/* Adds what an expression that looks ahead asks for. */
static bool take_apart(struct kt_form_reader *reader, json_t *parts, const char *pattern)
{
    const char *at = pattern + 1;
    bool done = true;
    while (done && looks_ahead(at)) {
        const char *end = find_bracket(at + 3);
        done = add_part(reader, parts, at + 3, (size_t)(end - at) - 3, true,
                        at[2] == '=' ? KT_TEXT_FOUND : KT_TEXT_NOT_FOUND);
        at = end + 1;
    }
    return done && add_part(reader, parts, at, strlen(at), false, KT_TEXT_FOUND);
}

json_t *kt_form_parts(struct kt_form_reader *reader, const json_t *texts, const struct kt_place *place)
{
    json_t *parts = json_object(), *asked;
    const char *text;
    bool done = parts || kt_form_no_memory(reader);
    json_object_foreach ((json_t *)(uintptr_t)texts, text, asked) {
        json_int_t bits = json_integer_value(asked) | json_integer_value(json_object_get(parts, text));
        if (!done)
            break;
        if (!kt_regex_looks_ahead(text))
            done = json_object_set_new(parts, text, json_integer(bits)) == 0 || kt_form_no_memory(reader);
        else if (bits == KT_TEXT_FOUND)
            done = take_apart(reader, parts, text);
        else
            done = kt_form_fail(reader, KT_E_UNSUPPORTED, place,
                                "'not' of the pattern '%.60s', which looks ahead, is not supported", text);
    }
    if (done)
        return parts;
    json_decref(parts);
    return NULL;
}

uint32_t kt_form_looked(struct kt_form_reader *reader, const json_t *texts, const json_t *excluded,
                        const struct kt_place *place, uint32_t min, uint32_t max, uint32_t next)
{
    struct looked looked = {kt_form_parts(reader, texts, place), next, false};
    struct kt_form_keys *keys =
        looked.parts ? kt_form_keys_open(reader, looked.parts, place, NULL, min, max) : NULL;
    const json_t *one;
    size_t i;
    bool done = keys != NULL;
    json_array_foreach (excluded, i, one) {
        if (json_is_string(one))
            done = done && kt_form_keys_leave_out(keys, json_string_value(one));
    }
    uint32_t op = done ? kt_form_keys_write(keys, judge, &looked) : 0;
    kt_form_keys_free(keys);
    json_decref(looked.parts);
    return looked.is_met ? op : 0;
}

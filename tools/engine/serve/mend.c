/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mend.c - what an answer was cut off in, by max_tokens or by a stop, comes back with the next turn, and must
 * not end the conversation.
 */
#include "tools/engine/serve/mend.h"
#include "tools/engine/base/big.h"
#include "tools/engine/base/buffer.h"

#include <string.h>

#define MOST_DEPTH 64 /* templates take stack for each level */

/* What is read, and the same with its ends. */
struct mend {
    const char *text;
    size_t length, at;
    struct kt_buffer out;
    bool has_memory;
};

enum found {
    WHOLE,
    CUT,  /* the text ended; what was written is whole nevertheless */
    LOST, /* the text ended, and nothing can be made of it */
    BAD   /* no JSON */
};

static enum found read_value(struct mend *m, unsigned depth);

static void put(struct mend *m, const char *bytes, size_t length)
{
    m->has_memory = m->has_memory && kt_buffer_add(&m->out, bytes, length);
}

static bool is_over(struct mend *m)
{
    while (m->at < m->length && strchr(" \t\r\n", m->text[m->at]) && m->text[m->at])
        m->at++;
    return m->at == m->length;
}

/* A backslash and what follows it; false: that is missing. */
static bool put_escape(struct mend *m)
{
    size_t left = m->length - m->at;
    char next = left > 1 ? m->text[m->at + 1] : '\0';
    size_t n = next == 'u' ? 6 : 2;
    if (left < n && (left == 1 || next == 'u'))
        return false;
    bool is_known = next && strchr("\"\\/bfnrtu", next);
    if (is_known)
        put(m, m->text + m->at, n);
    else
        put(m, "\\\\", 2); /* models write \d and \' */
    m->at += is_known ? n : 1;
    return true;
}

static enum found read_string(struct mend *m)
{
    static const char digits[] = "0123456789abcdef";
    put(m, "\"", 1);
    for (m->at++; m->at < m->length && m->text[m->at] != '"';) {
        unsigned char byte = (unsigned char)m->text[m->at];
        const char escape[] = {'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]};
        if (byte == '\\') {
            if (!put_escape(m))
                break;
            continue;
        }
        if (byte < ' ')
            put(m, escape, sizeof(escape));
        else
            put(m, m->text + m->at, 1);
        m->at++;
    }
    bool is_whole = m->at < m->length && m->text[m->at] == '"';
    put(m, "\"", 1);
    m->at = is_whole ? m->at + 1 : m->length;
    return is_whole ? WHOLE : CUT;
}

/* A number or a word. */
static enum found read_plain(struct mend *m)
{
    static const char *const words[] = {"true", "false", "null"};
    const char *from = m->text + m->at;
    size_t n = 0, left = m->length - m->at;
    while (n < left && from[n] && strchr("abcdefghijklmnopqrstuvwxyzE0123456789+-.", from[n]))
        n++;
    bool is_last = n == left;
    for (size_t i = 0; n > 0 && i < sizeof(words) / sizeof(words[0]); i++) {
        if (strlen(words[i]) == n ? memcmp(words[i], from, n) == 0
                                  : is_last && n < strlen(words[i]) && memcmp(words[i], from, n) == 0) {
            m->at += n;
            put(m, from, strlen(words[i]) == n ? n : 0);
            return strlen(words[i]) == n ? WHOLE : LOST;
        }
    }
    size_t kept = n;
    while (is_last && kept > 0 && !kt_json_is_number(from, kept) && strchr("eE+-.", from[kept - 1]))
        kept--;
    if (n == 0 || (kept > 0 && !kt_json_is_number(from, kept)))
        return BAD;
    m->at += n;
    put(m, from, kept);
    return kept == 0 ? LOST : is_last ? CUT : WHOLE;
}

/* What stands between brackets, with its closing one. */
static enum found read_members(struct mend *m, unsigned depth, bool is_object)
{
    char close = is_object ? '}' : ']';
    enum found found = CUT;
    put(m, is_object ? "{" : "[", 1);
    m->at++;
    for (size_t n = 0;; n++) {
        size_t before = m->out.length;
        if (is_over(m))
            break;
        if (n == 0 ? m->text[m->at] == close : m->text[m->at] == close && found == WHOLE) {
            m->at++;
            put(m, &close, 1);
            return WHOLE;
        }
        if (n > 0 && m->text[m->at++] != ',')
            return BAD;
        found = LOST;
        if (is_over(m))
            break;
        if (n > 0)
            put(m, ",", 1);
        if (is_object) {
            if (m->text[m->at] != '"')
                return BAD;
            found = read_string(m);
            found = found == WHOLE && !is_over(m) ? WHOLE : LOST;
            if (found == WHOLE && m->text[m->at++] != ':')
                return BAD;
            put(m, ":", 1);
            found = found == WHOLE && !is_over(m) ? read_value(m, depth + 1) : LOST;
        } else {
            found = read_value(m, depth + 1);
        }
        if (found == LOST)
            m->out.length = before;
        if (found != WHOLE)
            break;
    }
    if (found == BAD)
        return BAD;
    put(m, &close, 1);
    return CUT;
}

static enum found read_value(struct mend *m, unsigned depth)
{
    char first = m->text[m->at];
    if (first == '"')
        return read_string(m);
    if (first != '{' && first != '[')
        return read_plain(m);
    return depth < MOST_DEPTH ? read_members(m, depth, first == '{') : BAD;
}

/* *object is NULL where the text is none, whole or cut. False: no memory. */
static bool read_object(const char *text, size_t length, json_t **object)
{
    struct mend m = {.text = text, .length = length, .has_memory = true};
    json_error_t where;
    *object = NULL;
    if (!is_over(&m) && text[m.at] == '{' && read_value(&m, 0) != BAD && m.has_memory) {
        *object = kt_json_read(m.out.data, m.out.length, JSON_ALLOW_NUL, &where);
        m.has_memory = *object || *where.text;
    }
    kt_buffer_free(&m.out);
    return m.has_memory;
}

/* A member of `given`, or none at all. */
static json_t *wrap(json_t *given)
{
    const char *text = json_string_value(given);
    size_t blanks = text ? strspn(text, " \t\r\n") : 0;
    bool is_none =
        !given || json_is_null(given) || (text && (!text[blanks] || strcmp(text + blanks, "null") == 0));
    return is_none ? json_object() : json_pack("{s:O}", "arguments", given);
}

json_t *kt_mend_arguments(json_t *arguments)
{
    json_t *object = NULL, *inner = NULL;
    json_error_t where;
    if (json_is_object(arguments) && !kt_json_big(arguments))
        return json_incref(arguments);
    if (!json_is_string(arguments))
        return wrap(arguments);
    const char *text = json_string_value(arguments);
    size_t length = json_string_length(arguments);
    if (!read_object(text, length, &object))
        return NULL;
    if (object)
        return object;
    /* An object in a string in a string. */
    if (text[strspn(text, " \t\r\n")] == '"' &&
        (inner = kt_json_read(text, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &where)) != NULL &&
        !read_object(json_string_value(inner), json_string_length(inner), &object)) {
        json_decref(inner);
        return NULL;
    }
    json_decref(inner);
    return object ? object : wrap(arguments);
}

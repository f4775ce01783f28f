/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/tokenizer/merges_text.h"

#include "tools/engine/text/utf8.h"

#include <string.h>

/* ---- where they stand ---- */

struct span {
    const char *at, *end;
};

static void skip_space(struct span *span)
{
    while (span->at < span->end &&
           (*span->at == ' ' || *span->at == '\n' || *span->at == '\r' || *span->at == '\t'))
        span->at++;
}

static bool skip_byte(struct span *span, char byte)
{
    skip_space(span);
    if (span->at == span->end || *span->at != byte)
        return false;
    span->at++;
    return true;
}

/* Behind the closing quote of a string; false: it has none. */
static bool skip_string(struct span *span)
{
    for (span->at++; span->at < span->end; span->at++) {
        if (*span->at == '"') {
            span->at++;
            return true;
        }
        if (*span->at == '\\')
            span->at++;
    }
    return false;
}

/* Behind a value, whose brackets are counted only: what was cut and what is left are parsed each. */
static bool skip_value(struct span *span)
{
    size_t depth = 0;
    while (span->at < span->end) {
        char byte = *span->at;
        if (byte == '"') {
            if (!skip_string(span))
                return false;
            continue;
        }
        if ((byte == ',' || byte == '}' || byte == ']') && depth == 0)
            return true;
        depth += byte == '{' || byte == '[';
        depth -= byte == '}' || byte == ']';
        span->at++;
    }
    return false;
}

/* The value of a key that an object has once. */
static bool find_member(struct span object, const char *name, struct span *value)
{
    size_t length = strlen(name), n = 0;
    bool goes_on = skip_byte(&object, '{');
    while (goes_on) {
        skip_space(&object);
        const char *key = object.at + 1;
        if (object.at == object.end || *object.at != '"' || !skip_string(&object))
            return false;
        bool is_it = (size_t)(object.at - key) == length + 1 && memcmp(key, name, length) == 0;
        if (!skip_byte(&object, ':'))
            return false;
        skip_space(&object);
        const char *from = object.at;
        if (!skip_value(&object))
            return false;
        if (is_it)
            *value = (struct span){from, object.at};
        n += is_it;
        goes_on = skip_byte(&object, ',');
    }
    return n == 1;
}

/* ---- the rest as a tree ---- */

struct pieces {
    struct span parts[3];
    int part;
};

static size_t give(void *out, size_t size, void *data)
{
    struct pieces *pieces = data;
    while (pieces->part < 3 && pieces->parts[pieces->part].at == pieces->parts[pieces->part].end)
        pieces->part++;
    if (pieces->part == 3)
        return 0;
    struct span *span = &pieces->parts[pieces->part];
    size_t left = (size_t)(span->end - span->at);
    size_t n = left < size ? left : size;
    memcpy(out, span->at, n);
    span->at += n;
    return n;
}

bool kt_merges_text_cut(const char *text, size_t length, json_t **root, struct kt_merges_text *merges,
                        json_error_t *place)
{
    static const char stand_in[] = "0";
    const char *end = text + length;
    struct span model, found;
    place->text[0] = '\0';
    if (!find_member((struct span){text, end}, "model", &model) || !find_member(model, "merges", &found) ||
        *found.at != '[')
        return false;
    struct pieces pieces = {{{text, found.at}, {stand_in, stand_in + 1}, {found.end, end}}, 0};
    *root = json_load_callback(give, &pieces, JSON_ALLOW_NUL, place);
    if (!*root)
        return false;
    const json_t *cut = json_object_get(json_object_get(*root, "model"), "merges");
    if (json_is_integer(cut)) { /* else an escaped key says the same, and counts */
        *merges = (struct kt_merges_text){found.at, (size_t)(found.end - found.at)};
        return true;
    }
    json_decref(*root);
    *root = NULL;
    return false;
}

/* ---- one by one ---- */

size_t kt_merges_count(const struct kt_merges_text *merges)
{
    struct span span = {merges->text, merges->text + merges->length};
    size_t n = 0;
    for (const char *at = span.at; at < span.end; at++)
        n += *at == '"';
    return skip_byte(&span, '[') && skip_byte(&span, '[') ? n / 4 : n / 2;
}

bool kt_merge_sides_split(const char *text, size_t length, struct kt_merge_sides *sides)
{
    const char *space = length > 0 ? memchr(text + 1, ' ', length - 1) : NULL;
    if (!space)
        return false;
    *sides =
        (struct kt_merge_sides){text, space + 1, (size_t)(space - text), length - (size_t)(space - text) - 1};
    return true;
}

/* The characters that vocabularies escape: quotes, backslashes, and where Python's json.dump was let, all
 * that is not ASCII. */
static bool read_escape(struct span *span, char *out, size_t *n)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    uint32_t code = 0;
    if (span->end - span->at < 6)
        return false;
    char byte = span->at[1];
    if (byte == '"' || byte == '\\') {
        span->at += 2;
        out[(*n)++] = byte;
        return true;
    }
    for (int i = 2; i < 6; i++) {
        const char *digit = memchr(digits, span->at[i], sizeof(digits) - 1);
        if (!digit)
            return false;
        code = code << 4 | ((uint32_t)(digit - digits) & 15);
    }
    if (byte != 'u' || code == 0 || (code >= 0xD800 && code < 0xE000))
        return false;
    span->at += 6;
    *n += kt_utf8_write(code, out + *n);
    return true;
}

static bool read_string(struct span *span, char *out, size_t size, size_t *n)
{
    *n = 0;
    if (!skip_byte(span, '"'))
        return false;
    while (span->at < span->end && *n + 4 <= size) {
        if (*span->at == '"') {
            span->at++;
            return true;
        }
        if ((unsigned char)*span->at < 0x20)
            return false;
        if (*span->at != '\\')
            out[(*n)++] = *span->at++;
        else if (!read_escape(span, out, n))
            return false;
    }
    return false;
}

static bool read_merge(struct span *span, char *room, size_t size, struct kt_merge_sides *sides)
{
    size_t n;
    if (!skip_byte(span, '['))
        return read_string(span, room, size, &n) && kt_merge_sides_split(room, n, sides);
    sides->left = room;
    sides->right = room + size / 2;
    return read_string(span, room, size / 2, &sides->left_length) && skip_byte(span, ',') &&
           read_string(span, room + size / 2, size / 2, &sides->right_length) && skip_byte(span, ']');
}

enum kt_merges_read kt_merges_read(struct kt_merges_reader *reader, char *room, size_t size,
                                   struct kt_merge_sides *sides)
{
    struct span span = {reader->at, reader->end};
    bool is_first = !reader->is_begun;
    reader->is_begun = true;
    if (is_first && !skip_byte(&span, '['))
        return KT_MERGES_UNUSUAL;
    if (skip_byte(&span, ']')) {
        skip_space(&span);
        return span.at == span.end ? KT_MERGES_END : KT_MERGES_UNUSUAL;
    }
    if (!is_first && !skip_byte(&span, ','))
        return KT_MERGES_UNUSUAL;
    if (!read_merge(&span, room, size, sides))
        return KT_MERGES_UNUSUAL;
    reader->at = span.at;
    return KT_MERGES_PAIR;
}

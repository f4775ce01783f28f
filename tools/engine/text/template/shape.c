/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/template/shape.h"

#include "tools/engine/text/template/unicode.h"

static bool goes(struct jinja *j, const struct jinja_text *text, uint64_t at, uint64_t size,
                 const struct jinja_text *chars)
{
    uint64_t same;
    if (!chars)
        return jinja_is_space(jinja_char(text, at, &same));
    jinja_charge(j, chars->length);
    for (uint64_t i = 0; i < chars->length; i += same) {
        (void)jinja_char(chars, i, &same);
        if (same == size && __builtin_memcmp(chars->bytes + i, text->bytes + at, size) == 0)
            return true;
    }
    return false;
}

const struct jinja_text *jinja_strip(struct jinja *j, const struct jinja_text *text,
                                     const struct jinja_text *chars, bool left, bool right)
{
    uint64_t from = 0, to = text->length, size;
    while (left && from < to) {
        (void)jinja_char(text, from, &size);
        if (!goes(j, text, from, size, chars))
            break;
        from += size;
    }
    while (right && to > from) {
        uint64_t at = to - 1;
        while (((unsigned char)text->bytes[at] & 0xc0) == 0x80)
            at--;
        if (!goes(j, text, at, to - at, chars))
            break;
        to = at;
    }
    jinja_charge(j, text->length - (to - from));
    return jinja_slice(j, text, from, to);
}

const struct jinja_text *jinja_replace(struct jinja *j, const struct jinja_text *text,
                                       const struct jinja_text *old, const struct jinja_text *new,
                                       int64_t limit)
{
    struct jinja_buffer *out = jinja_buffer_new(j);
    uint64_t done = 0, size = 0;
    while (limit != 0) {
        int64_t at = (int64_t)done;
        if (old->length) {
            at = jinja_find(j, text, old, done);
            if (at < 0)
                break;
        }
        jinja_add_part(j, out, text, done, (uint64_t)at);
        jinja_add(j, out, new);
        done = (uint64_t)at + old->length;
        limit -= limit > 0;
        if (old->length)
            continue;
        if (done >= text->length)
            break;
        (void)jinja_char(text, done, &size); /* an empty one stands before each character and at the end */
        jinja_add_part(j, out, text, done, done + size);
        done += size;
    }
    jinja_add_part(j, out, text, done, text->length);
    return jinja_as_markup(j, jinja_buffer_text(j, out), text->markup);
}

static void turn(struct jinja_list *list)
{
    for (uint64_t a = 0, b = list->n; a + 1 < b; a++, b--) {
        struct jinja_value value = list->items[a];
        list->items[a] = list->items[b - 1];
        list->items[b - 1] = value;
    }
}

static struct jinja_list *split_at(struct jinja *j, const struct jinja_text *text,
                                   const struct jinja_text *separator, int64_t limit, bool reverse)
{
    struct jinja_list *list = jinja_list_new(j, JINJA_IS_LIST, 0);
    uint64_t from = 0, to = text->length;
    if (separator->length == 0)
        jinja_raise(j, KT_E_UNSUPPORTED, "empty separator");
    for (; limit != 0; limit -= limit > 0) {
        int64_t at = reverse ? jinja_find_last(j, text, separator, to) : jinja_find(j, text, separator, from);
        if (at < 0)
            break;
        uint64_t end = (uint64_t)at + separator->length;
        jinja_list_add(j, list,
                       jinja_text(reverse ? jinja_slice(j, text, end, to)
                                          : jinja_slice(j, text, from, (uint64_t)at)));
        if (reverse)
            to = (uint64_t)at;
        else
            from = end;
    }
    jinja_list_add(j, list, jinja_text(jinja_slice(j, text, from, to)));
    if (reverse)
        turn(list);
    return list;
}

/* The words between spaces; behind the last split, spaces stay. */
static struct jinja_list *split_words(struct jinja *j, const struct jinja_text *text, int64_t limit)
{
    struct jinja_list *list = jinja_list_new(j, JINJA_IS_LIST, 0);
    const struct jinja_text *rest = jinja_strip(j, text, NULL, true, false);
    jinja_charge(j, text->length);
    while (rest->length && limit != 0) {
        uint64_t at = 0, size;
        while (at < rest->length && !jinja_is_space(jinja_char(rest, at, &size)))
            at += size;
        jinja_list_add(j, list, jinja_text(jinja_slice(j, rest, 0, at)));
        rest = jinja_strip(j, jinja_slice(j, rest, at, rest->length), NULL, true, false);
        limit -= limit > 0;
    }
    if (rest->length)
        jinja_list_add(j, list, jinja_text(rest));
    return list;
}

static struct jinja_list *split_words_back(struct jinja *j, const struct jinja_text *text, int64_t limit)
{
    struct jinja_list *list = jinja_list_new(j, JINJA_IS_LIST, 0);
    const struct jinja_text *rest = jinja_strip(j, text, NULL, false, true);
    while (rest->length && limit != 0) {
        uint64_t at = rest->length, size;
        while (at > 0) {
            uint64_t before = at - 1;
            while (((unsigned char)rest->bytes[before] & 0xc0) == 0x80)
                before--;
            if (jinja_is_space(jinja_char(rest, before, &size)))
                break;
            at = before;
        }
        jinja_list_add(j, list, jinja_text(jinja_slice(j, rest, at, rest->length)));
        rest = jinja_strip(j, jinja_slice(j, rest, 0, at), NULL, false, true);
        limit -= limit > 0;
    }
    if (rest->length)
        jinja_list_add(j, list, jinja_text(rest));
    turn(list);
    return list;
}

struct jinja_list *jinja_split(struct jinja *j, const struct jinja_text *text,
                               const struct jinja_text *separator, int64_t limit, bool reverse)
{
    if (separator)
        return split_at(j, text, separator, limit, reverse);
    return reverse ? split_words_back(j, text, limit) : split_words(j, text, limit);
}

static bool ends_line(uint32_t c)
{
    return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

struct jinja_list *jinja_split_lines(struct jinja *j, const struct jinja_text *text, bool keep_ends)
{
    struct jinja_list *list = jinja_list_new(j, JINJA_IS_LIST, 0);
    uint64_t begin = 0;
    jinja_charge(j, text->length);
    for (uint64_t at = 0, size; at < text->length; at += size) {
        uint32_t c = jinja_char(text, at, &size);
        if (!ends_line(c))
            continue;
        if (c == '\r' && at + 1 < text->length && text->bytes[at + 1] == '\n')
            size = 2;
        jinja_list_add(j, list, jinja_text(jinja_slice(j, text, begin, keep_ends ? at + size : at)));
        begin = at + size;
    }
    if (begin < text->length)
        jinja_list_add(j, list, jinja_text(jinja_slice(j, text, begin, text->length)));
    return list;
}

const struct jinja_text *jinja_pad(struct jinja *j, const struct jinja_text *text, int64_t width,
                                   const struct jinja_text *fill, int side)
{
    int64_t missing = width < 0 ? -1 : width - jinja_chars(text);
    if (jinja_chars(fill) != 1)
        jinja_raise(j, KT_E_UNSUPPORTED, "The fill character must be exactly one character long");
    if (missing <= 0)
        return text;
    int64_t left = side < 0 ? missing : side > 0 ? 0 : missing / 2 + (missing & width & 1);
    struct jinja_buffer *out = jinja_buffer_new(j);
    jinja_add_repeated(j, out, fill, left);
    jinja_add(j, out, text);
    jinja_add_repeated(j, out, fill, missing - left);
    return jinja_as_markup(j, jinja_buffer_text(j, out), text->markup);
}

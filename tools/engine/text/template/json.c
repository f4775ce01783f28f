/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - tojson as Python's json.dumps writes it, and JSON as values. */
#include "tools/engine/text/template/write.h"

#include "tools/engine/base/big.h"
#include "tools/engine/text/template/sort.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void write_text(struct jinja *j, struct jinja_buffer *out, const struct jinja_text *text, bool ascii)
{
    uint64_t done = 0;
    jinja_add_words(j, out, "\"");
    for (uint64_t at = 0, size; at < text->length; at += size) {
        unsigned char b = (unsigned char)text->bytes[at];
        size = 1;
        if (b >= ' ' && b != '"' && b != '\\' && (!ascii || b < 0x7f))
            continue;
        char escape[16] = {'\\', (char)b};
        size_t n = 2;
        static const char letters[] = "\bb\ff\nn\rr\tt";
        const char *letter = b && b < ' ' ? strchr(letters, b) : NULL;
        uint32_t c = jinja_char(text, at, &size);
        if (letter)
            escape[1] = letter[1];
        else if (c >= 0x10000)
            n = (size_t)snprintf(escape, sizeof escape, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                                 0xdc00 + (c & 0x3ff));
        else if (c != '"' && c != '\\')
            n = (size_t)snprintf(escape, sizeof escape, "\\u%04x", c);
        jinja_add_part(j, out, text, done, at);
        jinja_add_bytes(j, out, escape, n, jinja_mark(text, at));
        done = at + size;
    }
    jinja_add_part(j, out, text, done, text->length);
    jinja_add_words(j, out, "\"");
}

static void write_real(struct jinja *j, struct jinja_buffer *out, double real)
{
    char text[JINJA_REAL_ROOM];
    jinja_real_text(real, text);
    jinja_add_words(j, out, isnan(real) ? "NaN" : !isinf(real) ? "" : real < 0 ? "-Infinity" : "Infinity");
    if (isfinite(real))
        jinja_add_bytes(j, out, text, strlen(text), false);
}

static void write_value(struct jinja *j, struct jinja_buffer *out, struct jinja_value value,
                        const struct jinja_json_style *style, uint32_t level);

static void break_line(struct jinja *j, struct jinja_buffer *out, const struct jinja_json_style *style,
                       uint32_t level)
{
    if (!style->indent)
        return;
    jinja_add_words(j, out, "\n");
    jinja_add_repeated(j, out, style->indent, level);
}

static void write_key(struct jinja *j, struct jinja_buffer *out, struct jinja_value key,
                      const struct jinja_json_style *style)
{
    if (key.kind == JINJA_TEXT) {
        write_text(j, out, key.text, style->ascii);
        return;
    }
    if (key.kind != JINJA_NONE && key.kind != JINJA_FLOAT && !jinja_is_number(key))
        jinja_raise(j, KT_E_UNSUPPORTED, "keys must be str, int, float, bool or None, not %s",
                    jinja_type(key));
    jinja_add_words(j, out, "\"");
    write_value(j, out, key, style, 0);
    jinja_add_words(j, out, "\"");
}

static void write_dict(struct jinja *j, struct jinja_buffer *out, const struct jinja_dict *dict,
                       const struct jinja_json_style *style, uint32_t level)
{
    struct jinja_list *pairs = style->sort_keys ? jinja_dict_list(j, dict, JINJA_IS_ITEMS) : NULL;
    if (pairs)
        jinja_sort_by_key(j, pairs);
    jinja_add_words(j, out, "{");
    for (uint64_t i = 0; i < dict->n; i++) {
        if (i)
            jinja_add(j, out, style->comma);
        break_line(j, out, style, level + 1);
        write_key(j, out, pairs ? pairs->items[i].list->items[0] : dict->entries[i].key, style);
        jinja_add(j, out, style->colon);
        write_value(j, out, pairs ? pairs->items[i].list->items[1] : dict->entries[i].value, style,
                    level + 1);
    }
    if (dict->n)
        break_line(j, out, style, level);
    jinja_add_words(j, out, "}");
}

static void write_list(struct jinja *j, struct jinja_buffer *out, const struct jinja_list *list,
                       const struct jinja_json_style *style, uint32_t level)
{
    jinja_add_words(j, out, "[");
    for (uint64_t i = 0; i < list->n; i++) {
        if (i)
            jinja_add(j, out, style->comma);
        break_line(j, out, style, level + 1);
        write_value(j, out, list->items[i], style, level + 1);
    }
    if (list->n)
        break_line(j, out, style, level);
    jinja_add_words(j, out, "]");
}

static void write_value(struct jinja *j, struct jinja_buffer *out, struct jinja_value value,
                        const struct jinja_json_style *style, uint32_t level)
{
    jinja_enter(j);
    jinja_charge(j, 0);
    if (value.kind == JINJA_TEXT)
        write_text(j, out, value.text, style->ascii);
    else if (value.kind == JINJA_NONE)
        jinja_add_words(j, out, "null");
    else if (value.kind == JINJA_BOOL)
        jinja_add_words(j, out, value.truth ? "true" : "false");
    else if (value.kind == JINJA_INT || value.kind == JINJA_BIG)
        jinja_write(j, out, value);
    else if (value.kind == JINJA_FLOAT)
        write_real(j, out, value.real);
    else if (value.kind == JINJA_LIST && value.list->form <= JINJA_IS_TUPLE)
        write_list(j, out, value.list, style, level);
    else if (value.kind == JINJA_DICT)
        write_dict(j, out, value.dict, style, level);
    else
        jinja_raise(j, KT_E_UNSUPPORTED, "Object of type %s is not JSON serializable", jinja_type(value));
    jinja_leave(j);
}

void jinja_write_json(struct jinja *j, struct jinja_buffer *out, struct jinja_value value,
                      const struct jinja_json_style *style)
{
    write_value(j, out, value, style, 0);
}

static struct jinja_value copy_text(struct jinja *j, const char *bytes, uint64_t length, bool content)
{
    return jinja_text(jinja_text_of(j, length ? jinja_grow(j, bytes, length, length) : "", length, content));
}

static struct jinja_value convert(struct jinja *j, const json_t *json, bool content)
{
    struct jinja_value value = jinja_none();
    jinja_enter(j);
    if (json_is_string(json)) {
        value = copy_text(j, json_string_value(json), json_string_length(json), content);
    } else if (json_is_integer(json)) {
        value = jinja_int(json_integer_value(json));
    } else if (json_is_real(json)) {
        value = jinja_float(json_real_value(json));
    } else if (json_is_boolean(json)) {
        value = jinja_bool(json_is_true(json));
    } else if (json_is_array(json)) {
        value = jinja_list(jinja_list_new(j, JINJA_IS_LIST, json_array_size(json)));
        size_t i;
        const json_t *item;
        json_array_foreach (json, i, item)
            jinja_list_add(j, value.list, convert(j, item, content));
    } else if (kt_json_big(json)) {
        const char *digits = kt_json_big(json);
        value = copy_text(j, digits, strlen(digits), content);
        value.kind = JINJA_BIG;
    } else if (json_is_object(json)) {
        value = jinja_dict(jinja_dict_new(j));
        const char *name;
        json_t *item;
        json_object_foreach ((json_t *)(uintptr_t)json, name, item)
            jinja_dict_set(j, value.dict, copy_text(j, name, strlen(name), content),
                           convert(j, item, content));
    }
    jinja_leave(j);
    return value;
}

/* Why jansson did not read it. Where memory runs out it often says nothing. */
_Noreturn static void refuse(struct jinja *j, const json_error_t *error)
{
    if (!*error->text || json_error_code(error) == json_error_out_of_memory)
        jinja_raise(j, KT_E_NOMEM, "out of memory for JSON");
    jinja_raise(j, KT_E_FORMAT, "JSON, line %d, column %d: %s", error->line, error->column, error->text);
}

struct jinja_value jinja_read_json(struct jinja *j, const char *bytes, uint64_t length, bool content)
{
    json_error_t error;
    jinja_charge(j, length);
    j->json = kt_json_read(bytes, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (!j->json)
        refuse(j, &error);
    struct jinja_value value = convert(j, j->json, content);
    json_decref(j->json);
    j->json = NULL;
    return value;
}

struct jinja_value jinja_take_json(struct jinja *j, const json_t *json, uint64_t size, bool content)
{
    jinja_charge(j, size);
    return convert(j, json, content);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.c - JSON of untrusted files. The JSON library recurses and allocates, so a scan without recursion
 * first bounds the depth and the number of containers.
 *
 * If its buffer for a string cannot grow, that library drops characters and goes on. So the scan also adds up
 * the bytes of all strings, and the parsed value must have the same sum.
 */
#include "core/weights/file/json.h"

#include "core/base/error.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_PER_CONTAINER = 16 };

/* The state of the scan. */
struct scan {
    uint64_t depth, containers;
    uint64_t sum;        /* of the bytes of strings, without their escapes */
    uint32_t code, high; /* the \uXXXX being read, and the first one of a pair */
    unsigned digits;     /* that are still to come of it */
    bool quoted, escaped;
};

/* A code point counts as its bytes in UTF-8. */
static void add_code(struct scan *scan, uint32_t code)
{
    if (code >= 0xd800 && code < 0xdc00) {
        scan->high = code;
        return;
    }
    if (code >= 0xdc00 && code < 0xe000)
        code = 0x10000 + ((scan->high & 0x3ff) << 10) + (code & 0x3ff);
    if (code < 0x80)
        scan->sum += code;
    else if (code < 0x800)
        scan->sum += (0xc0 | code >> 6) + (0x80 | (code & 0x3f));
    else if (code < 0x10000)
        scan->sum += (0xe0 | code >> 12) + (0x80 | (code >> 6 & 0x3f)) + (0x80 | (code & 0x3f));
    else
        scan->sum += (0xf0 | code >> 18) + (0x80 | (code >> 12 & 0x3f)) + (0x80 | (code >> 6 & 0x3f)) +
                     (0x80 | (code & 0x3f));
}

/* Adds a character of a string; the parser finds characters that JSON forbids. */
static void add_letter(struct scan *scan, unsigned char c)
{
    static const char letters[] = "bfnrt", meant[] = "\b\f\n\r\t";
    if (scan->digits > 0) {
        uint32_t digit = c <= '9' ? c : (c | 0x20u) - 'a' + 10u;
        scan->code = scan->code << 4 | (digit & 15);
        if (--scan->digits == 0)
            add_code(scan, scan->code);
    } else if (scan->escaped && c == 'u') {
        scan->digits = 4;
        scan->code = 0;
    } else if (scan->escaped) {
        const char *found = memchr(letters, c, sizeof letters - 1);
        scan->sum += found ? (unsigned char)meant[found - letters] : c;
    } else if (c != '\\' && c != '"') {
        scan->sum += c;
    }
}

/* A control character that JSON forbids where it stands. */
static bool is_forbidden(const struct scan *scan, unsigned char c)
{
    return c < 0x20 && (scan->quoted || (c != '\t' && c != '\n' && c != '\r'));
}

static void step(struct scan *scan, unsigned char c)
{
    if (scan->quoted) {
        add_letter(scan, c);
        scan->quoted = scan->escaped || c != '"';
        scan->escaped = !scan->escaped && c == '\\';
    } else if (c == '"') {
        scan->quoted = true;
    } else if (c == '{' || c == '[') {
        scan->depth++;
        scan->containers++;
    } else if ((c == '}' || c == ']') && scan->depth > 0) {
        scan->depth--;
    }
}

/* Scans `count` bytes, from `offset` of the file on, of a text of `size` bytes. */
static enum kt_status scan_bytes(struct scan *scan, const struct kt_file *file, uint64_t offset,
                                 const char *bytes, uint64_t count, uint64_t size,
                                 const struct kt_json_bounds *bounds, struct kt_error *error)
{
    uint64_t allowed = size / BYTES_PER_CONTAINER + bounds->spare;
    for (uint64_t i = 0; i < count; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (is_forbidden(scan, c))
            return kt_fail(error, KT_E_FORMAT, "%s: byte %" PRIu64 ": %s holds control character %02x",
                           file->label, offset + i, bounds->what, c);
        step(scan, c);
        if (scan->depth > bounds->depth)
            return kt_fail(error, KT_E_FORMAT, "%s: byte %" PRIu64 ": %s nests deeper than %" PRIu32,
                           file->label, offset + i, bounds->what, bounds->depth);
        if (scan->containers > allowed)
            return kt_fail(error, KT_E_FORMAT,
                           "%s: byte %" PRIu64 ": %s has more than %" PRIu64
                           " objects and arrays, the most that its size allows",
                           file->label, offset + i, bounds->what, allowed);
    }
    return KT_OK;
}

/* In pieces, so that a refused text costs no memory. */
static enum kt_status scan_file(const struct kt_file *file, uint64_t offset, uint64_t size,
                                const struct kt_json_bounds *bounds, struct kt_error *error)
{
    char chunk[4096];
    struct scan scan = {.depth = 0};
    enum kt_status status = KT_OK;
    for (uint64_t at = 0; at < size && status == KT_OK; at += sizeof chunk) {
        uint64_t count = size - at < sizeof chunk ? size - at : sizeof chunk;
        status = kt_file_read(file, offset + at, chunk, count, error);
        if (status == KT_OK)
            status = scan_bytes(&scan, file, offset + at, chunk, count, size, bounds, error);
    }
    return status;
}

static uint64_t add_bytes(const char *text, size_t size)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < size; i++)
        sum += (unsigned char)text[i];
    return sum;
}

/* The bytes of all strings; the scan has bounded the depth. */
static uint64_t add_strings(const json_t *value)
{
    uint64_t sum = 0;
    const char *key;
    size_t index;
    json_t *inner;
    if (json_is_string(value))
        return add_bytes(json_string_value(value), json_string_length(value));
    json_object_foreach ((json_t *)(uintptr_t)value, key, inner) {
        sum += add_bytes(key, strlen(key)) + add_strings(inner);
    }
    json_array_foreach (value, index, inner) {
        sum += add_strings(inner);
    }
    return sum;
}

static enum kt_status parse(const struct kt_file *file, uint64_t offset, const char *text, size_t size,
                            const struct kt_json_bounds *bounds, json_t **root, struct kt_error *error)
{
    const char *what = bounds->what;
    struct scan scan = {.depth = 0};
    /* Again: the file may have changed since. */
    enum kt_status status = scan_bytes(&scan, file, offset, text, size, size, bounds, error);
    if (status != KT_OK)
        return status;
    json_error_t problem;
    json_t *parsed = json_loadb(text, size, JSON_REJECT_DUPLICATES, &problem);
    bool dropped = parsed && add_strings(parsed) != scan.sum;
    if (parsed && !dropped) {
        *root = parsed;
        return KT_OK;
    }
    json_decref(parsed);
    /* The library sets a text for errors in the JSON, but none for a failed allocation. */
    if (dropped || !problem.text[0])
        return kt_fail(error, KT_E_NOMEM, "%s: no memory to parse %s", file->label, what);
    bool clean = kt_name_valid(problem.text, strlen(problem.text));
    return kt_fail(error, KT_E_FORMAT, "%s: byte %" PRIu64 ": %s is no JSON: %s", file->label,
                   offset + (uint64_t)problem.position, what,
                   clean ? problem.text : "a control character or no UTF-8");
}

enum kt_status kt_json_load(const struct kt_file *file, uint64_t offset, uint64_t size,
                            const struct kt_json_bounds *bounds, json_t **root, struct kt_error *error)
{
    if (size > bounds->largest)
        return kt_fail(error, KT_E_FORMAT, "%s: %s takes %" PRIu64 " bytes; at most %" PRIu64 " are read",
                       file->label, bounds->what, size, bounds->largest);
    enum kt_status status = scan_file(file, offset, size, bounds, error);
    if (status != KT_OK)
        return status;
    char *text = malloc((size_t)size + 1);
    if (!text)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the %" PRIu64 " bytes of %s", file->label, size,
                       bounds->what);
    status = kt_file_read(file, offset, text, size, error);
    if (status == KT_OK)
        status = parse(file, offset, text, (size_t)size, bounds, root, error);
    free(text);
    return status;
}

enum kt_status kt_json_open(const char *path, const struct kt_json_bounds *bounds, char label[KT_LABEL_SIZE],
                            json_t **root, struct kt_error *error)
{
    struct kt_file file;
    enum kt_status status = kt_file_open(path, KT_IO_READ, &file, error);
    if (status != KT_OK)
        return status;
    memcpy(label, file.label, KT_LABEL_SIZE);
    status = kt_json_load(&file, 0, file.size, bounds, root, error);
    kt_file_close(&file);
    return status;
}

const json_t *kt_json_find(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

enum kt_status kt_json_read_count(const char *label, const json_t *value, const char *key, uint64_t largest,
                                  struct kt_json_count *said, struct kt_error *error)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return kt_fail(error, KT_E_FORMAT, "%s: key \"%s\" must be a whole number of at least 0", label, key);
    said->key = key;
    said->value = (uint64_t)json_integer_value(value);
    if (said->value > largest)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: key \"%s\" is %" PRIu64 "; at most %" PRIu64 " can be handled", label, key,
                       said->value, largest);
    return KT_OK;
}

enum kt_status kt_json_read_text(const char *label, const json_t *value, const char *key, char *text,
                                 size_t size, struct kt_error *error)
{
    if (!value)
        return KT_OK;
    const char *said = json_string_value(value);
    if (!said || strlen(said) >= size || !kt_name_valid(said, strlen(said)))
        return kt_fail(error, KT_E_FORMAT,
                       "%s: key \"%s\" must be a string of at most %zu letters, none of them a "
                       "control character",
                       label, key, size - 1);
    memcpy(text, said, strlen(said) + 1);
    return KT_OK;
}

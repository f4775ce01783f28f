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

const struct kt_json_bounds kt_safetensors_bounds = {.what = "the header",
                                                     .largest = 100000000,
                                                     .depth = 8,
                                                     .spare = 4};

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
    if (size > bounds->largest)
        return kt_fail(error, KT_E_FORMAT, "%s: %s takes %" PRIu64 " bytes; at most %" PRIu64 " are read",
                       file->label, bounds->what, size, bounds->largest);
    for (uint64_t at = 0; at < size && status == KT_OK; at += sizeof chunk) {
        uint64_t count = size - at < sizeof chunk ? size - at : sizeof chunk;
        status = kt_file_read(file, offset + at, chunk, count, error);
        if (status == KT_OK)
            status = scan_bytes(&scan, file, offset + at, chunk, count, size, bounds, error);
    }
    if (status == KT_OK && (scan.depth > 0 || scan.quoted))
        return kt_fail(error, KT_E_FORMAT, "%s: byte %" PRIu64 ": %s is not JSON: it ends too early",
                       file->label, offset + size, bounds->what);
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
    return kt_fail(error, KT_E_FORMAT, "%s: byte %" PRIu64 ": %s is not JSON: %s", file->label,
                   offset + (uint64_t)problem.position, what,
                   clean ? problem.text : "a control character or no UTF-8");
}

/* Parses `size` bytes of the file from byte `offset` on: strict JSON, no key twice in an object. */
static enum kt_status load(const struct kt_file *file, uint64_t offset, uint64_t size,
                           const struct kt_json_bounds *bounds, json_t **root, struct kt_error *error)
{
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
    status = load(&file, 0, file.size, bounds, root, error);
    kt_file_close(&file);
    return status;
}

/* ---- an object, member by member ---- */

/* What lies between two commas of the object is made an object of one member in the window and parsed: so the
 * library sees each byte, and only where to cut is found here. */
struct members {
    const struct kt_file *file;
    const struct kt_json_bounds *bounds;
    uint64_t offset, size; /* of the text in the file */
    uint64_t first;        /* byte of the text that the window begins with */
    char *window;
    size_t room, held, at; /* of the window; up to `at` it was scanned */
    size_t begin;          /* in the window: the '{' or ',' before the member */
    struct scan scan;
    uint64_t n, commas; /* members of the object; commas in this one */
};

/* Most keys of __metadata__; each may cost 200 bytes of memory for 8 of the file. */
enum { MOST_COMMAS = 1 << 16, LEAST_WINDOW = 1 << 16 };

static enum kt_status fail_members(const struct members *members, const char *problem, struct kt_error *error)
{
    return kt_fail(error, KT_E_FORMAT, "%s: byte %" PRIu64 ": %s is not JSON: %s", members->file->label,
                   members->offset + members->first + members->at, members->bounds->what, problem);
}

/* The next bytes of the text, behind those of the member that was begun. *more is false at its end. */
static enum kt_status read_on(struct members *members, bool *more, struct kt_error *error)
{
    uint64_t left = members->size - members->first - members->held;
    *more = left > 0;
    if (!*more)
        return KT_OK;
    memmove(members->window, members->window + members->begin, members->held - members->begin);
    members->first += members->begin;
    members->held -= members->begin;
    members->at -= members->begin;
    members->begin = 0;
    if (members->held > members->room / 2) {
        char *grown = realloc(members->window, members->room * 2);
        if (!grown)
            return kt_fail(error, KT_E_NOMEM, "%s: no memory to parse %s", members->file->label,
                           members->bounds->what);
        members->window = grown;
        members->room *= 2;
    }
    uint64_t count = members->room - members->held;
    count = count < left ? count : left;
    enum kt_status status = kt_file_read(members->file, members->offset + members->first + members->held,
                                         members->window + members->held, count, error);
    members->held += (size_t)count;
    return status;
}

/* The member from the byte at `begin` to the one at `at`, which closes it. */
static enum kt_status take_member(struct members *members, kt_json_member_fn take, void *data,
                                  struct kt_error *error)
{
    char *text = members->window + members->begin, *last = members->window + members->at, closed = *last;
    const char *key;
    json_t *object = NULL, *value;
    *text = '{';
    *last = '}';
    enum kt_status status = parse(members->file, members->offset + members->first + members->begin, text,
                                  members->at - members->begin + 1, members->bounds, &object, error);
    *last = closed;
    if (status == KT_OK && json_object_size(object) != 1 && (members->n > 0 || closed == ','))
        status = fail_members(members, "a member is missing", error);
    json_object_foreach (object, key, value) {
        status = take(data, key, value, error);
    }
    json_decref(object);
    members->n++;
    members->commas = 0;
    members->begin = members->at;
    return status;
}

/* Goes on to the end of a member, or of the text: *more is then false. */
static enum kt_status find_end(struct members *members, bool *more, struct kt_error *error)
{
    enum kt_status status = KT_OK;
    for (*more = true; status == KT_OK; members->at++) {
        if (members->at == members->held)
            status = read_on(members, more, error);
        if (status != KT_OK || !*more)
            return status;
        unsigned char c = (unsigned char)members->window[members->at];
        step(&members->scan, c);
        bool comma = c == ',' && !members->scan.quoted;
        if (members->scan.depth == 0 || (members->scan.depth == 1 && comma))
            return KT_OK;
        if (comma && ++members->commas >= MOST_COMMAS)
            return kt_fail(error, KT_E_FORMAT, "%s: byte %" PRIu64 ": %s has a member of more than %d values",
                           members->file->label, members->offset + members->first + members->at,
                           members->bounds->what, MOST_COMMAS);
    }
    return status;
}

/* After the object's end only blanks may follow. */
static enum kt_status check_rest(struct members *members, struct kt_error *error)
{
    enum kt_status status = KT_OK;
    for (bool more = true;; members->at++) {
        members->begin = members->at;
        if (members->at == members->held)
            status = read_on(members, &more, error);
        if (status != KT_OK || !more)
            return status;
        if (!strchr(" \t\n\r", members->window[members->at]) || !members->window[members->at])
            return fail_members(members, "something follows its object", error);
    }
}

static enum kt_status read_members(struct members *members, kt_json_member_fn take, void *data,
                                   struct kt_error *error)
{
    bool more;
    enum kt_status status = read_on(members, &more, error);
    if (status == KT_OK && (!more || members->window[0] != '{'))
        return fail_members(members, "it does not begin with {", error);
    while (status == KT_OK) {
        status = find_end(members, &more, error);
        if (status == KT_OK && !more)
            return fail_members(members, "it ends before its object does", error);
        bool ends = status == KT_OK && members->scan.depth == 0;
        if (ends && members->window[members->at] != '}')
            return fail_members(members, "its object is not closed by }", error);
        if (status == KT_OK)
            status = take_member(members, take, data, error);
        members->at++;
        if (ends)
            return status == KT_OK ? check_rest(members, error) : status;
    }
    return status;
}

enum kt_status kt_json_members(const struct kt_file *file, uint64_t offset, uint64_t size,
                               const struct kt_json_bounds *bounds, kt_json_member_fn take, void *data,
                               struct kt_error *error)
{
    enum kt_status status = scan_file(file, offset, size, bounds, error);
    if (status != KT_OK)
        return status;
    struct members members = {.file = file,
                              .bounds = bounds,
                              .offset = offset,
                              .size = size,
                              .window = malloc(LEAST_WINDOW),
                              .room = LEAST_WINDOW};
    if (!members.window)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory to parse %s", file->label, bounds->what);
    status = read_members(&members, take, data, error);
    free(members.window);
    return status;
}

/* ---- text of a value ---- */

/* json_dumps drops what finds no memory and goes on; into a buffer of the right size it allocates nothing. */
static char *dump(const json_t *root, size_t *size)
{
    *size = root ? json_dumpb(root, NULL, 0, JSON_COMPACT) : 0;
    char *text = *size ? malloc(*size + 1) : NULL;
    if (text && json_dumpb(root, text, *size, JSON_COMPACT) != *size) {
        free(text);
        return NULL;
    }
    if (text)
        text[*size] = '\0';
    return text;
}

enum kt_status kt_json_text(const char *label, const json_t *root, const struct kt_json_bounds *bounds,
                            char **text, size_t *size, struct kt_error *error)
{
    struct kt_file file = {.fd = -1};
    json_t *same = NULL;
    char *made = dump(root, size);
    kt_file_label(label, file.label);
    if (!made)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for %s", label, bounds->what);
    enum kt_status status =
        *size <= bounds->largest
            ? parse(&file, 0, made, *size, bounds, &same, error)
            : kt_fail(error, KT_E_INVALID, "%s: %s would be %zu bytes; at most %" PRIu64 " can be read back",
                      label, bounds->what, *size, bounds->largest);
    if (status == KT_E_FORMAT || (status == KT_OK && !json_equal(root, same)))
        status = kt_fail(error, KT_E_NOMEM, "%s: no memory for all of %s", label, bounds->what);
    json_decref(same);
    if (status == KT_OK)
        *text = made;
    else
        free(made);
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
        return kt_fail(
            error, KT_E_FORMAT,
            "%s: key \"%s\" must be a string of at most %zu characters, none of them a control character",
            label, key, size - 1);
    memcpy(text, said, strlen(said) + 1);
    return KT_OK;
}

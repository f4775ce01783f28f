/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf_header.c - reads the header of a GGUF file, version 2 or 3, little-endian; its list of tensors:
 * gguf_tensors.c.
 *
 *     magic "GGUF", u32 version, u64 number of tensors, u64 number of keys
 *     of each key:      string name, u32 type, value
 *     of each tensor:   string name, u32 number of dimensions, u64 each (fastest first), u32 type, u64 offset
 *     padding to general.alignment, then the data of the tensors
 *     a string is:      u64 length, bytes
 *     an array is:      u32 type, u64 count, values
 *
 * Every number of the file is first compared with the bytes that are left. Memory grows with the data that
 * was read, values that are not needed are skipped, and nothing recurses.
 */
#include "core/weights/gguf/gguf_header.h"

#include "core/base/error.h"
#include "core/base/size.h"
#include "core/base/text.h"
#include "core/weights/file/file.h"
#include "core/weights/file/limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sizes of the shortest key (length, one letter, type, u8) and the shortest tensor (no dimension). */
enum { LEAST_KEY = 8 + 1 + 4 + 1, LEAST_TENSOR = 8 + 1 + 4 + 4 + 8, DEFAULT_ALIGNMENT = 32 };

/* The largest vocabularies have some 2^18 texts. Finding the end of an array of strings or of arrays reads
 * the length of each. */
#define MOST_STRINGS (UINT64_C(1) << 24)

/* Arrays inside of arrays inside of a key. */
enum { MOST_NESTED = 16 };

static const char *const type_names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                         "bool", "string", "array", "u64", "i64", "f64"};
static const uint8_t type_sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

enum { N_TYPES = sizeof type_sizes };

const char *kt_gguf_type_name(const struct kt_gguf_key *key, char text[32])
{
    const char *array = key->type == KT_GGUF_ARRAY ? "array of " : "";
    uint32_t type = key->type == KT_GGUF_ARRAY ? key->element : key->type;
    (void)snprintf(text, 32, "%s%s", array, type < N_TYPES ? type_names[type] : "?");
    return text;
}

static int compare_keys(const void *left, const void *right)
{
    const struct kt_gguf_key *a = left, *b = right;
    int order = strcmp(a->name, b->name);
    return order ? order : a->at < b->at ? -1 : a->at > b->at;
}

struct kt_gguf_key *kt_gguf_find_key(struct kt_gguf_key *keys, uint64_t n, const char *name)
{
    uint64_t low = 0, high = n;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        int order = strcmp(keys[middle].name, name);
        if (order == 0)
            return &keys[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const struct kt_gguf_key *kt_gguf_find(const struct kt_gguf *gguf, const char *name)
{
    return kt_gguf_find_key(gguf->key, gguf->n_keys, name);
}

enum kt_status kt_gguf_count(const struct kt_gguf *gguf, const char *name, uint64_t *count,
                             struct kt_error *error)
{
    const struct kt_gguf_key *found = kt_gguf_find(gguf, name);
    char text[32];
    *count = 0;
    if (!found)
        return KT_OK;
    switch (found->type) {
    case KT_GGUF_I8:
    case KT_GGUF_I16:
    case KT_GGUF_I32:
    case KT_GGUF_I64:
        if (found->number > INT64_MAX)
            return kt_fail(error, KT_E_FORMAT, "%s: byte %" PRIu64 ": key \"%s\" is %" PRId64 ", below 0",
                           kt_gguf_label(gguf), found->at, name, (int64_t)found->number);
        break;
    case KT_GGUF_U8:
    case KT_GGUF_U16:
    case KT_GGUF_U32:
    case KT_GGUF_U64:
        break;
    default:
        return kt_fail(error, KT_E_FORMAT,
                       "%s: byte %" PRIu64 ": key \"%s\" is of type %s; a whole number is needed",
                       kt_gguf_label(gguf), found->at, name, kt_gguf_type_name(found, text));
    }
    *count = found->number;
    return KT_OK;
}

enum kt_status kt_gguf_read_name(struct kt_gguf *gguf, const char *what, char **name, struct kt_error *error)
{
    struct kt_reader *reader = &gguf->reader;
    uint64_t length, at = reader->at;
    enum kt_status status = kt_reader_u64(reader, &length, what, error);
    *name = NULL;
    if (status != KT_OK)
        return status;
    if (length == 0 || length > KT_LONGEST_NAME)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: byte %" PRIu64 ": %s has %" PRIu64 " characters; 1 to %d are allowed",
                       reader->file->label, at, what, length, KT_LONGEST_NAME);
    if (length > reader->file->size - reader->at)
        return kt_reader_skip(reader, length, what, error); /* which fails */
    char *text = malloc((size_t)length + 1);
    if (!text)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for %s", reader->file->label, what);
    status = kt_reader_get(reader, text, length, what, error);
    text[status == KT_OK ? length : 0] = 0;
    if (status == KT_OK && !kt_name_valid(text, (size_t)length))
        status =
            kt_fail(error, KT_E_FORMAT, "%s: byte %" PRIu64 ": %s holds a control character or is not UTF-8",
                    reader->file->label, at, what);
    if (status == KT_OK)
        *name = text;
    else
        free(text);
    return status;
}

static enum kt_status skip_strings(struct kt_gguf *gguf, uint64_t count, struct kt_error *error)
{
    enum kt_status status = KT_OK;
    for (; status == KT_OK && count; count--) {
        uint64_t length = 0;
        status = kt_reader_u64(&gguf->reader, &length, gguf->what, error);
        if (status == KT_OK)
            status = kt_reader_skip(&gguf->reader, length, gguf->what, error);
    }
    return status;
}

/* Reads what an array holds: the type and the number of its elements, which must fit into the file. */
static enum kt_status read_array(struct kt_gguf *gguf, const struct kt_gguf_key *key, uint32_t *element,
                                 uint64_t *count, struct kt_error *error)
{
    struct kt_reader *reader = &gguf->reader;
    enum kt_status status = kt_reader_u32(reader, element, gguf->what, error);
    if (status == KT_OK)
        status = kt_reader_u64(reader, count, gguf->what, error);
    if (status != KT_OK)
        return status;
    if (*element >= N_TYPES)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: byte %" PRIu64 ": key \"%s\" is an array of type %" PRIu32 "; 0 to 12 are known",
                       reader->file->label, key->at, key->name, *element);
    uint64_t least = *element == KT_GGUF_STRING  ? 8
                     : *element == KT_GGUF_ARRAY ? 4 + 8
                                                 : type_sizes[*element];
    uint64_t rest = reader->file->size - reader->at;
    if (*count > rest / least)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: byte %" PRIu64 ": key \"%s\" claims %" PRIu64 " elements of %s; the %" PRIu64
                       " bytes left hold at most %" PRIu64,
                       reader->file->label, key->at, key->name, *count, type_names[*element], rest,
                       rest / least);
    return KT_OK;
}

/* Adds up the elements of a key whose ends must be searched. */
static enum kt_status count_elements(const struct kt_gguf *gguf, const struct kt_gguf_key *key,
                                     uint64_t count, uint64_t *sum, struct kt_error *error)
{
    *sum += count; /* no overflow: each has bytes in the file */
    if (*sum <= MOST_STRINGS)
        return KT_OK;
    return kt_fail(error, KT_E_FORMAT,
                   "%s: byte %" PRIu64 ": key \"%s\" has %" PRIu64 " strings or arrays; at most %" PRIu64
                   " are read",
                   kt_gguf_label(gguf), key->at, key->name, *sum, MOST_STRINGS);
}

static enum kt_status skip_array(struct kt_gguf *gguf, struct kt_gguf_key *key, struct kt_error *error)
{
    uint64_t left[MOST_NESTED] = {1}, sum = 0; /* arrays that are still to be read, by depth */
    enum kt_status status = KT_OK;
    for (unsigned depth = 0; status == KT_OK;) {
        uint32_t element = 0;
        uint64_t count = 0;
        while (left[depth] == 0 && depth > 0)
            depth--;
        if (left[depth] == 0)
            return KT_OK;
        left[depth]--;
        bool outermost = depth == 0;
        status = read_array(gguf, key, &element, &count, error);
        if (status == KT_OK && outermost) {
            key->element = element;
            key->count = count;
            key->value = gguf->reader.at;
        }
        if (status == KT_OK && type_sizes[element] == 0)
            status = count_elements(gguf, key, count, &sum, error);
        if (status != KT_OK)
            return status;
        if (element == KT_GGUF_STRING)
            status = skip_strings(gguf, count, error);
        else if (element != KT_GGUF_ARRAY)
            status = kt_reader_skip(&gguf->reader, count * type_sizes[element], gguf->what, error);
        else if (depth + 1 == MOST_NESTED)
            status = kt_fail(error, KT_E_UNSUPPORTED,
                             "%s: byte %" PRIu64 ": key \"%s\" nests arrays deeper than %d",
                             kt_gguf_label(gguf), key->at, key->name, MOST_NESTED);
        else
            left[++depth] = count;
    }
    return status;
}

/* The architecture must be valid; the name of the model is dropped if it cannot be shown. */
static enum kt_status read_string(struct kt_gguf *gguf, const struct kt_gguf_key *key, struct kt_error *error)
{
    bool architecture = strcmp(key->name, "general.architecture") == 0;
    bool name = strcmp(key->name, "general.name") == 0;
    char *text = architecture ? gguf->architecture : gguf->name;
    size_t size = architecture ? sizeof gguf->architecture : sizeof gguf->name;
    uint64_t length;
    enum kt_status status = kt_reader_u64(&gguf->reader, &length, gguf->what, error);
    if (status != KT_OK)
        return status;
    if ((!architecture && !name) || (name && length >= size))
        return kt_reader_skip(&gguf->reader, length, gguf->what, error);
    if (length < size) {
        status = kt_reader_get(&gguf->reader, text, length, gguf->what, error);
        text[status == KT_OK ? length : 0] = 0;
    }
    if (status == KT_OK && architecture &&
        (length >= size || length == 0 || !kt_name_valid(text, (size_t)length)))
        return kt_fail(error, KT_E_FORMAT,
                       "%s: byte %" PRIu64
                       ": key \"general.architecture\" is not a name of 1 to %zu characters",
                       kt_gguf_label(gguf), key->at, size - 1);
    if (status == KT_OK && name && !kt_name_valid(text, (size_t)length))
        text[0] = 0;
    return status;
}

static enum kt_status read_number(struct kt_gguf *gguf, struct kt_gguf_key *key, struct kt_error *error)
{
    uint8_t bytes[8] = {0};
    unsigned size = type_sizes[key->type];
    enum kt_status status = kt_reader_get(&gguf->reader, bytes, size, gguf->what, error);
    if (status != KT_OK)
        return status;
    for (unsigned i = size; i-- > 0;)
        key->number = key->number << 8 | bytes[i];
    bool negative = key->type == KT_GGUF_I8 || key->type == KT_GGUF_I16 || key->type == KT_GGUF_I32;
    if (negative && bytes[size - 1] & 0x80)
        key->number |= ~UINT64_C(0) << (8 * size);
    if (key->type == KT_GGUF_BOOL && key->number > 1)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: byte %" PRIu64 ": key \"%s\" is a bool of value %" PRIu64 "; 0 and 1 are allowed",
                       kt_gguf_label(gguf), key->at, key->name, key->number);
    return KT_OK;
}

static enum kt_status read_value(struct kt_gguf *gguf, struct kt_gguf_key *key, struct kt_error *error)
{
    if (key->type >= N_TYPES)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: byte %" PRIu64 ": key \"%s\" is of type %" PRIu32 "; 0 to 12 are known",
                       kt_gguf_label(gguf), key->at, key->name, key->type);
    key->value = gguf->reader.at;
    enum kt_status status = key->type == KT_GGUF_ARRAY    ? skip_array(gguf, key, error)
                            : key->type == KT_GGUF_STRING ? read_string(gguf, key, error)
                                                          : read_number(gguf, key, error);
    key->size = gguf->reader.at - key->value;
    return status;
}

static enum kt_status read_key(struct kt_gguf *gguf, struct kt_error *error)
{
    if (gguf->n_keys == gguf->capacity) {
        uint64_t capacity = gguf->capacity ? gguf->capacity * 2 : 32;
        struct kt_gguf_key *grown = realloc(gguf->key, (size_t)capacity * sizeof *grown);
        if (!grown)
            return kt_fail(error, KT_E_NOMEM, "%s: no memory for %" PRIu64 " metadata keys",
                           kt_gguf_label(gguf), capacity);
        gguf->key = grown;
        gguf->capacity = capacity;
    }
    struct kt_gguf_key key = {.at = gguf->reader.at};
    enum kt_status status = kt_gguf_read_name(gguf, "the name of a metadata key", &key.name, error);
    if (status == KT_OK)
        status = kt_reader_u32(&gguf->reader, &key.type, "the type of a metadata key", error);
    if (status != KT_OK) {
        free(key.name);
        return status;
    }
    (void)snprintf(gguf->what, sizeof gguf->what, "the value of key \"%.*s\"", KT_NAME_SIZE, key.name);
    status = read_value(gguf, &key, error);
    gguf->key[gguf->n_keys++] = key;
    return status;
}

static enum kt_status read_keys(struct kt_gguf *gguf, uint64_t count, struct kt_error *error)
{
    enum kt_status status = KT_OK;
    for (uint64_t i = 0; status == KT_OK && i < count; i++)
        status = read_key(gguf, error);
    if (status != KT_OK || gguf->n_keys == 0)
        return status;
    qsort(gguf->key, (size_t)gguf->n_keys, sizeof *gguf->key, compare_keys);
    for (uint64_t i = 1; i < gguf->n_keys; i++)
        if (strcmp(gguf->key[i - 1].name, gguf->key[i].name) == 0)
            return kt_fail(error, KT_E_FORMAT,
                           "%s: key \"%s\" is a duplicate, at byte %" PRIu64 " and at byte %" PRIu64,
                           kt_gguf_label(gguf), gguf->key[i].name, gguf->key[i - 1].at, gguf->key[i].at);
    return KT_OK;
}

static enum kt_status check_known_keys(struct kt_gguf *gguf, struct kt_error *error)
{
    const char *label = kt_gguf_label(gguf);
    char text[32];
    static const char *const strings[] = {"general.architecture", "general.name"};
    for (int i = 0; i < 2; i++) {
        const struct kt_gguf_key *key = kt_gguf_find(gguf, strings[i]);
        if (key && key->type != KT_GGUF_STRING)
            return kt_fail(error, KT_E_FORMAT,
                           "%s: byte %" PRIu64 ": key \"%s\" is of type %s; a string is needed", label,
                           key->at, key->name, kt_gguf_type_name(key, text));
    }
    gguf->alignment = DEFAULT_ALIGNMENT;
    const struct kt_gguf_key *key = kt_gguf_find(gguf, "general.alignment");
    if (!key)
        return KT_OK;
    if (key->type != KT_GGUF_U32)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: byte %" PRIu64 ": key \"general.alignment\" is of type %s; u32 is needed", label,
                       key->at, kt_gguf_type_name(key, text));
    if (key->number == 0 || (key->number & (key->number - 1)) != 0)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: byte %" PRIu64 ": key \"general.alignment\" is %" PRIu64
                       "; a power of two is needed",
                       label, key->at, key->number);
    gguf->alignment = key->number;
    return KT_OK;
}

static enum kt_status check_version(struct kt_gguf *gguf, struct kt_error *error)
{
    const char *label = kt_gguf_label(gguf);
    uint8_t magic[4];
    uint32_t version = 0;
    enum kt_status status = kt_reader_get(&gguf->reader, magic, sizeof magic, "the magic", error);
    if (status == KT_OK && memcmp(magic, KT_GGUF_MAGIC, sizeof magic) != 0)
        return kt_fail(error, KT_E_FORMAT, "%s: not a GGUF file", label);
    if (status == KT_OK)
        status = kt_reader_u32(&gguf->reader, &version, "the version", error);
    if (status != KT_OK || version == 2 || version == 3)
        return status;
    if (version != 0 && (version & 0xffff) == 0)
        return kt_fail(error, KT_E_UNSUPPORTED, "%s: is a big-endian GGUF file; convert it to little-endian",
                       label);
    return kt_fail(error, KT_E_UNSUPPORTED,
                   "%s: is GGUF version %" PRIu32 "; versions 2 and 3 can be read: convert the model again",
                   label, version);
}

static enum kt_status check_count(struct kt_gguf *gguf, uint64_t count, uint64_t least, const char *what,
                                  struct kt_error *error)
{
    uint64_t rest = gguf->reader.file->size - gguf->reader.at;
    if (count <= rest / least)
        return KT_OK;
    return kt_fail(error, KT_E_FORMAT,
                   "%s: the header claims %" PRIu64 " %s; the %" PRIu64
                   " bytes after it hold at most %" PRIu64,
                   kt_gguf_label(gguf), count, what, rest, rest / least);
}

static enum kt_status read_metadata(struct kt_gguf *gguf, struct kt_error *error)
{
    uint64_t n_keys = 0;
    enum kt_status status = check_version(gguf, error);
    if (status == KT_OK)
        status = kt_reader_u64(&gguf->reader, &gguf->n_tensors, "the number of tensors", error);
    if (status == KT_OK)
        status = kt_reader_u64(&gguf->reader, &n_keys, "the number of metadata keys", error);
    if (status == KT_OK)
        status = check_count(gguf, gguf->n_tensors, LEAST_TENSOR, "tensors", error);
    if (status == KT_OK)
        status = check_count(gguf, n_keys, LEAST_KEY, "metadata keys", error);
    if (status == KT_OK)
        status = read_keys(gguf, n_keys, error);
    return status == KT_OK ? check_known_keys(gguf, error) : status;
}

enum kt_status kt_gguf_begin(struct kt_checkpoint *checkpoint, uint32_t part, struct kt_gguf **gguf,
                             struct kt_error *error)
{
    const struct kt_file *file = &checkpoint->part[part].file;
    struct kt_gguf *begun = calloc(1, sizeof *begun);
    if (!begun)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory to read its header", file->label);
    begun->checkpoint = checkpoint;
    begun->part = part;
    begun->reader.file = file;
    enum kt_status status = read_metadata(begun, error);
    if (status != KT_OK) {
        kt_gguf_end(begun);
        return status;
    }
    *gguf = begun;
    return KT_OK;
}

static void free_keys(struct kt_gguf_key *keys, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        free(keys[i].name);
        free(keys[i].loaded);
    }
    free(keys);
}

void kt_gguf_end(struct kt_gguf *gguf)
{
    if (!gguf)
        return;
    free_keys(gguf->key, gguf->n_keys);
    free(gguf);
}

void kt_gguf_keep_keys(struct kt_gguf *gguf)
{
    struct kt_checkpoint *checkpoint = gguf->checkpoint;
    checkpoint->key = gguf->key;
    checkpoint->n_keys = gguf->n_keys;
    checkpoint->key_part = gguf->part;
    gguf->key = NULL;
    gguf->n_keys = gguf->capacity = 0;
}

void kt_gguf_free_keys(struct kt_checkpoint *checkpoint)
{
    free_keys(checkpoint->key, checkpoint->n_keys);
    checkpoint->key = NULL;
    checkpoint->n_keys = 0;
}

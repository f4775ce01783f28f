/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors.c - reads the header of a single safetensors file.
 *
 *     u64 length of the header, a JSON object, possibly followed by spaces; then the data
 *     {"NAME": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
 *      "__metadata__": {"key": "text", ...}}
 *
 * The data must be covered exactly: no gap, no overlap, nothing after the last tensor. Before the
 * JSON library sees the header, a scan without recursion bounds its depth and its number of
 * containers, and with them the memory that the library will take.
 */
#include "core/weights/checkpoint.h"

#include "core/error.h"
#include "core/weights/dtype.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* The format's own limit of a header is 100 MB. A tensor's entry of 3 containers takes more than 48
 * bytes, so there are fewer containers than a 16th of the header's bytes, but for the outermost. */
enum { LARGEST_HEADER = 100000000, LARGEST_DEPTH = 8, LEAST_CONTAINER = 16, SPARE_CONTAINERS = 4 };
enum { LARGEST_DIMS = 8 };

static uint64_t load64(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

static bool match_safetensors(const uint8_t head[16], uint64_t size)
{
    return size > 8 && head[8] == '{';
}

/* What the scan knows of the header so far. */
struct scan {
    uint64_t depth, containers;
    bool quoted, escaped;
};

/* Takes one byte; false where the header goes beyond a bound or holds a byte that JSON forbids. */
static bool step(struct scan *scan, unsigned char c, uint64_t allowed)
{
    if (c < 0x20 && (scan->quoted || (c != '\t' && c != '\n' && c != '\r')))
        return false;
    if (scan->quoted) {
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
    return scan->depth <= LARGEST_DEPTH && scan->containers <= allowed;
}

static enum kt_status scan_header(const struct kt_file *file, uint64_t size, struct kt_error *error)
{
    unsigned char chunk[4096];
    struct scan scan = {.depth = 0};
    uint64_t allowed = size / LEAST_CONTAINER + SPARE_CONTAINERS;
    for (uint64_t at = 0; at < size; at += sizeof chunk) {
        uint64_t count = size - at < sizeof chunk ? size - at : sizeof chunk;
        enum kt_status status = kt_file_read(file, 8 + at, chunk, count, error);
        if (status != KT_OK)
            return status;
        for (uint64_t i = 0; i < count; i++)
            if (!step(&scan, chunk[i], allowed))
                return kt_fail(error, KT_E_FORMAT,
                               "%s: byte %" PRIu64
                               ": the header holds byte %02x here, nests %" PRIu64
                               " deep and has %" PRIu64
                               " objects and arrays so far; text, %d and %" PRIu64 " are allowed",
                               file->label, 8 + at + i, chunk[i], scan.depth, scan.containers,
                               LARGEST_DEPTH, allowed);
    }
    return KT_OK;
}

static enum kt_status read_shape(const struct kt_file *file, const json_t *shape,
                                 struct kt_tensor_info *info, uint64_t *elements,
                                 struct kt_error *error)
{
    if (!json_is_array(shape) || json_array_size(shape) > LARGEST_DIMS)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: tensor \"%s\": shape must be an array of at most %d numbers",
                       file->label, info->name, LARGEST_DIMS);
    *elements = 1;
    info->n_dims = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < info->n_dims; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0 ||
            !kt_mul(*elements, (uint64_t)json_integer_value(dim), elements))
            return kt_fail(error, KT_E_FORMAT,
                           "%s: tensor \"%s\": element %" PRIu32
                           " of shape is no whole number of at least 0, or the product overflows",
                           file->label, info->name, i);
        info->dims[i] = (uint64_t)json_integer_value(dim);
    }
    return KT_OK;
}

static enum kt_status read_dtype(const struct kt_file *file, const json_t *dtype,
                                 struct kt_tensor_info *info, struct kt_error *error)
{
    if (!json_is_string(dtype))
        return kt_fail(error, KT_E_FORMAT, "%s: tensor \"%s\": dtype must be a string", file->label,
                       info->name);
    info->dtype = kt_dtype_from_safetensors(json_string_value(dtype));
    const char *text = json_string_value(dtype);
    if (info->dtype == KT_DTYPE_NONE)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: tensor \"%s\": dtype \"%.32s\" is not known here", file->label,
                       info->name, kt_name_valid(text, strlen(text)) ? text : "?");
    return KT_OK;
}

static enum kt_status read_place(const struct kt_file *file, const json_t *offsets, uint64_t data,
                                 uint64_t elements, struct kt_tensor_info *info,
                                 struct kt_error *error)
{
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    uint64_t size = 0, length = file->size - data;
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last) ||
        json_integer_value(first) < 0 || json_integer_value(last) < json_integer_value(first))
        return kt_fail(error, KT_E_FORMAT,
                       "%s: tensor \"%s\": data_offsets must be two whole numbers, begin <= end",
                       file->label, info->name);
    uint64_t begin = (uint64_t)json_integer_value(first), end = (uint64_t)json_integer_value(last);
    if (end > length)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: tensor \"%s\" ends at byte %" PRIu64 " of the data, which has %" PRIu64
                       ": the file is cut off or damaged",
                       file->label, info->name, end, length);
    uint32_t bytes = kt_dtype_find(info->dtype)->bytes;
    if (!kt_mul(elements, bytes, &size) || size != end - begin)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: tensor \"%s\": data_offsets span %" PRIu64 " bytes, but %" PRIu64
                       " elements of %s take %" PRIu32 " each",
                       file->label, info->name, end - begin, elements, kt_dtype_name(info->dtype),
                       bytes);
    info->offset = data + begin;
    info->size = size;
    return KT_OK;
}

static enum kt_status read_tensor(struct kt_checkpoint *checkpoint, const char *name,
                                  const json_t *entry, uint64_t data, struct kt_error *error)
{
    const struct kt_file *file = &checkpoint->file;
    size_t length = strlen(name);
    if (length == 0 || length > KT_NAME_SIZE || !kt_name_valid(name, length))
        return kt_fail(
            error, KT_E_FORMAT,
            "%s: the name of a tensor has %zu letters; 1 to %d are allowed, none of them a "
            "control character",
            file->label, length, KT_NAME_SIZE);
    const json_t *dtype = json_object_get(entry, "dtype");
    const json_t *shape = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (!json_is_object(entry) || json_object_size(entry) != 3 || !dtype || !shape || !offsets)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: tensor \"%s\" must be an object of dtype, shape and data_offsets",
                       file->label, name);
    struct kt_tensor_info info = {.name = name};
    uint64_t elements = 0;
    enum kt_status status = read_dtype(file, dtype, &info, error);
    if (status == KT_OK)
        status = read_shape(file, shape, &info, &elements, error);
    if (status == KT_OK)
        status = read_place(file, offsets, data, elements, &info, error);
    if (status != KT_OK)
        return status;
    info.name = strdup(name);
    if (!info.name)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the name of a tensor", file->label);
    return kt_tensors_add(&checkpoint->tensors, &info, error);
}

static enum kt_status check_metadata(const struct kt_file *file, json_t *metadata,
                                     struct kt_error *error)
{
    const char *key;
    json_t *value;
    bool strings = json_is_object(metadata);
    json_object_foreach(metadata, key, value) strings = strings && json_is_string(value);
    if (!strings)
        return kt_fail(error, KT_E_FORMAT, "%s: __metadata__ must be an object of strings",
                       file->label);
    return KT_OK;
}

/* Tensors stand by offset and do not overlap: do they leave a gap? */
static enum kt_status check_cover(const struct kt_checkpoint *checkpoint, uint64_t data,
                                  struct kt_error *error)
{
    uint64_t at = data;
    for (uint64_t i = 0; i < checkpoint->tensors.n; i++) {
        const struct kt_tensor_info *info = &checkpoint->tensors.tensor[i].info;
        if (info->offset != at)
            return kt_fail(error, KT_E_FORMAT,
                           "%s: byte %" PRIu64 ": %" PRIu64
                           " bytes before tensor \"%s\" belong to none",
                           checkpoint->file.label, at, info->offset - at, info->name);
        at += info->size;
    }
    if (at != checkpoint->file.size)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: byte %" PRIu64 ": %" PRIu64
                       " bytes after the last tensor belong to none",
                       checkpoint->file.label, at, checkpoint->file.size - at);
    return KT_OK;
}

static enum kt_status read_object(struct kt_checkpoint *checkpoint, json_t *root, uint64_t data,
                                  struct kt_error *error)
{
    enum kt_status status = KT_OK;
    const char *name;
    json_t *entry;
    json_object_foreach(root, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0)
            status = check_metadata(&checkpoint->file, entry, error);
        else
            status = read_tensor(checkpoint, name, entry, data, error);
        if (status != KT_OK)
            return status;
    }
    status = kt_tensors_index(&checkpoint->tensors, checkpoint->file.label, error);
    return status == KT_OK ? check_cover(checkpoint, data, error) : status;
}

static enum kt_status parse(struct kt_checkpoint *checkpoint, const char *text, size_t size,
                            struct kt_error *error)
{
    json_error_t problem;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &problem);
    /* A failed allocation leaves no text; whatever is wrong with the JSON itself does. */
    if (!root && !problem.text[0])
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for its header", checkpoint->file.label);
    if (!root) {
        bool clean = kt_name_valid(problem.text, strlen(problem.text));
        return kt_fail(error, KT_E_FORMAT, "%s: byte %d: the header is no JSON: %s",
                       checkpoint->file.label, problem.position + 8,
                       clean ? problem.text : "a control character or no UTF-8");
    }
    enum kt_status status = read_object(checkpoint, root, 8 + size, error);
    json_decref(root);
    return status;
}

static enum kt_status read_safetensors(struct kt_checkpoint *checkpoint, struct kt_error *error)
{
    const struct kt_file *file = &checkpoint->file;
    uint8_t head[8];
    enum kt_status status = kt_file_read(file, 0, head, sizeof head, error);
    if (status != KT_OK)
        return status;
    uint64_t size = load64(head);
    if (size > file->size - 8 || size > LARGEST_HEADER)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: the header is said to take %" PRIu64 " bytes; the file has %" PRIu64
                       " after its length, and %d are allowed: it is cut off, damaged, or no "
                       "safetensors file",
                       file->label, size, file->size - 8, LARGEST_HEADER);
    status = scan_header(file, size, error);
    if (status != KT_OK)
        return status;
    char *text = malloc((size_t)size + 1);
    if (!text)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the %" PRIu64 " bytes of its header",
                       file->label, size);
    status = kt_file_read(file, 8, text, size, error);
    if (status == KT_OK)
        status = parse(checkpoint, text, (size_t)size, error);
    free(text);
    return status;
}

const struct kt_checkpoint_format kt_format_safetensors = {
    .name = "safetensors",
    .matches = match_safetensors,
    .read = read_safetensors,
    .no_experts =
        "the tensors of a safetensors file are not mapped to experts; use the model's GGUF file",
};

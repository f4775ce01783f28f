/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors.c - reads the headers of safetensors files.
 *
 *     u64 length of the header, a JSON object, possibly followed by spaces; then the data
 *     {"NAME": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
 *      "__metadata__": {"key": "text", ...}}
 *
 * The data must be covered exactly: no gap, no overlap, nothing after the last tensor.
 */
#include "core/weights/safetensors/safetensors.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/size.h"
#include "core/base/text.h"
#include "core/weights/decode/dtype.h"
#include "core/weights/file/file.h"
#include "core/weights/file/json.h"
#include "core/weights/file/limits.h"
#include "core/weights/safetensors/mappers.h"
#include "core/weights/safetensors/weight.h"
#include "core/weights/table/tensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_DIMS = 8, LARGEST_TYPE = 32 };

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

static enum kt_status read_shape(const struct kt_file *file, const json_t *shape, struct kt_tensor_info *info,
                                 uint64_t *elements, struct kt_error *error)
{
    size_t n = json_array_size(shape), folded = n > LARGEST_DIMS ? n - LARGEST_DIMS : 0;
    if (!json_is_array(shape))
        return kt_fail(error, KT_E_FORMAT, "%s: tensor \"%s\": shape must be an array of numbers",
                       file->label, info->name);
    *elements = 1;
    info->n_dims = (uint32_t)(n - folded);
    for (size_t i = 0; i < n; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0 ||
            !kt_mul(*elements, (uint64_t)json_integer_value(dim), elements))
            return kt_fail(error, KT_E_FORMAT,
                           "%s: tensor \"%s\": element %zu of shape is not a whole number of at least 0, "
                           "or the product overflows",
                           file->label, info->name, i);
        /* Beyond so many, the slowest ones are counted as one. */
        info->dims[i > folded ? i - folded : 0] =
            i > 0 && i <= folded ? *elements : (uint64_t)json_integer_value(dim);
    }
    return KT_OK;
}

static enum kt_status read_dtype(const struct kt_file *file, const json_t *dtype, struct kt_tensor_info *info,
                                 struct kt_error *error)
{
    if (!json_is_string(dtype))
        return kt_fail(error, KT_E_FORMAT, "%s: tensor \"%s\": dtype must be a string", file->label,
                       info->name);
    info->dtype = kt_dtype_from_safetensors(json_string_value(dtype));
    return KT_OK;
}

/* Must `elements` of the type take `size` bytes? *bits: of an element; 0: the type is not known, and any size
 * is right. */
static bool fits(const struct kt_tensor_info *info, const char *type, uint64_t elements, uint64_t size,
                 uint32_t *bits)
{
    const struct kt_dtype_info *known = kt_dtype_find(info->dtype);
    uint64_t all;
    *bits = known ? 8 * known->bytes / known->elements : kt_safetensors_bits(type);
    if (*bits % 8 == 0)
        return *bits == 0 || (kt_mul(elements, *bits / 8, &all) && size == all);
    return kt_mul(elements, *bits, &all) && all % 8 == 0 && size == all / 8;
}

static enum kt_status read_place(const struct kt_file *file, const json_t *offsets, uint64_t data,
                                 uint64_t elements, const char *type, struct kt_tensor_info *info,
                                 struct kt_error *error)
{
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    uint64_t length = file->size - data;
    uint32_t bits;
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last) ||
        json_integer_value(first) < 0 || json_integer_value(last) < json_integer_value(first))
        return kt_fail(error, KT_E_FORMAT,
                       "%s: tensor \"%s\": data_offsets must be two whole numbers, begin <= end", file->label,
                       info->name);
    uint64_t begin = (uint64_t)json_integer_value(first), end = (uint64_t)json_integer_value(last);
    if (end > length)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: tensor \"%s\" ends at byte %" PRIu64 " of the data, which has %" PRIu64
                       ": the file is truncated or damaged",
                       file->label, info->name, end, length);
    if (!fits(info, type, elements, end - begin, &bits))
        return kt_fail(error, KT_E_FORMAT,
                       "%s: tensor \"%s\": data_offsets span %" PRIu64 " bytes, but %" PRIu64
                       " elements of %s take %" PRIu32 " %s each",
                       file->label, info->name, end - begin, elements, type, bits % 8 ? bits : bits / 8,
                       bits % 8 ? "bits" : "bytes");
    info->offset = data + begin;
    info->size = end - begin;
    return KT_OK;
}

/* Adds the tensor to the list, under a copy of its name. */
static enum kt_status add_tensor(struct kt_checkpoint *checkpoint, uint32_t part, struct kt_tensor_info *info,
                                 const char *type, struct kt_error *error)
{
    info->name = strdup(info->name);
    if (!info->name)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the name of a tensor",
                       checkpoint->part[part].file.label);
    return info->dtype == KT_DTYPE_NONE
               ? kt_tensors_add_unknown(&checkpoint->tensors, part, info, type, error)
               : kt_tensors_add(&checkpoint->tensors, part, info, error);
}

static enum kt_status read_tensor(struct kt_checkpoint *checkpoint, uint32_t part, const char *name,
                                  const json_t *entry, struct kt_error *error)
{
    const struct kt_file *file = &checkpoint->part[part].file;
    size_t length = strlen(name);
    if (length == 0 || length > KT_LONGEST_NAME || !kt_name_valid(name, length))
        return kt_fail(error, KT_E_FORMAT,
                       "%s: the name of a tensor has %zu characters; 1 to %d are allowed, none of them a "
                       "control character",
                       file->label, length, KT_LONGEST_NAME);
    const json_t *dtype = json_object_get(entry, "dtype");
    const json_t *shape = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (!json_is_object(entry) || json_object_size(entry) != 3 || !dtype || !shape || !offsets)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: tensor \"%s\" must be an object of dtype, shape and data_offsets", file->label,
                       name);
    struct kt_tensor_info info = {.name = name};
    uint64_t elements = 0;
    enum kt_status status = read_dtype(file, dtype, &info, error);
    if (status == KT_OK)
        status = read_shape(file, shape, &info, &elements, error);
    if (status != KT_OK)
        return status;
    const char *type = json_string_value(dtype);
    /* Messages and lists show it. */
    if (strlen(type) > LARGEST_TYPE || !kt_name_valid(type, strlen(type)))
        type = "?";
    status = read_place(file, offsets, checkpoint->part[part].data, elements, type, &info, error);
    return status == KT_OK ? add_tensor(checkpoint, part, &info, type, error) : status;
}

static enum kt_status take_metadata(struct kt_part *part, json_t *metadata, struct kt_error *error)
{
    const char *key;
    json_t *value;
    bool strings = json_is_object(metadata);
    json_object_foreach (metadata, key, value)
        strings = strings && json_is_string(value);
    if (part->metadata)
        return kt_fail(error, KT_E_FORMAT, "%s: __metadata__ is a duplicate", part->file.label);
    if (!strings)
        return kt_fail(error, KT_E_FORMAT, "%s: __metadata__ must be an object of strings", part->file.label);
    part->metadata = json_incref(metadata);
    return KT_OK;
}

/* Do the tensors of a file, from number *first on, leave a gap? They are sorted and do not overlap. */
static enum kt_status check_cover(const struct kt_checkpoint *checkpoint, uint32_t part, uint64_t *first,
                                  struct kt_error *error)
{
    const struct kt_file *file = &checkpoint->part[part].file;
    const struct kt_tensors *tensors = &checkpoint->tensors;
    uint64_t at = checkpoint->part[part].data;
    for (; *first < tensors->n && tensors->tensor[*first].part == part; ++*first) {
        const struct kt_tensor_info *info = &tensors->tensor[*first].info;
        if (info->offset != at)
            return kt_fail(error, KT_E_FORMAT,
                           "%s: byte %" PRIu64 ": %" PRIu64 " bytes before tensor \"%s\" belong to none",
                           file->label, at, info->offset - at, info->name);
        at += info->size;
    }
    if (at != file->size)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: byte %" PRIu64 ": %" PRIu64 " bytes after the last tensor belong to none",
                       file->label, at, file->size - at);
    return KT_OK;
}

struct header {
    struct kt_checkpoint *checkpoint;
    uint32_t part;
};

static enum kt_status take_entry(void *data, const char *name, json_t *entry, struct kt_error *error)
{
    const struct header *header = data;
    if (strcmp(name, "__metadata__") == 0)
        return take_metadata(&header->checkpoint->part[header->part], entry, error);
    return read_tensor(header->checkpoint, header->part, name, entry, error);
}

enum kt_status kt_safetensors_read(struct kt_checkpoint *checkpoint, uint32_t part, struct kt_error *error)
{
    const struct kt_json_bounds *bounds = &kt_safetensors_bounds;
    struct kt_part *read = &checkpoint->part[part];
    const struct kt_file *file = &read->file;
    uint8_t head[8];
    if (file->size < sizeof head)
        return kt_fail(error, KT_E_FORMAT, "%s: is no safetensors file: it has %" PRIu64 " bytes",
                       file->label, file->size);
    enum kt_status status = kt_file_read(file, 0, head, sizeof head, error);
    if (status != KT_OK)
        return status;
    uint64_t size = load64(head);
    if (size > file->size - sizeof head || size > bounds->largest)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: the header is said to take %" PRIu64 " bytes; the file has %" PRIu64
                       " after its length, and %" PRIu64 " are allowed: it is cut off, damaged, or no "
                       "safetensors file",
                       file->label, size, file->size - sizeof head, bounds->largest);
    read->data = sizeof head + size;
    return kt_json_members(file, sizeof head, size, bounds, take_entry,
                           &(struct header){.checkpoint = checkpoint, .part = part}, error);
}

enum kt_status kt_safetensors_index(struct kt_checkpoint *checkpoint, struct kt_error *error)
{
    uint64_t first = 0;
    enum kt_status status = kt_tensors_index(checkpoint, error);
    for (uint32_t part = 0; part < checkpoint->n_parts && status == KT_OK; part++)
        status = check_cover(checkpoint, part, &first, error);
    uint64_t copies = status == KT_OK ? kt_tensors_drop_copies(&checkpoint->tensors) : 0;
    if (copies > 0)
        kt_log_write(&checkpoint->log, KT_LOG_INFO,
                     "%s: left out %" PRIu64 " copies of tensors that the index puts into other files",
                     checkpoint->label, copies);
    return status;
}

static enum kt_status read_safetensors(struct kt_checkpoint *checkpoint, const char *path,
                                       struct kt_error *error)
{
    (void)path;
    enum kt_status status = kt_safetensors_read(checkpoint, 0, error);
    if (status == KT_OK)
        status = kt_safetensors_index(checkpoint, error);
    return status == KT_OK ? kt_safetensors_map(checkpoint, error) : status;
}

const struct kt_checkpoint_format kt_format_safetensors = {
    .name = "safetensors",
    .matches = match_safetensors,
    .read = read_safetensors,
    .weight = kt_safetensors_weight,
    .free_map = kt_safetensors_free_map,
    .no_experts = "no tensor has a name that a known family of models gives to experts",
};

/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_tensors.c - reads the list of tensors in the header of a GGUF file. */
#include "core/base/error.h"
#include "core/base/size.h"
#include "core/weights/decode/dtype.h"
#include "core/weights/file/file.h"
#include "core/weights/gguf/gguf_header.h"
#include "core/weights/table/tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads the dimensions, turns them to row-major order and counts the bytes. */
static enum kt_status read_shape(struct kt_gguf *gguf, struct kt_tensor_info *info, uint64_t *elements,
                                 struct kt_error *error)
{
    const char *label = kt_gguf_label(gguf);
    uint64_t at = gguf->reader.at;
    enum kt_status status = kt_reader_u32(&gguf->reader, &info->n_dims, gguf->what, error);
    if (status != KT_OK)
        return status;
    if (info->n_dims > 4)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: byte %" PRIu64 ": tensor \"%s\" has %" PRIu32
                       " dimensions; at most 4 are allowed",
                       label, at, info->name, info->n_dims);
    *elements = 1;
    for (uint32_t i = 0; i < info->n_dims; i++) {
        uint64_t *dim = &info->dims[info->n_dims - 1 - i];
        at = gguf->reader.at;
        status = kt_reader_u64(&gguf->reader, dim, gguf->what, error);
        if (status != KT_OK)
            return status;
        if (*dim == 0 || !kt_mul(*elements, *dim, elements) || *elements > INT64_MAX)
            return kt_fail(error, KT_E_FORMAT,
                           "%s: byte %" PRIu64 ": dimension %" PRIu32 " of tensor \"%s\" is %" PRIu64
                           "; each must be at least 1 and their product below 2^63",
                           label, at, i, info->name, *dim);
    }
    return KT_OK;
}

/* *type: the number of the type in the file. The size of one that is not known stays 0: place_tensors. */
static enum kt_status read_type(struct kt_gguf *gguf, struct kt_tensor_info *info, uint64_t elements,
                                uint32_t *type, struct kt_error *error)
{
    const char *label = kt_gguf_label(gguf);
    uint64_t at = gguf->reader.at;
    enum kt_status status = kt_reader_u32(&gguf->reader, type, gguf->what, error);
    if (status != KT_OK)
        return status;
    info->dtype = kt_dtype_from_ggml(*type);
    const struct kt_dtype_info *dtype = kt_dtype_find(info->dtype);
    if (!dtype)
        return KT_OK;
    uint64_t row = info->n_dims ? info->dims[info->n_dims - 1] : 1;
    if (row % dtype->elements != 0)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: byte %" PRIu64 ": a row of tensor \"%s\" has %" PRIu64
                       " weights; type %s needs a multiple of %" PRIu32,
                       label, at, info->name, row, dtype->name, dtype->elements);
    if (!kt_mul(elements / dtype->elements, dtype->bytes, &info->size))
        return kt_fail(error, KT_E_FORMAT,
                       "%s: byte %" PRIu64 ": the size of tensor \"%s\", %" PRIu64
                       " weights of type %s, overflows",
                       label, at, info->name, elements, dtype->name);
    return KT_OK;
}

/* Adds the tensor, whose name then belongs to the list. */
static enum kt_status add_tensor(struct kt_gguf *gguf, const struct kt_tensor_info *info, uint32_t type,
                                 struct kt_error *error)
{
    struct kt_tensors *tensors = &gguf->checkpoint->tensors;
    char text[32];
    if (info->dtype != KT_DTYPE_NONE)
        return kt_tensors_add(tensors, gguf->part, info, error);
    (void)snprintf(text, sizeof text, "ggml type %" PRIu32, type);
    return kt_tensors_add_unknown(tensors, gguf->part, info, text, error);
}

/* Everything of a tensor's entry behind its name. */
static enum kt_status read_entry(struct kt_gguf *gguf, struct kt_tensor_info *info, uint32_t *type,
                                 struct kt_error *error)
{
    uint64_t elements = 0;
    enum kt_status status = read_shape(gguf, info, &elements, error);
    if (status == KT_OK)
        status = read_type(gguf, info, elements, type, error);
    uint64_t at = gguf->reader.at;
    if (status == KT_OK)
        status = kt_reader_u64(&gguf->reader, &info->offset, gguf->what, error);
    if (status == KT_OK && info->offset % gguf->alignment != 0)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: byte %" PRIu64 ": the offset of tensor \"%s\" is %" PRIu64
                       "; a multiple of general.alignment, %" PRIu64 ", is needed",
                       kt_gguf_label(gguf), at, info->name, info->offset, gguf->alignment);
    return status;
}

static enum kt_status read_tensor(struct kt_gguf *gguf, struct kt_error *error)
{
    struct kt_tensor_info info = {.name = NULL};
    uint32_t type = 0;
    char *name;
    enum kt_status status = kt_gguf_read_name(gguf, "the name of a tensor", &name, error);
    if (status != KT_OK)
        return status;
    info.name = name;
    (void)snprintf(gguf->what, sizeof gguf->what, "the entry of tensor \"%.*s\"", KT_NAME_SIZE, name);
    status = read_entry(gguf, &info, &type, error);
    if (status == KT_OK)
        return add_tensor(gguf, &info, type, error);
    free(name);
    return status;
}

static int compare_offsets(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* Tensors of types that are not known reach up to the next tensor, or to the end of the file. `first`: the
 * file's first tensor. */
static enum kt_status size_unknown(struct kt_gguf *gguf, uint64_t first, struct kt_error *error)
{
    struct kt_tensors *tensors = &gguf->checkpoint->tensors;
    uint64_t n = tensors->n - first, unknown = 0;
    for (uint64_t i = first; i < tensors->n; i++)
        unknown += tensors->tensor[i].unknown;
    if (unknown == 0)
        return KT_OK;
    uint64_t *offsets = malloc((size_t)n * sizeof *offsets);
    if (!offsets)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the offsets of %" PRIu64 " tensors",
                       kt_gguf_label(gguf), n);
    for (uint64_t i = 0; i < n; i++)
        offsets[i] = tensors->tensor[first + i].info.offset;
    qsort(offsets, (size_t)n, sizeof *offsets, compare_offsets);
    for (uint64_t i = first; i < tensors->n; i++) {
        struct kt_tensor_info *info = &tensors->tensor[i].info;
        uint64_t low = 0, high = n; /* the first offset beyond that of the tensor */
        while (low < high) {
            uint64_t middle = low + (high - low) / 2;
            if (offsets[middle] <= info->offset)
                low = middle + 1;
            else
                high = middle;
        }
        if (tensors->tensor[i].unknown)
            info->size = (low < n ? offsets[low] : gguf->reader.file->size) - info->offset;
    }
    free(offsets);
    return KT_OK;
}

/* Makes offsets, which count from the end of the header, those of the file. `first`: its first tensor. */
static enum kt_status place_tensors(struct kt_gguf *gguf, uint64_t first, struct kt_error *error)
{
    struct kt_tensors *tensors = &gguf->checkpoint->tensors;
    uint64_t size = gguf->reader.file->size, mask = gguf->alignment - 1, begin, end;
    if (!kt_add(gguf->reader.at, mask, &begin))
        begin = UINT64_MAX;
    begin &= ~mask;
    for (uint64_t i = first; i < tensors->n; i++) {
        struct kt_tensor_info *info = &tensors->tensor[i].info;
        if (!kt_add(begin, info->offset, &info->offset) || !kt_add(info->offset, info->size, &end) ||
            end > size)
            return kt_fail(error, KT_E_FORMAT,
                           "%s: tensor \"%s\", %" PRIu64 " bytes from byte %" PRIu64
                           " on, reaches beyond the end of the file at %" PRIu64
                           ": the file is truncated or damaged",
                           kt_gguf_label(gguf), info->name, info->size, info->offset, size);
    }
    return size_unknown(gguf, first, error);
}

enum kt_status kt_gguf_read_tensors(struct kt_gguf *gguf, struct kt_error *error)
{
    uint64_t first = gguf->checkpoint->tensors.n;
    enum kt_status status = KT_OK;
    for (uint64_t i = 0; status == KT_OK && i < gguf->n_tensors; i++)
        status = read_tensor(gguf, error);
    return status == KT_OK ? place_tensors(gguf, first, error) : status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* tensors.c - the list of a checkpoint's tensors. */
#include "core/weights/table/tensors.h"

#include "core/base/error.h"
#include "core/weights/decode/dtype.h"
#include "core/weights/file/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum kt_status kt_tensors_add(struct kt_tensors *tensors, uint32_t part, const struct kt_tensor_info *info,
                              struct kt_error *error)
{
    if (tensors->n == tensors->capacity) {
        /* Grows with the tensors that were read, so that a count in a header costs nothing. */
        uint64_t capacity = tensors->capacity + tensors->capacity / 4 + 16;
        struct kt_tensor *grown = NULL;
        if (capacity <= SIZE_MAX / sizeof *grown)
            grown = realloc(tensors->tensor, (size_t)capacity * sizeof *grown);
        if (!grown) {
            enum kt_status status =
                kt_fail(error, KT_E_NOMEM, "no memory for the list of %" PRIu64 " tensors", capacity);
            free((void *)(uintptr_t)info->name);
            return status;
        }
        tensors->tensor = grown;
        tensors->capacity = capacity;
    }
    tensors->tensor[tensors->n++] = (struct kt_tensor){.info = *info, .part = part};
    return KT_OK;
}

enum kt_status kt_tensors_add_unknown(struct kt_tensors *tensors, uint32_t part,
                                      const struct kt_tensor_info *info, const char *type,
                                      struct kt_error *error)
{
    struct kt_tensor_info own = *info;
    char *name = (char *)(uintptr_t)info->name;
    size_t length = strlen(name) + 1, size = strlen(type) + 1;
    char *both = realloc(name, length + size);
    if (!both) {
        free(name);
        return kt_fail(error, KT_E_NOMEM, "no memory for the name of a tensor's type");
    }
    memcpy(both + length, type, size);
    own.name = both;
    enum kt_status status = kt_tensors_add(tensors, part, &own, error);
    if (status == KT_OK)
        tensors->tensor[tensors->n - 1].unknown = true;
    return status;
}

const char *kt_tensor_type(const struct kt_tensor *tensor)
{
    const char *name = tensor->info.name;
    return tensor->unknown ? name + strlen(name) + 1 : kt_dtype_name(tensor->info.dtype);
}

enum kt_status kt_tensor_check_type(const struct kt_checkpoint *checkpoint, const struct kt_tensor *tensor,
                                    struct kt_error *error)
{
    if (!tensor->unknown)
        return KT_OK;
    return kt_fail(error, KT_E_UNSUPPORTED, "%s: tensor \"%s\" is of type %s, which cannot be read",
                   kt_tensor_label(checkpoint, tensor), tensor->info.name, kt_tensor_type(tensor));
}

static int compare_offsets(const void *left, const void *right)
{
    const struct kt_tensor_info *a = &((const struct kt_tensor *)left)->info;
    const struct kt_tensor_info *b = &((const struct kt_tensor *)right)->info;
    uint32_t a_part = ((const struct kt_tensor *)left)->part;
    uint32_t b_part = ((const struct kt_tensor *)right)->part;
    if (a_part != b_part)
        return a_part < b_part ? -1 : 1;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    return strcmp(a->name, b->name);
}

static enum kt_status refuse_twins(const struct kt_checkpoint *checkpoint, const struct kt_tensor *a,
                                   const struct kt_tensor *b, struct kt_error *error)
{
    const char *first = checkpoint->part[a->part].file.label;
    if (a->part == b->part)
        return kt_fail(error, KT_E_FORMAT, "%s: two tensors have the name \"%s\"", first, a->info.name);
    return kt_fail(error, KT_E_FORMAT,
                   "%s: tensor \"%s\" is also in %s; the files of a checkpoint must not share a "
                   "tensor",
                   first, a->info.name, checkpoint->part[b->part].file.label);
}

/* The slot of the tensor of that name, or the empty one where it would be. */
static uint64_t find_slot(const struct kt_tensors *tensors, const char *name)
{
    uint64_t mask = tensors->n_slots - 1, at = XXH3_64bits(name, strlen(name)) & mask;
    while (tensors->slot[at] && strcmp(tensors->tensor[tensors->slot[at] - 1].info.name, name) != 0)
        at = (at + 1) & mask;
    return at;
}

/* Enters the tensors that are where the index puts them, or else the strays among them. Refuses names that
 * are duplicates, but marks strays whose name has its place as copies. */
static enum kt_status enter_names(struct kt_checkpoint *checkpoint, bool strays, struct kt_error *error)
{
    struct kt_tensors *tensors = &checkpoint->tensors;
    for (uint64_t i = 0; i < tensors->n; i++) {
        struct kt_tensor *tensor = &tensors->tensor[i];
        if (tensor->stray != strays)
            continue;
        uint64_t at = find_slot(tensors, tensor->info.name);
        const struct kt_tensor *other = tensors->slot[at] ? &tensors->tensor[tensors->slot[at] - 1] : NULL;
        if (!other)
            tensors->slot[at] = (uint32_t)(i + 1);
        else if (strays && !other->stray)
            tensor->copy = true;
        else
            return refuse_twins(checkpoint, other, tensor, error);
    }
    return KT_OK;
}

static enum kt_status hash_names(struct kt_checkpoint *checkpoint, struct kt_error *error)
{
    struct kt_tensors *tensors = &checkpoint->tensors;
    uint64_t n_slots = 16;
    while (n_slots < 2 * tensors->n)
        n_slots *= 2;
    tensors->slot = tensors->n < UINT32_MAX ? calloc((size_t)n_slots, sizeof *tensors->slot) : NULL;
    if (!tensors->slot)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the index of %" PRIu64 " tensors",
                       checkpoint->label, tensors->n);
    tensors->n_slots = n_slots;
    enum kt_status status = enter_names(checkpoint, false, error);
    return status == KT_OK ? enter_names(checkpoint, true, error) : status;
}

static void free_tensor(struct kt_tensor *tensor)
{
    free((void *)(uintptr_t)tensor->info.name);
    free(tensor->loaded);
}

uint64_t kt_tensors_drop_copies(struct kt_tensors *tensors)
{
    uint64_t kept = 0, n = tensors->n;
    for (uint64_t i = 0; i < n; i++)
        if (tensors->tensor[i].copy)
            free_tensor(&tensors->tensor[i]);
        else
            tensors->tensor[kept++] = tensors->tensor[i];
    if (kept == n)
        return 0;
    tensors->n = kept;
    memset(tensors->slot, 0, (size_t)tensors->n_slots * sizeof *tensors->slot);
    for (uint64_t i = 0; i < kept; i++)
        tensors->slot[find_slot(tensors, tensors->tensor[i].info.name)] = (uint32_t)(i + 1);
    return n - kept;
}

enum kt_status kt_tensors_index(struct kt_checkpoint *checkpoint, struct kt_error *error)
{
    struct kt_tensors *tensors = &checkpoint->tensors;
    if (tensors->n == 0)
        return KT_OK;
    bool sorted = true; /* as most files are; qsort would take a copy of them all */
    for (uint64_t i = 1; i < tensors->n && sorted; i++)
        sorted = compare_offsets(&tensors->tensor[i - 1], &tensors->tensor[i]) <= 0;
    if (!sorted)
        qsort(tensors->tensor, (size_t)tensors->n, sizeof *tensors->tensor, compare_offsets);
    enum kt_status status = hash_names(checkpoint, error);
    if (status != KT_OK)
        return status;
    for (uint64_t i = 1; i < tensors->n; i++) {
        const struct kt_tensor_info *before = &tensors->tensor[i - 1].info;
        const struct kt_tensor_info *after = &tensors->tensor[i].info;
        if (tensors->tensor[i - 1].part == tensors->tensor[i].part &&
            before->size > after->offset - before->offset)
            return kt_fail(error, KT_E_FORMAT,
                           "%s: tensor \"%.200s\", %" PRIu64 " bytes from byte %" PRIu64
                           " on, overlaps tensor \"%.200s\" at byte %" PRIu64,
                           checkpoint->part[tensors->tensor[i].part].file.label, before->name, before->size,
                           before->offset, after->name, after->offset);
    }
    return KT_OK;
}

struct kt_tensor *kt_tensors_find(const struct kt_tensors *tensors, const char *name)
{
    if (tensors->n_slots == 0)
        return NULL;
    uint32_t number = tensors->slot[find_slot(tensors, name)];
    return number ? &tensors->tensor[number - 1] : NULL;
}

void kt_tensors_free(struct kt_tensors *tensors)
{
    for (uint64_t i = 0; i < tensors->n; i++)
        free_tensor(&tensors->tensor[i]);
    free(tensors->tensor);
    free(tensors->slot);
    *tensors = (struct kt_tensors){.n = 0};
}

static enum kt_status load(const struct kt_file *file, struct kt_tensor *tensor, struct kt_error *error)
{
    const struct kt_tensor_info *info = &tensor->info;
    void *memory = NULL;
    size_t size = info->size ? (size_t)info->size : 1;
    if (info->size > PTRDIFF_MAX || posix_memalign(&memory, 64, size) != 0)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the %" PRIu64 " bytes of tensor \"%s\"",
                       file->label, info->size, info->name);
    enum kt_status status = kt_file_read(file, info->offset, memory, info->size, error);
    if (status != KT_OK) {
        free(memory);
        return status;
    }
    tensor->loaded = memory;
    return KT_OK;
}

enum kt_status kt_tensor_data(struct kt_checkpoint *checkpoint, struct kt_tensor *tensor, const void **data,
                              struct kt_error *error)
{
    const struct kt_file *file = &checkpoint->part[tensor->part].file;
    const struct kt_dtype_info *dtype = kt_dtype_find(tensor->info.dtype);
    enum kt_status status = kt_file_check_size(file, error);
    if (status != KT_OK)
        return status;
    /* Numbers need alignment, and a header may place them anywhere; blocks are read byte by byte. */
    uint64_t alignment = dtype && dtype->elements == 1 ? dtype->bytes : 1;
    if (file->map && tensor->info.offset % alignment == 0) {
        *data = file->map + tensor->info.offset;
        return KT_OK;
    }
    if (!tensor->loaded)
        status = load(file, tensor, error);
    if (status == KT_OK)
        *data = tensor->loaded;
    return status;
}

char *kt_shape_text(const struct kt_tensor_info *info, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%s", info->n_dims ? "" : "a scalar");
    for (uint32_t i = 0; i < info->n_dims && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "[%" PRIu64 "]", info->dims[i]);
    return text;
}

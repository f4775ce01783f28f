/* SPDX-License-Identifier: Apache-2.0 */
/* store_header.c - reads what the headers of all files of a store have in common. */
#include "core/weights/store/store_header.h"

#include "core/base/error.h"
#include "core/weights/decode/dequantize.h"
#include "core/weights/decode/dtype.h"
#include "core/weights/table/parts.h"
#include "core/weights/table/tensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* Most matrices of which a file says the formats: gate, up and down. */
enum { MOST_FORMATS = 3 };

uint64_t kt_store_header_sum(const char *const *texts, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum = XXH3_64bits_withSeed(texts[i], strlen(texts[i]), sum);
    return sum;
}

/* ---- keys ---- */

const char *kt_store_label(const struct kt_store_reading *reading)
{
    return reading->checkpoint->part[reading->part].file.label;
}

const char *kt_store_text(const struct kt_store_reading *reading, const char *key)
{
    const char *text = kt_checkpoint_metadata(reading->checkpoint, reading->part, key);
    if (!text)
        (void)kt_fail(reading->error, KT_E_FORMAT,
                      "%s: its metadata lacks %s: the file is damaged: remove it and convert again",
                      kt_store_label(reading), key);
    return text;
}

static bool read_numbers(const char *text, unsigned n, uint64_t *numbers)
{
    for (unsigned i = 0; i < n; i++) {
        char *end;
        if (*text < '0' || *text > '9')
            return false;
        errno = 0;
        numbers[i] = strtoull(text, &end, 10);
        if (errno || *end != (i + 1 < n ? ' ' : '\0'))
            return false;
        text = end + 1;
    }
    return true;
}

enum kt_status kt_store_numbers(const struct kt_store_reading *reading, const char *key, unsigned n,
                                uint64_t *numbers)
{
    const char *text = kt_store_text(reading, key);
    if (!text)
        return KT_E_FORMAT;
    if (read_numbers(text, n, numbers))
        return KT_OK;
    return kt_fail(reading->error, KT_E_FORMAT, "%s: %s is \"%.80s\", not %u whole numbers",
                   kt_store_label(reading), key, text, n);
}

enum kt_status kt_store_short(const struct kt_store_reading *reading, const char *key, char *to, size_t size)
{
    const char *text = kt_store_text(reading, key);
    if (!text)
        return KT_E_FORMAT;
    if (!*text || strlen(text) >= size)
        return kt_fail(reading->error, KT_E_FORMAT, "%s: %s is \"%.80s\"; 1 to %zu letters are allowed",
                       kt_store_label(reading), key, text, size - 1);
    memcpy(to, text, strlen(text) + 1);
    return KT_OK;
}

enum kt_status kt_store_check_version(const struct kt_store_reading *reading, int version)
{
    uint64_t found;
    enum kt_status status = kt_store_numbers(reading, KT_STORE_KEY_VERSION, 1, &found);
    if (status == KT_OK && found != (uint64_t)version)
        return kt_fail(reading->error, KT_E_UNSUPPORTED,
                       "%s: is of version %" PRIu64 " of the format, this library reads %d: convert the "
                       "original checkpoint again",
                       kt_store_label(reading), found, version);
    return status;
}

/* Is it a possible format: scales with groups, or neither? */
static bool is_format(const struct kt_format *format)
{
    bool groups = format->group_rows > 0 && format->group_cols > 0;
    if (format->scale_dtype == KT_DTYPE_NONE || format->dtype == KT_DTYPE_NONE)
        return format->scale_dtype == KT_DTYPE_NONE && !kt_dtype_needs_scales(format->dtype) &&
               format->zero_dtype == KT_DTYPE_NONE && format->group_rows == 0 && format->group_cols == 0;
    return groups && kt_dtype_scales(format->scale_dtype) &&
           (format->zero_dtype == KT_DTYPE_NONE || format->zero_dtype == KT_DTYPE_U8);
}

/* Of each matrix: dtypes of scales and of zeros, rows and columns of a group. */
static enum kt_status read_scales(const struct kt_store_reading *reading, unsigned n,
                                  struct kt_format *formats)
{
    uint64_t numbers[4 * MOST_FORMATS];
    enum kt_status status = kt_store_numbers(reading, KT_STORE_KEY_SOURCE_SCALES, 4 * n, numbers);
    if (status != KT_OK)
        return status;
    for (unsigned p = 0; p < n; p++) {
        const uint64_t *part = numbers + 4 * p;
        struct kt_format *format = &formats[p];
        format->scale_dtype = (uint32_t)part[0];
        format->zero_dtype = (uint32_t)part[1];
        format->group_rows = part[2];
        format->group_cols = part[3];
        if (part[0] > UINT32_MAX || part[1] > UINT32_MAX || !is_format(format))
            return kt_fail(reading->error, KT_E_FORMAT,
                           "%s: %s says %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
                           " of projection %u, which %s weights never have",
                           kt_store_label(reading), KT_STORE_KEY_SOURCE_SCALES, part[0], part[1], part[2],
                           part[3], p, kt_dtype_name(format->dtype));
    }
    return KT_OK;
}

enum kt_status kt_store_formats(const struct kt_store_reading *reading, unsigned first, unsigned n,
                                struct kt_format *formats)
{
    uint64_t types[MOST_FORMATS];
    enum kt_status status = kt_store_numbers(reading, KT_STORE_KEY_SOURCE_TYPES, n, types);
    for (unsigned p = 0; p < n && status == KT_OK; p++) {
        bool right = p < first ? types[p] == KT_DTYPE_NONE
                               : types[p] <= UINT32_MAX && kt_dtype_decodes((uint32_t)types[p]);
        if (!right)
            return kt_fail(reading->error, KT_E_FORMAT,
                           "%s: %s has type %" PRIu64 " for matrix %u, which it cannot have",
                           kt_store_label(reading), KT_STORE_KEY_SOURCE_TYPES, types[p], p);
        formats[p] = (struct kt_format){.dtype = (uint32_t)types[p]};
    }
    return status == KT_OK ? read_scales(reading, n, formats) : status;
}

static enum kt_status read_model(const struct kt_store_reading *reading)
{
    struct kt_checkpoint *checkpoint = reading->checkpoint;
    const char *text = kt_store_text(reading, KT_STORE_KEY_MODEL);
    uint64_t n_layers;
    if (!text)
        return KT_E_FORMAT;
    const char *space = strrchr(text, ' ');
    if (!space || (size_t)(space - text) >= sizeof checkpoint->architecture ||
        !read_numbers(space + 1, 1, &n_layers))
        return kt_fail(reading->error, KT_E_FORMAT,
                       "%s: %s is \"%.80s\", not an architecture and a number of layers",
                       kt_store_label(reading), KT_STORE_KEY_MODEL, text);
    memcpy(checkpoint->architecture, text, (size_t)(space - text));
    checkpoint->architecture[space - text] = '\0';
    checkpoint->n_layers = n_layers;
    return KT_OK;
}

enum kt_status kt_store_origin(const struct kt_store_reading *reading, struct kt_stored *stored)
{
    stored->part = reading->part;
    enum kt_status status = read_model(reading);
    if (status == KT_OK)
        status = kt_store_short(reading, KT_STORE_KEY_BACKEND, stored->backend, sizeof stored->backend);
    if (status == KT_OK)
        status = kt_store_short(reading, KT_STORE_KEY_FORM, stored->form, sizeof stored->form);
    stored->source = kt_store_text(reading, KT_STORE_KEY_SOURCE);
    return status == KT_OK && !stored->source ? KT_E_FORMAT : status;
}

/* ---- checksums ---- */

/* 16 hex digits. */
static bool read_sum(const char *digits, uint64_t *sum)
{
    *sum = 0;
    for (int i = 0; i < KT_STORE_DIGITS; i++) {
        char c = digits[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        *sum = *sum << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return true;
}

enum kt_status kt_store_check_header(const struct kt_store_reading *reading, const char *const *keys,
                                     size_t n_keys, const char *what, const char *name)
{
    const char *texts[KT_STORE_MOST_KEYS], *sum = kt_store_text(reading, KT_STORE_KEY_HEADER);
    uint64_t said;
    for (size_t i = 0; i < n_keys; i++)
        if (!(texts[i] = kt_store_text(reading, keys[i])))
            return KT_E_FORMAT;
    if (!sum)
        return KT_E_FORMAT;
    if (strlen(sum) != KT_STORE_DIGITS || !read_sum(sum, &said) || said != kt_store_header_sum(texts, n_keys))
        return kt_fail(reading->error, KT_E_FORMAT,
                       "%s: its metadata is not what was stored: remove the file and convert again",
                       kt_store_label(reading));
    const char *label = kt_store_label(reading);
    size_t length = strlen(label), end = strlen(name);
    if (length < end || strcmp(label + length - end, name) != 0)
        return kt_fail(reading->error, KT_E_FORMAT, "%s: holds %s of a store: call it %s", label, what, name);
    return KT_OK;
}

bool kt_store_take_sum(struct kt_store_reading *reading, uint64_t *sum)
{
    const char *digits = reading->checksums;
    reading->checksums += KT_STORE_DIGITS;
    return read_sum(digits, sum);
}

/* ---- tensors ---- */

static struct kt_tensor *next_of(const struct kt_store_reading *reading)
{
    const struct kt_tensors *tensors = &reading->checkpoint->tensors;
    struct kt_tensor *tensor = reading->tensor < tensors->n ? &tensors->tensor[reading->tensor] : NULL;
    return tensor && tensor->part == reading->part ? tensor : NULL;
}

uint64_t kt_store_count(const struct kt_store_reading *reading)
{
    const struct kt_tensors *tensors = &reading->checkpoint->tensors;
    uint64_t n = 0;
    while (reading->tensor + n < tensors->n && tensors->tensor[reading->tensor + n].part == reading->part)
        n++;
    return n;
}

bool kt_store_next_is(const struct kt_store_reading *reading, const char *name)
{
    const struct kt_tensor *next = next_of(reading);
    return next && strcmp(next->info.name, name) == 0;
}

struct kt_tensor *kt_store_take(struct kt_store_reading *reading, const char *name, uint32_t dtype)
{
    struct kt_tensor *tensor = next_of(reading);
    if (tensor && strcmp(tensor->info.name, name) == 0 && tensor->info.dtype == dtype) {
        reading->tensor++;
        return tensor;
    }
    (void)kt_fail(reading->error, KT_E_FORMAT,
                  "%s: tensor \"%s\" of type %s must stand where \"%.80s\" does: the file is damaged; "
                  "convert again",
                  kt_store_label(reading), name, kt_dtype_name(dtype),
                  tensor ? tensor->info.name : "the end");
    return NULL;
}

enum kt_status kt_store_take_bias(struct kt_store_reading *reading, const char *name, uint32_t n_dims,
                                  const uint64_t *dims, struct kt_tensor **bias)
{
    struct kt_tensor *tensor = kt_store_take(reading, name, KT_DTYPE_F32);
    struct kt_tensor_info wanted = {.n_dims = n_dims};
    uint64_t checksum;
    const void *data;
    char text[192];
    if (!tensor)
        return KT_E_FORMAT;
    memcpy(wanted.dims, dims, n_dims * sizeof *dims);
    if (tensor->info.n_dims != n_dims || memcmp(tensor->info.dims, dims, n_dims * sizeof *dims) != 0 ||
        !kt_store_take_sum(reading, &checksum))
        return kt_fail(reading->error, KT_E_FORMAT, "%s: tensor \"%s\" must be %s with a checksum",
                       kt_store_label(reading), name, kt_shape_text(&wanted, text, sizeof text));
    enum kt_status status = kt_tensor_data(reading->checkpoint, tensor, &data, reading->error);
    if (status != KT_OK)
        return status;
    if (XXH3_64bits(data, tensor->info.size) != checksum)
        return kt_fail(reading->error, KT_E_FORMAT,
                       "%s: offset %" PRIu64 ": tensor \"%s\" is not what was stored: convert again",
                       kt_store_label(reading), tensor->info.offset, name);
    *bias = tensor;
    return KT_OK;
}

void kt_store_show(const struct kt_format *format, uint64_t rows, uint64_t cols, struct kt_view *view)
{
    *view = (struct kt_view)KT_VIEW_INIT;
    view->dtype = format->dtype;
    view->scales.dtype = format->scale_dtype;
    view->zeros.dtype = format->zero_dtype;
    view->scales.group_rows = view->zeros.group_rows = format->group_rows;
    view->scales.group_cols = view->zeros.group_cols = format->group_cols;
    view->rows = rows;
    view->cols = cols;
}

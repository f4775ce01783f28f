/* SPDX-License-Identifier: Apache-2.0 */
/* store_linear.c - the packed linears of a store: their files' headers and names, finding and checking one.
 */
#include "core/weights/store/store_linear.h"

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/weights/file/limits.h"
#include "core/weights/store/store_header.h"
#include "core/weights/table/parts.h"
#include "core/weights/table/tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* Most letters of a name in that of a file, and how many of a longer one stay: with its checksum, endings and
 * a file system's own additions the name has less than 143 letters, the least that is in use. */
enum { MOST_LETTERS = 120, KEPT_LETTERS = 96 };

bool kt_store_is_linear(const struct kt_checkpoint *checkpoint, uint32_t part)
{
    const char *format = kt_checkpoint_metadata(checkpoint, part, KT_STORE_KEY_FORMAT);
    return format && strcmp(format, KT_STORE_FORMAT_LINEAR) == 0;
}

/* ---- names ---- */

/* One letter of a name, as one or three in that of a file. Those that stay are portable in names of files. */
static size_t put_letter(char letter, char *to)
{
    static const char portable[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    to[0] = letter;
    to[1] = '\0';
    return strchr(portable, letter) ? 1 : (size_t)snprintf(to, 4, "%%%02X", (unsigned char)letter);
}

void kt_store_name_linear(const char *linear, char name[KT_STORE_NAME_SIZE])
{
    size_t begin = (size_t)snprintf(name, KT_STORE_NAME_SIZE, "linear-"), used = begin, kept = begin;
    char letters[4];
    for (const char *at = linear; *at; at++) {
        size_t n = put_letter(*at, letters);
        if (used + n > begin + MOST_LETTERS) {
            (void)snprintf(name + kept, KT_STORE_NAME_SIZE - kept, "~%016" PRIx64,
                           (uint64_t)XXH3_64bits(linear, strlen(linear)));
            return;
        }
        memcpy(name + used, letters, n + 1);
        used += n;
        kept = used <= begin + KEPT_LETTERS ? used : kept;
    }
}

/* ---- headers ---- */

static enum kt_status read_shape(const struct kt_store_reading *reading, uint64_t shape[2])
{
    enum kt_status status = kt_store_numbers(reading, KT_STORE_KEY_SHAPE, 2, shape);
    if (status != KT_OK)
        return status;
    for (int i = 0; i < 2; i++)
        if (shape[i] < 1 || shape[i] > KT_LARGEST_LINEAR)
            return kt_fail(reading->error, KT_E_FORMAT,
                           "%s: a linear of %" PRIu64 " x %" PRIu64 " is beyond any model",
                           kt_store_label(reading), shape[0], shape[1]);
    return KT_OK;
}

static enum kt_status check_header(const struct kt_store_reading *reading, const char *linear)
{
    static const char *const keys[] = KT_STORE_KEYS_LINEAR;
    char what[KT_NAME_SIZE + 16], name[KT_STORE_NAME_SIZE];
    if (!*linear || strlen(linear) > KT_STORE_LINEAR_SIZE || !kt_name_valid(linear, strlen(linear)))
        return kt_fail(reading->error, KT_E_FORMAT,
                       "%s: %s has %zu characters; 1 to %d are allowed, none of them a control character",
                       kt_store_label(reading), KT_STORE_KEY_LINEAR, strlen(linear), KT_STORE_LINEAR_SIZE);
    (void)snprintf(what, sizeof what, "linear \"%s\"", linear);
    kt_store_name_linear(linear, name);
    (void)strcat(name, ".safetensors");
    return kt_store_check_header(reading, keys, KT_STORE_N_KEYS_LINEAR, what, name);
}

/* Takes the object, with the checksums of its pieces. */
static enum kt_status read_object(struct kt_store_reading *reading, struct kt_stored *stored,
                                  const struct kt_tensor *tensor)
{
    const struct kt_tensor_info *info = &tensor->info;
    uint64_t found = strlen(reading->checksums), pieces = kt_stored_pieces(stored);
    uint64_t sums = pieces + kt_store_count(reading);
    if (info->size == 0 || info->size % 64 || info->offset % 64)
        return kt_fail(reading->error, KT_E_FORMAT,
                       "%s: tensor \"%s\" has %" PRIu64 " bytes at offset %" PRIu64
                       "; both must be multiples of 64 and the size above 0",
                       kt_store_label(reading), info->name, info->size, info->offset);
    if (found != KT_STORE_DIGITS * sums)
        return kt_fail(reading->error, KT_E_FORMAT,
                       "%s: has %" PRIu64 " digits of checksums; %" PRIu64 " pieces of its %" PRIu64
                       " bytes and the bias need %" PRIu64,
                       kt_store_label(reading), found, pieces, info->size, KT_STORE_DIGITS * sums);
    for (uint64_t i = 0; i < pieces; i++)
        if (!kt_store_take_sum(reading, &stored->checksum[i]))
            return kt_fail(reading->error, KT_E_FORMAT,
                           "%s: checksum %" PRIu64 " of tensor \"%s\" is no hex number",
                           kt_store_label(reading), i, info->name);
    return KT_OK;
}

static enum kt_status read_bias(struct kt_store_reading *reading, struct kt_stored *stored)
{
    const struct kt_tensors *tensors = &reading->checkpoint->tensors;
    char name[KT_NAME_SIZE + 1];
    enum kt_status status = KT_OK;
    (void)snprintf(name, sizeof name, "%s.bias", stored->linear);
    if (kt_store_next_is(reading, name))
        status = kt_store_take_bias(reading, name, 1, &stored->rows, &stored->bias);
    if (status == KT_OK && kt_store_count(reading) > 0)
        return kt_fail(reading->error, KT_E_FORMAT, "%s: tensor \"%.80s\" does not belong here",
                       kt_store_label(reading), tensors->tensor[reading->tensor].info.name);
    return status;
}

/* The object's tensor comes first. */
static enum kt_status take_object(struct kt_store_reading *reading, const char *linear,
                                  struct kt_stored **stored)
{
    struct kt_checkpoint *checkpoint = reading->checkpoint;
    char name[KT_NAME_SIZE + 1];
    (void)snprintf(name, sizeof name, "%s.packed", linear);
    const struct kt_tensor *tensor = kt_store_take(reading, name, KT_DTYPE_U8);
    if (!tensor)
        return KT_E_FORMAT;
    uint64_t pieces = (tensor->info.size + KT_STORE_PIECE - 1) / KT_STORE_PIECE;
    struct kt_stored *made = calloc(1, sizeof *made + pieces * sizeof made->checksum[0]);
    if (!made)
        return kt_fail(reading->error, KT_E_NOMEM, "%s: no memory for checksums", kt_store_label(reading));
    checkpoint->linear[checkpoint->n_linears++] = made;
    made->linear = linear;
    made->offset = tensor->info.offset;
    made->object_size[KT_STAGE_DOWN] = tensor->info.size;
    *stored = made;
    return read_object(reading, made, tensor);
}

enum kt_status kt_store_read_linear(struct kt_store_reading *reading)
{
    uint64_t shape[2];
    struct kt_format format;
    struct kt_stored *stored = NULL;
    enum kt_status status = kt_store_check_version(reading, KT_STORE_VERSION_LINEAR);
    const char *linear = status == KT_OK ? kt_store_text(reading, KT_STORE_KEY_LINEAR) : NULL;
    if (!linear)
        return status == KT_OK ? KT_E_FORMAT : status;
    status = read_shape(reading, shape);
    if (status == KT_OK)
        status = kt_store_formats(reading, 0, 1, &format);
    if (status == KT_OK)
        status = check_header(reading, linear);
    if (status != KT_OK)
        return status;
    reading->checksums = kt_store_text(reading, KT_STORE_KEY_CHECKSUMS);
    if (!reading->checksums)
        return KT_E_FORMAT;
    status = take_object(reading, linear, &stored);
    if (status != KT_OK)
        return status;
    stored->rows = shape[0];
    stored->cols = shape[1];
    stored->format[KT_DOWN] = format;
    status = kt_store_origin(reading, stored);
    return status == KT_OK ? read_bias(reading, stored) : status;
}

/* ---- finding one ---- */

static int compare_names(const void *left, const void *right)
{
    const struct kt_stored *const *a = left, *const *b = right;
    return strcmp((*a)->linear, (*b)->linear);
}

static int compare_name(const void *name, const void *linear)
{
    const struct kt_stored *const *stored = linear;
    return strcmp(name, (*stored)->linear);
}

void kt_store_sort_linears(struct kt_checkpoint *checkpoint)
{
    qsort(checkpoint->linear, checkpoint->n_linears, sizeof(struct kt_stored *), compare_names);
}

const struct kt_stored *kt_stored_linear(const struct kt_checkpoint *checkpoint, const char *name)
{
    if (!checkpoint || checkpoint->n_linears == 0)
        return NULL;
    struct kt_stored *const *found =
        bsearch(name, checkpoint->linear, checkpoint->n_linears, sizeof(struct kt_stored *), compare_name);
    return found ? *found : NULL;
}

enum kt_status kt_stored_weight(struct kt_checkpoint *checkpoint, const struct kt_stored *stored,
                                struct kt_weight *weight, struct kt_error *error)
{
    const void *numbers;
    kt_store_show(&stored->format[KT_DOWN], stored->rows, stored->cols, &weight->view);
    weight->view.name = stored->linear;
    if (!stored->bias)
        return KT_OK;
    enum kt_status status = kt_tensor_data(checkpoint, stored->bias, &numbers, error);
    if (status != KT_OK)
        return status;
    weight->bias = malloc(stored->bias->info.size);
    if (!weight->bias)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the bias of \"%s\"", checkpoint->label,
                       stored->linear);
    memcpy(weight->bias, numbers, stored->bias->info.size);
    return KT_OK;
}

enum kt_status kt_stored_check_piece(const struct kt_checkpoint *checkpoint, const struct kt_stored *stored,
                                     uint64_t piece, const void *bytes, struct kt_error *error)
{
    const struct kt_file *file = &checkpoint->part[stored->part].file;
    uint64_t size = kt_stored_piece_size(stored, piece);
    enum kt_status status = kt_file_check_size(file, error);
    if (status == KT_OK && XXH3_64bits(bytes, size) != stored->checksum[piece])
        status =
            kt_fail(error, KT_E_FORMAT,
                    "%s: offset %" PRIu64 ": the %" PRIu64 " bytes from there on of linear \"%s\" are not "
                    "what was stored: the file is damaged: remove it and convert again",
                    file->label, stored->offset + piece * KT_STORE_PIECE, size, stored->linear);
    return status;
}

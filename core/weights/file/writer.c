/* SPDX-License-Identifier: Apache-2.0 */
/* writer.c - writes a safetensors file, which appears only when it is complete. */
#include "core/base/error.h"
#include "core/base/size.h"
#include "core/base/text.h"
#include "core/weights/decode/dtype.h"
#include "core/weights/file/file.h"
#include "core/weights/file/json.h"
#include "core/weights/file/limits.h"
#include "core/weights/file/replacement.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 }; /* of the data in the file */

struct kt_writer {
    struct kt_replacement out;
    uint64_t size, done; /* bytes of the data: of all, and those that have come */
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are written as they lie in memory");

/* ---- the header ---- */

static enum kt_status fail_memory(const struct kt_writer *writer, struct kt_error *error)
{
    return kt_fail(error, KT_E_NOMEM, "%s: no memory for its header", writer->out.label);
}

static enum kt_status add_tensor(struct kt_writer *writer, json_t *root, const struct kt_tensor_info *info,
                                 struct kt_error *error)
{
    size_t length = info->name ? strlen(info->name) : 0;
    if (length == 0 || length > KT_NAME_SIZE || !kt_name_valid(info->name, length))
        return kt_fail(error, KT_E_INVALID,
                       "%s: a tensor's name must have 1 to %d characters, none of them a control character",
                       writer->out.label, KT_NAME_SIZE);
    const struct kt_dtype_info *dtype = kt_dtype_find(info->dtype);
    if (!dtype || !dtype->safetensors || dtype->elements != 1)
        return kt_fail(error, KT_E_INVALID, "%s: tensor \"%s\": safetensors files have no dtype %s",
                       writer->out.label, info->name, kt_dtype_name(info->dtype));
    uint64_t size = dtype->bytes, end = 0;
    bool fits = info->n_dims <= sizeof info->dims / sizeof info->dims[0];
    json_t *shape = json_array();
    bool lacks = !shape;
    for (uint32_t i = 0; fits && i < info->n_dims; i++) {
        fits = kt_mul(size, info->dims[i], &size) && info->dims[i] <= INT64_MAX;
        lacks |= json_array_append_new(shape, json_integer((json_int_t)info->dims[i])) != 0;
    }
    if (lacks) {
        json_decref(shape);
        return fail_memory(writer, error);
    }
    fits = fits && kt_add(writer->size, size, &end) && end <= INT64_MAX;
    if (!fits || json_object_get(root, info->name) || strcmp(info->name, "__metadata__") == 0) {
        json_decref(shape);
        return kt_fail(error, KT_E_INVALID, "%s: tensor \"%s\" %s", writer->out.label, info->name,
                       fits ? "is a duplicate" : "is too large, or has too many dimensions");
    }
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype->safetensors, "shape", shape,
                              "data_offsets", (json_int_t)writer->size, (json_int_t)end);
    if (json_object_set_new(root, info->name, entry) != 0)
        return fail_memory(writer, error);
    writer->size = end;
    return KT_OK;
}

static enum kt_status make_header(struct kt_writer *writer, const struct kt_writer_params *params,
                                  char **text, size_t *size, struct kt_error *error)
{
    json_t *root = json_object(), *metadata = json_object();
    bool failed = !root || !metadata;
    enum kt_status status = KT_OK;
    for (uint64_t i = 0; i < params->n_metadata && !failed; i++)
        failed = json_object_set_new(metadata, params->metadata[2 * i],
                                     json_string(params->metadata[2 * i + 1])) != 0;
    if (params->n_metadata > 0)
        failed = json_object_set_new(root, "__metadata__", metadata) != 0 || failed;
    else
        json_decref(metadata);
    for (uint64_t i = 0; i < params->n_tensors && !failed && status == KT_OK; i++)
        status = add_tensor(writer, root, &params->tensors[i], error);
    if (failed)
        status = fail_memory(writer, error);
    if (status == KT_OK)
        status = kt_json_text(writer->out.label, root, &kt_safetensors_bounds, text, size, error);
    json_decref(root);
    return status;
}

/* The length in 8 bytes, then JSON, padded with spaces so that the data is aligned. */
static enum kt_status write_header(const struct kt_writer *writer, const char *text, size_t length,
                                   struct kt_error *error)
{
    size_t padding = (ALIGNMENT - (8 + length) % ALIGNMENT) % ALIGNMENT;
    unsigned char head[8];
    for (int i = 0; i < 8; i++)
        head[i] = (unsigned char)((uint64_t)(length + padding) >> 8 * i);
    bool written = fwrite(head, 1, 8, writer->out.file) == 8 &&
                   fwrite(text, 1, length, writer->out.file) == length &&
                   fprintf(writer->out.file, "%*s", (int)padding, "") >= 0;
    return written ? KT_OK : kt_replacement_fail(&writer->out, error);
}

/* ---- the file ---- */

static enum kt_status check_params(const char *path, const struct kt_writer_params *params,
                                   struct kt_error *error)
{
    if (!path || !*path)
        return kt_fail(error, KT_E_INVALID, "the path of a file to write is %s", path ? "empty" : "NULL");
    if (!params || params->struct_size < sizeof *params)
        return kt_fail(error, KT_E_INVALID,
                       "kt_writer_create: params is NULL or its struct_size is too small; start with "
                       "KT_WRITER_PARAMS_INIT");
    if ((params->n_tensors && !params->tensors) || (params->n_metadata && !params->metadata))
        return kt_fail(error, KT_E_INVALID, "kt_writer_create: tensors or metadata is NULL");
    return KT_OK;
}

enum kt_status kt_writer_create(const char *path, const struct kt_writer_params *params,
                                struct kt_writer **out, struct kt_error *error)
{
    char *text = NULL;
    size_t length = 0;
    enum kt_status status = check_params(path, params, error);
    if (status == KT_OK && !out)
        status = kt_fail(error, KT_E_INVALID, "kt_writer_create: writer must not be NULL");
    if (status != KT_OK)
        return status;
    struct kt_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return kt_fail(error, KT_E_NOMEM, "no memory to write a file");
    kt_file_label(path, writer->out.label); /* for errors of the header */
    status = make_header(writer, params, &text, &length, error);
    if (status == KT_OK)
        status = kt_replacement_open(path, &writer->out, error);
    if (status == KT_OK)
        status = write_header(writer, text, length, error);
    free(text);
    if (status != KT_OK)
        kt_writer_cancel(writer);
    else
        *out = writer;
    return status;
}

enum kt_status kt_writer_add(struct kt_writer *writer, const void *data, uint64_t size,
                             struct kt_error *error)
{
    if (!writer || (size && !data))
        return kt_fail(error, KT_E_INVALID, "kt_writer_add: writer and data must not be NULL");
    if (size > writer->size - writer->done)
        return kt_fail(error, KT_E_INVALID,
                       "%s: the tensors take %" PRIu64 " bytes, %" PRIu64 " are left, and %" PRIu64 " came",
                       writer->out.label, writer->size, writer->size - writer->done, size);
    if (size && fwrite(data, 1, size, writer->out.file) != size)
        return kt_replacement_fail(&writer->out, error);
    writer->done += size;
    return KT_OK;
}

enum kt_status kt_writer_finish(struct kt_writer *writer, struct kt_error *error)
{
    if (!writer)
        return kt_fail(error, KT_E_INVALID, "kt_writer_finish: writer must not be NULL");
    enum kt_status status =
        writer->done == writer->size
            ? kt_replacement_finish(&writer->out, error)
            : kt_fail(error, KT_E_INVALID, "%s: the tensors take %" PRIu64 " bytes, but %" PRIu64 " came",
                      writer->out.label, writer->size, writer->done);
    kt_writer_cancel(writer);
    return status;
}

void kt_writer_cancel(struct kt_writer *writer)
{
    if (!writer)
        return;
    kt_replacement_cancel(&writer->out);
    free(writer);
}

const char *kt_writer_temporary(const struct kt_writer *writer)
{
    return writer ? writer->out.temporary : NULL;
}

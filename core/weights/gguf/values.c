/* SPDX-License-Identifier: Apache-2.0 */
/* values.c - the metadata of a GGUF checkpoint, as the file has it. */
#include "core/base/error.h"
#include "core/weights/file/file.h"
#include "core/weights/gguf/gguf_header.h"

#include <inttypes.h>
#include <kt/model.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(KT_VALUE_F64 == (int)KT_GGUF_F64 && KT_VALUE_TEXT == (int)KT_GGUF_STRING,
               "the public types have the numbers of the file's");

uint64_t kt_checkpoint_value_count(const struct kt_checkpoint *checkpoint)
{
    return checkpoint ? checkpoint->n_keys : 0;
}

static enum kt_status load(const struct kt_file *file, struct kt_gguf_key *key, struct kt_error *error)
{
    void *bytes = key->size < PTRDIFF_MAX ? malloc(key->size ? (size_t)key->size : 1) : NULL;
    if (!bytes)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the %" PRIu64 " bytes of key \"%s\"",
                       file->label, key->size, key->name);
    enum kt_status status = kt_file_read(file, key->value, bytes, key->size, error);
    if (status == KT_OK)
        key->loaded = bytes;
    else
        free(bytes);
    return status;
}

static enum kt_status show(struct kt_checkpoint *checkpoint, struct kt_gguf_key *key, struct kt_value *value,
                           struct kt_error *error)
{
    const struct kt_file *file = &checkpoint->part[checkpoint->key_part].file;
    bool array = key->type == KT_GGUF_ARRAY;
    enum kt_status status = kt_file_check_size(file, error);
    if (status == KT_OK && !file->map && !key->loaded)
        status = load(file, key, error);
    if (status != KT_OK)
        return status;
    *value = (struct kt_value){.key = key->name,
                               .type = array ? key->element : key->type,
                               .is_array = array,
                               .count = array ? key->count : 1,
                               .data = file->map ? (const void *)(file->map + key->value) : key->loaded,
                               .size = key->size};
    return KT_OK;
}

enum kt_status kt_checkpoint_value(struct kt_checkpoint *checkpoint, uint64_t index, struct kt_value *value,
                                   struct kt_error *error)
{
    if (!checkpoint || !value)
        return kt_fail(error, KT_E_INVALID, "the %s is NULL", checkpoint ? "result" : "checkpoint");
    if (index >= checkpoint->n_keys)
        return kt_fail(error, KT_E_RANGE, "%s: key %" PRIu64 " was asked for; it has %" PRIu64,
                       checkpoint->label, index, checkpoint->n_keys);
    return show(checkpoint, &checkpoint->key[index], value, error);
}

enum kt_status kt_checkpoint_value_find(struct kt_checkpoint *checkpoint, const char *key,
                                        struct kt_value *value, struct kt_error *error)
{
    if (!checkpoint || !key || !value)
        return kt_fail(error, KT_E_INVALID, "the %s is NULL",
                       !checkpoint ? "checkpoint"
                       : !key      ? "key"
                                   : "result");
    struct kt_gguf_key *found = kt_gguf_find_key(checkpoint->key, checkpoint->n_keys, key);
    if (!found)
        return kt_fail(error, KT_E_NOT_FOUND, "%s: has no key \"%.256s\" among its %" PRIu64,
                       checkpoint->label, key, checkpoint->n_keys);
    return show(checkpoint, found, value, error);
}

/* ---- elements ------------------------------------------------------------------------------- */

/* A number of any type: an integer's bits, sign extended, or a real. */
struct number {
    uint64_t bits;
    double real;
    bool is_real, is_signed, is_bool;
};

static uint64_t read_bytes(const uint8_t *from, unsigned size)
{
    uint64_t bits = 0;
    for (unsigned i = size; i-- > 0;)
        bits = bits << 8 | from[i];
    return bits;
}

static enum kt_status refuse_type(const struct kt_value *value, const char *needed, struct kt_error *error)
{
    struct kt_gguf_key key = {.type = value->is_array ? (uint32_t)KT_GGUF_ARRAY : value->type,
                              .element = value->type};
    char text[32];
    return kt_fail(error, KT_E_FORMAT, "key \"%s\" is of type %s; %s is needed", value->key,
                   kt_gguf_type_name(&key, text), needed);
}

static enum kt_status read_number(const struct kt_value *value, uint64_t index, const void *result,
                                  const char *needed, struct number *number, struct kt_error *error)
{
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (!value || !result)
        return kt_fail(error, KT_E_INVALID, "the %s is NULL", value ? "result" : "value");
    uint32_t type = value->type;
    unsigned size = type < sizeof sizes ? sizes[type] : 0;
    if (size == 0)
        return refuse_type(value, needed, error);
    if (index >= value->count || value->size / size <= index)
        return kt_fail(error, KT_E_RANGE, "key \"%s\": element %" PRIu64 " was asked for; it has %" PRIu64,
                       value->key, index, value->count);
    *number = (struct number){.bits = read_bytes((const uint8_t *)value->data + index * size, size),
                              .is_real = type == KT_VALUE_F32 || type == KT_VALUE_F64,
                              .is_signed = type == KT_VALUE_I8 || type == KT_VALUE_I16 ||
                                           type == KT_VALUE_I32 || type == KT_VALUE_I64,
                              .is_bool = type == KT_VALUE_BOOL};
    if (number->is_signed && size < 8 && number->bits >> (8 * size - 1))
        number->bits |= ~UINT64_C(0) << (8 * size);
    if (type == KT_VALUE_F32) {
        uint32_t bits = (uint32_t)number->bits;
        float real;
        memcpy(&real, &bits, sizeof real);
        number->real = (double)real;
    } else if (type == KT_VALUE_F64) {
        memcpy(&number->real, &number->bits, sizeof number->real);
    }
    return KT_OK;
}

/* A whole number that `is_signed` says may, or must not, be below 0, and whose sign bit is its own. */
static enum kt_status read_whole(const struct kt_value *value, uint64_t index, bool is_signed,
                                 const void *result, uint64_t *bits, struct kt_error *error)
{
    static const char needed[] = "a whole number";
    struct number found;
    enum kt_status status = read_number(value, index, result, needed, &found, error);
    if (status == KT_OK && (found.is_real || found.is_bool))
        return refuse_type(value, needed, error);
    if (status == KT_OK && found.is_signed != is_signed && found.bits > INT64_MAX)
        return is_signed
                   ? kt_fail(error, KT_E_FORMAT,
                             "key \"%s\": element %" PRIu64 " is %" PRIu64 ", above 2^63 - 1", value->key,
                             index, found.bits)
                   : kt_fail(error, KT_E_FORMAT, "key \"%s\": element %" PRIu64 " is %" PRId64 ", below 0",
                             value->key, index, (int64_t)found.bits);
    if (status == KT_OK)
        *bits = found.bits;
    return status;
}

enum kt_status kt_value_uint(const struct kt_value *value, uint64_t index, uint64_t *number,
                             struct kt_error *error)
{
    return read_whole(value, index, false, number, number, error);
}

enum kt_status kt_value_int(const struct kt_value *value, uint64_t index, int64_t *number,
                            struct kt_error *error)
{
    uint64_t bits = 0; /* compilers do not all see that it is set */
    enum kt_status status = read_whole(value, index, true, number, &bits, error);
    if (status == KT_OK)
        *number = (int64_t)bits;
    return status;
}

enum kt_status kt_value_real(const struct kt_value *value, uint64_t index, double *number,
                             struct kt_error *error)
{
    static const char needed[] = "a number";
    struct number found;
    enum kt_status status = read_number(value, index, number, needed, &found, error);
    if (status == KT_OK && found.is_bool)
        return refuse_type(value, needed, error);
    if (status == KT_OK)
        *number = found.is_real     ? found.real
                  : found.is_signed ? (double)(int64_t)found.bits
                                    : (double)found.bits;
    return status;
}

enum kt_status kt_value_bool(const struct kt_value *value, uint64_t index, int *truth, struct kt_error *error)
{
    static const char needed[] = "a bool";
    struct number found;
    enum kt_status status = read_number(value, index, truth, needed, &found, error);
    if (status == KT_OK && !found.is_bool)
        return refuse_type(value, needed, error);
    if (status == KT_OK)
        *truth = found.bits != 0;
    return status;
}

enum kt_status kt_value_text(const struct kt_value *value, uint64_t *at, const char **text, uint64_t *length,
                             struct kt_error *error)
{
    if (!value || !at || !text || !length)
        return kt_fail(error, KT_E_INVALID, "the %s is NULL", value ? "result" : "value");
    if (value->type != KT_VALUE_TEXT)
        return refuse_type(value, "a string", error);
    const uint8_t *data = value->data;
    uint64_t left = *at < value->size ? value->size - *at : 0;
    uint64_t bytes = left >= 8 ? read_bytes(data + *at, 8) : 0;
    if (left < 8 || bytes > left - 8)
        return kt_fail(error, KT_E_RANGE, "key \"%s\": no text begins at byte %" PRIu64 " of %" PRIu64,
                       value->key, *at, value->size);
    *text = (const char *)data + *at + 8;
    *length = bytes;
    *at += 8 + bytes;
    return KT_OK;
}

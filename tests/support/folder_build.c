/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/support/folder_build.h"

#include <check.h>
#include <dirent.h>
#include <math.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char root[256];

void folder_make(void)
{
    const char *folder = getenv("TMPDIR");
    (void)snprintf(root, sizeof root, "%s/kt-test-XXXXXX", folder && *folder ? folder : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(root));
}

void folder_remove(void)
{
    DIR *listing = opendir(root);
    ck_assert_ptr_nonnull(listing);
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            ck_assert_int_eq(remove(folder_path(entry->d_name)), 0);
    ck_assert_int_eq(closedir(listing), 0);
    ck_assert_int_eq(rmdir(root), 0);
}

const char *folder_path(const char *name)
{
    static char path[600];
    ck_assert_int_lt(snprintf(path, sizeof path, "%s%s%s", root, *name ? "/" : "", name), sizeof path);
    return path;
}

void folder_write(const char *name, const void *data, size_t size)
{
    FILE *file = fopen(folder_path(name), "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

void folder_text(const char *name, const char *format, ...)
{
    static char text[1 << 16];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    ck_assert(length >= 0 && (size_t)length < sizeof text);
    folder_write(name, text, (size_t)length);
}

void folder_delete(const char *name)
{
    ck_assert_int_eq(unlink(folder_path(name)), 0);
}

void shard_begin(struct shard *shard)
{
    shard->header_size = shard->size = 0;
}

static void append(struct shard *shard, const char *format, ...) KT_PRINTF(2, 3);
static void append(struct shard *shard, const char *format, ...)
{
    size_t rest = sizeof shard->header - shard->header_size;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(shard->header + shard->header_size, rest, format, arguments);
    va_end(arguments);
    ck_assert(length >= 0 && (size_t)length < rest);
    shard->header_size += (size_t)length;
}

void shard_metadata(struct shard *shard, const char *object)
{
    append(shard, "%s\"__metadata__\":%s", shard->header_size ? "," : "", object);
}

static const struct type {
    const char *name;
    unsigned bytes;
} types[] = {{"F32", 4}, {"F16", 2},     {"BF16", 2}, {"F8_E4M3", 1},     {"F8_E5M2", 1}, {"U8", 1},
             {"I8", 1},  {"F8_E8M0", 1}, {"F4", 1},   {"F8_E4M3FNUZ", 1}, {"I32", 4},     {"I64", 8}};

static unsigned size_of(const char *dtype)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].name, dtype) == 0)
            return types[i].bytes;
    ck_abort_msg("%s is not a type of the builder", dtype);
    return 0;
}

/* Two elements of F4 are a byte. */
static uint64_t all_bytes(uint64_t n, const char *dtype)
{
    return strcmp(dtype, "F4") == 0 ? n / 2 : n * size_of(dtype);
}

/* The bits of element i: always a finite number, and another one for another name; scales are not
 * negative. */
static uint32_t code_of(const char *name, const char *dtype, uint64_t i)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    bool positive = strstr(name, "scale") != NULL;
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * UINT64_C(1099511628211);
    hash = (hash + i) * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t bits = (uint32_t)(hash >> 32), sign = positive ? 0 : bits >> 31;
    if (strcmp(dtype, "F32") == 0)
        return sign << 31 | (0x3c000000u + (bits & 0x3ffffffu));
    if (strcmp(dtype, "BF16") == 0)
        return sign << 15 | (0x3c00u + (bits & 0x3ffu));
    if (strcmp(dtype, "F16") == 0)
        return sign << 15 | (0x2c00u + (bits & 0x1fffu));
    if (strcmp(dtype, "F8_E4M3") == 0)
        return sign << 7 | bits % 0x7f;
    return 110 + bits % 30;
}

float value_of(const char *name, const char *dtype, uint64_t i)
{
    uint32_t code = code_of(name, dtype, i), bits = code << 16;
    float value = 0;
    if (strcmp(dtype, "F32") == 0)
        bits = code;
    if (size_of(dtype) == 4 || strcmp(dtype, "BF16") == 0)
        return memcpy(&value, &bits, sizeof value), value;
    if (strcmp(dtype, "F16") == 0)
        value = ldexpf((float)(1024 + (code & 1023)), (int)(code >> 10 & 31) - 25);
    else if (strcmp(dtype, "F8_E4M3") == 0 && (code & 0x78))
        value = ldexpf((float)(8 + (code & 7)), (int)(code >> 3 & 15) - 10);
    else if (strcmp(dtype, "F8_E4M3") == 0)
        value = ldexpf((float)(code & 7), -9);
    else
        return ldexpf(1, (int)code - 127);
    return code >> (8 * size_of(dtype) - 1) ? -value : value;
}

/* Writes the tensor's header; gives the number of its elements, for which there is room. */
static uint64_t declare(struct shard *shard, const char *name, const char *dtype, unsigned n_dims,
                        const uint64_t *dims)
{
    uint64_t n = 1;
    append(shard, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", shard->header_size ? "," : "", name, dtype);
    for (unsigned d = 0; d < n_dims; d++) {
        append(shard, "%s%d", d ? "," : "", (int)dims[d]);
        n *= dims[d];
    }
    ck_assert_uint_le(all_bytes(n, dtype), sizeof shard->data - shard->size);
    append(shard, "],\"data_offsets\":[%d,%d]}", (int)shard->size, (int)(shard->size + all_bytes(n, dtype)));
    return n;
}

void shard_add(struct shard *shard, const char *name, const char *dtype, unsigned n_dims,
               const uint64_t *dims)
{
    uint64_t n = declare(shard, name, dtype, n_dims, dims);
    unsigned bytes = size_of(dtype);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t code = code_of(name, dtype, i);
        for (unsigned b = 0; b < bytes; b++)
            shard->data[shard->size++] = (uint8_t)(code >> 8 * b);
    }
}

void shard_put(struct shard *shard, const char *name, const char *dtype, unsigned n_dims,
               const uint64_t *dims, const void *data)
{
    uint64_t size = all_bytes(declare(shard, name, dtype, n_dims, dims), dtype);
    memcpy(shard->data + shard->size, data, size);
    shard->size += size;
}

const uint8_t *shard_bytes(const struct shard *shard, size_t *size)
{
    static uint8_t file[sizeof(struct shard)];
    uint64_t length = shard->header_size + 2;
    for (int i = 0; i < 8; i++)
        file[i] = (uint8_t)(length >> 8 * i);
    file[8] = '{';
    memcpy(file + 9, shard->header, shard->header_size);
    file[9 + shard->header_size] = '}';
    memcpy(file + 10 + shard->header_size, shard->data, shard->size);
    *size = 10 + shard->header_size + shard->size;
    return file;
}

void shard_write(const struct shard *shard, const char *name)
{
    size_t size;
    const uint8_t *bytes = shard_bytes(shard, &size);
    folder_write(name, bytes, size);
}

enum kt_status folder_open(const char *name, enum kt_io io, struct kt_checkpoint **checkpoint,
                           struct kt_error *error)
{
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    params.io = io;
    return kt_checkpoint_open(folder_path(name), &params, checkpoint, error);
}

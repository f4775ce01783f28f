/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf_parts SOURCE PREFIX COUNT: writes the tensors of a GGUF file into COUNT files PREFIX-00001-of-...,
 * one after the other in turn. Of the metadata goes into the first what layers need.
 */
#include "core/weights/decode/dtype.h"

#include <inttypes.h>
#include <kt/kt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    uint8_t data[1 << 16];
    size_t size;
} header;

static void put(const void *data, size_t size)
{
    if (size > sizeof header.data - header.size)
        exit(1);
    if (size)
        memcpy(header.data + header.size, data, size);
    header.size += size;
}

static void put_number(uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        put(&(uint8_t){(uint8_t)(value >> 8 * i)}, 1);
}

static void put_string(const char *text)
{
    put_number(strlen(text), 8);
    put(text, strlen(text));
}

/* type: 2 u16, 4 u32, 5 i32 */
static void put_key(const char *name, uint32_t type, uint64_t value)
{
    put_string(name);
    put_number(type, 4);
    put_number(value, type == 2 ? 2 : 4);
}

static void put_tensor(const struct kt_tensor_info *tensor, uint64_t offset)
{
    put_string(tensor->name);
    put_number(tensor->n_dims, 4);
    for (uint32_t d = tensor->n_dims; d-- > 0;)
        put_number(tensor->dims[d], 8);
    put_number((uint64_t)kt_dtype_find(tensor->dtype)->ggml, 4);
    put_number(offset, 8);
}

static void check(enum kt_status status, const struct kt_error *error)
{
    if (status == KT_OK)
        return;
    fprintf(stderr, "gguf_parts: %s\n", error->message);
    exit(1);
}

static void put_metadata(const struct kt_checkpoint *checkpoint)
{
    struct kt_checkpoint_info info;
    struct kt_moe_info moe;
    struct kt_error error;
    uint64_t layer;
    char key[128];
    kt_checkpoint_info(checkpoint, &info);
    check(kt_checkpoint_moe_layer(checkpoint, 0, &layer, &error), &error);
    check(kt_checkpoint_moe(checkpoint, layer, &moe, &error), &error);
    put_string("general.architecture");
    put_number(8, 4);
    put_string(info.architecture);
    snprintf(key, sizeof key, "%s.block_count", info.architecture);
    put_key(key, 4, info.n_layers);
    snprintf(key, sizeof key, "%s.expert_used_count", info.architecture);
    put_key(key, 4, moe.top_k);
}

static void write_part(struct kt_checkpoint *checkpoint, const char *prefix, uint64_t no, uint64_t count)
{
    struct kt_checkpoint_info info;
    struct kt_tensor_info tensor;
    struct kt_error error;
    uint64_t offset = 0;
    char name[600];
    static const uint8_t zeros[32];
    kt_checkpoint_info(checkpoint, &info);
    header.size = 0;
    put("GGUF", 4);
    put_number(3, 4);
    put_number((info.n_tensors - no + count - 1) / count, 8);
    put_number(no == 0 ? 6 : 3, 8);
    if (no == 0)
        put_metadata(checkpoint);
    put_key("split.no", 2, no);
    put_key("split.count", 2, count);
    put_key("split.tensors.count", 5, info.n_tensors);
    for (uint64_t i = no; i < info.n_tensors; i += count) {
        check(kt_checkpoint_tensor(checkpoint, i, &tensor, &error), &error);
        put_tensor(&tensor, offset);
        offset += (tensor.size + 31) / 32 * 32;
    }
    put(zeros, -header.size % 32);
    snprintf(name, sizeof name, "%s-%05" PRIu64 "-of-%05" PRIu64 ".gguf", prefix, no + 1, count);
    FILE *file = fopen(name, "wb");
    if (!file || fwrite(header.data, 1, header.size, file) != header.size)
        exit(1);
    for (uint64_t i = no; i < info.n_tensors; i += count) {
        const void *data;
        check(kt_checkpoint_tensor(checkpoint, i, &tensor, &error), &error);
        check(kt_checkpoint_data(checkpoint, i, &data, &error), &error);
        size_t padding = (size_t)(-tensor.size % 32);
        if (fwrite(data, 1, (size_t)tensor.size, file) != tensor.size ||
            fwrite(zeros, 1, padding, file) != padding)
            exit(1);
    }
    if (fclose(file) != 0)
        exit(1);
}

int main(int argc, char **argv)
{
    struct kt_checkpoint *checkpoint;
    struct kt_error error;
    uint64_t count = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;
    if (count == 0) {
        fprintf(stderr, "usage: gguf_parts SOURCE PREFIX COUNT\n");
        return 2;
    }
    check(kt_checkpoint_open(argv[1], NULL, &checkpoint, &error), &error);
    for (uint64_t no = 0; no < count; no++)
        write_part(checkpoint, argv[2], no, count);
    kt_checkpoint_close(checkpoint);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* asprintf */
#include "tests/support/gguf_build.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void put_raw(struct bytes *bytes, const void *data, size_t size)
{
    if (size >
        sizeof bytes->data - bytes->size) /* an assertion, which check writes to a file, for each byte */
        ck_abort_msg("%zu bytes more than a file may have", size);
    if (size)
        memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

void put_u8(struct bytes *bytes, uint8_t value)
{
    put_raw(bytes, &value, 1);
}

void put_number(struct bytes *bytes, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        put_u8(bytes, (uint8_t)(value >> 8 * i));
}

void put_u32(struct bytes *bytes, uint32_t value)
{
    put_number(bytes, value, 4);
}

void put_u64(struct bytes *bytes, uint64_t value)
{
    put_number(bytes, value, 8);
}

void put_string(struct bytes *bytes, const char *text)
{
    put_u64(bytes, strlen(text));
    put_raw(bytes, text, strlen(text));
}

void put_zeros(struct bytes *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put_u8(bytes, 0);
}

void put_padding(struct bytes *bytes, size_t alignment)
{
    while (bytes->size % alignment)
        put_u8(bytes, 0);
}

void put_header(struct bytes *bytes, uint32_t version, uint64_t n_tensors, uint64_t n_keys)
{
    put_raw(bytes, "GGUF", 4);
    put_u32(bytes, version);
    put_u64(bytes, n_tensors);
    put_u64(bytes, n_keys);
}

void put_key(struct bytes *bytes, const char *name, uint32_t type, uint64_t value)
{
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    put_string(bytes, name);
    put_u32(bytes, type);
    put_number(bytes, value, type < sizeof sizes ? sizes[type] : 4);
}

void put_key_string(struct bytes *bytes, const char *name, const char *value)
{
    put_string(bytes, name);
    put_u32(bytes, 8);
    put_string(bytes, value);
}

void put_tensor(struct bytes *bytes, const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                uint64_t offset)
{
    put_string(bytes, name);
    put_u32(bytes, n_dims);
    for (uint32_t i = 0; i < n_dims; i++)
        put_u64(bytes, dims[i]);
    put_u32(bytes, type);
    put_u64(bytes, offset);
}

/* Tensors of the model under construction. */
struct plan {
    char name[20][64];
    uint32_t n_dims[20];
    uint64_t dims[20][3];
    uint32_t type[20];
    uint64_t size[20];
    unsigned n;
};

enum { F32 = 0, F16 = 1, Q4_0 = 2, Q8_0 = 8, BF16 = 30, MXFP4 = 39 };

static void add(struct plan *plan, const struct model *model, uint64_t layer, const char *kind,
                const char *part, uint32_t type, uint32_t n_dims, uint64_t a, uint64_t b, uint64_t c)
{
    unsigned n = plan->n;
    uint64_t dims[3] = {a, b, c}, count = 1;
    snprintf(plan->name[n], sizeof plan->name[n], "blk.%llu.ffn_%s_exps.%s", (unsigned long long)layer, kind,
             part);
    if (model->left_out && strcmp(model->left_out, plan->name[n]) == 0)
        return;
    if (model->reshaped && strcmp(model->reshaped, plan->name[n]) == 0)
        dims[n_dims - 1]++;
    for (uint32_t i = 0; i < n_dims; i++)
        count *= plan->dims[n][i] = dims[i];
    plan->n_dims[n] = n_dims;
    plan->type[n] = type;
    plan->size[n] = type == Q8_0    ? count / 32 * 34
                    : type == Q4_0  ? count / 32 * 18
                    : type == MXFP4 ? count / 32 * 17
                    : type == F32   ? count * 4
                                    : count * 2;
    plan->n++;
}

static void plan_tensors(struct plan *plan, const struct model *model)
{
    uint64_t e = model->e, h = model->h, i = model->i;
    if (model->stray) {
        snprintf(plan->name[0], sizeof plan->name[0], "%s", model->stray);
        plan->n_dims[0] = 1;
        plan->dims[0][0] = 8;
        plan->type[0] = F32;
        plan->size[0] = 32;
        plan->n = 1;
    }
    for (int l = 0; l < 2; l++) {
        uint64_t layer = model->layer[l];
        static const uint32_t usual[] = {Q8_0, Q4_0, F16};
        const uint32_t *types = model->has_types ? model->types[l] : usual;
        const char *first = model->fused ? "gate_up" : "gate";
        uint64_t rows = model->fused ? 2 * i : i;
        if (!model->no_gate)
            add(plan, model, layer, first, "weight", types[0], 3, h, rows, e);
        if (model->has_bias && !model->no_gate)
            add(plan, model, layer, first, "bias", model->bias_type, 2, rows, e, 1);
        if (model->has_scale)
            add(plan, model, layer, first, "scale", F32, 1, e, 1, 1);
        if (!model->fused) {
            add(plan, model, layer, "up", "weight", types[1], 3, h, i, e);
            if (model->has_bias)
                add(plan, model, layer, "up", "bias", model->bias_type, 2, i, e, 1);
        }
        add(plan, model, layer, "down", "weight", types[2], 3, i, h, e);
        if (model->has_bias)
            add(plan, model, layer, "down", "bias", model->bias_type, 2, h, e, 1);
    }
}

static void put_count(struct bytes *bytes, const struct model *model, const char *suffix, uint64_t value,
                      uint64_t *n)
{
    char name[128];
    if (value == UINT64_MAX)
        return;
    snprintf(name, sizeof name, "%s.%s", model->architecture, suffix);
    put_key(bytes, name, 4, value);
    ++*n;
}

static void put_model_keys(struct bytes *bytes, const struct model *model, uint64_t *n)
{
    *n = 0;
    if (*model->architecture) {
        put_key_string(bytes, "general.architecture", model->architecture);
        ++*n;
    }
    if (model->alignment) {
        put_key(bytes, "general.alignment", 4, model->alignment);
        ++*n;
    }
    if (model->extra_key && model->extra_count) {
        put_string(bytes, model->extra_key);
        put_u32(bytes, 9);
        put_u32(bytes, 6);
        put_u64(bytes, model->extra_count);
        put_zeros(bytes, (model->extra_count - 1) * sizeof(float));
        put_u32(bytes, 0x40e00000);
        ++*n;
    } else if (model->extra_key) {
        put_key(bytes, model->extra_key, 6, 0x40e00000);
        ++*n;
    }
    put_count(bytes, model, "block_count", model->layers, n);
    put_count(bytes, model, "expert_count", model->experts, n);
    put_count(bytes, model, "expert_used_count", model->top_k, n);
    put_count(bytes, model, "embedding_length", model->hidden, n);
    put_count(bytes, model, "expert_feed_forward_length", model->intermediate, n);
}

/* The float16 of a float32 that it has exactly, and that is not a subnormal of it. */
static uint32_t half_of(uint32_t bits)
{
    uint32_t magnitude = bits & 0x7fffffff;
    return (bits >> 16 & 0x8000) | (magnitude ? (magnitude >> 13) - (112 << 10) : 0);
}

/* Sixty-fourths from -30/64 to 30/64, or blocks of any codes with a scale to match. */
static void put_numbers(struct bytes *bytes, uint32_t type, uint64_t size, unsigned seed)
{
    uint64_t block = type == F32 ? 4 : type == Q8_0 ? 34 : type == Q4_0 ? 18 : type == MXFP4 ? 17 : 2;
    for (uint64_t j = 0; j < size / block; j++) {
        float value = (float)((int)((j * 37 + seed * 11) % 61) - 30) / 64;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (type == F32)
            put_u32(bytes, bits);
        else if (type == BF16)
            put_number(bytes, bits >> 16, 2);
        else if (type == F16)
            put_number(bytes, half_of(bits), 2);
        else if (type == MXFP4)
            put_u8(bytes, (uint8_t)(123 + j % 3));
        else
            put_number(bytes, type == Q8_0 ? 0x1c00 : 0x2800, 2); /* 2^-8, 2^-5 */
        for (uint64_t k = block > 4 ? block % 2 ? 1 : 2 : block; k < block; k++)
            put_u8(bytes, (uint8_t)((j * 31 + k * 73 + seed * 5) % 251));
    }
}

static void put_split_keys(struct bytes *bytes, const struct part *part, uint64_t *n)
{
    if (part->count == UINT64_MAX)
        return;
    put_key(bytes, "split.count", part->key_type ? part->key_type : 2, part->count);
    put_key(bytes, "split.no", part->key_type ? part->key_type : 2, part->no);
    put_key(bytes, "split.tensors.count", 5, part->tensors);
    *n += 3;
    if (part->architecture) {
        put_key_string(bytes, "general.architecture", part->architecture);
        ++*n;
    }
}

size_t build_part(struct bytes *bytes, const struct model *model, const struct part *part)
{
    static struct bytes keys;
    struct plan plan = {.n = 0};
    uint64_t n_keys = 0, offset = 0, alignment = model->alignment ? model->alignment : 32;
    keys.size = 0;
    plan_tensors(&plan, model);
    unsigned end = part->end < plan.n ? part->end : plan.n;
    unsigned begin = part->begin < end ? part->begin : end;
    if (part->has_model_keys)
        put_model_keys(&keys, model, &n_keys);
    put_split_keys(&keys, part, &n_keys);
    bytes->size = 0;
    put_header(bytes, model->version, end - begin, n_keys);
    put_raw(bytes, keys.data, keys.size);
    for (unsigned i = begin; i < end; i++) {
        put_tensor(bytes, plan.name[i], plan.n_dims[i], plan.dims[i], plan.type[i], offset);
        offset += (plan.size[i] + alignment - 1) / alignment * alignment;
    }
    size_t header = bytes->size;
    for (unsigned i = begin; i < end; i++) {
        put_padding(bytes, alignment);
        if (model->has_types)
            put_numbers(bytes, plan.type[i], plan.size[i], i);
        else
            for (uint64_t j = 0; j < plan.size[i]; j++)
                put_u8(bytes, (uint8_t)(j * 7 % 61 + i));
    }
    return header;
}

size_t build_model(struct bytes *bytes, const struct model *model)
{
    const struct part whole = {.count = UINT64_MAX, .end = UINT32_MAX, .has_model_keys = 1};
    return build_part(bytes, model, &whole);
}

char *write_file(const void *data, size_t size)
{
    const char *folder = getenv("TMPDIR");
    char *path;
    ck_assert_int_gt(asprintf(&path, "%s/kt-test-XXXXXX", folder && *folder ? folder : "/tmp"), 0);
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, (const uint8_t *)data + done, size - done);
        ck_assert_int_gt(n, 0);
        done += (size_t)n;
    }
    ck_assert_int_eq(close(fd), 0);
    return path;
}

enum kt_status open_bytes(const void *data, size_t size, enum kt_io io, struct kt_checkpoint **checkpoint,
                          struct kt_error *error)
{
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    char *path = write_file(data, size);
    params.io = io;
    enum kt_status status = kt_checkpoint_open(path, &params, checkpoint, error);
    ck_assert_int_eq(unlink(path), 0);
    free(path);
    return status;
}

char *data_path(const char *name)
{
    const char *folder = getenv("KT_TEST_DATA");
    char *path;
    ck_assert_msg(folder != NULL, "KT_TEST_DATA must name the folder tests/data");
    ck_assert_int_gt(asprintf(&path, "%s/%s", folder, name), 0);
    return path;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quantization.c - reads quantization_config of config.json, as compressed-tensors, GPTQ, AWQ and publishers
 * of FP8 write it. It is only compared with the tensors. Lists of modules that were not quantized (ignore,
 * modules_to_not_convert) are not read, because the tensors show it.
 */
#include "core/weights/model/quantization.h"

#include "core/base/error.h"
#include "core/weights/file/limits.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The weights of the only group; NULL: there are none or several. */
static const json_t *find_weights(const json_t *quantization)
{
    const json_t *groups = kt_json_find(quantization, "config_groups");
    const char *name;
    json_t *group;
    if (json_object_size(groups) == 1)
        json_object_foreach ((json_t *)(uintptr_t)groups, name, group)
            return kt_json_find(group, "weights");
    return NULL;
}

static enum kt_status read_block_text(const char *label, const char *text, const char *key,
                                      struct kt_quantization *said, struct kt_error *error)
{
    unsigned rows, cols;
    int end = 0;
    if (sscanf(text, "%9ux%9u%n", &rows, &cols, &end) != 2 || text[end] != '\0' || rows == 0 || cols == 0)
        return kt_fail(error, KT_E_FORMAT, "%s: key \"%s\" must be two numbers of at least 1", label, key);
    said->block_rows = (struct kt_json_count){.key = key, .value = rows};
    said->block_cols = (struct kt_json_count){.key = key, .value = cols};
    return KT_OK;
}

/* The block of a scale, which stands under a key of `object`. */
static enum kt_status read_block(const char *label, const json_t *object, const char *key,
                                 struct kt_quantization *said, struct kt_error *error)
{
    const json_t *block = kt_json_find(object, key);
    if (!block)
        return KT_OK;
    if (json_is_string(block)) /* "128x128", as older versions of compressed-tensors wrote */
        return read_block_text(label, json_string_value(block), key, said, error);
    if (json_array_size(block) != 2)
        return kt_fail(error, KT_E_FORMAT, "%s: key \"%s\" must be two numbers of at least 1", label, key);
    enum kt_status status =
        kt_json_read_count(label, json_array_get(block, 0), key, KT_LARGEST_SIZE, &said->block_rows, error);
    if (status == KT_OK)
        status = kt_json_read_count(label, json_array_get(block, 1), key, KT_LARGEST_SIZE, &said->block_cols,
                                    error);
    if (status == KT_OK && (said->block_rows.value == 0 || said->block_cols.value == 0))
        status = kt_fail(error, KT_E_FORMAT, "%s: key \"%s\" must be two numbers of at least 1", label, key);
    return status;
}

/* Sets *truth or *falsehood to the key, if it is present. */
static enum kt_status read_flag(const char *label, const json_t *object, const char *key, const char **truth,
                                const char **falsehood, struct kt_error *error)
{
    const json_t *value = kt_json_find(object, key);
    if (!value)
        return KT_OK;
    if (!json_is_boolean(value))
        return kt_fail(error, KT_E_FORMAT, "%s: key \"%s\" must be true or false", label, key);
    *(json_is_true(value) ? truth : falsehood) = key;
    return KT_OK;
}

/* -1 and the strategy "channel" mean one group of all columns. */
static enum kt_status read_group(const char *label, const json_t *object, struct kt_json_count *group,
                                 struct kt_error *error)
{
    const char *key = "group_size";
    const json_t *value = kt_json_find(object, key);
    const char *strategy = json_string_value(kt_json_find(object, "strategy"));
    if (!value && strategy && strcmp(strategy, "channel") == 0)
        *group = (struct kt_json_count){.key = "strategy"};
    if (!value)
        return KT_OK;
    if (json_is_integer(value) && json_integer_value(value) == -1) {
        *group = (struct kt_json_count){.key = key};
        return KT_OK;
    }
    enum kt_status status = kt_json_read_count(label, value, key, KT_LARGEST_SIZE, group, error);
    if (status == KT_OK && group->value == 0)
        status = kt_fail(error, KT_E_FORMAT, "%s: key \"%s\" is 0; it must be at least 1, or -1", label, key);
    return status;
}

static enum kt_status read_compressed(const char *label, const json_t *weights, struct kt_quantization *said,
                                      struct kt_error *error)
{
    const json_t *bits = kt_json_find(weights, "num_bits");
    const char *type = json_string_value(kt_json_find(weights, "type"));
    enum kt_status status = KT_OK;
    if (bits)
        status = kt_json_read_count(label, bits, "num_bits", 64, &said->bits, error);
    if (status == KT_OK)
        status = read_group(label, weights, &said->group, error);
    if (status == KT_OK)
        status = read_flag(label, weights, "symmetric", &said->symmetric, &said->asymmetric, error);
    if (type && strcmp(type, "float") == 0)
        said->real = "type";
    return status == KT_OK && !said->block_rows.key
               ? read_block(label, weights, "block_structure", said, error)
               : status;
}

/* GPTQ's keys and AWQ's. */
static enum kt_status read_flat(const char *label, const json_t *object, struct kt_quantization *said,
                                struct kt_error *error)
{
    const json_t *bits = kt_json_find(object, "bits"), *packing = kt_json_find(object, "checkpoint_format");
    const char *key = packing ? "checkpoint_format" : "version", *ignored = NULL;
    enum kt_status status = KT_OK;
    if (strcmp(said->method, "awq") == 0 || strcmp(said->method, "gptq") == 0)
        status = kt_json_read_text(label, packing ? packing : kt_json_find(object, key), key, said->packing,
                                   sizeof said->packing, error);
    if (status == KT_OK && bits)
        status = kt_json_read_count(label, bits, "bits", 64, &said->bits, error);
    if (status == KT_OK)
        status = read_group(label, object, &said->group, error);
    if (status == KT_OK)
        status = read_flag(label, object, "sym", &said->symmetric, &said->asymmetric, error);
    if (status == KT_OK)
        status = read_flag(label, object, "zero_point", &said->asymmetric, &said->symmetric, error);
    if (status == KT_OK)
        status = read_flag(label, object, "desc_act", &said->reordered, &ignored, error);
    return status;
}

static enum kt_status check_groups(const char *label, const json_t *groups, struct kt_error *error)
{
    const char *name;
    json_t *group;
    bool objects = json_is_object(groups);
    json_object_foreach ((json_t *)(uintptr_t)groups, name, group)
        objects = objects && json_is_object(group);
    return objects
               ? KT_OK
               : kt_fail(error, KT_E_FORMAT, "%s: key \"config_groups\" must be an object of objects", label);
}

enum kt_status kt_quantization_read(const char *label, const json_t *object, struct kt_quantization *said,
                                    struct kt_error *error)
{
    enum kt_status status = kt_json_read_text(label, kt_json_find(object, "quant_method"), "quant_method",
                                              said->method, sizeof said->method, error);
    const json_t *groups = kt_json_find(object, "config_groups");
    if (status == KT_OK && groups)
        status = check_groups(label, groups, error);
    if (status == KT_OK)
        status = read_block(label, object, "weight_block_size", said, error);
    if (status != KT_OK)
        return status;
    if (groups)
        return read_compressed(label, find_weights(object), said, error);
    return read_flat(label, object, said, error);
}

enum kt_status kt_quantization_groups(const char *label, const json_t *object,
                                      struct kt_quantization groups[KT_MOST_GROUPS], uint32_t *n,
                                      struct kt_error *error)
{
    json_t *all = json_object_get(object, "config_groups"), *group;
    enum kt_status status = KT_OK;
    const char *name;
    *n = 0;
    if (json_object_size(all) < 2)
        return KT_OK;
    json_object_foreach (all, name, group) {
        struct kt_quantization said = {.method = ""};
        if (json_array_size(json_object_get(group, "targets")) == 0)
            continue; /* it is of nothing */
        if (status == KT_OK)
            status = read_compressed(label, kt_json_find(group, "weights"), &said, error);
        if (status == KT_OK && *n < KT_MOST_GROUPS)
            groups[*n] = said;
        ++*n;
    }
    if (*n > KT_MOST_GROUPS)
        *n = 0;
    return status;
}

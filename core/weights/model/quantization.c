/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quantization.c - reads quantization_config of config.json, as compressed-tensors, GPTQ, AWQ and those
 * who publish FP8 write it. What tensors show by themselves is only compared with it; lists of modules
 * that were left alone (ignore, modules_to_not_convert) are not read: their tensors say so.
 */
#include "core/weights/model/model_config.h"

#include "core/base/error.h"
#include "core/weights/table/checkpoint.h"
#include "core/weights/file/json.h"
#include "core/weights/file/limits.h"

#include <string.h>

static const json_t *find_in(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

/* Is it a group of weights for experts, by the modules that it names? */
static bool names_experts(const json_t *group)
{
    const json_t *targets = find_in(group, "targets");
    for (size_t i = 0; i < json_array_size(targets); i++) {
        const char *target = json_string_value(json_array_get(targets, i));
        const char *at = target ? strstr(target, "experts") : NULL;
        if (at && (at - target < 7 || strncmp(at - 7, "shared_", 7) != 0))
            return true;
    }
    return false;
}

/* The weights of the one group, or of the one that names experts; NULL: which one is not known. */
static const json_t *find_weights(const json_t *quantization)
{
    const json_t *groups = find_in(quantization, "config_groups"), *found = NULL, *last = NULL;
    const char *name;
    json_t *group;
    json_object_foreach ((json_t *)(uintptr_t)groups, name, group) {
        last = group;
        if (!found && names_experts(group))
            found = group;
    }
    if (!found && json_object_size(groups) == 1)
        found = last;
    return find_in(found, "weights");
}

/* The block of a scale, in any of compressed-tensors' groups. */
static const json_t *find_structure(const json_t *quantization)
{
    const char *name;
    json_t *group;
    json_object_foreach (json_object_get(quantization, "config_groups"), name, group) {
        const json_t *block = find_in(find_in(group, "weights"), "block_structure");
        if (block)
            return block;
    }
    return NULL;
}

static enum kt_status read_block(const json_t *quantization, struct kt_model_config *config,
                                 struct kt_error *error)
{
    const char *key = "weight_block_size";
    const json_t *block = find_in(quantization, key);
    if (!block)
        block = find_structure(quantization), key = "block_structure";
    if (!block)
        return KT_OK;
    if (json_array_size(block) != 2)
        return kt_fail(error, KT_E_FORMAT, "%s: key \"%s\" must be two numbers of at least 1", config->label,
                       key);
    enum kt_status status = kt_model_config_count(config->label, json_array_get(block, 0), key,
                                                  KT_LARGEST_SIZE, &config->block_rows, error);
    if (status == KT_OK)
        status = kt_model_config_count(config->label, json_array_get(block, 1), key, KT_LARGEST_SIZE,
                                       &config->block_cols, error);
    if (status == KT_OK && (config->block_rows.value == 0 || config->block_cols.value == 0))
        status = kt_fail(error, KT_E_FORMAT, "%s: key \"%s\" must be two numbers of at least 1",
                         config->label, key);
    return status;
}

/* Sets `truth` or `falsehood` to the key, where it is there. */
static enum kt_status read_flag(const char *label, const json_t *object, const char *key, const char **truth,
                                const char **falsehood, struct kt_error *error)
{
    const json_t *value = find_in(object, key);
    if (!value)
        return KT_OK;
    if (!json_is_boolean(value))
        return kt_fail(error, KT_E_FORMAT, "%s: key \"%s\" must be true or false", label, key);
    *(json_is_true(value) ? truth : falsehood) = key;
    return KT_OK;
}

/* -1, as a channel's, is a group of all columns. */
static enum kt_status read_group(const char *label, const json_t *object, struct kt_said *group,
                                 struct kt_error *error)
{
    const char *key = "group_size";
    const json_t *value = find_in(object, key);
    const char *strategy = json_string_value(find_in(object, "strategy"));
    if (!value && strategy && strcmp(strategy, "channel") == 0)
        *group = (struct kt_said){.key = "strategy"};
    if (!value)
        return KT_OK;
    if (json_is_integer(value) && json_integer_value(value) == -1) {
        *group = (struct kt_said){.key = key};
        return KT_OK;
    }
    enum kt_status status = kt_model_config_count(label, value, key, KT_LARGEST_SIZE, group, error);
    if (status == KT_OK && group->value == 0)
        status = kt_fail(error, KT_E_FORMAT, "%s: key \"%s\" is 0; it must be at least 1, or -1", label, key);
    return status;
}

static enum kt_status read_compressed(const char *label, const json_t *weights, struct kt_quantization *said,
                                      struct kt_error *error)
{
    const json_t *bits = find_in(weights, "num_bits");
    const char *type = json_string_value(find_in(weights, "type"));
    enum kt_status status = KT_OK;
    if (bits)
        status = kt_model_config_count(label, bits, "num_bits", 64, &said->bits, error);
    if (status == KT_OK)
        status = read_group(label, weights, &said->group, error);
    if (status == KT_OK)
        status = read_flag(label, weights, "symmetric", &said->symmetric, &said->asymmetric, error);
    if (type && strcmp(type, "float") == 0)
        said->real = "type";
    return status;
}

/* GPTQ's keys and AWQ's. */
static enum kt_status read_flat(const char *label, const json_t *object, struct kt_quantization *said,
                                struct kt_error *error)
{
    const json_t *bits = find_in(object, "bits"), *packing = find_in(object, "checkpoint_format");
    const char *key = packing ? "checkpoint_format" : "version", *ignored = NULL;
    enum kt_status status = KT_OK;
    if (strcmp(said->method, "awq") == 0 || strcmp(said->method, "gptq") == 0)
        status = kt_model_config_text(label, packing ? packing : find_in(object, key), key, said->packing,
                                      sizeof said->packing, error);
    if (status == KT_OK && bits)
        status = kt_model_config_count(label, bits, "bits", 64, &said->bits, error);
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

enum kt_status kt_quantization_read(const json_t *object, struct kt_model_config *config,
                                    struct kt_error *error)
{
    struct kt_quantization *said = &config->quantization;
    enum kt_status status = kt_model_config_text(config->label, find_in(object, "quant_method"),
                                                 "quant_method", said->method, sizeof said->method, error);
    const json_t *groups = find_in(object, "config_groups");
    if (status == KT_OK && groups)
        status = check_groups(config->label, groups, error);
    if (status == KT_OK)
        status = read_block(object, config, error);
    if (status != KT_OK)
        return status;
    if (groups)
        return read_compressed(config->label, find_weights(object), said, error);
    return read_flat(config->label, object, said, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * experts.c - finds the layers with experts by the names of tensors in known families of models. Checks that
 * nothing is missing or duplicate, that experts are alike, and that config.json agrees.
 */
#include "core/weights/safetensors/experts.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/weights/file/limits.h"
#include "core/weights/model/family.h"
#include "core/weights/model/model_config.h"
#include "core/weights/safetensors/coding.h"
#include "core/weights/safetensors/experts_shape.h"
#include "core/weights/safetensors/experts_view.h"
#include "core/weights/table/tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    struct kt_expert_name name;
    uint64_t layer; /* those that predict behind the others */
    struct kt_tensor *tensor;
};

/* A layer while it is being mapped: its tensors by expert, kind and role. */
struct layer {
    struct kt_checkpoint *checkpoint;
    const struct kt_model_config *config;
    const struct entry *entry;
    uint64_t n;
    uint64_t number, n_experts;
};

static bool match_families(const struct kt_checkpoint *checkpoint)
{
    struct kt_expert_name name;
    for (uint64_t i = 0; i < checkpoint->tensors.n; i++)
        if (kt_expert_name_parse(checkpoint->tensors.tensor[i].info.name, &name))
            return true;
    return false;
}

static int compare_numbers(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int compare_entries(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    int order = compare_numbers(a->layer, b->layer);
    if (order == 0)
        order = compare_numbers(a->name.expert, b->name.expert);
    if (order == 0)
        order = compare_numbers((uint64_t)a->name.kind, (uint64_t)b->name.kind);
    if (order == 0)
        order = compare_numbers((uint64_t)a->name.role, (uint64_t)b->name.role);
    return order ? order : strcmp(a->tensor->info.name, b->tensor->info.name);
}

/* Layers beyond those of the model predict further tokens (MTP). They are not counted, but found by their
 * number. */
static bool is_beyond(const struct kt_model_config *config, const struct entry *entry)
{
    return config->layers.key && entry->layer >= config->layers.value;
}

/* False: it belongs to no expert, or behind layers whose number is not known. */
static bool make_entry(const struct kt_model_config *config, struct kt_tensor *tensor, struct entry *entry)
{
    if (!kt_expert_name_parse(tensor->info.name, &entry->name) ||
        (entry->name.predicts && !config->layers.key))
        return false;
    entry->tensor = tensor;
    entry->layer = entry->name.layer + (entry->name.predicts ? config->layers.value : 0);
    return true;
}

static enum kt_status collect(const struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                              struct entry **entries, uint64_t *n, struct kt_error *error)
{
    const struct kt_tensors *tensors = &checkpoint->tensors;
    struct entry entry;
    uint64_t count = 0, beyond = 0;
    *entries = NULL;
    *n = 0;
    for (uint64_t i = 0; i < tensors->n; i++)
        count += make_entry(config, &tensors->tensor[i], &entry);
    if (count == 0)
        return KT_OK;
    *entries = malloc((size_t)count * sizeof entry);
    if (!*entries)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the list of %" PRIu64 " expert tensors",
                       checkpoint->label, count);
    for (uint64_t i = 0; i < tensors->n; i++) {
        const struct kt_tensor *tensor = &tensors->tensor[i];
        bool found = make_entry(config, &tensors->tensor[i], &entry);
        if (!found && kt_expert_name_is_stray(tensor->info.name)) /* it may change the expert's values */
            return kt_fail(error, KT_E_UNSUPPORTED,
                           "%s: tensor \"%s\" belongs to an expert, but is not one that is supported",
                           kt_tensor_label(checkpoint, tensor), tensor->info.name);
        if (!found)
            continue;
        if (is_beyond(config, &entry))
            beyond = entry.layer > beyond ? entry.layer : beyond;
        (*entries)[(*n)++] = entry;
    }
    if (beyond > 0)
        kt_log_write(&checkpoint->log, KT_LOG_INFO,
                     "%s: experts of layers up to %" PRIu64 " are left out: the model has %" PRIu64
                     " layers, and those beyond predict further tokens",
                     checkpoint->label, beyond, config->layers.value);
    qsort(*entries, (size_t)*n, sizeof entry, compare_entries);
    return KT_OK;
}

/* Refuses formats that are known but cannot be read. */
static enum kt_status check_formats(const struct kt_checkpoint *checkpoint, const struct entry *entries,
                                    uint64_t n, struct kt_error *error)
{
    for (uint64_t i = 0; i < n; i++)
        if (entries[i].name.role == KT_ROLE_REFUSED)
            return kt_fail(error, KT_E_UNSUPPORTED,
                           "%s: tensor \"%s\" has an unsupported format, %s; a "
                           "later backend may",
                           kt_tensor_label(checkpoint, entries[i].tensor), entries[i].tensor->info.name,
                           entries[i].name.format);
    return KT_OK;
}

static enum kt_status check_naming(const struct layer *layer, struct kt_error *error)
{
    const struct entry *first = &layer->entry[0];
    for (uint64_t i = 1; i < layer->n; i++) {
        const struct entry *entry = &layer->entry[i];
        if (entry->name.prefix != first->name.prefix || entry->name.family != first->name.family)
            return kt_fail(error, KT_E_FORMAT,
                           "%s: layer %" PRIu64 " has experts under two kinds of names: \"%s\" and "
                           "\"%s\"",
                           kt_tensor_label(layer->checkpoint, entry->tensor), layer->number,
                           first->tensor->info.name, entry->tensor->info.name);
    }
    return KT_OK;
}

/* The first weight of the layer, or its last tensor if it has no weight. */
static uint64_t find_weight(const struct layer *layer)
{
    uint64_t i = 0;
    while (i + 1 < layer->n && layer->entry[i].name.role != KT_ROLE_WEIGHT)
        i++;
    return i;
}

/* Of experts below one another, only config.json says how many there are. */
static enum kt_status count_below(struct layer *layer, const struct kt_tensor *tensor, struct kt_error *error)
{
    const struct kt_json_count *said = &layer->config->experts;
    layer->n_experts = said->value;
    if (said->key && said->value > 0 && tensor->info.dims[0] % said->value == 0)
        return KT_OK;
    return kt_fail(error, KT_E_FORMAT,
                   "%s: tensor \"%s\" has the rows of all experts, %" PRIu64
                   ", and config.json says that there are %" PRIu64 " experts",
                   kt_tensor_label(layer->checkpoint, tensor), tensor->info.name, tensor->info.dims[0],
                   said->value);
}

/* Experts must be numbered from 0 without a gap; a fused weight has their number as a dimension. */
static enum kt_status count_experts(struct layer *layer, struct kt_error *error)
{
    uint64_t next = 0, weight = find_weight(layer);
    const struct kt_tensor_info *fused = &layer->entry[weight].tensor->info;
    if (layer->entry[weight].name.below)
        return count_below(layer, layer->entry[weight].tensor, error);
    if (layer->entry[weight].name.fused) {
        layer->n_experts = fused->n_dims ? fused->dims[0] : 0;
        return KT_OK;
    }
    for (uint64_t i = 0; i < layer->n; i++) {
        const struct entry *entry = &layer->entry[i];
        if (entry->name.expert > next)
            return kt_fail(error, KT_E_FORMAT,
                           "%s: layer %" PRIu64 ": expert %" PRIu64
                           " is missing, but there is tensor \"%s\"%s",
                           layer->checkpoint->label, layer->number, next, entry->tensor->info.name,
                           layer->checkpoint->whole ? ""
                                                    : "; if this is one file of several, open their folder");
        next = entry->name.expert + 1;
    }
    layer->n_experts = next;
    return KT_OK;
}

static enum kt_status put(const struct layer *layer, const struct entry *entry, struct kt_tensor **slot,
                          struct kt_error *error)
{
    if (*slot)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: layer %" PRIu64 ", expert %" PRIu64 ": tensors \"%s\" and \"%s\" stand "
                       "for the same",
                       kt_tensor_label(layer->checkpoint, entry->tensor), layer->number, entry->name.expert,
                       (*slot)->info.name, entry->tensor->info.name);
    *slot = entry->tensor;
    return KT_OK;
}

/* The names of all weights of a projection must tell the same coding. */
static enum kt_status set_coding(const struct layer *layer, const struct entry *entry,
                                 struct kt_matrix *matrix, struct kt_error *error)
{
    if (entry->name.role != KT_ROLE_WEIGHT || matrix->coding == entry->name.coding)
        return KT_OK;
    if (matrix->coding != KT_CODING_NONE)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: layer %" PRIu64 ", expert %" PRIu64 ": tensor \"%s\" is packed as %s, but "
                       "others of the same projection as %s",
                       kt_tensor_label(layer->checkpoint, entry->tensor), layer->number, entry->name.expert,
                       entry->tensor->info.name, kt_coding_name(entry->name.coding),
                       kt_coding_name(matrix->coding));
    matrix->coding = entry->name.coding;
    return KT_OK;
}

/* Puts every tensor into the map. */
static enum kt_status place(const struct layer *layer, struct kt_expert_map *map, struct kt_error *error)
{
    enum kt_status status = KT_OK;
    for (uint64_t i = 0; i < layer->n && status == KT_OK; i++) {
        const struct kt_expert_name *name = &layer->entry[i].name;
        int first = name->kind == KT_GATE_UP ? KT_GATE : name->kind;
        int last = name->kind == KT_GATE_UP ? KT_UP : name->kind;
        if (first < map->first && name->role < KT_N_ROLES)
            return kt_fail(
                error, KT_E_FORMAT,
                "%s: tensor \"%s\" has a gate, but the activation in config.json is %s, without a gate",
                kt_tensor_label(layer->checkpoint, layer->entry[i].tensor), layer->entry[i].tensor->info.name,
                kt_activation_name(layer->config->activation));
        for (int p = first; p <= last && name->role < KT_N_ROLES && status == KT_OK; p++) {
            status = put(layer, &layer->entry[i],
                         &map->tensor[name->expert * map->stride + (uint64_t)p][name->role], error);
            if (status == KT_OK)
                status = set_coding(layer, &layer->entry[i], &map->matrix[p], error);
        }
    }
    return status;
}

/* The name of the missing weight follows from that of another one of the layer. */
static enum kt_status fail_missing(const struct layer *layer, uint64_t expert, int projection,
                                   struct kt_error *error)
{
    char name[KT_NAME_SIZE + 64];
    const struct kt_expert_name *like = &layer->entry[find_weight(layer)].name;
    return kt_fail(error, KT_E_FORMAT,
                   "%s: layer %" PRIu64 ", expert %" PRIu64 ": tensor \"%s\" is missing%s",
                   layer->checkpoint->label, layer->number, expert,
                   kt_expert_name_weight(like, expert, projection, name, sizeof name),
                   layer->checkpoint->whole ? "" : "; if this is one file of several, open their folder");
}

/* Has the expert the same tensors of a projection as expert 0, with the same types and shapes? */
static enum kt_status check_alike(const struct layer *layer, uint64_t expert, int projection,
                                  struct kt_tensor *const *first, struct kt_tensor *const *tensors,
                                  struct kt_error *error)
{
    if (!tensors[KT_ROLE_WEIGHT])
        return fail_missing(layer, expert, projection, error);
    for (int role = 0; role < KT_N_ROLES; role++) {
        const struct kt_tensor *a = first[role], *b = tensors[role], *there = b ? b : a;
        if (!a && !b)
            continue;
        if (!a || !b)
            return kt_fail(error, KT_E_FORMAT,
                           "%s: layer %" PRIu64 ": there is tensor \"%s\", but expert %" PRIu64
                           " has none like it",
                           kt_tensor_label(layer->checkpoint, there), layer->number, there->info.name,
                           b ? 0 : expert);
        if (a->info.dtype != b->info.dtype || a->info.n_dims != b->info.n_dims ||
            memcmp(a->info.dims, b->info.dims, sizeof a->info.dims) != 0) {
            char said[2][192];
            /* Of another type, it may be right, as where one expert was not quantized; but no layer has two.
             */
            return kt_fail(error, a->info.dtype == b->info.dtype ? KT_E_FORMAT : KT_E_UNSUPPORTED,
                           "%s: layer %" PRIu64 ", expert %" PRIu64 ": tensor \"%s\" is %s %s, but "
                           "that of expert 0 is %s %s",
                           kt_tensor_label(layer->checkpoint, b), layer->number, expert, b->info.name,
                           kt_tensor_type(b), kt_shape_text(&b->info, said[0], sizeof said[0]),
                           kt_tensor_type(a), kt_shape_text(&a->info, said[1], sizeof said[1]));
        }
    }
    return KT_OK;
}

static enum kt_status check_all(const struct layer *layer, const struct kt_expert_map *map,
                                struct kt_error *error)
{
    enum kt_status status = KT_OK;
    uint64_t n = map->stride ? layer->n_experts : 1;
    for (uint64_t e = 0; e < n && status == KT_OK; e++)
        for (int p = map->first; p <= KT_DOWN && status == KT_OK; p++)
            status =
                check_alike(layer, e, p, map->tensor[p], map->tensor[e * map->stride + (uint64_t)p], error);
    return status;
}

/* Does config.json contradict the tensors? */
static enum kt_status compare(const struct layer *layer, const struct kt_json_count *said, uint64_t found,
                              const char *what, const struct kt_tensor *tensor, struct kt_error *error)
{
    if (!said->key || said->value == found)
        return KT_OK;
    return kt_fail(error, KT_E_FORMAT,
                   "%s: key \"%s\" is %" PRIu64 ", but layer %" PRIu64 " has %s %" PRIu64
                   ": tensor \"%s\" in %s",
                   layer->config->label, said->key, said->value, layer->number, what, found,
                   tensor->info.name, kt_tensor_label(layer->checkpoint, tensor));
}

static enum kt_status check_config(const struct layer *layer, const struct kt_expert_map *map,
                                   const struct kt_moe_info *info, struct kt_error *error)
{
    const struct kt_model_config *config = layer->config;
    const struct kt_tensor *gate = map->tensor[map->first][KT_ROLE_WEIGHT];
    const struct kt_tensor *last = layer->entry[layer->n - 1].tensor;
    enum kt_status status =
        compare(layer, &config->experts, layer->n_experts, "number of experts", last, error);
    if (status == KT_OK)
        status = compare(layer, &config->hidden, info->hidden_size, "hidden size", gate, error);
    if (status == KT_OK)
        status =
            compare(layer, &config->intermediate, info->intermediate_size, "intermediate size", gate, error);
    if (status == KT_OK && config->top_k.value > layer->n_experts)
        status =
            kt_fail(error, KT_E_FORMAT,
                    "%s: key \"%s\" is %" PRIu64 ", but layer %" PRIu64 " has %" PRIu64 " experts",
                    config->label, config->top_k.key, config->top_k.value, layer->number, layer->n_experts);
    return status;
}

static enum kt_status check_limits(const struct layer *layer, struct kt_error *error)
{
    const struct kt_tensor *last = layer->entry[layer->n - 1].tensor;
    if (layer->number <= KT_LARGEST_LAYER && layer->n_experts <= KT_LARGEST_EXPERTS)
        return KT_OK;
    return kt_fail(error, KT_E_UNSUPPORTED,
                   "%s: tensor \"%s\": layers up to %d and %d experts can be handled",
                   kt_tensor_label(layer->checkpoint, last), last->info.name, KT_LARGEST_LAYER,
                   KT_LARGEST_EXPERTS);
}

static enum kt_status map_layer(struct layer *layer, struct kt_moe *moe, struct kt_error *error)
{
    struct kt_moe_info *info = &moe->info;
    enum kt_status status = check_naming(layer, error);
    if (status == KT_OK)
        status = count_experts(layer, error);
    if (status == KT_OK)
        status = check_limits(layer, error);
    if (status != KT_OK)
        return status;
    bool fused = layer->entry[0].name.fused;
    size_t slots = fused ? 3 : 3 * (size_t)layer->n_experts;
    size_t pointers = (size_t)layer->n_experts * sizeof *((struct kt_expert_map *)NULL)->decoded;
    struct kt_expert_map *map = calloc(1, sizeof *map + slots * sizeof map->tensor[0] + pointers);
    if (!map)
        return kt_fail(error, KT_E_NOMEM,
                       "%s: no memory for the list of %" PRIu64 " experts of layer %" PRIu64,
                       layer->checkpoint->label, layer->n_experts, layer->number);
    moe->map = map;
    map->first = (int)kt_activation_first(layer->config->activation);
    map->stride = fused ? 0 : 3;
    map->below = layer->entry[0].name.below;
    map->decoded = (void **)(void *)(map->tensor + slots);
    info->layer = layer->number;
    info->n_experts = (uint32_t)layer->n_experts;
    info->top_k = (uint32_t)layer->config->top_k.value;
    status = kt_model_config_activation(layer->config, layer->number, info, error);
    if (status == KT_OK)
        status = place(layer, map, error);
    if (status == KT_OK)
        status = check_all(layer, map, error);
    if (status == KT_OK)
        status = kt_lay_experts(layer->checkpoint, layer->config, map, info, error);
    return status == KT_OK ? check_config(layer, map, info, error) : status;
}

/* The tensors of the layer that begins at entry `i`; returns where the next one begins. */
static uint64_t find_end(const struct entry *entries, uint64_t n, uint64_t i)
{
    uint64_t end = i;
    while (end < n && entries[end].layer == entries[i].layer)
        end++;
    return end;
}

static enum kt_status map_one(struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                              const struct entry *entries, uint64_t n, struct kt_moe *moe,
                              struct kt_error *error)
{
    struct layer layer = {.checkpoint = checkpoint,
                          .config = config,
                          .entry = entries,
                          .n = n,
                          .number = entries[0].layer};
    enum kt_status status = check_formats(checkpoint, entries, n, error);
    return status == KT_OK ? map_layer(&layer, moe, error) : status;
}

/* Those of entries [i, n). One that cannot be read is missing to those who ask for it, and to nobody else. */
static void map_beyond(struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                       const struct entry *entries, uint64_t i, uint64_t n)
{
    for (uint64_t end; i < n; i = end) {
        struct kt_moe *moe = &checkpoint->moe[checkpoint->n_moe + checkpoint->n_beyond];
        struct kt_error error;
        end = find_end(entries, n, i);
        if (map_one(checkpoint, config, entries + i, end - i, moe, &error) == KT_OK) {
            checkpoint->n_beyond++;
            continue;
        }
        kt_log_write(&checkpoint->log, KT_LOG_INFO, "%s", error.message);
        free(moe->map);
        *moe = (struct kt_moe){.map = NULL};
    }
}

static enum kt_status map_layers(struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                                 const struct entry *entries, uint64_t n, struct kt_error *error)
{
    uint64_t layers = 0, i = 0, n_own = 0;
    while (n_own < n && !is_beyond(config, &entries[n_own]))
        n_own++;
    enum kt_status status = check_formats(checkpoint, entries, n_own, error);
    for (uint64_t at = 0; at < n; at = find_end(entries, n, at))
        layers++;
    if (status != KT_OK || layers == 0)
        return status;
    checkpoint->moe = calloc((size_t)layers, sizeof *checkpoint->moe);
    if (!checkpoint->moe)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the list of %" PRIu64 " layers",
                       checkpoint->label, layers);
    for (uint64_t end; i < n_own && status == KT_OK; i = end) {
        struct kt_moe *moe = &checkpoint->moe[checkpoint->n_moe++];
        end = find_end(entries, n_own, i);
        status = map_one(checkpoint, config, entries + i, end - i, moe, error);
        checkpoint->expert_size += moe->info.size;
    }
    if (status == KT_OK)
        map_beyond(checkpoint, config, entries, n_own, n);
    return status;
}

/* The tensors can still be listed, but the experts cannot be computed. */
static void refuse(struct kt_checkpoint *checkpoint, const struct kt_error *why)
{
    (void)snprintf(checkpoint->refusal, sizeof checkpoint->refusal, "%s", why->message);
    for (uint64_t i = 0; i < checkpoint->n_moe; i++)
        free(checkpoint->moe[i].map);
    free(checkpoint->moe);
    checkpoint->moe = NULL;
    checkpoint->n_moe = checkpoint->expert_size = 0;
}

static enum kt_status map_families(struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                                   struct kt_error *error)
{
    struct entry *entries;
    struct kt_error problem;
    uint64_t n;
    enum kt_status status = collect(checkpoint, config, &entries, &n, &problem);
    if (status == KT_OK)
        status = map_layers(checkpoint, config, entries, n, &problem);
    free(entries);
    if (status == KT_E_UNSUPPORTED) {
        refuse(checkpoint, &problem);
        return KT_OK;
    }
    if (status != KT_OK && error)
        *error = problem;
    return status;
}

const struct kt_mapper kt_mapper_families = {.whose = "a known family of models",
                                             .matches = match_families,
                                             .map = map_families,
                                             .experts = kt_map_experts,
                                             .release = kt_map_release};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moe_gguf.c - the layers with experts of a GGUF file.
 *
 *     blk.L.ffn_{gate,up}_exps.weight   [E][I][H]
 *     blk.L.ffn_gate_up_exps.weight     [E][2 I][H] instead of these two: rows of gate first
 *     blk.L.ffn_down_exps.weight        [E][H][I]
 *     in some architectures no gate: up and down alone
 *     the same with .bias [E][rows] and .scale [E]: one number that multiplies the matrix of an expert
 *     the same with .input_scale        ignored: a scale for rounding activations, which is not done here
 *
 * in row-major order; E experts, I intermediate size, H hidden size.
 */
#include "core/weights/gguf/moe_gguf.h"

#include "core/base/error.h"
#include "core/weights/decode/dtype.h"
#include "core/weights/file/limits.h"
#include "core/weights/gguf/weight_gguf.h"
#include "core/weights/table/tensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GATE_UP = 3, N_KINDS = 4, UNKNOWN = 3 };

static const char *const kinds[N_KINDS] = {"gate", "up", "down", "gate_up"};

/* An expert tensor of some layer. */
struct entry {
    uint64_t layer;
    int kind;
    int part; /* 0 weight, 1 bias, 2 scale, UNKNOWN */
    struct kt_tensor *tensor;
};

/* The tensors of a layer. */
struct found {
    uint64_t layer;
    struct kt_tensor *tensor[N_KINDS][3];
};

/* Counts in the metadata; 0: no such key. */
struct said {
    uint64_t layers, experts, top_k, hidden, intermediate;
    char key[5][KT_NAME_SIZE];
};

/* The file with the tensor, and the one with the metadata, for messages. */
static const char *file_of(const struct kt_gguf *gguf, const struct kt_tensor *tensor)
{
    return gguf->checkpoint->part[tensor->part].file.label;
}

static const char *file_of_keys(const struct kt_gguf *gguf)
{
    return gguf->checkpoint->part[0].file.label;
}

static bool parse_name(const char *name, struct entry *entry)
{
    static const char *const parts[] = {"weight", "bias", "scale"};
    uint64_t layer = 0;
    if (strncmp(name, "blk.", 4) != 0)
        return false;
    const char *at = name + 4;
    for (; *at >= '0' && *at <= '9' && at < name + 13; at++)
        layer = layer * 10 + (uint64_t)(*at - '0');
    if (at == name + 4 || (name[4] == '0' && at != name + 5) || strncmp(at, ".ffn_", 5) != 0)
        return false;
    at += 5;
    for (int kind = 0; kind < N_KINDS; kind++) {
        size_t length = strlen(kinds[kind]);
        if (strncmp(at, kinds[kind], length) != 0 || strncmp(at + length, "_exps.", 6) != 0)
            continue;
        *entry = (struct entry){.layer = layer, .kind = kind};
        while (entry->part < UNKNOWN && strcmp(at + length + 6, parts[entry->part]) != 0)
            entry->part++;
        return strcmp(at + length + 6, "input_scale") != 0;
    }
    return false;
}

static int compare_entries(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    return a->layer < b->layer ? -1 : a->layer > b->layer;
}

static enum kt_status read_said(const struct kt_gguf *gguf, struct said *said, struct kt_error *error)
{
    static const char *const suffixes[] = {"block_count", "expert_count", "expert_used_count",
                                           "embedding_length", "expert_feed_forward_length"};
    static const uint64_t largest[] = {KT_LARGEST_LAYER + 1, KT_LARGEST_EXPERTS, KT_LARGEST_EXPERTS,
                                       KT_LARGEST_SIZE, KT_LARGEST_SIZE};
    uint64_t *counts[] = {&said->layers, &said->experts, &said->top_k, &said->hidden, &said->intermediate};
    for (int i = 0; i < 5; i++) {
        (void)snprintf(said->key[i], KT_NAME_SIZE, "%s.%s", gguf->architecture, suffixes[i]);
        enum kt_status status = kt_gguf_count(gguf, said->key[i], counts[i], error);
        if (status != KT_OK)
            return status;
        if (*counts[i] > largest[i])
            return kt_fail(error, KT_E_UNSUPPORTED,
                           "%s: key \"%s\" is %" PRIu64 "; at most %" PRIu64 " can be handled",
                           file_of_keys(gguf), said->key[i], *counts[i], largest[i]);
    }
    return KT_OK;
}

/* Does a metadata key contradict a tensor? */
static enum kt_status compare(const struct kt_gguf *gguf, const char *key, uint64_t said,
                              const struct kt_tensor *tensor, uint64_t found, const char *what,
                              struct kt_error *error)
{
    if (found == said || (said == 0 && !kt_gguf_find(gguf, key)))
        return KT_OK;
    return kt_fail(error, KT_E_FORMAT, "%s: key \"%s\" is %" PRIu64 ", but tensor \"%s\" has %" PRIu64 " %s",
                   file_of(gguf, tensor), key, said, tensor->info.name, found, what);
}

static enum kt_status check_shape(const struct kt_gguf *gguf, const struct kt_tensor *tensor, uint32_t n_dims,
                                  const uint64_t *dims, const struct kt_tensor *like, struct kt_error *error)
{
    const struct kt_tensor_info *info = &tensor->info;
    bool same = info->n_dims == n_dims;
    for (uint32_t i = 0; same && i < n_dims; i++)
        same = info->dims[i] == dims[i];
    if (same)
        return KT_OK;
    char needed[96] = "", found[96] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < n_dims; i++)
        used += (size_t)snprintf(needed + used, sizeof needed - used, "[%" PRIu64 "]", dims[i]);
    used = 0;
    for (uint32_t i = 0; i < info->n_dims; i++)
        used += (size_t)snprintf(found + used, sizeof found - used, "[%" PRIu64 "]", info->dims[i]);
    return kt_fail(error, KT_E_FORMAT,
                   "%s: tensor \"%s\" is %s, slowest dimension first; %s is needed to fit tensor \"%s\"",
                   file_of(gguf, tensor), info->name, found, needed, like->info.name);
}

/* No key names the activation; it follows from the architecture. */
static const struct activation {
    const char *architecture;
    uint32_t activation;
    float limit, alpha;
    bool clamps; /* key swiglu_clamp_exp has the limits; layers where it is 0 have silu */
} activations[] = {
    {"gpt-oss", KT_ACTIVATION_SWIGLUOAI, 7.0f, 1.702f, false},
    {"minimax-m3", KT_ACTIVATION_SWIGLUOAI, 7.0f, 1.702f, false},
    {"gemma4", KT_ACTIVATION_GELU_TANH, 0, 0, false},
    {"nemotron_h_moe", KT_ACTIVATION_RELU2, 0, 0, false},
    {"deepseek4", KT_ACTIVATION_SWIGLU, 0, 0, true},
    {"hy_v4", KT_ACTIVATION_SWIGLU, 0, 0, true},
    {"step35", KT_ACTIVATION_SWIGLUSTEP, 0, 0, true},
    {NULL, KT_ACTIVATION_SILU, 0, 0, false},
};

static const struct activation *find_activation(const char *architecture)
{
    const struct activation *found = activations;
    while (found->architecture && strcmp(found->architecture, architecture) != 0)
        found++;
    return found;
}

static enum kt_status check_weights(const struct kt_gguf *gguf, const struct found *found, struct kt_moe *moe,
                                    struct kt_error *error)
{
    const char *label = gguf->checkpoint->label;
    struct kt_tensor *fused = found->tensor[GATE_UP][0], *down = found->tensor[KT_DOWN][0];
    struct kt_tensor *gate = fused ? fused : found->tensor[KT_GATE][0];
    struct kt_tensor *up = fused ? fused : found->tensor[KT_UP][0];
    uint32_t activation = find_activation(gguf->checkpoint->architecture)->activation;
    if (kt_activation_first(activation) == KT_UP) {
        if (gate)
            return kt_fail(error, KT_E_FORMAT,
                           "%s: tensor \"%s\" has a gate, but experts of architecture %s have none",
                           file_of(gguf, gate), gate->info.name, gguf->checkpoint->architecture);
        gate = up; /* whose shape it would have */
    }
    if (!gate || !up || !down || (fused && (found->tensor[KT_GATE][0] || found->tensor[KT_UP][0])))
        return kt_fail(error, KT_E_FORMAT,
                       "%s: layer %" PRIu64 " has experts, but tensor blk.%" PRIu64 ".ffn_%s_exps.weight %s",
                       label, found->layer, found->layer,
                       fused && down ? "gate_up"
                       : !down       ? "down"
                       : !up         ? "up"
                                     : "gate",
                       fused && down ? "stands beside one of gate or up" : "is missing");
    if (gate->info.n_dims != 3 || (fused && gate->info.dims[1] % 2 != 0))
        return kt_fail(error, KT_E_FORMAT,
                       "%s: tensor \"%s\" has %" PRIu32 " dimensions, %" PRIu64
                       " rows; experts, rows and columns are needed%s",
                       file_of(gguf, gate), gate->info.name, gate->info.n_dims, gate->info.dims[1],
                       fused ? ", and as many gate as up rows" : "");
    uint64_t experts = gate->info.dims[0], hidden = gate->info.dims[2];
    uint64_t intermediate = fused ? gate->info.dims[1] / 2 : gate->info.dims[1];
    if (experts > KT_LARGEST_EXPERTS || hidden > KT_LARGEST_SIZE || intermediate > KT_LARGEST_SIZE)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: tensor \"%s\" is [%" PRIu64 "][%" PRIu64 "][%" PRIu64
                       "]; at most %d experts and sizes of %d can be handled",
                       file_of(gguf, gate), gate->info.name, experts, intermediate, hidden,
                       KT_LARGEST_EXPERTS, KT_LARGEST_SIZE);
    uint64_t down_dims[] = {experts, hidden, intermediate};
    enum kt_status status = check_shape(gguf, up, 3, gate->info.dims, gate, error);
    if (status == KT_OK)
        status = check_shape(gguf, down, 3, down_dims, gate, error);
    if (status != KT_OK)
        return status;
    moe->info.activation = activation;
    moe->tensor[KT_GATE] = kt_activation_first(activation) == KT_GATE ? gate : NULL;
    moe->tensor[KT_UP] = up;
    moe->tensor[KT_DOWN] = down;
    moe->first_row[KT_UP] = fused ? intermediate : 0;
    moe->info.n_experts = (uint32_t)experts;
    moe->info.hidden_size = hidden;
    moe->info.intermediate_size = intermediate;
    moe->info.size = gate->info.size + (up == gate ? 0 : up->info.size) + down->info.size;
    return KT_OK;
}

/* Refuses a bias or a scale whose weights are missing: the result would lack it. */
static enum kt_status check_strays(const struct kt_gguf *gguf, const struct found *found,
                                   struct kt_error *error)
{
    for (int kind = 0; kind < N_KINDS; kind++)
        for (int part = 1; part < 3; part++) {
            const struct kt_tensor *stray = found->tensor[kind][part];
            if (stray && !found->tensor[kind][0])
                return kt_fail(error, KT_E_FORMAT,
                               "%s: tensor \"%s\" goes with blk.%" PRIu64
                               ".ffn_%s_exps.weight, which is missing",
                               file_of(gguf, stray), stray->info.name, found->layer, kinds[kind]);
        }
    return KT_OK;
}

/* Checks biases and scales: floats with a shape that follows from the weights. */
static enum kt_status check_extras(const struct kt_gguf *gguf, const struct found *found, struct kt_moe *moe,
                                   struct kt_error *error)
{
    for (int p = (int)kt_activation_first(moe->info.activation); p <= KT_DOWN; p++) {
        const struct kt_tensor *weight = moe->tensor[p];
        int kind = p != KT_DOWN && found->tensor[GATE_UP][0] ? GATE_UP : p;
        moe->bias[p] = found->tensor[kind][1];
        moe->scale[p] = found->tensor[kind][2];
        moe->info.dtype[p] = weight->info.dtype;
        moe->info.has_bias |= moe->bias[p] ? 1u << p : 0;
        for (int part = 1; part < 3; part++) {
            const struct kt_tensor *extra = found->tensor[kind][part];
            if (!extra || extra->unknown) /* refuse_type */
                continue;
            enum kt_status status =
                check_shape(gguf, extra, part == 1 ? 2 : 1, weight->info.dims, weight, error);
            if (status == KT_OK)
                status = kt_gguf_check_number(gguf->checkpoint, extra, error);
            if (status != KT_OK)
                return status;
        }
    }
    return KT_OK;
}

static const struct kt_gguf_key *find_clamp(const struct kt_gguf *gguf, char name[KT_NAME_SIZE])
{
    (void)snprintf(name, KT_NAME_SIZE, "%s.swiglu_clamp_exp", gguf->checkpoint->architecture);
    return kt_gguf_find(gguf, name);
}

/* The limit of a layer: one for all of them, or an array. */
static enum kt_status read_clamp(const struct kt_gguf *gguf, uint64_t layer, float *limit,
                                 struct kt_error *error)
{
    char name[KT_NAME_SIZE], type[32];
    const struct kt_gguf_key *key = find_clamp(gguf, name);
    bool array = key && key->type == KT_GGUF_ARRAY;
    *limit = 0;
    if (!key)
        return KT_OK;
    if ((array ? key->element : key->type) != KT_GGUF_F32 || (array && layer >= key->count))
        return kt_fail(error, KT_E_FORMAT,
                       "%s: key \"%s\" is %s of %" PRIu64
                       " elements; an f32, or one for each layer up to %" PRIu64 ", is needed",
                       file_of_keys(gguf), name, kt_gguf_type_name(key, type), array ? key->count : 1, layer);
    enum kt_status status =
        kt_file_read(&gguf->checkpoint->part[0].file, key->value + (array ? layer * sizeof *limit : 0), limit,
                     sizeof *limit, error);
    if (status == KT_OK && !(*limit >= 0 && *limit < INFINITY))
        return kt_fail(error, KT_E_FORMAT, "%s: key \"%s\" is %g for layer %" PRIu64 "; 0 or more is needed",
                       file_of_keys(gguf), name, (double)*limit, layer);
    return status;
}

static enum kt_status set_activation(const struct kt_gguf *gguf, struct kt_moe_info *info,
                                     struct kt_error *error)
{
    const struct activation *found = find_activation(gguf->checkpoint->architecture);
    info->activation = found->activation;
    info->limit = found->limit;
    info->alpha = found->alpha;
    if (!found->clamps)
        return KT_OK;
    enum kt_status status = read_clamp(gguf, info->layer, &info->limit, error);
    if (status == KT_OK && info->limit == 0)
        info->activation = KT_ACTIVATION_SILU;
    return status;
}

/* The experts of a layer whose type is not known are listed, but cannot be computed. */
static void refuse_type(struct kt_checkpoint *checkpoint, const struct found *found)
{
    struct kt_error why;
    for (int kind = 0; kind < N_KINDS; kind++)
        for (int part = 0; part < 3; part++) {
            const struct kt_tensor *tensor = found->tensor[kind][part];
            if (tensor && !*checkpoint->refusal && kt_tensor_check_type(checkpoint, tensor, &why) != KT_OK)
                (void)snprintf(checkpoint->refusal, sizeof checkpoint->refusal, "%s", why.message);
        }
}

static enum kt_status check_layer(const struct kt_gguf *gguf, const struct said *said,
                                  const struct found *found, struct kt_moe *moe, struct kt_error *error)
{
    struct kt_checkpoint *checkpoint = gguf->checkpoint;
    moe->info.layer = found->layer;
    enum kt_status status = check_weights(gguf, found, moe, error);
    if (status == KT_OK)
        status = check_strays(gguf, found, error);
    if (status == KT_OK)
        status = check_extras(gguf, found, moe, error);
    if (status != KT_OK)
        return status;
    const struct kt_tensor *gate = moe->tensor[kt_activation_first(moe->info.activation)];
    if (found->layer >= said->layers && kt_gguf_find(gguf, said->key[0]))
        return kt_fail(error, KT_E_FORMAT, "%s: key \"%s\" is %" PRIu64 ", but there is a tensor \"%s\"",
                       file_of(gguf, gate), said->key[0], said->layers, gate->info.name);
    if (found->layer > KT_LARGEST_LAYER)
        return kt_fail(error, KT_E_UNSUPPORTED, "%s: tensor \"%s\": layers up to %d can be handled",
                       file_of(gguf, gate), gate->info.name, KT_LARGEST_LAYER);
    struct kt_moe_info *info = &moe->info;
    status = compare(gguf, said->key[1], said->experts, gate, info->n_experts, "experts", error);
    if (status == KT_OK)
        status = compare(gguf, said->key[3], said->hidden, gate, info->hidden_size, "columns", error);
    if (status == KT_OK)
        status = compare(gguf, said->key[4], said->intermediate, gate, info->intermediate_size,
                         "rows an expert and projection", error);
    if (status != KT_OK)
        return status;
    if (said->top_k > info->n_experts)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: key \"%s\" is %" PRIu64 ", but tensor \"%s\" has %" PRIu32 " experts",
                       file_of(gguf, gate), said->key[2], said->top_k, gate->info.name, info->n_experts);
    info->top_k = (uint32_t)said->top_k;
    refuse_type(checkpoint, found);
    status = set_activation(gguf, info, error);
    if (status != KT_OK)
        return status;
    /* No overflow: tensors do not overlap, so their sizes add up to the file's at most. */
    checkpoint->expert_size += info->size;
    return KT_OK;
}

static enum kt_status collect(const struct kt_gguf *gguf, struct entry **entries, uint64_t *n,
                              struct kt_error *error)
{
    struct kt_tensors *tensors = &gguf->checkpoint->tensors;
    struct entry entry;
    uint64_t count = 0;
    for (uint64_t i = 0; i < tensors->n; i++)
        count += parse_name(tensors->tensor[i].info.name, &entry);
    *n = 0;
    *entries = NULL;
    if (count == 0)
        return KT_OK;
    *entries = malloc((size_t)count * sizeof entry);
    if (!*entries)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the list of %" PRIu64 " expert tensors",
                       gguf->checkpoint->label, count);
    for (uint64_t i = 0; i < tensors->n; i++)
        if (parse_name(tensors->tensor[i].info.name, &entry)) {
            entry.tensor = &tensors->tensor[i];
            (*entries)[(*n)++] = entry;
        }
    qsort(*entries, (size_t)*n, sizeof entry, compare_entries);
    return KT_OK;
}

/* What is not known may change the experts' values. */
static enum kt_status fail_unknown(const struct kt_gguf *gguf, const struct kt_tensor *tensor,
                                   struct kt_error *error)
{
    return kt_fail(error, KT_E_UNSUPPORTED,
                   "%s: tensor \"%s\" belongs to experts, but is not one that is supported: weight, bias, "
                   "scale or input_scale",
                   file_of(gguf, tensor), tensor->info.name);
}

static enum kt_status group(const struct kt_gguf *gguf, const struct said *said, const struct entry *entries,
                            uint64_t n, struct kt_error *error)
{
    struct kt_checkpoint *checkpoint = gguf->checkpoint;
    uint64_t layers = 0;
    for (uint64_t i = 0; i < n; i++)
        layers += i == 0 || entries[i].layer != entries[i - 1].layer;
    if (layers == 0)
        return KT_OK;
    checkpoint->moe = calloc((size_t)layers, sizeof *checkpoint->moe);
    if (!checkpoint->moe)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the list of %" PRIu64 " layers",
                       checkpoint->label, layers);
    for (uint64_t i = 0; i < n;) {
        struct found found = {.layer = entries[i].layer};
        for (; i < n && entries[i].layer == found.layer; i++) {
            if (entries[i].part == UNKNOWN)
                return fail_unknown(gguf, entries[i].tensor, error);
            found.tensor[entries[i].kind][entries[i].part] = entries[i].tensor;
        }
        enum kt_status status = check_layer(gguf, said, &found, &checkpoint->moe[checkpoint->n_moe], error);
        if (status != KT_OK)
            return status;
        checkpoint->n_moe++;
    }
    return KT_OK;
}

/* Refuses models whose experts use an activation that enum kt_activation does not have. */
static void refuse(const struct kt_gguf *gguf)
{
    struct kt_checkpoint *checkpoint = gguf->checkpoint;
    const char *architecture = checkpoint->architecture, *why = NULL;
    char key[KT_NAME_SIZE];
    if (strcmp(architecture, "grok") == 0)
        why = "the experts of this architecture use GELU, which is not supported";
    else if (strcmp(architecture, "smallthinker") == 0)
        why = "the experts of this architecture use ReLU, which is not supported";
    else if (strcmp(architecture, "kimi-k3") == 0)
        why = "the experts of this architecture use situ, whose parameters are not read from GGUF files";
    else if (find_clamp(gguf, key) && !find_activation(architecture)->clamps)
        why = "the experts clamp the activation itself (key swiglu_clamp_exp), which is not "
              "supported";
    if (why)
        (void)snprintf(checkpoint->refusal, sizeof checkpoint->refusal, "%s: %s", file_of_keys(gguf), why);
}

enum kt_status kt_gguf_find_moe(const struct kt_gguf *gguf, struct kt_error *error)
{
    struct said said;
    struct entry *entries;
    uint64_t n;
    enum kt_status status = read_said(gguf, &said, error);
    if (status == KT_OK)
        status = collect(gguf, &entries, &n, error);
    if (status != KT_OK)
        return status;
    gguf->checkpoint->n_layers = said.layers;
    gguf->checkpoint->experts = kt_gguf_experts;
    refuse(gguf);
    status = group(gguf, &said, entries, n, error);
    free(entries);
    return status;
}

/* The biases of all experts as float32; in place if the file has that type. */
static enum kt_status get_bias(struct kt_checkpoint *checkpoint, struct kt_moe *moe, int projection,
                               const float **bias, struct kt_error *error)
{
    struct kt_tensor *tensor = moe->bias[projection];
    const void *data;
    *bias = NULL;
    if (!tensor)
        return KT_OK;
    enum kt_status status = kt_tensor_data(checkpoint, tensor, &data, error);
    if (status != KT_OK)
        return status;
    if (tensor->info.dtype == KT_DTYPE_F32) {
        *bias = data;
        return KT_OK;
    }
    if (!moe->converted[projection]) {
        struct kt_view view;
        uint64_t n = tensor->info.dims[0] * tensor->info.dims[1];
        float *converted =
            n <= PTRDIFF_MAX / sizeof *converted ? malloc((size_t)n * sizeof *converted) : NULL;
        if (!converted)
            return kt_fail(error, KT_E_NOMEM, "%s: no memory for the %" PRIu64 " biases of tensor \"%s\"",
                           checkpoint->label, n, tensor->info.name);
        status = kt_view_dense(&view, tensor->info.dtype, data, tensor->info.size, 1, n, error);
        if (status == KT_OK)
            status = kt_view_row(&view, 0, converted, error);
        if (status != KT_OK) {
            free(converted);
            return status;
        }
        moe->converted[projection] = converted;
    }
    *bias = moe->converted[projection];
    return KT_OK;
}

/* A projection of all experts; rows of expert 0 come first. */
struct source {
    const uint8_t *data;
    const float *bias;
    const void *scale;
    uint64_t rows_all; /* of an expert in the tensor */
    uint64_t rows;
    uint64_t cols;
    uint64_t row_size;
};

static enum kt_status get_source(struct kt_checkpoint *checkpoint, struct kt_moe *moe, int projection,
                                 struct source *source, struct kt_error *error)
{
    const struct kt_tensor_info *info = &moe->tensor[projection]->info;
    const struct kt_dtype_info *dtype = kt_dtype_find(info->dtype);
    const void *data, *scale = NULL;
    enum kt_status status = kt_tensor_data(checkpoint, moe->tensor[projection], &data, error);
    if (status == KT_OK && moe->scale[projection])
        status = kt_tensor_data(checkpoint, moe->scale[projection], &scale, error);
    if (status == KT_OK)
        status = get_bias(checkpoint, moe, projection, &source->bias, error);
    if (status != KT_OK)
        return status;
    source->rows_all = info->dims[1];
    source->rows = projection == KT_DOWN ? moe->info.hidden_size : moe->info.intermediate_size;
    source->cols = info->dims[2];
    source->row_size = source->cols / dtype->elements * dtype->bytes;
    source->data = (const uint8_t *)data + moe->first_row[projection] * source->row_size;
    source->bias = source->bias ? source->bias + moe->first_row[projection] : NULL;
    source->scale = scale;
    return KT_OK;
}

static enum kt_status fill(const struct kt_checkpoint *checkpoint, const struct kt_moe *moe, int projection,
                           const struct source *source, uint32_t expert, struct kt_view *view,
                           const float **bias, struct kt_error *error)
{
    const struct kt_tensor_info *info = &moe->tensor[projection]->info;
    *view = (struct kt_view)KT_VIEW_INIT;
    view->dtype = info->dtype;
    view->data = source->data + expert * source->rows_all * source->row_size;
    view->size = source->rows * source->row_size;
    view->rows = source->rows;
    view->cols = source->cols;
    view->row_stride = (int64_t)source->row_size;
    view->block_stride = kt_dtype_find(info->dtype)->bytes;
    view->name = info->name;
    *bias = source->bias ? source->bias + expert * source->rows_all : NULL;
    return source->scale
               ? kt_gguf_scale(checkpoint, moe->scale[projection], source->scale, expert, view, error)
               : KT_OK;
}

enum kt_status kt_gguf_experts(struct kt_checkpoint *checkpoint, struct kt_moe *moe,
                               struct kt_expert *experts, uint32_t n_experts, struct kt_error *error)
{
    struct source source[3];
    enum kt_status status = KT_OK;
    const int first = (int)kt_activation_first(moe->info.activation);
    for (int p = first; p <= KT_DOWN && status == KT_OK; p++)
        status = get_source(checkpoint, moe, p, &source[p], error);
    for (uint32_t e = 0; e < n_experts && status == KT_OK; e++) {
        struct kt_expert *expert = &experts[e];
        struct kt_view *const views[] = {&expert->gate, &expert->up, &expert->down};
        const float **const biases[] = {&expert->gate_bias, &expert->up_bias, &expert->down_bias};
        *expert = (struct kt_expert){.gate = KT_VIEW_INIT};
        for (int p = first; p <= KT_DOWN && status == KT_OK; p++)
            status = fill(checkpoint, moe, p, &source[p], e, views[p], biases[p], error);
    }
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* store_read.c - reads the metadata of a store and checks everything that can be checked. */
#include "core/weights/store/store_read.h"

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/weights/decode/dtype.h"
#include "core/weights/file/file.h"
#include "core/weights/file/limits.h"
#include "core/weights/store/store_header.h"
#include "core/weights/table/parts.h"
#include "core/weights/table/tensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* The state of reading a layer's file. */
struct reading {
    struct kt_store_reading file;
    struct kt_moe *moe;
    struct kt_stored *stored;
};

void kt_store_name_layer(uint64_t layer, char name[KT_STORE_NAME_SIZE])
{
    (void)snprintf(name, KT_STORE_NAME_SIZE, "layer-%05" PRIu64, layer);
}

static enum kt_status check_shards(const struct kt_store_reading *reading)
{
    uint64_t shards;
    enum kt_status status = kt_store_numbers(reading, KT_STORE_KEY_SHARDS, 1, &shards);
    if (status == KT_OK && shards != 1)
        return kt_fail(reading->error, KT_E_UNSUPPORTED,
                       "%s: its experts are cut into %" PRIu64 " shards, this library reads 1",
                       kt_store_label(reading), shards);
    return status;
}

static enum kt_status read_shape(const struct kt_store_reading *reading, struct kt_moe_info *info)
{
    uint64_t layer, n[4];
    enum kt_status status = kt_store_numbers(reading, KT_STORE_KEY_LAYER, 1, &layer);
    if (status == KT_OK)
        status = kt_store_numbers(reading, KT_STORE_KEY_SHAPE, 4, n);
    if (status != KT_OK)
        return status;
    if (layer > KT_LARGEST_LAYER || n[0] < 1 || n[0] > KT_LARGEST_EXPERTS || n[1] > n[0] || n[2] < 1 ||
        n[2] > KT_LARGEST_SIZE || n[3] < 1 || n[3] > KT_LARGEST_SIZE)
        return kt_fail(reading->error, KT_E_FORMAT,
                       "%s: layer %" PRIu64 " of %" PRIu64 " experts, top_k %" PRIu64 ", hidden_size %" PRIu64
                       ", intermediate_size %" PRIu64 " is beyond any model",
                       kt_store_label(reading), layer, n[0], n[1], n[2], n[3]);
    *info = (struct kt_moe_info){.layer = layer,
                                 .n_experts = (uint32_t)n[0],
                                 .top_k = (uint32_t)n[1],
                                 .hidden_size = n[2],
                                 .intermediate_size = n[3]};
    return KT_OK;
}

/* A finite number and what follows it. */
static bool read_real(const char *text, char end, float *number, const char **rest)
{
    char *after;
    *number = (float)kt_number_read(text, &after);
    *rest = after + 1;
    return after > text && *text != ' ' && *after == end && isfinite(*number);
}

static enum kt_status read_activation(const struct kt_store_reading *reading, struct kt_moe_info *info)
{
    const char *text = kt_store_text(reading, KT_STORE_KEY_ACTIVATION), *at = text;
    if (!text)
        return KT_E_FORMAT;
    bool right = text[0] >= '0' && kt_activation_of_experts((uint32_t)(text[0] - '0')) && text[1] == ' ' &&
                 read_real(text + 2, ' ', &info->limit, &at) && read_real(at, '\0', &info->alpha, &at);
    if (!right)
        return kt_fail(reading->error, KT_E_FORMAT,
                       "%s: %s is \"%.80s\", not an activation, a limit and an alpha",
                       kt_store_label(reading), KT_STORE_KEY_ACTIVATION, text);
    info->activation = (uint32_t)(text[0] - '0');
    return KT_OK;
}

static enum kt_status read_object(struct reading *reading, uint32_t expert, enum kt_stage stage)
{
    struct kt_store_reading *file = &reading->file;
    struct kt_stored *stored = reading->stored;
    char name[64];
    (void)snprintf(name, sizeof name, "layers.%" PRIu64 ".experts.%" PRIu32 ".%s", reading->moe->info.layer,
                   expert, stage == KT_STAGE_DOWN ? "down" : "gate_up");
    const struct kt_tensor *tensor = kt_store_take(file, name, KT_DTYPE_U8);
    if (!tensor)
        return KT_E_FORMAT;
    const struct kt_tensor_info *info = &tensor->info;
    if (expert == 0) {
        stored->object_size[stage] = info->size;
        if (stage == KT_STAGE_GATE_UP)
            stored->offset = info->offset;
    }
    /* Tensors leave no gaps, so objects of these sizes are contiguous. */
    if (info->size == 0 || info->size != stored->object_size[stage] || info->size % 64 || info->offset % 64)
        return kt_fail(file->error, KT_E_FORMAT,
                       "%s: tensor \"%s\" has %" PRIu64 " bytes at offset %" PRIu64
                       "; all experts must have the same size, a multiple of 64 as the offset",
                       kt_store_label(file), name, info->size, info->offset);
    if (!kt_store_take_sum(file, &stored->checksum[2 * expert + (uint32_t)stage]))
        return kt_fail(file->error, KT_E_FORMAT, "%s: the checksum of tensor \"%s\" is no hex number",
                       kt_store_label(file), name);
    reading->moe->info.size += info->size;
    return KT_OK;
}

static enum kt_status read_bias(struct reading *reading, enum kt_projection projection)
{
    static const char *const names[3] = {"gate_bias", "up_bias", "down_bias"};
    struct kt_moe_info *moe = &reading->moe->info;
    const uint64_t dims[2] = {moe->n_experts,
                              projection == KT_DOWN ? moe->hidden_size : moe->intermediate_size};
    char name[64];
    (void)snprintf(name, sizeof name, "layers.%" PRIu64 ".%s", moe->layer, names[projection]);
    if (!kt_store_next_is(&reading->file, name))
        return KT_OK;
    enum kt_status status =
        kt_store_take_bias(&reading->file, name, 2, dims, &reading->moe->bias[projection]);
    if (status == KT_OK)
        moe->has_bias |= 1u << projection;
    return status;
}

static enum kt_status read_tensors(struct reading *reading)
{
    struct kt_store_reading *file = &reading->file;
    uint32_t n_experts = reading->moe->info.n_experts;
    uint64_t n = kt_store_count(file), end = file->tensor + n;
    file->checksums = kt_store_text(file, KT_STORE_KEY_CHECKSUMS);
    if (!file->checksums)
        return KT_E_FORMAT;
    if (n < 2 * (uint64_t)n_experts || strlen(file->checksums) != KT_STORE_DIGITS * n)
        return kt_fail(file->error, KT_E_FORMAT,
                       "%s: has %" PRIu64 " tensors and %zu digits of checksums; %" PRIu32
                       " experts need two tensors each, and each %d digits",
                       kt_store_label(file), n, strlen(file->checksums), n_experts, KT_STORE_DIGITS);
    enum kt_status status = KT_OK;
    for (uint32_t i = 0; i < 2 * n_experts && status == KT_OK; i++)
        status = read_object(reading, i / 2, i % 2 ? KT_STAGE_DOWN : KT_STAGE_GATE_UP);
    for (int p = (int)kt_activation_first(reading->moe->info.activation); p <= KT_DOWN && status == KT_OK;
         p++)
        status = read_bias(reading, (enum kt_projection)p);
    if (status == KT_OK && file->tensor != end)
        status = kt_fail(file->error, KT_E_FORMAT, "%s: tensor \"%.80s\" does not belong here",
                         kt_store_label(file), file->checkpoint->tensors.tensor[file->tensor].info.name);
    return status;
}

static enum kt_status check_header(const struct kt_store_reading *file, uint64_t layer)
{
    static const char *const keys[] = KT_STORE_KEYS;
    char what[32], name[KT_STORE_NAME_SIZE];
    (void)snprintf(what, sizeof what, "layer %" PRIu64, layer);
    kt_store_name_layer(layer, name);
    (void)strcat(name, ".safetensors");
    return kt_store_check_header(file, keys, KT_STORE_N_KEYS, what, name);
}

static enum kt_status read_part(struct reading *reading)
{
    const struct kt_store_reading *file = &reading->file;
    struct kt_moe_info *info = &reading->moe->info;
    struct kt_format formats[3];
    enum kt_status status = kt_store_check_version(file, KT_STORE_VERSION);
    if (status == KT_OK)
        status = check_shards(file);
    if (status == KT_OK)
        status = read_shape(file, info);
    if (status == KT_OK)
        status = read_activation(file, info);
    if (status == KT_OK)
        status = kt_store_formats(file, kt_activation_first(info->activation), 3, formats);
    if (status == KT_OK)
        status = check_header(file, info->layer);
    if (status != KT_OK)
        return status;
    struct kt_stored *stored = calloc(1, sizeof *stored + 2 * info->n_experts * sizeof stored->checksum[0]);
    if (!stored)
        return kt_fail(file->error, KT_E_NOMEM, "%s: no memory for checksums", kt_store_label(file));
    reading->moe->map = reading->stored = stored;
    memcpy(stored->format, formats, sizeof formats);
    for (int p = KT_GATE; p <= KT_DOWN; p++)
        info->dtype[p] = formats[p].dtype;
    status = kt_store_origin(file, stored);
    if (status == KT_OK && !(stored->layers = kt_store_text(file, KT_STORE_KEY_LAYERS)))
        status = KT_E_FORMAT;
    return status == KT_OK ? read_tensors(reading) : status;
}

static int compare_layers(const void *a, const void *b)
{
    uint64_t left = ((const struct kt_moe *)a)->info.layer, right = ((const struct kt_moe *)b)->info.layer;
    return (left > right) - (left < right);
}

static enum kt_status compare_sources(const struct kt_checkpoint *checkpoint, const struct kt_stored *stored,
                                      const struct kt_stored **first, struct kt_error *error)
{
    if (!*first)
        *first = stored;
    if (strcmp(stored->source, (*first)->source) == 0)
        return KT_OK;
    return kt_fail(error, KT_E_FORMAT,
                   "%s: was packed from another checkpoint (fingerprint %.16s) than %s (%.16s): move "
                   "one of them away",
                   checkpoint->part[stored->part].file.label, stored->source,
                   checkpoint->part[(*first)->part].file.label, (*first)->source);
}

/* All layers and linears must come from one checkpoint; their forms may differ. */
static enum kt_status check_sources(const struct kt_checkpoint *checkpoint, struct kt_error *error)
{
    const struct kt_stored *first = NULL;
    enum kt_status status = KT_OK;
    for (uint64_t i = 0; i < checkpoint->n_moe && status == KT_OK; i++)
        status = compare_sources(checkpoint, checkpoint->moe[i].map, &first, error);
    for (uint64_t i = 0; i < checkpoint->n_linears && status == KT_OK; i++)
        status = compare_sources(checkpoint, checkpoint->linear[i], &first, error);
    return status;
}

static bool is_layer(const struct kt_checkpoint *checkpoint, uint32_t part)
{
    const char *format = kt_checkpoint_metadata(checkpoint, part, KT_STORE_KEY_FORMAT);
    return format && strcmp(format, KT_STORE_FORMAT) == 0;
}

static enum kt_status read_layer(struct reading *reading)
{
    struct kt_checkpoint *checkpoint = reading->file.checkpoint;
    if (!is_layer(checkpoint, reading->file.part))
        return kt_fail(reading->file.error, KT_E_FORMAT,
                       "%s: holds no packed experts, but other files of the folder do: move it away",
                       kt_store_label(&reading->file));
    reading->moe = &checkpoint->moe[checkpoint->n_moe++];
    enum kt_status status = read_part(reading);
    checkpoint->expert_size += reading->moe->info.size;
    return status;
}

static enum kt_status map_store(struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                                struct kt_error *error)
{
    (void)config;
    checkpoint->moe = calloc(checkpoint->n_parts, sizeof *checkpoint->moe);
    checkpoint->linear = calloc(checkpoint->n_parts, sizeof *checkpoint->linear);
    if (!checkpoint->moe || !checkpoint->linear)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for its layers", checkpoint->label);
    struct reading reading = {.file = {.checkpoint = checkpoint, .error = error}};
    for (uint32_t p = 0; p < checkpoint->n_parts; p++) {
        reading.file.part = p;
        enum kt_status status =
            kt_store_is_linear(checkpoint, p) ? kt_store_read_linear(&reading.file) : read_layer(&reading);
        if (status != KT_OK)
            return status;
    }
    kt_store_sort_linears(checkpoint);
    qsort(checkpoint->moe, checkpoint->n_moe, sizeof *checkpoint->moe, compare_layers);
    for (uint64_t i = 1; i < checkpoint->n_moe; i++)
        if (checkpoint->moe[i].info.layer == checkpoint->moe[i - 1].info.layer)
            return kt_fail(error, KT_E_FORMAT, "%s: two files hold layer %" PRIu64, checkpoint->label,
                           checkpoint->moe[i].info.layer);
    return check_sources(checkpoint, error);
}

static bool matches_store(const struct kt_checkpoint *checkpoint)
{
    for (uint32_t p = 0; p < checkpoint->n_parts; p++)
        if (is_layer(checkpoint, p) || kt_store_is_linear(checkpoint, p))
            return true;
    return false;
}

/* Views with formats and biases, but without data: a store has only packed weights. */
static enum kt_status show_experts(struct kt_checkpoint *checkpoint, struct kt_moe *moe,
                                   struct kt_expert *experts, uint32_t n_experts, struct kt_error *error)
{
    const struct kt_moe_info *info = &moe->info;
    const struct kt_stored *stored = moe->map;
    const float *bias[3] = {NULL, NULL, NULL};
    for (int p = KT_GATE; p <= KT_DOWN; p++) {
        const void *data = NULL;
        enum kt_status status = moe->bias[p] ? kt_tensor_data(checkpoint, moe->bias[p], &data, error) : KT_OK;
        if (status != KT_OK)
            return status;
        bias[p] = data;
    }
    for (uint32_t e = 0; e < n_experts; e++) {
        struct kt_expert *expert = &experts[e];
        *expert = (struct kt_expert){.gate = KT_VIEW_INIT, .up = KT_VIEW_INIT, .down = KT_VIEW_INIT};
        struct kt_view *views[3] = {&expert->gate, &expert->up, &expert->down};
        for (int p = (int)kt_activation_first(info->activation); p <= KT_DOWN; p++)
            kt_store_show(&stored->format[p], p == KT_DOWN ? info->hidden_size : info->intermediate_size,
                          p == KT_DOWN ? info->intermediate_size : info->hidden_size, views[p]);
        expert->gate_bias = bias[KT_GATE] ? bias[KT_GATE] + e * info->intermediate_size : NULL;
        expert->up_bias = bias[KT_UP] ? bias[KT_UP] + e * info->intermediate_size : NULL;
        expert->down_bias = bias[KT_DOWN] ? bias[KT_DOWN] + e * info->hidden_size : NULL;
    }
    return KT_OK;
}

const struct kt_mapper kt_mapper_store = {.whose = "kt convert",
                                          .matches = matches_store,
                                          .map = map_store,
                                          .experts = show_experts};

const struct kt_stored *kt_checkpoint_stored(const struct kt_checkpoint *checkpoint, uint64_t layer)
{
    if (!checkpoint || checkpoint->experts != show_experts)
        return NULL;
    for (uint64_t i = 0; i < checkpoint->n_moe; i++)
        if (checkpoint->moe[i].info.layer == layer)
            return checkpoint->moe[i].map;
    return NULL;
}

enum kt_status kt_stored_check(const struct kt_checkpoint *checkpoint, const struct kt_stored *stored,
                               uint32_t expert, enum kt_stage stage, const void *object,
                               struct kt_error *error)
{
    const struct kt_file *file = &checkpoint->part[stored->part].file;
    enum kt_status status = kt_file_check_size(file, error);
    if (status == KT_OK &&
        XXH3_64bits(object, stored->object_size[stage]) != stored->checksum[2 * expert + (uint32_t)stage])
        status = kt_fail(error, KT_E_FORMAT,
                         "%s: offset %" PRIu64 ": %s of expert %" PRIu32
                         " is not what was stored: the file is damaged: remove it and convert again",
                         file->label, kt_stored_offset(stored, expert, stage),
                         stage == KT_STAGE_DOWN ? "down" : "gate and up", expert);
    return status;
}

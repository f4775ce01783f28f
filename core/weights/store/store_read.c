/* SPDX-License-Identifier: Apache-2.0 */
/* store_read.c - reads the metadata of a store and checks everything that can be checked. */
#include "core/weights/store/store_read.h"

#include "core/base/error.h"
#include "core/weights/decode/dequantize.h"
#include "core/weights/file/file.h"
#include "core/weights/file/limits.h"
#include "core/weights/table/parts.h"
#include "core/weights/table/tensors.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { DIGITS = 16 };

uint64_t kt_store_header_sum(const char *const texts[KT_STORE_N_KEYS])
{
    uint64_t sum = 0;
    for (int i = 0; i < KT_STORE_N_KEYS; i++)
        sum = XXH3_64bits_withSeed(texts[i], strlen(texts[i]), sum);
    return sum;
}

/* Reads n whole numbers, separated by single spaces. */
static bool read_numbers(const char *text, unsigned n, uint64_t *numbers)
{
    for (unsigned i = 0; i < n; i++) {
        char *end;
        if (*text < '0' || *text > '9')
            return false;
        errno = 0;
        numbers[i] = strtoull(text, &end, 10);
        if (errno || *end != (i + 1 < n ? ' ' : '\0'))
            return false;
        text = end + 1;
    }
    return true;
}

/* The state of reading a file. */
struct reading {
    struct kt_checkpoint *checkpoint;
    uint32_t part;
    uint64_t tensor;  /* the next one */
    uint64_t checked; /* checksums taken */
    const char *checksums;
    struct kt_moe *moe;
    struct kt_stored *stored;
    struct kt_error *error;
};

static const char *label_of(const struct reading *reading)
{
    return reading->checkpoint->part[reading->part].file.label;
}

/* The value of a key, or NULL and an error. */
static const char *find_text(const struct reading *reading, const char *key)
{
    const char *text = kt_checkpoint_metadata(reading->checkpoint, reading->part, key);
    if (!text)
        (void)kt_fail(reading->error, KT_E_FORMAT,
                      "%s: its metadata lacks %s: the file is damaged: remove it and convert again",
                      label_of(reading), key);
    return text;
}

static enum kt_status read_key(const struct reading *reading, const char *key, unsigned n, uint64_t *numbers)
{
    const char *text = find_text(reading, key);
    if (!text)
        return KT_E_FORMAT;
    if (read_numbers(text, n, numbers))
        return KT_OK;
    return kt_fail(reading->error, KT_E_FORMAT, "%s: %s is \"%.80s\", not %u whole numbers",
                   label_of(reading), key, text, n);
}

/* A short name into a field of `size` bytes. */
static enum kt_status read_name(const struct reading *reading, const char *key, char *to, size_t size)
{
    const char *text = find_text(reading, key);
    if (!text)
        return KT_E_FORMAT;
    if (!*text || strlen(text) >= size)
        return kt_fail(reading->error, KT_E_FORMAT, "%s: %s is \"%.80s\"; 1 to %zu letters are allowed",
                       label_of(reading), key, text, size - 1);
    memcpy(to, text, strlen(text) + 1);
    return KT_OK;
}

static enum kt_status check_version(const struct reading *reading)
{
    uint64_t version, shards;
    enum kt_status status = read_key(reading, KT_STORE_KEY_VERSION, 1, &version);
    if (status == KT_OK && version != KT_STORE_VERSION)
        return kt_fail(reading->error, KT_E_UNSUPPORTED,
                       "%s: is of version %" PRIu64 " of the format, this library reads %d: convert the "
                       "original checkpoint again",
                       label_of(reading), version, KT_STORE_VERSION);
    if (status == KT_OK)
        status = read_key(reading, KT_STORE_KEY_SHARDS, 1, &shards);
    if (status == KT_OK && shards != 1)
        return kt_fail(reading->error, KT_E_UNSUPPORTED,
                       "%s: its experts are cut into %" PRIu64 " shards, this library reads 1",
                       label_of(reading), shards);
    return status;
}

static enum kt_status read_shape(const struct reading *reading, struct kt_moe_info *info)
{
    uint64_t layer, n[4], types[3];
    enum kt_status status = read_key(reading, KT_STORE_KEY_LAYER, 1, &layer);
    if (status == KT_OK)
        status = read_key(reading, KT_STORE_KEY_SHAPE, 4, n);
    if (status == KT_OK)
        status = read_key(reading, KT_STORE_KEY_SOURCE_TYPES, 3, types);
    if (status != KT_OK)
        return status;
    if (layer > KT_LARGEST_LAYER || n[0] < 1 || n[0] > KT_LARGEST_EXPERTS || n[1] > n[0] || n[2] < 1 ||
        n[2] > KT_LARGEST_SIZE || n[3] < 1 || n[3] > KT_LARGEST_SIZE)
        return kt_fail(reading->error, KT_E_FORMAT,
                       "%s: layer %" PRIu64 " of %" PRIu64 " experts, top_k %" PRIu64 ", hidden_size %" PRIu64
                       ", intermediate_size %" PRIu64 " is beyond any model",
                       label_of(reading), layer, n[0], n[1], n[2], n[3]);
    *info = (struct kt_moe_info){.layer = layer,
                                 .n_experts = (uint32_t)n[0],
                                 .top_k = (uint32_t)n[1],
                                 .hidden_size = n[2],
                                 .intermediate_size = n[3]};
    for (int p = KT_GATE; p <= KT_DOWN; p++) {
        if (types[p] > UINT32_MAX || !kt_dtype_decodes((uint32_t)types[p]))
            return kt_fail(reading->error, KT_E_FORMAT, "%s: %s names type %" PRIu64 ", which is none",
                           label_of(reading), KT_STORE_KEY_SOURCE_TYPES, types[p]);
        info->dtype[p] = (uint32_t)types[p];
    }
    return KT_OK;
}

/* Is it a possible format: scales with groups, or neither? */
static bool is_format(const struct kt_format *format)
{
    bool groups = format->group_rows > 0 && format->group_cols > 0;
    if (format->scale_dtype == KT_DTYPE_NONE)
        return !kt_dtype_needs_scales(format->dtype) && format->zero_dtype == KT_DTYPE_NONE &&
               format->group_rows == 0 && format->group_cols == 0;
    return groups && kt_dtype_decodes(format->scale_dtype) &&
           (format->zero_dtype == KT_DTYPE_NONE || format->zero_dtype == KT_DTYPE_U8);
}

/* Of each projection: dtypes of scales and of zeros, rows and columns of a group. */
static enum kt_status read_scales(const struct reading *reading, struct kt_format formats[3])
{
    uint64_t n[12];
    enum kt_status status = read_key(reading, KT_STORE_KEY_SOURCE_SCALES, 12, n);
    if (status != KT_OK)
        return status;
    for (int p = KT_GATE; p <= KT_DOWN; p++) {
        const uint64_t *part = n + 4 * p;
        struct kt_format *format = &formats[p];
        *format = (struct kt_format){.dtype = reading->moe->info.dtype[p],
                                     .scale_dtype = (uint32_t)part[0],
                                     .zero_dtype = (uint32_t)part[1],
                                     .group_rows = part[2],
                                     .group_cols = part[3]};
        if (part[0] > UINT32_MAX || part[1] > UINT32_MAX || !is_format(format))
            return kt_fail(reading->error, KT_E_FORMAT,
                           "%s: %s says %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
                           " of projection %d, which no %s weights have",
                           label_of(reading), KT_STORE_KEY_SOURCE_SCALES, part[0], part[1], part[2], part[3],
                           p, kt_dtype_name(format->dtype));
    }
    return KT_OK;
}

/* A finite number and what follows it. */
static bool read_real(const char *text, char end, float *number, const char **rest)
{
    char *after;
    *number = strtof(text, &after);
    *rest = after + 1;
    return after > text && *text != ' ' && *after == end && isfinite(*number);
}

static enum kt_status read_activation(const struct reading *reading, struct kt_moe_info *info)
{
    const char *text = find_text(reading, KT_STORE_KEY_ACTIVATION), *at = text;
    if (!text)
        return KT_E_FORMAT;
    bool right = text[0] >= '0' && text[0] <= '0' + KT_ACTIVATION_SWIGLUOAI && text[1] == ' ' &&
                 read_real(text + 2, ' ', &info->limit, &at) && read_real(at, '\0', &info->alpha, &at);
    if (!right)
        return kt_fail(reading->error, KT_E_FORMAT,
                       "%s: %s is \"%.80s\", not an activation, a limit and an alpha", label_of(reading),
                       KT_STORE_KEY_ACTIVATION, text);
    info->activation = (uint32_t)(text[0] - '0');
    return KT_OK;
}

/* 16 hex digits. */
static bool read_sum(const char *digits, uint64_t *sum)
{
    *sum = 0;
    for (int i = 0; i < DIGITS; i++) {
        char c = digits[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        *sum = *sum << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return true;
}

/* Is the header unchanged, and does the file have the name of its layer? */
static enum kt_status check_header(const struct reading *reading)
{
    static const char *const keys[] = KT_STORE_KEYS;
    const char *texts[KT_STORE_N_KEYS], *sum = find_text(reading, KT_STORE_KEY_HEADER);
    uint64_t said;
    char name[48];
    for (int i = 0; i < KT_STORE_N_KEYS; i++)
        if (!(texts[i] = find_text(reading, keys[i])))
            return KT_E_FORMAT;
    if (!sum)
        return KT_E_FORMAT;
    if (strlen(sum) != DIGITS || !read_sum(sum, &said) || said != kt_store_header_sum(texts))
        return kt_fail(reading->error, KT_E_FORMAT,
                       "%s: its metadata is not what was stored: remove the file and convert again",
                       label_of(reading));
    const char *label = label_of(reading);
    (void)snprintf(name, sizeof name, "layer-%05" PRIu64 ".safetensors", reading->moe->info.layer);
    size_t length = strlen(label), end = strlen(name);
    if (length < end || strcmp(label + length - end, name) != 0)
        return kt_fail(reading->error, KT_E_FORMAT, "%s: holds layer %" PRIu64 " of a store: call it %s",
                       label, reading->moe->info.layer, name);
    return KT_OK;
}

/* The checksum of the next tensor. */
static bool take_checksum(struct reading *reading, uint64_t *checksum)
{
    return read_sum(reading->checksums + DIGITS * reading->checked++, checksum);
}

/* Takes the next tensor of the file, which must have this name and type. */
static struct kt_tensor *take_tensor(struct reading *reading, const char *name, uint32_t dtype)
{
    const struct kt_tensors *tensors = &reading->checkpoint->tensors;
    struct kt_tensor *tensor = reading->tensor < tensors->n ? &tensors->tensor[reading->tensor] : NULL;
    if (tensor && tensor->part == reading->part && strcmp(tensor->info.name, name) == 0 &&
        tensor->info.dtype == dtype) {
        reading->tensor++;
        return tensor;
    }
    (void)kt_fail(reading->error, KT_E_FORMAT,
                  "%s: tensor \"%s\" of type %s must stand where \"%.80s\" does: the file is damaged; "
                  "convert again",
                  label_of(reading), name, kt_dtype_name(dtype),
                  tensor && tensor->part == reading->part ? tensor->info.name : "the end");
    return NULL;
}

static enum kt_status read_object(struct reading *reading, uint32_t expert, enum kt_stage stage)
{
    struct kt_stored *stored = reading->stored;
    char name[64];
    (void)snprintf(name, sizeof name, "layers.%" PRIu64 ".experts.%" PRIu32 ".%s", reading->moe->info.layer,
                   expert, stage == KT_STAGE_DOWN ? "down" : "gate_up");
    const struct kt_tensor *tensor = take_tensor(reading, name, KT_DTYPE_U8);
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
        return kt_fail(reading->error, KT_E_FORMAT,
                       "%s: tensor \"%s\" has %" PRIu64 " bytes at offset %" PRIu64
                       "; all experts must have the same size, a multiple of 64 as the offset",
                       label_of(reading), name, info->size, info->offset);
    if (!take_checksum(reading, &stored->checksum[2 * expert + (uint32_t)stage]))
        return kt_fail(reading->error, KT_E_FORMAT, "%s: the checksum of tensor \"%s\" is no hex number",
                       label_of(reading), name);
    reading->moe->info.size += info->size;
    return KT_OK;
}

static enum kt_status read_bias(struct reading *reading, enum kt_projection projection)
{
    static const char *const names[3] = {"gate_bias", "up_bias", "down_bias"};
    struct kt_moe_info *moe = &reading->moe->info;
    const struct kt_tensors *tensors = &reading->checkpoint->tensors;
    uint64_t rows = projection == KT_DOWN ? moe->hidden_size : moe->intermediate_size, checksum;
    char name[64];
    (void)snprintf(name, sizeof name, "layers.%" PRIu64 ".%s", moe->layer, names[projection]);
    const struct kt_tensor *next = reading->tensor < tensors->n ? &tensors->tensor[reading->tensor] : NULL;
    if (!next || next->part != reading->part || strcmp(next->info.name, name) != 0)
        return KT_OK;
    struct kt_tensor *tensor = take_tensor(reading, name, KT_DTYPE_F32);
    if (!tensor)
        return KT_E_FORMAT;
    if (tensor->info.n_dims != 2 || tensor->info.dims[0] != moe->n_experts || tensor->info.dims[1] != rows ||
        !take_checksum(reading, &checksum))
        return kt_fail(reading->error, KT_E_FORMAT,
                       "%s: tensor \"%s\" must be %" PRIu32 " x %" PRIu64 " with a checksum",
                       label_of(reading), name, moe->n_experts, rows);
    const void *data;
    enum kt_status status = kt_tensor_data(reading->checkpoint, tensor, &data, reading->error);
    if (status != KT_OK)
        return status;
    if (XXH3_64bits(data, tensor->info.size) != checksum)
        return kt_fail(reading->error, KT_E_FORMAT, "%s: tensor \"%s\" is not what was stored: convert again",
                       label_of(reading), name);
    reading->moe->bias[projection] = tensor;
    moe->has_bias |= 1u << projection;
    return KT_OK;
}

static enum kt_status read_tensors(struct reading *reading)
{
    const struct kt_tensors *tensors = &reading->checkpoint->tensors;
    uint32_t n_experts = reading->moe->info.n_experts;
    uint64_t n = 0;
    while (reading->tensor + n < tensors->n && tensors->tensor[reading->tensor + n].part == reading->part)
        n++;
    reading->checksums = find_text(reading, KT_STORE_KEY_CHECKSUMS);
    if (!reading->checksums)
        return KT_E_FORMAT;
    if (n < 2 * (uint64_t)n_experts || strlen(reading->checksums) != DIGITS * n)
        return kt_fail(reading->error, KT_E_FORMAT,
                       "%s: has %" PRIu64 " tensors and %zu digits of checksums; %" PRIu32
                       " experts need two tensors each, and each %d digits",
                       label_of(reading), n, strlen(reading->checksums), n_experts, DIGITS);
    uint64_t end = reading->tensor + n;
    enum kt_status status = KT_OK;
    for (uint32_t i = 0; i < 2 * n_experts && status == KT_OK; i++)
        status = read_object(reading, i / 2, i % 2 ? KT_STAGE_DOWN : KT_STAGE_GATE_UP);
    for (int p = KT_GATE; p <= KT_DOWN && status == KT_OK; p++)
        status = read_bias(reading, (enum kt_projection)p);
    if (status == KT_OK && reading->tensor != end)
        status = kt_fail(reading->error, KT_E_FORMAT, "%s: tensor \"%.80s\" does not belong here",
                         label_of(reading), tensors->tensor[reading->tensor].info.name);
    return status;
}

static enum kt_status read_model(const struct reading *reading)
{
    struct kt_checkpoint *checkpoint = reading->checkpoint;
    const char *text = find_text(reading, KT_STORE_KEY_MODEL);
    uint64_t n_layers;
    if (!text)
        return KT_E_FORMAT;
    const char *space = strrchr(text, ' ');
    if (!space || (size_t)(space - text) >= sizeof checkpoint->architecture ||
        !read_numbers(space + 1, 1, &n_layers))
        return kt_fail(reading->error, KT_E_FORMAT,
                       "%s: %s is \"%.80s\", not an architecture and a number of layers", label_of(reading),
                       KT_STORE_KEY_MODEL, text);
    memcpy(checkpoint->architecture, text, (size_t)(space - text));
    checkpoint->architecture[space - text] = '\0';
    checkpoint->n_layers = n_layers;
    return KT_OK;
}

static enum kt_status read_part(struct reading *reading)
{
    struct kt_moe_info *info = &reading->moe->info;
    const char *format = kt_checkpoint_metadata(reading->checkpoint, reading->part, KT_STORE_KEY_FORMAT);
    if (!format || strcmp(format, KT_STORE_FORMAT) != 0)
        return kt_fail(reading->error, KT_E_FORMAT,
                       "%s: holds no packed experts, but other files of the folder do: move it away",
                       label_of(reading));
    struct kt_format formats[3];
    enum kt_status status = check_version(reading);
    if (status == KT_OK)
        status = read_shape(reading, info);
    if (status == KT_OK)
        status = read_scales(reading, formats);
    if (status == KT_OK)
        status = read_activation(reading, info);
    if (status == KT_OK)
        status = read_model(reading);
    if (status == KT_OK)
        status = check_header(reading);
    if (status != KT_OK)
        return status;
    struct kt_stored *stored = calloc(1, sizeof *stored + 2 * info->n_experts * sizeof stored->checksum[0]);
    if (!stored)
        return kt_fail(reading->error, KT_E_NOMEM, "%s: no memory for checksums", label_of(reading));
    reading->moe->map = reading->stored = stored;
    stored->part = reading->part;
    memcpy(stored->format, formats, sizeof formats);
    status = read_name(reading, KT_STORE_KEY_BACKEND, stored->backend, sizeof stored->backend);
    if (status == KT_OK)
        status = read_name(reading, KT_STORE_KEY_FORM, stored->form, sizeof stored->form);
    stored->source = find_text(reading, KT_STORE_KEY_SOURCE);
    stored->layers = find_text(reading, KT_STORE_KEY_LAYERS);
    if (status == KT_OK && (!stored->source || !stored->layers))
        status = KT_E_FORMAT;
    return status == KT_OK ? read_tensors(reading) : status;
}

static int compare_layers(const void *a, const void *b)
{
    uint64_t left = ((const struct kt_moe *)a)->info.layer, right = ((const struct kt_moe *)b)->info.layer;
    return (left > right) - (left < right);
}

/* All layers must come from one checkpoint; their forms may differ. */
static enum kt_status check_sources(const struct kt_checkpoint *checkpoint, struct kt_error *error)
{
    const struct kt_stored *first = checkpoint->moe[0].map;
    for (uint64_t i = 1; i < checkpoint->n_moe; i++) {
        const struct kt_stored *stored = checkpoint->moe[i].map;
        if (strcmp(stored->source, first->source) != 0)
            return kt_fail(error, KT_E_FORMAT,
                           "%s: was packed from another checkpoint (fingerprint %.16s) than %s (%.16s): move "
                           "one of them away",
                           checkpoint->part[stored->part].file.label, stored->source,
                           checkpoint->part[first->part].file.label, first->source);
    }
    return KT_OK;
}

static enum kt_status map_store(struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                                struct kt_error *error)
{
    (void)config;
    checkpoint->moe = calloc(checkpoint->n_parts, sizeof *checkpoint->moe);
    if (!checkpoint->moe)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for its layers", checkpoint->label);
    struct reading reading = {.checkpoint = checkpoint, .error = error};
    for (uint32_t p = 0; p < checkpoint->n_parts; p++) {
        reading.part = p;
        reading.checked = 0;
        reading.moe = &checkpoint->moe[checkpoint->n_moe++];
        enum kt_status status = read_part(&reading);
        if (status != KT_OK)
            return status;
        checkpoint->expert_size += reading.moe->info.size;
    }
    qsort(checkpoint->moe, checkpoint->n_moe, sizeof *checkpoint->moe, compare_layers);
    for (uint64_t i = 1; i < checkpoint->n_moe; i++)
        if (checkpoint->moe[i].info.layer == checkpoint->moe[i - 1].info.layer)
            return kt_fail(error, KT_E_FORMAT, "%s: two files hold layer %" PRIu64, checkpoint->label,
                           checkpoint->moe[i].info.layer);
    return check_sources(checkpoint, error);
}

static bool matches_store(const struct kt_checkpoint *checkpoint)
{
    for (uint32_t p = 0; p < checkpoint->n_parts; p++) {
        const char *format = kt_checkpoint_metadata(checkpoint, p, KT_STORE_KEY_FORMAT);
        if (format && strcmp(format, KT_STORE_FORMAT) == 0)
            return true;
    }
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
        for (int p = KT_GATE; p <= KT_DOWN; p++) {
            const struct kt_format *format = &stored->format[p];
            views[p]->dtype = format->dtype;
            views[p]->scales.dtype = format->scale_dtype;
            views[p]->zeros.dtype = format->zero_dtype;
            views[p]->scales.group_rows = views[p]->zeros.group_rows = format->group_rows;
            views[p]->scales.group_cols = views[p]->zeros.group_cols = format->group_cols;
            views[p]->rows = p == KT_DOWN ? info->hidden_size : info->intermediate_size;
            views[p]->cols = p == KT_DOWN ? info->intermediate_size : info->hidden_size;
        }
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

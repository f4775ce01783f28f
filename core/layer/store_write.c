/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_write.c - packs a layer of a checkpoint into a file of a store (core/weights/store/store_read.h).
 *
 * The sizes of all objects are known before the first is packed, so the header is written first, with zeros
 * for checksums. Threads pack whole experts and write them to their places. Then the header is written again
 * with the checksums, and the file is renamed once it is on the disk.
 */
#define _GNU_SOURCE /* asprintf */
#include "core/base/error.h"
#include "core/base/size.h"
#include "core/context/context.h"
#include "core/layer/experts_check.h"
#include "core/layer/layer.h"
#include "core/layer/pack.h"
#include "core/layer/selection.h"
#include "core/machine/outcome.h"
#include "core/machine/pool.h"
#include "core/weights/decode/view.h"
#include "core/weights/file/limits.h"
#include "core/weights/store/store_read.h"
#include "core/weights/weights.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

struct storing {
    const struct kt_layer *layer;
    const struct kt_backend *backend;
    const struct kt_store_params *params;
    const struct kt_shard *shard; /* of uncut experts */
    const struct kt_expert *experts;
    struct kt_moe_info info;
    struct kt_checkpoint_info model;
    char source[17];
    char layers[4096];
    int fd;
    char *temporary, *path;
    uint64_t data; /* where the tensors begin in the file */
    uint64_t object_size[2];
    uint32_t n_tensors;
    uint64_t *checksum; /* [n_tensors] */
    char *room;         /* per thread: an expert */
    struct kt_outcome outcome;
    atomic_uint next, done;
};

static uint64_t expert_size(const struct storing *storing)
{
    return storing->object_size[0] + storing->object_size[1];
}

static const float *bias_of(const struct kt_expert *expert, enum kt_projection projection)
{
    return projection == KT_GATE ? expert->gate_bias
           : projection == KT_UP ? expert->up_bias
                                 : expert->down_bias;
}

static uint64_t bias_rows(const struct storing *storing, enum kt_projection projection)
{
    return projection == KT_DOWN ? storing->info.hidden_size : storing->info.intermediate_size;
}

/* ---- the header ---- */

static int add_text(json_t *metadata, const char *key, const char *format, ...) KT_PRINTF(3, 4);
static int add_text(json_t *metadata, const char *key, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    json_t *text = json_vsprintf(format, arguments);
    va_end(arguments);
    return json_object_set_new(metadata, key, text);
}

/* The checksum of the header, its last key. */
static int add_header_sum(json_t *metadata)
{
    static const char *const keys[] = KT_STORE_KEYS;
    const char *texts[KT_STORE_N_KEYS];
    for (int i = 0; i < KT_STORE_N_KEYS; i++)
        if (!(texts[i] = json_string_value(json_object_get(metadata, keys[i]))))
            return -1;
    return add_text(metadata, KT_STORE_KEY_HEADER, "%016" PRIx64, kt_store_header_sum(texts));
}

/* Scales and groups of gate, up and down. */
static int add_scales(json_t *metadata, const struct kt_expert *expert)
{
    const struct kt_view *views[3] = {&expert->gate, &expert->up, &expert->down};
    char text[3 * 64] = "";
    size_t length = 0;
    for (int p = KT_GATE; p <= KT_DOWN; p++) {
        struct kt_format format;
        kt_view_format(views[p], &format);
        length +=
            (size_t)snprintf(text + length, sizeof text - length,
                             "%s%" PRIu32 " %" PRIu32 " %" PRIu64 " %" PRIu64, p ? " " : "",
                             format.scale_dtype, format.zero_dtype, format.group_rows, format.group_cols);
    }
    return add_text(metadata, KT_STORE_KEY_SOURCE_SCALES, "%s", text);
}

static int add_metadata(json_t *root, const struct storing *storing)
{
    const struct kt_moe_info *info = &storing->info;
    const struct kt_layer_params *params = &storing->layer->params;
    json_t *metadata = json_object();
    char *checksums = malloc(16 * (size_t)storing->n_tensors + 1);
    int failed = json_object_set_new(root, "__metadata__", metadata) || !checksums;
    for (uint32_t i = 0; checksums && i < storing->n_tensors; i++)
        (void)snprintf(checksums + 16 * (size_t)i, 17, "%016" PRIx64, storing->checksum[i]);
    failed = failed || add_text(metadata, KT_STORE_KEY_FORMAT, "%s", KT_STORE_FORMAT) ||
             add_text(metadata, KT_STORE_KEY_VERSION, "%d", KT_STORE_VERSION) ||
             add_text(metadata, KT_STORE_KEY_BACKEND, "%s", storing->backend->name) ||
             add_text(metadata, KT_STORE_KEY_FORM, "%s", storing->shard->layout.form) ||
             add_text(metadata, KT_STORE_KEY_SHARDS, "1") ||
             add_text(metadata, KT_STORE_KEY_LAYER, "%" PRIu64, info->layer) ||
             add_text(metadata, KT_STORE_KEY_SHAPE, "%" PRIu32 " %" PRIu32 " %" PRIu64 " %" PRIu64,
                      info->n_experts, params->top_k, info->hidden_size, info->intermediate_size) ||
             add_text(metadata, KT_STORE_KEY_ACTIVATION, "%" PRIu32 " %.9g %.9g", params->activation,
                      (double)params->limit, (double)params->alpha) ||
             add_text(metadata, KT_STORE_KEY_SOURCE_TYPES, "%" PRIu32 " %" PRIu32 " %" PRIu32, info->dtype[0],
                      info->dtype[1], info->dtype[2]) ||
             add_scales(metadata, &storing->experts[0]) ||
             add_text(metadata, KT_STORE_KEY_SOURCE, "%s", storing->source) ||
             add_text(metadata, KT_STORE_KEY_MODEL, "%s %" PRIu64, storing->model.architecture,
                      storing->model.n_layers) ||
             add_text(metadata, KT_STORE_KEY_LAYERS, "%s", storing->layers) ||
             json_object_set_new(metadata, KT_STORE_KEY_CHECKSUMS, json_string(checksums)) ||
             add_header_sum(metadata);
    free(checksums);
    return failed;
}

static int add_tensor(json_t *root, const char *name, const char *dtype, json_t *shape, uint64_t *at,
                      uint64_t size)
{
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape, "data_offsets",
                              (json_int_t)*at, (json_int_t)(*at + size));
    *at += size;
    return json_object_set_new(root, name, entry);
}

static int add_tensors(json_t *root, const struct storing *storing, uint64_t *size)
{
    static const char *const stages[2] = {"gate_up", "down"};
    static const char *const biases[3] = {"gate_bias", "up_bias", "down_bias"};
    const struct kt_moe_info *info = &storing->info;
    char name[64];
    int failed = 0;
    *size = 0;
    for (uint32_t i = 0; i < 2 * info->n_experts && !failed; i++) {
        uint64_t bytes = storing->object_size[i % 2];
        (void)snprintf(name, sizeof name, "layers.%" PRIu64 ".experts.%" PRIu32 ".%s", info->layer, i / 2,
                       stages[i % 2]);
        failed = add_tensor(root, name, "U8", json_pack("[I]", (json_int_t)bytes), size, bytes);
    }
    for (int p = KT_GATE; p <= KT_DOWN && !failed; p++) {
        uint64_t rows = bias_rows(storing, (enum kt_projection)p);
        if (!bias_of(storing->experts, (enum kt_projection)p))
            continue;
        (void)snprintf(name, sizeof name, "layers.%" PRIu64 ".%s", info->layer, biases[p]);
        failed =
            add_tensor(root, name, "F32", json_pack("[I, I]", (json_int_t)info->n_experts, (json_int_t)rows),
                       size, info->n_experts * rows * sizeof(float));
    }
    return failed;
}

static enum kt_status fail_io(const struct storing *storing, const char *what, struct kt_error *error)
{
    return kt_fail(error, KT_E_IO, "%s: cannot be %s: %s", storing->temporary, what, strerror(errno));
}

static enum kt_status write_at(const struct storing *storing, const void *from, uint64_t size,
                               uint64_t offset, struct kt_error *error)
{
    for (const char *at = from; size > 0;) {
        ssize_t n = pwrite(storing->fd, at, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail_io(storing, "written", error);
        at += n;
        offset += (uint64_t)n;
        size -= (uint64_t)n;
    }
    return KT_OK;
}

/* Writes the header, padded with spaces so that the data is aligned; *data_size is the size of the data. */
static enum kt_status write_header(struct storing *storing, uint64_t *data_size, struct kt_error *error)
{
    json_t *root = json_object();
    char *text = NULL, *header = NULL;
    uint64_t length = 0;
    if (!add_metadata(root, storing) && !add_tensors(root, storing, data_size))
        text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    if (text) {
        length = strlen(text);
        storing->data = (8 + length + KT_STORE_ALIGNMENT - 1) / KT_STORE_ALIGNMENT * KT_STORE_ALIGNMENT;
        header = malloc(storing->data);
    }
    enum kt_status status =
        header ? KT_OK : kt_fail(error, KT_E_NOMEM, "%s: no memory for its header", storing->temporary);
    if (status == KT_OK) {
        for (int i = 0; i < 8; i++)
            header[i] = (char)((storing->data - 8) >> 8 * i);
        memcpy(header + 8, text, length);
        memset(header + 8 + length, ' ', storing->data - 8 - length);
        status = write_at(storing, header, storing->data, 0, error);
    }
    free(header);
    free(text);
    return status;
}

/* ---- the objects ---- */

static enum kt_status store_expert(struct storing *storing, uint32_t expert, char *room,
                                   struct kt_error *error)
{
    uint64_t size = expert_size(storing);
    memset(room, 0, size); /* bytes that the backend skips are the same on every machine */
    enum kt_status status = KT_OK;
    for (int s = 0; s < 2 && status == KT_OK; s++) {
        char *object = room + (s ? storing->object_size[0] : 0);
        struct kt_pack job = {.stage = (enum kt_stage)s,
                              .panel_end = kt_layout_panels(&storing->shard->layout, (enum kt_stage)s),
                              .packed = object};
        status = kt_layer_pack(storing->shard, storing->backend, &storing->experts[expert], &job, error);
        if (status != KT_OK)
            return kt_fail_prefix(error, status, "%s, expert %" PRIu32, storing->layer->name, expert);
        storing->checksum[2 * expert + (uint32_t)s] = XXH3_64bits(object, storing->object_size[s]);
    }
    if (status == KT_OK)
        status = write_at(storing, room, size, storing->data + expert * size, error);
    return status;
}

static void store_experts(struct kt_worker *worker, void *argument)
{
    struct storing *storing = argument;
    const struct kt_store_params *params = storing->params;
    uint32_t n_experts = storing->info.n_experts;
    char *room = storing->room + worker->index * expert_size(storing);
    for (uint32_t e; (e = atomic_fetch_add(&storing->next, 1)) < n_experts;) {
        struct kt_error error;
        enum kt_status status =
            kt_outcome_failed(&storing->outcome) ? KT_OK : store_expert(storing, e, room, &error);
        if (status != KT_OK)
            kt_outcome_fail(&storing->outcome, status, &error);
        uint32_t done = atomic_fetch_add(&storing->done, 1) + 1;
        if (worker->index == 0 && params->progress)
            params->progress(params->data, done * expert_size(storing), n_experts * expert_size(storing));
    }
}

static enum kt_status store_biases(struct storing *storing, struct kt_error *error)
{
    uint64_t at = storing->data + storing->info.n_experts * expert_size(storing);
    uint32_t tensor = 2 * storing->info.n_experts;
    enum kt_status status = KT_OK;
    for (int p = KT_GATE; p <= KT_DOWN; p++) {
        uint64_t size = bias_rows(storing, (enum kt_projection)p) * sizeof(float);
        if (!bias_of(storing->experts, (enum kt_projection)p))
            continue;
        XXH3_state_t *state = XXH3_createState();
        if (!state)
            return kt_fail(error, KT_E_NOMEM, "%s: no memory for a checksum", storing->temporary);
        (void)XXH3_64bits_reset(state);
        for (uint32_t e = 0; e < storing->info.n_experts && status == KT_OK; e++, at += size) {
            const float *bias = bias_of(&storing->experts[e], (enum kt_projection)p);
            (void)XXH3_64bits_update(state, bias, size);
            status = write_at(storing, bias, size, at, error);
        }
        storing->checksum[tensor++] = XXH3_64bits_digest(state);
        (void)XXH3_freeState(state);
    }
    return status;
}

static enum kt_status write_objects(struct storing *storing, struct kt_error *error)
{
    struct kt_pool *pool = storing->layer->context->pool;
    uint64_t size;
    bool fits = kt_mul(expert_size(storing), pool->n_threads, &size);
    storing->room = fits ? aligned_alloc(64, size) : NULL;
    if (!storing->room)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for a packed expert on each of %u threads",
                       storing->layer->name, pool->n_threads);
    enum kt_status status = kt_pool_lock(pool, error);
    if (status != KT_OK)
        return status;
    kt_outcome_start(&storing->outcome);
    kt_pool_run(pool, store_experts, storing);
    kt_pool_unlock(pool);
    return kt_outcome_end(&storing->outcome, error);
}

/* ---- the file ---- */

/* Does the name still belong to the open file? Another process may have finished it and renamed it. */
static bool is_named(int fd, const char *path)
{
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 && opened.st_ino == named.st_ino &&
           opened.st_dev == named.st_dev;
}

/* Locks the temporary file, so that one process at a time writes a layer. */
static enum kt_status lock_file(struct storing *storing, int fd, struct kt_error *error)
{
    struct stat opened;
    if (fstat(fd, &opened) == 0 && !S_ISREG(opened.st_mode)) {
        (void)close(fd);
        return kt_fail(error, KT_E_IO, "%s: is no regular file: remove it", storing->temporary);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_named(fd, storing->temporary)) {
        storing->fd = fd;
        return ftruncate(fd, 0) == 0 ? KT_OK : fail_io(storing, "emptied", error);
    }
    enum kt_status status =
        kt_fail(error, KT_E_BUSY, "%s: another process is writing this layer", storing->path);
    if (errno != EWOULDBLOCK && is_named(fd, storing->temporary)) {
        status = fail_io(storing, "locked", error);
        (void)unlink(storing->temporary);
    }
    (void)close(fd);
    return status;
}

static enum kt_status open_file(struct storing *storing, struct kt_error *error)
{
    const char *folder = storing->params->folder;
    if (asprintf(&storing->path, "%s/layer-%05" PRIu64 ".safetensors", folder, storing->info.layer) < 0)
        storing->path = NULL;
    if (asprintf(&storing->temporary, "%s/.layer-%05" PRIu64 ".part", folder, storing->info.layer) < 0)
        storing->temporary = NULL;
    if (!storing->path || !storing->temporary)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for a path", folder);
    int fd = open(storing->temporary, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    return fd < 0 ? fail_io(storing, "made", error) : lock_file(storing, fd, error);
}

/* So that a full disk is found before the work, not after it. */
static enum kt_status reserve(const struct storing *storing, uint64_t size, struct kt_error *error)
{
    int failed = posix_fallocate(storing->fd, 0, (off_t)(storing->data + size));
    if (failed && failed != EOPNOTSUPP && failed != EINVAL) {
        errno = failed;
        return fail_io(storing, "filled", error);
    }
    return KT_OK;
}

static enum kt_status sync_folder(const struct storing *storing, struct kt_error *error)
{
    int fd = open(storing->params->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
    if (!synced)
        (void)kt_fail(error, KT_E_IO, "%s: cannot be made durable: %s", storing->params->folder,
                      strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return synced ? KT_OK : KT_E_IO;
}

static enum kt_status write_file(struct storing *storing, struct kt_error *error)
{
    uint64_t size;
    enum kt_status status = write_header(storing, &size, error);
    if (status == KT_OK)
        status = reserve(storing, size, error);
    if (status == KT_OK)
        status = write_objects(storing, error);
    if (status == KT_OK)
        status = store_biases(storing, error);
    if (status == KT_OK)
        status = write_header(storing, &size, error);
    if (status == KT_OK && fsync(storing->fd) != 0)
        status = fail_io(storing, "made durable", error);
    if (status == KT_OK && rename(storing->temporary, storing->path) != 0)
        status = fail_io(storing, "renamed", error);
    return status == KT_OK ? sync_folder(storing, error) : status;
}

static enum kt_status store_chosen(struct storing *storing, struct kt_error *error)
{
    const struct kt_layout *layout = &storing->shard->layout;
    if (layout->keeps_source || !layout->form[0])
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: what backend %s makes of weights cannot be stored: use the "
                       "checkpoint as it is, or another method",
                       storing->layer->name, storing->backend->name);
    storing->n_tensors = 2 * storing->info.n_experts;
    for (int p = KT_GATE; p <= KT_DOWN; p++)
        storing->n_tensors += bias_of(storing->experts, (enum kt_projection)p) != NULL;
    for (int s = 0; s < 2; s++)
        storing->object_size[s] = kt_align64(layout->weight_size[s]);
    storing->checksum = calloc(storing->n_tensors, sizeof *storing->checksum);
    if (!storing->checksum)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for checksums", storing->layer->name);
    enum kt_status status = open_file(storing, error);
    if (status == KT_OK)
        status = write_file(storing, error);
    if (storing->fd >= 0 && status != KT_OK)
        (void)unlink(storing->temporary); /* has no effect once it was renamed */
    if (storing->fd >= 0)
        (void)close(storing->fd);
    return status;
}

static enum kt_status choose(struct storing *storing, struct kt_error *error)
{
    const struct kt_layer *layer = storing->layer;
    struct kt_selection_request request = {.example = storing->experts,
                                           .backend = layer->params.backend,
                                           .whole = true,
                                           .stored = true};
    struct kt_selection *selection = calloc(1, sizeof *selection);
    if (!selection)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory to store it", layer->name);
    enum kt_status status = kt_selection_make(layer, &request, selection, NULL, error);
    if (status == KT_OK) {
        storing->backend = selection->backend;
        storing->shard = &selection->shard[0];
        status = store_chosen(storing, error);
        kt_selection_release(selection);
    }
    free(selection);
    return status;
}

static enum kt_status check(const char *function, const struct kt_layer *layer, const void *source,
                            const struct kt_store_params *params, struct kt_error *error)
{
    if (!layer || !source || !params)
        return kt_fail(error, KT_E_INVALID, "%s: layer, what to store and params must not be NULL", function);
    if (params->struct_size < sizeof *params)
        return kt_fail(error, KT_E_INVALID,
                       "%s: struct_size %zu is too small; start with KT_STORE_PARAMS_INIT", function,
                       params->struct_size);
    if (!params->folder || !*params->folder)
        return kt_fail(error, KT_E_INVALID, "%s: the folder of the store is %s", layer->name,
                       params->folder ? "empty" : "NULL");
    if (!layer->params.backend || strcmp(layer->params.backend, "auto") == 0)
        return kt_fail(error, KT_E_INVALID, "%s: storing needs the name of a backend", layer->name);
    return KT_OK;
}

static void release(struct storing *storing)
{
    free(storing->room);
    free(storing->checksum);
    free(storing->temporary);
    free(storing->path);
}

enum kt_status kt_layer_store(struct kt_layer *layer, struct kt_checkpoint *checkpoint, uint64_t index,
                              const struct kt_store_params *params, struct kt_error *error)
{
    enum kt_status status = check("kt_layer_store", layer, checkpoint, params, error);
    if (status != KT_OK)
        return status;
    if (kt_checkpoint_stored(checkpoint, index))
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: layer %" PRIu64 " is packed already; store it from the original checkpoint",
                       layer->name, index);
    struct storing storing = {.layer = layer, .params = params, .fd = -1};
    struct kt_expert *experts = NULL;
    kt_checkpoint_info(checkpoint, &storing.model);
    kt_checkpoint_list_layers(checkpoint, storing.layers, sizeof storing.layers);
    status = kt_checkpoint_moe(checkpoint, index, &storing.info, error);
    if (status == KT_OK)
        status = kt_checkpoint_fingerprint(checkpoint, storing.source, error);
    if (status == KT_OK)
        status = kt_layer_take_experts(layer, checkpoint, index, &experts, error);
    if (status == KT_OK)
        status = kt_layer_check_experts(layer, experts, storing.info.n_experts, error);
    storing.experts = experts;
    if (status == KT_OK)
        status = choose(&storing, error);
    if (experts)
        kt_checkpoint_unuse(checkpoint, index);
    free(experts);
    release(&storing);
    return status;
}

enum kt_status kt_layer_store_experts(struct kt_layer *layer, const struct kt_expert *experts,
                                      uint32_t n_experts, uint64_t index,
                                      const struct kt_store_params *params, struct kt_error *error)
{
    enum kt_status status = check("kt_layer_store_experts", layer, experts, params, error);
    if (status == KT_OK && index > KT_LARGEST_LAYER)
        status = kt_fail(error, KT_E_RANGE, "%s: layer %" PRIu64 " is beyond any model", layer->name, index);
    if (status == KT_OK)
        status = kt_layer_check_own(layer, experts, n_experts, error);
    if (status != KT_OK)
        return status;
    const struct kt_layer_params *shape = &layer->params;
    struct storing storing = {.layer = layer,
                              .params = params,
                              .experts = experts,
                              .info = {.layer = index,
                                       .n_experts = n_experts,
                                       .hidden_size = shape->hidden_size,
                                       .intermediate_size = shape->intermediate_size,
                                       .dtype = {experts->gate.dtype, experts->up.dtype,
                                                 experts->down.dtype}},
                              .model = {.architecture = ""},
                              .layers = KT_STORE_LAYERS_UNKNOWN,
                              .fd = -1};
    status = choose(&storing, error);
    release(&storing);
    return status;
}

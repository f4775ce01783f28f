/* SPDX-License-Identifier: Apache-2.0 */
/* store_write_layer.c - packs a layer of a checkpoint into a file of a store
 * (core/weights/store/store_read.h): threads pack whole experts and write them to their places. */
#include "core/base/error.h"
#include "core/base/size.h"
#include "core/context/context.h"
#include "core/layer/experts_check.h"
#include "core/layer/layer.h"
#include "core/layer/pack.h"
#include "core/layer/store_choose.h"
#include "core/weights/store/store_file.h"
#include "core/machine/outcome.h"
#include "core/machine/pool.h"
#include "core/weights/file/limits.h"
#include "core/weights/store/store_read.h"
#include "core/weights/weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    struct kt_store_file file;
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

static int add_metadata(json_t *root, const struct storing *storing)
{
    static const char *const keys[] = KT_STORE_KEYS;
    const struct kt_moe_info *info = &storing->info;
    const struct kt_layer_params *params = &storing->layer->params;
    const struct kt_expert *first = &storing->experts[0];
    const struct kt_view *const views[3] = {&first->gate, &first->up, &first->down};
    json_t *metadata = json_object();
    return json_object_set_new(root, "__metadata__", metadata) ||
           kt_store_add_text(metadata, KT_STORE_KEY_FORMAT, "%s", KT_STORE_FORMAT) ||
           kt_store_add_text(metadata, KT_STORE_KEY_VERSION, "%d", KT_STORE_VERSION) ||
           kt_store_add_text(metadata, KT_STORE_KEY_BACKEND, "%s", storing->backend->name) ||
           kt_store_add_text(metadata, KT_STORE_KEY_FORM, "%s", storing->shard->layout.form) ||
           kt_store_add_text(metadata, KT_STORE_KEY_SHARDS, "1") ||
           kt_store_add_text(metadata, KT_STORE_KEY_LAYER, "%" PRIu64, info->layer) ||
           kt_store_add_text(metadata, KT_STORE_KEY_SHAPE, "%" PRIu32 " %" PRIu32 " %" PRIu64 " %" PRIu64,
                             info->n_experts, params->top_k, info->hidden_size, info->intermediate_size) ||
           kt_store_add_text(metadata, KT_STORE_KEY_ACTIVATION, "%" PRIu32 " %.9g %.9g", params->activation,
                             (double)params->limit, (double)params->alpha) ||
           kt_store_add_formats(metadata, views, 3) ||
           kt_store_add_source(metadata, storing->source, &storing->model) ||
           kt_store_add_text(metadata, KT_STORE_KEY_LAYERS, "%s", storing->layers) ||
           kt_store_add_sums(metadata, storing->checksum, storing->n_tensors, keys, KT_STORE_N_KEYS);
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
        failed = kt_store_add_tensor(root, name, "U8", json_pack("[I]", (json_int_t)bytes), size, bytes);
    }
    for (int p = KT_GATE; p <= KT_DOWN && !failed; p++) {
        uint64_t rows = bias_rows(storing, (enum kt_projection)p);
        if (!bias_of(storing->experts, (enum kt_projection)p))
            continue;
        (void)snprintf(name, sizeof name, "layers.%" PRIu64 ".%s", info->layer, biases[p]);
        failed = kt_store_add_tensor(root, name, "F32",
                                     json_pack("[I, I]", (json_int_t)info->n_experts, (json_int_t)rows), size,
                                     info->n_experts * rows * sizeof(float));
    }
    return failed;
}

/* *data_size is the size of the data. */
static enum kt_status write_header(struct storing *storing, uint64_t *data_size, struct kt_error *error)
{
    json_t *root = json_object();
    if (add_metadata(root, storing) || add_tensors(root, storing, data_size)) {
        json_decref(root);
        root = NULL;
    }
    return kt_store_file_header(&storing->file, root, error);
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
        status = kt_store_file_write(&storing->file, room, size, storing->file.data + expert * size, error);
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
    uint64_t at = storing->file.data + storing->info.n_experts * expert_size(storing);
    uint32_t tensor = 2 * storing->info.n_experts;
    enum kt_status status = KT_OK;
    for (int p = KT_GATE; p <= KT_DOWN; p++) {
        uint64_t size = bias_rows(storing, (enum kt_projection)p) * sizeof(float);
        if (!bias_of(storing->experts, (enum kt_projection)p))
            continue;
        XXH3_state_t *state = XXH3_createState();
        if (!state)
            return kt_fail(error, KT_E_NOMEM, "%s: no memory for a checksum", storing->file.temporary);
        (void)XXH3_64bits_reset(state);
        for (uint32_t e = 0; e < storing->info.n_experts && status == KT_OK; e++, at += size) {
            const float *bias = bias_of(&storing->experts[e], (enum kt_projection)p);
            (void)XXH3_64bits_update(state, bias, size);
            status = kt_store_file_write(&storing->file, bias, size, at, error);
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

static enum kt_status write_file(struct storing *storing, struct kt_error *error)
{
    uint64_t size;
    enum kt_status status = write_header(storing, &size, error);
    if (status == KT_OK)
        status = kt_store_file_reserve(&storing->file, size, error);
    if (status == KT_OK)
        status = write_objects(storing, error);
    if (status == KT_OK)
        status = store_biases(storing, error);
    if (status == KT_OK)
        status = write_header(storing, &size, error);
    return status == KT_OK ? kt_store_file_finish(&storing->file, error) : status;
}

static enum kt_status store_chosen(struct storing *storing, struct kt_error *error)
{
    char name[KT_STORE_NAME_SIZE];
    storing->n_tensors = 2 * storing->info.n_experts;
    for (int p = KT_GATE; p <= KT_DOWN; p++)
        storing->n_tensors += bias_of(storing->experts, (enum kt_projection)p) != NULL;
    for (int s = 0; s < 2; s++)
        storing->object_size[s] = kt_align64(storing->shard->layout.weight_size[s]);
    storing->checksum = calloc(storing->n_tensors, sizeof *storing->checksum);
    if (!storing->checksum)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for checksums", storing->layer->name);
    kt_store_name_layer(storing->info.layer, name);
    enum kt_status status = kt_store_file_open(&storing->file, storing->params->folder, name, "layer", error);
    if (status == KT_OK)
        status = write_file(storing, error);
    kt_store_file_close(&storing->file, status);
    return status;
}

static enum kt_status choose(struct storing *storing, struct kt_error *error)
{
    const struct kt_layer *layer = storing->layer;
    struct kt_selection *selection = calloc(1, sizeof *selection);
    if (!selection)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory to store it", layer->name);
    enum kt_status status = kt_store_choose(layer, storing->experts, selection, error);
    if (status == KT_OK) {
        storing->backend = selection->backend;
        storing->shard = &selection->shard[0];
        status = store_chosen(storing, error);
        kt_selection_release(selection);
    }
    free(selection);
    return status;
}

static void release(struct storing *storing)
{
    free(storing->room);
    free(storing->checksum);
}

enum kt_status kt_layer_store(struct kt_layer *layer, struct kt_checkpoint *checkpoint, uint64_t index,
                              const struct kt_store_params *params, struct kt_error *error)
{
    enum kt_status status = kt_store_check("kt_layer_store", layer, checkpoint, params, error);
    if (status != KT_OK)
        return status;
    if (kt_checkpoint_stored(checkpoint, index))
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: layer %" PRIu64 " is packed already; store it from the original checkpoint",
                       layer->name, index);
    struct storing storing = {.layer = layer, .params = params};
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
    enum kt_status status = kt_store_check("kt_layer_store_experts", layer, experts, params, error);
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
                              .layers = KT_STORE_LAYERS_UNKNOWN};
    status = choose(&storing, error);
    release(&storing);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_write_linear.c - packs a linear into a file of a store (core/weights/store/store_read.h).
 *
 * Threads pack panels of the one object, for no part of it can be packed alone; then they compute the
 * checksums of its pieces and write these.
 */
#include "core/layer/linear.h"

#include "core/base/error.h"
#include "core/base/size.h"
#include "core/base/text.h"
#include "core/context/context.h"
#include "core/layer/experts_check.h"
#include "core/layer/pack.h"
#include "core/layer/store_choose.h"
#include "core/weights/store/store_file.h"
#include "core/machine/buffer.h"
#include "core/machine/outcome.h"
#include "core/machine/pool.h"
#include "core/weights/store/store_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* Parts of a thread when panels are packed: so many that a slower thread does not make the others wait. */
#define PARTS_PER_THREAD 4

struct storing {
    const struct kt_layer *layer;
    const struct kt_store_params *params;
    const struct kt_expert *expert;
    const char *name;
    struct kt_checkpoint_info model;
    char source[17];
    const struct kt_backend *backend;
    const struct kt_shard *shard; /* of the uncut linear */
    struct kt_store_file file;
    uint64_t size, n_pieces; /* of the object */
    uint64_t *checksum;      /* of the pieces, and of the bias */
    struct kt_buffer object;
    struct kt_outcome outcome;
    _Atomic uint64_t next, done;
};

static uint64_t bias_size(const struct storing *storing)
{
    return storing->expert->down_bias ? storing->expert->down.rows * sizeof(float) : 0;
}

/* ---- the header ---- */

static int add_metadata(json_t *root, const struct storing *storing)
{
    static const char *const keys[] = KT_STORE_KEYS_LINEAR;
    const struct kt_view *view = &storing->expert->down;
    json_t *metadata = json_object();
    return json_object_set_new(root, "__metadata__", metadata) ||
           kt_store_add_text(metadata, KT_STORE_KEY_FORMAT, "%s", KT_STORE_FORMAT_LINEAR) ||
           kt_store_add_text(metadata, KT_STORE_KEY_VERSION, "%d", KT_STORE_VERSION_LINEAR) ||
           kt_store_add_text(metadata, KT_STORE_KEY_BACKEND, "%s", storing->backend->name) ||
           kt_store_add_text(metadata, KT_STORE_KEY_FORM, "%s", storing->shard->layout.form) ||
           kt_store_add_text(metadata, KT_STORE_KEY_LINEAR, "%s", storing->name) ||
           kt_store_add_text(metadata, KT_STORE_KEY_SHAPE, "%" PRIu64 " %" PRIu64, view->rows, view->cols) ||
           kt_store_add_formats(metadata, &view, 1) ||
           kt_store_add_source(metadata, storing->source, &storing->model) ||
           kt_store_add_sums(metadata, storing->checksum, storing->n_pieces + (bias_size(storing) > 0), keys,
                             KT_STORE_N_KEYS_LINEAR);
}

static int add_tensors(json_t *root, const struct storing *storing)
{
    uint64_t at = 0, bias = bias_size(storing);
    char name[KT_NAME_SIZE + 1];
    (void)snprintf(name, sizeof name, "%s.packed", storing->name);
    if (kt_store_add_tensor(root, name, "U8", json_pack("[I]", (json_int_t)storing->size), &at,
                            storing->size))
        return -1;
    (void)snprintf(name, sizeof name, "%s.bias", storing->name);
    return bias && kt_store_add_tensor(root, name, "F32",
                                       json_pack("[I]", (json_int_t)storing->expert->down.rows), &at, bias);
}

static enum kt_status write_header(struct storing *storing, struct kt_error *error)
{
    json_t *root = json_object();
    if (add_metadata(root, storing) || add_tensors(root, storing)) {
        json_decref(root);
        root = NULL;
    }
    return kt_store_file_header(&storing->file, root, error);
}

/* ---- the object ---- */

static void pack_panels(struct kt_worker *worker, void *argument)
{
    struct storing *storing = argument;
    uint64_t panels = kt_layout_panels(&storing->shard->layout, KT_STAGE_DOWN);
    uint64_t parts = (uint64_t)PARTS_PER_THREAD * worker->pool->n_threads;
    for (uint64_t part; (part = atomic_fetch_add(&storing->next, 1)) < parts;) {
        struct kt_error error;
        struct kt_pack job = {.stage = KT_STAGE_DOWN,
                              .panel_begin = panels * part / parts,
                              .panel_end = panels * (part + 1) / parts,
                              .packed = storing->object.data};
        enum kt_status status =
            kt_outcome_failed(&storing->outcome)
                ? KT_OK
                : kt_layer_pack(storing->shard, storing->backend, storing->expert, &job, &error);
        if (status != KT_OK) {
            (void)kt_fail_prefix(&error, status, "%s", storing->layer->name);
            kt_outcome_fail(&storing->outcome, status, &error);
        }
    }
}

static void write_pieces(struct kt_worker *worker, void *argument)
{
    struct storing *storing = argument;
    const struct kt_store_params *params = storing->params;
    for (uint64_t i; (i = atomic_fetch_add(&storing->next, 1)) < storing->n_pieces;) {
        struct kt_error error;
        uint64_t at = i * KT_STORE_PIECE, left = storing->size - at;
        uint64_t size = left < KT_STORE_PIECE ? left : KT_STORE_PIECE;
        const char *piece = (const char *)storing->object.data + at;
        if (kt_outcome_failed(&storing->outcome))
            continue;
        storing->checksum[i] = XXH3_64bits(piece, size);
        enum kt_status status =
            kt_store_file_write(&storing->file, piece, size, storing->file.data + at, &error);
        if (status != KT_OK)
            kt_outcome_fail(&storing->outcome, status, &error);
        uint64_t done = atomic_fetch_add(&storing->done, size) + size;
        if (worker->index == 0 && params->progress)
            params->progress(params->data, done, storing->size);
    }
}

static enum kt_status run(struct storing *storing, kt_pool_fn function, struct kt_error *error)
{
    struct kt_pool *pool = storing->layer->context->pool;
    enum kt_status status = kt_pool_lock(pool, error);
    if (status != KT_OK)
        return status;
    atomic_store(&storing->next, 0);
    kt_outcome_start(&storing->outcome);
    kt_pool_run(pool, function, storing);
    kt_pool_unlock(pool);
    return kt_outcome_end(&storing->outcome, error);
}

/* ---- the file ---- */

static enum kt_status write_bias(struct storing *storing, struct kt_error *error)
{
    const float *bias = storing->expert->down_bias;
    uint64_t size = bias_size(storing);
    if (!bias)
        return KT_OK;
    storing->checksum[storing->n_pieces] = XXH3_64bits(bias, size);
    return kt_store_file_write(&storing->file, bias, size, storing->file.data + storing->size, error);
}

static enum kt_status write_file(struct storing *storing, struct kt_error *error)
{
    enum kt_status status = write_header(storing, error);
    if (status == KT_OK)
        status = kt_store_file_reserve(&storing->file, storing->size + bias_size(storing), error);
    if (status == KT_OK)
        status = run(storing, pack_panels, error);
    if (status == KT_OK)
        status = run(storing, write_pieces, error);
    if (status == KT_OK)
        status = write_bias(storing, error);
    if (status == KT_OK)
        status = write_header(storing, error);
    return status == KT_OK ? kt_store_file_finish(&storing->file, error) : status;
}

static enum kt_status store_chosen(struct storing *storing, struct kt_error *error)
{
    struct kt_context *context = storing->layer->context;
    char name[KT_STORE_NAME_SIZE];
    storing->size = kt_align64(storing->shard->layout.weight_size[KT_STAGE_DOWN]);
    storing->n_pieces = (storing->size + KT_STORE_PIECE - 1) / KT_STORE_PIECE;
    storing->checksum = calloc(storing->n_pieces + 1, sizeof *storing->checksum);
    if (!storing->checksum)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for checksums", storing->layer->name);
    /* Pages are zero: bytes that the backend skips are the same on every machine. */
    enum kt_status status =
        kt_buffer_create(context->topology, 0, storing->size, context->huge_pages, &storing->object, error);
    kt_store_name_linear(storing->name, name);
    if (status == KT_OK) {
        status = kt_store_file_open(&storing->file, storing->params->folder, name, "linear", error);
        if (status == KT_OK)
            status = write_file(storing, error);
        kt_store_file_close(&storing->file, status);
    }
    kt_buffer_destroy(&storing->object);
    free(storing->checksum);
    return status;
}

static enum kt_status choose(struct storing *storing, struct kt_error *error)
{
    const struct kt_layer *layer = storing->layer;
    size_t length = strlen(storing->name);
    if (length == 0 || length > KT_STORE_LINEAR_SIZE || !kt_name_valid(storing->name, length))
        return kt_fail(error, KT_E_INVALID,
                       "%s: its name in the store has %zu characters; 1 to %d are allowed, none of them a "
                       "control character",
                       layer->name, length, KT_STORE_LINEAR_SIZE);
    enum kt_status status = kt_layer_check_own(layer, storing->expert, 1, error);
    struct kt_selection *selection = status == KT_OK ? calloc(1, sizeof *selection) : NULL;
    if (status == KT_OK && !selection)
        status = kt_fail(error, KT_E_NOMEM, "%s: no memory to store it", layer->name);
    if (status == KT_OK)
        status = kt_store_choose(layer, storing->expert, selection, error);
    if (status == KT_OK) {
        storing->backend = selection->backend;
        storing->shard = &selection->shard[0];
        status = store_chosen(storing, error);
        kt_selection_release(selection);
    }
    free(selection);
    return status;
}

enum kt_status kt_linear_store(struct kt_linear *linear, struct kt_checkpoint *checkpoint, const char *name,
                               const struct kt_store_params *params, struct kt_error *error)
{
    struct kt_view weight;
    const float *bias;
    enum kt_status status = kt_store_check("kt_linear_store", linear ? linear->layer : NULL,
                                           checkpoint && name ? checkpoint : NULL, params, error);
    if (status != KT_OK)
        return status;
    if (kt_stored_linear(checkpoint, name))
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: \"%.200s\" is packed already; store it from the original checkpoint",
                       linear->layer->name, name);
    struct storing storing = {.layer = linear->layer, .params = params, .name = name};
    kt_checkpoint_info(checkpoint, &storing.model);
    status = kt_checkpoint_fingerprint(checkpoint, storing.source, error);
    if (status == KT_OK)
        status = kt_checkpoint_weight(checkpoint, name, &weight, &bias, error);
    if (status != KT_OK)
        return status;
    struct kt_expert expert = kt_linear_expert(&weight, bias);
    storing.expert = &expert;
    return choose(&storing, error);
}

enum kt_status kt_linear_store_view(struct kt_linear *linear, const struct kt_view *weight, const float *bias,
                                    const char *name, const struct kt_store_params *params,
                                    struct kt_error *error)
{
    enum kt_status status = kt_store_check("kt_linear_store_view", linear ? linear->layer : NULL,
                                           weight && name ? weight : NULL, params, error);
    if (status != KT_OK)
        return status;
    struct kt_expert expert = kt_linear_expert(weight, bias);
    struct storing storing = {.layer = linear->layer,
                              .params = params,
                              .name = name,
                              .expert = &expert,
                              .model = {.architecture = ""}};
    return choose(&storing, error);
}

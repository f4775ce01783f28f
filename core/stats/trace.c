/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - writes recorded batches as a trace: the tensors of each layer, with all its batches in order. */
#include "core/base/error.h"
#include "core/layer/recorder.h"
#include "core/weights/decode/decode.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { IDS, BATCH_TOKENS, BATCH_NUMBERS, WEIGHTS, HIDDEN, N_KINDS };

/* All batches of one layer. */
struct layer {
    const struct kt_record **record;
    uint64_t n_records, n_tokens;
    uint32_t top_k; /* of the widest batch */
    uint32_t dtype; /* of the hidden states in the file */
};

struct tracing {
    struct layer *layer;
    uint64_t n_layers;
    struct kt_tensor_info *info; /* [n_layers][N_KINDS], without gaps where one has no hidden states */
    uint64_t n_tensors;
    char (*name)[64];
    struct kt_writer *writer;
};

/* By layer; the sort is stable and keeps the order of batches. */
static int compare_records(const void *a, const void *b)
{
    const struct kt_record *x = *(const struct kt_record *const *)a, *y = *(const struct kt_record *const *)b;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    return 0;
}

/* A merge sort, because qsort may exchange equal elements, and copies of a layer may have equal batch
 * numbers. */
static void sort_records(const struct kt_record **records, const struct kt_record **room, uint64_t n)
{
    uint64_t half = n / 2;
    if (n < 2)
        return;
    sort_records(records, room, half);
    sort_records(records + half, room, n - half);
    for (uint64_t i = 0, a = 0, b = half; i < n; i++) {
        bool first = b == n || (a < half && compare_records(&records[a], &records[b]) <= 0);
        room[i] = first ? records[a++] : records[b++];
    }
    memcpy(records, room, n * sizeof *records);
}

/* Gathers the layers of sorted records. */
static void find_layers(struct tracing *tracing, const struct kt_record **records, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const struct kt_record *record = records[i];
        if (i == 0 || record->layer != records[i - 1]->layer)
            tracing->layer[tracing->n_layers++] =
                (struct layer){.record = &records[i], .dtype = record->hidden_dtype};
        struct layer *layer = &tracing->layer[tracing->n_layers - 1];
        layer->n_records++;
        layer->n_tokens += record->n_tokens;
        if (record->top_k > layer->top_k)
            layer->top_k = record->top_k;
        if (record->hidden_dtype != layer->dtype)
            layer->dtype = KT_DTYPE_F32;
    }
}

static void add_tensor(struct tracing *tracing, const struct layer *layer, enum kind kind)
{
    static const char *const names[N_KINDS] = {"topk_ids", "batch_tokens", "batch_numbers", "topk_weights",
                                               "hidden_states"};
    const uint32_t dtypes[N_KINDS] = {KT_DTYPE_I64, KT_DTYPE_I64, KT_DTYPE_I64, KT_DTYPE_F32, layer->dtype};
    bool of_batches = kind == BATCH_TOKENS || kind == BATCH_NUMBERS;
    char *name = tracing->name[tracing->n_tensors];
    if (kind == HIDDEN && layer->dtype == KT_DTYPE_NONE)
        return;
    (void)snprintf(name, sizeof tracing->name[0], "layers.%" PRIu64 ".%s", layer->record[0]->layer,
                   names[kind]);
    tracing->info[tracing->n_tensors++] =
        (struct kt_tensor_info){.name = name,
                                .dtype = dtypes[kind],
                                .n_dims = of_batches ? 1 : 2,
                                .dims = {of_batches ? layer->n_records : layer->n_tokens,
                                         kind == HIDDEN ? layer->record[0]->hidden_size : layer->top_k}};
}

/* A tensor's rows of one batch, filled up to the width of the layer. */
static enum kt_status write_routing(struct tracing *tracing, const struct layer *layer,
                                    const struct kt_recorded *batch, bool ids, struct kt_error *error)
{
    uint64_t size = ids ? sizeof(int64_t) : sizeof(float), row = batch->top_k * size;
    const char *data = ids ? (const char *)batch->expert_ids : (const char *)batch->router_weights;
    char nothing[64 * sizeof(int64_t)];
    memset(nothing, ids ? 0xff : 0, sizeof nothing); /* -1, and 0.0 */
    if (batch->top_k == layer->top_k)
        return kt_writer_add(tracing->writer, data, batch->n_tokens * row, error);
    enum kt_status status = KT_OK;
    for (uint64_t t = 0; t < batch->n_tokens && status == KT_OK; t++) {
        status = kt_writer_add(tracing->writer, data + t * row, row, error);
        for (uint32_t left = layer->top_k - batch->top_k; left && status == KT_OK;) {
            uint32_t n = left < 64 ? left : 64;
            status = kt_writer_add(tracing->writer, nothing, n * size, error);
            left -= n;
        }
    }
    return status;
}

static enum kt_status write_hidden(struct tracing *tracing, const struct layer *layer,
                                   const struct kt_recorded *batch, struct kt_error *error)
{
    uint64_t n = batch->n_tokens * batch->hidden_size;
    const uint16_t *halves = batch->hidden_states;
    float wide[512];
    if (batch->hidden_dtype == layer->dtype)
        return kt_writer_add(tracing->writer, batch->hidden_states,
                             n * (layer->dtype == KT_DTYPE_F32 ? sizeof(float) : sizeof *halves), error);
    enum kt_status status = KT_OK;
    for (uint64_t i = 0; i < n && status == KT_OK; i += 512) {
        uint64_t part = n - i < 512 ? n - i : 512;
        for (uint64_t j = 0; j < part; j++)
            wide[j] = batch->hidden_dtype == KT_DTYPE_BF16 ? kt_bf16_float(halves[i + j])
                                                           : kt_f16_float(halves[i + j]);
        status = kt_writer_add(tracing->writer, wide, part * sizeof *wide, error);
    }
    return status;
}

static enum kt_status write_tensor(struct tracing *tracing, const struct layer *layer, enum kind kind,
                                   struct kt_error *error)
{
    enum kt_status status = KT_OK;
    for (uint64_t i = 0; i < layer->n_records && status == KT_OK; i++) {
        struct kt_recorded batch;
        kt_record_view(layer->record[i], &batch);
        int64_t number = (int64_t)(kind == BATCH_TOKENS ? batch.n_tokens : batch.batch);
        if (kind == IDS || kind == WEIGHTS)
            status = write_routing(tracing, layer, &batch, kind == IDS, error);
        else if (kind != HIDDEN)
            status = kt_writer_add(tracing->writer, &number, sizeof number, error);
        else if (layer->dtype != KT_DTYPE_NONE)
            status = write_hidden(tracing, layer, &batch, error);
    }
    return status;
}

static enum kt_status write_file(struct tracing *tracing, const char *path, uint64_t n_dropped,
                                 struct kt_error *error)
{
    char dropped[24];
    const char *const metadata[] = {"format", "kt-trace", "version", "1", "dropped_batches", dropped};
    struct kt_writer_params params = KT_WRITER_PARAMS_INIT;
    (void)snprintf(dropped, sizeof dropped, "%" PRIu64, n_dropped);
    /* Tensors of 8-byte numbers come first, so that all are aligned. */
    for (int kind = 0; kind < N_KINDS; kind++)
        for (uint64_t l = 0; l < tracing->n_layers; l++)
            add_tensor(tracing, &tracing->layer[l], (enum kind)kind);
    params.tensors = tracing->info;
    params.n_tensors = tracing->n_tensors;
    params.metadata = metadata;
    params.n_metadata = 3;
    enum kt_status status = kt_writer_create(path, &params, &tracing->writer, error);
    for (int kind = 0; kind < N_KINDS && status == KT_OK; kind++)
        for (uint64_t l = 0; l < tracing->n_layers && status == KT_OK; l++)
            status = write_tensor(tracing, &tracing->layer[l], (enum kind)kind, error);
    if (status == KT_OK)
        return kt_writer_finish(tracing->writer, error);
    kt_writer_cancel(tracing->writer);
    return status;
}

static enum kt_status write_trace(const char *path, const struct kt_record **records, uint64_t n,
                                  uint64_t n_dropped, struct kt_error *error)
{
    const struct kt_record **room = calloc(n, sizeof *room);
    struct tracing tracing = {.layer = calloc(n, sizeof *tracing.layer)};
    enum kt_status status = KT_OK;
    if (room && tracing.layer) {
        sort_records(records, room, n);
        find_layers(&tracing, records, n);
        tracing.info = calloc(tracing.n_layers * N_KINDS, sizeof *tracing.info);
        tracing.name = calloc(tracing.n_layers * N_KINDS, sizeof *tracing.name);
    }
    if (!tracing.info || !tracing.name)
        status = kt_fail(error, KT_E_NOMEM, "no memory to write %" PRIu64 " batches", n);
    else
        status = write_file(&tracing, path, n_dropped, error);
    free(tracing.name);
    free(tracing.info);
    free(tracing.layer);
    free(room);
    return status;
}

enum kt_status kt_recorder_save(struct kt_recorder *recorder, const char *path, struct kt_error *error)
{
    struct kt_held_records held;
    if (!recorder)
        return kt_fail(error, KT_E_INVALID, "kt_recorder_save: recorder must not be NULL");
    enum kt_status status = kt_recorder_hold(recorder, &held, error);
    if (status != KT_OK)
        return status;
    status =
        held.n ? write_trace(path, held.record, held.n, held.n_dropped, error)
               : kt_fail(error, KT_E_STATE, "nothing was recorded; kt_layer_record and a forward come first");
    kt_recorder_release(recorder, &held, status == KT_OK);
    return status;
}

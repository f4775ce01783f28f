/* SPDX-License-Identifier: Apache-2.0 */
/* recorder.c - a ring of fixed size: a forward that finds no room drops its batch and never waits. */
#include "core/layer/recorder.h"

#include "core/base/error.h"
#include "core/base/lock.h"
#include "core/base/size.h"
#include "core/context/context.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_SIZE = 4096 };
#define MOST_SIZE (UINT64_C(1) << 46)

/* A layer of the model; several copies of it may record here. */
struct source {
    uint64_t layer, hidden_size;
    uint64_t n_batches; /* including those that were dropped */
};

struct kt_recorder {
    struct kt_context *context;
    atomic_uint references;
    bool hidden_states;
    char *ring;
    uint64_t size;
    /* Bytes that were ever put in and taken out, with what was skipped at the end of the ring. Forwards write
     * `in`; `out` belongs to the holder of `lock`. */
    atomic_uint_fast64_t in, out;
    atomic_uint_fast64_t n_batches, n_tokens, n_dropped_batches, n_dropped_tokens;
    struct kt_lock lock;   /* held while the ring is emptied */
    struct source *source; /* guarded by the pool's lock, as n_sources is */
    uint32_t n_sources;
};

enum kt_status kt_recorder_create(struct kt_context *context, const struct kt_recorder_params *params,
                                  struct kt_recorder **out, struct kt_error *error)
{
    if (!context || !params || !out || params->struct_size < sizeof *params)
        return kt_fail(error, KT_E_INVALID,
                       "kt_recorder_create: context, params and recorder must not be NULL; start params with "
                       "KT_RECORDER_PARAMS_INIT");
    if (params->size < LEAST_SIZE || params->size > MOST_SIZE)
        return kt_fail(error, KT_E_INVALID,
                       "kt_recorder_create: a buffer of %llu bytes; %d to 2^46 are possible",
                       (unsigned long long)params->size, LEAST_SIZE);
    struct kt_recorder *recorder = calloc(1, sizeof *recorder);
    if (!recorder)
        return kt_fail(error, KT_E_NOMEM, "no memory for a recorder");
    recorder->size = kt_align64(params->size);
    recorder->ring = aligned_alloc(64, recorder->size);
    if (!recorder->ring) {
        free(recorder);
        return kt_fail(error, KT_E_NOMEM, "no memory for a recorder of %llu bytes",
                       (unsigned long long)params->size);
    }
    memset(recorder->ring, 0, recorder->size); /* so that forwards meet no page faults */
    recorder->hidden_states = params->hidden_states != 0;
    atomic_init(&recorder->references, 1);
    kt_lock_init(&recorder->lock);
    recorder->context = kt_context_retain(context);
    *out = recorder;
    return KT_OK;
}

void kt_recorder_destroy(struct kt_recorder *recorder)
{
    if (!recorder || atomic_fetch_sub(&recorder->references, 1) != 1)
        return;
    kt_context_destroy(recorder->context);
    kt_lock_destroy(&recorder->lock);
    free(recorder->source);
    free(recorder->ring);
    free(recorder);
}

static struct kt_recorder *retain(struct kt_recorder *recorder)
{
    atomic_fetch_add(&recorder->references, 1);
    return recorder;
}

bool kt_recorder_is_of(const struct kt_recorder *recorder, const struct kt_context *context)
{
    return recorder->context == context;
}

enum kt_status kt_recorder_join(struct kt_recorder *recorder, const char *name, uint64_t number,
                                uint64_t hidden_size, struct kt_recording *recording, struct kt_error *error)
{
    for (uint32_t i = 0; i < recorder->n_sources; i++) {
        const struct source *source = &recorder->source[i];
        if (source->layer != number)
            continue;
        if (source->hidden_size != hidden_size)
            return kt_fail(error, KT_E_INVALID,
                           "%s: layer %llu is recorded with hidden size %llu already, this one has %llu",
                           name, (unsigned long long)number, (unsigned long long)source->hidden_size,
                           (unsigned long long)hidden_size);
        *recording = (struct kt_recording){.recorder = retain(recorder), .source = i};
        return KT_OK;
    }
    struct source *grown = realloc(recorder->source, (recorder->n_sources + (size_t)1) * sizeof *grown);
    if (!grown)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory to record it", name);
    recorder->source = grown;
    grown[recorder->n_sources] = (struct source){.layer = number, .hidden_size = hidden_size};
    *recording = (struct kt_recording){.recorder = retain(recorder), .source = recorder->n_sources++};
    return KT_OK;
}

void kt_recorder_info(const struct kt_recorder *recorder, struct kt_recorder_info *info)
{
    uint64_t out = atomic_load(&recorder->out), in = atomic_load(&recorder->in);
    *info = (struct kt_recorder_info){.n_batches = atomic_load(&recorder->n_batches),
                                      .n_tokens = atomic_load(&recorder->n_tokens),
                                      .n_dropped_batches = atomic_load(&recorder->n_dropped_batches),
                                      .n_dropped_tokens = atomic_load(&recorder->n_dropped_tokens),
                                      .used = in - out < recorder->size ? in - out : recorder->size,
                                      .size = recorder->size};
}

/* ---- in ---- */

static uint64_t dtype_size(uint32_t dtype)
{
    return dtype == KT_DTYPE_NONE ? 0 : dtype == KT_DTYPE_F32 ? 4 : 2;
}

/* The place of the next entry, of `size` bytes; NULL: the ring is full. */
static struct kt_record *find_room(struct kt_recorder *recorder, uint64_t size, uint64_t *in)
{
    uint64_t out = atomic_load_explicit(&recorder->out, memory_order_acquire);
    *in = atomic_load_explicit(&recorder->in, memory_order_relaxed);
    uint64_t rest = recorder->size - *in % recorder->size;
    uint64_t skipped = size > rest ? rest : 0;
    if (size > recorder->size || size + skipped > recorder->size - (*in - out))
        return NULL;
    if (skipped) {
        struct kt_record *unused = (struct kt_record *)(void *)(recorder->ring + *in % recorder->size);
        *unused = (struct kt_record){.size = rest};
        *in += rest;
    }
    return (struct kt_record *)(void *)(recorder->ring + *in % recorder->size);
}

void kt_recorder_put(const struct kt_recording *recording, const struct kt_forward *forward)
{
    struct kt_recorder *recorder = recording->recorder;
    struct source *source = &recorder->source[recording->source];
    uint64_t hidden_size = source->hidden_size, in, n = (uint64_t)forward->n_tokens * forward->top_k;
    uint32_t dtype = recorder->hidden_states ? forward->input_dtype : (uint32_t)KT_DTYPE_NONE;
    uint64_t row = hidden_size * dtype_size(dtype);
    uint64_t size = kt_align64(sizeof(struct kt_record) + n * (sizeof(int64_t) + sizeof(float)) +
                               forward->n_tokens * row);
    if (forward->n_tokens == 0)
        return;
    uint64_t batch = source->n_batches++;
    struct kt_record *record = find_room(recorder, size, &in);
    if (!record) {
        atomic_fetch_add_explicit(&recorder->n_dropped_batches, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&recorder->n_dropped_tokens, forward->n_tokens, memory_order_relaxed);
        return;
    }
    *record = (struct kt_record){.size = size,
                                 .layer = source->layer,
                                 .batch = batch,
                                 .n_tokens = forward->n_tokens,
                                 .top_k = forward->top_k,
                                 .hidden_size = hidden_size,
                                 .hidden_dtype = dtype};
    char *at = (char *)(record + 1);
    memcpy(at, forward->expert_ids, n * sizeof(int64_t));
    at += n * sizeof(int64_t);
    memcpy(at, forward->router_weights, n * sizeof(float));
    at += n * sizeof(float);
    for (uint64_t t = 0; row && t < forward->n_tokens; t++, at += row)
        memcpy(at, (const char *)forward->input + (int64_t)t * forward->input_stride, row);
    atomic_fetch_add_explicit(&recorder->n_batches, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&recorder->n_tokens, forward->n_tokens, memory_order_relaxed);
    atomic_store_explicit(&recorder->in, in + size, memory_order_release);
}

/* ---- out ---- */

void kt_record_view(const struct kt_record *record, struct kt_recorded *batch)
{
    uint64_t n = (uint64_t)record->n_tokens * record->top_k;
    const char *ids = (const char *)(record + 1), *weights = ids + n * sizeof(int64_t);
    *batch =
        (struct kt_recorded){.layer = record->layer,
                             .batch = record->batch,
                             .n_tokens = record->n_tokens,
                             .top_k = record->top_k,
                             .expert_ids = (const int64_t *)(const void *)ids,
                             .router_weights = (const float *)(const void *)weights,
                             .hidden_size = record->hidden_size,
                             .hidden_dtype = record->hidden_dtype,
                             .hidden_states =
                                 record->hidden_dtype == KT_DTYPE_NONE ? NULL : weights + n * sizeof(float)};
}

static const struct kt_record *record_at(const struct kt_recorder *recorder, uint64_t position)
{
    return (const struct kt_record *)(const void *)(recorder->ring + position % recorder->size);
}

enum kt_status kt_recorder_drain(struct kt_recorder *recorder, kt_recorded_fn sink, void *data,
                                 struct kt_error *error)
{
    if (!recorder || !sink)
        return kt_fail(error, KT_E_INVALID, "kt_recorder_drain: recorder and sink must not be NULL");
    enum kt_status status = KT_OK;
    if (!kt_lock_take(&recorder->lock))
        return kt_lock_fail("the recorder", error);
    uint64_t end = atomic_load_explicit(&recorder->in, memory_order_acquire);
    uint64_t at = atomic_load_explicit(&recorder->out, memory_order_relaxed);
    while (at != end && status == KT_OK) {
        const struct kt_record *record = record_at(recorder, at);
        struct kt_recorded batch;
        kt_record_view(record, &batch);
        if (record->n_tokens && sink(data, &batch) != 0) {
            status = kt_fail(error, KT_E_IO, "batch %llu of layer %llu was not taken",
                             (unsigned long long)record->batch, (unsigned long long)record->layer);
        } else {
            at += record->size;
            atomic_store_explicit(&recorder->out, at, memory_order_release);
        }
    }
    kt_lock_give(&recorder->lock);
    return status;
}

/* Lists the entries from `at` to `end`, unless `records` is NULL; returns their number. */
static uint64_t list_records(const struct kt_recorder *recorder, uint64_t at, uint64_t end,
                             const struct kt_record **records)
{
    uint64_t n = 0;
    while (at != end) {
        const struct kt_record *record = record_at(recorder, at);
        if (record->n_tokens && records)
            records[n] = record;
        n += record->n_tokens != 0;
        at += record->size;
    }
    return n;
}

enum kt_status kt_recorder_hold(struct kt_recorder *recorder, struct kt_held_records *held,
                                struct kt_error *error)
{
    if (!kt_lock_take(&recorder->lock))
        return kt_lock_fail("the recorder", error);
    uint64_t begin = atomic_load_explicit(&recorder->out, memory_order_relaxed);
    held->end = atomic_load_explicit(&recorder->in, memory_order_acquire);
    held->n = list_records(recorder, begin, held->end, NULL);
    held->n_dropped = atomic_load(&recorder->n_dropped_batches);
    held->record = calloc(held->n ? held->n : 1, sizeof *held->record);
    if (held->record) {
        (void)list_records(recorder, begin, held->end, held->record);
        return KT_OK;
    }
    kt_lock_give(&recorder->lock);
    return kt_fail(error, KT_E_NOMEM, "no memory to write %llu batches", (unsigned long long)held->n);
}

void kt_recorder_release(struct kt_recorder *recorder, struct kt_held_records *held, bool written)
{
    if (written)
        atomic_store_explicit(&recorder->out, held->end, memory_order_release);
    kt_lock_give(&recorder->lock);
    free(held->record);
}

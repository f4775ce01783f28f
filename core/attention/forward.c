/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward.c - one forward of attention over a batch of sequences.
 *
 *   all threads     parts of tiles | if tiles have several parts: barrier of all nodes, sums of their results
 *
 * Threads take the tasks of their own node's heads first, then those of others. Tiles are cut into parts if
 * there are too few for all threads, and never so that results depend on it (cut.h).
 */
#include "core/attention/attention.h"
#include "core/attention/gather.h"
#include "core/backend/backend.h"
#include "core/base/error.h"
#include "core/base/overlap.h"
#include "core/base/size.h"
#include "core/context/context.h"
#include "core/kv/cache.h"
#include "core/machine/outcome.h"
#include "core/machine/pool.h"

#include <stddef.h>

#define COUNTER_PARTS 0
#define COUNTER_SUMS 1

/* Tasks for each thread: so many that a slower one does not make the others wait. */
#define TASKS_PER_THREAD 4

struct run {
    const struct kt_attention *attention;
    const struct kt_attention_batch *batch;
    struct kt_outcome outcome;
    const struct kt_selected_rows *selections; /* of the items, or NULL */
    int64_t query_stride, output_stride;
    uint32_t element; /* of outputs */
    enum kt_attention_part part;
    uint64_t tiles, tasks; /* of one head of keys */
};

struct work {
    struct run *run;
    struct kt_worker *worker;
    char *scratch;
    char *result[3];
    struct kt_kv_place gathered; /* keys of a chunk, where rows are gathered */
    struct kt_error error;
};

/* A tile of an item and the head of keys that it uses. */
struct place {
    uint32_t item, tile, kv_head;
    struct kt_attention_tile at;
};

static bool failed(struct work *work, const char *what)
{
    const struct kt_attention *attention = work->run->attention;
    if (work->error.status != KT_OK) {
        (void)kt_fail_plugin(&work->error, KT_E_BACKEND, "no reason given");
        (void)kt_fail_prefix(&work->error, KT_E_BACKEND, "%s: plugin %s (level %s) failed in %s",
                             attention->name, attention->backend->name, attention->backend->level->name,
                             what);
        kt_outcome_fail(&work->run->outcome, KT_E_BACKEND, &work->error);
        work->error.status = KT_OK;
        work->error.message[0] = '\0';
    }
    return kt_outcome_failed(&work->run->outcome);
}

/* ---- pieces ---- */

/* Of one chunk after the other, whose rows are gathered; `add` as in attend. */
static void attend_gathered(struct work *work, struct kt_attend *job, const struct place *place)
{
    static const uint32_t pages[KT_ATTENTION_CHUNK / KT_KV_PAGE] = {0, 1, 2, 3};
    const struct kt_attention *attention = work->run->attention;
    const struct kt_attention_cut *cut = &attention->cut[place->item];
    const struct kt_kv_place *from = job->keys;
    const uint32_t *rows = NULL, *own = job->pages;
    uint64_t begin = job->begin, end = job->end;
    if (cut->n_rows && cut->n_rows[place->at.token] != KT_SELECTION_ALL) {
        const struct kt_selected_rows *selection = &work->run->selections[place->item];
        rows = selection->rows + (uint64_t)place->at.token * selection->stride;
    }
    job->keys = job->values = &work->gathered;
    job->pages = pages;
    job->begin = 0;
    for (; begin < end; begin += KT_ATTENTION_CHUNK) {
        uint64_t n = end - begin < KT_ATTENTION_CHUNK ? end - begin : KT_ATTENTION_CHUNK;
        kt_attention_gather(from, own, rows ? rows + begin : NULL, begin, (uint32_t)n, &work->gathered);
        job->end = job->next = n;
        job->position = n - 1; /* one token, which sees all of them */
        attention->ops->attend(attention->instance, job);
        job->add = 1;
    }
}

/* Of chunks [chunk, behind), which are several only where the level adds them up; the thread continues with
 * those up to end_chunk. */
static void attend(struct work *work, const struct place *place, uint64_t chunk, uint64_t behind,
                   uint64_t end_chunk, void *result)
{
    const struct run *run = work->run;
    const struct kt_attention *attention = run->attention;
    const struct kt_attention_item *item = &run->batch->items[place->item];
    const struct kt_attention_shape *shape = &attention->layout.shape;
    uint64_t begin = chunk * KT_ATTENTION_CHUNK, end = behind * KT_ATTENTION_CHUNK;
    uint64_t next = end_chunk * KT_ATTENTION_CHUNK, last = place->at.end_key;
    uint64_t head = (uint64_t)place->kv_head * shape->n_heads + place->at.head;
    struct kt_attend job = {
        .layout = &attention->layout,
        .queries = (const char *)item->queries + place->at.token * run->query_stride +
                   head * shape->key_size * kt_element_size(run->batch->query_dtype),
        .query_stride = run->query_stride,
        .query_dtype = run->batch->query_dtype,
        .n_tokens = place->at.n_tokens,
        .n_heads = place->at.n_heads,
        .position = item->position + place->at.token,
        .keys = &attention->keys[place->kv_head],
        .values = &attention->values[place->kv_head],
        .pages = item->sequence->pages,
        .begin = begin > place->at.first_key ? begin : place->at.first_key,
        .end = end < last ? end : last,
        .next = next < last ? next : last,
        .partial = result,
        .scratch = work->scratch,
        .error = &work->error,
    };
    if (attention->gathers)
        attend_gathered(work, &job, place);
    else
        attention->ops->attend(attention->instance, &job);
}

static void merge(struct work *work, const struct place *place, void *first, const void *second)
{
    const struct kt_attention *attention = work->run->attention;
    struct kt_attention_merge job = {
        .layout = &attention->layout,
        .n_queries = place->at.n_tokens * place->at.n_heads,
        .first = first,
        .second = second,
    };
    attention->ops->merge(attention->instance, &job);
}

static void finish(struct work *work, const struct place *place, const void *result)
{
    const struct run *run = work->run;
    const struct kt_attention *attention = run->attention;
    const struct kt_attention_item *item = &run->batch->items[place->item];
    const struct kt_attention_shape *shape = &attention->layout.shape;
    uint64_t head = (uint64_t)place->kv_head * shape->n_heads + place->at.head;
    struct kt_attention_finish job = {
        .layout = &attention->layout,
        .n_tokens = place->at.n_tokens,
        .n_heads = place->at.n_heads,
        .partial = result,
        .sinks = attention->sinks ? attention->sinks + head : NULL,
        .output = (char *)item->output + place->at.token * run->output_stride +
                  head * shape->value_size * run->element,
        .output_stride = run->output_stride,
        .output_dtype = run->batch->output_dtype,
    };
    attention->ops->finish(attention->instance, &job);
}

/* The sum over chunks [begin, end) of one span. */
static void sum_span(struct work *work, const struct place *place, uint64_t begin, uint64_t end,
                     uint64_t end_chunk, void *result)
{
    const uint64_t first = work->run->attention->layout.adds ? end : begin + 1;
    attend(work, place, begin, first, end_chunk, result);
    for (uint64_t chunk = first; chunk < end && !failed(work, "attend"); chunk++) {
        attend(work, place, chunk, chunk + 1, end_chunk, work->result[2]);
        merge(work, place, result, work->result[2]);
    }
}

/* The sum over chunks [begin, end). */
static void sum_chunks(struct work *work, const struct place *place, uint64_t begin, uint64_t end,
                       void *result)
{
    for (uint64_t chunk = begin, next; chunk < end; chunk = next) {
        next = (chunk / KT_ATTENTION_SPAN + 1) * KT_ATTENTION_SPAN;
        next = next < end ? next : end;
        sum_span(work, place, chunk, next, end, chunk == begin ? result : work->result[1]);
        if (failed(work, "attend"))
            return;
        if (chunk != begin)
            merge(work, place, result, work->result[1]);
    }
}

/* ---- tasks ---- */

/* Finds task `task` of a node, among `per_head` of each head of keys; `parts` counts those of a tile. */
static bool find(const struct run *run, uint32_t node, uint64_t task, bool parts, struct place *place,
                 uint32_t *part)
{
    const struct kt_attention *attention = run->attention;
    uint32_t first = attention->first_head[node], n = attention->first_head[node + 1] - first;
    uint64_t per_head = parts ? run->tasks : run->tiles;
    if (task >= per_head * n)
        return false;
    place->kv_head = attention->node_head[first + task / per_head];
    task %= per_head;
    for (place->item = 0;; place->item++) {
        const struct kt_attention_cut *cut = &attention->cut[place->item];
        uint64_t tasks = (uint64_t)cut->n_tiles * (parts ? cut->n_parts : 1);
        if (task < tasks) {
            /* The last tiles have most keys: they come first. */
            place->tile = cut->n_tiles - 1 - (uint32_t)(task / (parts ? cut->n_parts : 1));
            *part = parts ? (uint32_t)(task % cut->n_parts) : 0;
            kt_attention_cut_tile(cut, place->tile, &place->at);
            return true;
        }
        task -= tasks;
    }
}

/* Where the result of a part is, which is its task. */
static char *part_result(const struct run *run, uint32_t node, uint64_t task)
{
    const struct kt_attention_buffers *buffers = &run->attention->buffers[node];
    return (char *)run->attention->context->arena.node[node].data + buffers->parts + task * buffers->result;
}

static void compute_part(struct work *work, uint32_t node, uint64_t task, const struct place *place,
                         uint32_t part)
{
    const struct run *run = work->run;
    uint64_t begin = place->at.chunk, end = place->at.end_chunk;
    if (run->part == KT_PART_ALL) {
        sum_chunks(work, place, begin, end, work->result[0]);
        if (!failed(work, "attend"))
            finish(work, place, work->result[0]);
        return;
    }
    if (part >= kt_attention_tile_parts(&place->at, run->part))
        return;
    uint64_t first = begin / run->part + part;
    begin = part > 0 ? first * run->part : begin;
    end = (first + 1) * run->part < end ? (first + 1) * run->part : end;
    sum_chunks(work, place, begin, end, part_result(run, node, task));
    (void)failed(work, "attend");
}

/* Adds up the parts of a tile, whose results begin at that of task `task`. */
static void sum_parts(struct work *work, uint32_t node, uint64_t task, const struct place *place)
{
    const struct run *run = work->run;
    uint32_t n = kt_attention_tile_parts(&place->at, run->part);
    uint32_t in_span = KT_ATTENTION_SPAN / (uint32_t)run->part;
    uint64_t first = place->at.chunk / run->part;
    char *total = part_result(run, node, task), *span = total;
    for (uint32_t p = 1; p < n; p++) {
        char *part = part_result(run, node, task + p);
        if ((first + p) % in_span != 0) {
            merge(work, place, span, part);
            continue;
        }
        if (span != total)
            merge(work, place, total, span);
        span = part;
    }
    if (span != total)
        merge(work, place, total, span);
    finish(work, place, total);
}

/* The first part of a tile, as a task. */
static uint64_t first_part(const struct run *run, uint32_t node, const struct place *place)
{
    const struct kt_attention *attention = run->attention;
    uint64_t task = 0;
    uint32_t h = attention->first_head[node];
    for (; attention->node_head[h] != place->kv_head; h++)
        task += run->tasks;
    for (uint32_t i = 0; i < place->item; i++)
        task += (uint64_t)attention->cut[i].n_tiles * attention->cut[i].n_parts;
    const struct kt_attention_cut *cut = &attention->cut[place->item];
    return task + (uint64_t)(cut->n_tiles - 1 - place->tile) * cut->n_parts;
}

static void run_tasks(struct work *work, int counter)
{
    struct run *run = work->run;
    uint32_t n_nodes = run->attention->n_nodes, part;
    struct place place;
    for (uint32_t i = 0; i < n_nodes; i++) {
        uint32_t node = (work->worker->node + i) % n_nodes, task;
        while (!kt_outcome_failed(&run->outcome) &&
               find(run, node, task = kt_worker_claim_of(work->worker, node, counter),
                    counter == COUNTER_PARTS, &place, &part)) {
            if (counter == COUNTER_PARTS)
                compute_part(work, node, task, &place, part);
            else
                sum_parts(work, node, first_part(run, node, &place), &place);
        }
    }
}

static void run_all(struct kt_worker *worker, void *argument)
{
    struct run *run = argument;
    const struct kt_attention *attention = run->attention;
    const struct kt_attention_buffers *buffers = &attention->buffers[worker->node];
    struct work work = {
        .run = run,
        .worker = worker,
        .scratch = (char *)attention->context->arena.node[worker->node].data +
                   worker->index_in_node * buffers->thread_stride,
    };
    work.error.status = KT_OK;
    work.error.message[0] = '\0';
    for (int i = 0; i < 3; i++)
        work.result[i] =
            work.scratch + kt_align64(attention->layout.scratch_size) + (uint64_t)i * buffers->result;
    kt_attention_gather_place(&attention->keys[0], &work.gathered);
    work.gathered.base = work.result[2] + buffers->result;
    if (attention->ops->thread_enter)
        attention->ops->thread_enter(attention->instance);
    run_tasks(&work, COUNTER_PARTS);
    if (run->part != KT_PART_ALL) {
        kt_worker_barrier(worker);
        run_tasks(&work, COUNTER_SUMS);
    }
    if (attention->ops->thread_leave)
        attention->ops->thread_leave(attention->instance);
}

/* ---- what the caller's thread prepares ---- */

static enum kt_status check_stride(const struct kt_attention *attention, const char *what, uint64_t size,
                                   uint32_t dtype, int64_t *stride, struct kt_error *error)
{
    uint32_t element = kt_element_size(dtype);
    if (!element)
        return kt_fail(error, KT_E_INVALID, "%s: %s_dtype is %s (%u); f32, bf16 and f16 are allowed",
                       attention->name, what, kt_dtype_name(dtype), dtype);
    int64_t row = (int64_t)(size * attention->n_heads * element);
    if (*stride == 0)
        *stride = row;
    if (*stride < row || *stride % element || *stride > INT64_MAX / UINT32_MAX)
        return kt_fail(error, KT_E_INVALID,
                       "%s: %s_stride %lld does not fit rows of %lld bytes of %u-byte numbers",
                       attention->name, what, (long long)*stride, (long long)row, element);
    return KT_OK;
}

static enum kt_status check_item(const struct kt_attention *attention, const struct kt_attention_batch *batch,
                                 uint32_t i, struct kt_error *error)
{
    const struct kt_attention_item *item = &batch->items[i];
    const struct kt_kv_sequence *sequence = item->sequence;
    if (item->n_tokens == 0)
        return KT_OK;
    if (!sequence || !item->queries || !item->output)
        return kt_fail(error, KT_E_INVALID, "%s: item %u: sequence, queries and output must not be NULL",
                       attention->name, i);
    if (sequence->kv != attention->kv)
        return kt_fail(error, KT_E_INVALID, "%s: item %u: the sequence is of another cache", attention->name,
                       i);
    uint64_t written = sequence->tokens + sequence->reserved;
    if (item->position > written || item->n_tokens > written - item->position)
        return kt_fail(error, KT_E_STATE,
                       "%s: item %u: %u tokens from position %llu on; the sequence has %llu tokens, and %llu "
                       "more are reserved",
                       attention->name, i, item->n_tokens, (unsigned long long)item->position,
                       (unsigned long long)sequence->tokens, (unsigned long long)sequence->reserved);
    if (item->first_key % KT_KV_PAGE != 0 || item->first_key > item->position)
        return kt_fail(error, KT_E_INVALID,
                       "%s: item %u: first_key is %u; multiples of %d up to the position %llu are possible",
                       attention->name, i, item->first_key, KT_KV_PAGE, (unsigned long long)item->position);
    if (!kt_is_aligned(item->queries, kt_element_size(batch->query_dtype)) ||
        !kt_is_aligned(item->output, kt_element_size(batch->output_dtype)))
        return kt_fail(
            error, KT_E_INVALID,
            "%s: item %u: queries or output are at an address that is not a multiple of their numbers' "
            "size; copy them to one",
            attention->name, i);
    return KT_OK;
}

/* A tile's outputs are written while others' queries are still to be read. */
static enum kt_status check_overlap(const struct run *run, uint32_t i, struct kt_error *error)
{
    const struct kt_attention *attention = run->attention;
    const struct kt_attention_batch *batch = run->batch;
    const struct kt_attention_item *item = &batch->items[i];
    const struct kt_attention_shape *shape = &attention->layout.shape;
    uint64_t heads = attention->n_heads;
    const struct kt_memory_rows queries = {item->queries,
                                           heads * shape->key_size * kt_element_size(batch->query_dtype),
                                           (uint64_t)run->query_stride, item->n_tokens};
    const struct kt_memory_rows output = {item->output,
                                          heads * shape->value_size * kt_element_size(batch->output_dtype),
                                          (uint64_t)run->output_stride, item->n_tokens};
    if (kt_rows_overlap(&queries, &output))
        return kt_fail(error, KT_E_INVALID, "%s: item %u: output overlaps queries; give it memory of its own",
                       attention->name, i);
    return KT_OK;
}

/* Rows that a token does not see may not have been written. */
static enum kt_status check_selection(const struct run *run, uint32_t i, struct kt_error *error)
{
    const struct kt_attention_item *item = &run->batch->items[i];
    const struct kt_selected_rows *selection = &run->selections[i];
    const char *name = run->attention->name;
    if (item->n_tokens > 0 && (!selection->rows || !selection->n_rows))
        return kt_fail(error, KT_E_INVALID, "%s: item %u: the selection's rows and n_rows must not be NULL",
                       name, i);
    for (uint32_t t = 0; t < item->n_tokens; t++) {
        const uint32_t n = selection->n_rows[t], *rows = selection->rows + (uint64_t)t * selection->stride;
        if (n == KT_SELECTION_ALL)
            continue;
        if (n == 0 || n > selection->stride)
            return kt_fail(error, KT_E_INVALID,
                           "%s: item %u, token %u: %u rows are selected; 1 to %u (stride) are possible", name,
                           i, t, n, selection->stride);
        for (uint32_t r = 0; r < n; r++)
            if (rows[r] > item->position + t)
                return kt_fail(error, KT_E_INVALID,
                               "%s: item %u, token %u: row %u is selected, which is behind the token, %llu",
                               name, i, t, rows[r], (unsigned long long)(item->position + t));
    }
    return KT_OK;
}

static enum kt_status check(struct run *run, struct kt_error *error)
{
    const struct kt_attention *attention = run->attention;
    const struct kt_attention_batch *batch = run->batch;
    const struct kt_attention_shape *shape = &attention->layout.shape;
    if (batch->n_items > attention->max_sequences || (batch->n_items && !batch->items))
        return kt_fail(error, KT_E_INVALID, "%s: %u items%s; at most %u (max_sequences)", attention->name,
                       batch->n_items, batch->items ? "" : ", and items is NULL", attention->max_sequences);
    if (run->selections && !attention->gathers)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: rows are selected, but the cache keeps them in blocks of keys; declare the field "
                       "in KT_KV_PLAIN",
                       attention->name);
    run->query_stride = batch->query_stride;
    run->output_stride = batch->output_stride;
    enum kt_status status =
        check_stride(attention, "query", shape->key_size, batch->query_dtype, &run->query_stride, error);
    if (status == KT_OK)
        status = check_stride(attention, "output", shape->value_size, batch->output_dtype,
                              &run->output_stride, error);
    for (uint32_t i = 0; i < batch->n_items && status == KT_OK; i++) {
        status = check_item(attention, batch, i, error);
        if (status == KT_OK)
            status = check_overlap(run, i, error);
        if (status == KT_OK && run->selections)
            status = check_selection(run, i, error);
    }
    run->element = kt_element_size(batch->output_dtype);
    return status;
}

static void count_tasks(struct run *run, enum kt_attention_part part)
{
    run->part = part;
    run->tasks = 0;
    for (uint32_t i = 0; i < run->batch->n_items; i++) {
        struct kt_attention_cut *cut = &run->attention->cut[i];
        kt_attention_cut_parts(cut, part);
        run->tasks += (uint64_t)cut->n_tiles * cut->n_parts;
    }
}

static bool has_room(const struct run *run)
{
    const struct kt_attention *attention = run->attention;
    for (uint32_t n = 0; n < attention->n_nodes; n++) {
        uint64_t heads = attention->first_head[n + 1] - attention->first_head[n];
        if (run->tasks * heads > attention->buffers[n].n_parts)
            return false;
    }
    return true;
}

/* Cuts the items; tiles into parts, the larger ones if these are enough, where there are few tiles. */
static void prepare(struct run *run)
{
    const struct kt_attention *attention = run->attention;
    uint64_t wanted = (uint64_t)TASKS_PER_THREAD * attention->context->pool->n_threads;
    run->tiles = 0;
    for (uint32_t i = 0; i < run->batch->n_items; i++) {
        const struct kt_attention_item *item = &run->batch->items[i];
        kt_attention_cut_make(&attention->layout.shape, attention->layout.max_queries, item,
                              attention->gathers, &attention->cut[i]);
        attention->cut[i].n_rows = run->selections ? run->selections[i].n_rows : NULL;
        run->tiles += attention->cut[i].n_tiles;
    }
    count_tasks(run, KT_PART_ALL);
    if (attention->context->pool->n_threads == 1 || run->tiles * attention->kv_heads >= wanted)
        return;
    count_tasks(run, KT_PART_SPAN);
    bool fits = has_room(run);
    if (fits && run->tasks * attention->kv_heads >= wanted)
        return;
    count_tasks(run, KT_PART_CHUNK);
    if (!has_room(run))
        count_tasks(run, fits ? KT_PART_SPAN : KT_PART_ALL);
}

enum kt_status kt_attention_forward(const struct kt_attention *attention,
                                    const struct kt_attention_batch *batch, struct kt_error *error)
{
    if (!attention || !batch)
        return kt_fail(error, KT_E_INVALID, "kt_attention_forward: attention and batch must not be NULL");
    if (batch->struct_size < offsetof(struct kt_attention_batch, selections))
        return kt_fail(error, KT_E_INVALID,
                       "kt_attention_batch: struct_size %zu is too small; start with KT_ATTENTION_BATCH_INIT",
                       batch->struct_size);
    struct run run = {.attention = attention, .batch = batch};
    if (batch->struct_size >= sizeof *batch)
        run.selections = batch->selections;
    enum kt_status status = check(&run, error);
    if (status == KT_OK)
        status = kt_pool_lock(attention->context->pool, error);
    if (status != KT_OK)
        return status;
    kt_outcome_start(&run.outcome);
    prepare(&run);
    if (run.tasks > 0)
        kt_pool_run(attention->context->pool, run_all, &run);
    kt_pool_unlock(attention->context->pool);
    return kt_outcome_end(&run.outcome, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linear_forward.c - one forward of linears that share an input.
 *
 *   all threads     each linear packs its rows | node barrier | ranges of panels of all linears
 *                   | where one is split by columns: barrier of all nodes, sums in the order of the nodes
 *
 * Outputs are written where they belong if the backend's form of them is the wanted one; else a thread has
 * them in a tile of its own first.
 */
#include "core/base/error.h"
#include "core/base/overlap.h"
#include "core/base/size.h"
#include "core/context/context.h"
#include "core/forward/stage.h"
#include "core/forward/sum.h"
#include "core/layer/linear.h"
#include "core/layer/linear_buffers.h"
#include "core/machine/outcome.h"
#include "core/machine/pool.h"

#include <stddef.h>

#define COUNTER_ACT 0
#define COUNTER_PANELS 1

/* Ranges of panels for each thread: so many that a slower thread does not make the others wait. */
#define RANGES_PER_THREAD 4

/* A linear's part of a node's work. */
struct part {
    const struct kt_shard *shard;
    char *base;           /* its part of the node's arena */
    uint32_t first_range; /* in the node's numbering */
    uint32_t n_ranges;
};

struct node {
    struct part part[KT_MAX_LINEARS];
    uint32_t n_ranges;
};

struct run {
    const struct kt_linear_batch *batch;
    struct kt_linear_output output[KT_MAX_LINEARS]; /* with their strides filled in */
    struct kt_context *context;
    struct kt_outcome *outcome;
    uint32_t index[KT_GROUP_ROWS]; /* 0, 1, 2, ... */
    struct node node[KT_MAX_NODES];
    int64_t input_stride;
    uint32_t first_token;
    uint32_t n_tokens;
    bool splits_cols;
};

/* A thread's work; ops and instance are those of the backend that it has entered. */
struct work {
    struct run *run;
    struct kt_worker *worker;
    const struct node *node;
    const struct kt_ops *ops;
    void *instance;
    char *tile;
    struct kt_error error;
};

static const struct kt_layer *layer_of(const struct run *run, uint32_t l)
{
    return run->output[l].linear->layer;
}

/* ---- stages ------------------------------------------------------------------------------------- */

static void leave(struct work *work)
{
    if (work->ops && work->ops->thread_leave)
        work->ops->thread_leave(work->instance);
    work->ops = NULL;
}

static void enter(struct work *work, const struct kt_layer *layer)
{
    const struct kt_ops *ops = kt_layer_ops(layer);
    if (work->ops == ops && work->instance == layer->backend->instance)
        return;
    leave(work);
    work->ops = ops;
    work->instance = layer->backend->instance;
    if (ops->thread_enter)
        ops->thread_enter(work->instance);
}

/* Rows that one task packs: whole units of the backend, some tasks for each thread. */
static uint32_t pack_step(const struct work *work, const struct kt_shard *shard)
{
    uint32_t unit = shard->layout.row_unit, threads = work->worker->subpool->n_threads;
    uint32_t step = work->run->n_tokens / (RANGES_PER_THREAD * threads) + 1;
    return (step + unit - 1) / unit * unit;
}

static void pack(struct work *work, uint32_t l, uint32_t begin, uint32_t end)
{
    const struct run *run = work->run;
    const struct part *part = &work->node->part[l];
    const struct kt_layer *layer = layer_of(run, l);
    struct kt_act_pack job = {
        .layout = &part->shard->layout,
        .stage = KT_STAGE_DOWN,
        .source_dtype = run->batch->input_dtype,
        .n_rows = run->n_tokens,
        .row_begin = begin,
        .row_end = end,
        .source = (const char *)run->batch->input + (int64_t)run->first_token * run->input_stride +
                  (int64_t)(part->shard->begin * kt_element_size(run->batch->input_dtype)),
        .source_stride = run->input_stride,
        .packed = part->base + part->shard->buffers.act,
        .error = &work->error,
    };
    enter(work, layer);
    work->ops->act_pack(work->instance, &job);
    kt_stage_check(layer, run->outcome, "act_pack", "", &work->error);
}

static void pack_all(struct work *work)
{
    const struct run *run = work->run;
    uint32_t task = 0, first = 0;
    bool claimed = false;
    for (uint32_t l = 0; l < run->batch->n_outputs; l++) {
        const struct kt_shard *shard = work->node->part[l].shard;
        if (shard->begin == shard->end)
            continue;
        uint32_t step = pack_step(work, shard), n = (run->n_tokens + step - 1) / step;
        for (;; claimed = false) {
            if (!claimed)
                task = kt_worker_claim(work->worker, COUNTER_ACT);
            claimed = true;
            if (task >= first + n || kt_outcome_failed(run->outcome))
                break;
            uint32_t begin = (task - first) * step, left = run->n_tokens - begin;
            pack(work, l, begin, begin + (left < step ? left : step));
        }
        first += n;
    }
}

/* Panels [begin, end): outputs go to out, row r out_stride bytes behind row r - 1. */
static void multiply(struct work *work, uint32_t l, uint64_t begin, uint64_t end, void *out,
                     int64_t out_stride)
{
    const struct run *run = work->run;
    const struct part *part = &work->node->part[l];
    const struct kt_shard *shard = part->shard;
    const struct kt_layer *layer = layer_of(run, l);
    struct kt_product job = {
        .layout = &shard->layout,
        .packed = kt_shard_object(shard, 0, KT_STAGE_DOWN),
        .source = shard->source,
        .panel_begin = begin,
        .panel_end = end,
        .n_rows = run->n_tokens,
        .act = part->base + shard->buffers.act,
        .out = out,
        .out_index = run->index,
        .out_stride = out_stride,
        .bias = {shard->bias[KT_DOWN], NULL},
        .scratch =
            part->base + shard->buffers.scratch + work->worker->index_in_node * shard->buffers.scratch_stride,
        .error = &work->error,
    };
    enter(work, layer);
    work->ops->down(work->instance, &job);
    kt_stage_check(layer, run->outcome, "down", "", &work->error);
}

static uint64_t y_element(const struct kt_shard *shard)
{
    return shard->layout.y_dtype == KT_DTYPE_BF16 ? 2 : 4;
}

/* Adds up or rounds `n` outputs of one token from `y`, which is a row of a shard. */
static void store(const struct run *run, uint32_t l, uint32_t token, uint64_t row, const void *y,
                  const struct kt_shard *shard, uint64_t n)
{
    const struct kt_linear_output *output = &run->output[l];
    char *out = (char *)output->output + (int64_t)(run->first_token + token) * output->output_stride +
                (int64_t)(row * kt_element_size(output->output_dtype));
    for (uint64_t i = 0; i < n; i += KT_SUM_BLOCK) {
        uint64_t block = n - i < KT_SUM_BLOCK ? n - i : KT_SUM_BLOCK;
        _Alignas(64) float sum[KT_SUM_BLOCK] = {0};
        kt_sum_add(sum, (const char *)y + i * y_element(shard), shard->layout.y_dtype, 1.0f, block);
        kt_sum_store(sum, out + i * kt_element_size(output->output_dtype), output->output_dtype,
                     output->accumulate != 0, block);
    }
}

/* Outputs of panels [begin, end) in the thread's tile, then where they belong; as many panels at once as the
 * tile has room for. */
static void multiply_tiled(struct work *work, uint32_t l, uint64_t begin, uint64_t end)
{
    const struct run *run = work->run;
    const struct kt_shard *shard = work->node->part[l].shard;
    uint64_t step = shard->layout.panel_rows[KT_STAGE_DOWN], rows = layer_of(run, l)->params.hidden_size;
    uint64_t element = y_element(shard), most = KT_LINEAR_TILE / (run->n_tokens * element) / step;
    for (uint64_t next; begin < end && !kt_outcome_failed(run->outcome); begin = next) {
        next = end - begin < most ? end : begin + most;
        uint64_t row = begin * step, n = (next * step < rows ? next * step : rows) - row;
        /* The kernel counts rows of all panels, the tile has those from `row` on. */
        uintptr_t origin = (uintptr_t)work->tile - row * element;
        multiply(work, l, begin, next, (void *)origin, (int64_t)(n * element));
        for (uint32_t t = 0; t < run->n_tokens && !kt_outcome_failed(run->outcome); t++)
            store(run, l, t, row, work->tile + t * n * element, shard, n);
    }
}

/* The same by way of the node's y, where not even one panel fits into a tile. */
static void multiply_by_y(struct work *work, uint32_t l, uint64_t begin, uint64_t end)
{
    const struct run *run = work->run;
    const struct part *part = &work->node->part[l];
    const struct kt_shard *shard = part->shard;
    uint64_t step = shard->layout.panel_rows[KT_STAGE_DOWN], rows = layer_of(run, l)->params.hidden_size;
    uint64_t row = begin * step, n = (end * step < rows ? end * step : rows) - row;
    char *y = part->base + shard->buffers.y;
    multiply(work, l, begin, end, y, (int64_t)shard->y_row_size);
    for (uint32_t t = 0; t < run->n_tokens && !kt_outcome_failed(run->outcome); t++)
        store(run, l, t, row, y + t * shard->y_row_size + row * y_element(shard), shard, n);
}

/* Range `range` of a linear. Of one that is split by columns, outputs go to the node's own y. */
static void run_range(struct work *work, uint32_t l, uint32_t range)
{
    const struct run *run = work->run;
    const struct part *part = &work->node->part[l];
    const struct kt_shard *shard = part->shard;
    const struct kt_linear_output *output = &run->output[l];
    uint64_t panels = shard->panel_end - shard->panel_begin;
    uint64_t begin = shard->panel_begin + panels * range / part->n_ranges;
    uint64_t end = shard->panel_begin + panels * (range + 1) / part->n_ranges;
    bool same = output->output_dtype == (shard->layout.y_dtype ? shard->layout.y_dtype : KT_DTYPE_F32);
    if (kt_linear_splits_cols(layer_of(run, l)))
        multiply(work, l, begin, end, part->base + shard->buffers.y, (int64_t)shard->y_row_size);
    else if (same && !output->accumulate)
        multiply(work, l, begin, end,
                 (char *)output->output + (int64_t)run->first_token * output->output_stride,
                 output->output_stride);
    else if (kt_linear_fits_tile(layer_of(run, l), &shard->layout))
        multiply_tiled(work, l, begin, end);
    else
        multiply_by_y(work, l, begin, end);
}

/* The outputs of a linear that is split by columns: a thread's share of the tokens' blocks. */
static void add_nodes(const struct work *work, uint32_t l)
{
    const struct run *run = work->run;
    const struct kt_layer *layer = layer_of(run, l);
    const struct kt_linear_output *output = &run->output[l];
    uint64_t rows = layer->params.hidden_size, element = kt_element_size(output->output_dtype);
    uint64_t blocks = (rows + KT_SUM_BLOCK - 1) / KT_SUM_BLOCK, units = blocks * run->n_tokens;
    uint32_t thread = work->worker->index, n_threads = work->worker->pool->n_threads;
    for (uint64_t u = units * thread / n_threads; u < units * (thread + 1) / n_threads; u++) {
        uint64_t token = u / blocks, row = u % blocks * KT_SUM_BLOCK;
        uint64_t n = rows - row < KT_SUM_BLOCK ? rows - row : KT_SUM_BLOCK;
        _Alignas(64) float sum[KT_SUM_BLOCK] = {0};
        for (uint32_t s = 0; s < layer->n_shards; s++) {
            const struct part *part = &run->node[s].part[l];
            const struct kt_shard *shard = part->shard;
            if (shard->begin < shard->end)
                kt_sum_add(sum,
                           part->base + shard->buffers.y + token * shard->y_row_size + row * y_element(shard),
                           shard->layout.y_dtype, 1.0f, n);
        }
        kt_sum_store(sum,
                     (char *)output->output + (int64_t)(run->first_token + token) * output->output_stride +
                         (int64_t)(row * element),
                     output->output_dtype, output->accumulate != 0, n);
    }
}

static void run_chunk(struct kt_worker *worker, void *argument)
{
    struct run *run = argument;
    const struct node *node = &run->node[worker->node];
    struct work work = {.run = run,
                        .worker = worker,
                        .node = node,
                        .tile = (char *)run->context->arena.node[worker->node].data +
                                worker->index_in_node * KT_LINEAR_TILE};
    kt_stage_start(&work.error);
    pack_all(&work);
    kt_worker_node_barrier(worker);
    uint32_t l = 0;
    for (uint32_t task; !kt_outcome_failed(run->outcome) &&
                        (task = kt_worker_claim(worker, COUNTER_PANELS)) < node->n_ranges;) {
        while (task >= node->part[l].first_range + node->part[l].n_ranges)
            l++;
        run_range(&work, l, task - node->part[l].first_range);
    }
    leave(&work);
    if (!run->splits_cols)
        return;
    kt_worker_barrier(worker);
    for (l = 0; l < run->batch->n_outputs && !kt_outcome_failed(run->outcome); l++)
        if (kt_linear_splits_cols(layer_of(run, l)))
            add_nodes(&work, l);
}

/* ---- what the caller's thread prepares ---------------------------------------------------------- */

static enum kt_status check_data(const char *name, const char *what, const void *data, uint64_t size,
                                 uint32_t dtype, uint32_t n_tokens, int64_t *stride, struct kt_error *error)
{
    uint32_t element = kt_element_size(dtype);
    if (!element)
        return kt_fail(error, KT_E_INVALID, "%s: %s_dtype is %s (%u); f32, bf16 and f16 are allowed", name,
                       what, kt_dtype_name(dtype), dtype);
    int64_t row = (int64_t)(size * element), all;
    if (*stride == 0)
        *stride = row;
    if (*stride < row || *stride % element || __builtin_mul_overflow(*stride, n_tokens, &all))
        return kt_fail(error, KT_E_INVALID,
                       "%s: %s_stride %lld does not fit rows of %lld bytes of %u-byte numbers, %u tokens",
                       name, what, (long long)*stride, (long long)row, element, n_tokens);
    if (!kt_is_aligned(data, element))
        return kt_fail(
            error, KT_E_INVALID,
            "%s: %s is at an address that is not a multiple of its numbers' %u bytes; copy it to one", name,
            what, element);
    return KT_OK;
}

static enum kt_status check_output(struct run *run, uint32_t l, struct kt_error *error)
{
    struct kt_linear_output *output = &run->output[l];
    const struct kt_layer *first, *layer;
    if (!output->linear || !output->output)
        return kt_fail(error, KT_E_INVALID,
                       "kt_linear_forward: linear and output of output %u must not be NULL", l);
    first = layer_of(run, 0);
    layer = output->linear->layer;
    if (!layer->loaded)
        return kt_fail(error, KT_E_STATE, "%s has no weights; load it first", layer->name);
    if (layer->context != first->context)
        return kt_fail(error, KT_E_INVALID, "%s and %s are not of one context", first->name, layer->name);
    if (layer->params.intermediate_size != first->params.intermediate_size)
        return kt_fail(error, KT_E_INVALID,
                       "%s has %llu columns, %s %llu; linears of one forward share their input", first->name,
                       (unsigned long long)first->params.intermediate_size, layer->name,
                       (unsigned long long)layer->params.intermediate_size);
    return check_data(layer->name, "output", output->output, layer->params.hidden_size, output->output_dtype,
                      run->batch->n_tokens, &output->output_stride, error);
}

static struct kt_memory_rows output_rows(const struct run *run, uint32_t l)
{
    const struct kt_linear_output *output = &run->output[l];
    return (struct kt_memory_rows){output->output,
                                   layer_of(run, l)->params.hidden_size *
                                       kt_element_size(output->output_dtype),
                                   (uint64_t)output->output_stride, run->batch->n_tokens};
}

/* A node may write while another one still reads. */
static enum kt_status check_overlap(const struct run *run, struct kt_error *error)
{
    const struct kt_linear_batch *batch = run->batch;
    const struct kt_memory_rows input = {batch->input,
                                         layer_of(run, 0)->params.intermediate_size *
                                             kt_element_size(batch->input_dtype),
                                         (uint64_t)run->input_stride, batch->n_tokens};
    for (uint32_t l = 0; l < batch->n_outputs; l++) {
        struct kt_memory_rows rows = output_rows(run, l);
        if (kt_rows_overlap(&rows, &input))
            return kt_fail(error, KT_E_INVALID, "%s: output overlaps input; give it memory of its own",
                           layer_of(run, l)->name);
        for (uint32_t other = 0; other < l; other++) {
            struct kt_memory_rows before = output_rows(run, other);
            if (kt_rows_overlap(&rows, &before))
                return kt_fail(error, KT_E_INVALID,
                               "%s: output overlaps that of %s; give it memory of its own",
                               layer_of(run, l)->name, layer_of(run, other)->name);
        }
    }
    return KT_OK;
}

static enum kt_status check(struct run *run, struct kt_error *error)
{
    const struct kt_linear_batch *batch = run->batch;
    enum kt_status status = KT_OK;
    if (batch->n_outputs < 1 || batch->n_outputs > KT_MAX_LINEARS || !batch->outputs || !batch->input)
        return kt_fail(error, KT_E_INVALID,
                       "kt_linear_forward: 1 to %d outputs and an input are needed; there are %u%s",
                       KT_MAX_LINEARS, batch->n_outputs,
                       !batch->outputs ? ", and outputs is NULL"
                       : !batch->input ? ", and input is NULL"
                                       : "");
    for (uint32_t l = 0; l < batch->n_outputs && status == KT_OK; l++) {
        run->output[l] = batch->outputs[l];
        status = check_output(run, l, error);
    }
    if (status != KT_OK)
        return status;
    run->input_stride = batch->input_stride;
    run->context = layer_of(run, 0)->context;
    status =
        check_data(layer_of(run, 0)->name, "input", batch->input, layer_of(run, 0)->params.intermediate_size,
                   batch->input_dtype, batch->n_tokens, &run->input_stride, error);
    return status == KT_OK ? check_overlap(run, error) : status;
}

/* The linears' parts of the work and of the arena of a node. Ranges are as large for each linear, so that
 * threads claim about as much at the end. */
static void place(struct run *run, uint32_t n)
{
    struct node *node = &run->node[n];
    uint32_t n_threads = run->context->pool->subpool[n].n_threads, l;
    char *at = (char *)run->context->arena.node[n].data + n_threads * KT_LINEAR_TILE;
    uint64_t total = 0;
    for (l = 0; l < run->batch->n_outputs; l++) {
        const struct kt_layer *layer = layer_of(run, l);
        struct part *part = &node->part[l];
        part->shard = &layer->shard[n];
        part->base = at;
        at += part->shard->buffers.linear_size;
        total += kt_shard_size(layer, part->shard);
    }
    node->n_ranges = 0;
    for (l = 0; l < run->batch->n_outputs; l++) {
        struct part *part = &node->part[l];
        uint64_t panels = part->shard->panel_end - part->shard->panel_begin;
        uint64_t size = kt_shard_size(layer_of(run, l), part->shard);
        uint64_t wanted = n_threads == 1 ? 1 : RANGES_PER_THREAD * n_threads;
        uint64_t ranges = total ? (wanted * size + total - 1) / total : wanted;
        bool used = part->shard->begin < part->shard->end;
        part->first_range = node->n_ranges;
        part->n_ranges = used ? (uint32_t)(ranges < 1 ? 1 : ranges < panels ? ranges : panels) : 0;
        node->n_ranges += part->n_ranges;
    }
}

static void prepare(struct run *run)
{
    for (uint32_t i = 0; i < KT_GROUP_ROWS; i++)
        run->index[i] = i;
    for (uint32_t n = 0; n < run->context->pool->n_nodes; n++)
        place(run, n);
    run->splits_cols = false;
    for (uint32_t l = 0; l < run->batch->n_outputs; l++)
        run->splits_cols |= kt_linear_splits_cols(layer_of(run, l));
}

/* The smallest number of rows that all linears have buffers for. */
static uint32_t find_chunk(const struct run *run)
{
    uint64_t chunk = KT_GROUP_ROWS;
    for (uint32_t l = 0; l < run->batch->n_outputs; l++)
        if (kt_linear_chunk(layer_of(run, l)) < chunk)
            chunk = kt_linear_chunk(layer_of(run, l));
    return (uint32_t)chunk;
}

enum kt_status kt_linear_forward(const struct kt_linear_batch *batch, struct kt_error *error)
{
    if (!batch)
        return kt_fail(error, KT_E_INVALID, "kt_linear_forward: batch must not be NULL");
    if (batch->struct_size < offsetof(struct kt_linear_batch, reserved))
        return kt_fail(error, KT_E_INVALID,
                       "kt_linear_batch: struct_size %zu is too small; start with KT_LINEAR_BATCH_INIT",
                       batch->struct_size);
    struct kt_outcome outcome;
    struct run run; /* 20 KB, of which prepare fills what is used */
    run.batch = batch;
    run.outcome = &outcome;
    enum kt_status status = check(&run, error);
    if (status != KT_OK || batch->n_tokens == 0)
        return status;
    status = kt_pool_lock(run.context->pool, error);
    if (status != KT_OK)
        return status;
    kt_outcome_start(&outcome);
    prepare(&run);
    uint32_t chunk = find_chunk(&run), chunks = (batch->n_tokens + chunk - 1) / chunk;
    for (uint64_t c = 0; c < chunks && !kt_outcome_failed(&outcome); c++) {
        run.first_token = (uint32_t)(batch->n_tokens * c / chunks);
        run.n_tokens = (uint32_t)(batch->n_tokens * (c + 1) / chunks) - run.first_token;
        kt_pool_run(run.context->pool, run_chunk, &run);
    }
    kt_pool_unlock(run.context->pool);
    return kt_outcome_end(&outcome, error);
}

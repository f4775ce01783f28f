/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward.c - one forward of a layer.
 *
 *   caller          check, route
 *   all threads     pack activation rows | node barrier |
 *                   whole groups: gather, gate_up, pack h, down     (no barrier: a thread keeps a group)
 *                   split groups: gather | gate_up ranges, the last one packs h | down ranges
 *                   | barrier of all nodes | weighted sum
 */
#include "core/forward/forward.h"

#include "core/base/error.h"
#include "core/base/overlap.h"
#include "core/base/size.h"
#include "core/context/context.h"
#include "core/forward/reduce.h"
#include "core/forward/stage.h"
#include "core/layer/layer.h"
#include "core/layer/recorder.h"
#include "core/layer/route.h"
#include "core/layer/store_check.h"
#include "core/layer/usage.h"
#include "core/machine/outcome.h"
#include "core/machine/pool.h"

#include <stdio.h>

#define COUNTER_ACT 0
#define COUNTER_GATE_UP 1
#define COUNTER_GATHER 2
#define COUNTER_DOWN 3

struct run {
    struct kt_layer *layer;
    const struct kt_forward *forward;
    struct kt_outcome *outcome;
    const void *added; /* see struct kt_extra */
    struct kt_route route;
    uint32_t first_token;
    uint32_t n_tokens;
};

/* What a thread of a run works with: the shard and the buffers of its node. */
struct worker_job {
    struct run *run;
    struct kt_worker *worker;
    const struct kt_shard *shard;
    const struct kt_ops *ops;
    void *instance;
    char *base;             /* of the node's arena */
    char *scratch;          /* of this thread */
    struct kt_error *error; /* of this thread; a stage may write there */
};

static const float *bias_of(const struct worker_job *work, uint32_t expert, enum kt_projection projection)
{
    const float *all = work->shard->bias[projection];
    return all ? all + expert * work->shard->bias_stride[projection] : NULL;
}

/* Has a stage failed on any thread? Then no stage is called any more. */
static bool has_failed(const struct worker_job *work)
{
    return kt_outcome_failed(work->run->outcome);
}

/* Reports the error of the stage that was just called, if there is one. */
static void check_stage(const struct worker_job *work, const char *stage, const struct kt_group *group)
{
    char of[32] = "";
    if (work->error->status == KT_OK)
        return;
    if (group)
        (void)snprintf(of, sizeof of, " of expert %u", group->expert);
    kt_stage_check(work->run->layer, work->run->outcome, stage, of, work->error);
}

static void pack_inputs(const struct worker_job *work)
{
    const struct run *run = work->run;
    uint32_t step = run->n_tokens / (8 * work->worker->subpool->n_threads) + 1;
    struct kt_act_pack job = {
        .layout = &work->shard->layout,
        .stage = KT_STAGE_GATE_UP,
        .source_dtype = run->forward->input_dtype,
        .n_rows = run->n_tokens,
        .source = (const char *)run->forward->input + (int64_t)run->first_token * run->forward->input_stride,
        .source_stride = run->forward->input_stride,
        .packed = work->base + work->shard->buffers.act,
        .error = work->error,
    };
    while (!has_failed(work)) {
        uint64_t begin = (uint64_t)kt_worker_claim(work->worker, COUNTER_ACT) * step;
        if (begin >= run->n_tokens)
            return;
        job.row_begin = (uint32_t)begin;
        job.row_end = run->n_tokens - begin < step ? run->n_tokens : (uint32_t)begin + step;
        work->ops->act_pack(work->instance, &job);
        check_stage(work, "act_pack", NULL);
    }
}

static void gather(const struct worker_job *work, const struct kt_group *group, void *out)
{
    struct kt_gather job = {.layout = &work->shard->layout,
                            .act = work->base + work->shard->buffers.act,
                            .index = work->run->route.token + group->first,
                            .n_rows = group->n_rows,
                            .out = out,
                            .error = work->error};
    work->ops->gather(work->instance, &job);
    check_stage(work, "gather", group);
}

/* Panels begin .. end - 1 of gate_up; `gathered`: the output of gather, if the backend has that function. */
static void gate_up(const struct worker_job *work, const struct kt_group *group, const void *gathered,
                    uint64_t begin, uint64_t end, void *h)
{
    const struct kt_shard *shard = work->shard;
    bool gathers = work->ops->gather != NULL;
    struct kt_product job = {
        .layout = &shard->layout,
        .packed = kt_shard_object(work->shard, group->expert, KT_STAGE_GATE_UP),
        .source = shard->source ? &shard->source[group->expert] : NULL,
        .panel_begin = begin,
        .panel_end = end,
        .n_rows = group->n_rows,
        .act = gathers ? gathered : work->base + shard->buffers.act,
        .index = gathers ? NULL : work->run->route.token + group->first,
        .out = h,
        .out_stride = (int64_t)shard->layout.h_row_size,
        .bias = {bias_of(work, group->expert, KT_GATE), bias_of(work, group->expert, KT_UP)},
        .scratch = work->scratch,
        .next = kt_shard_object(work->shard, group->expert, KT_STAGE_DOWN),
        .next_size = shard->layout.weight_size[KT_STAGE_DOWN],
        .error = work->error,
    };
    work->ops->gate_up(work->instance, &job);
    check_stage(work, "gate_up", group);
}

static void pack_h(const struct worker_job *work, const struct kt_group *group, const void *h, void *act)
{
    struct kt_act_pack job = {.layout = &work->shard->layout,
                              .stage = KT_STAGE_DOWN,
                              .n_rows = group->n_rows,
                              .row_end = group->n_rows,
                              .source = h,
                              .packed = act,
                              .error = work->error};
    work->ops->act_pack(work->instance, &job);
    check_stage(work, "act_pack of h", group);
}

static void down(const struct worker_job *work, const struct kt_group *group, const void *act, uint64_t begin,
                 uint64_t end, const struct kt_group *next)
{
    const struct kt_shard *shard = work->shard;
    struct kt_product job = {
        .layout = &shard->layout,
        .packed = kt_shard_object(work->shard, group->expert, KT_STAGE_DOWN),
        .source = shard->source ? &shard->source[group->expert] : NULL,
        .panel_begin = begin,
        .panel_end = end,
        .n_rows = group->n_rows,
        .act = act,
        .out = work->base + shard->buffers.y,
        .out_index = work->run->route.slot + group->first,
        .out_stride = (int64_t)shard->y_row_size,
        .bias = {bias_of(work, group->expert, KT_DOWN), NULL},
        .scratch = work->scratch,
        .next = next ? kt_shard_object(work->shard, next->expert, KT_STAGE_GATE_UP) : NULL,
        .next_size = next ? shard->layout.weight_size[KT_STAGE_GATE_UP] : 0,
        .error = work->error,
    };
    work->ops->down(work->instance, &job);
    check_stage(work, "down", group);
}

static void run_whole(const struct worker_job *work)
{
    const struct kt_route *route = &work->run->route;
    const struct kt_buffers *buffers = &work->shard->buffers;
    const struct kt_layout *layout = &work->shard->layout;
    char *own = work->base + buffers->thread + work->worker->index_in_node * buffers->thread_stride;
    char *h = own + buffers->thread_h, *act = own + buffers->thread_act;
    for (uint32_t g;
         !has_failed(work) && (g = kt_worker_claim(work->worker, COUNTER_GATE_UP)) < route->n_groups;) {
        const struct kt_group *group = &route->group[g];
        if (work->ops->gather)
            gather(work, group, own);
        if (!has_failed(work))
            gate_up(work, group, own, 0, kt_layout_panels(layout, KT_STAGE_GATE_UP), h);
        if (!has_failed(work))
            pack_h(work, group, h, act);
        /* For prefetching. A guess: another thread may claim this group. */
        uint32_t next = (uint32_t)atomic_load_explicit(&work->worker->subpool->counter[COUNTER_GATE_UP].next,
                                                       memory_order_relaxed);
        if (!has_failed(work))
            down(work, group, act, 0, kt_layout_panels(layout, KT_STAGE_DOWN),
                 next < route->n_groups ? &route->group[next] : NULL);
    }
}

/* After a failure too, every thread meets every barrier. A stage is called only if its inputs are complete.
 */
static void run_split(const struct worker_job *work, const struct kt_schedule *schedule)
{
    const struct kt_route *route = &work->run->route;
    const struct kt_buffers *buffers = &work->shard->buffers;
    const struct kt_layout *layout = &work->shard->layout;
    uint32_t parts = schedule->parts, n_tasks = route->n_groups * parts;
    char *gathered = work->base + buffers->split_gather, *h = work->base + buffers->split_h;
    char *act = work->base + buffers->split_act;
    uint32_t task;
    if (work->ops->gather) {
        while (!has_failed(work) && (task = kt_worker_claim(work->worker, COUNTER_GATHER)) < route->n_groups)
            gather(work, &route->group[task],
                   gathered + route->group[task].padded_first * layout->act_row_size[0]);
        kt_worker_node_barrier(work->worker);
    }
    uint64_t panels = kt_layout_panels(layout, KT_STAGE_GATE_UP);
    while (!has_failed(work) && (task = kt_worker_claim(work->worker, COUNTER_GATE_UP)) < n_tasks) {
        uint32_t g = task / parts, part = task % parts;
        const struct kt_group *group = &route->group[g];
        char *group_h = h + group->padded_first * layout->h_row_size;
        gate_up(work, group, gathered + group->padded_first * layout->act_row_size[0], panels * part / parts,
                panels * (part + 1) / parts, group_h);
        if (atomic_fetch_sub_explicit(&schedule->unfinished[g], 1, memory_order_acq_rel) == 1 &&
            !has_failed(work))
            pack_h(work, group, group_h, act + group->padded_first * layout->act_row_size[1]);
    }
    kt_worker_node_barrier(work->worker);
    panels = kt_layout_panels(layout, KT_STAGE_DOWN);
    while (!has_failed(work) && (task = kt_worker_claim(work->worker, COUNTER_DOWN)) < n_tasks) {
        const struct kt_group *group = &route->group[task / parts];
        uint64_t begin = panels * (task % parts) / parts, end = panels * (task % parts + 1) / parts;
        if (begin < end)
            down(work, group, act + group->padded_first * layout->act_row_size[1], begin, end, NULL);
    }
}

static void run_shard(struct run *run, struct kt_worker *worker)
{
    struct kt_layer *layer = run->layer;
    const struct kt_shard *shard = &layer->shard[worker->node];
    char *base = layer->context->arena.node[worker->node].data;
    struct kt_error error;
    struct worker_job work = {
        .run = run,
        .worker = worker,
        .shard = shard,
        .ops = kt_layer_ops(layer),
        .instance = layer->backend->instance,
        .base = base,
        .scratch = base + shard->buffers.scratch + worker->index_in_node * shard->buffers.scratch_stride,
        .error = &error,
    };
    kt_stage_start(&error);
    if (work.ops->thread_enter)
        work.ops->thread_enter(work.instance);
    pack_inputs(&work);
    kt_worker_node_barrier(worker);
    if (run->route.schedule[worker->node].split)
        run_split(&work, &run->route.schedule[worker->node]);
    else
        run_whole(&work);
    if (work.ops->thread_leave)
        work.ops->thread_leave(work.instance);
}

static void run_chunk(struct kt_worker *worker, void *argument)
{
    struct run *run = argument;
    const struct kt_shard *shard = &run->layer->shard[worker->node];
    if (shard->begin < shard->end && run->route.n_groups)
        run_shard(run, worker);
    kt_worker_barrier(worker);
    if (kt_outcome_failed(run->outcome))
        return;
    struct kt_reduce reduce = {.layer = run->layer,
                               .route = &run->route,
                               .forward = run->forward,
                               .added = run->added,
                               .first_token = run->first_token,
                               .n_tokens = run->n_tokens};
    kt_reduce_part(&reduce, worker->index, worker->pool->n_threads);
}

static enum kt_status check_rows(const struct kt_layer *layer, const char *what, uint32_t dtype,
                                 int64_t *stride, uint32_t n_tokens, struct kt_error *error)
{
    uint32_t element = kt_element_size(dtype);
    if (!element)
        return kt_fail(error, KT_E_INVALID, "%s: %s_dtype is %s (%u); f32, bf16 and f16 are allowed",
                       layer->name, what, kt_dtype_name(dtype), dtype);
    int64_t row = (int64_t)(layer->params.hidden_size * element), all;
    if (*stride == 0)
        *stride = row;
    if (*stride < row || *stride % element || __builtin_mul_overflow(*stride, n_tokens, &all))
        return kt_fail(error, KT_E_INVALID,
                       "%s: %s_stride %lld does not fit rows of %lld bytes of %u-byte numbers, %u tokens",
                       layer->name, what, (long long)*stride, (long long)row, element, n_tokens);
    return KT_OK;
}

/* Of what is read or written as numbers; elsewhere it would be undefined what comes of it. */
static enum kt_status check_addresses(const struct kt_layer *layer, const struct kt_forward *forward,
                                      struct kt_error *error)
{
    const struct {
        const char *what;
        const void *data;
        uint32_t size;
    } all[] = {{"expert_ids", forward->expert_ids, sizeof *forward->expert_ids},
               {"router_weights", forward->router_weights, sizeof *forward->router_weights},
               {"input", forward->input, kt_element_size(forward->input_dtype)},
               {"output", forward->output, kt_element_size(forward->output_dtype)}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!kt_is_aligned(all[i].data, all[i].size))
            return kt_fail(
                error, KT_E_INVALID,
                "%s: %s is at an address that is not a multiple of its numbers' %u bytes; copy it to one",
                layer->name, all[i].what, all[i].size);
    return KT_OK;
}

enum kt_status kt_forward_check_overlap(const struct kt_layer *layer, const struct kt_forward *forward,
                                        struct kt_error *error)
{
    uint64_t n = forward->n_tokens, slots = n * forward->top_k, hidden = layer->params.hidden_size;
    const struct kt_memory_rows output = {forward->output, hidden * kt_element_size(forward->output_dtype),
                                          (uint64_t)forward->output_stride, n};
    const struct {
        const char *what;
        struct kt_memory_rows rows;
    } all[] = {{"input",
                {forward->input, hidden * kt_element_size(forward->input_dtype),
                 (uint64_t)forward->input_stride, n}},
               {"expert_ids", {forward->expert_ids, slots * sizeof *forward->expert_ids, 0, 1}},
               {"router_weights", {forward->router_weights, slots * sizeof *forward->router_weights, 0, 1}}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (kt_rows_overlap(&output, &all[i].rows))
            return kt_fail(error, KT_E_INVALID, "%s: output overlaps %s; give it memory of its own",
                           layer->name, all[i].what);
    return KT_OK;
}

enum kt_status kt_forward_check(const struct kt_layer *layer, const struct kt_forward *given,
                                struct kt_forward *forward, struct kt_error *error)
{
    if (!layer || !given)
        return kt_fail(error, KT_E_INVALID, "a forward needs a layer and its struct kt_forward, not NULL");
    if (given->struct_size < offsetof(struct kt_forward, reserved))
        return kt_fail(error, KT_E_INVALID,
                       "kt_forward: struct_size %zu is too small; start with KT_FORWARD_INIT",
                       given->struct_size);
    if (!layer->loaded)
        return kt_fail(error, KT_E_STATE, "%s has no weights; load it first", layer->name);
    *forward = *given;
    if (forward->top_k == 0)
        forward->top_k = layer->params.top_k;
    if (forward->top_k > layer->params.top_k)
        return kt_fail(error, KT_E_INVALID, "%s: top_k %u is more than the layer's %u", layer->name,
                       forward->top_k, layer->params.top_k);
    if (forward->n_tokens == 0)
        return KT_OK;
    if (!forward->expert_ids || !forward->router_weights || !forward->input || !forward->output)
        return kt_fail(error, KT_E_INVALID,
                       "%s: expert_ids, router_weights, input and output must not be NULL", layer->name);
    enum kt_status status =
        check_rows(layer, "input", forward->input_dtype, &forward->input_stride, forward->n_tokens, error);
    if (status == KT_OK)
        status = check_rows(layer, "output", forward->output_dtype, &forward->output_stride,
                            forward->n_tokens, error);
    return status == KT_OK ? check_addresses(layer, forward, error) : status;
}

/* Nothing is written for a batch that names an expert that does not exist. */
enum kt_status kt_forward_check_ids(const struct kt_layer *layer, const struct kt_forward *forward,
                                    struct kt_error *error)
{
    uint64_t n = (uint64_t)forward->n_tokens * forward->top_k;
    for (uint64_t i = 0; i < n; i++)
        if (forward->expert_ids[i] >= (int64_t)layer->params.n_experts)
            return kt_fail(error, KT_E_RANGE,
                           "%s: token %llu, slot %llu asks for expert %lld; there are 0 to %u", layer->name,
                           (unsigned long long)(i / forward->top_k), (unsigned long long)(i % forward->top_k),
                           (long long)forward->expert_ids[i], layer->params.n_experts - 1);
    return KT_OK;
}

enum kt_status kt_forward_run(struct kt_layer *layer, const struct kt_forward *forward,
                              const struct kt_extra *extra, struct kt_error *error)
{
    struct kt_pool *pool = layer->context->pool;
    const uint8_t *mask = extra && extra->no_mask ? NULL : layer->params.skip_mask;
    const struct kt_forward *asked = extra ? extra->asked : forward;
    enum kt_status status = kt_forward_check_ids(layer, forward, error);
    if (status == KT_OK)
        status = kt_pool_lock(pool, error);
    if (status != KT_OK)
        return status;
    if (layer->check)
        status = kt_store_check_batch(layer, forward, error);
    if (status != KT_OK) {
        kt_pool_unlock(pool);
        return status;
    }
    if (asked)
        kt_usage_count(&layer->usage, asked);
    if (asked && layer->recording.recorder)
        kt_recorder_put(&layer->recording, asked);
    struct kt_outcome outcome;
    struct run run = {.layer = layer,
                      .forward = forward,
                      .outcome = &outcome,
                      .added = extra ? extra->added : NULL};
    kt_outcome_start(&outcome);
    kt_route_place(layer, layer->context->arena.route.data, &run.route);
    while (run.first_token < forward->n_tokens && !kt_outcome_failed(&outcome)) {
        uint32_t left = forward->n_tokens - run.first_token;
        run.n_tokens = left < layer->params.max_tokens ? left : layer->params.max_tokens;
        kt_route_make(layer, forward->expert_ids + (uint64_t)run.first_token * forward->top_k, run.n_tokens,
                      forward->top_k, mask, &run.route);
        kt_pool_run(pool, run_chunk, &run);
        run.first_token += run.n_tokens;
    }
    kt_pool_unlock(pool);
    return kt_outcome_end(&outcome, error);
}

enum kt_status kt_layer_forward(struct kt_layer *layer, const struct kt_forward *given,
                                struct kt_error *error)
{
    struct kt_forward forward;
    enum kt_status status = kt_forward_check(layer, given, &forward, error);
    if (status == KT_OK)
        status = kt_forward_check_overlap(layer, &forward, error);
    if (status != KT_OK || forward.n_tokens == 0)
        return status;
    return kt_forward_run(layer, &forward, NULL, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* pack.c - packs weights on all threads, each shard by the threads of its node. */
#include "core/layer/pack.h"

#include "core/base/error.h"
#include "core/context/context.h"
#include "core/layer/fill.h"
#include "core/machine/outcome.h"
#include "core/machine/pool.h"

/* A task is a range of panels of one stage of one expert. */
struct packing {
    struct kt_layer *layer;
    const struct kt_expert *experts;
    struct kt_outcome outcome;
};

enum kt_status kt_layer_pack(const struct kt_shard *shard, const struct kt_backend *backend,
                             const struct kt_expert *expert, struct kt_pack *job, struct kt_error *error)
{
    struct kt_expert cut;
    job->layout = &shard->layout;
    job->source = &cut;
    error->message[0] = '\0';
    enum kt_status status = kt_shard_cut(shard, expert, &cut, error);
    if (status == KT_OK && job->panel_begin < job->panel_end)
        status = backend->level->ops->pack(backend->instance, job, error);
    if (status == KT_OK)
        return KT_OK;
    (void)kt_fail_plugin(error, status, "packing failed without a reason");
    return kt_fail_prefix(error, status, "backend %s", backend->name);
}

static void pack_task(struct packing *packing, const struct kt_worker *worker, uint32_t e,
                      enum kt_stage stage, uint32_t part, uint32_t parts)
{
    struct kt_layer *layer = packing->layer;
    struct kt_shard *shard = &layer->shard[worker->node];
    bool down = stage == KT_STAGE_DOWN;
    uint64_t panels = kt_layout_panels(&shard->layout, stage);
    uint64_t first = down ? shard->panel_begin : 0, own = (down ? shard->panel_end : panels) - first;
    struct kt_error error;
    struct kt_pack job = {.stage = stage,
                          .panel_begin = first + own * part / parts,
                          .panel_end = first + own * (part + 1) / parts,
                          .packed = (char *)(uintptr_t)kt_shard_object(shard, e, stage)};
    enum kt_status status =
        kt_layer_pack(shard, layer->backend, kt_layer_expert(layer, packing->experts, e), &job, &error);
    if (status == KT_OK) {
        kt_layer_load_count(layer,
                            shard->layout.weight_size[stage] * (job.panel_end - job.panel_begin) / panels);
        return;
    }
    (void)kt_fail_prefix(&error, status, "%s, expert %u", layer->name, e);
    kt_outcome_fail(&packing->outcome, status, &error);
}

static void pack_all(struct kt_worker *worker, void *argument)
{
    struct packing *packing = argument;
    struct kt_layer *layer = packing->layer;
    const struct kt_shard *shard = &layer->shard[worker->node];
    if (shard->begin == shard->end)
        return;
    /* With few experts, matrices are split so that all threads have work. */
    uint32_t n_experts = layer->params.n_experts;
    uint32_t stages = kt_layer_is_linear(layer) ? 1 : 2;
    uint32_t parts = (4 * worker->subpool->n_threads + stages * n_experts - 1) / (stages * n_experts);
    uint64_t n_tasks = (uint64_t)n_experts * stages * parts;
    for (uint32_t task; (task = kt_worker_claim(worker, 0)) < n_tasks;)
        if (!kt_layer_load_stopped(layer, &packing->outcome))
            pack_task(packing, worker, task / parts / stages,
                      stages == 1 ? KT_STAGE_DOWN : (enum kt_stage)(task / parts % 2), task % parts, parts);
}

enum kt_status kt_layer_pack_all(struct kt_layer *layer, void *experts, struct kt_error *error)
{
    struct packing packing = {.layer = layer, .experts = experts};
    kt_outcome_start(&packing.outcome);
    kt_pool_run(layer->context->pool, pack_all, &packing);
    return kt_outcome_end(&packing.outcome, error);
}

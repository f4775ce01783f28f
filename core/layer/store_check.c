/* SPDX-License-Identifier: Apache-2.0 */
/* store_check.c - compares objects of a mapped store on all threads; this also reads them from the disk. */
#include "core/layer/store_check.h"

#include "core/base/error.h"
#include "core/context/context.h"
#include "core/machine/outcome.h"
#include "core/machine/pool.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct checking {
    struct kt_layer *layer;
    struct kt_outcome outcome;
    atomic_uint next;
};

enum kt_status kt_store_check_object(const struct kt_layer *layer, uint32_t expert, enum kt_stage stage,
                                     struct kt_error *error)
{
    return kt_stored_check(layer->checkpoint, layer->check->stored, expert, stage,
                           kt_shard_object(layer->shard, expert, stage), error);
}

static void check_objects(struct kt_worker *worker, void *argument)
{
    (void)worker;
    struct checking *checking = argument;
    const struct kt_layer *layer = checking->layer;
    const struct kt_lazy_check *check = layer->check;
    for (unsigned i; (i = atomic_fetch_add(&checking->next, 1)) < 2 * check->n_wanted;) {
        uint32_t expert = check->wanted[i / 2];
        enum kt_stage stage = i % 2 ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
        struct kt_error error;
        enum kt_status status = kt_outcome_failed(&checking->outcome)
                                    ? KT_OK
                                    : kt_store_check_object(layer, expert, stage, &error);
        if (status != KT_OK)
            kt_outcome_fail(&checking->outcome, status, &error);
    }
}

enum kt_status kt_store_check_batch(struct kt_layer *layer, const struct kt_forward *forward,
                                    struct kt_error *error)
{
    struct kt_lazy_check *check = layer->check;
    if (check->n_left == 0)
        return KT_OK;
    check->n_wanted = 0;
    for (uint64_t i = 0; i < (uint64_t)forward->n_tokens * forward->top_k; i++) {
        int64_t id = forward->expert_ids[i];
        if (id < 0 || check->done[id])
            continue;
        check->done[id] = 1;
        check->wanted[check->n_wanted++] = (uint32_t)id;
    }
    if (check->n_wanted == 0)
        return KT_OK;
    struct checking checking = {.layer = layer};
    atomic_init(&checking.next, 0);
    kt_outcome_start(&checking.outcome);
    kt_pool_run(layer->context->pool, check_objects, &checking);
    enum kt_status status = kt_outcome_end(&checking.outcome, error);
    if (status == KT_OK)
        check->n_left -= check->n_wanted;
    for (uint32_t i = 0; status != KT_OK && i < check->n_wanted; i++)
        check->done[check->wanted[i]] = 0;
    return status;
}

enum kt_status kt_store_check_expert(struct kt_layer *layer, uint32_t expert, struct kt_error *error)
{
    int64_t id = expert;
    if (!layer->check)
        return KT_OK;
    enum kt_status status = kt_pool_lock(layer->context->pool, error);
    if (status != KT_OK)
        return status;
    status = kt_store_check_batch(layer, &(struct kt_forward){.n_tokens = 1, .top_k = 1, .expert_ids = &id},
                                  error);
    kt_pool_unlock(layer->context->pool);
    return status;
}

void kt_store_check_end(struct kt_layer *layer)
{
    struct kt_lazy_check *check = layer->check;
    memset(check->done, 1, layer->params.n_experts);
    check->n_left = 0;
}

enum kt_status kt_store_check_start(struct kt_layer *layer, const struct kt_stored *stored,
                                    struct kt_error *error)
{
    uint32_t n_experts = layer->params.n_experts;
    struct kt_lazy_check *check = calloc(1, sizeof *check);
    layer->check = check;
    if (check) {
        *check = (struct kt_lazy_check){.stored = stored, .n_left = n_experts};
        check->wanted = calloc(n_experts, sizeof *check->wanted);
        check->done = calloc(n_experts, sizeof *check->done);
    }
    if (!check || !check->wanted || !check->done)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory to check stored weights", layer->name);
    return KT_OK;
}

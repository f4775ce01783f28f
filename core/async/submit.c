/* SPDX-License-Identifier: Apache-2.0 */
/* submit.c - forwards and unpacking as tasks of the context's queue. */
#include "core/base/error.h"
#include "core/context/context.h"
#include "core/forward/forward.h"
#include "core/forward/unpack.h"
#include "core/machine/queue.h"

#include <kt/kt.h>

struct forward_task {
    struct kt_layer *layer;
    struct kt_forward forward;
};

struct unpack_task {
    struct kt_layer *layer;
    struct kt_unpacking unpacking;
};

_Static_assert(sizeof(struct forward_task) <= KT_TASK_ARGUMENT, "a slot of the queue holds a forward");
_Static_assert(sizeof(struct unpack_task) <= KT_TASK_ARGUMENT, "a slot of the queue holds an unpacking");

static enum kt_status run_forward(const void *argument, struct kt_error *error)
{
    const struct forward_task *task = argument;
    return kt_forward_run(task->layer, &task->forward, NULL, error);
}

static enum kt_status run_unpack(const void *argument, struct kt_error *error)
{
    const struct unpack_task *task = argument;
    return kt_unpack_run(task->layer, &task->unpacking, error);
}

enum kt_status kt_layer_submit(struct kt_layer *layer, const struct kt_forward *given, uint64_t *ticket,
                               struct kt_error *error)
{
    struct forward_task argument = {.layer = layer};
    enum kt_status status = kt_forward_check(layer, given, &argument.forward, error);
    if (status == KT_OK)
        status = kt_forward_check_overlap(layer, &argument.forward, error);
    if (status != KT_OK)
        return status;
    struct kt_task task = {.run = run_forward, .name = layer->name, .outstanding = &layer->outstanding};
    return kt_queue_submit(layer->context->queue, &task, &argument, sizeof argument, ticket, error);
}

enum kt_status kt_layer_submit_unpack(struct kt_layer *layer, uint32_t expert, uint32_t n_ranks,
                                      const struct kt_unpack_buffers *ranks, uint64_t *ticket,
                                      struct kt_error *error)
{
    struct unpack_task argument = {layer, {expert, n_ranks, ranks}};
    enum kt_status status = kt_unpack_check(layer, &argument.unpacking, error);
    if (status != KT_OK)
        return status;
    struct kt_task task = {.run = run_unpack, .name = layer->name, .outstanding = &layer->outstanding};
    return kt_queue_submit(layer->context->queue, &task, &argument, sizeof argument, ticket, error);
}

enum kt_status kt_wait(struct kt_context *context, uint64_t ticket, struct kt_error *error)
{
    return context ? kt_queue_wait(context->queue, ticket, error)
                   : kt_fail(error, KT_E_INVALID, "kt_wait: context must not be NULL");
}

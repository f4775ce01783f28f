/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - functions of the caller on the threads of a context. */
#include "core/base/error.h"
#include "core/context/context.h"
#include "core/machine/pool.h"

#include <kt/kt.h>

_Static_assert(KT_THREAD_COUNTERS == KT_POOL_COUNTERS, "the counters of a run are those of the pool");

struct call {
    void (*function)(void *data, const struct kt_thread *thread);
    void *data;
};

static void call(struct kt_worker *worker, void *argument)
{
    const struct call *what = argument;
    const struct kt_thread thread = {
        .index = worker->index,
        .n_threads = worker->pool->n_threads,
        .node = worker->node,
        .n_nodes = worker->pool->n_nodes,
        .index_in_node = worker->index_in_node,
        .n_in_node = worker->subpool->n_threads,
        .core = worker,
    };
    what->function(what->data, &thread);
}

enum kt_status kt_context_run_threads(struct kt_context *context,
                                      void (*function)(void *data, const struct kt_thread *thread),
                                      void *data, struct kt_error *error)
{
    if (!context || !function)
        return kt_fail(error, KT_E_INVALID, "a run needs a context and a function, not NULL");
    enum kt_status status = kt_pool_lock(context->pool, error);
    if (status != KT_OK)
        return status;
    struct call what = {function, data};
    kt_pool_run(context->pool, call, &what);
    kt_pool_unlock(context->pool);
    return KT_OK;
}

void kt_thread_barrier(const struct kt_thread *thread)
{
    kt_worker_barrier(thread->core);
}

void kt_thread_node_barrier(const struct kt_thread *thread)
{
    kt_worker_node_barrier(thread->core);
}

uint32_t kt_thread_claim(const struct kt_thread *thread, uint32_t counter)
{
    return kt_worker_claim(thread->core, (int)(counter % KT_THREAD_COUNTERS));
}

struct plain_call {
    void (*function)(void *data, uint32_t thread, uint32_t n_threads);
    void *data;
};

static void call_plain(void *data, const struct kt_thread *thread)
{
    const struct plain_call *what = data;
    what->function(what->data, thread->index, thread->n_threads);
}

enum kt_status kt_context_run(struct kt_context *context,
                              void (*function)(void *data, uint32_t thread, uint32_t n_threads), void *data,
                              struct kt_error *error)
{
    struct plain_call what = {function, data};
    return kt_context_run_threads(context, function ? call_plain : NULL, &what, error);
}

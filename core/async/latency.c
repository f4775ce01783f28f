/* SPDX-License-Identifier: Apache-2.0 */
/* latency.c - measures the time from submitting work until all threads have begun it. */
#include "core/base/error.h"
#include "core/context/context.h"
#include "core/machine/clock.h"
#include "core/machine/pool.h"
#include "core/machine/queue.h"

#include <errno.h>
#include <time.h>

struct probe {
    struct kt_pool *pool;
    atomic_uint_fast64_t begun; /* when the last thread began */
};

static void begin(struct kt_worker *worker, void *argument)
{
    struct probe *probe = argument;
    uint_fast64_t now = kt_now_ns(), last = atomic_load(&probe->begun);
    (void)worker;
    while (now > last && !atomic_compare_exchange_weak(&probe->begun, &last, now))
        ;
}

static enum kt_status run_probe(const void *argument, struct kt_error *error)
{
    struct probe *probe = *(struct probe *const *)argument;
    enum kt_status status = kt_pool_lock(probe->pool, error);
    if (status != KT_OK)
        return status;
    kt_pool_run(probe->pool, begin, probe);
    kt_pool_unlock(probe->pool);
    return KT_OK;
}

static void rest(uint32_t gap_us)
{
    struct timespec gap = {.tv_sec = gap_us / 1000000, .tv_nsec = (long)(gap_us % 1000000) * 1000};
    while (gap_us && nanosleep(&gap, &gap) != 0 && errno == EINTR)
        ;
}

enum kt_status kt_context_submit_times(struct kt_context *context, uint32_t count, uint32_t gap_us,
                                       double *times, struct kt_error *error)
{
    if (!context || !times || !count)
        return kt_fail(error, KT_E_INVALID, "%s: context, times and count must not be NULL or 0", __func__);
    struct kt_task task = {.run = run_probe, .name = __func__};
    struct probe probe = {.pool = context->pool}, *argument = &probe;
    enum kt_status status = KT_OK;
    for (uint32_t i = 0; i < count && status == KT_OK; i++) {
        uint64_t ticket;
        rest(gap_us);
        atomic_store(&probe.begun, 0);
        uint64_t submitted = kt_now_ns();
        status = kt_queue_submit(context->queue, &task, &argument, sizeof argument, &ticket, error);
        if (status == KT_OK)
            status = kt_wait(context, ticket, error);
        if (status == KT_OK)
            times[i] = (double)(atomic_load(&probe.begun) - submitted);
    }
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "core/machine/pool.h"

#include "core/base/error.h"
#include "core/machine/quota.h"
#include "core/machine/thread.h"

#include <hwloc/glibc-sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A thread that has waited this long for the slowest one of a stage sleeps. */
#define BUSY_SPIN_US 2000

/* Each node gets one thread. Each further thread goes to the node with most cores per thread, so no core gets
 * a second thread while another has none. */
static void share_threads(struct kt_pool *pool, const struct kt_topology *topology)
{
    for (uint32_t i = 0; i < pool->n_threads; i++) {
        uint32_t chosen = i < pool->n_nodes ? i : 0;
        for (uint32_t n = 0; i >= pool->n_nodes && n < pool->n_nodes; n++)
            if ((uint64_t)(pool->subpool[n].n_threads + 1) * topology->node[chosen].n_cores <
                (uint64_t)(pool->subpool[chosen].n_threads + 1) * topology->node[n].n_cores)
                chosen = n;
        pool->subpool[chosen].n_threads++;
    }
    uint32_t index = 0;
    for (uint32_t n = 0; n < pool->n_nodes; n++) {
        struct kt_subpool *subpool = &pool->subpool[n];
        subpool->first_thread = index;
        subpool->barrier.n = subpool->n_threads;
        for (uint32_t i = 0; i < subpool->n_threads; i++, index++)
            pool->worker[index] = (struct kt_worker){.pool = pool,
                                                     .subpool = subpool,
                                                     .index = index,
                                                     .node = n,
                                                     .index_in_node = i};
    }
    pool->barrier.n = pool->n_threads;
}

static hwloc_const_cpuset_t core_of(const struct kt_topology *topology, const struct kt_worker *worker)
{
    const struct kt_node *node = &topology->node[worker->node];
    return node->core[worker->index_in_node % node->n_cores];
}

static void *work(void *argument)
{
    struct kt_worker *worker = argument;
    struct kt_pool *pool = worker->pool;
    char name[16];
    (void)snprintf(name, sizeof name, "kt-%u-%u", worker->node % 1000, worker->index_in_node % 10000);
    (void)pthread_setname_np(pthread_self(), name);
    unsigned run = 0;
    for (;;) {
        run = kt_event_wait(&pool->start, run, pool->idle);
        if (atomic_load(&pool->stop))
            return NULL;
        pool->function(worker, pool->argument);
        if (atomic_fetch_sub(&pool->unfinished, 1) == 1)
            kt_event_set(&pool->done, run);
    }
}

/* To its core, or if it `roams` to all of its node. By glibc: hwloc's function does not look at an allocation
 * of its own. False: there is no such core, or it is forbidden. */
static bool bind_thread(const struct kt_topology *topology, const struct kt_worker *worker, bool roams)
{
    union {
        cpu_set_t set;
        unsigned char all[1024]; /* 8192 processors, as many as Linux has */
    } cpus, one;
    const struct kt_node *node = &topology->node[worker->node];
    CPU_ZERO_S(sizeof cpus, &cpus.set);
    for (uint32_t i = 0; i < node->n_cores; i++) {
        if (!roams && node->core[i] != core_of(topology, worker))
            continue;
        if (hwloc_cpuset_to_glibc_sched_affinity(topology->hwloc, node->core[i], &one.set, sizeof one) != 0)
            return false;
        CPU_OR_S(sizeof cpus, &cpus.set, &cpus.set, &one.set);
    }
    return pthread_setaffinity_np(worker->thread, sizeof cpus, &cpus.set) == 0;
}

static enum kt_status start_threads(struct kt_pool *pool, const struct kt_topology *topology, bool roams,
                                    struct kt_error *error)
{
    for (uint32_t i = 1; i < pool->n_threads; i++) {
        struct kt_worker *worker = &pool->worker[i];
        int failure = kt_thread_start(&worker->thread, work, worker);
        if (failure)
            return kt_fail(
                error, KT_E_SYSTEM,
                "cannot start thread %u of %u: %s; lower core.threads, or raise the process limit (ulimit "
                "-u)",
                i + 1, pool->n_threads, strerror(failure));
        pool->n_started++;
        hwloc_const_cpuset_t core = core_of(topology, worker);
        if (topology->real && !bind_thread(topology, worker, roams))
            pool->bind_failures++;
        cpu_set_t set;
        if (hwloc_cpuset_to_glibc_sched_affinity(topology->hwloc, core, &set, sizeof set) == 0)
            CPU_OR(&pool->others, &pool->others, &set);
    }
    return KT_OK;
}

enum kt_status kt_pool_create(const struct kt_topology *topology, uint32_t n_threads, uint32_t spin_us,
                              struct kt_pool **out, struct kt_error *error)
{
    struct kt_pool *pool = aligned_alloc(64, (sizeof *pool + 63) / 64 * 64);
    if (!pool)
        return kt_fail(error, KT_E_NOMEM, "no memory for the thread pool");
    memset(pool, 0, sizeof *pool);
    pool->n_threads = n_threads ? n_threads : kt_quota_threads(topology->quota, topology->n_cores);
    /* Other containers have quotas on the same cores: all of them would be bound to the first ones. */
    bool roams = n_threads == 0 && pool->n_threads < topology->n_cores;
    pool->n_nodes = topology->n_nodes < pool->n_threads ? topology->n_nodes : pool->n_threads;
    /* A thread that spins must not keep the thread it waits for from its core. Threads that are not bound may
     * share a core even if there are enough cores. */
    int crowded = pool->n_threads > topology->n_cores;
    int yield = crowded || roams || !topology->real;
    pool->idle = (struct kt_patience){crowded ? 0 : spin_us, yield};
    pool->busy = (struct kt_patience){crowded ? 50 : BUSY_SPIN_US, yield};
    cpu_set_t cpus;
    pool->full = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) <= (int)pool->n_threads;
    pool->pid = getpid();
    (void)pthread_mutex_init(&pool->lock, NULL);
    pool->worker = calloc(pool->n_threads, sizeof *pool->worker);
    size_t subpools = pool->n_nodes * sizeof *pool->subpool;
    pool->subpool = aligned_alloc(64, subpools);
    enum kt_status status = KT_OK;
    if (!pool->worker || !pool->subpool) {
        status = kt_fail(error, KT_E_NOMEM, "no memory for %u threads", pool->n_threads);
    } else {
        memset(pool->subpool, 0, subpools);
        share_threads(pool, topology);
        status = start_threads(pool, topology, roams, error);
    }
    if (status != KT_OK) {
        kt_pool_destroy(pool);
        return status;
    }
    pool->bound = topology->real && pool->bind_failures == 0 && !crowded && !roams &&
                  hwloc_cpuset_to_glibc_sched_affinity(topology->hwloc, core_of(topology, &pool->worker[0]),
                                                       &pool->first, sizeof pool->first) == 0;
    *out = pool;
    return KT_OK;
}

void kt_pool_destroy(struct kt_pool *pool)
{
    if (!pool)
        return;
    /* A forked child has the memory but not the threads. */
    if (pool->n_started && pool->pid == getpid()) {
        atomic_store(&pool->stop, true);
        kt_event_set(&pool->start, kt_event_value(&pool->start) + 1);
        for (uint32_t i = 1; i <= pool->n_started; i++)
            (void)pthread_join(pool->worker[i].thread, NULL);
    }
    (void)pthread_mutex_destroy(&pool->lock);
    free(pool->worker);
    free(pool->subpool);
    free(pool);
}

void kt_pool_idle_cpus(const struct kt_pool *pool, char *text, size_t size)
{
    cpu_set_t cpus;
    hwloc_bitmap_t idle = pool->bound ? hwloc_bitmap_alloc() : NULL;
    text[0] = '\0';
    if (idle && sched_getaffinity(0, sizeof cpus, &cpus) == 0) {
        for (size_t i = 0; i < CPU_SETSIZE; i++)
            if (CPU_ISSET(i, &cpus) && !CPU_ISSET(i, &pool->first) && !CPU_ISSET(i, &pool->others))
                (void)hwloc_bitmap_set(idle, (unsigned)i);
        if (!hwloc_bitmap_iszero(idle))
            (void)hwloc_bitmap_list_snprintf(text, size, idle);
    }
    hwloc_bitmap_free(idle);
}

enum kt_status kt_pool_lock(struct kt_pool *pool, struct kt_error *error)
{
    if (pool->pid != getpid())
        return kt_fail(error, KT_E_STATE,
                       "this process is a fork of the one that made the context, without its threads; "
                       "make a context after the fork");
    (void)pthread_mutex_lock(&pool->lock);
    return KT_OK;
}

void kt_pool_unlock(struct kt_pool *pool)
{
    (void)pthread_mutex_unlock(&pool->lock);
}

/* A caller that runs on another thread's core would halve the speed of both, so it moves to the core of
 * thread 0 for the run. */
static bool step_aside(const struct kt_pool *pool, cpu_set_t *before)
{
    int cpu = pool->bound ? sched_getcpu() : -1;
    return cpu >= 0 && cpu < CPU_SETSIZE && CPU_ISSET((size_t)cpu, &pool->others) &&
           sched_getaffinity(0, sizeof *before, before) == 0 &&
           sched_setaffinity(0, sizeof pool->first, &pool->first) == 0;
}

void kt_pool_run(struct kt_pool *pool, kt_pool_fn function, void *argument)
{
    for (uint32_t n = 0; n < pool->n_nodes; n++)
        for (int c = 0; c < KT_POOL_COUNTERS; c++)
            atomic_store_explicit(&pool->subpool[n].counter[c].next, 0, memory_order_relaxed);
    if (pool->n_threads == 1) {
        function(&pool->worker[0], argument);
        return;
    }
    cpu_set_t before;
    bool moved = step_aside(pool, &before);
    pool->function = function;
    pool->argument = argument;
    atomic_store_explicit(&pool->unfinished, pool->n_threads - 1, memory_order_relaxed);
    unsigned done = kt_event_value(&pool->done);
    kt_event_set(&pool->start, kt_event_value(&pool->start) + 1);
    function(&pool->worker[0], argument);
    (void)kt_event_wait(&pool->done, done, pool->busy);
    if (moved)
        (void)sched_setaffinity(0, sizeof before, &before);
}

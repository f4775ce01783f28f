/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - the threads of a context: a sub-pool per NUMA node, each thread bound to a core.
 *
 * One run calls one function on every thread; inside it, stages are separated by the barriers below
 * and tasks are claimed from the counters. The caller of a run takes part as thread 0, so a pool of n
 * threads starts n - 1. Runs of different callers follow one another.
 */
#ifndef KT_CORE_MACHINE_POOL_H
#define KT_CORE_MACHINE_POOL_H

#include "core/machine/event.h"
#include "core/machine/topology.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

#define KT_POOL_COUNTERS 4

struct kt_pool;

struct kt_subpool {
    uint32_t first_thread;
    uint32_t n_threads;
    struct kt_barrier barrier;
    /* Task counters of the node's stages: thread 0 of the pool zeroes them before a run. */
    struct {
        _Alignas(64) atomic_uint_fast32_t next;
    } counter[KT_POOL_COUNTERS];
};

struct kt_worker {
    struct kt_pool *pool;
    struct kt_subpool *subpool;
    uint32_t index; /* in the pool */
    uint32_t node;  /* index in the topology */
    uint32_t index_in_node;
    pthread_t thread;
};

typedef void (*kt_pool_fn)(struct kt_worker *worker, void *argument);

struct kt_pool {
    uint32_t n_threads;
    uint32_t n_nodes;
    struct kt_worker *worker;
    struct kt_subpool *subpool;
    struct kt_barrier barrier; /* of all threads */
    struct kt_patience idle;   /* between runs */
    struct kt_patience busy;   /* within one */
    struct kt_event start;     /* counts runs */
    struct kt_event done;      /* counts finished runs */
    atomic_uint unfinished;
    atomic_bool stop;
    kt_pool_fn function;
    void *argument;
    pthread_mutex_t lock; /* held by the caller of a run */
    uint32_t n_started;
    uint32_t bind_failures;
    bool bound;
    bool full;        /* every CPU of this process belongs to one of the threads */
    cpu_set_t others; /* cores of the threads 1.. */
    cpu_set_t first;  /* the core of thread 0 */
    pid_t pid;
};

/**
 * Starts threads for `n_threads` in all (0: one a core, or fewer, not bound to single cores, where control
 * groups have a quota of CPU time), distributed over the nodes in proportion to cores.
 * Fewer threads than nodes leave the last nodes out: pool->n_nodes says how many are used.
 */
enum kt_status kt_pool_create(const struct kt_topology *topology, uint32_t n_threads, uint32_t spin_us,
                              struct kt_pool **pool, struct kt_error *error);
void kt_pool_destroy(struct kt_pool *pool);

/** CPUs that this process may use and that are no thread's core, as "4-7,12"; "" where threads are not
 *  bound. */
void kt_pool_idle_cpus(const struct kt_pool *pool, char *text, size_t size);

/** Reserves the pool for the preparation of a run and the run; KT_E_STATE in a forked child. */
enum kt_status kt_pool_lock(struct kt_pool *pool, struct kt_error *error);
void kt_pool_unlock(struct kt_pool *pool);

/** Calls function(worker, argument) on every thread and returns when all have. The lock is held. */
void kt_pool_run(struct kt_pool *pool, kt_pool_fn function, void *argument);

/** The number of the next task of this worker's node; the caller stops when it is beyond the last task. */
static inline uint32_t kt_worker_claim(struct kt_worker *worker, int counter)
{
    return (uint32_t)atomic_fetch_add_explicit(&worker->subpool->counter[counter].next, 1,
                                               memory_order_relaxed);
}

/** The same of any node: threads that have nothing left to do help other nodes. */
static inline uint32_t kt_worker_claim_of(struct kt_worker *worker, uint32_t node, int counter)
{
    return (uint32_t)atomic_fetch_add_explicit(&worker->pool->subpool[node].counter[counter].next, 1,
                                               memory_order_relaxed);
}

static inline void kt_worker_node_barrier(struct kt_worker *worker)
{
    kt_barrier_wait(&worker->subpool->barrier, worker->pool->busy);
}

static inline void kt_worker_barrier(struct kt_worker *worker)
{
    kt_barrier_wait(&worker->pool->barrier, worker->pool->busy);
}

#endif

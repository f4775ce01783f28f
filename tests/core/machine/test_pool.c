/* SPDX-License-Identifier: Apache-2.0 */
/* test_pool.c - events, barriers, task counters and runs, on topologies that hwloc makes up. */
#define _GNU_SOURCE
#include "core/machine/buffer.h"
#include "core/machine/pool.h"
#include "core/machine/quota.h"
#include "core/machine/topology.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct work {
    atomic_uint calls;
    atomic_uint claimed[64];
    atomic_uint arrived;
    atomic_uint wrong;
    uint32_t n_threads;
};

static struct kt_topology *topology_of(const char *nodes)
{
    struct kt_topology *topology = NULL;
    struct kt_error error = {KT_OK, ""};
    ck_assert_msg(kt_topology_create(nodes, &topology, &error) == KT_OK, "%s", error.message);
    return topology;
}

static struct kt_pool *pool_of(const struct kt_topology *topology, uint32_t threads, uint32_t spin_us)
{
    struct kt_pool *pool = NULL;
    struct kt_error error = {KT_OK, ""};
    ck_assert_msg(kt_pool_create(topology, threads, spin_us, &pool, &error) == KT_OK, "%s", error.message);
    return pool;
}

static void claim_all(struct kt_worker *worker, void *argument)
{
    struct work *work = argument;
    atomic_fetch_add(&work->calls, 1);
    while (kt_worker_claim(worker, 1) < 100)
        atomic_fetch_add(&work->claimed[worker->node], 1);
    kt_worker_node_barrier(worker);
    if (atomic_load(&work->claimed[worker->node]) != 100)
        atomic_fetch_add(&work->wrong, 1);
    atomic_fetch_add(&work->arrived, 1);
    kt_worker_barrier(worker);
    if (atomic_load(&work->arrived) != work->n_threads)
        atomic_fetch_add(&work->wrong, 1);
}

static void run_often(struct kt_pool *pool, int times)
{
    struct kt_error error;
    for (int i = 0; i < times; i++) {
        struct work work = {.n_threads = pool->n_threads};
        ck_assert_int_eq(kt_pool_lock(pool, &error), KT_OK);
        kt_pool_run(pool, claim_all, &work);
        kt_pool_unlock(pool);
        ck_assert_uint_eq(atomic_load(&work.calls), pool->n_threads);
        ck_assert_uint_eq(atomic_load(&work.wrong), 0);
        for (uint32_t n = 0; n < pool->n_nodes; n++)
            ck_assert_uint_eq(atomic_load(&work.claimed[n]), 100);
    }
}

/* Spinning, sleeping at once, more threads than cores, one thread. */
START_TEST(test_runs)
{
    static const uint32_t threads[] = {0, 1, 2, 3, 7};
    static const uint32_t spins[] = {0, 200};
    struct kt_topology *topology = topology_of("all");
    struct kt_pool *pool = pool_of(topology, threads[_i % 5], spins[_i / 5]);
    uint32_t own = kt_quota_threads(topology->quota, topology->n_cores);
    ck_assert_uint_eq(pool->n_threads, threads[_i % 5] ? threads[_i % 5] : own);
    run_often(pool, 300);
    kt_pool_destroy(pool);
    kt_topology_destroy(topology);
}
END_TEST

/* With one thread, all CPUs but its core's; with a thread a core, none. */
START_TEST(test_idle_cpus)
{
    struct kt_topology *topology = topology_of("all");
    struct kt_pool *all = pool_of(topology, topology->n_cores, 0), *one = pool_of(topology, 1, 0);
    cpu_set_t cpus;
    char text[96];
    ck_assert_int_eq(sched_getaffinity(0, sizeof cpus, &cpus), 0);
    kt_pool_idle_cpus(one, text, sizeof text);
    ck_assert_int_eq(text[0] != '\0', one->bound && CPU_COUNT(&one->first) < CPU_COUNT(&cpus));
    kt_pool_idle_cpus(all, text, sizeof text);
    ck_assert_str_eq(text, all->bound ? topology->idle : "");
    kt_pool_destroy(one);
    kt_pool_destroy(all);
    kt_topology_destroy(topology);
}
END_TEST

START_TEST(test_shares)
{
    (void)setenv("HWLOC_SYNTHETIC", "numa:3 core:4 pu:2", 1);
    struct kt_topology *topology = topology_of("all");
    ck_assert_uint_eq(topology->n_nodes, 3);
    ck_assert_uint_eq(topology->n_cores, 12);
    struct kt_pool *pool = pool_of(topology, 8, 0);
    ck_assert_uint_eq(pool->n_nodes, 3);
    ck_assert_uint_eq(pool->subpool[0].n_threads, 3);
    ck_assert_uint_eq(pool->subpool[1].n_threads, 3);
    ck_assert_uint_eq(pool->subpool[2].n_threads, 2);
    ck_assert_uint_eq(pool->worker[5].node, 1);
    ck_assert_uint_eq(pool->worker[5].index_in_node, 2);
    run_often(pool, 50);
    kt_pool_destroy(pool);
    pool = pool_of(topology, 2, 0); /* fewer threads than nodes */
    ck_assert_uint_eq(pool->n_nodes, 2);
    run_often(pool, 10);
    kt_pool_destroy(pool);
    kt_topology_destroy(topology);
}
END_TEST

START_TEST(test_node_lists)
{
    static const struct {
        const char *list;
        enum kt_status status;
        uint32_t n_nodes;
        const char *text;
    } rows[] = {
        {"all", KT_OK, 4, ""},
        {"2", KT_OK, 1, ""},
        {"0,2-3", KT_OK, 3, ""},
        {"3-1", KT_E_CONFIG, 0, "not a list"},
        {"", KT_E_CONFIG, 0, "empty"},
        {"1,", KT_E_CONFIG, 0, "not a list"},
        {"a", KT_E_CONFIG, 0, "not a list"},
        {"-1", KT_E_CONFIG, 0, "not a list"},
        {"99999999999999999999", KT_E_CONFIG, 0, "not a list"},
        {"7", KT_E_CONFIG, 0, "node 7"},
    };
    (void)setenv("HWLOC_SYNTHETIC", "numa:4 core:2 pu:1", 1);
    struct kt_topology *topology = NULL;
    struct kt_error error = {KT_OK, ""};
    enum kt_status status = kt_topology_create(rows[_i].list, &topology, &error);
    ck_assert_msg(status == rows[_i].status, "%s: %s", rows[_i].list, error.message);
    if (status == KT_OK)
        ck_assert_uint_eq(topology->n_nodes, rows[_i].n_nodes);
    else
        ck_assert_ptr_nonnull(strstr(error.message, rows[_i].text));
    kt_topology_destroy(topology);
}
END_TEST

/* Its last byte, which is what was touched, and then all of it, without a change. */
START_TEST(test_touched_pages)
{
    struct kt_topology *topology = topology_of("all");
    static const struct {
        uint64_t size, pages;
    } cases[] = {{0, 0}, {1, 1}, {2u << 20, 1}, {(2u << 20) + 1, 2}, {5u << 20, 3}};
    struct kt_error error;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kt_buffer buffer;
        ck_assert_int_eq(kt_buffer_create(topology, 0, cases[i].size, i % 2, &buffer, &error), KT_OK);
        ck_assert_uint_eq(kt_buffer_pages(&buffer), cases[i].pages);
        for (uint64_t page = 0; page < cases[i].pages; page++) {
            uint64_t end = (page + 1) << 21;
            unsigned char resident = 0;
            uint8_t *last = (uint8_t *)buffer.data + (end < buffer.size ? end : buffer.size) - 1;
            kt_buffer_touch(&buffer, page);
            ck_assert_int_eq(mincore(last - 4095, 4096, &resident), 0);
            ck_assert_int_eq(resident & 1, 1);
            ck_assert_uint_eq(*last, 0);
            *last = 7;
            kt_buffer_touch(&buffer, page);
            ck_assert_uint_eq(*last, 7);
        }
        kt_buffer_destroy(&buffer);
    }
    kt_topology_destroy(topology);
}
END_TEST

START_TEST(test_buffers)
{
    struct kt_topology *topology = topology_of("all");
    static const uint64_t sizes[] = {1, 64, 4096, 100000, (2u << 20) - 1, 5u << 20};
    struct kt_error error;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct kt_buffer buffer;
        ck_assert_int_eq(kt_buffer_create(topology, 0, sizes[i], i % 2, &buffer, &error), KT_OK);
        ck_assert_uint_ge(buffer.size, sizes[i]);
        ck_assert_uint_eq((uintptr_t)buffer.data % (sizes[i] > 2u << 20 ? 2u << 20 : 4096), 0);
        memset(buffer.data, 1, buffer.size);
        kt_buffer_destroy(&buffer);
        ck_assert_ptr_null(buffer.data);
    }
    struct kt_buffer huge;
    ck_assert_int_eq(kt_buffer_create(topology, 0, UINT64_MAX - 5, true, &huge, &error), KT_E_NOMEM);
    ck_assert_int_eq(kt_buffer_create(topology, 0, UINT64_C(1) << 60, true, &huge, &error), KT_E_NOMEM);
    ck_assert_int_eq(kt_buffer_create(topology, 0, 0, true, &huge, &error), KT_OK);
    kt_buffer_destroy(&huge);
    kt_topology_destroy(topology);
}
END_TEST

/* A quota decides if nobody else has. */
START_TEST(test_quota)
{
    struct kt_topology *topology = topology_of("all");
    uint32_t n_cores = topology->n_cores;
    for (uint32_t wanted = 0; wanted < 4; wanted++) {
        topology->quota = wanted % 2 ? 1 : 1000 * n_cores + 500;
        struct kt_pool *pool = pool_of(topology, wanted < 2 ? 0 : wanted, 0);
        ck_assert_uint_eq(pool->n_threads, wanted == 0 ? n_cores : wanted);
        if (wanted == 1 && n_cores > 1)
            ck_assert(!pool->bound); /* to none of the cores that it shares with others' quotas */
        kt_pool_destroy(pool);
    }
    kt_topology_destroy(topology);
}
END_TEST

/* A forked child has no threads: it is told so, and may free what it has. */
START_TEST(test_fork)
{
    struct kt_topology *topology = topology_of("all");
    struct kt_pool *pool = pool_of(topology, 2, 0);
    pid_t child = fork();
    if (child == 0) {
        struct kt_error error;
        int right = kt_pool_lock(pool, &error) == KT_E_STATE && strstr(error.message, "fork");
        kt_pool_destroy(pool);
        _exit(right ? 0 : 1);
    }
    int state = 0;
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    ck_assert_int_eq(state, 0);
    run_often(pool, 5);
    kt_pool_destroy(pool);
    kt_topology_destroy(topology);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_loop_test(all, test_runs, 0, 10);
    tcase_add_test(all, test_idle_cpus);
    tcase_add_test(all, test_touched_pages);
    tcase_add_test(all, test_buffers);
    tcase_add_test(all, test_quota);
    tcase_add_test(all, test_fork);
    suite_add_tcase(suite, all);
    TCase *synthetic = tcase_create("synthetic");
    tcase_add_test(synthetic, test_shares);
    tcase_add_loop_test(synthetic, test_node_lists, 0, 10);
    suite_add_tcase(suite, synthetic);
    return run_suite(suite);
}

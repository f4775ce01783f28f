/* SPDX-License-Identifier: Apache-2.0 */
/* test_topology.c - what is planned on machines that hwloc makes up: nodes, threads, their CPUs, shards. */
#include "core/context/context.h"
#include "core/machine/pool.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define INTERMEDIATE 48

/* Lists of CPUs and nodes are as taskset and numactl write them. */
struct machine {
    const char *name;
    const char *synthetic;  /* hwloc's description of it */
    const char *offline;    /* CPUs that are off, or that a control group keeps away */
    const char *mems;       /* the nodes that a control group leaves */
    const char *bound;      /* the CPUs that taskset left this process */
    const char *memoryless; /* nodes without memory */
    const char *fast;       /* CPUs of the faster kind */
    const char *nodes;      /* core.numa_nodes, or NULL */
    uint32_t threads;       /* core.threads */
    const char *plan;       /* "NODE: CPUS CPUS | NODE: CPUS": each node in use, the CPUs of each thread */
    const char *cuts;       /* where the shards of 48 columns end */
    const char *idle;       /* CPUs that are not used, or NULL */
};

/* Nodes 0 and 1 of the first package, 2 and 3 of the second. */
#define BOTH "pack:2 [numa(memory=2GB)] [numa(memory=1GB)] core:2 pu:1"
/* Node 2 near to both packages. */
#define CXL "[numa(memory=4GB)] pack:2 [numa(memory=2GB)] core:2 pu:1"

static const struct machine machines[] = {
    {"one node", "numa:1 core:4 pu:1", .plan = "0: 0 1 2 3", .cuts = "48"},
    {"SMT", "numa:1 core:4 pu:2", .plan = "0: 0-1 2-3 4-5 6-7", .cuts = "48"},
    {"SMT, siblings far apart", "numa:1 core:4 pu:2(indexes=0,4,1,5,2,6,3,7)", .plan = "0: 0,4 1,5 2,6 3,7",
     .cuts = "48"},
    {"two packages", "pack:2 [numa] core:2 pu:1", .plan = "0: 0 1 | 1: 2 3", .cuts = "24 48"},
    {"CPUs numbered in turns", "pack:2 [numa] core:2 pu:1(indexes=0,2,1,3)", .plan = "0: 0 2 | 1: 1 3",
     .cuts = "24 48"},
    {"nodes numbered backwards", "pack:2 [numa(indexes=1,0)] core:2 pu:1", .plan = "1: 0 1 | 0: 2 3",
     .cuts = "24 48"},
    {"three nodes, SMT", "numa:3 core:2 pu:2", .plan = "0: 0-1 2-3 | 1: 4-5 6-7 | 2: 8-9 10-11",
     .cuts = "16 32 48"},
    {"five nodes: 48 is not a multiple", "numa:5 core:1 pu:1", .plan = "0: 0 | 1: 1 | 2: 2 | 3: 3 | 4: 4",
     .cuts = "10 19 29 38 48"},
    {"eight nodes", "numa:8 core:1 pu:1", .plan = "0: 0 | 1: 1 | 2: 2 | 3: 3 | 4: 4 | 5: 5 | 6: 6 | 7: 7",
     .cuts = "6 12 18 24 30 36 42 48"},
    {"sixteen nodes", "pack:4 numa:4 core:1 pu:1",
     .plan = "0: 0 | 1: 1 | 2: 2 | 3: 3 | 4: 4 | 5: 5 | 6: 6 | 7: 7 | 8: 8 | 9: 9 | 10: 10 | 11: 11 | "
             "12: 12 | 13: 13 | 14: 14 | 15: 15",
     .cuts = "3 6 9 12 15 18 21 24 27 30 33 36 39 42 45 48"},
    {"SNC-2", "pack:2 numa:2 core:2 pu:1", .plan = "0: 0 1 | 1: 2 3 | 2: 4 5 | 3: 6 7",
     .cuts = "12 24 36 48"},
    {"SNC-3", "pack:2 numa:3 core:1 pu:2", .plan = "0: 0-1 | 1: 2-3 | 2: 4-5 | 3: 6-7 | 4: 8-9 | 5: 10-11",
     .cuts = "8 16 24 32 40 48"},
    {"caches below nodes", "pack:2 numa:2 l3:2 core:1 pu:2",
     .plan = "0: 0-1 2-3 | 1: 4-5 6-7 | 2: 8-9 10-11 | 3: 12-13 14-15", .cuts = "12 24 36 48"},
    {"more packages than nodes", "numa:2 pack:2 core:2 pu:1", .plan = "0: 0 1 2 3 | 1: 4 5 6 7",
     .cuts = "24 48"},
    {"no cores are shown", "numa:2 pu:3", .plan = "0: 0 1 2 | 1: 3 4 5", .cuts = "24 48"},

    {"HBM beside DRAM", BOTH, .plan = "0: 0 1 | 2: 2 3", .cuts = "24 48"},
    {"HBM is asked for", BOTH, .nodes = "1,3", .plan = "1: 0 1 | 3: 2 3", .cuts = "24 48"},
    {"HBM only", BOTH, .memoryless = "0,2", .plan = "1: 0 1 | 3: 2 3", .cuts = "24 48"},
    {"CXL beside all", CXL, .plan = "0: 0 1 | 1: 2 3", .cuts = "24 48"},
    {"CXL is asked for", CXL, .nodes = "2", .plan = "2: 0 1 2 3", .cuts = "48"},
    {"CXL only", CXL, .memoryless = "0,1", .plan = "2: 0 1 2 3", .cuts = "48"},
    {"CXL for one package", CXL, .memoryless = "1", .plan = "0: 0 1 | 2: 2 3", .cuts = "24 48"},

    {"a node without memory", "numa:3 core:2 pu:1", .memoryless = "1", .plan = "0: 0 1 | 2: 4 5",
     .cuts = "24 48", .idle = "2-3"},
    {"the first node has none", "numa:2 core:2 pu:1", .memoryless = "0", .plan = "1: 2 3", .cuts = "48",
     .idle = "0-1"},
    {"nobody knows the memory", "numa:2 core:1 pu:1", .memoryless = "0-1", .plan = "0: 0 | 1: 1",
     .cuts = "24 48"},
    {"a node without CPUs", "numa:3 core:2 pu:1", .offline = "2-3", .plan = "0: 0 1 | 2: 4 5",
     .cuts = "24 48"},
    {"cores are off", "numa:2 core:4 pu:1", .offline = "5-7", .plan = "0: 0 1 2 3 | 1: 4", .cuts = "38 48"},
    {"siblings are off", "numa:2 core:2 pu:2", .offline = "1,7", .plan = "0: 0 2-3 | 1: 4-5 6",
     .cuts = "24 48"},

    {"taskset: one node", "numa:2 core:2 pu:1", .bound = "2-3", .plan = "1: 2 3", .cuts = "48"},
    {"taskset: a part of each", "numa:2 core:4 pu:1", .bound = "0,5-7", .plan = "0: 0 | 1: 5 6 7",
     .cuts = "12 48"},
    {"taskset: one sibling of each core", "numa:2 core:2 pu:2", .bound = "0,2,5,7", .plan = "0: 0 2 | 1: 5 7",
     .cuts = "24 48"},
    {"taskset: through a core", "numa:1 core:3 pu:2", .bound = "0-2", .plan = "0: 0-1 2", .cuts = "48"},
    {"taskset: CPUs that are not there", "numa:2 core:1 pu:1", .bound = "64-71", .plan = "0: 0 | 1: 1",
     .cuts = "24 48"},
    {"control group and taskset", "numa:2 core:4 pu:1", .offline = "0-1", .bound = "1-5",
     .plan = "0: 2 3 | 1: 4 5", .cuts = "24 48"},
    {"control group: one node's memory", "numa:2 core:2 pu:1", .mems = "1", .plan = "1: 2 3", .cuts = "48",
     .idle = "0-1"},

    {"slow cores first", "numa:1 core:8 pu:1", .fast = "4-7", .plan = "0: 4 5 6 7 0 1 2 3", .cuts = "48"},
    {"fast cores for few threads", "numa:1 core:8 pu:1", .fast = "6-7", .threads = 3, .plan = "0: 6 7 0",
     .cuts = "48"},
    {"fast cores with SMT, slow without", "numa:1 core:4 pu:2", .offline = "5,7", .fast = "0-3",
     .plan = "0: 0-1 2-3 4 6", .cuts = "48"},
    {"fast cores on two nodes", "numa:2 core:3 pu:1", .fast = "1-2,5", .threads = 4,
     .plan = "0: 1 2 | 1: 5 3", .cuts = "24 48"},

    {"a list skips a node", "numa:4 core:2 pu:1", .nodes = "0,2-3", .plan = "0: 0 1 | 2: 4 5 | 3: 6 7",
     .cuts = "16 32 48"},
    {"a list of one", "numa:4 core:2 pu:1", .nodes = "2", .plan = "2: 4 5", .cuts = "48"},
    {"a list and fewer threads", "numa:4 core:2 pu:1", .nodes = "1,3", .threads = 3, .plan = "1: 2 3 | 3: 6",
     .cuts = "32 48"},
    {"fewer threads than nodes", "numa:4 core:2 pu:1", .threads = 2, .plan = "0: 0 | 1: 2", .cuts = "24 48"},
    {"one thread", "numa:4 core:2 pu:1", .threads = 1, .plan = "0: 0", .cuts = "48"},
    {"more threads than cores", "numa:2 core:1 pu:1", .threads = 5, .plan = "0: 0 0 0 | 1: 1 1",
     .cuts = "29 48"},
    {"uneven nodes, half the threads", "numa:2 core:6 pu:1", .offline = "8-11", .threads = 4,
     .plan = "0: 0 1 2 | 1: 6", .cuts = "36 48"},
    {"uneven nodes, all but one thread", "numa:2 core:6 pu:1", .offline = "0-3", .threads = 7,
     .plan = "0: 4 5 | 1: 6 7 8 9 10", .cuts = "14 48"},
    {"one thread for each node", "numa:3 core:4 pu:1", .offline = "5-7", .threads = 3,
     .plan = "0: 0 | 1: 4 | 2: 8", .cuts = "16 32 48"},
};

/* What is asked for and cannot be; `plan` is what the error says. */
static const struct machine refused[] = {
    {"no memory", "numa:2 core:1 pu:1", .memoryless = "1", .nodes = "0-1",
     .plan = "node 1, but it has no memory"},
    {"no CPUs", "numa:2 core:1 pu:1", .offline = "1", .nodes = "1", .plan = "node 1, but it has no core"},
    {"not in the cpuset", "numa:2 core:1 pu:1", .bound = "0", .nodes = "1",
     .plan = "node 1, but it has no core"},
    {"DRAM and HBM", BOTH, .nodes = "0,1", .plan = "node 1, but its cores belong to another"},
    {"DRAM and CXL", CXL, .nodes = "0-2", .plan = "node 2, but its cores belong to another"},
    {"not in the control group", "numa:2 core:1 pu:1", .mems = "0", .nodes = "0-1", .plan = "node 1, which"},
    {"not there", "numa:2 core:1 pu:1", .nodes = "1-2", .plan = "node 2, which"},
    {"too many", "numa:65 core:1 pu:1", .plan = "65 NUMA nodes are more than 64"},
};

/* ---- hwloc's answers ---- */

static const struct machine *machine;

int __real_hwloc_topology_load(hwloc_topology_t topology);
int __wrap_hwloc_topology_load(hwloc_topology_t topology);
int __real_hwloc_topology_is_thissystem(hwloc_topology_t topology);
int __wrap_hwloc_topology_is_thissystem(hwloc_topology_t topology);
int __real_hwloc_get_cpubind(hwloc_topology_t topology, hwloc_cpuset_t set, int flags);
int __wrap_hwloc_get_cpubind(hwloc_topology_t topology, hwloc_cpuset_t set, int flags);

static hwloc_bitmap_t set_of(const char *list)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    ck_assert_int_eq(hwloc_bitmap_list_sscanf(set, list), 0);
    return set;
}

static void take_memory(hwloc_topology_t topology)
{
    hwloc_bitmap_t without = set_of(machine->memoryless);
    hwloc_obj_t node = NULL;
    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)))
        if (hwloc_bitmap_isset(without, node->os_index))
            node->attr->numanode.local_memory = 0;
    hwloc_bitmap_free(without);
}

static void make_kinds(hwloc_topology_t topology)
{
    hwloc_bitmap_t fast = set_of(machine->fast), slow = hwloc_bitmap_alloc();
    hwloc_bitmap_andnot(slow, hwloc_topology_get_topology_cpuset(topology), fast);
    ck_assert_int_eq(hwloc_cpukinds_register(topology, fast, 2, 0, NULL, 0), 0);
    ck_assert_int_eq(hwloc_cpukinds_register(topology, slow, 1, 0, NULL, 0), 0);
    hwloc_bitmap_free(fast);
    hwloc_bitmap_free(slow);
}

int __wrap_hwloc_topology_load(hwloc_topology_t topology)
{
    int result = __real_hwloc_topology_load(topology);
    if (result != 0 || !machine)
        return result;
    if (machine->memoryless)
        take_memory(topology);
    if (machine->fast)
        make_kinds(topology);
    if (machine->offline) {
        hwloc_bitmap_t on = set_of(machine->offline);
        hwloc_bitmap_not(on, on);
        ck_assert_int_eq(hwloc_topology_restrict(topology, on, 0), 0);
        hwloc_bitmap_free(on);
    }
    if (machine->mems) {
        hwloc_bitmap_t mems = set_of(machine->mems);
        ck_assert_int_eq(hwloc_topology_restrict(topology, mems, HWLOC_RESTRICT_FLAG_BYNODESET), 0);
        hwloc_bitmap_free(mems);
    }
    return 0;
}

/* A binding of the process counts on this system only. */
int __wrap_hwloc_topology_is_thissystem(hwloc_topology_t topology)
{
    return machine && machine->bound ? 1 : __real_hwloc_topology_is_thissystem(topology);
}

int __wrap_hwloc_get_cpubind(hwloc_topology_t topology, hwloc_cpuset_t set, int flags)
{
    if (!machine || !machine->bound)
        return __real_hwloc_get_cpubind(topology, set, flags);
    return hwloc_bitmap_list_sscanf(set, machine->bound);
}

/* ---- plans ---- */

static void set_up(const struct machine *which, struct kt_context **context, struct kt_error *error)
{
    char threads[32], nodes[64];
    const char *const settings[] = {threads, nodes, "core.spin_us=0"};
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_config *config = NULL;
    machine = which;
    (void)snprintf(threads, sizeof threads, "core.threads=%u", which->threads);
    (void)snprintf(nodes, sizeof nodes, "core.numa_nodes=%s", which->nodes ? which->nodes : "all");
    params.settings = settings;
    params.n_settings = COUNT(settings);
    ck_assert_int_eq(setenv("HWLOC_SYNTHETIC", which->synthetic, 1), 0);
    ck_ok(kt_config_create(&params, &config, &ck_error));
    error->status = kt_context_create(config, context, error);
    kt_config_destroy(config);
}

static hwloc_const_cpuset_t cpus_of(const struct kt_context *context, const struct kt_worker *worker)
{
    const struct kt_node *node = &context->topology->node[worker->node];
    return node->core[worker->index_in_node % node->n_cores];
}

static void write_plan(const struct kt_context *context, char *text, size_t size)
{
    size_t length = 0;
    for (uint32_t i = 0; i < context->pool->n_threads; i++) {
        const struct kt_worker *worker = &context->pool->worker[i];
        char cpus[64];
        (void)hwloc_bitmap_list_snprintf(cpus, sizeof cpus, cpus_of(context, worker));
        if (worker->index_in_node == 0)
            length += (size_t)snprintf(text + length, size - length, "%s%u:", i ? " | " : "",
                                       context->topology->node[worker->node].os_index);
        length += (size_t)snprintf(text + length, size - length, " %s", cpus);
    }
}

/* True of every plan: threads on CPUs of their node that are allowed, and on different ones while these last.
 */
static void check_threads(const struct kt_context *context)
{
    const struct kt_pool *pool = context->pool;
    hwloc_bitmap_t used = hwloc_bitmap_alloc(), kept = set_of(machine->bound ? machine->bound : "0-1023");
    hwloc_obj_t object = NULL;
    if (!hwloc_bitmap_intersects(kept, hwloc_topology_get_allowed_cpuset(context->topology->hwloc)))
        hwloc_bitmap_fill(kept);
    for (uint32_t i = 0; i < pool->n_threads; i++) {
        hwloc_const_cpuset_t cpus = cpus_of(context, &pool->worker[i]);
        const struct kt_node *node = &context->topology->node[pool->worker[i].node];
        object = hwloc_get_numanode_obj_by_os_index(context->topology->hwloc, node->os_index);
        ck_assert(!hwloc_bitmap_iszero(cpus) && hwloc_bitmap_isincluded(cpus, object->cpuset));
        ck_assert(hwloc_bitmap_isincluded(cpus, kept));
        if (pool->n_threads <= context->topology->n_cores)
            ck_assert(!hwloc_bitmap_intersects(cpus, used));
        hwloc_bitmap_or(used, used, cpus);
    }
    hwloc_bitmap_free(used);
    hwloc_bitmap_free(kept);
}

/* Shards follow one another without a gap, each in proportion to its threads and cut at whole units. */
static void check_shards(const struct kt_context *context, const struct kt_plan *plan, uint64_t size,
                         uint64_t unit)
{
    uint64_t at = 0;
    ck_assert_uint_eq(plan->n_nodes, context->pool->n_nodes);
    for (uint32_t n = 0; n < plan->n_nodes; n++) {
        uint64_t begin = plan->node[n].intermediate_begin, end = plan->node[n].intermediate_end;
        uint64_t share = size * context->pool->subpool[n].n_threads / context->pool->n_threads;
        ck_assert_uint_eq(begin, at);
        ck_assert(end == size || end % unit == 0);
        ck_assert(end - begin < share + 2 * unit && end - begin + 2 * unit > share);
        ck_assert((plan->node[n].weight_size + plan->node[n].buffer_size > 0) == (end > begin));
        at = end;
    }
    ck_assert_uint_eq(at, size);
}

static void check_cuts(const struct fixture *fixture, const char *cuts)
{
    char text[128] = "";
    struct kt_plan plan;
    ck_ok(kt_layer_plan(fixture->layer, fixture->experts, &plan, &ck_error));
    check_shards(fixture->context, &plan, INTERMEDIATE, 1);
    for (uint32_t n = 0; n < plan.n_nodes; n++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", n ? " " : "",
                       (int)plan.node[n].intermediate_end);
    ck_assert_str_eq(text, cuts);
}

/* Blocks of 256 columns: more units than nodes, and fewer. */
static void check_blocks(struct kt_context *context, uint64_t size)
{
    struct fixture shape = {.n_experts = 2, .top_k = 1, .hidden = 256, .intermediate = size, .max_tokens = 4};
    struct kt_layer_params params = fixture_params(&shape);
    struct kt_layer *layer = NULL;
    struct kt_expert expert = {.gate_bias = NULL};
    struct kt_plan plan;
    uint64_t bytes = size * 144;
    char *data = calloc(bytes, 1);
    ck_ok(kt_view_dense(&expert.gate, KT_DTYPE_Q4_K, data, bytes, size, 256, &ck_error));
    ck_ok(kt_view_dense(&expert.up, KT_DTYPE_Q4_K, data, bytes, size, 256, &ck_error));
    ck_ok(kt_view_dense(&expert.down, KT_DTYPE_Q4_K, data, bytes, 256, size, &ck_error));
    ck_ok(kt_layer_create(context, &params, &layer, &ck_error));
    ck_ok(kt_layer_plan(layer, &expert, &plan, &ck_error));
    check_shards(context, &plan, size, 256);
    kt_layer_destroy(layer);
    free(data);
}

/* Right on any nodes, and the same bits again. */
static void check_forward(struct fixture *fixture)
{
    size_t size = fixture->n_tokens * fixture->hidden * sizeof(float);
    struct kt_forward forward = fixture_forward(fixture);
    fixture_model(fixture);
    ck_ok(kt_layer_load(fixture->layer, fixture->experts, fixture->n_experts, &ck_error));
    ck_ok(kt_layer_forward(fixture->layer, &forward, &ck_error));
    ck_assert_double_le(fixture_error(fixture), 2e-6);
    float *first = malloc(size);
    memcpy(first, fixture->output, size);
    memset(fixture->output, 0x55, size);
    ck_ok(kt_layer_forward(fixture->layer, &forward, &ck_error));
    ck_assert_mem_eq(first, fixture->output, size);
    free(first);
}

START_TEST(test_machine)
{
    struct fixture fixture = {.intermediate = INTERMEDIATE, .bias = 1};
    struct kt_error error = {KT_OK, ""};
    char plan[512] = "";
    set_up(&machines[_i], &fixture.context, &error);
    ck_assert_msg(error.status == KT_OK, "%s: %s", machine->name, error.message);
    write_plan(fixture.context, plan, sizeof plan);
    ck_assert_msg(strcmp(plan, machine->plan) == 0, "%s: %s, not %s", machine->name, plan, machine->plan);
    ck_assert_str_eq(fixture.context->topology->idle, machine->idle ? machine->idle : "");
    check_threads(fixture.context);
    fixture_fill(&fixture, (uint64_t)_i);
    struct kt_layer_params params = fixture_params(&fixture);
    ck_ok(kt_layer_create(fixture.context, &params, &fixture.layer, &ck_error));
    check_cuts(&fixture, machine->cuts);
    check_blocks(fixture.context, 256);
    check_blocks(fixture.context, 768);
    check_blocks(fixture.context, 4096);
    check_forward(&fixture);
    fixture_free(&fixture);
}
END_TEST

START_TEST(test_refused)
{
    struct kt_context *context = NULL;
    struct kt_error error = {KT_OK, ""};
    set_up(&refused[_i], &context, &error);
    ck_assert_msg(error.status != KT_OK && strstr(error.message, machine->plan), "%s: %s", machine->name,
                  error.message);
    ck_assert_ptr_null(context);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_loop_test(all, test_machine, 0, (int)COUNT(machines));
    tcase_add_loop_test(all, test_refused, 0, (int)COUNT(refused));
    return run_tests("topology", all);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "core/machine/topology.h"

#include "core/base/error.h"
#include "core/machine/quota.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const char no_memory[] = "no memory for the list of NUMA nodes";

/* The set of OS node numbers in "0,2-3"; at most 1023. */
static enum kt_status parse_nodes(const char *text, hwloc_bitmap_t set, struct kt_error *error)
{
    const char *at = text;
    while (*at) {
        char *end = NULL;
        errno = 0;
        unsigned long first = isdigit((unsigned char)*at) ? strtoul(at, &end, 10) : 1024;
        unsigned long last = first;
        if (end && *end == '-' && isdigit((unsigned char)end[1]))
            last = strtoul(end + 1, &end, 10);
        if (!end || errno || first > last || last > 1023 || (*end && *end != ',') || (*end == ',' && !end[1]))
            return kt_fail(error, KT_E_CONFIG,
                           "core.numa_nodes = %s: not a list of node numbers; write all, 0 or 0,2-3", text);
        hwloc_bitmap_set_range(set, (unsigned)first, (int)last);
        at = *end ? end + 1 : end;
    }
    if (hwloc_bitmap_iszero(set))
        return kt_fail(error, KT_E_CONFIG, "core.numa_nodes is empty; write all, 0 or 0,2-3");
    return KT_OK;
}

static enum kt_status add_core(struct kt_node *node, hwloc_const_cpuset_t core, hwloc_cpuset_t left)
{
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    if (!cpus)
        return KT_E_NOMEM;
    hwloc_bitmap_and(cpus, core, left);
    hwloc_bitmap_andnot(left, left, cpus);
    node->core[node->n_cores++] = cpus;
    return KT_OK;
}

/* The rank of a core's speed by hwloc; 0 if all are alike or nothing is known. */
static int rank_core(hwloc_topology_t hwloc, hwloc_const_cpuset_t core)
{
    int efficiency = 0, kind = hwloc_cpukinds_get_by_cpuset(hwloc, core, 0);
    if (kind < 0 || hwloc_cpukinds_get_info(hwloc, (unsigned)kind, NULL, &efficiency, NULL, NULL, 0) != 0)
        return 0;
    return efficiency;
}

/* Faster cores first, so that few threads use these; a stable sort. */
static void order_cores(hwloc_topology_t hwloc, struct kt_node *node)
{
    for (uint32_t i = 1; i < node->n_cores; i++) {
        hwloc_cpuset_t core = node->core[i];
        int rank = rank_core(hwloc, core);
        uint32_t at = i;
        for (; at > 0 && rank_core(hwloc, node->core[at - 1]) < rank; at--)
            node->core[at] = node->core[at - 1];
        node->core[at] = core;
    }
}

/* The cores of `cpus`. taskset and control groups may allow only some PUs of a core; a PU without a core
 * counts as one. */
static enum kt_status list_cores(hwloc_topology_t hwloc, hwloc_const_cpuset_t cpus, struct kt_node *node)
{
    hwloc_bitmap_t left = hwloc_bitmap_dup(cpus);
    node->core = calloc((size_t)hwloc_bitmap_weight(cpus), sizeof *node->core);
    enum kt_status status = left && node->core ? KT_OK : KT_E_NOMEM;
    hwloc_obj_t core = NULL;
    while (status == KT_OK &&
           (core = hwloc_get_next_obj_covering_cpuset_by_type(hwloc, cpus, HWLOC_OBJ_CORE, core)))
        status = add_core(node, core->cpuset, left);
    while (status == KT_OK && !hwloc_bitmap_iszero(left))
        status =
            add_core(node, hwloc_get_pu_obj_by_os_index(hwloc, (unsigned)hwloc_bitmap_first(left))->cpuset,
                     left);
    hwloc_bitmap_free(left);
    if (status == KT_OK)
        order_cores(hwloc, node);
    return status;
}

static enum kt_status add_node(struct kt_topology *topology, hwloc_obj_t object, hwloc_const_cpuset_t cpus,
                               struct kt_error *error)
{
    struct kt_node *grown = realloc(topology->node, (topology->n_nodes + 1) * sizeof *topology->node);
    if (!grown)
        return kt_fail(error, KT_E_NOMEM, "%s", no_memory);
    topology->node = grown;
    struct kt_node *node = &grown[topology->n_nodes];
    *node = (struct kt_node){.os_index = object->os_index,
                             .memory = object->attr->numanode.local_memory,
                             .nodeset = hwloc_bitmap_dup(object->nodeset)};
    topology->n_nodes++; /* from here on destroy frees it */
    if (!node->nodeset || list_cores(topology->hwloc, cpus, node) != KT_OK)
        return kt_fail(error, KT_E_NOMEM, "no memory for the cores of NUMA node %u", node->os_index);
    topology->n_cores += node->n_cores;
    return KT_OK;
}

/* A node that may be used. */
struct candidate {
    hwloc_obj_t object;
    hwloc_cpuset_t cpus; /* those that it gets */
    const char *why;     /* the reason why it cannot be used, or NULL */
    bool decided;
};

/* Takes the CPUs that are left for the node, or says why it cannot be used. */
static void decide(struct candidate *candidate, hwloc_bitmap_t taken, bool memory_known)
{
    candidate->decided = true;
    if (hwloc_bitmap_iszero(candidate->cpus)) {
        candidate->why = "it has no core that this process may use";
    } else if (memory_known && candidate->object->attr->numanode.local_memory == 0) {
        candidate->why = "it has no memory";
    } else {
        hwloc_bitmap_andnot(candidate->cpus, candidate->cpus, taken);
        hwloc_bitmap_or(taken, taken, candidate->cpus);
        if (hwloc_bitmap_iszero(candidate->cpus))
            candidate->why = "its cores belong to another node in use";
    }
}

/* Memory that is local to few cores is preferred to memory that is local to many: DRAM of a package to CXL of
 * the machine. Of two that are local to the same cores, such as DRAM and HBM, the first is taken. */
static void decide_all(struct candidate *all, uint32_t n, hwloc_bitmap_t taken, bool memory_known)
{
    for (uint32_t done = 0; done < n; done++) {
        struct candidate *nearest = NULL;
        for (struct candidate *one = all; one < all + n; one++)
            if (!one->decided &&
                (!nearest || hwloc_bitmap_weight(one->cpus) < hwloc_bitmap_weight(nearest->cpus)))
                nearest = one;
        decide(nearest, taken, memory_known);
    }
}

/* The nodes that the user asked for (NULL: all), and the allowed CPUs of each. */
static enum kt_status list_candidates(struct kt_topology *topology, hwloc_const_bitmap_t wished,
                                      hwloc_const_cpuset_t allowed, struct candidate *all, uint32_t *n,
                                      struct kt_error *error)
{
    hwloc_bitmap_t missing = wished ? hwloc_bitmap_dup(wished) : hwloc_bitmap_alloc();
    enum kt_status status = missing ? KT_OK : kt_fail(error, KT_E_NOMEM, "%s", no_memory);
    hwloc_obj_t object = NULL;
    while (status == KT_OK &&
           (object = hwloc_get_next_obj_by_type(topology->hwloc, HWLOC_OBJ_NUMANODE, object))) {
        if (wished && !hwloc_bitmap_isset(wished, object->os_index))
            continue;
        hwloc_bitmap_clr(missing, object->os_index);
        all[*n] = (struct candidate){.object = object, .cpus = hwloc_bitmap_alloc()};
        if (!all[*n].cpus || hwloc_bitmap_and(all[*n].cpus, object->cpuset, allowed) != 0)
            status = kt_fail(error, KT_E_NOMEM, "%s", no_memory);
        *n += 1;
    }
    if (status == KT_OK && !hwloc_bitmap_iszero(missing))
        status =
            kt_fail(error, KT_E_CONFIG, "core.numa_nodes asks for node %d, which this machine does not have",
                    hwloc_bitmap_first(missing));
    hwloc_bitmap_free(missing);
    return status;
}

/* Makes the nodes of the topology from the accepted candidates. */
static enum kt_status take_nodes(struct kt_topology *topology, const struct candidate *all, uint32_t n,
                                 bool wished, struct kt_error *error)
{
    enum kt_status status = KT_OK;
    for (const struct candidate *one = all; one < all + n && status == KT_OK; one++) {
        if (!one->why)
            status = add_node(topology, one->object, one->cpus, error);
        else if (wished)
            status = kt_fail(error, KT_E_CONFIG,
                             "core.numa_nodes asks for node %u, but %s; leave it out of the list",
                             one->object->os_index, one->why);
    }
    return status;
}

static enum kt_status choose_nodes(struct kt_topology *topology, hwloc_const_bitmap_t wished,
                                   hwloc_const_cpuset_t allowed, hwloc_bitmap_t taken, struct kt_error *error)
{
    bool memory_known = false;
    hwloc_obj_t object = NULL;
    uint32_t most = 0, n = 0;
    while ((object = hwloc_get_next_obj_by_type(topology->hwloc, HWLOC_OBJ_NUMANODE, object))) {
        memory_known |= object->attr->numanode.local_memory != 0;
        most++;
    }
    struct candidate *all = calloc(most, sizeof *all);
    if (!all)
        return kt_fail(error, KT_E_NOMEM, "%s", no_memory);
    enum kt_status status = list_candidates(topology, wished, allowed, all, &n, error);
    if (status == KT_OK) {
        decide_all(all, n, taken, memory_known);
        status = take_nodes(topology, all, n, wished != NULL, error);
    }
    for (uint32_t i = 0; i < n; i++)
        hwloc_bitmap_free(all[i].cpus);
    free(all);
    return status;
}

/* CPUs that could run threads, but that are local to no node in use. */
static void find_idle(struct kt_topology *topology, hwloc_const_cpuset_t allowed, hwloc_const_cpuset_t taken,
                      hwloc_bitmap_t idle)
{
    (void)hwloc_bitmap_and(idle, allowed, hwloc_topology_get_topology_cpuset(topology->hwloc));
    (void)hwloc_bitmap_andnot(idle, idle, taken);
    if (!hwloc_bitmap_iszero(idle))
        (void)hwloc_bitmap_list_snprintf(topology->idle, sizeof topology->idle, idle);
}

static enum kt_status find_nodes(struct kt_topology *topology, const char *nodes, struct kt_error *error)
{
    hwloc_bitmap_t allowed = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology->hwloc));
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();
    hwloc_bitmap_t taken = hwloc_bitmap_alloc();
    hwloc_bitmap_t wished = strcmp(nodes, "all") != 0 ? hwloc_bitmap_alloc() : NULL;
    enum kt_status status = KT_OK;
    if (!allowed || !bound || !taken || (strcmp(nodes, "all") != 0 && !wished))
        status = kt_fail(error, KT_E_NOMEM, "%s", no_memory);
    /* taskset: the process may use the CPUs that it is bound to now. */
    if (status == KT_OK && topology->real &&
        hwloc_get_cpubind(topology->hwloc, bound, HWLOC_CPUBIND_PROCESS) == 0 &&
        hwloc_bitmap_intersects(allowed, bound))
        hwloc_bitmap_and(allowed, allowed, bound);
    if (status == KT_OK && wished)
        status = parse_nodes(nodes, wished, error);
    if (status == KT_OK)
        status = choose_nodes(topology, wished, allowed, taken, error);
    if (status == KT_OK && topology->n_nodes == 0)
        status = kt_fail(error, KT_E_SYSTEM,
                         "no NUMA node has a core that this process may use; check its cpuset");
    if (status == KT_OK && topology->n_nodes > 64)
        status = kt_fail(error, KT_E_UNSUPPORTED,
                         "%u NUMA nodes are more than 64; name those to use in core.numa_nodes",
                         topology->n_nodes);
    if (status == KT_OK && !wished)
        find_idle(topology, allowed, taken, bound);
    hwloc_bitmap_free(allowed);
    hwloc_bitmap_free(bound);
    hwloc_bitmap_free(taken);
    hwloc_bitmap_free(wished);
    return status;
}

/* hwloc does not look at all of its allocations: where memory ends, it crashes or never returns. So it starts
 * only where more is left than it takes, some 2 MB on large machines. Not by malloc and free: these would
 * raise the size from which on the whole program's memory is given back to the system. */
static enum kt_status check_room(struct kt_error *error)
{
    enum { ROOM = 8 << 20 };
    void *room = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return kt_fail(error, KT_E_NOMEM, "no memory to read this machine's topology");
    (void)munmap(room, ROOM);
    return KT_OK;
}

enum kt_status kt_topology_create(const char *nodes, struct kt_topology **out, struct kt_error *error)
{
    struct kt_topology *topology = calloc(1, sizeof *topology);
    if (!topology)
        return kt_fail(error, KT_E_NOMEM, "no memory for the topology");
    enum kt_status status = check_room(error);
    if (status != KT_OK) {
        topology->hwloc = NULL;
    } else if (hwloc_topology_init(&topology->hwloc) != 0) {
        topology->hwloc = NULL;
        status = kt_fail(error, KT_E_SYSTEM, "hwloc cannot start: %s", strerror(errno));
    } else if (hwloc_topology_load(topology->hwloc) != 0) {
        status = kt_fail(error, KT_E_SYSTEM, "hwloc cannot read this machine's topology: %s; try lstopo",
                         strerror(errno));
    }
    if (status == KT_OK) {
        topology->real = hwloc_topology_is_thissystem(topology->hwloc);
        topology->quota = topology->real ? kt_quota_read("") : 0;
        topology->binds_memory =
            topology->real && hwloc_get_nbobjs_by_type(topology->hwloc, HWLOC_OBJ_NUMANODE) > 1;
        status = find_nodes(topology, nodes, error);
    }
    if (status != KT_OK) {
        kt_topology_destroy(topology);
        return status;
    }
    *out = topology;
    return KT_OK;
}

void kt_topology_destroy(struct kt_topology *topology)
{
    if (!topology)
        return;
    for (uint32_t i = 0; i < topology->n_nodes; i++) {
        for (uint32_t core = 0; core < topology->node[i].n_cores; core++)
            hwloc_bitmap_free(topology->node[i].core[core]);
        free(topology->node[i].core);
        hwloc_bitmap_free(topology->node[i].nodeset);
    }
    free(topology->node);
    if (topology->hwloc)
        hwloc_topology_destroy(topology->hwloc);
    free(topology);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "core/topology.h"

#include "core/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
        if (!end || errno || first > last || last > 1023 || (*end && *end != ',') ||
            (*end == ',' && !end[1]))
            return kt_fail(error, KT_E_CONFIG,
                           "core.numa_nodes = %s: not a list of node numbers; write all, 0 or 0,2-3",
                           text);
        hwloc_bitmap_set_range(set, (unsigned)first, (int)last);
        at = *end ? end + 1 : end;
    }
    if (hwloc_bitmap_iszero(set))
        return kt_fail(error, KT_E_CONFIG, "core.numa_nodes is empty; write all, 0 or 0,2-3");
    return KT_OK;
}

/* Cores (or bare PUs where the topology shows none) of `cpus`, each cut to what is allowed. */
static enum kt_status list_cores(hwloc_topology_t hwloc, hwloc_const_cpuset_t cpus,
                                 struct kt_node *node)
{
    hwloc_obj_type_t type = HWLOC_OBJ_CORE;
    int n = hwloc_get_nbobjs_inside_cpuset_by_type(hwloc, cpus, type);
    /* A cpuset that cuts through a core leaves cores that are not wholly inside: count PUs then. */
    hwloc_bitmap_t covered = hwloc_bitmap_alloc();
    if (!covered)
        return KT_E_NOMEM;
    for (int i = 0; i < n; i++)
        hwloc_bitmap_or(covered, covered,
                        hwloc_get_obj_inside_cpuset_by_type(hwloc, cpus, type, (unsigned)i)->cpuset);
    int whole = n > 0 && hwloc_bitmap_isincluded(cpus, covered);
    hwloc_bitmap_free(covered);
    if (!whole) {
        type = HWLOC_OBJ_PU;
        n = hwloc_get_nbobjs_inside_cpuset_by_type(hwloc, cpus, type);
    }
    node->core = n > 0 ? calloc((size_t)n, sizeof *node->core) : NULL;
    if (n > 0 && !node->core)
        return KT_E_NOMEM;
    for (int i = 0; i < n; i++) {
        hwloc_obj_t object = hwloc_get_obj_inside_cpuset_by_type(hwloc, cpus, type, (unsigned)i);
        node->core[i] = hwloc_bitmap_dup(object->cpuset);
        if (!node->core[i])
            return KT_E_NOMEM;
        node->n_cores++;
    }
    return KT_OK;
}

static enum kt_status add_node(struct kt_topology *topology, hwloc_obj_t object,
                               hwloc_const_cpuset_t cpus, struct kt_error *error)
{
    struct kt_node *grown =
        realloc(topology->node, (topology->n_nodes + 1) * sizeof *topology->node);
    if (!grown)
        return kt_fail(error, KT_E_NOMEM, "no memory for the list of NUMA nodes");
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

/* Why a node cannot be used, or NULL. */
static const char *refuse(hwloc_obj_t object, hwloc_const_cpuset_t cpus, hwloc_const_cpuset_t taken,
                          int memory_known)
{
    if (hwloc_bitmap_iszero(cpus))
        return "it has no core that this process may use";
    if (memory_known && object->attr->numanode.local_memory == 0)
        return "it has no memory";
    if (hwloc_bitmap_intersects(cpus, taken))
        return "its cores belong to another node in use";
    return NULL;
}

static enum kt_status choose_nodes(struct kt_topology *topology, hwloc_const_bitmap_t wished,
                                   hwloc_const_cpuset_t allowed, hwloc_bitmap_t taken,
                                   hwloc_bitmap_t cpus, struct kt_error *error)
{
    hwloc_topology_t hwloc = topology->hwloc;
    int memory_known = 0;
    hwloc_obj_t object = NULL;
    while ((object = hwloc_get_next_obj_by_type(hwloc, HWLOC_OBJ_NUMANODE, object)))
        memory_known |= object->attr->numanode.local_memory != 0;

    hwloc_bitmap_t missing = wished ? hwloc_bitmap_dup(wished) : hwloc_bitmap_alloc();
    if (!missing)
        return kt_fail(error, KT_E_NOMEM, "no memory for the list of NUMA nodes");
    enum kt_status status = KT_OK;
    object = NULL;
    while (status == KT_OK &&
           (object = hwloc_get_next_obj_by_type(hwloc, HWLOC_OBJ_NUMANODE, object))) {
        if (wished && !hwloc_bitmap_isset(wished, object->os_index))
            continue;
        hwloc_bitmap_clr(missing, object->os_index);
        hwloc_bitmap_and(cpus, object->cpuset, allowed);
        const char *why = refuse(object, cpus, taken, memory_known);
        if (why && wished)
            status = kt_fail(error, KT_E_CONFIG,
                             "core.numa_nodes asks for node %u, but %s; leave it out of the list",
                             object->os_index, why);
        if (why)
            continue;
        status = add_node(topology, object, cpus, error);
        hwloc_bitmap_or(taken, taken, cpus);
    }
    if (status == KT_OK && !hwloc_bitmap_iszero(missing))
        status = kt_fail(error, KT_E_CONFIG,
                         "core.numa_nodes asks for node %d, which this machine does not have",
                         hwloc_bitmap_first(missing));
    hwloc_bitmap_free(missing);
    return status;
}

static enum kt_status find_nodes(struct kt_topology *topology, const char *nodes,
                                 struct kt_error *error)
{
    hwloc_bitmap_t allowed = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology->hwloc));
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();
    hwloc_bitmap_t taken = hwloc_bitmap_alloc();
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    hwloc_bitmap_t wished = strcmp(nodes, "all") != 0 ? hwloc_bitmap_alloc() : NULL;
    enum kt_status status = KT_OK;
    if (!allowed || !bound || !taken || !cpus || (strcmp(nodes, "all") != 0 && !wished))
        status = kt_fail(error, KT_E_NOMEM, "no memory for the list of NUMA nodes");
    /* taskset and the like: what this process is bound to now is what it may use. */
    if (status == KT_OK && topology->real &&
        hwloc_get_cpubind(topology->hwloc, bound, HWLOC_CPUBIND_PROCESS) == 0 &&
        hwloc_bitmap_intersects(allowed, bound))
        hwloc_bitmap_and(allowed, allowed, bound);
    if (status == KT_OK && wished)
        status = parse_nodes(nodes, wished, error);
    if (status == KT_OK)
        status = choose_nodes(topology, wished, allowed, taken, cpus, error);
    if (status == KT_OK && topology->n_nodes == 0)
        status = kt_fail(error, KT_E_SYSTEM,
                         "no NUMA node has a core that this process may use; check its cpuset");
    if (status == KT_OK && topology->n_nodes > 64)
        status = kt_fail(error, KT_E_UNSUPPORTED,
                         "%u NUMA nodes are more than 64; name those to use in core.numa_nodes",
                         topology->n_nodes);
    hwloc_bitmap_free(allowed);
    hwloc_bitmap_free(bound);
    hwloc_bitmap_free(taken);
    hwloc_bitmap_free(cpus);
    hwloc_bitmap_free(wished);
    return status;
}

enum kt_status kt_topology_create(const char *nodes, struct kt_topology **out,
                                  struct kt_error *error)
{
    struct kt_topology *topology = calloc(1, sizeof *topology);
    if (!topology)
        return kt_fail(error, KT_E_NOMEM, "no memory for the topology");
    enum kt_status status = KT_OK;
    if (hwloc_topology_init(&topology->hwloc) != 0) {
        topology->hwloc = NULL;
        status = kt_fail(error, KT_E_SYSTEM, "hwloc could not start: %s", strerror(errno));
    } else if (hwloc_topology_load(topology->hwloc) != 0) {
        status = kt_fail(error, KT_E_SYSTEM,
                         "hwloc could not read this machine's topology: %s; try lstopo", strerror(errno));
    }
    if (status == KT_OK) {
        topology->real = hwloc_topology_is_thissystem(topology->hwloc);
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

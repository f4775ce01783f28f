/* SPDX-License-Identifier: Apache-2.0 */
/* topology.h - the NUMA nodes and cores that this process may use. */
#ifndef KT_CORE_TOPOLOGY_H
#define KT_CORE_TOPOLOGY_H

#include <hwloc.h>
#include <kt/types.h>
#include <stdatomic.h>

struct kt_node {
    uint32_t os_index;
    uint64_t memory;       /* local bytes; a hint, virtual machines say less than there is */
    uint32_t n_cores;
    hwloc_cpuset_t *core;  /* n_cores sets: what a worker is bound to */
    hwloc_nodeset_t nodeset;
};

struct kt_topology {
    hwloc_topology_t hwloc;
    uint32_t n_nodes;
    struct kt_node *node;
    uint32_t n_cores; /* of all nodes in use */
    int real;         /* the topology is this machine's: binding means something */
    atomic_uint membind_failures;
    char membind_message[160]; /* of the first failure */
};

/**
 * Looks at the machine once. `nodes` is "all" or a list of OS node numbers, "0,2-3". Nodes without
 * cores in the process's cpuset, without memory, or whose cores another node in use already has
 * (HBM beside DRAM) are left out of "all"; asked for by number they are an error that says why.
 */
enum kt_status kt_topology_create(const char *nodes, struct kt_topology **topology,
                                  struct kt_error *error);
void kt_topology_destroy(struct kt_topology *topology);

#endif

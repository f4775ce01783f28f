/* SPDX-License-Identifier: Apache-2.0 */
/* topology.h - the NUMA nodes and cores that this process may use. */
#ifndef KT_CORE_MACHINE_TOPOLOGY_H
#define KT_CORE_MACHINE_TOPOLOGY_H

#include <hwloc.h>
#include <kt/types.h>
#include <stdatomic.h>

struct kt_node {
    uint32_t os_index;
    uint64_t memory; /* local bytes; a hint, virtual machines say less than there is */
    uint32_t n_cores;
    hwloc_cpuset_t *core; /* n_cores sets: what a worker is bound to; faster cores first */
    hwloc_nodeset_t nodeset;
};

struct kt_topology {
    hwloc_topology_t hwloc;
    uint32_t n_nodes;
    struct kt_node *node;
    uint32_t n_cores; /* of all nodes in use */
    uint32_t quota;   /* thousandths of a CPU that control groups leave; 0: no limit, or a made-up machine */
    int real;         /* the topology is this machine's: binding means something */
    int binds_memory; /* and more than one node has memory */
    char idle[96];    /* CPUs whose own node has no memory, as 4-7,12: they are not used; or "" */
    atomic_uint membind_failures;
    atomic_bool membind_reported;
    char membind_message[160]; /* of the first failure */
};

/**
 * Looks at the machine once. `nodes` is "all" or a list of OS node numbers, "0,2-3". Nodes without
 * cores in the process's cpuset, without memory, or whose cores other nodes in use already have
 * (HBM beside DRAM, CXL beside all of it) are left out of "all"; asked for by number they are an error
 * that says why.
 */
enum kt_status kt_topology_create(const char *nodes, struct kt_topology **topology, struct kt_error *error);
void kt_topology_destroy(struct kt_topology *topology);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - the memory of control groups; kt_memory_available of <kt/kt.h> is what is left of all. */
#ifndef KT_CORE_MACHINE_MEMORY_H
#define KT_CORE_MACHINE_MEMORY_H

#include <stdint.h>

/* Bytes that the control groups listed in `membership` leave, by the files below `root`; UINT64_MAX: no
 * limit. */
uint64_t kt_group_memory(const char *membership, const char *root);

#endif

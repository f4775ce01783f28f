/* SPDX-License-Identifier: Apache-2.0 */
/* quota.h - how much time of CPUs control groups give this process. */
#ifndef KT_CORE_MACHINE_QUOTA_H
#define KT_CORE_MACHINE_QUOTA_H

#include <stdint.h>

/* Thousandths of a CPU: the least quota of the process's group and those above it, of both versions of
 * control groups; 0: there is none. `root` stands before the path of each file that is read; "" is this one.
 */
uint32_t kt_quota_read(const char *root);

/* Threads that such a quota and so many cores have time for. The last one may have part of a CPU only:
 * without it that part would go unused. */
uint32_t kt_quota_threads(uint32_t quota, uint32_t n_cores);

#endif

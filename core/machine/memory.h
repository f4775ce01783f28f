/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - how much memory is left. */
#ifndef KT_CORE_MACHINE_MEMORY_H
#define KT_CORE_MACHINE_MEMORY_H

#include <stdint.h>

/* Bytes that can be had without swapping: of the machine, and of the control group that this process sees as
 * the root. 0: unknown. */
uint64_t kt_memory_available(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* count_allocations.h - how often this process has asked for memory: the library, its plugins and the C
 * library alike, since this program's malloc stands before that of the C library. */
#ifndef KT_TESTS_SUPPORT_COUNT_ALLOCATIONS_H
#define KT_TESTS_SUPPORT_COUNT_ALLOCATIONS_H

/* Before anything else. */
void count_allocations_start(void);

/* Calls of malloc and its kin, and of mmap; with a sanitizer, whose malloc must stay, of malloc only. */
unsigned long count_allocations(void);

#endif

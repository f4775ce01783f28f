/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counted_calls.h - memory that the library takes, and calls of it that fail. The linker hands its calls to
 * the
 * __wrap_ functions (core.am).
 */
#ifndef KT_TESTS_CORE_WEIGHTS_COUNTED_CALLS_H
#define KT_TESTS_CORE_WEIGHTS_COUNTED_CALLS_H

#include <stddef.h>

extern struct counted_memory {
    int armed;
    size_t live, peak, blocks;
    unsigned calls, failing; /* the call that fails, counted from 1; 0: none */
} counter;

/* The file system's calls, counted on their own. */
extern struct counted_disk {
    int armed, interrupt; /* interrupt: reads are interrupted and short */
    unsigned calls, failing;
} disk;

/* Counts memory from 0 on. */
void arm(unsigned failing);
/* All of it was given back. */
void disarm(const char *what);

/* For libraries that are told which functions to use. */
void *__wrap_malloc(size_t size);
void __wrap_free(void *memory);

#endif

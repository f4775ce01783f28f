/* SPDX-License-Identifier: Apache-2.0 */
/* mapped.h - how much of a mapped file is in this process's memory. */
#ifndef KT_TESTS_SUPPORT_MAPPED_H
#define KT_TESTS_SUPPORT_MAPPED_H

#include <stdbool.h>
#include <stdint.h>

/* Is it known here? An emulator has pages of its own. */
bool mapped_is_known(void);

/* Bytes of it for which this process has pages; 0: none, or it is not mapped. */
uint64_t mapped_bytes(const char *path);

/* Takes these pages from it; the next access brings them back. */
void mapped_forget(const char *path);

#endif

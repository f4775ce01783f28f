/* SPDX-License-Identifier: Apache-2.0 */
/* alloc_faults.h - makes the Nth allocation of the core fail; the linker's --wrap leads them here.
 */
#ifndef KT_TESTS_SUPPORT_ALLOC_FAULTS_H
#define KT_TESTS_SUPPORT_ALLOC_FAULTS_H

#include <stdbool.h>

/* The allocation number `n` from now on fails, counted from 1; 0: none does. */
void faults_arm(unsigned long n);

/* Has the armed allocation come? */
bool faults_hit(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* write_faults.h - makes a call of the core that writes a file fail, as on a full disk; the linker's --wrap
 * leads them here: flock, fsync, ftruncate, pwrite, rename. */
#ifndef KT_TESTS_SUPPORT_WRITE_FAULTS_H
#define KT_TESTS_SUPPORT_WRITE_FAULTS_H

/* So many of them succeed before one fails; negative: none does. */
void write_faults_after(int n);

#endif

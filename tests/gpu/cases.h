/* SPDX-License-Identifier: Apache-2.0 */
/* cases.h - what test_gpu is made of. */
#ifndef KT_TESTS_GPU_CASES_H
#define KT_TESTS_GPU_CASES_H

#include <check.h>

TCase *replay_cases(void);
TCase *unpack_cases(void);
TCase *failure_cases(void); /* the last ones: the context may be lost after them */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* test_gpu.c - streams and graphs of a CUDA runtime: NVIDIA's on a GPU, or the stand-in. */
#include "tests/gpu/cases.h"
#include "tests/gpu/gpu.h"
#include "tests/support/suite.h"

#include <stdlib.h>

int main(void)
{
    if (!gpu_answers())
        return 77;
    Suite *suite = suite_create("gpu");
    suite_add_tcase(suite, replay_cases());
    suite_add_tcase(suite, unpack_cases());
    suite_add_tcase(suite, failure_cases());
    return run_suite(suite);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_gpu.c - streams and graphs of a CUDA runtime: NVIDIA's on a GPU, or the stand-in. */
#include "tests/gpu/cases.h"
#include "tests/gpu/gpu.h"

#include <stdlib.h>

int main(void)
{
    if (!gpu_answers())
        return 77;
    Suite *suite = suite_create("gpu");
    suite_add_tcase(suite, replay_cases());
    suite_add_tcase(suite, unpack_cases());
    suite_add_tcase(suite, failure_cases());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

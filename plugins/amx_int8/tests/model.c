/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - the backend amx_int8 has nothing beside what model_int8.c says. */
#include "tests/checkkernel/int8_case.h"

void model_open(void *instance, const struct expert *expert)
{
    (void)instance;
    (void)expert;
}

void model_tests(TCase *tcase)
{
    (void)tcase;
}

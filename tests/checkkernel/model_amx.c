/* SPDX-License-Identifier: Apache-2.0 */
/* model_amx.c - the backends amx_int8 and kml_arm have nothing beside what model_int8.c says. */
#include "tests/checkkernel/int8_case.h"

void model_open(void *instance)
{
    (void)instance;
}

void model_tests(TCase *tcase)
{
    (void)tcase;
}

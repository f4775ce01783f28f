/* SPDX-License-Identifier: Apache-2.0 */
/* fault.h - which fault a plugin is to have: the one that KT_TEST_FAULT names in the environment. */
#ifndef KT_TESTS_PLUGINS_FAULT_H
#define KT_TESTS_PLUGINS_FAULT_H

#include <kt/plugin.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define IS(fault) is_fault(#fault)

static const struct kt_host *host;
static const char *fault;

static bool is_fault(const char *name)
{
    return strcmp(fault, name) == 0;
}

static enum kt_status open_plugin(const struct kt_host *own, const struct kt_caps *caps,
                                  const struct kt_option_value *values, void **instance,
                                  struct kt_error *error)
{
    (void)caps;
    (void)values;
    (void)instance;
    (void)error;
    host = own;
    fault = getenv("KT_TEST_FAULT");
    fault = fault ? fault : "";
    return KT_OK;
}

#endif

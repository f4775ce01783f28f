/* SPDX-License-Identifier: Apache-2.0 */
/* module_check.h - may anything of a plugin be called? */
#ifndef KT_CORE_BACKEND_MODULE_CHECK_H
#define KT_CORE_BACKEND_MODULE_CHECK_H

#include <kt/plugin.h>

/* Checks the struct of a plugin: versions and sizes, then names, levels, functions, options. */
enum kt_status kt_module_check(const struct kt_plugin *plugin, const char *name, struct kt_error *error);

#endif

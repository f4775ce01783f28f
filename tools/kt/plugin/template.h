/* SPDX-License-Identifier: Apache-2.0 */
/* template.h - the files of tools/template, which the build writes into template.c. */
#ifndef KT_TOOL_PLUGIN_TEMPLATE_H
#define KT_TOOL_PLUGIN_TEMPLATE_H

#include <stddef.h>

struct plugin_template {
    const char *path;         /* in the project; a row with NULL ends the table */
    const char *const *lines; /* without their newlines; NULL ends them */
};
extern const struct plugin_template plugin_template[];

/* Names of the backends in plugins/; NULL ends them. */
extern const char *const plugin_shipped[];

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* tables.h - functions that a plugin may have or not, as the size of its structs says. */
#ifndef KT_CORE_BACKEND_TABLES_H
#define KT_CORE_BACKEND_TABLES_H

#include <stddef.h>

/* The optional function `name` of a level; NULL if the plugin has none or is older than it. */
#define KT_OPTIONAL_OP(ops, name) \
    ((ops)->struct_size >= offsetof(struct kt_ops, name) + sizeof(ops)->name ? (ops)->name : NULL)

/* A table of functions of a level beside ops: attention or rows; NULL if the plugin has none or is older. */
#define KT_LEVEL_TABLE(level, name) \
    ((level)->struct_size >= offsetof(struct kt_level, name) + sizeof(level)->name ? (level)->name : NULL)

/* The number of tunables in a table of functions `type`; 0 if the plugin is older than they are. */
#define KT_TUNABLES(ops, type)                                                                             \
    ((ops)->struct_size >= offsetof(struct type, n_tunables) + sizeof(ops)->n_tunables ? (ops)->n_tunables \
                                                                                       : 0)

#endif

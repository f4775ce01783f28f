/* SPDX-License-Identifier: Apache-2.0 */
/* backend.h - a plugin as the core holds it, and the list of all. */
#ifndef KT_CORE_BACKEND_BACKEND_H
#define KT_CORE_BACKEND_BACKEND_H

#include "core/backend/module.h"
#include "core/backend/tables.h"

#include <kt/kt.h>
#include <kt/plugin.h>
#include <stdbool.h>

struct kt_backend {
    char name[32];
    enum kt_backend_state state;
    char *reason; /* why it has this state; if loaded: why better levels are not used */
    char *file;   /* absolute path, "" for the reference */
    char *levels; /* names of all levels, best first */
    const char *origin;
    int64_t priority;
    bool required;
    struct kt_module module;        /* not for the reference */
    const struct kt_plugin *plugin; /* NULL unless the module could be opened and is sound */
    const struct kt_level *level;   /* in use; NULL unless loaded */
    struct kt_option_value *values; /* plugin->n_options of them, NULL if there are none */
    const char **value_origins;     /* where each was set: "default", "/etc/...:12" */
    void *instance;
    struct kt_host host; /* what the plugin was opened with; host.data is this backend */
    struct kt_registry *registry;
    bool open; /* plugin->close must be called */
};

struct kt_registry {
    struct kt_config *config; /* retained: origins and option texts live in it */
    struct kt_caps caps;
    bool deterministic;         /* core.deterministic */
    struct kt_backend *backend; /* the reference last, with the lowest priority */
    size_t n_backends;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h - every configured plugin with its state, and the built-in reference. */
#ifndef KT_CORE_BACKEND_REGISTRY_H
#define KT_CORE_BACKEND_REGISTRY_H

#include "core/config/config.h"
#include "core/backend/module.h"

#include <kt/kt.h>
#include <kt/plugin.h>

struct kt_backend {
    char name[32];
    enum kt_backend_state state;
    char *reason; /* if loaded: of better levels, why they were passed over */
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
    bool open; /* close is owed */
};

struct kt_registry {
    struct kt_config *config; /* retained: origins and option texts live in it */
    struct kt_caps caps;
    struct kt_backend *backend; /* the reference last, with the lowest priority */
    size_t n_backends;
};

/* Opens every enabled plugin. Only an `enabled = required` one that cannot be used is an error. */
enum kt_status kt_registry_create(const struct kt_config *config, const struct kt_caps *caps,
                                  struct kt_registry **registry, struct kt_error *error);
void kt_registry_destroy(struct kt_registry *registry);

/* The backend of that name whatever its state, or NULL. */
const struct kt_backend *kt_registry_find(const struct kt_registry *registry, const char *name);

/* The module of core/backend/reference.c: a plugin like any other, but linked in. */
extern const struct kt_plugin kt_plugin_reference;

#endif

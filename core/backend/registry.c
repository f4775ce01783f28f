/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - makes the list: every configured plugin, and the reference last. */
#include "core/backend/registry.h"

#include "core/backend/reference.h"
#include "core/backend/registry_open.h"
#include "core/base/error.h"
#include "core/config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REFERENCE_PRIORITY = -1000 };

/* All texts are set, so that no reader must check for NULL. */
static enum kt_status prepare(struct kt_registry *registry, struct kt_backend *backend, const char *name,
                              const char *origin, struct kt_error *error)
{
    (void)snprintf(backend->name, sizeof backend->name, "%s", name);
    backend->registry = registry;
    backend->origin = origin;
    backend->module.fd = -1;
    backend->state = KT_BACKEND_FAILED;
    backend->reason = strdup("");
    backend->file = strdup("");
    backend->levels = strdup("");
    registry->n_backends++;
    if (!backend->reason || !backend->file || !backend->levels)
        return kt_fail(error, KT_E_NOMEM, "no memory for plugin %s", name);
    return KT_OK;
}

/* Called after all were opened, so that the log mentions each. */
static enum kt_status check_required(const struct kt_registry *registry, struct kt_error *error)
{
    for (size_t i = 0; i < registry->n_backends; i++) {
        const struct kt_backend *backend = &registry->backend[i];
        if (!backend->required || backend->state == KT_BACKEND_LOADED)
            continue;
        char section[64];
        (void)snprintf(section, sizeof section, "plugin.%s", backend->name);
        const struct kt_setting *enabled = kt_config_find(registry->config, section, "enabled");
        return kt_fail(error, KT_E_PLUGIN, "plugin %s is required (%s), but cannot be used: %s",
                       backend->name, enabled ? enabled->origin : backend->origin, backend->reason);
    }
    return KT_OK;
}

/* Opens plugin `i` of the configuration as `backend`. */
static enum kt_status open_plugin(struct kt_registry *registry, size_t i, struct kt_backend *backend,
                                  struct kt_error *error)
{
    enum kt_status status = prepare(registry, backend, kt_config_plugin(registry->config, i),
                                    kt_config_plugin_origin(registry->config, i), error);
    return status == KT_OK ? kt_backend_open(backend, error) : status;
}

void kt_registry_try(struct kt_config *config, const struct kt_caps *caps, size_t i)
{
    struct kt_backend backend = {.open = false};
    struct kt_registry registry = {.config = config, .caps = *caps, .backend = &backend};
    registry.deterministic = kt_config_bool(config, "core", "deterministic");
    (void)open_plugin(&registry, i, &backend, NULL);
    kt_backend_close(&backend);
}

static enum kt_status fill(struct kt_registry *registry, struct kt_error *error)
{
    size_t n = kt_config_plugin_count(registry->config);
    for (size_t i = 0; i < n; i++) {
        enum kt_status status = open_plugin(registry, i, &registry->backend[i], error);
        if (status != KT_OK)
            return status;
    }
    struct kt_backend *reference = &registry->backend[n];
    enum kt_status status = prepare(registry, reference, "reference", "built in", error);
    reference->priority = REFERENCE_PRIORITY;
    if (status == KT_OK)
        status = kt_backend_open_linked(reference, &kt_plugin_reference, error);
    return status == KT_OK ? check_required(registry, error) : status;
}

enum kt_status kt_registry_create(const struct kt_config *config, const struct kt_caps *caps,
                                  struct kt_registry **registry, struct kt_error *error)
{
    struct kt_registry *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return kt_fail(error, KT_E_NOMEM, "no memory for the list of plugins");
    fresh->backend = calloc(kt_config_plugin_count(config) + 1, sizeof fresh->backend[0]);
    if (!fresh->backend) {
        free(fresh);
        return kt_fail(error, KT_E_NOMEM, "no memory for the list of plugins");
    }
    fresh->config = kt_config_retain(config);
    fresh->deterministic = kt_config_bool(config, "core", "deterministic");
    fresh->caps = *caps;
    enum kt_status status = fill(fresh, error);
    if (status != KT_OK) {
        kt_registry_destroy(fresh);
        return status;
    }
    *registry = fresh;
    return KT_OK;
}

void kt_registry_destroy(struct kt_registry *registry)
{
    if (!registry)
        return;
    while (registry->n_backends > 0)
        kt_backend_close(&registry->backend[--registry->n_backends]);
    free(registry->backend);
    kt_config_destroy(registry->config);
    free(registry);
}

const struct kt_backend *kt_registry_find(const struct kt_registry *registry, const char *name)
{
    for (size_t i = 0; i < registry->n_backends; i++) {
        if (strcmp(registry->backend[i].name, name) == 0)
            return &registry->backend[i];
    }
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/core/backend/registry_world.h"
#include "core/config/config.h"
#include "core/machine/cpu.h"

#include <stdio.h>
#include <string.h>

char registry_log[1 << 16];

static void collect(void *data, enum kt_log_level level, const char *message)
{
    static const char *const words[] = {"error", "warning", "info", "debug"};
    size_t used = strlen(registry_log);
    (void)data;
    (void)snprintf(registry_log + used, sizeof registry_log - used, "%s: %s\n", words[level], message);
}

enum kt_status registry_open_with(const char *const *settings, size_t n, struct kt_registry **registry,
                                  struct kt_error *error)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_config *config;
    struct kt_caps caps;
    params.settings = settings;
    params.n_settings = n;
    params.log = collect;
    registry_log[0] = '\0';
    enum kt_status status = kt_config_create(&params, &config, error);
    if (status != KT_OK)
        return status;
    status = kt_cpu_detect(kt_config_text(config, "core", "cpu_variant"), &caps, error);
    if (status == KT_OK)
        status = kt_registry_create(config, &caps, registry, error);
    kt_config_destroy(config);
    return status;
}

struct kt_registry *registry_open_all(void)
{
    struct kt_registry *registry = NULL;
    struct kt_error error = {0};
    ck_assert_msg(registry_open_with(NULL, 0, &registry, &error) == KT_OK, "%s", error.message);
    return registry;
}

void registry_add_plugin(const char *name, const char *lines)
{
    char relative[128], folder[128];
    (void)snprintf(folder, sizeof folder, "lib/kt_%s.so", name);
    (void)snprintf(relative, sizeof relative, "shipped/%s.ini", name);
    const char *file = sandbox_plugin(name, folder);
    sandbox_write(relative, "[plugin.%s]\nmodule = %s\n%s", name, file, lines);
}

const struct kt_backend *registry_expect(const struct kt_registry *registry, const char *name,
                                         enum kt_backend_state state, const char *text)
{
    const struct kt_backend *backend = kt_registry_find(registry, name);
    ck_assert_msg(backend != NULL, "%s is not there", name);
    ck_assert_msg(backend->state == state, "%s: state %d, \"%s\"", name, (int)backend->state,
                  backend->reason);
    ck_assert_msg(strstr(backend->reason, text) != NULL, "\"%s\" is not in \"%s\"", text, backend->reason);
    ck_assert_int_eq(backend->level != NULL, state == KT_BACKEND_LOADED);
    ck_assert_int_eq(backend->reason[0] == '\0', text[0] == '\0' && state == KT_BACKEND_LOADED);
    return backend;
}

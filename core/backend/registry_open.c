/* SPDX-License-Identifier: Apache-2.0 */
/* registry_open.c - opens a plugin, or says why it cannot be used. */
#include "core/backend/registry_open.h"

#include "core/backend/module.h"
#include "core/backend/module_check.h"
#include "core/backend/registry_host.h"
#include "core/backend/registry_reason.h"
#include "core/backend/tuned.h"
#include "core/base/error.h"
#include "core/base/option.h"
#include "core/base/suggest.h"
#include "core/config/config.h"
#include "core/machine/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECTION_SIZE = 64, PASSED_SIZE = 600 };

static const char *find_text(const struct kt_backend *backend, const char *key,
                             const struct kt_setting **setting)
{
    char section[SECTION_SIZE];
    (void)snprintf(section, sizeof section, "plugin.%s", backend->name);
    const struct kt_setting *found = kt_config_find(backend->registry->config, section, key);
    if (setting)
        *setting = found;
    return found ? found->value : "";
}

static enum kt_status fail_memory(const struct kt_backend *backend, struct kt_error *error)
{
    return kt_fail(error, KT_E_NOMEM, "no memory for plugin %s", backend->name);
}

/* A plugin may have left its message empty or without an end. */
static const char *read_reason(struct kt_error *error, enum kt_status status)
{
    error->message[sizeof error->message - 1] = '\0';
    return error->message[0] != '\0' ? error->message : kt_status_name(status);
}

/* ---- before the module is opened ------------------------------------------------------------ */

/* Is it enabled, and does the CPU have the features that its configuration names? */
static enum kt_status check_config(struct kt_backend *backend, bool *go_on, struct kt_error *error)
{
    const struct kt_setting *setting;
    const char *enabled = find_text(backend, "enabled", &setting);
    backend->required = strcmp(enabled, "required") == 0;
    *go_on = false;
    if (strcmp(enabled, "no") == 0)
        return kt_backend_settle(backend, KT_BACKEND_DISABLED, error, "disabled by %s", setting->origin);
    const char *broken = kt_config_plugin_broken(backend->registry->config, backend->name);
    if (broken)
        return kt_backend_settle(backend, KT_BACKEND_FAILED, error, "%s", broken);
    const char *names = find_text(backend, "cpu", &setting);
    uint64_t needed;
    struct kt_error wrong = {0};
    if (kt_cpu_parse(names, &needed, &wrong) != KT_OK)
        return kt_backend_settle(backend, KT_BACKEND_FAILED, error, "%s: cpu = %s: %s", setting->origin,
                                 names, wrong.message);
    uint64_t missing = needed & ~backend->registry->caps.cpu;
    if (missing != 0) {
        char text[512];
        kt_registry_explain_cpu(backend->registry, missing, text, sizeof text);
        return kt_backend_settle(backend, KT_BACKEND_UNFIT, error, "needs %s", text);
    }
    *go_on = true;
    return KT_OK;
}

static enum kt_status fail_module(struct kt_backend *backend, const struct kt_error *cause,
                                  struct kt_error *error)
{
    const struct kt_config *config = backend->registry->config;
    const char *nearest = NULL;
    for (size_t i = 0; cause->status == KT_E_NOT_FOUND && i < kt_config_plugin_count(config); i++) {
        const char *other = kt_config_plugin(config, i);
        if (strcmp(other, backend->name) != 0 && !nearest)
            nearest = kt_nearest(backend->name, &other, 1);
    }
    return kt_backend_settle(backend, KT_BACKEND_FAILED, error, "%s%s%s%s", cause->message,
                             nearest ? " (did you mean [plugin." : "", nearest ? nearest : "",
                             nearest ? "]?)" : "");
}

static enum kt_status open_module(struct kt_backend *backend, bool *go_on, struct kt_error *error)
{
    const char *path = kt_config_text(backend->registry->config, "core", "plugin_path");
    const char *last = kt_config_plugin_folder(backend->registry->config);
    struct kt_error cause = {0};
    char *file = NULL, *real = NULL;
    *go_on = false;
    cause.status = kt_module_find(find_text(backend, "module", NULL), path, last, &file, &cause);
    if (cause.status == KT_OK)
        cause.status = kt_module_open(file, backend->name, &backend->module, &real, &cause);
    /* Another backend with other bits must not take its place because of what may be over in a second. */
    if (kt_status_passes(cause.status)) {
        free(file);
        return kt_fail(error, cause.status, "plugin %s: %s", backend->name, cause.message);
    }
    if (cause.status != KT_OK) {
        if (file) {
            free(backend->file);
            backend->file = file;
        }
        return fail_module(backend, &cause, error);
    }
    free(file);
    free(backend->file);
    backend->file = real;
    backend->plugin = backend->module.plugin;
    *go_on = true;
    return KT_OK;
}

/* ---- what the plugin says of itself --------------------------------------------------------- */

static enum kt_status list_levels(struct kt_backend *backend, struct kt_error *error)
{
    const struct kt_plugin *plugin = backend->plugin;
    size_t size = 1, used = 0;
    for (uint32_t i = 0; i < plugin->n_levels; i++)
        size += strlen(plugin->levels[i]->name) + 1;
    char *text = malloc(size);
    if (!text)
        return fail_memory(backend, error);
    text[0] = '\0';
    for (uint32_t i = 0; i < plugin->n_levels; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? " " : "", plugin->levels[i]->name);
    free(backend->levels);
    backend->levels = text;
    return KT_OK;
}

static const char *suggest_key(const struct kt_plugin *plugin, const char *key)
{
    const char *nearest = kt_nearest(key, kt_option_reserved, 5);
    for (uint32_t i = 0; i < plugin->n_options && !nearest; i++)
        nearest = kt_nearest(key, &plugin->options[i].key, 1);
    return nearest;
}

static bool is_reserved(const char *key)
{
    for (const char *const *word = kt_option_reserved; *word; word++) {
        if (strcmp(*word, key) == 0)
            return true;
    }
    return false;
}

/* Every key of the section must be one that the core reads or an option of the plugin. */
static enum kt_status check_keys(struct kt_backend *backend, bool *go_on, struct kt_error *error)
{
    const struct kt_plugin *plugin = backend->plugin;
    const struct kt_config *config = backend->registry->config;
    char section[SECTION_SIZE];
    (void)snprintf(section, sizeof section, "plugin.%s", backend->name);
    for (size_t i = 0; i < kt_config_setting_count(config); i++) {
        struct kt_setting setting;
        if (kt_config_setting(config, i, &setting, NULL) != KT_OK || strcmp(setting.section, section) != 0 ||
            is_reserved(setting.key) || kt_option_find(plugin->options, plugin->n_options, setting.key))
            continue;
        const char *nearest = suggest_key(plugin, setting.key);
        *go_on = false;
        return kt_backend_settle(backend, KT_BACKEND_FAILED, error, "%s: [%s] has no option \"%s\"; %s%s%s",
                                 setting.origin, section, setting.key,
                                 nearest ? "did you mean " : "remove it", nearest ? nearest : "",
                                 nearest ? "?" : "");
    }
    return KT_OK;
}

static enum kt_status check_tuned(struct kt_backend *backend, bool *go_on, struct kt_error *error)
{
    struct kt_error wrong = {0};
    if (kt_tuned_check_settings(backend, &wrong) == KT_OK)
        return KT_OK;
    *go_on = false;
    return kt_backend_settle(backend, KT_BACKEND_FAILED, error, "%s", wrong.message);
}

/* Values and origins of all options; defaults for those that are not configured. */
static enum kt_status take_values(struct kt_backend *backend, bool *go_on, struct kt_error *error)
{
    const struct kt_plugin *plugin = backend->plugin;
    if (plugin->n_options == 0)
        return KT_OK;
    backend->values = calloc(plugin->n_options, sizeof backend->values[0]);
    backend->value_origins = calloc(plugin->n_options, sizeof backend->value_origins[0]);
    if (!backend->values || !backend->value_origins)
        return fail_memory(backend, error);
    for (uint32_t i = 0; i < plugin->n_options; i++) {
        const struct kt_option *option = &plugin->options[i];
        backend->value_origins[i] = "default";
        (void)kt_option_parse(option, option->default_text, &backend->values[i], NULL);
    }
    for (uint32_t i = 0; i < plugin->n_options; i++) {
        const struct kt_setting *setting;
        struct kt_error wrong = {0};
        const char *text = find_text(backend, plugin->options[i].key, &setting);
        if (!setting)
            continue;
        if (kt_option_parse(&plugin->options[i], text, &backend->values[i], &wrong) != KT_OK) {
            *go_on = false;
            return kt_backend_settle(backend, KT_BACKEND_FAILED, error, "%s: %s", setting->origin,
                                     wrong.message);
        }
        backend->value_origins[i] = setting->origin;
    }
    return KT_OK;
}

/* ---- level, probe, open --------------------------------------------------------------------- */

static enum kt_status choose_auto(struct kt_backend *backend, const struct kt_level **level,
                                  struct kt_error *error)
{
    const struct kt_plugin *plugin = backend->plugin;
    const struct kt_registry *registry = backend->registry;
    const struct kt_setting *setting;
    *level = kt_tuned_level(backend, &setting);
    if (*level)
        return KT_OK;
    for (uint32_t i = 0; i < plugin->n_levels; i++) {
        if ((plugin->levels[i]->cpu & ~registry->caps.cpu) == 0) {
            *level = plugin->levels[i];
            return KT_OK;
        }
    }
    /* The last level needs least. */
    const struct kt_level *last = plugin->levels[plugin->n_levels - 1];
    char text[512];
    kt_registry_explain_cpu(registry, last->cpu & ~registry->caps.cpu, text, sizeof text);
    return kt_backend_settle(backend, KT_BACKEND_REFUSED, error, "none of its levels (%s) fits: %s needs %s",
                             backend->levels, last->name, text);
}

static enum kt_status choose_level(struct kt_backend *backend, const struct kt_level **level,
                                   struct kt_error *error)
{
    const struct kt_plugin *plugin = backend->plugin;
    const struct kt_setting *setting;
    const char *wish = find_text(backend, "level", &setting);
    *level = NULL;
    if (!setting || strcmp(wish, "auto") == 0)
        return choose_auto(backend, level, error);
    for (uint32_t i = 0; i < plugin->n_levels; i++) {
        if (strcmp(plugin->levels[i]->name, wish) != 0)
            continue;
        uint64_t missing = plugin->levels[i]->cpu & ~backend->registry->caps.cpu;
        if (missing == 0) {
            *level = plugin->levels[i];
            return KT_OK;
        }
        char text[512];
        kt_registry_explain_cpu(backend->registry, missing, text, sizeof text);
        return kt_backend_settle(backend, KT_BACKEND_REFUSED, error, "%s: level = %s needs %s",
                                 setting->origin, wish, text);
    }
    char hint[KT_HINT_SIZE];
    return kt_backend_settle(backend, KT_BACKEND_FAILED, error,
                             "%s: level = %s is not one of its levels: auto %s%s", setting->origin, wish,
                             backend->levels, kt_hint(wish, backend->levels, hint, sizeof hint));
}

/* Can the plugin work at the level? ABI 1.0 does not have the field. */
static enum kt_status ask_level(const struct kt_backend *backend, const struct kt_level *level,
                                struct kt_error *cause)
{
    if (level->struct_size < offsetof(struct kt_level, check) + sizeof level->check || !level->check)
        return KT_OK;
    return level->check(backend->instance, cause);
}

/* The first level from `chosen` on at which the plugin can work. `passed` gets the reasons against better
 * ones. */
static enum kt_status take_level(struct kt_backend *backend, const struct kt_level *chosen,
                                 char passed[PASSED_SIZE], struct kt_error *error)
{
    const struct kt_plugin *plugin = backend->plugin;
    const struct kt_setting *setting;
    const char *wish = find_text(backend, "level", &setting);
    bool named = setting && strcmp(wish, "auto") != 0, begun = false;
    const struct kt_setting *tuned;
    size_t used = 0;
    passed[0] = '\0';
    if (!named && kt_tuned_level(backend, &tuned) == chosen)
        used = (size_t)snprintf(passed, PASSED_SIZE, "level = %s by %.200s", chosen->name, tuned->origin);
    for (uint32_t i = 0; i < plugin->n_levels; i++) {
        const struct kt_level *level = plugin->levels[i];
        struct kt_error cause = {0};
        begun |= level == chosen;
        if (!begun || (level->cpu & ~backend->registry->caps.cpu) != 0)
            continue;
        enum kt_status status = ask_level(backend, level, &cause);
        if (status == KT_OK) {
            backend->level = level;
            return KT_OK;
        }
        if (status == KT_E_NOMEM)
            return fail_memory(backend, error);
        if (named)
            return kt_backend_settle(backend, KT_BACKEND_REFUSED, error, "%s: level = %s: %s",
                                     setting->origin, wish, read_reason(&cause, status));
        int length = snprintf(passed + used, PASSED_SIZE - used, "%snot %s: %s", used > 0 ? "; " : "",
                              level->name, read_reason(&cause, status));
        used += length > 0 ? (size_t)length : 0;
        used = used < PASSED_SIZE ? used : PASSED_SIZE - 1;
    }
    return kt_backend_settle(backend, KT_BACKEND_REFUSED, error, "none of its levels (%s) can be used: %s",
                             backend->levels, passed);
}

static enum kt_status start(struct kt_backend *backend, struct kt_error *error)
{
    const struct kt_plugin *plugin = backend->plugin;
    const struct kt_caps *caps = &backend->registry->caps;
    const struct kt_level *level;
    char passed[PASSED_SIZE];
    enum kt_status status = choose_level(backend, &level, error);
    if (status != KT_OK || !level)
        return status;
    struct kt_error cause = {0};
    kt_backend_serve(backend);
    if (plugin->probe) {
        status = plugin->probe(&backend->host, caps, &cause);
        if (status == KT_E_NOMEM)
            return fail_memory(backend, error);
        if (status != KT_OK)
            return kt_backend_settle(backend, KT_BACKEND_REFUSED, error, "its probe refused: %s",
                                     read_reason(&cause, status));
    }
    if (plugin->open) {
        status = plugin->open(&backend->host, caps, backend->values, &backend->instance, &cause);
        if (status != KT_OK) {
            backend->instance = NULL;
            if (status == KT_E_NOMEM)
                return fail_memory(backend, error);
            return kt_backend_settle(backend, KT_BACKEND_REFUSED, error, "it could not be opened: %s",
                                     read_reason(&cause, status));
        }
        backend->open = true;
    }
    status = take_level(backend, level, passed, error);
    if (status != KT_OK || !backend->level)
        return status;
    return kt_backend_settle(backend, KT_BACKEND_LOADED, error, "%s", passed);
}

static enum kt_status bring_up(struct kt_backend *backend, struct kt_error *error)
{
    bool go_on = true;
    enum kt_status status = list_levels(backend, error);
    if (status == KT_OK)
        status = take_values(backend, &go_on, error);
    if (status == KT_OK && go_on)
        status = check_keys(backend, &go_on, error);
    if (status == KT_OK && go_on)
        status = check_tuned(backend, &go_on, error);
    if (status == KT_OK && go_on)
        status = start(backend, error);
    return status;
}

enum kt_status kt_backend_open(struct kt_backend *backend, struct kt_error *error)
{
    bool go_on;
    char section[SECTION_SIZE];
    (void)snprintf(section, sizeof section, "plugin.%s", backend->name);
    backend->priority = kt_config_int(backend->registry->config, section, "priority");
    enum kt_status status = check_config(backend, &go_on, error);
    if (status == KT_OK && go_on)
        status = open_module(backend, &go_on, error);
    if (status == KT_OK && go_on)
        status = bring_up(backend, error);
    return status;
}

enum kt_status kt_backend_open_linked(struct kt_backend *backend, const struct kt_plugin *plugin,
                                      struct kt_error *error)
{
    enum kt_status status = kt_module_check(plugin, backend->name, error);
    if (status != KT_OK)
        return status;
    backend->plugin = plugin;
    status = bring_up(backend, error);
    if (status == KT_OK && backend->state != KT_BACKEND_LOADED)
        status = kt_fail(error, KT_E_PLUGIN, "built-in backend %s: %s", backend->name, backend->reason);
    return status;
}

void kt_backend_close(struct kt_backend *backend)
{
    if (backend->open && backend->plugin->close)
        backend->plugin->close(backend->instance);
    backend->open = false;
    kt_module_close(&backend->module);
    free(backend->reason);
    free(backend->file);
    free(backend->levels);
    free(backend->values);
    free(backend->value_origins);
}

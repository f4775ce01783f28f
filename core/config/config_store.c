/* SPDX-License-Identifier: Apache-2.0 */
/* config_store.c - settings and plugins, sorted. */
#include "core/config/config_store.h"

#include "core/base/error.h"
#include "core/config/config_schema.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lists are sorted by insertion, which takes the square of their length. */
enum { MOST_SETTINGS = 8192, MOST_PLUGINS = 256 };

static enum kt_status fail_memory(struct kt_error *error)
{
    return kt_fail(error, KT_E_NOMEM, "no memory for the configuration");
}

/* Makes room for one more of `size` bytes; false: no memory, and nothing has changed. */
static bool grow(void **array, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return true;
    size_t wanted = *room ? *room * 2 : 16;
    void *grown = reallocarray(*array, wanted, size);
    if (!grown)
        return false;
    *array = grown;
    *room = wanted;
    return true;
}

static int compare(const struct kt_setting *setting, const char *section, const char *key)
{
    int order = strcmp(setting->section, section);
    return order ? order : strcmp(setting->key, key);
}

/* The index of the setting, or where it belongs if *found is false. */
static size_t locate(const struct kt_config *config, const char *section, const char *key, bool *found)
{
    size_t low = 0, high = config->n_settings;
    *found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(&config->setting[middle].setting, section, key);
        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct kt_setting *kt_config_lookup(const struct kt_config *config, const char *section,
                                          const char *key)
{
    bool found;
    size_t at = locate(config, section, key, &found);
    return found ? &config->setting[at].setting : NULL;
}

static void free_setting(struct kt_setting *setting)
{
    free((void *)(uintptr_t)setting->section);
    free((void *)(uintptr_t)setting->key);
    free((void *)(uintptr_t)setting->value);
    free((void *)(uintptr_t)setting->origin);
}

enum kt_status kt_config_put(struct kt_config *config, enum config_layer layer, const char *section,
                             const char *key, const char *value, const char *origin, struct kt_error *error)
{
    const char *help;
    enum kt_status status = kt_config_check_setting(section, key, value, &help, error);
    if (status != KT_OK)
        return status;
    bool found;
    size_t at = locate(config, section, key, &found);
    if (found && config->setting[at].layer == layer && layer != LAYER_PARAMETER)
        return kt_fail(error, KT_E_CONFIG, "%s.%s is set twice; %s sets it too", section, key,
                       config->setting[at].setting.origin);
    if (!found && config->n_settings >= MOST_SETTINGS)
        return kt_fail(error, KT_E_CONFIG, "%s.%s: there are %d settings already, the most that are taken",
                       section, key, MOST_SETTINGS);
    if (!grow((void **)&config->setting, config->n_settings, &config->settings_room,
              sizeof config->setting[0]))
        return fail_memory(error);
    struct stored_setting fresh = {
        .setting = {strdup(section), strdup(key), strdup(value), strdup(origin), help},
        .layer = layer,
    };
    if (!fresh.setting.section || !fresh.setting.key || !fresh.setting.value || !fresh.setting.origin) {
        free_setting(&fresh.setting);
        return fail_memory(error);
    }
    if (found) {
        free_setting(&config->setting[at].setting);
    } else {
        memmove(&config->setting[at + 1], &config->setting[at],
                (config->n_settings - at) * sizeof config->setting[0]);
        config->n_settings++;
    }
    config->setting[at] = fresh;
    return KT_OK;
}

struct stored_plugin *kt_config_find_plugin(const struct kt_config *config, const char *name)
{
    for (size_t i = 0; i < config->n_plugins; i++) {
        if (strcmp(config->plugin[i].name, name) == 0)
            return &config->plugin[i];
    }
    return NULL;
}

static enum kt_status put_defaults(struct kt_config *config, const char *name, struct kt_error *error)
{
    char section[64], module[64];
    (void)snprintf(section, sizeof section, "plugin.%s", name);
    (void)snprintf(module, sizeof module, "kt_%s.so", name);
    for (size_t i = 0; i < kt_config_n_plugin_options; i++) {
        const struct kt_option *option = &kt_config_plugin_options[i];
        bool is_module = strcmp(option->key, "module") == 0;
        enum kt_status status = kt_config_put(config, LAYER_DEFAULT, section, option->key,
                                              is_module ? module : option->default_text, "default", error);
        if (status != KT_OK)
            return status;
    }
    return KT_OK;
}

static enum kt_status add_plugin(struct kt_config *config, enum config_layer layer, const char *name,
                                 const char *file, const char *origin, struct kt_error *error)
{
    if (config->n_plugins >= MOST_PLUGINS)
        return kt_fail(error, KT_E_CONFIG,
                       "[plugin.%s]: there are %d plugins already, the most that are taken", name,
                       MOST_PLUGINS);
    size_t names_room = config->plugins_room;
    if (!grow((void **)&config->plugin, config->n_plugins, &config->plugins_room, sizeof config->plugin[0]))
        return fail_memory(error);
    if (names_room != config->plugins_room) {
        const char **names = reallocarray(config->plugin_names, config->plugins_room, sizeof *names);
        if (!names) {
            config->plugins_room = names_room;
            return fail_memory(error);
        }
        config->plugin_names = names;
    }
    struct stored_plugin fresh = {strdup(name), strdup(origin), strdup(file), layer, NULL};
    if (!fresh.name || !fresh.origin || !fresh.file) {
        free(fresh.name);
        free(fresh.origin);
        free(fresh.file);
        return fail_memory(error);
    }
    size_t at = config->n_plugins++;
    for (; at > 0 && strcmp(config->plugin[at - 1].name, name) > 0; at--) {
        config->plugin[at] = config->plugin[at - 1];
        config->plugin_names[at] = config->plugin_names[at - 1];
    }
    config->plugin[at] = fresh;
    config->plugin_names[at] = fresh.name;
    return put_defaults(config, name, error);
}

enum kt_status kt_config_declare(struct kt_config *config, enum config_layer layer, const char *name,
                                 const char *file, const char *origin, struct kt_error *error)
{
    struct stored_plugin *plugin = kt_config_find_plugin(config, name);
    if (!plugin)
        return add_plugin(config, layer, name, file, origin, error);
    bool dropin = layer == LAYER_SHIPPED || layer == LAYER_DROPIN;
    if (dropin && plugin->layer == layer && strcmp(plugin->file, file) != 0)
        return kt_fail(error, KT_E_CONFIG, "[plugin.%s] is also defined in %s; remove one of the files", name,
                       plugin->file);
    char *copy = strdup(file);
    if (!copy)
        return fail_memory(error);
    free(plugin->file);
    plugin->file = copy;
    plugin->layer = layer;
    return KT_OK;
}

void kt_config_free(struct kt_config *config)
{
    for (size_t i = 0; i < config->n_settings; i++)
        free_setting(&config->setting[i].setting);
    for (size_t i = 0; i < config->n_plugins; i++) {
        free(config->plugin[i].name);
        free(config->plugin[i].origin);
        free(config->plugin[i].file);
        free(config->plugin[i].broken);
    }
    free(config->setting);
    free(config->plugin);
    free(config->plugin_names);
    free(config->plugin_folder);
    free(config);
}

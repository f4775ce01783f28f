/* SPDX-License-Identifier: Apache-2.0 */
/* config_dropin.c - a drop-in file is used as a whole or not at all. It is read into a draft first. After an
 * error its plugins cannot be used; all others can. */
#define _GNU_SOURCE
#include "core/config/config_dropin.h"

#include "core/base/error.h"
#include "core/base/option.h"
#include "core/config/config_schema.h"
#include "core/config/config_store.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum kt_status check_twins(const struct kt_config *config, const struct kt_config *draft,
                                  struct kt_error *error)
{
    for (size_t i = 0; i < draft->n_plugins; i++) {
        const struct stored_plugin *fresh = &draft->plugin[i];
        const struct stored_plugin *there = kt_config_find_plugin(config, fresh->name);
        if (there && there->layer == fresh->layer && strcmp(there->file, fresh->file) != 0)
            return kt_fail(error, KT_E_CONFIG,
                           "%s: [plugin.%s] is also defined in %s; remove one of the files", fresh->origin,
                           fresh->name, there->file);
    }
    return KT_OK;
}

enum kt_status kt_config_merge(struct kt_config *config, const struct kt_config *draft,
                               struct kt_error *error)
{
    enum kt_status status = check_twins(config, draft, error);
    for (size_t i = 0; status == KT_OK && i < draft->n_plugins; i++) {
        const struct stored_plugin *fresh = &draft->plugin[i];
        status = kt_config_declare(config, fresh->layer, fresh->name, fresh->file, fresh->origin, error);
    }
    for (size_t i = 0; status == KT_OK && i < draft->n_settings; i++) {
        const struct kt_setting *setting = &draft->setting[i].setting;
        if (draft->setting[i].layer != LAYER_DEFAULT)
            status = kt_config_put(config, draft->setting[i].layer, setting->section, setting->key,
                                   setting->value, setting->origin, error);
    }
    return status;
}

/* A broken drop-in has no effect except for `enabled = required`: nothing may start without that plugin. */
static enum kt_status keep_required(struct kt_config *config, const struct kt_config *draft,
                                    const char *section, struct kt_error *error)
{
    const struct kt_setting *enabled = kt_config_lookup(draft, section, "enabled");
    if (!enabled || strcmp(enabled->value, "required") != 0)
        return KT_OK;
    const struct kt_setting *there = kt_config_lookup(config, section, "enabled");
    if (there && strcmp(there->value, "required") == 0)
        return KT_OK;
    /* As a parameter, it can replace a setting of its own layer; later files still override it. */
    return kt_config_put(config, LAYER_PARAMETER, section, "enabled", "required", enabled->origin, error);
}

static enum kt_status blame(struct kt_config *config, const struct kt_config *draft, const char *name,
                            enum config_layer layer, const char *path, const char *message,
                            struct kt_error *error)
{
    char section[64];
    (void)snprintf(section, sizeof section, "plugin.%s", name);
    enum kt_status status = KT_OK;
    if (!kt_config_find_plugin(config, name))
        status = kt_config_declare(config, layer, name, path, path, error);
    if (status == KT_OK)
        status = keep_required(config, draft, section, error);
    if (status != KT_OK)
        return status;
    struct stored_plugin *plugin = kt_config_find_plugin(config, name);
    if (plugin->broken)
        return KT_OK;
    plugin->broken = strdup(message);
    return plugin->broken ? KT_OK : kt_fail(error, KT_E_NOMEM, "no memory for the configuration");
}

/* NAME of FOLDER/NAME.ini, if that can be the name of a plugin. */
static bool name_after_file(const struct kt_config *config, const char *path, char *name, size_t size)
{
    char section[64];
    const char *base = strrchr(path, '/') + 1;
    int length = (int)(strlen(base) - strlen(".ini"));
    if (snprintf(name, size, "%.*s", length, base) >= (int)size)
        return false;
    (void)snprintf(section, sizeof section, "plugin.%s", name);
    return kt_config_check_section(config, section, NULL) == KT_OK;
}

enum kt_status kt_config_blame(struct kt_config *config, const struct kt_config *draft,
                               enum config_layer layer, const char *path, const char *message,
                               struct kt_error *error)
{
    char name[KT_PLUGIN_NAME_LIMIT + 1];
    enum kt_status status = KT_OK;
    if (draft->n_plugins == 0 && name_after_file(config, path, name, sizeof name))
        return blame(config, draft, name, layer, path, message, error);
    for (size_t i = 0; status == KT_OK && i < draft->n_plugins; i++)
        status = blame(config, draft, draft->plugin[i].name, layer, path, message, error);
    return status;
}

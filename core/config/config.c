/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - makes a configuration, and answers questions about it. */
#include "core/config/config.h"

#include "core/base/error.h"
#include "core/base/option.h"
#include "core/config/config_data.h"
#include "core/config/config_env.h"
#include "core/config/config_files.h"
#include "core/config/config_schema.h"
#include "core/config/config_store.h"

#include <stdlib.h>
#include <string.h>

/* ---- making it ------------------------------------------------------------------------------ */

/* Copies the parameters; fields that an older caller does not have are zero. */
static enum kt_status take_params(const struct kt_config_params *given, struct kt_config_params *params,
                                  struct kt_error *error)
{
    memset(params, 0, sizeof *params);
    if (!given)
        return KT_OK;
    if (given->struct_size < sizeof *params || given->struct_size > 4096)
        return kt_fail(error, KT_E_INVALID,
                       "kt_config_params.struct_size is %zu; start from KT_CONFIG_PARAMS_INIT",
                       given->struct_size);
    memcpy(params, given, sizeof *params);
    if (params->n_settings > 0 && !params->settings)
        return kt_fail(error, KT_E_INVALID, "kt_config_params has %zu settings, but no list of them",
                       params->n_settings);
    if ((params->plugin_folder && params->plugin_folder[0] != '/') ||
        (params->dropin_folder && params->dropin_folder[0] != '/'))
        return kt_fail(error, KT_E_INVALID,
                       "kt_config_params: plugin_folder and dropin_folder must be absolute");
    return KT_OK;
}

/* Before the files are read, only the environment can ask for debug messages. */
static enum kt_log_level first_level(void)
{
    const struct kt_option *option =
        kt_option_find(kt_config_core_options, kt_config_n_core_options, "debug");
    const char *text = kt_config_environment("KT_KERNEL_DEBUG");
    struct kt_option_value value = {0};
    if (option && text)
        (void)kt_option_parse(option, text, &value, NULL);
    return value.number ? KT_LOG_DEBUG : KT_LOG_INFO;
}

static enum kt_status make(const struct kt_config_params *params, struct kt_config **config,
                           struct kt_error *error)
{
    struct kt_config *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return kt_fail(error, KT_E_NOMEM, "no memory for the configuration");
    atomic_init(&fresh->references, 1);
    fresh->log = (struct kt_log){params->log, params->log_data, first_level()};
    for (size_t i = 0; i < kt_config_n_core_options; i++) {
        enum kt_status status = kt_config_put(fresh, LAYER_DEFAULT, "core", kt_config_core_options[i].key,
                                              kt_config_core_options[i].default_text, "default", error);
        if (status != KT_OK) {
            kt_config_free(fresh);
            return status;
        }
    }
    fresh->plugin_folder = params->plugin_folder ? strdup(params->plugin_folder) : NULL;
    if (params->plugin_folder && !fresh->plugin_folder) {
        kt_config_free(fresh);
        return kt_fail(error, KT_E_NOMEM, "no memory for the configuration");
    }
    *config = fresh;
    return KT_OK;
}

/* Settings that override those of files. */
static enum kt_status read_rest(struct kt_config *config, const struct kt_config_params *params,
                                struct kt_error *error)
{
    enum kt_status status = kt_config_declare_texts(config, params->settings, params->n_settings, error);
    if (status == KT_OK)
        status = kt_config_read_environment(config, error);
    if (status == KT_OK)
        status = kt_config_read_texts(config, params->settings, params->n_settings, error);
    if (status == KT_OK)
        config->log.level = kt_config_bool(config, "core", "debug") ? KT_LOG_DEBUG : KT_LOG_INFO;
    return status;
}

enum kt_status kt_config_create(const struct kt_config_params *params, struct kt_config **config,
                                struct kt_error *error)
{
    if (!config)
        return kt_fail(error, KT_E_INVALID, "kt_config_create: config is NULL");
    struct kt_config_params own;
    struct kt_config *fresh = NULL;
    const struct config_visit visit = {0};
    enum kt_status status = take_params(params, &own, error);
    if (status == KT_OK)
        status = make(&own, &fresh, error);
    if (status != KT_OK)
        return status;
    status = kt_config_read_files(fresh, &own, &visit, error);
    if (status == KT_OK)
        status = read_rest(fresh, &own, error);
    if (status != KT_OK) {
        kt_config_free(fresh);
        return status;
    }
    *config = fresh;
    return KT_OK;
}

enum kt_status kt_config_check(const struct kt_config_params *params,
                               void (*visit)(void *data, const struct kt_config_file *file), void *data,
                               struct kt_error *error)
{
    if (!visit)
        return kt_fail(error, KT_E_INVALID, "kt_config_check: visit is NULL");
    struct kt_config_params own;
    struct kt_config *scratch = NULL;
    const struct config_visit to_caller = {visit, data};
    enum kt_status status = take_params(params, &own, error);
    if (status == KT_OK)
        status = make(&own, &scratch, error);
    if (status != KT_OK)
        return status;
    status = kt_config_read_files(scratch, &own, &to_caller, error);
    if (status == KT_OK)
        status = read_rest(scratch, &own, error);
    kt_config_free(scratch);
    return status;
}

struct kt_config *kt_config_retain(const struct kt_config *config)
{
    /* const holds for the settings, not for the reference count. */
    struct kt_config *shared = (struct kt_config *)(uintptr_t)config;
    atomic_fetch_add_explicit(&shared->references, 1, memory_order_relaxed);
    return shared;
}

void kt_config_destroy(struct kt_config *config)
{
    if (config && atomic_fetch_sub_explicit(&config->references, 1, memory_order_acq_rel) == 1)
        kt_config_free(config);
}

/* ---- reading it ----------------------------------------------------------------------------- */

const char *kt_config_plugin_folder(const struct kt_config *config)
{
    return config->plugin_folder ? config->plugin_folder : KT_PLUGINSDIR;
}

const struct kt_log *kt_config_log(const struct kt_config *config)
{
    return &config->log;
}

size_t kt_config_setting_count(const struct kt_config *config)
{
    return config ? config->n_settings : 0;
}

enum kt_status kt_config_setting(const struct kt_config *config, size_t index, struct kt_setting *setting,
                                 struct kt_error *error)
{
    if (!config || !setting)
        return kt_fail(error, KT_E_INVALID, "kt_config_setting: %s is NULL", config ? "setting" : "config");
    if (index >= config->n_settings)
        return kt_fail(error, KT_E_NOT_FOUND, "setting %zu of %zu does not exist", index, config->n_settings);
    *setting = config->setting[index].setting;
    return KT_OK;
}

const struct kt_setting *kt_config_find(const struct kt_config *config, const char *section, const char *key)
{
    return kt_config_lookup(config, section, key);
}

const char *kt_config_text(const struct kt_config *config, const char *section, const char *key)
{
    const struct kt_setting *setting = kt_config_find(config, section, key);
    return setting ? setting->value : "";
}

/* The value's type was checked when it was read. */
static int64_t parse(const struct kt_config *config, const char *section, const char *key)
{
    const struct kt_option *options = kt_config_core_options;
    size_t n = kt_config_n_core_options;
    if (kt_config_plugin_of(section)) {
        options = kt_config_plugin_options;
        n = kt_config_n_plugin_options;
    }
    const struct kt_option *option = kt_option_find(options, n, key);
    const struct kt_setting *setting = kt_config_find(config, section, key);
    struct kt_option_value value = {0};
    if (option && setting)
        (void)kt_option_parse(option, setting->value, &value, NULL);
    return value.number;
}

int64_t kt_config_int(const struct kt_config *config, const char *section, const char *key)
{
    return parse(config, section, key);
}

bool kt_config_bool(const struct kt_config *config, const char *section, const char *key)
{
    return parse(config, section, key) != 0;
}

size_t kt_config_plugin_count(const struct kt_config *config)
{
    return config->n_plugins;
}

const char *kt_config_plugin(const struct kt_config *config, size_t index)
{
    return config->plugin[index].name;
}

const char *kt_config_plugin_broken(const struct kt_config *config, const char *name)
{
    const struct stored_plugin *plugin = kt_config_find_plugin(config, name);
    return plugin ? plugin->broken : NULL;
}

enum kt_status kt_config_break(struct kt_config *config, const char *name, const char *reason,
                               struct kt_error *error)
{
    struct stored_plugin *plugin = kt_config_find_plugin(config, name);
    char *copy = strdup(reason);
    if (!copy)
        return kt_fail(error, KT_E_NOMEM, "no memory for the configuration");
    free(plugin->broken);
    plugin->broken = copy;
    return KT_OK;
}

void kt_config_silence(struct kt_config *config)
{
    config->log.write = NULL;
}

const char *kt_config_plugin_origin(const struct kt_config *config, size_t index)
{
    return config->plugin[index].origin;
}

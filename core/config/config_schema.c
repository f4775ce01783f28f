/* SPDX-License-Identifier: Apache-2.0 */
/* config_schema.c - the settings of the core and of every plugin. */
#include "core/config/config_schema.h"

#include "core/base/error.h"
#include "core/base/option.h"
#include "core/base/suggest.h"

#include <kt/kt.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const struct kt_option kt_config_core_options[] = {
    {"threads", KT_OPTION_INT, "0", NULL, 0, 4096,
     "threads of all NUMA nodes; 0: one per core that this process may use"},
    {"numa_nodes", KT_OPTION_STRING, "all", NULL, 0, 0, "all, or a list of node numbers: 0,2-3"},
    {"spin_us", KT_OPTION_INT, "1000", NULL, 0, 1000000,
     "microseconds that an idle worker spins before it sleeps"},
    {"huge_pages", KT_OPTION_BOOL, "yes", NULL, 0, 0, "advise huge pages for weights and buffers"},
    {"memory_mib", KT_OPTION_INT, "0", NULL, 0, INT32_MAX,
     "MiB that packed weights may take; 0: what is free; i-quants that take more get a smaller form"},
    {"backend", KT_OPTION_STRING, "auto", NULL, 0, 0, "preferred backend: auto, or a name"},
    {"strict", KT_OPTION_BOOL, "no", NULL, 0, 0, "a fallback from the preferred backend is an error"},
    {"deterministic", KT_OPTION_BOOL, "no", NULL, 0, 0,
     "a token gives the same bits whatever else is in its batch"},
    {"queue_depth", KT_OPTION_INT, "256", NULL, 1, 65536, "submitted forwards that may wait to be collected"},
    {"cpu_variant", KT_OPTION_ENUM, "",
     "|amx|avx512_bf16|avx512_vbmi|avx512_vnni|avx512|avx2|arm_bf16|i8mm|dotprod|neon|scalar", 0, 0,
     "use no CPU feature above this level"},
    {"plugin_path", KT_OPTION_STRING, "", NULL, 0, 0,
     "absolute folders searched for plugins before the built-in one, separated by :"},
    {"debug", KT_OPTION_BOOL, "no", NULL, 0, 0, "debug messages"},
};
const size_t kt_config_n_core_options = sizeof kt_config_core_options / sizeof kt_config_core_options[0];

const struct kt_option kt_config_plugin_options[] = {
    {"enabled", KT_OPTION_ENUM, "yes", "no|yes|required", 0, 0,
     "required: a context cannot be made without it"},
    {"module", KT_OPTION_STRING, "", NULL, 0, 0, "file name or absolute path of the plugin"},
    {"cpu", KT_OPTION_STRING, "", NULL, 0, 0, "CPU features without which it is not opened"},
    {"level", KT_OPTION_STRING, "auto", NULL, 0, 0, "auto: the best that the CPU can; or its name"},
    {"priority", KT_OPTION_INT, "0", NULL, -1000, 1000, "backend = auto tries higher ones first"},
};
const size_t kt_config_n_plugin_options =
    sizeof kt_config_plugin_options / sizeof kt_config_plugin_options[0];

const char *kt_config_plugin_of(const char *section)
{
    static const char prefix[] = "plugin.";
    return strncmp(section, prefix, sizeof prefix - 1) == 0 ? section + sizeof prefix - 1 : NULL;
}

const char *kt_config_tuned_of(const char *section)
{
    static const char prefix[] = "tuned.";
    return strncmp(section, prefix, sizeof prefix - 1) == 0 ? section + sizeof prefix - 1 : NULL;
}

static enum kt_status refuse_section(const struct kt_config *config, const char *section,
                                     struct kt_error *error)
{
    char name[64];
    const char *candidate = "core";
    const char *nearest = kt_nearest(section, &candidate, 1);
    for (size_t i = 0; i < config->n_plugins && !nearest; i++) {
        (void)snprintf(name, sizeof name, "plugin.%s", config->plugin[i].name);
        candidate = name;
        nearest = kt_nearest(section, &candidate, 1);
        if (!nearest && strcmp(section, config->plugin[i].name) == 0)
            nearest = name; /* the prefix was forgotten */
    }
    if (nearest)
        return kt_fail(error, KT_E_CONFIG, "unknown section [%s]; did you mean [%s]?", section, nearest);
    return kt_fail(error, KT_E_CONFIG, "unknown section [%s]; known are [core] and [plugin.NAME]", section);
}

enum kt_status kt_config_check_section(const struct kt_config *config, const char *section,
                                       struct kt_error *error)
{
    if (strcmp(section, "core") == 0)
        return KT_OK;
    const char *name = kt_config_plugin_of(section);
    if (!name)
        name = kt_config_tuned_of(section);
    if (!name)
        return refuse_section(config, section, error);
    if (!kt_option_is_word(name, KT_PLUGIN_NAME_LIMIT))
        return kt_fail(error, KT_E_CONFIG,
                       "[%s]: a plugin's name has at most %d lower-case letters, digits and _, and "
                       "starts with no digit",
                       section, KT_PLUGIN_NAME_LIMIT);
    if (strcmp(name, "reference") == 0)
        return kt_fail(error, KT_E_CONFIG,
                       "[%s]: this backend is built in and has no settings; remove the section", section);
    return KT_OK;
}

/* Settings name backends only: what a method wants besides (kt_method_setting) is a setting of its own. */
static enum kt_status refuse_backend(const char *value, struct kt_error *error)
{
    const char *backend = kt_method_backend(value), *more = kt_method_setting(value);
    if (!backend)
        return kt_fail(error, KT_E_CONFIG, "backend = \"%s\": must be auto or a backend's name", value);
    return kt_fail(error, KT_E_CONFIG,
                   "backend = \"%s\": must be auto or a backend's name; the backend of this method is "
                   "%s%s%s%s",
                   value, backend, more ? " (with " : "", more ? more : "", more ? ")" : "");
}

/* Rules beyond the type of a value. */
static enum kt_status check_text(const char *key, const char *value, struct kt_error *error)
{
    if (strcmp(key, "numa_nodes") == 0 && strcmp(value, "all") != 0 &&
        (value[0] < '0' || value[0] > '9' || strspn(value, "0123456789,-") != strlen(value)))
        return kt_fail(error, KT_E_CONFIG,
                       "numa_nodes = \"%s\": must be all, or a list of numbers such as 0,2-3", value);
    if (strcmp(key, "backend") == 0 && !kt_option_is_word(value, KT_PLUGIN_NAME_LIMIT))
        return refuse_backend(value, error);
    if (strcmp(key, "plugin_path") == 0) {
        for (const char *at = value; *at != '\0'; at += *at == ':') {
            if (*at != '/')
                return kt_fail(error, KT_E_CONFIG,
                               "plugin_path = \"%s\": must be absolute folders separated by :", value);
            at += strcspn(at, ":");
        }
    }
    return KT_OK;
}

static enum kt_status refuse_key(const char *section, const char *key, struct kt_error *error)
{
    const char *keys[16];
    size_t n = 0;
    for (; n < kt_config_n_core_options && n < sizeof keys / sizeof keys[0]; n++)
        keys[n] = kt_config_core_options[n].key;
    const char *nearest = kt_nearest(key, keys, n);
    if (nearest)
        return kt_fail(error, KT_E_CONFIG, "[%s] has no setting \"%s\"; did you mean %s?", section, key,
                       nearest);
    return kt_fail(error, KT_E_CONFIG, "[%s] has no setting \"%s\"; kt config show lists them", section, key);
}

enum kt_status kt_config_check_setting(const char *section, const char *key, const char *value,
                                       const char **help, struct kt_error *error)
{
    bool plugin = kt_config_plugin_of(section) != NULL;
    const struct kt_option *option =
        plugin ? kt_option_find(kt_config_plugin_options, kt_config_n_plugin_options, key)
               : kt_option_find(kt_config_core_options, kt_config_n_core_options, key);
    *help = option ? option->help : "";
    if (kt_config_tuned_of(section))
        return KT_OK; /* the registry checks them against the plugin */
    if (!option)
        return plugin ? KT_OK : refuse_key(section, key, error);
    if (plugin && value[0] == '\0' && strcmp(key, "module") == 0)
        return kt_fail(error, KT_E_CONFIG,
                       "module is empty; it must be a file name or an absolute path of a plugin; without "
                       "this setting it is kt_%s.so",
                       kt_config_plugin_of(section));
    struct kt_option_value parsed;
    enum kt_status status = kt_option_parse(option, value, &parsed, error);
    return status == KT_OK && !plugin ? check_text(key, value, error) : status;
}

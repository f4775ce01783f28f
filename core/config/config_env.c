/* SPDX-License-Identifier: Apache-2.0 */
/* config_env.c - reads the environment and texts of the caller. */
#define _GNU_SOURCE
#include "core/config/config_env.h"

#include "core/base/error.h"
#include "core/base/suggest.h"
#include "core/config/config_schema.h"
#include "core/config/config_store.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define PREFIX "KT_KERNEL_"

/* Short names of core settings, and variables that other code reads (key NULL). */
static const struct {
    const char *name, *key;
} short_forms[] = {
    {"KT_KERNEL_CPU_VARIANT", "cpu_variant"},
    {"KT_KERNEL_DEBUG", "debug"},
    {"KT_KERNEL_CONFIG", NULL},
    {"KT_KERNEL_PLUGINCONFDIR", NULL},
    {"KT_KERNEL_SYSCONFDIR", NULL},
    {"KT_KERNEL_LIBRARY", NULL}, /* the Python package's */
};
enum { N_SHORT_FORMS = sizeof short_forms / sizeof short_forms[0], NAME_LIMIT = 96 };

const char *kt_config_environment(const char *name)
{
    const char *text = secure_getenv(name);
    return text && text[0] != '\0' ? text : NULL;
}

static void lower(char *text)
{
    for (; *text != '\0'; text++)
        *text = (char)tolower((unsigned char)*text);
}

static void upper(char *text)
{
    for (; *text != '\0'; text++)
        *text = (char)toupper((unsigned char)*text);
}

/* Writes the name of the variable of a setting. */
static void spell(char name[NAME_LIMIT], const char *plugin, const char *key)
{
    if (plugin)
        (void)snprintf(name, NAME_LIMIT, PREFIX "PLUGIN_%s_%s", plugin, key);
    else
        (void)snprintf(name, NAME_LIMIT, PREFIX "CORE_%s", key);
    upper(name);
}

/* Keeps the name that is nearest to the variable's. */
struct search {
    const char *variable;
    char best[NAME_LIMIT];
};

static void consider(struct search *search, const char *name)
{
    if (strcmp(search->variable, PREFIX) == 0)
        return;
    const char *pair[] = {search->best, name};
    bool first = search->best[0] == '\0';
    const char *nearest = kt_nearest(search->variable, first ? &name : pair, first ? 1 : 2);
    if (nearest == name)
        (void)snprintf(search->best, sizeof search->best, "%s", name);
}

static enum kt_status refuse_variable(const struct kt_config *config, const char *variable,
                                      struct kt_error *error)
{
    struct search search = {.variable = variable};
    char name[NAME_LIMIT];
    for (size_t i = 0; i < N_SHORT_FORMS; i++)
        consider(&search, short_forms[i].name);
    for (size_t i = 0; i < kt_config_n_core_options; i++) {
        spell(name, NULL, kt_config_core_options[i].key);
        consider(&search, name);
    }
    for (size_t p = 0; p < config->n_plugins; p++) {
        for (size_t i = 0; i < kt_config_n_plugin_options; i++) {
            spell(name, config->plugin[p].name, kt_config_plugin_options[i].key);
            consider(&search, name);
        }
    }
    if (search.best[0] != '\0')
        return kt_fail(error, KT_E_CONFIG, "environment variable %s names no setting; did you mean %s?",
                       variable, search.best);
    return kt_fail(error, KT_E_CONFIG,
                   "environment variable %s names no setting; the form is KT_KERNEL_CORE_KEY or "
                   "KT_KERNEL_PLUGIN_NAME_KEY of a plugin that is configured; unset it",
                   variable);
}

/* KT_KERNEL_PLUGIN_AMX_INT4_LEVEL: plugin and key may both contain _, so the longest configured name that
 * fits is taken. */
static bool split_plugin(const struct kt_config *config, const char *rest, char section[NAME_LIMIT],
                         char key[NAME_LIMIT])
{
    char text[NAME_LIMIT];
    if (strlen(rest) >= sizeof text)
        return false;
    (void)snprintf(text, sizeof text, "%s", rest);
    lower(text);
    size_t longest = 0;
    for (size_t i = 0; i < config->n_plugins; i++) {
        const char *name = config->plugin[i].name;
        size_t length = strlen(name);
        if (length > longest && strncmp(text, name, length) == 0 && text[length] == '_' &&
            text[length + 1] != '\0')
            longest = length;
    }
    if (longest == 0)
        return false;
    (void)snprintf(section, NAME_LIMIT, "plugin.%.*s", (int)longest, text);
    (void)snprintf(key, NAME_LIMIT, "%s", text + longest + 1);
    return true;
}

/* Which setting does the variable stand for? */
static bool resolve(const struct kt_config *config, const char *variable, char section[NAME_LIMIT],
                    char key[NAME_LIMIT])
{
    static const char core[] = PREFIX "CORE_", plugin[] = PREFIX "PLUGIN_";
    (void)snprintf(section, NAME_LIMIT, "core");
    for (size_t i = 0; i < N_SHORT_FORMS; i++) {
        if (short_forms[i].key && strcmp(variable, short_forms[i].name) == 0) {
            (void)snprintf(key, NAME_LIMIT, "%s", short_forms[i].key);
            return true;
        }
    }
    for (size_t i = 0; i < kt_config_n_core_options; i++) {
        char name[NAME_LIMIT];
        spell(name, NULL, kt_config_core_options[i].key);
        if (strncmp(variable, core, sizeof core - 1) == 0 && strcmp(variable, name) == 0) {
            (void)snprintf(key, NAME_LIMIT, "%s", kt_config_core_options[i].key);
            return true;
        }
    }
    return strncmp(variable, plugin, sizeof plugin - 1) == 0 &&
           split_plugin(config, variable + sizeof plugin - 1, section, key);
}

/* Translates names of levels that KT-Kernel uses. */
static const char *translate(const char *variable, const char *value)
{
    bool variant = strcmp(variable, "KT_KERNEL_CPU_VARIANT") == 0;
    return variant && strcmp(value, "avx512_base") == 0 ? "avx512" : value;
}

static enum kt_status take_variable(struct kt_config *config, const char *variable, struct kt_error *error)
{
    for (size_t i = 0; i < N_SHORT_FORMS; i++) {
        if (!short_forms[i].key && strcmp(variable, short_forms[i].name) == 0)
            return KT_OK;
    }
    const char *value = kt_config_environment(variable);
    if (!value)
        return KT_OK;
    char section[NAME_LIMIT], key[NAME_LIMIT], origin[NAME_LIMIT + 16];
    if (!resolve(config, variable, section, key))
        return refuse_variable(config, variable, error);
    (void)snprintf(origin, sizeof origin, "environment %s", variable);
    enum kt_status status =
        kt_config_put(config, LAYER_ENVIRONMENT, section, key, translate(variable, value), origin, error);
    return status == KT_OK ? status : kt_fail_prefix(error, status, "environment %s", variable);
}

enum kt_status kt_config_read_environment(struct kt_config *config, struct kt_error *error)
{
    if (getauxval(AT_SECURE) != 0)
        return KT_OK; /* a set-user-ID program is not configured by the user who starts it */
    for (char **at = environ; at && *at; at++) {
        char variable[NAME_LIMIT];
        size_t length = strcspn(*at, "=");
        if (strncmp(*at, PREFIX, sizeof PREFIX - 1) != 0)
            continue;
        (void)snprintf(variable, sizeof variable, "%.*s",
                       (int)(length < NAME_LIMIT ? length : NAME_LIMIT - 1), *at);
        enum kt_status status = length < NAME_LIMIT ? take_variable(config, variable, error)
                                                    : refuse_variable(config, variable, error);
        if (status != KT_OK)
            return status;
    }
    return KT_OK;
}

/* ---- "section.key=value" -------------------------------------------------------------------- */

static enum kt_status fail_form(const char *text, struct kt_error *error)
{
    return kt_fail(error, KT_E_CONFIG,
                   "setting \"%s\": the form is section.key=value, such as "
                   "core.threads=4 or plugin.llamafile.level=avx2",
                   text);
}

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
        text[--length] = '\0';
    return text;
}

/* Cuts a copy of the text into its three parts; `*copy` is to be freed. */
static enum kt_status cut(const char *text, char **copy, const char **section, const char **key,
                          const char **value, struct kt_error *error)
{
    if (!text)
        return kt_fail(error, KT_E_INVALID, "a setting of the parameters is NULL");
    *copy = strdup(text);
    if (!*copy)
        return kt_fail(error, KT_E_NOMEM, "no memory for the configuration");
    char *equals = strchr(*copy, '=');
    if (equals)
        *equals = '\0';
    /* Keys of [tuned.NAME] have dots themselves. */
    bool tuned = equals && kt_config_tuned_of(*copy);
    char *dot = tuned ? strchr(*copy + strcspn(*copy, ".") + 1, '.') : equals ? strrchr(*copy, '.') : NULL;
    if (dot) {
        *dot = '\0';
        *section = trim(*copy);
        *key = trim(dot + 1);
        *value = trim(equals + 1);
        if (**section != '\0' && **key != '\0')
            return KT_OK;
    }
    free(*copy);
    *copy = NULL;
    return fail_form(text, error);
}

/* A parameter may add a plugin that no file mentions if it gives its module; any other unknown name is a
 * typing error. */
enum kt_status kt_config_declare_texts(struct kt_config *config, const char *const *texts, size_t n,
                                       struct kt_error *error)
{
    for (size_t i = 0; i < n; i++) {
        char *copy;
        const char *section, *key, *value;
        enum kt_status status = cut(texts[i], &copy, &section, &key, &value, error);
        if (status != KT_OK)
            return status;
        status = kt_config_check_section(config, section, error);
        const char *name = kt_config_plugin_of(section);
        if (status == KT_OK && name && strcmp(key, "module") == 0)
            status = kt_config_declare(config, LAYER_PARAMETER, name, "", "parameter", error);
        free(copy);
        if (status != KT_OK)
            return kt_fail_prefix(error, status, "setting \"%s\"", texts[i]);
    }
    return KT_OK;
}

static enum kt_status refuse_plugin(const struct kt_config *config, const char *name, struct kt_error *error)
{
    const char *nearest = kt_nearest(name, config->plugin_names, config->n_plugins);
    return kt_fail(error, KT_E_CONFIG,
                   "no plugin \"%s\" is configured%s%s%s; a new one also requires plugin.%s.module=FILE",
                   name, nearest ? " (did you mean " : "", nearest ? nearest : "", nearest ? "?)" : "", name);
}

enum kt_status kt_config_read_texts(struct kt_config *config, const char *const *texts, size_t n,
                                    struct kt_error *error)
{
    for (size_t i = 0; i < n; i++) {
        char *copy;
        const char *section, *key, *value;
        enum kt_status status = cut(texts[i], &copy, &section, &key, &value, error);
        if (status != KT_OK)
            return status;
        const char *name = kt_config_plugin_of(section);
        if (!name)
            name = kt_config_tuned_of(section);
        if (name && !kt_config_find_plugin(config, name))
            status = refuse_plugin(config, name, error);
        else
            status = kt_config_put(config, LAYER_PARAMETER, section, key, value, "parameter", error);
        free(copy);
        if (status != KT_OK)
            return kt_fail_prefix(error, status, "setting \"%s\"", texts[i]);
    }
    return KT_OK;
}

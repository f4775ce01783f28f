/* SPDX-License-Identifier: Apache-2.0 */
/* key.c - kt config get, set and unset: one setting is shown, or checked and changed in a file. */
#define _GNU_SOURCE

#include "tools/kt/config/config.h"
#include "tools/kt/base/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* False after a message. */
static bool split(const struct kt_cli *cli, const char *text, struct config_key *key)
{
    const char *dot = strrchr(text, '.');
    size_t length = dot ? (size_t)(dot - text) : 0;
    if (strchr(text, '=')) {
        kt_cli_usage(cli, "'%s': key and value are two words, such as core.threads 2", text);
        return false;
    }
    if (length == 0 || !dot[1] || length >= sizeof(key->section) || strlen(dot + 1) >= sizeof(key->key) ||
        strpbrk(text, " \t\n[];#:")) {
        kt_cli_usage(cli, "'%s': SECTION.KEY is needed, such as core.threads or plugin.llamafile.level",
                     text);
        return false;
    }
    key->text = text;
    memcpy(key->section, text, length);
    key->section[length] = '\0';
    strcpy(key->key, dot + 1);
    return true;
}

/* ---- what the library says ------------------------------------------------------------------ */

/* The file of --config need not be there yet. */
static const char *file_to_read(const struct kt_cli *cli)
{
    return cli->config_file && access(cli->config_file, F_OK) != 0 ? "/dev/null" : cli->config_file;
}

/* The configuration with further settings above the command line's, without a message. */
static enum kt_status configure(const struct kt_cli *cli, const char *const *more, size_t n,
                                struct kt_config **config, struct kt_error *error)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    const char **settings = kt_cli_alloc(cli, cli->n_settings + n, sizeof(*settings));
    for (size_t i = 0; i < cli->n_settings + n; i++)
        settings[i] = i < cli->n_settings ? cli->settings[i] : more[i - cli->n_settings];
    params.file = file_to_read(cli);
    params.settings = settings;
    params.n_settings = cli->n_settings + n;
    enum kt_status status = kt_config_create(&params, config, error);
    free(settings);
    return status;
}

/* What a file alone says, besides the shipped drop-ins: no variable of the environment overrides it. */
static enum kt_status read_alone(const struct kt_cli *cli, const char *path, const char *const *settings,
                                 size_t n_settings, struct kt_config **config, struct kt_error *error)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    char **all = environ;
    size_t n = 0, kept = 0;
    while (all && all[n])
        n++;
    char **few = kt_cli_alloc(cli, n + 1, sizeof(*few));
    for (size_t i = 0; i < n; i++) {
        if (strncmp(all[i], "KT_KERNEL_", 10) != 0 || strncmp(all[i], "KT_KERNEL_PLUGINCONFDIR=", 24) == 0)
            few[kept++] = all[i];
    }
    params.file = path;
    params.settings = settings;
    params.n_settings = n_settings;
    environ = few;
    enum kt_status status = kt_config_create(&params, config, error);
    environ = all;
    free(few);
    return status;
}

static bool find_setting(const struct kt_config *config, const struct config_key *key,
                         struct kt_setting *setting)
{
    for (size_t i = 0; i < kt_config_setting_count(config); i++) {
        if (kt_config_setting(config, i, setting, NULL) == KT_OK &&
            strcmp(setting->section, key->section) == 0 && strcmp(setting->key, key->key) == 0)
            return true;
    }
    return false;
}

/* ---- get ------------------------------------------------------------------------------------ */

static int print_setting(struct kt_cli *cli, const struct config_key *key, const char *value,
                         const char *origin)
{
    static const struct kt_column setting_columns[] = {
        {"section", "SECTION", KT_COLUMN_TEXT, 0, 0},
        {"key", "KEY", KT_COLUMN_TEXT, 0, 0},
        {"value", "VALUE", KT_COLUMN_TEXT, 0, 0},
        {"origin", "ORIGIN", KT_COLUMN_TEXT, 0, 0},
    };
    if (cli->format == KT_FORMAT_TABLE) {
        puts(value);
        return KT_EXIT_OK;
    }
    struct kt_output *output = kt_output_create(cli, "kt.config.get", 1);
    struct kt_table *table = kt_output_table(output, "rows", setting_columns, 4);
    kt_table_row(table);
    kt_table_text(table, "section", key->section);
    kt_table_text(table, "key", key->key);
    kt_table_text(table, "value", value);
    kt_table_text(table, "origin", origin);
    return kt_output_finish(output, KT_EXIT_OK);
}

static int fail_unset(const struct kt_cli *cli, const struct kt_config *config, const char *text)
{
    size_t n = kt_config_setting_count(config);
    char **names = kt_cli_alloc(cli, n, sizeof(*names));
    struct kt_setting setting;
    for (size_t i = 0; i < n; i++) {
        bool there = kt_config_setting(config, i, &setting, NULL) == KT_OK;
        names[i] = kt_cli_format(cli, "%s.%s", there ? setting.section : "", there ? setting.key : "");
    }
    int code = kt_cli_error(cli, "%s is not set and has no default%s", text,
                            kt_cli_hint(text, (const char *const *)names, n).text);
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
    return code;
}

/* The plugin's own options have defaults that only it knows. */
static int get_from_plugin(struct kt_cli *cli, struct kt_config *config, const struct config_key *key)
{
    struct kt_context *context;
    struct kt_backend_info info;
    struct kt_setting setting;
    struct kt_error error;
    kt_cli_try_plugins(cli, config);
    if (kt_context_create(config, &context, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    int code = -1;
    for (size_t i = 0; code < 0 && i < kt_context_backend_count(context); i++) {
        if (kt_context_backend(context, i, &info, NULL) != KT_OK || strcmp(info.name, key->section + 7) != 0)
            continue;
        for (size_t o = 0; code < 0 && o < info.n_options; o++) {
            if (kt_context_backend_option(context, i, o, &setting, NULL) == KT_OK &&
                strcmp(setting.key, key->key) == 0)
                code = print_setting(cli, key, setting.value, setting.origin);
        }
    }
    kt_context_destroy(context);
    return code >= 0 ? code : fail_unset(cli, config, key->text);
}

int config_get(struct kt_cli *cli, const char *text)
{
    struct config_key key;
    struct kt_config *config;
    struct kt_setting setting;
    if (!split(cli, text, &key))
        return KT_EXIT_USAGE;
    int code = kt_cli_config(cli, &config);
    if (code != KT_EXIT_OK)
        return code;
    if (find_setting(config, &key, &setting))
        code = print_setting(cli, &key, setting.value, setting.origin);
    else if (strncmp(key.section, "plugin.", 7) == 0)
        code = get_from_plugin(cli, config, &key);
    else
        code = fail_unset(cli, config, text);
    kt_config_destroy(config);
    return code;
}

/* ---- checks of a new value -------------------------------------------------------------------- */

/* Do key and value suit the schema? Where a file is broken, which the change may mend, only the shipped
 * drop-ins say which plugins there are, and any other is taken. */
static int check_schema(const struct kt_cli *cli, const struct config_key *key, const char *setting)
{
    struct kt_config *config;
    struct kt_error error, ignored;
    enum kt_status status = configure(cli, &setting, 1, &config, &error);
    if (status != KT_OK && configure(cli, NULL, 0, &config, &ignored) == KT_OK) {
        kt_config_destroy(config);
        return kt_cli_usage(cli, "%s", error.message);
    }
    if (status != KT_OK) {
        bool plugin = strncmp(key->section, "plugin.", 7) == 0;
        char *module = kt_cli_format(cli, "%s.module=any.so", key->section);
        const char *settings[] = {setting, module};
        status = read_alone(cli, "/dev/null", settings, plugin ? 2 : 1, &config, &error);
        free(module);
    }
    if (status != KT_OK)
        return kt_cli_usage(cli, "%s", error.message);
    kt_config_destroy(config);
    return KT_EXIT_OK;
}

/* A context made with or without the setting. */
struct trial {
    struct kt_context *context;
    struct kt_error error;          /* why there is none */
    struct kt_backend_info backend; /* name NULL: it is not among the backends */
};

static void find_backend(struct trial *trial, const char *name)
{
    struct kt_backend_info info;
    for (size_t i = 0; i < kt_context_backend_count(trial->context); i++) {
        if (kt_context_backend(trial->context, i, &info, NULL) == KT_OK && strcmp(info.name, name) == 0)
            trial->backend = info;
    }
}

static void try(const struct kt_cli *cli, struct trial *trial, const char *const *settings, size_t n,
                const char *backend)
{
    struct kt_config *config;
    *trial = (struct trial){.context = NULL};
    if (configure(cli, settings, n, &config, &trial->error) != KT_OK)
        return;
    kt_cli_try_plugins(cli, config);
    if (kt_context_create(config, &trial->context, &trial->error) == KT_OK)
        find_backend(trial, backend);
    kt_config_destroy(config);
}

static int compare_trials(const struct kt_cli *cli, const struct config_key *key, const char *value,
                          const struct trial *with, const struct trial *without)
{
    const struct kt_backend_info *backend = &with->backend;
    if (!without->context) {
        kt_cli_note(cli, "not checked by opening the plugins: %s", without->error.message);
        return KT_EXIT_OK;
    }
    if (!with->context)
        return kt_cli_usage(cli, "%s", with->error.message);
    if (strcmp(key->text, "core.backend") == 0) {
        if (backend->name || strcmp(value, "auto") == 0)
            return KT_EXIT_OK;
        return kt_cli_usage(cli, "core.backend = %s: no such backend is configured; kt backends lists them",
                            value);
    }
    if (strcmp(key->section, "core") == 0 || (backend->name && backend->state == KT_BACKEND_LOADED))
        return KT_EXIT_OK;
    if (backend->name && backend->state == KT_BACKEND_FAILED && without->backend.name &&
        without->backend.state != KT_BACKEND_FAILED)
        return kt_cli_usage(cli, "%s", backend->reason);
    kt_cli_note(cli, "not checked by the plugin, which cannot be used here: %s",
                backend->name ? backend->reason : "it is not configured");
    return KT_EXIT_OK;
}

/* Only a plugin knows its levels and options, only the machine its nodes, so both are asked. */
static int check_value(const struct kt_cli *cli, const struct config_key *key, const char *setting,
                       const char *value)
{
    static const char *const plain[] = {"enabled", "module", "cpu", "priority"};
    bool plugin = strncmp(key->section, "plugin.", 7) == 0;
    struct trial with, without;
    for (size_t i = 0; plugin && i < sizeof(plain) / sizeof(plain[0]); i++) {
        if (strcmp(key->key, plain[i]) == 0)
            return KT_EXIT_OK;
    }
    if (!plugin && strcmp(key->key, "numa_nodes") != 0 && strcmp(key->key, "backend") != 0)
        return KT_EXIT_OK;
    char *enabled = kt_cli_format(cli, "%s.enabled=yes", key->section);
    const char *settings[] = {enabled, setting};
    const char *backend = plugin ? key->section + 7 : value;
    size_t n = plugin ? 0 : 1; /* the first of the settings */
    try(cli, &without, settings, 1 - n, backend);
    try(cli, &with, settings + n, 2 - n, backend);
    int code = compare_trials(cli, key, value, &with, &without);
    kt_context_destroy(with.context);
    kt_context_destroy(without.context);
    free(enabled);
    return code;
}

/* ---- what is written ------------------------------------------------------------------------ */

struct change {
    const struct kt_cli *cli;
    const struct config_file *file;
    const struct config_key *key;
    const char *value;
    unsigned line;
};

/* The library's message about the temporary file, with the name of the file that it stands for. */
static char *rename_in(const struct kt_cli *cli, const char *message, const char *temporary, const char *path)
{
    char *text = kt_cli_format(cli, "%s", message);
    for (char *at = text; (at = strstr(at, temporary)) != NULL;) {
        size_t before = (size_t)(at - text);
        char *renamed = kt_cli_format(cli, "%.*s%s%s", (int)before, text, path, at + strlen(temporary));
        free(text);
        text = renamed;
        at = text + before + strlen(path);
    }
    return text;
}

static int refuse(const struct change *change, const char *temporary, const struct kt_error *error)
{
    struct kt_config *config;
    char *message = rename_in(change->cli, error->message, temporary, change->file->path);
    int code;
    /* Was it broken before? */
    if (!change->file->exists ||
        read_alone(change->cli, change->file->target, NULL, 0, &config, NULL) == KT_OK) {
        if (change->file->exists)
            kt_config_destroy(config);
        code = kt_cli_usage(change->cli, "nothing was changed: %s", message);
    } else {
        code = kt_cli_error(change->cli, "nothing was changed, for the file has another error: %s", message);
    }
    free(message);
    return code;
}

/* Does the library read from the file what was meant? */
static int read_back(const char *temporary, void *data)
{
    const struct change *change = data;
    struct kt_config *config;
    struct kt_setting setting;
    struct kt_error error;
    if (read_alone(change->cli, temporary, NULL, 0, &config, &error) != KT_OK)
        return refuse(change, temporary, &error);
    bool same = find_setting(config, change->key, &setting) && strcmp(setting.value, change->value) == 0;
    kt_config_destroy(config);
    if (same)
        return KT_EXIT_OK;
    return kt_cli_usage(change->cli,
                        "nothing was changed: a file cannot hold the value '%s', for a line ends it, "
                        "and so does a ; behind a space",
                        change->value);
}

/* What holds now, and where it is from. False after a warning. */
static bool find_effect(const struct kt_cli *cli, const struct config_key *key, struct kt_config **config,
                        struct kt_setting *setting)
{
    struct kt_error error;
    if (configure(cli, NULL, 0, config, &error) != KT_OK) {
        kt_cli_warn(cli, "the configuration cannot be read: %s", error.message);
        return false;
    }
    if (find_setting(*config, key, setting))
        return true;
    kt_config_destroy(*config);
    return false;
}

static const struct kt_column columns[] = {
    {"action", "ACTION", KT_COLUMN_TEXT, 0, 0}, {"file", "FILE", KT_COLUMN_TEXT, 0, 0},
    {"line", "LINE", KT_COLUMN_UINT, 0, 0},     {"section", "SECTION", KT_COLUMN_TEXT, 0, 0},
    {"key", "KEY", KT_COLUMN_TEXT, 0, 0},       {"value", "VALUE", KT_COLUMN_TEXT, 0, 0}, /* that holds now */
    {"origin", "ORIGIN", KT_COLUMN_TEXT, 0, 0},
};

static int tell(struct kt_cli *cli, const struct change *change, const char *action, const char *sentence)
{
    const struct config_key *key = change->key;
    struct kt_config *config;
    struct kt_setting setting;
    char *origin = kt_cli_format(cli, "%s:%u", change->file->path, change->line);
    bool known = find_effect(cli, key, &config, &setting);
    struct kt_output *output = kt_output_create(cli, "kt.config.change", 1);
    struct kt_table *table = kt_output_table(output, "rows", columns, 7);
    if (cli->format == KT_FORMAT_TABLE) {
        kt_output_note(output, sentence);
    } else {
        kt_table_row(table);
        kt_table_text(table, "action", action);
        kt_table_text(table, "file", change->file->path);
        kt_table_uint(table, "line", change->line);
        kt_table_text(table, "section", key->section);
        kt_table_text(table, "key", key->key);
        if (known) {
            kt_table_text(table, "value", setting.value);
            kt_table_text(table, "origin", setting.origin);
        }
    }
    if (known && change->value && strcmp(setting.origin, origin) != 0)
        kt_cli_warn(cli, "without effect here: %s is %s, by %s", key->text,
                    *setting.value ? setting.value : "empty", setting.origin);
    else if (known && !change->value)
        kt_cli_note(cli, "%s is %s now, by %s", key->text, *setting.value ? setting.value : "empty",
                    setting.origin);
    if (known)
        kt_config_destroy(config);
    free(origin);
    return kt_output_finish(output, KT_EXIT_OK);
}

/* ---- the actions ---------------------------------------------------------------------------- */

static int write_setting(struct kt_cli *cli, const struct config_key *key, const char *value,
                         const char *path, bool system)
{
    struct config_file file;
    int code = config_file_open(cli, &file, path, system ? 0755 : 0700);
    if (code != KT_EXIT_OK)
        return code;
    struct change change = {.cli = cli, .file = &file, .key = key, .value = value};
    change.line = ini_text_set(cli, &file.ini, key, value);
    code = config_file_write(cli, &file, read_back, &change);
    if (code == KT_EXIT_OK) {
        char *sentence = kt_cli_format(cli, "%s:%u: %s = %s", path, change.line, key->key, value);
        code = tell(cli, &change, "set", sentence);
        free(sentence);
    }
    config_file_close(&file);
    return code;
}

int config_set(struct kt_cli *cli, const char *text, const char *value, bool system)
{
    struct config_key key;
    if (!split(cli, text, &key))
        return KT_EXIT_USAGE;
    char *path = config_file_path(cli, system);
    if (!path)
        return KT_EXIT_PROBLEM;
    value += strspn(value, " \t");
    char *trimmed = kt_cli_format(cli, "%s", value);
    for (size_t n = strlen(trimmed); n > 0 && (trimmed[n - 1] == ' ' || trimmed[n - 1] == '\t'); n--)
        trimmed[n - 1] = '\0';
    char *setting = kt_cli_format(cli, "%s=%s", text, trimmed);
    int code = check_schema(cli, &key, setting);
    if (code == KT_EXIT_OK)
        code = check_value(cli, &key, setting, trimmed);
    if (code == KT_EXIT_OK)
        code = write_setting(cli, &key, trimmed, path, system);
    free(setting);
    free(trimmed);
    free(path);
    return code;
}

/* A file or a line that is not there: what holds instead? */
static int fail_absent(const struct kt_cli *cli, const struct config_key *key, const char *path)
{
    struct kt_config *config;
    struct kt_setting setting;
    if (configure(cli, NULL, 0, &config, NULL) != KT_OK)
        return kt_cli_error(cli, "%s does not set %s", path, key->text);
    int code = find_setting(config, key, &setting)
                   ? kt_cli_error(cli, "%s does not set %s, which is %s, by %s", path, key->text,
                                  *setting.value ? setting.value : "empty", setting.origin)
                   : kt_cli_error(cli, "%s does not set %s", path, key->text);
    kt_config_destroy(config);
    return code;
}

int config_unset(struct kt_cli *cli, const char *text, bool system)
{
    struct config_key key;
    struct config_file file;
    if (!split(cli, text, &key))
        return KT_EXIT_USAGE;
    char *path = config_file_path(cli, system);
    if (!path)
        return KT_EXIT_PROBLEM;
    int code = access(path, F_OK) == 0 ? config_file_open(cli, &file, path, 0) : fail_absent(cli, &key, path);
    if (code == KT_EXIT_OK) {
        struct change change = {.cli = cli, .file = &file, .key = &key};
        change.line = ini_text_unset(cli, &file.ini, &key);
        code = change.line ? config_file_write(cli, &file, NULL, NULL) : fail_absent(cli, &key, path);
        if (code == KT_EXIT_OK) {
            char *sentence = kt_cli_format(cli, "%s:%u: %s removed", path, change.line, text);
            code = tell(cli, &change, "unset", sentence);
            free(sentence);
        }
        config_file_close(&file);
    }
    free(path);
    return code;
}

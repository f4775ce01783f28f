/* SPDX-License-Identifier: Apache-2.0 */
/* version.c - kt version: versions of the loaded library and of the headers at build time; where this
 * installation is, its Python package, and the CPU's level: what a report of an error needs. */
#include "tools/kt/base/table.h"

#include <kt/plugin.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct kt_column columns[] = {
    {"component", "COMPONENT", KT_COLUMN_TEXT, 0, 0},
    {"version", "VERSION", KT_COLUMN_TEXT, 0, 0},
};

static void add(struct kt_table *table, const char *component, const char *version)
{
    kt_table_row(table);
    kt_table_text(table, "component", component);
    kt_table_text(table, "version", version);
}

/* ---- where it is ---------------------------------------------------------------------------- */

/* The installation that this program belongs to. */
struct place {
    char program[PATH_MAX];
    char prefix[PATH_MAX];  /* "": a build that is not installed */
    char package[PATH_MAX]; /* the folder of the Python package; "": none is found */
};

/* Takes `package`, whose path may hold "..", if the package is there. */
static bool take_package(struct place *place, const char *package)
{
    char file[PATH_MAX];
    if (snprintf(file, sizeof(file), "%s/__init__.py", package) < (int)sizeof(file) &&
        access(file, F_OK) == 0 && realpath(package, place->package))
        return true;
    place->package[0] = '\0';
    return false;
}

/* Around the program where a wheel has both; below the same prefix, wherever that was moved to; where it was
 * configured, if that is elsewhere. A build has none. */
static void find_package(struct place *place)
{
    static const char prefix[] = KT_PREFIX "/", folder[] = KT_PYTHONDIR;
    char path[2 * PATH_MAX];
    bool is_below = strncmp(folder, prefix, sizeof(prefix) - 1) == 0;
    (void)snprintf(path, sizeof(path), "%s/../../kt_kernel", place->prefix);
    if (!*place->prefix || take_package(place, path))
        return;
    (void)snprintf(path, sizeof(path), "%s/%s/kt_kernel", is_below ? place->prefix : "",
                   is_below ? folder + sizeof(prefix) - 1 : folder);
    if (*folder)
        (void)take_package(place, path);
}

static void find_place(struct place *place)
{
    static const char bin[] = "/bin";
    ssize_t length = readlink("/proc/self/exe", place->program, sizeof(place->program) - 1);
    place->program[length > 0 ? length : 0] = '\0';
    snprintf(place->prefix, sizeof(place->prefix), "%s", place->program);
    char *slash = strrchr(place->prefix, '/');
    if (slash)
        *slash = '\0';
    size_t end = strlen(place->prefix);
    if (strcmp(place->prefix, KT_BINDIR) == 0)
        snprintf(place->prefix, sizeof(place->prefix), "%s", KT_PREFIX);
    else if (end > sizeof(bin) - 1 && strcmp(place->prefix + end - (sizeof(bin) - 1), bin) == 0)
        place->prefix[end - (sizeof(bin) - 1)] = '\0';
    else
        place->prefix[0] = '\0';
    place->package[0] = '\0';
    find_package(place);
}

/* "python3.11", of the folder that a Python has its packages in; "python" where its path names none. */
static void name_python(const char *package, char *name, size_t size)
{
    static const char part[] = "/python";
    const char *at = package, *found = NULL;
    while ((at = strstr(at, part))) {
        if (at[sizeof(part) - 1] >= '0' && at[sizeof(part) - 1] <= '9')
            found = at;
        at++;
    }
    snprintf(name, size, "%.*s", found ? (int)strcspn(found + 1, "/") : 6, found ? found + 1 : "python");
}

static void add_place(const struct kt_cli *cli, struct kt_output *output, const struct place *place)
{
    bool is_table = cli->format == KT_FORMAT_TABLE;
    char python[64] = "", text[PATH_MAX + 128] = "none is found";
    kt_output_fact_text(output, "program", "program", place->program);
    kt_output_fact_text(output, "prefix", "prefix",
                        *place->prefix || !is_table ? place->prefix : "none: a build that is not installed");
    if (*place->package) {
        name_python(place->package, python, sizeof(python));
        snprintf(text, sizeof(text), "%s, of %s", place->package, python);
    }
    kt_output_fact_text(output, "python_package", "Python package", is_table ? text : place->package);
    kt_output_fact_text(output, "python", NULL, python);
}

/* ---- the CPU -------------------------------------------------------------------------------- */

/* Does core.cpu_variant make the CPU less than it is? */
static bool is_masked(const struct kt_config *config)
{
    struct kt_setting setting;
    for (size_t i = 0; i < kt_config_setting_count(config); i++) {
        if (kt_config_setting(config, i, &setting, NULL) == KT_OK && strcmp(setting.section, "core") == 0 &&
            strcmp(setting.key, "cpu_variant") == 0)
            return *setting.value;
    }
    return false;
}

/* The level as kt doctor says it. False: it cannot be known, error says why. */
static bool find_level(const struct kt_cli *cli, char *level, size_t size, struct kt_error *error)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_context_info info;
    struct kt_config *config = NULL;
    struct kt_context *context = NULL;
    params.file = cli->config_file;
    params.settings = cli->settings;
    params.n_settings = cli->n_settings;
    enum kt_status status = kt_config_create(&params, &config, error);
    if (status == KT_OK) {
        kt_cli_try_plugins(cli, config);
        status = kt_context_create(config, &context, error);
    }
    if (status == KT_OK) {
        kt_context_info(context, &info);
        snprintf(level, size, "%s%s", info.cpu_variant,
                 cli->format == KT_FORMAT_TABLE && is_masked(config) ? " (core.cpu_variant masks the CPU)"
                                                                     : "");
    }
    kt_context_destroy(context);
    kt_config_destroy(config);
    return status == KT_OK;
}

/* A machine or a configuration without a level still has versions. */
static void add_level(const struct kt_cli *cli, struct kt_output *output)
{
    struct kt_error error;
    char level[128], text[sizeof(error.message) + 64];
    if (find_level(cli, level, sizeof(level), &error)) {
        kt_output_fact_text(output, "cpu_level", "CPU level", level);
        return;
    }
    snprintf(text, sizeof(text), "The CPU's level is not known: %s.", error.message);
    kt_output_fact_text(output, "cpu_level", "CPU level", cli->format == KT_FORMAT_TABLE ? "unknown" : "");
    kt_output_note(output, text);
}

const struct kt_cli_command kt_version_command =
    {.usage = "[OPTION]...",
     .about = "Shows the versions of the command, of the library in use, and of the plugin ABI: plugins "
              "with the same major and at most this minor version can be loaded. Lines above have the "
              "paths of the program, its prefix and its Python package, and the CPU level."};

int kt_cmd_version(struct kt_cli *cli, int argc, char **argv)
{
    struct place place;
    char abi[32];
    if (!kt_cli_parse(cli, &kt_version_command, argc, argv, NULL))
        return cli->exit_code;
    int code = kt_cli_check_settings(cli);
    if (code != KT_EXIT_OK)
        return code;
    cli->shows_plugins = true; /* kt backends says what is wrong with them */
    find_place(&place);
    snprintf(abi, sizeof(abi), "%d.%d", KT_PLUGIN_ABI_MAJOR, KT_PLUGIN_ABI_MINOR);
    struct kt_output *output = kt_output_create(cli, "kt.version", 1);
    add_place(cli, output, &place);
    add_level(cli, output);
    struct kt_table *table = kt_output_table(output, "rows", columns, 2);
    add(table, "kt", KT_VERSION);
    add(table, "libktkernel", kt_version());
    add(table, "plugin-abi", abi);
    return kt_output_finish(output, KT_EXIT_OK);
}

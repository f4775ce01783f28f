/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - kt config: the settings and where they come from, the files, their errors. */
#include "tools/kt/table.h"

#include <string.h>

static const char *const actions[] = {"show", "path", "check"};

static int show(struct kt_cli *cli)
{
    static const struct kt_column columns[] = {
        {"section", "SECTION", KT_COLUMN_TEXT, 0, 0},
        {"key", "KEY", KT_COLUMN_TEXT, 0, 0},
        {"value", "VALUE", KT_COLUMN_TEXT, 0, 0},
        {"origin", "ORIGIN", KT_COLUMN_TEXT, 0, 0},
        {"help", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
    };
    struct kt_config *config;
    struct kt_error error;
    int code = kt_cli_config(cli, &config);
    if (code != KT_EXIT_OK)
        return code;
    struct kt_output *output = kt_output_create(cli, "kt.config.show", 1);
    struct kt_table *table = kt_output_table(output, "rows", columns, 5);
    for (size_t i = 0; i < kt_config_setting_count(config); i++) {
        struct kt_setting setting;
        if (kt_config_setting(config, i, &setting, &error) != KT_OK) {
            code = kt_cli_fail(cli, &error);
            break;
        }
        kt_table_row(table);
        kt_table_text(table, "section", setting.section);
        kt_table_text(table, "key", setting.key);
        kt_table_text(table, "value", setting.value);
        kt_table_text(table, "origin", setting.origin);
        kt_table_text(table, "help", setting.help);
    }
    code = kt_output_finish(output, code);
    kt_config_destroy(config);
    return code;
}

/* ---- files ---------------------------------------------------------------------------------- */

struct findings {
    struct kt_cli *cli;
    struct kt_table *table;
    size_t n_failed;
};

static const struct kt_column file_columns[] = {
    {"kind", "KIND", KT_COLUMN_TEXT, 0, 0},
    {"name", "NAME", KT_COLUMN_TEXT, 0, 0},
    {"state", "STATE", KT_COLUMN_TEXT, 0, 0},
    {"message", "MESSAGE", KT_COLUMN_TEXT, 0, 0},
};

static void add(struct findings *findings, const char *kind, const char *name, const char *state,
                const char *message)
{
    kt_table_row(findings->table);
    kt_table_text(findings->table, "kind", kind);
    kt_table_text(findings->table, "name", name);
    kt_table_text(findings->table, "state", state);
    kt_table_text(findings->table, "message", message);
}

static void add_file(void *data, const struct kt_config_file *file)
{
    static const char *const states[] = {"read", "absent", "failed"};
    struct findings *findings = data;
    add(findings, "file", file->path, states[file->state], file->message);
    if (file->state == KT_CONFIG_FILE_FAILED)
        findings->n_failed++;
}

/* Visits the files. Returns an error outside of them, such as in the environment. */
static int list_files(struct findings *findings)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_error error;
    params.file = findings->cli->config_file;
    params.settings = findings->cli->settings;
    params.n_settings = findings->cli->n_settings;
    params.log = kt_cli_log;
    params.log_data = findings->cli;
    if (kt_config_check(&params, add_file, findings, &error) != KT_OK && findings->n_failed == 0)
        return kt_cli_fail(findings->cli, &error);
    return KT_EXIT_OK;
}

static int list_paths(struct kt_cli *cli)
{
    struct kt_output *output = kt_output_create(cli, "kt.config.path", 1);
    struct findings findings = {.cli = cli};
    findings.table = kt_output_table(output, "rows", file_columns, 4);
    return kt_output_finish(output, list_files(&findings));
}

/* Only a plugin knows its options, so the plugins are opened. */
static int check_plugins(struct findings *findings)
{
    struct kt_context *context;
    struct kt_backend_info info;
    struct kt_error error;
    int code = kt_cli_context(findings->cli, &context);
    if (code != KT_EXIT_OK)
        return code;
    for (size_t i = 0; i < kt_context_backend_count(context); i++) {
        if (kt_context_backend(context, i, &info, &error) != KT_OK) {
            code = kt_cli_fail(findings->cli, &error);
            break;
        }
        bool failed = info.state == KT_BACKEND_FAILED;
        add(findings, "plugin", info.name, failed ? "failed" : "ok", failed ? info.reason : "");
        findings->n_failed += failed;
    }
    kt_context_destroy(context);
    return code;
}

static int check(struct kt_cli *cli)
{
    struct kt_output *output = kt_output_create(cli, "kt.config.check", 1);
    struct findings findings = {.cli = cli};
    findings.table = kt_output_table(output, "rows", file_columns, 4);
    int code = list_files(&findings);
    if (code == KT_EXIT_OK && findings.n_failed == 0)
        code = check_plugins(&findings);
    size_t n_failed = findings.n_failed;
    code = kt_output_finish(output, code);
    if (n_failed > 0)
        code = kt_cli_error(cli, "%zu %s wrong, see the lines marked failed", n_failed,
                            n_failed == 1 ? "entry is" : "entries are");
    return code;
}

int kt_cmd_config(struct kt_cli *cli, int argc, char **argv)
{
    static const struct kt_cli_command command =
        {.usage = "show|path|check",
         .about = "Shows the configuration.\n"
                  "  show   every setting, its value and where that comes from\n"
                  "  path   the configuration files in reading order, later ones win\n"
                  "  check  reads all files and opens the plugins; exit status 1 if one is wrong",
         .arguments = "show, path or check",
         .min_arguments = 1,
         .max_arguments = 1};
    if (!kt_cli_parse(cli, &command, argc, argv, NULL))
        return cli->exit_code;
    const char *action = cli->arguments[0];
    if (strcmp(action, "show") == 0)
        return show(cli);
    if (strcmp(action, "path") == 0 || strcmp(action, "check") == 0) {
        int code = kt_cli_check_settings(cli);
        if (code != KT_EXIT_OK)
            return code;
        return *action == 'p' ? list_paths(cli) : check(cli);
    }
    const char *near = kt_cli_nearest(action, actions, 3);
    if (near)
        return kt_cli_usage(cli, "unknown action '%s', did you mean '%s'?", action, near);
    return kt_cli_usage(cli, "unknown action '%s': show, path or check is needed", action);
}

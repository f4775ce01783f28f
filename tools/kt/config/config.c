/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - kt config: the settings and where they come from, the files, their errors. */
#include "tools/kt/config/config.h"
#include "tools/kt/base/table.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

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
    static const char *const states[] = {"read", "absent", "failed", "ignored"};
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

/* ---- the command line ----------------------------------------------------------------------- */

enum action { SHOW, PATH, CHECK, GET, SET, UNSET, N_ACTIONS };
static const char *const actions[N_ACTIONS] = {"show", "path", "check", "get", "set", "unset"};

struct args {
    bool system;
};

static const struct kt_cli_option options[] = {{KT_OPTION("system", 0, KT_CLI_FLAG, system, NULL,
                                                          "the machine's kt.ini instead of the user's"),
                                                .of = "set, unset"},
                                               {.name = NULL}};

const struct kt_cli_command kt_config_command =
    {.usage = "show|path|check [OPTION]...\n"
              "get KEY [OPTION]...\n"
              "set KEY VALUE [--system] [OPTION]...\n"
              "unset KEY [--system] [OPTION]...",
     .about =
         "Shows and changes the configuration. KEY is, for example, core.threads or plugin.llamafile.level.\n"
         "  show   all settings with values and origins\n"
         "  path   the configuration files in reading order; later ones override\n"
         "  check  reads all files and opens the plugins; exit status 1 if one is invalid\n"
         "  get    the value of one setting; exit status 1 if it has none\n"
         "  set    checks the value and writes it to the user's kt.ini, or --config FILE\n"
         "  unset  takes the setting out of that file; exit status 1 if it is not there",
     .options = options,
     .arguments = "show, path, check, get, set or unset",
     .min_arguments = 1,
     .max_arguments = 3};

static int find_action(const struct kt_cli *cli, const char *word)
{
    return kt_cli_action(cli, word, actions, N_ACTIONS, kt_config_command.arguments);
}

static int check_words(const struct kt_cli *cli, enum action action, const struct args *args)
{
    static const int counts[N_ACTIONS] = {1, 1, 1, 2, 3, 2};
    if (action == SET && cli->n_arguments == 2 && strchr(cli->arguments[1], '='))
        return kt_cli_usage(cli, "'%s': key and value are two words, such as core.threads 2",
                            cli->arguments[1]);
    if (cli->n_arguments < counts[action])
        return kt_cli_usage(cli, "%s is missing after %s", cli->n_arguments == 1 ? "KEY" : "VALUE",
                            cli->arguments[cli->n_arguments - 1]);
    if (cli->n_arguments > counts[action])
        return kt_cli_usage(cli, "'%s' is one argument too many", cli->arguments[counts[action]]);
    if (args->system && cli->config_file)
        return kt_cli_usage(cli, "--system and --config name two files");
    return kt_cli_check_of(cli, &kt_config_command, actions[action]);
}

static int run_action(struct kt_cli *cli, enum action action, const struct args *args)
{
    char **words = cli->arguments;
    int code;
    switch (action) {
    case SHOW:
        return show(cli);
    case GET:
        return config_get(cli, words[1]);
    case SET:
        return config_set(cli, words[1], words[2], args->system);
    case UNSET:
        return config_unset(cli, words[1], args->system);
    default:
        code = kt_cli_check_settings(cli);
        if (code != KT_EXIT_OK)
            return code;
        return action == PATH ? list_paths(cli) : check(cli);
    }
}

/* "set plugin.NAME.priority -5": getopt takes a number for options unless -- stands before it. */
static char **protect_number(const struct kt_cli *cli, int argc, char **argv)
{
    static char dashes[] = "--";
    char **words = kt_cli_alloc(cli, (size_t)argc + 2, sizeof(*words));
    int n = 0, number = 0;
    for (int i = 1; i < argc && strcmp(argv[i], dashes) != 0; i++) {
        if (argv[i][0] == '-' && argv[i][1] >= '0' && argv[i][1] <= '9')
            number = i;
    }
    for (int i = 0; i < argc; i++) {
        if (i != number || number == 0)
            words[n++] = argv[i];
    }
    if (number) {
        words[n++] = dashes;
        words[n++] = argv[number];
    }
    return words;
}

int kt_cmd_config(struct kt_cli *cli, int argc, char **argv)
{
    struct args args = {.system = false};
    char **words = protect_number(cli, argc, argv);
    while (words[argc])
        argc++;
    int code;
    if (!kt_cli_parse(cli, &kt_config_command, argc, words, &args)) {
        code = cli->exit_code;
    } else {
        int action = find_action(cli, cli->arguments[0]);
        code = action < 0 ? KT_EXIT_USAGE : check_words(cli, (enum action)action, &args);
        if (code == KT_EXIT_OK)
            code = run_action(cli, (enum action)action, &args);
    }
    free(words);
    return code;
}

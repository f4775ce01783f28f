/* SPDX-License-Identifier: Apache-2.0 */
/* backends.c - kt backends: every configured backend, its state, the reason, its options. */
#include "tools/kt/base/table.h"

#include <stdlib.h>
#include <string.h>

struct args {
    bool options;
};

static const struct kt_column backend_columns[] = {
    {"backend", "BACKEND", KT_COLUMN_TEXT, 0, 0},
    {"state", "STATE", KT_COLUMN_TEXT, 0, 0},
    {"level", "LEVEL", KT_COLUMN_TEXT, 0, 0},
    {"levels", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
    {"priority", "PRIORITY", KT_COLUMN_INT, 0, 0},
    {"linears", NULL, KT_COLUMN_BOOL, 0, KT_COLUMN_HIDDEN},
    {"attention", NULL, KT_COLUMN_BOOL, 0, KT_COLUMN_HIDDEN},
    {"computes", "COMPUTES", KT_COLUMN_TEXT, 0, 0},
    {"reason", "REASON", KT_COLUMN_TEXT, 0, KT_COLUMN_RARE},
    {"formats", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
    {"instruction", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
    {"version", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
    {"description", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
    {"file", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
    {"origin", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
};

/* The columns that would make the first table too wide for people. */
static const struct kt_column detail_columns[] = {
    {"backend", "BACKEND", KT_COLUMN_TEXT, 0, 0},
    {"what", "", KT_COLUMN_TEXT, 0, 0},
    {"value", "", KT_COLUMN_TEXT, 0, 0},
};

static const struct kt_column option_columns[] = {
    {"backend", "BACKEND", KT_COLUMN_TEXT, 0, 0}, {"key", "OPTION", KT_COLUMN_TEXT, 0, 0},
    {"value", "VALUE", KT_COLUMN_TEXT, 0, 0},     {"origin", "ORIGIN", KT_COLUMN_TEXT, 0, 0},
    {"help", "HELP", KT_COLUMN_TEXT, 0, 0},
};

/* What a loaded backend is asked for. Linears come with experts, but for plugins of an older ABI. */
static const char *say_computes(const struct kt_backend_info *info)
{
    if (!info->takes_attention)
        return info->takes_linears ? "experts linears" : "experts";
    return info->takes_linears ? "experts linears attention" : "attention";
}

static void add_backend(struct kt_table *table, const struct kt_backend_info *info)
{
    static const char *const states[] = {"loaded", "disabled", "unfit", "refused", "failed"};
    kt_table_row(table);
    kt_table_text(table, "backend", info->name);
    kt_table_text(table, "state", (size_t)info->state < COUNT(states) ? states[info->state] : "?");
    kt_table_text(table, "level", info->level);
    kt_table_text(table, "levels", info->levels);
    kt_table_int(table, "priority", info->priority);
    if (info->state == KT_BACKEND_LOADED) {
        kt_table_bool(table, "linears", info->takes_linears != 0);
        kt_table_bool(table, "attention", info->takes_attention != 0);
        kt_table_text(table, "computes", say_computes(info));
    }
    kt_table_text(table, "reason", info->reason);
    kt_table_text(table, "formats", info->formats);
    kt_table_text(table, "instruction", info->instruction);
    kt_table_text(table, "version", info->version);
    kt_table_text(table, "description", info->description);
    kt_table_text(table, "file", info->file);
    kt_table_text(table, "origin", info->origin);
}

static void add_detail(struct kt_table *table, const char *backend, const char *what, const char *value)
{
    if (!*value)
        return;
    kt_table_row(table);
    kt_table_text(table, "backend", backend);
    kt_table_text(table, "what", what);
    kt_table_text(table, "value", value);
}

static void add_details(struct kt_table *table, const struct kt_backend_info *info)
{
    add_detail(table, info->name, "is", info->description);
    add_detail(table, info->name, "version", info->version);
    add_detail(table, info->name, "levels", info->levels);
    add_detail(table, info->name, "formats", info->formats);
    add_detail(table, info->name, "instruction", info->instruction);
    add_detail(table, info->name, "file", info->file);
    add_detail(table, info->name, "configured", info->origin);
}

static enum kt_status add_options(struct kt_table *table, const struct kt_context *context, size_t index,
                                  const struct kt_backend_info *info, struct kt_error *error)
{
    for (size_t i = 0; i < info->n_options; i++) {
        struct kt_setting setting;
        enum kt_status status = kt_context_backend_option(context, index, i, &setting, error);
        if (status != KT_OK)
            return status;
        kt_table_row(table);
        kt_table_text(table, "backend", info->name);
        kt_table_text(table, "key", setting.key);
        kt_table_text(table, "value", setting.value);
        kt_table_text(table, "origin", setting.origin);
        kt_table_text(table, "help", setting.help);
    }
    return KT_OK;
}

static bool is_wanted(const struct kt_cli *cli, const char *name)
{
    for (int i = 0; i < cli->n_arguments; i++) {
        if (strcmp(cli->arguments[i], name) == 0)
            return true;
    }
    return cli->n_arguments == 0;
}

/* Every requested name must be a backend. */
static int check_names(const struct kt_cli *cli, const struct kt_context *context)
{
    size_t n = kt_context_backend_count(context);
    const char **names = kt_cli_alloc(cli, n, sizeof(*names));
    int code = KT_EXIT_OK;
    size_t n_names = 0;
    for (size_t i = 0; i < n; i++) {
        struct kt_backend_info info;
        if (kt_context_backend(context, i, &info, NULL) == KT_OK)
            names[n_names++] = info.name;
    }
    for (int a = 0; a < cli->n_arguments && code == KT_EXIT_OK; a++) {
        bool found = false;
        for (size_t i = 0; i < n_names; i++)
            found |= strcmp(names[i], cli->arguments[a]) == 0;
        if (found)
            continue;
        code = kt_cli_error(cli, "no backend '%s' is configured%s; 'kt backends' lists them",
                            cli->arguments[a], kt_cli_hint(cli->arguments[a], names, n_names).text);
    }
    free(names);
    return code;
}

static int list(struct kt_cli *cli, const struct kt_context *context, const struct args *args)
{
    struct kt_output *output =
        kt_output_create(cli, args->options ? "kt.backends.options" : "kt.backends", 1);
    struct kt_table *backends = NULL, *details = NULL;
    struct kt_backend_info info;
    struct kt_error error;
    int code = KT_EXIT_OK;
    if (!args->options) {
        backends = kt_output_table(output, "rows", backend_columns, COUNT(backend_columns));
        details = kt_output_table(output, "details", detail_columns, COUNT(detail_columns));
        kt_table_hide(details);
    }
    struct kt_table *options =
        kt_output_table(output, args->options ? "rows" : "options", option_columns, COUNT(option_columns));
    size_t n_options = 0;
    for (size_t i = 0; i < kt_context_backend_count(context) && code == KT_EXIT_OK; i++) {
        if (kt_context_backend(context, i, &info, &error) != KT_OK) {
            code = kt_cli_fail(cli, &error);
            break;
        }
        if (!is_wanted(cli, info.name))
            continue;
        n_options += info.n_options;
        if (backends) {
            add_backend(backends, &info);
            add_details(details, &info);
        }
        if (add_options(options, context, i, &info, &error) != KT_OK)
            code = kt_cli_fail(cli, &error);
    }
    code = kt_output_finish(output, code);
    if (code == KT_EXIT_OK && args->options && n_options == 0 && cli->format == KT_FORMAT_TABLE)
        kt_cli_note(cli, "none of the backends has options");
    return code;
}

static const struct kt_cli_option rows[] = {OPTION_FLAG("options", 0, options,
                                                        "list only the backends' options"),
                                            {.name = NULL}};
const struct kt_cli_command kt_backends_command =
    {.usage = "[NAME]... [OPTION]...",
     .about =
         "Lists every configured backend (or the named ones): its state and the reason, the "
         "level in use, all levels, what it computes (experts, linears, attention), formats, and options "
         "with their values and where each was set.\n"
         "  loaded    ready\n"
         "  disabled  its section says enabled = no\n"
         "  unfit     this CPU misses what its section says it needs\n"
         "  refused   it says itself that it cannot work here\n"
         "  failed    its file is missing, unsafe, broken or of another ABI, or a\n"
         "            setting is "
         "wrong",
     .options = rows,
     .arguments = "NAME",
     .max_arguments = 64};

int kt_cmd_backends(struct kt_cli *cli, int argc, char **argv)
{
    struct args args = {.options = false};
    struct kt_context *context;
    if (!kt_cli_parse(cli, &kt_backends_command, argc, argv, &args))
        return cli->exit_code;
    cli->shows_plugins = true;
    int code = kt_cli_context(cli, &context);
    if (code != KT_EXIT_OK)
        return code;
    code = check_names(cli, context);
    if (code == KT_EXIT_OK)
        code = list(cli, context, &args);
    kt_context_destroy(context);
    return code;
}

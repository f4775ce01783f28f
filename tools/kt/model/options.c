/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/kt/model/options.h"

#include <stdlib.h>
#include <string.h>

#define KEPT(word, kind, shown, least, most, words)                                                        \
    {                                                                                                      \
        .name = word, .type = kind, .argument = shown, .minimum = least, .maximum = most, .values = words, \
        .of = "add, edit", .help = "kept for kt run"                                                       \
    }

const struct kt_cli_option model_kept[MODEL_N_KEPT + 1] =
    {KEPT("experts", KT_CLI_TEXT, "PATH", 0, 0, NULL),
     KEPT("served-model-name", KT_CLI_TEXT, "NAME,...", 0, 0, NULL),
     KEPT("context", KT_CLI_UINT, "N", 1, UINT32_MAX, NULL),
     KEPT("kv-size", KT_CLI_TEXT, "SIZE", 0, 0, NULL),
     KEPT("kv", KT_CLI_CHOICE, "TYPE", 0, 0, KT_CLI_CACHES),
     KEPT("max-running", KT_CLI_UINT, "N", 1, 1024, NULL),
     KEPT("chat-template", KT_CLI_TEXT, "FILE", 0, 0, NULL),
     KEPT("system", KT_CLI_TEXT, "TEXT", 0, 0, NULL),
     KEPT("temperature", KT_CLI_REAL, "X", 0, 0, NULL),
     KEPT("top-p", KT_CLI_REAL, "X", 0, 0, NULL),
     KEPT("top-k", KT_CLI_UINT, "N", 0, INT32_MAX, NULL),
     KEPT("min-p", KT_CLI_REAL, "X", 0, 0, NULL),
     KEPT("repetition-penalty", KT_CLI_REAL, "X", 0, 0, NULL),
     KEPT("presence-penalty", KT_CLI_REAL, "X", 0, 0, NULL),
     KEPT("frequency-penalty", KT_CLI_REAL, "X", 0, 0, NULL),
     KEPT("backend", KT_CLI_SETTING, "NAME", 0, 0, "core.backend"),
     KEPT("threads", KT_CLI_SETTING, "N", 0, 4096, "core.threads"),
     KEPT("numa-nodes", KT_CLI_SETTING, "LIST", 0, 0, "core.numa_nodes"),
     {.name = NULL}};

const struct kt_cli_option *model_find_kept(const char *key)
{
    for (const struct kt_cli_option *row = model_kept; row->name; row++)
        if (strcmp(row->name, key) == 0)
            return row;
    return NULL;
}

#define ROW(word, field, kind, actions, shown, about)                                        \
    .name = word, .type = kind, .offset = offsetof(struct model_args, field), .of = actions, \
    .argument = shown, .help = about

static const struct kt_cli_option own[] =
    {{ROW("known", known, KT_CLI_FLAG, "list", NULL, "known models instead, and where they are published")},
     {ROW("names", names, KT_CLI_FLAG, "list", NULL, "names alone, one a line; no model is read")},
     {ROW("add", add, KT_CLI_FLAG, "scan", NULL, "register what is found")},
     {ROW("name", name, KT_CLI_TEXT, "add, edit, pull", "NAME", "its name, or its new one")},
     {ROW("aliases", aliases, KT_CLI_TEXT, "add, edit, pull", "NAME,...", "further names")},
     {ROW("path", path, KT_CLI_TEXT, "edit", "PATH", "where the model is now")},
     {ROW("unset", unset, KT_CLI_TEXTS, "edit", "KEY", "take an option out; may be given more than once")},
     {ROW("file", file, KT_CLI_TEXTS, "pull", "PATTERN",
          "these files, such as '*Q4_K_M*'; may be given more than once")},
     {ROW("to", to, KT_CLI_TEXT, "pull", "FOLDER",
          "where files go (default: below kt-kernel's folder for data)")},
     {ROW("revision", revision, KT_CLI_TEXT, "pull", "NAME",
          "a branch, tag or commit (default: the main one)")},
     {ROW("hub", hub, KT_CLI_CHOICE, "pull", "NAME", "huggingface (default) or modelscope"),
      .values = "huggingface|modelscope"},
     {ROW("jobs", jobs, KT_CLI_UINT, "pull", "N", "files that are fetched at once (default: 4)"),
      .minimum = 1, .maximum = 16},
     {ROW("timeout", timeout, KT_CLI_UINT, "pull", "N",
          "seconds without a byte after which it asks again (default: 60)"),
      .minimum = 1, .maximum = 3600},
     {ROW("retries", retries, KT_CLI_UINT, "pull", "N", "how often it does, if nothing comes (default: 5)"),
      .maximum = 100},
     {ROW("retry-wait", retry_wait, KT_CLI_REAL, "pull", "SECONDS",
          "its first pause before it asks again; each further one is twice as long (default: 0.25)")},
     {ROW("dry-run", dry_run, KT_CLI_FLAG, "pull", NULL, "say what would be fetched, and end")},
     {ROW("allow-http", allow_http, KT_CLI_FLAG, "pull", NULL,
          "without encryption, from other machines, too")},
     {.name = NULL}};

static const char *const actions[MODEL_N_ACTIONS] = {"list",   "add",  "scan", "info",  "edit",
                                                     "remove", "path", "pull", "verify"};

static int find_action(const struct kt_cli *cli, const char *word)
{
    if (strcmp(word, "rm") == 0)
        word = "remove";
    return kt_cli_action(cli, word, actions, MODEL_N_ACTIONS, kt_model_command.arguments);
}

static int check_words(const struct kt_cli *cli, enum model_action action)
{
    static const struct {
        int least, most;
        const char *missing;
    } counts[MODEL_N_ACTIONS] = {[MODEL_LIST] = {0, 0, ""},
                                 [MODEL_ADD] = {1, 1, "PATH"},
                                 [MODEL_SCAN] = {0, 16, ""},
                                 [MODEL_INFO] = {1, 1, "NAME or PATH"},
                                 [MODEL_EDIT] = {1, 1, "NAME"},
                                 [MODEL_REMOVE] = {1, 1, "NAME"},
                                 [MODEL_PATH] = {1, 1, "NAME"},
                                 [MODEL_PULL] = {1, 1, "REPOSITORY or NAME"},
                                 [MODEL_VERIFY] = {1, 1, "NAME or PATH"}};
    if (cli->n_arguments - 1 < counts[action].least)
        return kt_cli_usage(cli, "%s is missing after %s", counts[action].missing, actions[action]);
    if (cli->n_arguments - 1 > counts[action].most)
        return kt_cli_usage(cli, "'%s' is one argument too many", cli->arguments[counts[action].most + 1]);
    return kt_cli_check_of(cli, &kt_model_command, actions[action]);
}

const struct kt_cli_command kt_model_command =
    {.usage = "list [--known|--names]\n"
              "add PATH [OPTION]...\n"
              "scan [FOLDER]... [--add]\n"
              "{info|path|remove} NAME\n"
              "edit NAME OPTION...\n"
              "pull REPOSITORY|NAME [OPTION]...\n"
              "verify NAME|PATH",
     .about = "Manages names of models, which other verbs accept instead of a path, and options of kt run "
              "for them.\n"
              "  list    lists the models: paths, sizes, missing parts\n"
              "  add     registers a checkpoint under a name\n"
              "  scan    finds checkpoints below folders, and with --add registers them\n"
              "  info    all that is known of one\n"
              "  edit    changes its names, its path, or options that are kept with it\n"
              "  remove  forgets the name; files stay\n"
              "  path    where it is, and nothing else",
     .options = own,
     .kept = model_kept,
     .kept_offset = offsetof(struct model_args, kept),
     .arguments = "list, add, scan, info, edit, remove, path, pull or verify",
     .min_arguments = 1,
     .max_arguments = 17};

int model_parse(struct kt_cli *cli, int argc, char **argv, struct model_args *args)
{
    args->retries = UINT64_MAX;
    args->retry_wait = -1;
    if (!kt_cli_parse(cli, &kt_model_command, argc, argv, args))
        return -1;
    int action = find_action(cli, cli->arguments[0]);
    cli->exit_code = action < 0 ? KT_EXIT_USAGE : check_words(cli, (enum model_action)action);
    cli->arguments++;
    cli->n_arguments--;
    return cli->exit_code == KT_EXIT_OK ? action : -1;
}

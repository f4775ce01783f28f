/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - kt plugin: checks any plugin, or writes the project of a new one. */
#include "tools/kt/plugin/plugin.h"

#include <string.h>

struct args {
    struct plugin_check_args check;
    const char *folder, *like;
    bool in_tree;
};

static const char *const actions[] = {"check", "new"};

static const struct kt_cli_option options[] =
    {OPTION_UINT("cases", 0, check.cases, 1, 10000, "N",
                 "check: number of random cases for each format and level (default: 3)"),
     {.name = "dir",
      .type = KT_CLI_TEXT,
      .offset = offsetof(struct args, folder),
      .argument = "DIR",
      .help = "new: folder to create (default: kt-kernel-plugin-NAME); with --in-tree, the source tree "
              "(default: .)"},
     OPTION_FLAG("in-tree", 0, in_tree, "new: a backend of kt-kernel's own source tree"),
     OPTION_TEXT("like", 0, like, "BACKEND",
                 "new --in-tree: the backend of the tree to copy (default: rawint4)"),
     OPTION_FLAG("quick", 0, check.quick, "check: do not measure the speed"),
     OPTION_UINT("seed", 0, check.seed, 0, 0, "N", "check: use other random cases than by default"),
     OPTION_UINT("timeout", 0, check.timeout, 1, 86400, "SECONDS",
                 "check: time limit of one check (default: 300)"),
     {.name = NULL}};

const struct kt_cli_command kt_plugin_command = {
    .usage = "check FILE.so [--config NAME.ini] [OPTION]...\n"
             "new NAME [--dir DIR]\n"
             "new --in-tree NAME [--like BACKEND] [--dir TREE]",
    .about =
        "check: checks whether the plugin FILE.so, named kt_NAME.so, meets the requirements of "
        "<kt/plugin.h>. It examines symbols and instructions, and runs every function of every level that "
        "this CPU supports, on random weights of every format, in child processes, whose crashes, loops "
        "and exits are failures. --config NAME.ini "
        "checks its INI too, --format tap writes the Test Anything Protocol. Exit status 1 if a check "
        "failed.\n"
        "new: writes the project of a backend NAME, complete and slow: sources, INI, test, Debian packaging. "
        "With --in-tree a backend of kt-kernel's source tree, as a copy of another one with its kernels, "
        "packages and tests: its folder in plugins/ and its line in plugins/plugins.am.",
    .options = options,
    .arguments = "check FILE.so or new NAME",
    .min_arguments = 1,
    .max_arguments = 2,
    .writes_tap = true};

/* The first word is judged before the second is missed. */
static int check_words(const struct kt_cli *cli)
{
    const char *action = cli->arguments[0];
    int index = kt_cli_action(cli, action, actions, 2, "check or new");
    if (index < 0)
        return KT_EXIT_USAGE;
    if (cli->n_arguments < 2)
        return kt_cli_usage(cli, "%s is missing after %s", index == 0 ? "FILE.so" : "NAME", action);
    return KT_EXIT_OK;
}

int kt_cmd_plugin(struct kt_cli *cli, int argc, char **argv)
{
    struct args args = {.check = {.timeout = 300, .cases = 3, .seed = 20261121}};
    if (!kt_cli_parse(cli, &kt_plugin_command, argc, argv, &args))
        return cli->exit_code;
    int code = check_words(cli);
    if (code != KT_EXIT_OK)
        return code;
    const char *action = cli->arguments[0], *name = cli->arguments[1];
    if (strcmp(action, "check") == 0 && (args.folder || args.in_tree || args.like))
        return kt_cli_usage(cli, "%s is an option of kt plugin new",
                            args.folder    ? "--dir"
                            : args.in_tree ? "--in-tree"
                                           : "--like");
    if (args.like && !args.in_tree)
        return kt_cli_usage(cli, "--like is an option of kt plugin new --in-tree");
    if (strcmp(action, "check") == 0)
        return plugin_check(cli, name, &args.check);
    if (args.in_tree)
        return plugin_new_in_tree(cli, name, args.like ? args.like : "rawint4",
                                  args.folder ? args.folder : ".");
    return plugin_new(cli, name, args.folder);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* version.c - kt version: versions of the loaded library and of the headers at build time. */
#include "tools/kt/table.h"

#include <kt/plugin.h>
#include <stdio.h>

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

int kt_cmd_version(struct kt_cli *cli, int argc, char **argv)
{
    static const struct kt_cli_command command = {
        .about = "Shows the versions of the command, of the library that it runs with, and of the "
                 "plugin "
                 "ABI: plugins of the same major and of at most this minor can be loaded."};
    char abi[32];
    if (!kt_cli_parse(cli, &command, argc, argv, NULL))
        return cli->exit_code;
    snprintf(abi, sizeof(abi), "%d.%d", KT_PLUGIN_ABI_MAJOR, KT_PLUGIN_ABI_MINOR);
    struct kt_output *output = kt_output_create(cli, "kt.version", 1);
    struct kt_table *table = kt_output_table(output, "rows", columns, 2);
    add(table, "kt", KT_VERSION);
    add(table, "libktkernel", kt_version());
    add(table, "plugin-abi", abi);
    return kt_output_finish(output, KT_EXIT_OK);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the options of a verb as one list, for reading them and for its help. */
#ifndef KT_TOOL_OPTIONS_H
#define KT_TOOL_OPTIONS_H

#include "tools/kt/base/cli.h"

#define MAX_OPTIONS 127 /* kt_cli.given has one more */

/* Shared options are KT_CLI_TEXT or KT_CLI_FLAG rows that take_shared() handles. */
enum shared {
    SHARED_CONFIG,
    SHARED_SET,
    SHARED_FORMAT,
    SHARED_VERBOSE,
    SHARED_HELP,
    SHARED_VERSION,
    SHARED_IO,
    SHARED_MODEL, /* hidden: the first argument, where that is a MODEL */
    N_SHARED
};
extern const struct kt_cli_option kt_cli_shared[N_SHARED];

/* The rows of the verb and the shared ones, as one list. */
struct kt_cli_rows {
    const struct kt_cli_option *row[MAX_OPTIONS];
    bool seen[MAX_OPTIONS];
    int n, n_own;
};
void kt_cli_options(const struct kt_cli_command *command, struct kt_cli_rows *list);
/* Takes an option's argument into `values`; false after a message. */
bool kt_cli_take(struct kt_cli *cli, const struct kt_cli_command *command, const struct kt_cli_option *row,
                 const char *text, void *values);

/* What a MODEL may be besides a path: names, which a room above this one knows. */
struct kt_cli_models {
    /* Puts paths in place of names in `values` and cli->arguments, and takes what is kept with a model for
     * options that were not given; false after a message. */
    bool (*take)(struct kt_cli *cli, const struct kt_cli_command *command, const struct kt_cli_rows *list,
                 void *values);
    int (*fail)(const struct kt_cli *cli, const char *path, const struct kt_error *error);
    void (*free)(struct kt_cli *cli);
};

/* ---- option_numbers.c ----------------------------------------------------------------------- */

/* A number of an option; false after a message. */
bool kt_cli_take_uint(const struct kt_cli *cli, const struct kt_cli_option *row, const char *text,
                      uint64_t *value);
bool kt_cli_take_real(const struct kt_cli *cli, const struct kt_cli_option *row, const char *text,
                      double *value);
/* Is it "all", or "0,2-3" with numbers that a Linux node can have? */
bool kt_cli_is_nodes(const char *text);

/* ---- help.c --------------------------------------------------------------------------------- */

/* Print it, and return 0. */
int kt_cli_help_verb(const struct kt_cli *cli, const struct kt_cli_command *command);
int kt_cli_help(const struct kt_cli *cli);
int kt_cli_help_version(void);

#endif

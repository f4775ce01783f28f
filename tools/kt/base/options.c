/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - reads a verb's options from its table. */
#define _GNU_SOURCE

#include "tools/kt/base/options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct kt_cli_option kt_cli_shared[N_SHARED] = {
    {.name = "config",
     .type = KT_CLI_TEXT,
     .argument = "FILE",
     .help = "read this configuration file only, besides the shipped drop-ins"},
    {.name = "set",
     .type = KT_CLI_TEXT,
     .argument = "SECTION.KEY=VALUE",
     .help = "override a setting; may be given more than once"},
    {.name = "format",
     .type = KT_CLI_CHOICE,
     .values = "table|json|csv",
     .argument = "FORMAT",
     .help = "write table (default), json or csv"},
    {.name = "verbose",
     .letter = 'v',
     .type = KT_CLI_FLAG,
     .help = "show files, plugins, threads, memory and times"},
    {.name = "help", .letter = 'h', .type = KT_CLI_FLAG, .help = "show this help and exit"},
    {.name = "version", .letter = 'V', .type = KT_CLI_FLAG, .help = "show the version and exit"},
    {.name = "io",
     .type = KT_CLI_CHOICE,
     .values = "mmap|read",
     .argument = "HOW",
     .help = "mmap the checkpoint (default), or read it into memory"},
    {.name = "model", .type = KT_CLI_TEXT, .argument = "MODEL", .hidden = true},
};

/* Do the arguments begin with a MODEL, which may be given by --model, too? */
static bool takes_model(const struct kt_cli_command *command)
{
    static const char word[] = "MODEL";
    for (const struct kt_cli_option *row = command->options; row && row->name; row++)
        if (strcmp(row->name, "model") == 0)
            return false;
    return command->arguments && strncmp(command->arguments, word, sizeof(word) - 1) == 0;
}

void kt_cli_options(const struct kt_cli_command *command, struct kt_cli_rows *list)
{
    *list = (struct kt_cli_rows){.n = 0};
    for (const struct kt_cli_option *row = command->options;
         row && row->name && list->n < MAX_OPTIONS - N_SHARED; row++)
        list->row[list->n++] = row;
    list->n_own = list->n;
    for (const struct kt_cli_option *row = command->kept; row && row->name; row++)
        list->row[list->n++] = row;
    if (command->opens_checkpoint)
        list->row[list->n++] = &kt_cli_shared[SHARED_IO];
    for (int i = 0; i < SHARED_IO; i++)
        list->row[list->n++] = &kt_cli_shared[i];
    if (takes_model(command))
        list->row[list->n++] = &kt_cli_shared[SHARED_MODEL];
}

/* ---- values --------------------------------------------------------------------------------- */

void kt_cli_set(struct kt_cli *cli, const char *format, ...)
{
    va_list arguments;
    char *text;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    const char **grown = realloc(cli->settings, (cli->n_settings + 1) * sizeof(*grown));
    if (length < 0 || !grown)
        exit(kt_cli_error(cli, "out of memory"));
    cli->settings = grown;
    cli->settings[cli->n_settings++] = text;
}

const char *kt_cli_backend(struct kt_cli *cli, const char *option, const char *name)
{
    const char *names[32], *backend = kt_method_backend(name), *setting = kt_method_setting(name);
    size_t n = 0;
    if (setting)
        kt_cli_set(cli, "%s", setting);
    if (backend)
        return backend;
    while (n < 32 && (names[n] = kt_method_name(n)))
        n++;
    kt_cli_usage(cli, "--%s %s: neither a method of KT-Kernel's nor a backend's name%s", option, name,
                 kt_cli_hint(name, names, n).text);
    return NULL;
}

static bool take_choice(const struct kt_cli *cli, const struct kt_cli_option *row, const char *text,
                        int *value)
{
    size_t length = strlen(text);
    const char *word = row->values;
    for (int index = 0;; index++) {
        size_t n = strcspn(word, "|");
        if (n == length && strncmp(word, text, n) == 0) {
            *value = index;
            return true;
        }
        if (!word[n])
            break;
        word += n + 1;
    }
    kt_cli_usage(cli, "--%s %s: one of %s is needed%s", row->name, text, row->values,
                 kt_cli_hint_of(text, row->values).text);
    return false;
}
/* The library checks the nodes when a context is made, too late to blame the command line. */
static bool check_nodes(const struct kt_cli *cli, const char *option, const char *setting)
{
    static const char key[] = "core.numa_nodes=";
    if (strncmp(setting, key, sizeof(key) - 1) != 0 || kt_cli_is_nodes(setting + sizeof(key) - 1))
        return true;
    kt_cli_usage(cli, "--%s: numa_nodes = %s: all, or numbers up to 1023 such as 0,2-3 are needed", option,
                 setting + sizeof(key) - 1);
    return false;
}

static bool take_setting(struct kt_cli *cli, const char *text)
{
    const char *equals = strchr(text, '=');
    const char *dot = strchr(text, '.');
    if (!equals || !dot || dot > equals || dot == text) {
        kt_cli_usage(cli, "--set %s: SECTION.KEY=VALUE is needed, such as core.threads=2", text);
        return false;
    }
    if (!check_nodes(cli, "set", text))
        return false;
    kt_cli_set(cli, "%s", text);
    return true;
}

static bool take_shared(struct kt_cli *cli, const struct kt_cli_command *command, enum shared which,
                        const char *text)
{
    int choice = 0;
    switch (which) {
    case SHARED_CONFIG:
        cli->config_file = text;
        return true;
    case SHARED_SET:
        return take_setting(cli, text);
    case SHARED_FORMAT:
        if (command->writes_tap && strcmp(text, "tap") == 0) {
            cli->format = KT_FORMAT_TAP;
            return true;
        }
        if (!take_choice(cli, &kt_cli_shared[which], text, &choice))
            return false;
        cli->format = (enum kt_cli_format)choice;
        return true;
    case SHARED_IO:
        if (!take_choice(cli, &kt_cli_shared[which], text, &choice))
            return false;
        cli->io = (enum kt_io)choice;
        return true;
    case SHARED_MODEL:
        cli->named_model = text;
        return true;
    case SHARED_VERBOSE:
        cli->verbose = true;
        return true;
    default:
        return true;
    }
}

static bool take_texts(const struct kt_cli *cli, const struct kt_cli_option *row, const char *text,
                       struct kt_cli_texts *texts)
{
    size_t most = sizeof(texts->text) / sizeof(texts->text[0]);
    if (texts->n == most) {
        kt_cli_usage(cli, "--%s %s: this option can be given %zu times at most", row->name, text, most);
        return false;
    }
    texts->text[texts->n++] = text;
    return true;
}

bool kt_cli_take(struct kt_cli *cli, const struct kt_cli_command *command, const struct kt_cli_option *row,
                 const char *text, void *values)
{
    char *place = values ? (char *)values + row->offset : NULL; /* settings need none */
    uint64_t number;
    if (row->type != KT_CLI_FLAG && !*text) {
        kt_cli_usage(cli, "--%s needs a value that is not empty", row->name);
        return false;
    }
    if (row >= kt_cli_shared && row < kt_cli_shared + N_SHARED)
        return take_shared(cli, command, (enum shared)(row - kt_cli_shared), text);
    for (const struct kt_cli_option *kept = command ? command->kept : NULL; kept && kept->name; kept++) {
        if (kept != row)
            continue;
        ((const char **)((char *)values + command->kept_offset))[row - command->kept] = text;
        return true;
    }
    switch (row->type) {
    case KT_CLI_FLAG:
        *(bool *)place = true;
        return true;
    case KT_CLI_TEXT:
        *(const char **)place = text;
        return true;
    case KT_CLI_TEXTS:
        return take_texts(cli, row, text, (struct kt_cli_texts *)place);
    case KT_CLI_UINT:
        return kt_cli_take_uint(cli, row, text, (uint64_t *)place);
    case KT_CLI_REAL:
        return kt_cli_take_real(cli, row, text, (double *)place);
    case KT_CLI_CHOICE:
        return take_choice(cli, row, text, (int *)place);
    case KT_CLI_SETTING:
        if (row->maximum && !kt_cli_take_uint(cli, row, text, &number))
            return false;
        if (strcmp(row->values, "core.backend") == 0 && !(text = kt_cli_backend(cli, row->name, text)))
            return false;
        kt_cli_set(cli, "%s=%s", row->values, text);
        return check_nodes(cli, row->name, cli->settings[cli->n_settings - 1]);
    }
    return false;
}

bool kt_cli_check(struct kt_cli *cli, const struct kt_cli_option *row, const char *text)
{
    struct kt_cli_option scratch = *row;
    union {
        uint64_t number;
        double real;
        int choice;
        const char *text;
    } value = {.number = 0};
    scratch.offset = 0;
    return kt_cli_take(cli, NULL, &scratch, text, &value);
}

/* ---- the command line ----------------------------------------------------------------------- */

/* getopt_long's tables; its own messages are disabled, since ours suggest the nearest option. */
struct getopt_tables {
    struct option long_options[MAX_OPTIONS + 1];
    char letters[2 * MAX_OPTIONS + 2];
};

static void fill_tables(const struct kt_cli_rows *list, const char *first, struct getopt_tables *tables)
{
    char *letter = stpcpy(tables->letters, first);
    memset(tables->long_options, 0, sizeof(tables->long_options));
    for (int i = 0; i < list->n; i++) {
        tables->long_options[i].name = list->row[i]->name;
        tables->long_options[i].has_arg = list->row[i]->type == KT_CLI_FLAG ? no_argument : required_argument;
        tables->long_options[i].val = 256 + i;
        if (list->row[i]->letter) {
            *letter++ = (char)list->row[i]->letter;
            if (list->row[i]->type != KT_CLI_FLAG)
                *letter++ = ':';
        }
    }
    *letter = '\0';
}

static int find_row(const struct kt_cli_rows *list, int key)
{
    if (key >= 256)
        return key - 256;
    for (int i = 0; i < list->n; i++) {
        if (list->row[i]->letter == key)
            return i;
    }
    return -1;
}

/* Does the word name this option? "--form" does not name --format, though getopt_long takes it for that. */
static bool is_named(const struct kt_cli_option *row, const char *word)
{
    size_t length = strcspn(word + 2, "=");
    return strlen(row->name) == length && strncmp(row->name, word + 2, length) == 0;
}

/* Reports a word that getopt refused, or that is only the beginning of an option's name. */
static void fail_option(const struct kt_cli *cli, const struct kt_cli_rows *list, int key, const char *word)
{
    const char *names[MAX_OPTIONS];
    char name[64];
    size_t n = 0;
    if (strncmp(word, "--", 2) != 0) {
        kt_cli_usage(cli, key == ':' ? "-%c needs a value" : "unknown option -%c", optopt);
        return;
    }
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
    for (int i = 0; i < list->n; i++) {
        if (is_named(list->row[i], word)) {
            kt_cli_usage(cli, key == ':' ? "--%s needs a value" : "--%s takes no value", name);
            return;
        }
        if (!list->row[i]->hidden)
            names[n++] = list->row[i]->name;
    }
    const char *near = kt_nearest(name, names, n);
    if (near)
        kt_cli_usage(cli, "unknown option --%s, did you mean --%s?", name, near);
    else
        kt_cli_usage(cli, "unknown option --%s", name);
}

enum { NO_OPTION = -1, BAD_OPTION = -2 };

/* The index of the next option's row; BAD_OPTION after a message. */
static int next_option(const struct kt_cli *cli, const struct kt_cli_rows *list,
                       const struct getopt_tables *tables, int argc, char **argv)
{
    int before = optind ? optind : 1;
    int key = getopt_long(argc, argv, tables->letters, tables->long_options, NULL);
    if (key == -1)
        return NO_OPTION;
    int index = find_row(list, key);
    const char *word = argv[optind > before || key == ':' ? optind - 1 : before];
    if (key >= 256 && optarg == word) /* the value is a word of its own */
        word = argv[optind - 2];
    if (index >= 0 && (key < 256 || is_named(list->row[index], word)))
        return index;
    fail_option(cli, list, key, word);
    return BAD_OPTION;
}

static bool was_seen(const struct kt_cli_rows *list, const char *name)
{
    for (int i = 0; i < list->n; i++)
        if (list->seen[i] && strcmp(list->row[i]->name, name) == 0)
            return true;
    return false;
}

/* Takes the first argument for the option that it stands for, and older names for the newer. */
static bool take_arguments(struct kt_cli *cli, struct kt_cli_rows *list, void *values)
{
    for (int i = 0; i < list->n; i++) {
        const struct kt_cli_option *row = list->row[i];
        if (row->is_argument && !list->seen[i] && !(row->unless && was_seen(list, row->unless))) {
            if (cli->n_arguments == 0 && row->is_optional)
                continue;
            if (cli->n_arguments == 0) {
                kt_cli_usage(cli, "%s is missing", row->argument);
                return false;
            }
            *(const char **)((char *)values + row->offset) = cli->arguments[0];
            cli->arguments++;
            cli->n_arguments--;
        }
        for (int j = 0; j < list->n_own && row->hidden && list->seen[i]; j++)
            list->seen[j] |= list->row[j]->type == row->type && list->row[j]->offset == row->offset &&
                             (row->type != KT_CLI_SETTING || strcmp(list->row[j]->values, row->values) == 0);
    }
    return true;
}

static void note_given(struct kt_cli *cli, const struct kt_cli_rows *list)
{
    size_t n = 0;
    for (int i = 0; i < list->n; i++)
        if (list->seen[i])
            cli->given[n++] = list->row[i]->name;
    cli->given[n] = NULL;
}

bool kt_cli_given(const struct kt_cli *cli, const char *name)
{
    size_t i = 0;
    while (cli->given[i] && strcmp(cli->given[i], name) != 0)
        i++;
    return cli->given[i] != NULL;
}

static bool check_arguments(const struct kt_cli *cli, const struct kt_cli_command *command,
                            const struct kt_cli_rows *list)
{
    for (int i = 0; i < list->n; i++) {
        if (list->row[i]->required && !list->seen[i]) {
            kt_cli_usage(cli, "--%s %s is needed: %s", list->row[i]->name, list->row[i]->argument,
                         list->row[i]->help);
            return false;
        }
    }
    if (cli->n_arguments < command->min_arguments) {
        kt_cli_usage(cli, "%s is missing", command->arguments);
        return false;
    }
    if (cli->n_arguments > command->max_arguments) {
        kt_cli_usage(cli, "'%s' is one argument too many", cli->arguments[command->max_arguments]);
        return false;
    }
    return true;
}

/* NUMA nodes that are given one by one are a list: --numa-nodes 0 --numa-nodes 1. */
static bool take_again(struct kt_cli *cli, const struct kt_cli_command *command,
                       const struct kt_cli_option *row, const char *text, bool again, void *values)
{
    static const char key[] = "core.numa_nodes=";
    const char *before = NULL;
    if (again && row->type == KT_CLI_SETTING && strcmp(row->values, "core.numa_nodes") == 0)
        for (size_t i = 0; i < cli->n_settings; i++)
            if (strncmp(cli->settings[i], key, sizeof(key) - 1) == 0)
                before = cli->settings[i] + sizeof(key) - 1;
    if (!before || !*text)
        return kt_cli_take(cli, command, row, text, values);
    char *list = kt_cli_format(cli, "%s,%s", before, text);
    bool ok = kt_cli_take(cli, command, row, list, values);
    free(list);
    return ok;
}

bool kt_cli_parse(struct kt_cli *cli, const struct kt_cli_command *command, int argc, char **argv,
                  void *values)
{
    struct kt_cli_rows list;
    struct getopt_tables tables;
    int index;
    kt_cli_options(command, &list);
    fill_tables(&list, ":", &tables);
    cli->exit_code = KT_EXIT_USAGE;
    opterr = 0;
    optind = 0;
    while ((index = next_option(cli, &list, &tables, argc, argv)) != NO_OPTION) {
        if (index == BAD_OPTION)
            return false;
        const struct kt_cli_option *row = list.row[index];
        if (row == &kt_cli_shared[SHARED_HELP] || row == &kt_cli_shared[SHARED_VERSION]) {
            cli->exit_code =
                row == &kt_cli_shared[SHARED_HELP] ? kt_cli_help_verb(cli, command) : kt_cli_help_version();
            return false;
        }
        if (!take_again(cli, command, row, optarg ? optarg : "", list.seen[index], values))
            return false;
        list.seen[index] = true;
    }
    if (cli->named_model) /* the option has left room for it */
        argv[--optind] = (char *)cli->named_model;
    cli->arguments = argv + optind;
    cli->n_arguments = argc - optind;
    if (!take_arguments(cli, &list, values) || !check_arguments(cli, command, &list))
        return false;
    cli->exit_code = KT_EXIT_PROBLEM;
    cli->runs = !cli->models || cli->models->take(cli, command, &list, values);
    note_given(cli, &list);
    return cli->runs;
}

int kt_cli_find_verb(struct kt_cli *cli, int argc, char **argv)
{
    static const struct kt_cli_command any = {.opens_checkpoint = true};
    struct kt_cli_rows list;
    struct getopt_tables tables;
    int index;
    kt_cli_options(&any, &list);
    fill_tables(&list, "+:", &tables);
    cli->exit_code = KT_EXIT_USAGE;
    opterr = 0;
    optind = 0;
    while ((index = next_option(cli, &list, &tables, argc, argv)) != NO_OPTION) {
        if (index == BAD_OPTION)
            return -1;
        if (list.row[index] == &kt_cli_shared[SHARED_HELP])
            cli->exit_code = kt_cli_help(cli);
        else if (list.row[index] == &kt_cli_shared[SHARED_VERSION])
            cli->exit_code = kt_cli_help_version();
        else
            continue;
        return -1;
    }
    if (optind >= argc) {
        kt_cli_usage(cli, "a verb is needed, such as 'kt doctor'");
        return -1;
    }
    return optind;
}

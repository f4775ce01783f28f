/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - reads a verb's options from its table and prints its help from the same table. */
#define _GNU_SOURCE

#include "tools/kt/cli.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPTIONS 64

/* Shared options are KT_CLI_TEXT or KT_CLI_FLAG rows that take_shared() handles. */
enum shared {
    SHARED_CONFIG,
    SHARED_SET,
    SHARED_FORMAT,
    SHARED_VERBOSE,
    SHARED_HELP,
    SHARED_VERSION,
    SHARED_IO,
    N_SHARED
};
static const struct kt_cli_option shared_options[N_SHARED] = {
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
};

/* The rows of the verb and the shared ones, as one list. */
struct option_list {
    const struct kt_cli_option *row[MAX_OPTIONS];
    bool seen[MAX_OPTIONS];
    int n, n_own;
};

static void list_options(const struct kt_cli_command *command, struct option_list *list)
{
    *list = (struct option_list){.n = 0};
    for (const struct kt_cli_option *row = command->options;
         row && row->name && list->n < MAX_OPTIONS - N_SHARED; row++)
        list->row[list->n++] = row;
    list->n_own = list->n;
    if (command->opens_checkpoint)
        list->row[list->n++] = &shared_options[SHARED_IO];
    for (int i = 0; i < SHARED_IO; i++)
        list->row[list->n++] = &shared_options[i];
}

/* ---- help ----------------------------------------------------------------------------------- */

/* Prints words from `column` on, wrapped at 80 columns; `at` is the cursor's column. */
static void print_wrapped(const char *text, int column, int at)
{
    bool first = true;
    if (at > 0 && at >= column) {
        printf("\n");
        at = 0;
    }
    printf("%*s", column - at, "");
    at = column;
    while (*text) {
        int length = (int)strcspn(text, " ");
        if (!first && at + 1 + length > 80) {
            printf("\n%*s", column, "");
            at = column;
            first = true;
        }
        printf("%s%.*s", first ? "" : " ", length, text);
        at += length + !first;
        first = false;
        text += length;
        text += strspn(text, " ");
    }
    printf("\n");
}

static void print_option(const struct kt_cli_option *row)
{
    int at = row->letter ? printf("  -%c, --%s", row->letter, row->name) : printf("      --%s", row->name);
    if (row->argument)
        at += printf(" %s", row->argument);
    print_wrapped(row->help, 30, at);
}

static int print_verb_help(const struct kt_cli *cli, const struct kt_cli_command *command)
{
    struct option_list list;
    list_options(command, &list);
    const char *usage = command->usage ? command->usage : "";
    char *line = kt_cli_format(cli, "kt %s %s%s[OPTION]...", cli->verb, usage, *usage ? " " : "");
    print_wrapped(line, 7, printf("Usage:"));
    free(line);
    if (command->about)
        printf("\n");
    /* Each line is a paragraph; a line that starts with a space is printed as it is. */
    for (const char *text = command->about; text && *text;) {
        size_t length = strcspn(text, "\n");
        char paragraph[1024];
        snprintf(paragraph, sizeof(paragraph), "%.*s", (int)length, text);
        if (*paragraph == ' ')
            printf("%s\n", paragraph);
        else
            print_wrapped(paragraph, 0, 0);
        text += length + (text[length] == '\n');
    }
    printf("\nOptions:\n");
    for (int i = 0; i < list.n; i++) {
        if (!list.row[i]->hidden)
            print_option(list.row[i]);
    }
    return KT_EXIT_OK;
}

static int print_help(void)
{
    printf("Usage: kt VERB [ARGUMENT]... [OPTION]...\n"
           "Runs the experts of Mixture-of-Experts models on CPUs.\n\nVerbs:\n");
    for (const struct kt_cli_verb *verb = kt_cli_verbs; verb->name; verb++)
        print_wrapped(verb->summary, 14, printf("  %s", verb->name));
    printf("\nOptions of every verb:\n");
    for (int i = 0; i < SHARED_IO; i++)
        print_option(&shared_options[i]);
    printf("\n'kt help VERB' and kt-VERB(1) say more about a verb, kt.ini(5) about settings.\n"
           "Exit status: 0 success, 1 a problem was found, 2 the command line is wrong.\n");
    return KT_EXIT_OK;
}

static int print_version(void)
{
    printf("kt (kt-kernel) %s\n", kt_version());
    return KT_EXIT_OK;
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
    const char *near = kt_cli_nearest(name, names, n);
    kt_cli_usage(cli, "--%s %s: neither a method of KT-Kernel's nor a backend's name%s%s%s", option, name,
                 near ? ", did you mean " : "", near ? near : "", near ? "?" : "");
    return NULL;
}

/* strtoull accepts signs, spaces and an empty text, so check for digits first. */
static const char *read_uint(const char *text, uint64_t *number)
{
    char *end;
    if (*text < '0' || *text > '9')
        return NULL;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return errno ? NULL : end;
}

static bool take_uint(const struct kt_cli *cli, const struct kt_cli_option *row, const char *text,
                      uint64_t *value)
{
    uint64_t number;
    uint64_t maximum = row->maximum ? row->maximum : UINT64_MAX;
    const char *end = read_uint(text, &number);
    if (!end || *end || number < row->minimum || number > maximum) {
        kt_cli_usage(cli, "--%s %s: a number from %llu to %llu is needed", row->name, text,
                     (unsigned long long)row->minimum, (unsigned long long)maximum);
        return false;
    }
    *value = number;
    return true;
}

static bool take_real(const struct kt_cli *cli, const struct kt_cli_option *row, const char *text,
                      double *value)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !isfinite(number) || number < 0 || *text == ' ') {
        kt_cli_usage(cli, "--%s %s: a number that is not negative is needed", row->name, text);
        return false;
    }
    *value = number;
    return true;
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
    kt_cli_usage(cli, "--%s %s: one of %s is needed", row->name, text, row->values);
    return false;
}

/* "all", or "0,2-3" with numbers that a Linux node can have. */
static bool is_node_list(const char *text)
{
    if (strcmp(text, "all") == 0)
        return true;
    for (;;) {
        uint64_t first, last;
        text = read_uint(text, &first);
        last = first;
        if (text && *text == '-')
            text = read_uint(text + 1, &last);
        if (!text || last < first || last > 1023)
            return false;
        if (!*text)
            return true;
        if (*text++ != ',')
            return false;
    }
}

/* The library checks the nodes when a context is made, too late to blame the command line. */
static bool check_nodes(const struct kt_cli *cli, const char *option, const char *setting)
{
    static const char key[] = "core.numa_nodes=";
    if (strncmp(setting, key, sizeof(key) - 1) != 0 || is_node_list(setting + sizeof(key) - 1))
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
        if (!take_choice(cli, &shared_options[which], text, &choice))
            return false;
        cli->format = (enum kt_cli_format)choice;
        return true;
    case SHARED_IO:
        if (!take_choice(cli, &shared_options[which], text, &choice))
            return false;
        cli->io = (enum kt_io)choice;
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

static bool take(struct kt_cli *cli, const struct kt_cli_command *command, const struct kt_cli_option *row,
                 const char *text, void *values)
{
    char *place = values ? (char *)values + row->offset : NULL; /* settings need none */
    uint64_t number;
    if (row->type != KT_CLI_FLAG && !*text) {
        kt_cli_usage(cli, "--%s needs a value that is not empty", row->name);
        return false;
    }
    if (row >= shared_options && row < shared_options + N_SHARED)
        return take_shared(cli, command, (enum shared)(row - shared_options), text);
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
        return take_uint(cli, row, text, (uint64_t *)place);
    case KT_CLI_REAL:
        return take_real(cli, row, text, (double *)place);
    case KT_CLI_CHOICE:
        return take_choice(cli, row, text, (int *)place);
    case KT_CLI_SETTING:
        if (row->maximum && !take_uint(cli, row, text, &number))
            return false;
        if (strcmp(row->values, "core.backend") == 0 && !(text = kt_cli_backend(cli, row->name, text)))
            return false;
        kt_cli_set(cli, "%s=%s", row->values, text);
        return check_nodes(cli, row->name, cli->settings[cli->n_settings - 1]);
    }
    return false;
}

/* ---- the command line ----------------------------------------------------------------------- */

/* getopt_long's tables; its own messages are disabled, since ours suggest the nearest option. */
struct getopt_tables {
    struct option long_options[MAX_OPTIONS + 1];
    char letters[2 * MAX_OPTIONS + 2];
};

static void fill_tables(const struct option_list *list, const char *first, struct getopt_tables *tables)
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

static int find_row(const struct option_list *list, int key)
{
    if (key >= 256)
        return key - 256;
    for (int i = 0; i < list->n; i++) {
        if (list->row[i]->letter == key)
            return i;
    }
    return -1;
}

/* Reports an option that getopt refused; `word` is the argv entry where it stopped. */
static void fail_option(const struct kt_cli *cli, const struct option_list *list, int key, const char *word)
{
    const char *names[MAX_OPTIONS];
    char name[64];
    if (key == ':') {
        kt_cli_usage(cli, "%s needs a value", word);
        return;
    }
    if (strncmp(word, "--", 2) != 0) {
        kt_cli_usage(cli, "unknown option -%c", optopt);
        return;
    }
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
    for (int i = 0; i < list->n; i++) {
        names[i] = list->row[i]->name;
        if (strcmp(names[i], name) == 0) {
            kt_cli_usage(cli, "--%s takes no value", name);
            return;
        }
    }
    size_t n = 0;
    for (int i = 0; i < list->n; i++) {
        if (!list->row[i]->hidden)
            names[n++] = list->row[i]->name;
    }
    const char *near = kt_cli_nearest(name, names, n);
    if (near)
        kt_cli_usage(cli, "unknown option --%s, did you mean --%s?", name, near);
    else
        kt_cli_usage(cli, "unknown option --%s", name);
}

/* Takes the first argument for the option that it stands for, and older names for the newer. */
static bool take_arguments(struct kt_cli *cli, struct option_list *list, void *values)
{
    for (int i = 0; i < list->n; i++) {
        const struct kt_cli_option *row = list->row[i];
        if (row->is_argument && !list->seen[i]) {
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
            list->seen[j] |= list->row[j]->type == row->type && list->row[j]->offset == row->offset;
    }
    return true;
}

static bool check_arguments(const struct kt_cli *cli, const struct kt_cli_command *command,
                            const struct option_list *list)
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

bool kt_cli_parse(struct kt_cli *cli, const struct kt_cli_command *command, int argc, char **argv,
                  void *values)
{
    struct option_list list;
    struct getopt_tables tables;
    int key;
    list_options(command, &list);
    fill_tables(&list, ":", &tables);
    cli->exit_code = KT_EXIT_USAGE;
    opterr = 0;
    optind = 0;
    for (;;) {
        int before = optind ? optind : 1;
        key = getopt_long(argc, argv, tables.letters, tables.long_options, NULL);
        if (key == -1)
            break;
        int index = find_row(&list, key);
        if (index < 0) {
            const char *word = argv[optind > before || key == ':' ? optind - 1 : before];
            fail_option(cli, &list, key, word);
            return false;
        }
        const struct kt_cli_option *row = list.row[index];
        if (row == &shared_options[SHARED_HELP] || row == &shared_options[SHARED_VERSION]) {
            cli->exit_code =
                row == &shared_options[SHARED_HELP] ? print_verb_help(cli, command) : print_version();
            return false;
        }
        if (!take(cli, command, row, optarg ? optarg : "", values))
            return false;
        list.seen[index] = true;
    }
    cli->arguments = argv + optind;
    cli->n_arguments = argc - optind;
    cli->runs = take_arguments(cli, &list, values) && check_arguments(cli, command, &list);
    return cli->runs;
}

int kt_cli_find_verb(struct kt_cli *cli, int argc, char **argv)
{
    static const struct kt_cli_command any = {.opens_checkpoint = true};
    struct option_list list;
    struct getopt_tables tables;
    int key;
    list_options(&any, &list);
    fill_tables(&list, "+:", &tables);
    cli->exit_code = KT_EXIT_USAGE;
    opterr = 0;
    optind = 0;
    while ((key = getopt_long(argc, argv, tables.letters, tables.long_options, NULL)) != -1) {
        int index = find_row(&list, key);
        if (index < 0) {
            fail_option(cli, &list, key, argv[optind - 1]);
            return -1;
        }
        if (list.row[index] == &shared_options[SHARED_HELP])
            cli->exit_code = print_help();
        else if (list.row[index] == &shared_options[SHARED_VERSION])
            cli->exit_code = print_version();
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

size_t kt_cli_list(const struct kt_cli *cli, const char *option, const char *text, uint64_t *numbers,
                   size_t max)
{
    const char *at = text;
    size_t n = 0;
    while (n < max) {
        uint64_t first, last;
        at = read_uint(at, &first);
        if (!at)
            break;
        last = first;
        if (*at == '-')
            at = read_uint(at + 1, &last);
        if (at && last < first) {
            kt_cli_usage(cli,
                         "--%s %s: %" PRIu64 "-%" PRIu64 " runs backwards: %" PRIu64 "-%" PRIu64
                         " is that range",
                         option, text, first, last, last, first);
            return 0;
        }
        if (!at || last - first >= max - n)
            break;
        for (uint64_t number = first; number <= last && n < max; number++)
            numbers[n++] = number;
        if (!*at)
            return n;
        if (*at++ != ',')
            break;
    }
    kt_cli_usage(cli, "--%s %s: numbers such as 1,8 or 0-3 are needed, at most %zu", option, text, max);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* help.c - prints a verb's help from the table of its options. */
#include "tools/kt/base/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    char text[512];
    snprintf(text, sizeof(text), "%s%s%s", row->of ? row->of : "", row->of ? ": " : "", row->help);
    print_wrapped(text, 30, at);
}

int kt_cli_help_verb(const struct kt_cli *cli, const struct kt_cli_command *command)
{
    struct kt_cli_rows list;
    kt_cli_options(command, &list);
    /* Each line is a way to call it. */
    for (const char *text = command->usage, *first = "Usage:"; *text; first = "") {
        int length = (int)strcspn(text, "\n");
        char *line = kt_cli_format(cli, "kt %s %.*s", cli->verb, length, text);
        print_wrapped(line, 7, printf("%s", first));
        free(line);
        text += length + (text[length] == '\n');
    }
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

int kt_cli_help(const struct kt_cli *cli)
{
    printf("Usage: kt VERB [ARGUMENT]... [OPTION]...\n"
           "Runs the experts of Mixture-of-Experts models on CPUs.\n\nVerbs:\n");
    for (const struct kt_cli_verb *verb = cli->verbs; verb->name; verb++)
        print_wrapped(verb->summary, 14, printf("  %s", verb->name));
    printf("\nOptions of every verb:\n");
    for (int i = 0; i < SHARED_IO; i++)
        print_option(&kt_cli_shared[i]);
    printf("\n'kt help VERB' and kt-VERB(1) say more about a verb, kt.ini(5) about settings.\n"
           "Exit status: 0 success, 1 a problem was found, 2 usage error.\n");
    return KT_EXIT_OK;
}

int kt_cli_help_version(void)
{
    printf("kt (kt-kernel) %s\n", kt_version());
    return KT_EXIT_OK;
}

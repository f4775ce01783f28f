/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the program kt-serve, which `kt` executes with the words that it was given itself. */
#include "tools/engine/pull/pull.h"
#include "tools/engine/serve/run.h"

#include <stdio.h>
#include <string.h>

const struct kt_cli_verb kt_cli_verbs[] = {
    {"chat", "talk with a model, or with a server", kt_cmd_chat},
    {"model", "fetch models and compare them with their checksums", kt_cmd_pull},
    {"run", "serve a model over HTTP, as OpenAI's API has it", kt_cmd_run},
    {NULL, NULL, NULL},
};

int main(int argc, char **argv)
{
    struct kt_cli cli = {.format = KT_FORMAT_TABLE};
    double start = kt_cli_now();
    kt_signals_install();
    for (const struct kt_cli_verb *verb = kt_cli_verbs; verb->name && argc > 1; verb++) {
        if (strcmp(verb->name, argv[1]) != 0)
            continue;
        cli.verb = verb->name;
        int code = kt_cli_finish(&cli, verb->run(&cli, argc - 1, argv + 1));
        kt_verbose_end(&cli, start);
        kt_cli_free(&cli);
        return code;
    }
    fputs("kt-serve is a part of kt: see 'kt --help'.\n", stderr);
    return KT_EXIT_USAGE;
}

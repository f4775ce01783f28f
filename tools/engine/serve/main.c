/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the program kt-serve, which `kt run` executes. */
#include "tools/engine/serve/run.h"

#include <stdio.h>
#include <string.h>

const struct kt_cli_verb kt_cli_verbs[] = {
    {"run", "serve a model over HTTP, as OpenAI's API has it", kt_cmd_run},
    {NULL, NULL, NULL},
};

int main(int argc, char **argv)
{
    struct kt_cli cli = {.format = KT_FORMAT_TABLE};
    double start = kt_cli_now();
    kt_signals_install();
    if (argc < 2 || strcmp(argv[1], kt_cli_verbs->name) != 0) {
        fputs("kt-serve is a part of kt: see 'kt run --help'.\n", stderr);
        return KT_EXIT_USAGE;
    }
    cli.verb = kt_cli_verbs->name;
    int code = kt_cli_finish(&cli, kt_cli_verbs->run(&cli, argc - 1, argv + 1));
    kt_verbose_end(&cli, start);
    kt_cli_free(&cli);
    return code;
}

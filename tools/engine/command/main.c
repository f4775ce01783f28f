/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the program kt-engine, which `kt` executes with the words that it was given itself. */
#include "tools/engine/command/command.h"

#include <string.h>

/* What kt itself cannot measure. */
static int run_bench(struct kt_cli *cli, int argc, char **argv)
{
    static const char name[] = "--tokenize";
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strncmp(argv[i], name, sizeof(name) - 1) == 0)
            return kt_cmd_bench_text(cli, argc, argv);
    return kt_cmd_bench_model(cli, argc, argv);
}

const struct kt_cli_verb kt_cli_verbs[] = {
    {"bench", "measure a whole model, or how fast text becomes tokens", run_bench},
    {"detokenize", "turn token ids into text", kt_cmd_detokenize},
    {"generate", "go on with a text, or answer it, by a whole model", kt_cmd_generate},
    {"perplexity", "measure how well a model foretells a text", kt_cmd_perplexity},
    {"template", "render a chat template, or say what it supports", kt_cmd_template},
    {"tokenize", "turn text into a model's token ids", kt_cmd_tokenize},
    {NULL, NULL, NULL},
};

int main(int argc, char **argv)
{
    return kt_cli_run_helper("kt-engine", argc, argv);
}

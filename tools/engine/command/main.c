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
    {"bench", "measure a whole model, or its tokenizer", run_bench},
    {"detokenize", "convert token IDs to text", kt_cmd_detokenize},
    {"generate", "generate text from a prompt, or answer a message", kt_cmd_generate},
    {"perplexity", "measure the perplexity of a model on a text", kt_cmd_perplexity},
    {"template", "render a chat template, or show what it supports", kt_cmd_template},
    {"tokenize", "convert text to token IDs", kt_cmd_tokenize},
    {NULL, NULL, NULL},
};

int main(int argc, char **argv)
{
    return kt_cli_run_helper("kt-engine", argc, argv);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the command `kt`: the verb table, and options before a verb. */
#include "tools/kt/base/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct kt_cli_verb kt_cli_verbs[] = {
    {"backends", "list the configured backends, their state and their options", kt_cmd_backends},
    {"bench", "measure backends against the limits of this machine", kt_cmd_bench},
    {"chat", "chat with a model, or with a running server", kt_cmd_engine},
    {"config", "show, check or change the configuration", kt_cmd_config},
    {"convert", "pack experts and linear layers into a store that loads at once", kt_cmd_convert},
    {"detokenize", "convert token IDs to text", kt_cmd_engine},
    {"doctor", "check this machine and every backend", kt_cmd_doctor},
    {"explain", "show which backend would run each layer of a model, and why", kt_cmd_explain},
    {"forward", "run MoE layers on recorded input and check the output", kt_cmd_forward},
    {"generate", "generate text from a prompt, or answer a message", kt_cmd_engine},
    {"inspect", "show the contents of a checkpoint", kt_cmd_inspect},
    {"model", "manage model names; find and download models", kt_cmd_model},
    {"perplexity", "measure the perplexity of a model on a text", kt_cmd_engine},
    {"place", "choose the experts to put on a GPU, based on usage", kt_cmd_place},
    {"plugin", "check a backend plugin, or create a plugin project", kt_cmd_plugin},
    {"run", "serve a model over an OpenAI-compatible HTTP API", kt_cmd_engine},
    {"stats", "show how often, and how unevenly, experts were requested", kt_cmd_stats},
    {"template", "render a chat template, or show what it supports", kt_cmd_engine},
    {"tokenize", "convert text to token IDs", kt_cmd_engine},
    {"tune", "find faster settings of the backends for this machine", kt_cmd_tune},
    {"verify", "check a store against its checksums", kt_cmd_verify},
    {"version", "show version information", kt_cmd_version},
    {NULL, NULL, NULL},
};

static int fail_unknown(struct kt_cli *cli, const char *word)
{
    const char *names[33] = {"help"};
    size_t n = 1;
    for (const struct kt_cli_verb *verb = kt_cli_verbs; verb->name && n < 33; verb++)
        names[n++] = verb->name;
    /* What KT-Kernel's command calls it is no slip of a finger. */
    const char *near = strcmp(word, "quant") == 0 ? "convert" : kt_nearest(word, names, n);
    if (near)
        return kt_cli_usage(cli, "unknown verb '%s', did you mean '%s'?", word, near);
    return kt_cli_usage(cli, "unknown verb '%s'", word);
}

/* `kt help VERB` is `kt VERB --help`. Returns the index of the verb, or -1: return cli->exit_code. */
static int turn_help(struct kt_cli *cli, int argc, char **argv, int at)
{
    static char help[] = "--help";
    if (argc - at > 2) {
        cli->exit_code = kt_cli_usage(cli, "'%s' is one argument too many", argv[at + 2]);
        return -1;
    }
    if (argc - at < 2 || strcmp(argv[at + 1], "help") == 0 || strcmp(argv[at + 1], help) == 0 ||
        strcmp(argv[at + 1], "-h") == 0) {
        char *general[] = {argv[0], help, NULL};
        return kt_cli_find_verb(cli, 2, general);
    }
    argv[at] = argv[at + 1];
    argv[at + 1] = help;
    return at;
}

/* Moves the verb to the front, and shared options behind it, where the verb's parser reads them. */
static int run(struct kt_cli *cli, int argc, char **argv)
{
    int at = kt_cli_find_verb(cli, argc, argv);
    if (at < 0)
        return cli->exit_code;
    if (strcmp(argv[at], "help") == 0) {
        at = turn_help(cli, argc, argv, at);
        if (at < 0)
            return cli->exit_code;
        argc = at + 2;
    }
    for (const struct kt_cli_verb *verb = kt_cli_verbs; verb->name; verb++) {
        if (strcmp(verb->name, argv[at]) != 0)
            continue;
        char *name = argv[at];
        memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof(*argv));
        argv[1] = name;
        cli->verb = verb->name;
        return verb->run(cli, argc - 1, argv + 1);
    }
    return fail_unknown(cli, argv[at]);
}

int main(int argc, char **argv)
{
    struct kt_cli cli = {.format = KT_FORMAT_TABLE};
    double start = kt_cli_now();
    kt_signals_install();
    int code = kt_cli_finish(&cli, run(&cli, argc, argv));
    kt_verbose_end(&cli, start);
    kt_cli_free(&cli);
    return code;
}

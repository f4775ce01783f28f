/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the program kt-serve, which `kt` executes with the words that it was given itself. */
#include "tools/engine/pull/pull.h"
#include "tools/engine/serve/run.h"

const struct kt_cli_verb kt_cli_verbs[] = {
    {"chat", "chat with a model, or with a running server", kt_cmd_chat},
    {"model", "download models and verify their checksums", kt_cmd_pull},
    {"run", "serve a model over an OpenAI-compatible HTTP API", kt_cmd_run},
    {NULL, NULL, NULL},
};

int main(int argc, char **argv)
{
    return kt_cli_run_helper("kt-serve", argc, argv);
}

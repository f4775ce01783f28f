/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the program kt-serve, which `kt` executes with the words that it was given itself. */
#include "tools/kt/model/names.h"

#define ROW(name, programs, summary) KT_VERB_ROW(KT_IN_SERVE, name, programs, summary),
static const struct kt_cli_verb verbs[] = {KT_VERBS(ROW){.name = NULL}};

int main(int argc, char **argv)
{
    struct kt_cli cli = {.verbs = verbs, .models = &kt_models};
    return kt_cli_run_helper(&cli, "kt-serve", argc, argv);
}

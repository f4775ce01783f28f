/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs.h - the verbs of kt: the programs that run each, and what `kt --help`, kt(1), the verb's own page and
 * the completions say of it. All lists of verbs are made of these rows, or compared with them
 * (tests/kt/kt_docs.sh).
 *
 * A verb NAME is a function kt_cmd_NAME and a table kt_NAME_command of its options and its help (cli.h).
 */
#ifndef KT_TOOL_VERBS_H
#define KT_TOOL_VERBS_H

/* What `kt` cannot run itself it leaves to a program of another package, so that it needs no libraries for
 * that. */
enum kt_cli_program {
    KT_IN_KT = 1,
    KT_IN_ENGINE = 2, /* kt-engine: whole models and text */
    KT_IN_SERVE = 4   /* kt-serve: HTTP */
};

/* VERB(name, programs, summary), by the alphabet. */
#define KT_VERBS(VERB)                                                                          \
    VERB(backends, KT_IN_KT, "list the configured backends, their state and their options")     \
    VERB(bench, KT_IN_KT | KT_IN_ENGINE, "measure backends against the limits of this machine") \
    VERB(chat, KT_IN_SERVE, "chat with a model, or with a running server")                      \
    VERB(config, KT_IN_KT, "show, check or change the configuration")                           \
    VERB(convert, KT_IN_KT, "pack experts and linear layers into a store that loads at once")   \
    VERB(detokenize, KT_IN_ENGINE, "convert token IDs to text")                                 \
    VERB(doctor, KT_IN_KT, "check this machine and every backend")                              \
    VERB(explain, KT_IN_KT, "show which backend would run each layer of a model, and why")      \
    VERB(forward, KT_IN_KT, "run MoE layers on recorded input and check the output")            \
    VERB(generate, KT_IN_ENGINE, "generate text from a prompt, or answer a message")            \
    VERB(inspect, KT_IN_KT, "show the contents of a checkpoint")                                \
    VERB(model, KT_IN_KT | KT_IN_SERVE, "manage model names; find and download models")         \
    VERB(perplexity, KT_IN_ENGINE, "measure the perplexity of a model on a text")               \
    VERB(place, KT_IN_KT, "choose the experts to put on a GPU, based on usage")                 \
    VERB(plugin, KT_IN_KT, "check a backend plugin, or create a plugin project")                \
    VERB(run, KT_IN_SERVE, "serve a model over an OpenAI-compatible HTTP API")                  \
    VERB(stats, KT_IN_KT, "show how often, and how unevenly, experts were requested")           \
    VERB(template, KT_IN_ENGINE, "render a chat template, or show what it supports")            \
    VERB(tokenize, KT_IN_ENGINE, "convert text to token IDs")                                   \
    VERB(tune, KT_IN_KT, "find faster settings of the backends for this machine")               \
    VERB(verify, KT_IN_KT, "check a store against its checksums")                               \
    VERB(version, KT_IN_KT, "show version information")

struct kt_cli;
struct kt_cli_command;

/* A row of a program's table; the table ends with a row whose name is NULL. */
struct kt_cli_verb {
    const char *name, *summary;
    int programs;                                          /* enum kt_cli_program */
    int (*run)(struct kt_cli *cli, int argc, char **argv); /* argv[0] is the verb; NULL: another program's */
};
#define KT_VERB_ROW(here, name, programs, summary)                                  \
    {                                                                               \
#name, summary, programs, ((programs) & (here)) != 0 ? kt_cmd_##name : NULL \
    }

#define KT_VERB_DECLARE(name, programs, summary)                  \
    int kt_cmd_##name(struct kt_cli *cli, int argc, char **argv); \
    extern const struct kt_cli_command kt_##name##_command;
KT_VERBS(KT_VERB_DECLARE)

#endif

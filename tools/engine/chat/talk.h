/* SPDX-License-Identifier: Apache-2.0 */
/*
 * talk.h - who answers: a model in this process (engine.c), or a server (client.c). Both take the messages of
 * a conversation and hand out the answer in pieces.
 */
#ifndef KT_ENGINE_CHAT_TALK_H
#define KT_ENGINE_CHAT_TALK_H

#include "tools/engine/prompt/prompt.h"

enum kt_talk_kind { KT_TALK_REASONING, KT_TALK_CONTENT, KT_TALK_CALL };

/* Whoever hears the answer. */
struct kt_talk_listener {
    void *data;
    /* The next piece: UTF-8, as the model wrote it, control characters included. Of a call of a tool, its
     * name and then its arguments. */
    void (*piece)(void *data, enum kt_talk_kind kind, const char *text, size_t length);
    /* Tokens of the prompt that were read, of all. */
    void (*progress)(void *data, uint64_t done, uint64_t total);
    /* Asked ten times a second and more: whether the answer ends here. */
    bool (*stops)(void *data);
};

enum kt_talk_reason {
    KT_TALK_STOP,   /* the model ended it */
    KT_TALK_LENGTH, /* there was room for no more tokens, or more were not wished */
    KT_TALK_BREAK   /* the listener ended it */
};

struct kt_talk_end {
    enum kt_talk_reason reason;
    uint64_t n_prompt, n_cached, n_answer; /* tokens; 0: unknown */
    double first;                          /* seconds until the first piece; 0: there was none */
    double rate;                           /* tokens a second from there on; 0: unknown */
};

/* What every answerer begins with. Texts from a server may hold anything. */
struct kt_talk {
    /* Answers the last message. On failure the pieces so far are not a complete answer. */
    enum kt_status (*send)(struct kt_talk *talk, const json_t *messages,
                           const struct kt_talk_listener *listener, struct kt_talk_end *end,
                           struct kt_error *error);
    void (*close)(struct kt_talk *talk);
    char model[256];    /* "": unknown */
    char where[512];    /* "http://127.0.0.1:30000"; "": in this process */
    char sampling[512]; /* what draws, for people; "": nothing does */
    const char *room;   /* how to get more context, "kt chat --context N" */
    uint64_t context;   /* tokens of a prompt and its answer; 0: unknown */
    bool is_fixed;      /* the same messages have the same answer */
};

struct kt_chat_args {
    const char *prompt, *file, *system, *chat_template, *experts, *host, *key, *model;
    uint64_t n, context, port;
    int kv;
    bool no_think, no_history, is_as_ever; /* the last one: of options that say what is done anyway */
    struct kt_sampling_args sampling;
};

/* Loads MODEL. Returns 0, or an exit code after a message. */
int kt_talk_engine(struct kt_cli *cli, const struct kt_chat_args *args, struct kt_talk **talk);
/* Asks the server which model it has. */
int kt_talk_client(struct kt_cli *cli, const struct kt_chat_args *args, struct kt_talk **talk);

#endif

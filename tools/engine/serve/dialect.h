/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dialect.h - the APIs that are spoken here. All ask for the same (ask.h), and are answered by the same
 * pieces (job.h); what differs is how a body is read and how answers are written.
 */
#ifndef KT_ENGINE_SERVE_DIALECT_H
#define KT_ENGINE_SERVE_DIALECT_H

#include "tools/engine/serve/job.h"

struct kt_dialect {
    bool is_chat;
    bool lists_entries; /* of logprobs as chats have them, with ids */
    bool is_endless;    /* where it names no number of tokens, an answer is as long as it will */
    const char *id_prefix;
    const char *type; /* of streams; NULL: server-sent events */
    const char *stop; /* the field of stop strings */
    const char *ping; /* what keeps a stream alive; NULL: a comment with the progress; "": nothing */
    /* Makes a body as OpenAI's chats have it, with nothing in it that its writers do not expect; takes the
     * reference. NULL after a problem. No function: it is one. */
    json_t *(*translate)(const struct kt_served *model, json_t *body, struct kt_problem *problem);
    /* ---- of streams; false: out of memory ---- */
    bool keeps_text; /* of blocks that were sent */
    bool (*open)(struct kt_job *job, struct kt_answer *answer, const struct kt_block *block); /* or NULL */
    bool (*add)(struct kt_job *job, struct kt_answer *answer, const struct kt_block *block, const char *text,
                uint64_t length);
    bool (*close)(struct kt_job *job, struct kt_answer *answer, const struct kt_block *block); /* or NULL */
    bool (*finish)(struct kt_job *job, struct kt_answer *answer); /* the reason why an answer ended */
    bool (*end)(struct kt_job *job);                              /* behind the last answer */
    bool (*error)(struct kt_job *job);                            /* the problem that ends a stream */
    /* ---- of others: all of the reply ---- */
    json_t *(*reply)(struct kt_job *job);
};
extern const struct kt_dialect kt_dialect_chat, kt_dialect_completion, kt_dialect_messages,
    kt_dialect_responses;

/* The member of a translated body that its writers want to keep: what a reply repeats of the request. */
#define KT_ECHO "kt_echo"
#define KT_CUSTOM "kt_custom"   /* names of custom tools, as an object's */
#define KT_LIMITED "kt_limited" /* true: no other tool than those that are there may be called */

/* ---- custom.c: custom tools, and allowed_tools ---- */

/* The translation of OpenAI's chats. */
json_t *kt_custom_translate(const struct kt_served *model, json_t *body, struct kt_problem *problem);
/* Appends a custom tool to `tools` as a function, and notes its name in `chat`. */
bool kt_custom_add_custom(const struct kt_served *model, json_t *chat, json_t *tools, const json_t *custom,
                          const char *param, struct kt_problem *problem);
/* Leaves those of chat's tools that a choice of type allowed_tools lists. */
bool kt_custom_allow(json_t *chat, const json_t *choice, struct kt_problem *problem);
/* The arguments of a custom tool's function, as JSON text, and the input that arguments hold. */
json_t *kt_custom_arguments(json_t *input);
json_t *kt_custom_input(const struct kt_buffer *arguments);
bool kt_custom_is_custom(const struct kt_job *job, const struct kt_block *block);

/* ---- messages_read.c and messages_write.c: Anthropic's API ---- */

json_t *kt_messages_translate(const struct kt_served *model, json_t *body, struct kt_problem *problem);
json_t *kt_messages_problem(const struct kt_problem *problem);

/* ---- responses_read.c: OpenAI's newer one ---- */

json_t *kt_responses_translate(const struct kt_served *model, json_t *body, struct kt_problem *problem);

/* ---- openapi.c ---- */

/* Tables of fields, by the letters that openapi.json has for them: A what all ask for, B chats, C their
 * messages, D completions, E responses, F messages of Anthropic's, G texts, H embeddings. */
extern const struct kt_field *const kt_ask_tables[3],
    *const kt_chat_table, *const kt_responses_table, *const kt_messages_table, *const kt_text_table,
                                                                                   *const kt_embed_table;

/* ---- shape.c: what they share ---- */

/* One event of a stream; `event` is its name, or NULL. Takes the reference; NULL: false. */
bool kt_shape_send(struct kt_job *job, const char *event, json_t *object);
/* What was collected, as JSON. */
json_t *kt_shape_text(const struct kt_buffer *text);

/* Tokens of all answers. */
struct kt_usage {
    json_int_t n_prompt, n_cached, n_tokens, n_reasoning;
};
struct kt_usage kt_shape_usage(const struct kt_job *job);
/* How fast the first answer came. */
json_t *kt_shape_timings(const struct kt_job *job);

#endif

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
    const char *id_prefix;
    const char *stop; /* the field of stop strings */
    const char *ping; /* what keeps a stream alive; NULL: a comment with the progress */
    /* Makes a body as OpenAI's chats have it, with nothing in it that its writers do not expect; takes the
     * reference. NULL after a problem. No function: it is one. */
    json_t *(*translate)(const struct kt_server *server, json_t *body, struct kt_problem *problem);
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

/* ---- messages_read.c and messages_write.c: Anthropic's API ---- */

json_t *kt_messages_translate(const struct kt_server *server, json_t *body, struct kt_problem *problem);
json_t *kt_messages_problem(const struct kt_problem *problem);

/* ---- responses_read.c: OpenAI's newer one ---- */

json_t *kt_responses_translate(const struct kt_server *server, json_t *body, struct kt_problem *problem);

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

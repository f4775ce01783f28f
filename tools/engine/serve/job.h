/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.h - a request while it is answered:
 *
 *     ids from the scheduler (feed.h) -> text -> reasoning, content, calls -> stop strings -> pieces
 *
 * A piece goes out at once where the request streams, else into what is collected, so both are the same.
 */
#ifndef KT_ENGINE_SERVE_JOB_H
#define KT_ENGINE_SERVE_JOB_H

#include "tools/engine/serve/ask.h"
#include "tools/engine/serve/feed.h"

/* One of the answers of a request. */
struct kt_answer {
    uint32_t number;
    const struct kt_prompt *prompt;
    struct kt_ticket *ticket;
    struct kt_detokenizer *detokenizer;
    struct kt_parser *parser; /* of chats */
    struct kt_stop *stop;     /* NULL: no stop strings */
    const char *finish;       /* NULL: not yet */
    bool has_ended;           /* the scheduler has let it go */
    bool has_begun;           /* its first chunk went out */
    bool is_reasoning;
    bool is_cut; /* within a call */
    uint64_t n_tokens, n_reasoning, n_calls;
    uint64_t text_offset; /* characters, for logprobs of completions */
    struct kt_request_end end;
    /* ---- what was not sent yet, or is collected ---- */
    struct kt_buffer content, reasoning;
    json_t *calls, *logprobs; /* lists */
};

enum kt_piece_kind { KT_PIECE_CONTENT, KT_PIECE_REASONING, KT_PIECE_CALL, KT_PIECE_ARGUMENTS };

struct kt_piece {
    enum kt_piece_kind kind;
    const char *text;
    uint64_t length;
    uint32_t call;
    char id[64]; /* of a call */
};

struct kt_job {
    struct kt_server *server;
    struct kt_exchange *exchange; /* only while the reply is made: it is gone before the job is freed */
    struct kt_ask ask;
    struct kt_feed *feed;
    struct kt_answer *answers;
    size_t n_answers, n_open;
    struct kt_buffer *out; /* of a stream: where chunks go */
    struct kt_problem problem;
    bool has_failed, has_first;
    char id[48];
    int64_t created;
    double start, first, keep_alive; /* seconds */
};

/* ---- answer.c ---- */

/* Makes what turns ids into pieces. */
bool kt_answer_open(struct kt_job *job, struct kt_answer *answer, struct kt_problem *problem);
void kt_answer_close(struct kt_answer *answer);
/* The next token, or the end. False: job->problem says why the request cannot go on. */
bool kt_answer_token(struct kt_job *job, struct kt_answer *answer, const struct kt_feed_event *event);
bool kt_answer_end(struct kt_job *job, struct kt_answer *answer, const struct kt_feed_event *event);
/* The text of the prompt as the first piece. */
bool kt_answer_echo(struct kt_job *job, struct kt_answer *answer);

/* ---- shape.c ---- */

/* Sends a piece, or collects it. False: out of memory, and so for the others. */
bool kt_shape_piece(struct kt_job *job, struct kt_answer *answer, const struct kt_piece *piece);
/* The reason why an answer ended. */
bool kt_shape_finish(struct kt_job *job, struct kt_answer *answer);
/* A token's logprobs, to go with the next piece. */
bool kt_shape_logprob(struct kt_job *job, struct kt_answer *answer, const struct kt_feed_event *event);
/* Behind the last chunk: usage, if it was asked for, and the end of the stream. */
bool kt_shape_end(struct kt_job *job);
/* The whole reply of a request that does not stream. */
json_t *kt_shape_reply(struct kt_job *job);
/* The error that ends a stream. */
bool kt_shape_error(struct kt_job *job);
void kt_make_id(const char *prefix, char *id, size_t size);

#endif

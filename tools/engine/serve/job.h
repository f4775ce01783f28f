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

enum kt_piece_kind { KT_PIECE_CONTENT, KT_PIECE_REASONING, KT_PIECE_CALL, KT_PIECE_ARGUMENTS };

/* What an answer grows by. */
struct kt_piece {
    enum kt_piece_kind kind;
    const char *text; /* of a call: the name of its tool */
    uint64_t length;
    uint32_t call;
    char id[64]; /* of a call */
};

/* Pieces of one kind in a row, or a call with its arguments. */
struct kt_block {
    enum kt_piece_kind kind; /* but KT_PIECE_ARGUMENTS */
    struct kt_buffer text;   /* of a call: its arguments */
    struct kt_buffer name;   /* of a call, and so are the others */
    uint32_t call;
    char id[64];
};

/* Where a text stands, for limits at the ends of lines. */
struct kt_lines {
    bool is_indent; /* nothing but blanks has come since a line ended */
    int64_t indent; /* of them */
};

/* One of the answers of a request. */
struct kt_answer {
    uint32_t number;
    const struct kt_prompt *prompt;
    struct kt_ticket *ticket;
    struct kt_detokenizer *detokenizer;
    struct kt_parser *parser; /* of chats */
    struct kt_stop *stop;     /* NULL: no stop strings */
    const char *finish;       /* NULL: not yet */
    int64_t stop_number;      /* of the stop string that ended it; -1: none did */
    bool has_ended;           /* the scheduler has let it go */
    bool has_begun;           /* its first chunk went out */
    bool is_reasoning;
    bool has_reasoned;         /* the last token gave text of it */
    bool is_cut;               /* within a call */
    bool has_said;             /* something else than reasoning */
    struct kt_buffer thoughts; /* reasoning, as long as nothing was said */
    uint64_t n_tokens, n_reasoning, n_calls;
    uint64_t text_offset; /* characters, for logprobs of completions */
    double logprob;       /* of n_weighed tokens together, where some answers are not shown */
    uint64_t n_weighed;
    struct kt_request_end end;
    struct kt_block *blocks; /* their texts only where the dialect wants them (dialect.h) */
    size_t n_blocks, block_capacity;
    json_t *logprobs; /* that were not sent yet: a list */
    json_t *tokens;   /* likewise, ids; NULL: nobody wants them */
    struct kt_lines lines;
};

struct kt_job {
    struct kt_served *model; /* held, until the job is freed */
    struct kt_server *server;
    struct kt_exchange *exchange; /* only while the reply is made: it is gone before the job is freed */
    struct kt_ask ask;
    struct kt_feed *feed;
    struct kt_answer *answers;
    size_t n_answers, n_open;
    struct kt_buffer *out; /* of a stream: where chunks go */
    struct kt_problem problem;
    bool has_failed, has_first;
    json_int_t n_events; /* that were sent, where the dialect counts them */
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
/* The text of the prompt as the first piece, and the logprob of its first token, which has none. */
bool kt_answer_echo(struct kt_job *job, struct kt_answer *answer);

/* ---- lines.c ---- */

/* Cuts *length where the request's limits of lines end the answer; true: they do. */
bool kt_lines_end(const struct kt_job *job, struct kt_answer *answer, const char *text, uint64_t *length);

/* ---- shape.c ---- */

/* Sends a piece, or collects it. False: out of memory, and so for the others. */
bool kt_shape_piece(struct kt_job *job, struct kt_answer *answer, const struct kt_piece *piece);
bool kt_shape_finish(struct kt_job *job, struct kt_answer *answer);
void kt_shape_free(struct kt_answer *answer);
void kt_make_id(const char *prefix, char *id, size_t size);

/* ---- openai.c ---- */

/* A token's logprobs, to go with the next piece; NaN: it has none. */
bool kt_shape_logprob(struct kt_job *job, struct kt_answer *answer, const struct kt_feed_event *event);

#endif

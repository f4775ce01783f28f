/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feed.h - tokens on their way from the scheduler's thread to the thread that answers. The scheduler may
 * still call back when the client is long gone, so a feed lives until the last of them has let it go.
 */
#ifndef KT_ENGINE_SERVE_FEED_H
#define KT_ENGINE_SERVE_FEED_H

#include "tools/engine/scheduler/scheduler.h"

#include <kt/constraint.h>

struct kt_feed;

/* A token, or the end of an answer. */
struct kt_feed_event {
    uint32_t answer;
    bool is_prompt; /* the token is one of the prompt's, and this says how likely it was */
    int32_t id;     /* -1: the answer ended */
    float logprob;
    uint32_t n_top;
    struct kt_logprob *top; /* freed by kt_feed_event_free */
    struct kt_request_end end;
    struct kt_error *error; /* of KT_END_ERROR; likewise, and NULL where there was no memory */
    float *vector;          /* of the end of a text that is embedded; likewise */
};

struct kt_feed *kt_feed_create(void);
void kt_feed_release(struct kt_feed *feed);
/* Sets the callbacks of a request to feed answer number `answer`, and holds the feed until its end. Takes the
 * constraint, which may be NULL; scores: the prompt's tokens from the second on are wanted, too. False: out
 * of memory. If the request is not taken, kt_feed_cancel. */
bool kt_feed_attach(struct kt_feed *feed, uint32_t answer, struct kt_constraint *constraint, bool scores,
                    struct kt_request *request);
/* The same for a text that is embedded: its end has the last token's hidden state, of `size` values, or the
 * mean of all tokens'. */
bool kt_feed_attach_text(struct kt_feed *feed, uint32_t answer, uint64_t size, bool is_mean,
                         struct kt_request *request);
void kt_feed_cancel(struct kt_request *request);

/* The next token ends each answer, as if the model had ended it: what was computed is kept for requests that
 * begin like this one, which kt_scheduler_cancel does not do. */
void kt_feed_stop(struct kt_feed *feed);

enum kt_feed_result { KT_FEED_EVENT, KT_FEED_TIMEOUT, KT_FEED_GONE };
/* Waits for the next event, until `deadline` (seconds, as of kt_cli_now), or until the client at the socket
 * `fd` hangs up. */
enum kt_feed_result kt_feed_next(struct kt_feed *feed, int fd, double deadline, struct kt_feed_event *event);
/* Tokens of prompts that were read, of all. */
void kt_feed_progress(struct kt_feed *feed, uint64_t *done, uint64_t *total);
void kt_feed_event_free(struct kt_feed_event *event);

#endif

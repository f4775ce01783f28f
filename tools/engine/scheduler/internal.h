/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - the parts of a scheduler. What stands under `lock` is shared; all else belongs to the
 * scheduler's thread as soon as a request was taken.
 */
#ifndef KT_ENGINE_SCHEDULER_INTERNAL_H
#define KT_ENGINE_SCHEDULER_INTERNAL_H

#include "tools/engine/scheduler/pace.h"
#include "tools/engine/scheduler/scheduler.h"
#include "tools/engine/speculate/drafter.h"
#include "tools/engine/speculate/gain.h"

#include <pthread.h>
#include <stdatomic.h>

/** Requests in order. */
struct kt_queue {
    struct kt_ticket *first, *last;
    uint64_t n;
};

/** Who shares the model with others. */
struct kt_client {
    struct kt_client *next;
    uint64_t charge; /**< tokens that were computed for it, and what it did not ask for while it was away */
    uint64_t n_requests; /**< that wait or run */
    uint64_t pending; /**< tokens that requests which run still have to compute, kept by kt_clients_measure */
    bool passed;      /**< its first request cannot start in this turn */
    struct kt_queue queue; /**< that wait */
    char name[];
};

/** Tokens and the hashes of their beginnings. */
struct kt_chain {
    int32_t *ids;
    uint64_t *hashes; /**< [n_hashes] of the first 1, 2, .. whole pages */
    size_t n_ids, n_hashes, ids_capacity, hashes_capacity;
    uint64_t owner; /**< chains of different owners have nothing in common */
};

/** A request. */
struct kt_ticket {
    atomic_uint references;
    atomic_bool cancelled;
    struct kt_scheduler *scheduler;
    struct kt_ticket *next;
    struct kt_place *place;
    struct kt_client *client;  /**< until it is in the queue: one that may be made of its name */
    struct kt_request request; /**< its arrays but stop_ids are the caller's, and not used */
    int32_t *stop_ids;
    struct kt_sampler *sampler;
    struct kt_chain chain;      /**< prompt and answer */
    struct kt_session *session; /**< NULL: it waits */
    uint64_t n_done;            /**< tokens of the session */
    uint64_t limit;             /**< tokens of prompt and answer */
    uint64_t stamp;             /**< its place among those that were started; 0: it was not yet */
    bool copies;                /**< the session's last page is another one's too, and not full */
    uint32_t n_step;            /**< tokens in this step */
    uint32_t n_drafts;          /**< of these, the last ones: the drafter's first */
    struct kt_session *kept;    /**< during a step with drafts: as it was, if it cannot go back; else NULL */
    bool kept_copies;           /**< `copies` of it */
    uint64_t n_again;           /**< tokens of the answer that are computed again after a wrong draft */
    bool repeats_mtp;           /**< its last step had a draft of the model's own block */
    float *next_logits;         /**< of the step, for the next token; NULL: its prompt is not read yet */
    uint64_t n_scored;          /**< tokens of the prompt that on_score has had, the first one among them */
    uint64_t n_hidden;          /**< the next token of the prompt that on_hidden gets */
    struct kt_drafter drafter;  /**< what it knows of the chain so far */
    struct kt_choice choice;
    enum kt_status scored, chosen;
    struct kt_error error;
    uint64_t n_generated, n_cached, submit_ns, start_ns, first_ns, last_ns;
    double first_bytes, last_bytes; /**< stats.step_bytes when its first and its last token came */
};

/** A session that is kept for what begins as it does. */
struct kt_prefix {
    struct kt_session *session;
    struct kt_chain chain;
    uint64_t used; /**< when it was used last */
};

/** Rows of logits in a step besides one a request: of drafts, or of prompts that are scored. */
#define KT_SCORED_ROWS 32
#define KT_MORE_ROWS (KT_GAIN_ROWS > KT_SCORED_ROWS ? KT_GAIN_ROWS : KT_SCORED_ROWS)

struct kt_scheduler {
    atomic_uint references;
    struct kt_context *context;
    struct kt_model *model;
    struct kt_scheduler_params params; /**< with defaults filled in */
    int32_t *end_ids;
    uint64_t vocabulary, chosen_from; /**< logits of a token; ids that may be chosen */
    struct kt_model_info info;        /**< of the model */
    uint64_t longest;                 /**< tokens of a request */
    uint32_t n_pages, max_sessions;
    bool has_states;

    pthread_mutex_t lock;
    pthread_cond_t wake; /**< the thread: something has come */
    pthread_cond_t idle; /**< kt_scheduler_drain: nothing is left */
    struct kt_queue inbox;
    struct kt_place *places;
    uint64_t n_waiting, n_live; /**< in the inbox or a queue; taken and not ended */
    uint64_t n_taken, n_refused;
    bool refuses, stops, cancels;
    struct kt_scheduler_stats shown;
    pthread_t thread;

    struct kt_ticket **running; /**< [n_running], in the order in which they were started */
    uint32_t n_running;
    uint64_t n_mine; /**< requests that run or stand in a client's queue */
    struct kt_client *clients;
    uint32_t n_clients;
    uint64_t clock;              /**< the least charge of clients that have requests; it never goes back */
    struct kt_prefix **prefixes; /**< [n_prefixes], room for max_sessions */
    uint32_t n_prefixes;
    uint64_t uses, stamps; /**< the last ones given */
    struct kt_pace pace;
    struct kt_gain gain;
    double fork_seconds, mtp_seconds; /**< of a fork for drafts, of a draft by the block; 0: not known */
    double draft_seconds;             /**< that this step's drafts took */
    int32_t draft_ids[KT_GAIN_ROWS];  /**< of steps with drafts */
    struct kt_step *steps;            /**< [max_running] */
    struct kt_hidden *hidden;         /**< [max_running] what is wanted of them */
    float *states; /**< [slice_tokens][hidden_size] hidden states of a step; NULL: none were wanted yet */
    struct kt_ticket **stepped, **ordered; /**< [max_running] */
    float *logits;                         /**< [max_running + KT_MORE_ROWS][vocabulary] */
    uint64_t *mask;                        /**< of min_tokens */
    struct kt_scheduler_stats stats;
};

static inline uint64_t kt_pages(uint64_t n_tokens)
{
    return (n_tokens + KT_KV_PAGE - 1) / KT_KV_PAGE;
}

static inline uint64_t kt_pending(const struct kt_ticket *ticket)
{
    return ticket->chain.n_ids - ticket->n_done;
}

/** Has it all of its prompt, so that the next step gives a token? */
static inline bool kt_is_answering(const struct kt_ticket *ticket)
{
    return kt_pending(ticket) == 1 + ticket->n_again && !ticket->request.on_hidden;
}

/** Are there tokens of its prompt that on_score has not had? */
static inline bool kt_is_scored(const struct kt_ticket *ticket)
{
    return ticket->request.on_score && ticket->n_scored < ticket->request.n_ids;
}

uint64_t kt_now(void); /**< nanoseconds */

/* chain.c */

/** False: no memory, and the chain is as it was. */
bool kt_chain_add(struct kt_chain *chain, const int32_t *ids, size_t n_ids);
/** Copies the first n_ids. */
bool kt_chain_copy(const struct kt_chain *chain, size_t n_ids, struct kt_chain *copy);
/** Keeps the first n_ids. */
void kt_chain_cut(struct kt_chain *chain, size_t n_ids);
void kt_chain_free(struct kt_chain *chain);
/** Tokens that both begin with, in whole pages. */
uint64_t kt_chain_common(const struct kt_chain *a, const struct kt_chain *b);

/* request.c */

void kt_ticket_hold(struct kt_ticket *ticket);
/** Frees what only a running request needs. */
void kt_ticket_empty(struct kt_ticket *ticket);
void kt_scheduler_release(struct kt_scheduler *scheduler);

/* places.c */

/** A place in the queue. KT_E_BUSY: there is none for this client. */
enum kt_status kt_place_take(struct kt_scheduler *s, const char *client, struct kt_place **place,
                             struct kt_error *error);
/** A request of it does not wait any more; or waits again. */
void kt_place_leave(struct kt_scheduler *s, struct kt_place *place);
void kt_place_return(struct kt_scheduler *s, struct kt_place *place);
/** A request for which it was taken is refused after all. */
void kt_place_refuse(struct kt_scheduler *s, struct kt_place *place);
/** A request of it, which does not wait, has ended. */
void kt_place_drop(struct kt_scheduler *s, struct kt_place *place);

/* clients.c */

void kt_queue_push(struct kt_queue *queue, struct kt_ticket *ticket);
void kt_queue_push_first(struct kt_queue *queue, struct kt_ticket *ticket);
struct kt_ticket *kt_queue_pop(struct kt_queue *queue);
/** Puts a request that has just come into its client's queue. */
void kt_clients_enter(struct kt_scheduler *s, struct kt_ticket *ticket);
/** One of its requests has ended. */
void kt_clients_leave(struct kt_scheduler *s, struct kt_client *client);
/** The clock, and what requests of each client that run have to compute; nobody is passed. */
void kt_clients_measure(struct kt_scheduler *s);
/** Whose first waiting request is next, but for those that are passed; NULL: nobody's. */
struct kt_client *kt_clients_next(const struct kt_scheduler *s);
void kt_clients_free(struct kt_scheduler *s);

/* prefix.c */

/** What a request can continue from. */
struct kt_source {
    struct kt_session *session; /**< NULL: nothing */
    struct kt_prefix *prefix;   /**< it is kept; NULL: it runs */
    uint64_t n_tokens;
};
struct kt_source kt_prefix_find(struct kt_scheduler *s, const struct kt_ticket *ticket);
/** Keeps `session`, which has the tokens of `chain`; both are given away, and so is their memory if they are
 * not kept after all. */
void kt_prefix_keep(struct kt_scheduler *s, struct kt_session *session, struct kt_chain *chain);
/** The next token at which a request's session is kept; UINT64_MAX: none. */
uint64_t kt_prefix_point(const struct kt_scheduler *s, const struct kt_ticket *ticket);
/** Keeps a fork of a request's session if this is such a point. */
void kt_prefix_snapshot(struct kt_scheduler *s, struct kt_ticket *ticket);
/** The last token up to which `ticket` shall be computed by somebody else, `runner`, who is about to. */
uint64_t kt_prefix_promise(const struct kt_scheduler *s, const struct kt_ticket *runner,
                           const struct kt_ticket *ticket);
/** Drops the least recently used one, but not `spared`. False: there is none. */
bool kt_prefix_drop(struct kt_scheduler *s, const struct kt_prefix *spared);
/** Drops all that share tokens with `chain`, whose logits are not numbers. */
void kt_prefix_forget(struct kt_scheduler *s, const struct kt_chain *chain);
/** Gives a prefix's session to the caller, cut to n_tokens; the prefix is gone. */
struct kt_session *kt_prefix_take(struct kt_scheduler *s, struct kt_prefix *prefix, uint64_t n_tokens);

/* room.c */

/** Starts what can be started. */
void kt_room_start(struct kt_scheduler *s);
/** Makes room for the tokens of this step (n_step of all that run). False: a request was put back, and the
 * step must be planned again. */
bool kt_room_make(struct kt_scheduler *s);
/** Gives back some room: a prefix, or a request is put back. False: nothing is left. */
bool kt_room_relieve(struct kt_scheduler *s);
uint64_t kt_room_free(const struct kt_scheduler *s);

/* draft.c */

/** Adds drafts to n_step of answers, which are all that this step has. */
void kt_draft_plan(struct kt_scheduler *s);
/** After a step with drafts: a session that has tokens which were not chosen is as it was before. */
void kt_draft_settle(struct kt_ticket *ticket);
/** What a step took. */
struct kt_drafted {
    uint32_t n_answers, n_rows; /**< n_rows: 0 if there was anything else in it */
    uint32_t n_plain;           /**< rows that are no drafts */
    uint64_t n_tokens;          /**< that came of it */
    double seconds;
};
void kt_draft_learn(struct kt_scheduler *s, const struct kt_drafted *step);

/* hidden.c */

/** Makes room for the hidden states of a step, by the thread of a request that wants some. */
enum kt_status kt_hidden_prepare(struct kt_scheduler *s, struct kt_error *error);
/** Sets what is wanted of step number `at`, behind n_rows others. Returns how many there are with it. */
uint32_t kt_hidden_list(struct kt_scheduler *s, const struct kt_ticket *ticket, uint32_t at, uint32_t n_rows);
/** Passes on what was computed. */
enum kt_status kt_hidden_deliver(struct kt_scheduler *s, struct kt_ticket *ticket,
                                 const struct kt_hidden *hidden);

/* run.c */

/** Computes a step of what runs. */
void kt_run_step(struct kt_scheduler *s);
/** Ends a request, which neither waits nor runs any more. */
void kt_run_end(struct kt_scheduler *s, struct kt_ticket *ticket, enum kt_end reason, int32_t end_id);
/** Takes it from those that run. */
void kt_run_remove(struct kt_scheduler *s, struct kt_ticket *ticket);

/* scheduler.c */

/** What kt_scheduler_stats gives from now on. */
void kt_scheduler_show(struct kt_scheduler *s);
void *kt_scheduler_main(void *scheduler);

/* histogram.c */

void kt_histogram_add(struct kt_histogram *histogram, double seconds);
void kt_histogram_add_rate(struct kt_histogram *histogram, double rate);

#endif

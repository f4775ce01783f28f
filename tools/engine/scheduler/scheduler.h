/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scheduler.h - many requests on one model.
 *
 *     kt_scheduler_create()    a thread that steps the model from now on
 *     kt_scheduler_submit()    a request: ids of a prompt; its tokens come by callbacks
 *     kt_scheduler_cancel()    the client has gone: no more tokens from the next step on
 *     kt_scheduler_drain()     no new requests; returns when none is left
 *     kt_scheduler_destroy()   ends what is left, and the thread
 *
 * Steps. A step computes one token of every request that is being answered, and of prompts as many tokens as
 * take no longer than that (struct kt_scheduler_params). There are no slots: a request has as many pages as
 * it has tokens.
 *
 * Pages. A request starts when its prompt and `headroom` more tokens fit beside those that run; for that,
 * cached prefixes are evicted, least recently used first. If pages end later, prefixes are
 * dropped, too, and then the request that was started last goes back into the queue with what it has, and is
 * computed again when there is room: its client notices a pause, and the text is the same. The oldest one is
 * never put back, and what could not fit alone is refused at once, so every request ends.
 *
 * Prefixes. What a request has computed is kept, and a later one with the same beginning continues from
 * there: in whole pages, or, if layers have recurrent states, at the points where a snapshot was made (every
 * `snapshot_tokens` tokens of a prompt, at its last whole page, and at the end of the answer). Prefixes lie
 * in the model's cache, whose size is the one bound on all of this.
 *
 * Fairness. Each client is charged for tokens that were computed for it. The one that has been charged least
 * is next: when a request is started, and when prompts share a step. One that comes back after a pause begins
 * with the least charge of those that are there. Nor can one fill the queue: the last places are for others.
 *
 * Hidden states. A request can ask for those of its prompt instead of an answer. It shares steps and goes on
 * from prefixes like any other.
 *
 * Drafts. Where few requests are answered, tokens that their own texts suggest, or the model's own block for
 * that, are computed with the next ones, if that is faster (struct kt_scheduler_params.drafts).
 *
 * Determinism. The tokens of a request do not depend on other requests if the logits do not, which
 * core.deterministic promises.
 *
 * Threads. All functions may be called from any thread, but create, drain and destroy not from callbacks.
 * While a scheduler lives, nobody else may call functions of its model, of its sessions or of its samplers.
 */
#ifndef KT_ENGINE_SCHEDULER_SCHEDULER_H
#define KT_ENGINE_SCHEDULER_SCHEDULER_H

#include <kt/engine.h>
#include <kt/sampling.h>
#include <stdbool.h>

struct kt_scheduler;
struct kt_ticket;

/** All zero: the defaults. */
struct kt_scheduler_params {
    const int32_t *end_ids; /**< [n_end_ids] tokens that end an answer, as kt_token.ends has them; copied */
    uint32_t n_end_ids;
    uint64_t vocabulary;   /**< ids that may be chosen, as kt_tokenizer_info.n_tokens; 0: all of the model */
    uint32_t max_running;  /**< requests that are computed at once; 0: half of the model's sessions, at least
                              1:  the others keep prefixes */
    uint32_t max_queued;   /**< requests that wait; 0: 256 */
    uint32_t slice_tokens; /**< tokens of prompts in a step, at most; 0: 512 */
    uint32_t min_slice;    /**< and at least, so that prompts go on; 0: 8 */
    uint32_t slice_us;     /**< time that they may take while others are answered, if that is less than the
                                answers' own part of the step; 0: only the latter counts */
    uint32_t step_us;      /**< time that they may take while nobody is answered; 0: 1000000 */
    uint32_t headroom;     /**< tokens after its prompt for which a request must find room; 0: 256 */
    uint32_t snapshot_tokens; /**< from a snapshot of recurrent states to the next; 0: 2048 */
    bool no_prefixes;         /**< keep none */
    uint32_t drafts;          /**< enum kt_drafts */
};

/** Tokens that are computed together with the next one, as <kt/speculate.h> says, of up to four answers that
 * nothing else shares a step with. */
enum kt_drafts {
    KT_DRAFTS_OFF = 0,
    KT_DRAFTS_AUTO = 1,   /**< by the time that steps take */
    KT_DRAFTS_LOOKUP = 2, /**< of their own texts, wherever they are likely enough */
    KT_DRAFTS_MTP = 3     /**< a token of the model's own block each, if it was opened with it */
};

/** Why a request ended. */
enum kt_end {
    KT_END_STOP = 1,      /**< a token that ends the answer, or on_token wished it */
    KT_END_LENGTH = 2,    /**< max_tokens, or the longest session is full */
    KT_END_CANCELLED = 3, /**< by kt_scheduler_cancel or kt_scheduler_destroy */
    KT_END_ERROR = 4
};

/** How a request went. */
struct kt_request_end {
    enum kt_end reason;
    int32_t end_id; /**< of KT_END_STOP: the token that ended it, which on_token did not get; -1:
                         on_token ended it */
    const struct kt_error *error; /**< of KT_END_ERROR; until the callback returns */
    uint64_t n_prompt;
    uint64_t n_cached;    /**< tokens of the prompt that were not computed: a kept prefix */
    uint64_t n_generated; /**< tokens that were chosen, the one that ended it among them */
    uint64_t queue_ns;    /**< from submit until it was first started, or its end */
    uint64_t prompt_ns;   /**< from there to the first token */
    uint64_t decode_ns;   /**< from there to the last one */
    double decode_bytes;  /**< that steps read meanwhile, for all requests */
};

/**
 * A request. Callbacks are called by the scheduler's thread, without locks, and all others wait meanwhile:
 * they must not block, but may submit, cancel and release. They may come before kt_scheduler_submit returns,
 * which has then set *ticket already.
 */
struct kt_request {
    const int32_t *ids; /**< [n_ids] the prompt, at least one; copied */
    uint64_t n_ids;
    uint64_t max_tokens; /**< of the answer; 0, or more than fit: until the session is full */
    uint64_t min_tokens; /**< before so many, no token comes that would end it */
    const struct kt_sampling_params *sampling; /**< copied; NULL: the likeliest token each time. n_top and
                                                    logprobs say what on_token gets besides the id */
    const int32_t *stop_ids;                   /**< [n_stop_ids] tokens that end it, too; copied */
    uint32_t n_stop_ids;
    bool ignore_eos;    /**< end_ids of the scheduler do not end it (stop_ids do) */
    const char *client; /**< whose share it takes, such as an API key; NULL: ""; copied */
    uint64_t owner; /**< who may continue from what this computes: requests with the same number. How soon a
                         prompt is read tells what was computed before */
    void *data;
    /** Tokens of the prompt that are in the session so far, of all; NULL: not wanted. */
    void (*on_prompt)(void *data, uint64_t done, uint64_t total);
    /** How likely the model finds token `index` of the prompt, from 1 on, after those before it: id, logprob
     * and top of `token`. NULL: not wanted; else all of the prompt is computed, whatever prefixes are kept.
     */
    void (*on_score)(void *data, uint64_t index, const struct kt_choice *token);
    /** The state of token `index` of the prompt after the last norm, [hidden_size], until the callback
     * returns; of each from `first_hidden` on. NULL: not wanted. Such a request gets no answer: it ends, by
     * KT_END_STOP, when its prompt is computed, and keeps no prefix. on_token may be NULL, on_score must. */
    void (*on_hidden)(void *data, uint64_t index, const float *hidden);
    uint64_t first_hidden;
    /** May this token come next, which was chosen without a mask? NULL: yes. Else a mask as of
     * kt_sampler_choose, by which another one is chosen. NULL: all may. */
    const uint64_t *(*allow)(void *data, int32_t id);
    /** The next token; not one that ends the answer. Not 0: the answer ends here, as with a stop string. What
     * `token` points to lives until the callback returns. */
    int (*on_token)(void *data, const struct kt_choice *token);
    /** Comes once, and last, for every request that was taken. */
    void (*on_end)(void *data, const struct kt_request_end *end);
};

/** Rows of logits that it keeps for so many requests at once: kt_model_params.n_logits. */
uint32_t kt_scheduler_rows(uint32_t max_running);
/**
 * Takes the model, which must live longer, and starts a thread. KT_E_INVALID names settings that contradict
 * the model. `context` is the model's: samplers run on its threads.
 */
enum kt_status kt_scheduler_create(struct kt_context *context, struct kt_model *model,
                                   const struct kt_scheduler_params *params, struct kt_scheduler **scheduler,
                                   struct kt_error *error);
/** Ends what is left as cancelled, and waits for that. Tickets may be released later. May be NULL. */
void kt_scheduler_destroy(struct kt_scheduler *scheduler);
/** From now on requests are refused; returns when those that were taken have ended. */
void kt_scheduler_drain(struct kt_scheduler *scheduler);
/** The same, without waiting: for handlers of signals' threads. Cheap. */
void kt_scheduler_refuse(struct kt_scheduler *scheduler);

/**
 * Puts a request into the queue. *ticket (`ticket` may be NULL) is released by kt_ticket_release.
 * KT_E_BUSY: the queue is full, or this client's share of it, and how long it is; KT_E_STATE: it drains;
 * KT_E_RANGE: the prompt is longer than a session or the cache, with both numbers, or an id that is none;
 * KT_E_INVALID: the request or its sampling contradicts itself. No callback comes then.
 */
enum kt_status kt_scheduler_submit(struct kt_scheduler *scheduler, const struct kt_request *request,
                                   struct kt_ticket **ticket, struct kt_error *error);
/** Ends a request after the step that is being computed, if it has not ended yet. What it had computed
 * becomes a prefix, as that of a request that ended by itself: the client's next turn often begins like it.
 */
void kt_scheduler_cancel(struct kt_ticket *ticket);
/** Does not end it. May be NULL. */
void kt_ticket_release(struct kt_ticket *ticket);

/* ---- figures ---------------------------------------------------------------------------------- */

#define KT_HISTOGRAM_BUCKETS 20

/** Seconds: bucket i counts those of at most kt_histogram_bound(i) and more than the one before; the last one
 * has no bound. */
struct kt_histogram {
    uint64_t counts[KT_HISTOGRAM_BUCKETS];
    uint64_t n;
    double sum;
};
/** 0.0001, 0.0002, 0.0005, 0.001 .. ; infinity for the last one. */
double kt_histogram_bound(unsigned int bucket);
/** Of histograms of tokens a second the bounds are so many times as large. */
#define KT_HISTOGRAM_RATE 1e4

/** What a step consists of, as struct kt_model_times has it. */
enum kt_part { KT_PART_LINEARS, KT_PART_EXPERTS, KT_PART_ATTENTION, KT_PART_HEAD, KT_PART_OTHER, KT_PARTS };

struct kt_scheduler_stats {
    uint64_t queued, running;         /**< requests now; running: their prompts, too */
    uint64_t taken, refused;          /**< since it was created, and so all that follow */
    uint64_t ended[KT_END_ERROR + 1]; /**< by enum kt_end */
    uint64_t prompt_tokens, cached_tokens, generated_tokens; /**< of prompts, computed and not */
    uint64_t preempted;                                      /**< put back into the queue */
    uint64_t prefixes;                                       /**< kept now */
    uint64_t prefix_hits, prefix_misses, prefixes_dropped;
    uint64_t pages, pages_free; /**< of the cache now */
    uint64_t pages_kept;        /**< that only prefixes use: they are free when they are needed */
    uint64_t drafted_tokens, accepted_tokens; /**< computed before they were chosen; and then chosen */
    uint64_t steps;
    double step_bytes;                   /**< that steps had to read at least: weights, and keys and values */
    double model_seconds, other_seconds; /**< in kt_model_step; in all else that steps need */
    struct kt_histogram first_token;     /**< from submit to the first token */
    struct kt_histogram inter_token;     /**< of a request, from one token to the next */
    struct kt_histogram step;            /**< kt_model_step */
    struct kt_histogram stages[KT_PARTS];
    struct kt_histogram
        prompt_rate; /**< tokens of a prompt that were computed, a second until the first token */
};
void kt_scheduler_stats(struct kt_scheduler *scheduler, struct kt_scheduler_stats *stats);
/** Adds those of another scheduler, or of one that is to be destroyed: `now` false leaves out what it has at
 * the moment, such as requests and pages. */
void kt_scheduler_stats_add(struct kt_scheduler_stats *sum, const struct kt_scheduler_stats *stats, bool now);

#endif

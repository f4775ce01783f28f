/* SPDX-License-Identifier: Apache-2.0 */
/* history.h - what stands before a token, as penalties and DRY look back at it. */
#ifndef KT_ENGINE_SAMPLING_HISTORY_H
#define KT_ENGINE_SAMPLING_HISTORY_H

#include <kt/sampling.h>

#include <stdbool.h>

/** How often a token stands in the window of the penalties. */
struct kt_token_count {
    uint32_t id;
    uint32_t all;       /**< 0: a free slot, or one whose token left the window */
    uint32_t generated; /**< of them */
    uint32_t is_used;
};

/** Of a place where the end of the history may stand a second time. */
struct kt_dry_cell {
    uint32_t match; /**< tokens that repeat there */
    float logit;    /**< of the token behind them, penalised */
};

struct kt_history {
    bool has_penalties, has_dry;
    uint64_t penalty_window, dry_window; /**< tokens to look back; UINT64_MAX: all */
    uint64_t *breakers;                  /**< a bit for each token; NULL: there are none */
    uint32_t *tokens;                    /**< the last ones; the upper bit: generated */
    uint64_t n_tokens, capacity;
    struct kt_token_count *counts; /**< by hash, [n_slots], a power of two */
    uint64_t n_slots, n_used;
    struct kt_dry_cell *cells; /**< [capacity] if DRY is on */
};

/** Windows and breakers as params have them, which are checked. False: no memory; free it all the same. */
bool kt_history_init(struct kt_history *history, uint64_t vocabulary,
                     const struct kt_sampling_params *params);
void kt_history_free(struct kt_history *history);
void kt_history_reset(struct kt_history *history);
/** False: no memory, and the history is reset. */
bool kt_history_add(struct kt_history *history, const int32_t *ids, uint64_t n_ids, bool is_generated);

/** Take from logits what the history says, and mark the blocks (vector.h) of logits that change. */
void kt_history_penalize(const struct kt_history *history, const struct kt_sampling_params *params,
                         float *logits, uint8_t *changed);
void kt_history_dry(struct kt_history *history, const struct kt_sampling_params *params, float *logits,
                    uint8_t *changed);

#endif

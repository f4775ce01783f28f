/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/sampling/history.h"
#include "tools/engine/sampling/vector.h"

#include <stdlib.h>
#include <string.h>

#define GENERATED 0x80000000u
#define LEAST_SLOTS 64 /* and room for as many tokens, to begin with */

bool kt_history_init(struct kt_history *history, uint64_t vocabulary, const struct kt_sampling_params *params)
{
    *history =
        (struct kt_history){.penalty_window = params->penalty_last_n, .dry_window = params->dry_last_n};
    history->has_penalties =
        params->repetition_penalty != 1 || params->presence_penalty != 0 || params->frequency_penalty != 0;
    history->has_dry = params->dry_multiplier > 0;
    if (history->penalty_window == 0)
        history->penalty_window = UINT64_MAX;
    if (history->dry_window == 0)
        history->dry_window = UINT64_MAX;
    if (!history->has_dry || params->n_dry_breakers == 0)
        return true;
    history->breakers = calloc((size_t)(vocabulary / 64 + 1), sizeof(*history->breakers));
    for (uint64_t i = 0; history->breakers && i < params->n_dry_breakers; i++)
        history->breakers[params->dry_breakers[i] / 64] |= (uint64_t)1 << params->dry_breakers[i] % 64;
    return history->breakers;
}

void kt_history_reset(struct kt_history *history)
{
    history->n_tokens = 0;
    history->n_used = 0;
    if (history->counts)
        memset(history->counts, 0, (size_t)history->n_slots * sizeof(*history->counts));
}

void kt_history_free(struct kt_history *history)
{
    free(history->breakers);
    free(history->tokens);
    free(history->counts);
    free(history->cells);
}

/* The slot of a token, or the free one where it belongs. */
static struct kt_token_count *find_slot(struct kt_token_count *counts, uint64_t n_slots, uint32_t id)
{
    uint64_t at = (id * 0x9E3779B97F4A7C15u >> 32) & (n_slots - 1);
    while (counts[at].is_used && counts[at].id != id)
        at = (at + 1) & (n_slots - 1);
    return counts + at;
}

/* Room for one more token; those that left the window go. */
static bool grow_counts(struct kt_history *history)
{
    uint64_t n_slots = LEAST_SLOTS, n_used = 0;
    if (history->n_used < history->n_slots / 2)
        return true;
    for (uint64_t i = 0; i < history->n_slots; i++)
        n_used += history->counts[i].all > 0;
    while (n_slots < 4 * n_used)
        n_slots *= 2;
    struct kt_token_count *counts = calloc((size_t)n_slots, sizeof(*counts));
    if (!counts)
        return false;
    for (uint64_t i = 0; i < history->n_slots; i++)
        if (history->counts[i].all > 0)
            *find_slot(counts, n_slots, history->counts[i].id) = history->counts[i];
    free(history->counts);
    history->counts = counts;
    history->n_slots = n_slots;
    history->n_used = n_used;
    return true;
}

static bool count_token(struct kt_history *history, uint32_t id, bool is_generated)
{
    if (!grow_counts(history))
        return false;
    struct kt_token_count *count = find_slot(history->counts, history->n_slots, id);
    history->n_used += !count->is_used;
    *count = (struct kt_token_count){id, count->all + 1, count->generated + is_generated, 1};
    return true;
}

static void uncount_token(struct kt_history *history, uint32_t token)
{
    struct kt_token_count *count = find_slot(history->counts, history->n_slots, token & ~GENERATED);
    count->all--;
    count->generated -= token >= GENERATED;
}

/* How many of the last tokens anything looks back at. */
static uint64_t count_needed(const struct kt_history *history)
{
    uint64_t penalties =
        history->has_penalties && history->penalty_window != UINT64_MAX ? history->penalty_window : 0;
    uint64_t dry = history->has_dry ? history->dry_window : 0;
    return penalties > dry ? penalties : dry;
}

/* Room for one more token: tokens out of reach go, or else the arrays grow. */
static bool grow_tokens(struct kt_history *history, uint64_t needed)
{
    if (history->n_tokens < history->capacity)
        return true;
    if (needed <= history->capacity / 2 && history->capacity > 0) {
        memmove(history->tokens, history->tokens + history->n_tokens - needed,
                (size_t)needed * sizeof(*history->tokens));
        history->n_tokens = needed;
        return true;
    }
    uint64_t capacity = history->capacity > 0 ? 2 * history->capacity : LEAST_SLOTS;
    uint32_t *tokens = realloc(history->tokens, (size_t)capacity * sizeof(*tokens));
    if (!tokens)
        return false;
    history->tokens = tokens;
    if (history->has_dry) {
        struct kt_dry_cell *cells = realloc(history->cells, (size_t)capacity * sizeof(*cells));
        if (!cells)
            return false;
        history->cells = cells;
    }
    history->capacity = capacity;
    return true;
}

static bool add_token(struct kt_history *history, uint32_t id, bool is_generated, uint64_t needed)
{
    if (history->has_penalties && !count_token(history, id, is_generated))
        return false;
    if (needed == 0)
        return true;
    if (!grow_tokens(history, needed))
        return false;
    if (history->has_penalties && history->n_tokens >= history->penalty_window)
        uncount_token(history, history->tokens[history->n_tokens - history->penalty_window]);
    history->tokens[history->n_tokens++] = id | (is_generated ? GENERATED : 0);
    return true;
}

bool kt_history_add(struct kt_history *history, const int32_t *ids, uint64_t n_ids, bool is_generated)
{
    uint64_t needed = count_needed(history);
    for (uint64_t i = 0; i < n_ids; i++) {
        if (!add_token(history, (uint32_t)ids[i], is_generated, needed)) {
            kt_history_reset(history);
            return false;
        }
    }
    return true;
}

void kt_history_penalize(const struct kt_history *history, const struct kt_sampling_params *params,
                         float *logits, uint8_t *changed)
{
    for (uint64_t i = 0; i < history->n_slots; i++) {
        struct kt_token_count count = history->counts[i];
        if (count.all == 0)
            continue;
        double logit = (double)logits[count.id];
        logit = logit > 0 ? logit / params->repetition_penalty : logit * params->repetition_penalty;
        logit -= count.generated * params->frequency_penalty;
        logit -= count.generated > 0 ? params->presence_penalty : 0;
        logits[count.id] = kt_logit_of(logit);
        changed[count.id / KT_LOGIT_BLOCK] = 1;
    }
}

/* The window from its last token back: token 0 is the last one. */
static uint32_t token_back(const struct kt_history *history, uint64_t back)
{
    return history->tokens[history->n_tokens - 1 - back] & ~GENERATED;
}

static bool is_breaker(const struct kt_history *history, uint32_t id)
{
    return history->breakers && (history->breakers[id / 64] >> id % 64 & 1);
}

/* The Z function of the window read backwards: how many tokens from `back` on, backwards, are those at the
 * end, at most `limit`. Linear, also where a text is the same token all over. */
static void find_matches(struct kt_history *history, uint64_t n, uint64_t limit)
{
    struct kt_dry_cell *cells = history->cells;
    uint64_t left = 0, right = 0;
    for (uint64_t back = 1; back < n; back++) {
        uint64_t match = 0;
        if (back < right)
            match = cells[back - left].match < right - back ? cells[back - left].match : right - back;
        while (match < limit && back + match < n &&
               token_back(history, match) == token_back(history, back + match))
            match++;
        cells[back].match = (uint32_t)match;
        if (back + match > right) {
            left = back;
            right = back + match;
        }
    }
}

/* base^power by squaring: pow() has other last bits on other CPUs. */
static double raise(double base, uint64_t power)
{
    double product = 1;
    for (; power > 0; power /= 2) {
        if (power % 2)
            product *= base;
        base *= base;
    }
    return product;
}

void kt_history_dry(struct kt_history *history, const struct kt_sampling_params *params, float *logits,
                    uint8_t *changed)
{
    uint64_t n = history->n_tokens < history->dry_window ? history->n_tokens : history->dry_window;
    uint64_t limit = 0;
    while (limit < n && limit < UINT32_MAX && !is_breaker(history, token_back(history, limit)))
        limit++;
    if (limit < params->dry_allowed_length)
        return;
    find_matches(history, n, limit);
    /* All penalties first and then the logits: the longest of a token's matches counts, and only once. */
    for (uint64_t back = 1; back < n; back++) {
        struct kt_dry_cell *cell = history->cells + back;
        if (cell->match < params->dry_allowed_length)
            continue;
        double penalty =
            params->dry_multiplier * raise(params->dry_base, cell->match - params->dry_allowed_length);
        penalty = penalty < 1e30 ? penalty : 1e30; /* so that the token stays the last resort */
        cell->logit = kt_logit_of((double)logits[token_back(history, back - 1)] - penalty);
    }
    for (uint64_t back = 1; back < n; back++) {
        const struct kt_dry_cell *cell = history->cells + back;
        uint32_t id = token_back(history, back - 1);
        if (cell->match < params->dry_allowed_length || is_breaker(history, id))
            continue;
        if (cell->logit < logits[id])
            logits[id] = cell->logit;
        changed[id / KT_LOGIT_BLOCK] = 1;
    }
}

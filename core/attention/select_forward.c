/* SPDX-License-Identifier: Apache-2.0 */
/*
 * select_forward.c - one forward of a selector over a batch of sequences, in rounds of as many tokens as have
 * room for their scores:
 *
 *   all threads     scores of tiles of tokens, part by part of their rows | barrier | the largest of a token
 *
 * Tokens that see no more rows than the budget are in no round.
 */
#include "core/attention/select.h"
#include "core/backend/backend.h"
#include "core/base/error.h"
#include "core/base/size.h"
#include "core/context/context.h"
#include "core/kv/cache.h"
#include "core/machine/outcome.h"
#include "core/machine/pool.h"

#define COUNTER_SCORES 0
#define COUNTER_TOPS 1

struct run {
    const struct kt_selector *selector;
    const struct kt_selector_batch *batch;
    struct kt_outcome outcome;
    int64_t query_stride, weight_stride;
    uint32_t n_tiles, n_tasks; /* of a round */
};

/* ---- tasks ---- */

static float *scores_of(const struct run *run, uint32_t row)
{
    const struct kt_selector *selector = run->selector;
    return (float *)(void *)((char *)selector->context->arena.node[0].data + row * selector->row_size);
}

static void score_part(struct run *run, const struct kt_select_tile *tile, uint32_t part,
                       struct kt_error *error)
{
    const struct kt_selector *selector = run->selector;
    const struct kt_selector_item *item = &run->batch->items[tile->item];
    uint64_t begin = (uint64_t)part * KT_SCORE_ROWS, end = begin + KT_SCORE_ROWS;
    uint64_t behind = item->position + tile->token + tile->n_tokens; /* what the last token sees */
    const struct kt_score job = {
        .scoring = selector->scoring,
        .n_tokens = tile->n_tokens,
        .n_heads = selector->n_heads,
        .size = selector->keys.field.width,
        .queries =
            (const float *)(const void *)((const char *)item->queries + tile->token * run->query_stride),
        .weights =
            (const float *)(const void *)((const char *)item->weights + tile->token * run->weight_stride),
        .query_stride = run->query_stride,
        .weight_stride = run->weight_stride,
        .keys = &selector->keys,
        .pages = item->sequence->pages,
        .begin = begin,
        .end = end < behind ? end : behind,
        .scores = scores_of(run, tile->row) + begin,
        .score_stride = (int64_t)selector->row_size,
        .error = error,
    };
    selector->ops->score(selector->instance, &job);
    if (error->status != KT_OK) {
        (void)kt_fail_plugin(error, KT_E_BACKEND, "no reason given");
        (void)kt_fail_prefix(error, KT_E_BACKEND, "%s: plugin %s (level %s) failed in score", selector->name,
                             selector->backend->name, selector->backend->level->name);
        kt_outcome_fail(&run->outcome, KT_E_BACKEND, error);
    }
}

static void take_top(const struct run *run, uint32_t row)
{
    const struct kt_select_tile *tile = run->selector->tiles;
    while (row >= tile->row + tile->n_tokens)
        tile++;
    const struct kt_selector_item *item = &run->batch->items[tile->item];
    const uint32_t token = tile->token + (row - tile->row);
    const struct kt_selected_rows *selection = &item->selection;
    kt_select_top(scores_of(run, row), (uint32_t)(item->position + token + 1), run->selector->budget,
                  selection->rows + (uint64_t)token * selection->stride);
    selection->n_rows[token] = run->selector->budget;
}

static void score_all(struct run *run, struct kt_worker *worker)
{
    const struct kt_select_tile *tiles = run->selector->tiles;
    struct kt_error error = {KT_OK, ""};
    uint32_t task;
    while (!kt_outcome_failed(&run->outcome) &&
           (task = kt_worker_claim_of(worker, 0, COUNTER_SCORES)) < run->n_tasks) {
        uint32_t t = 0;
        for (; task >= tiles[t].n_parts; t++)
            task -= tiles[t].n_parts;
        score_part(run, &tiles[t], task, &error);
    }
}

static void run_round(struct kt_worker *worker, void *argument)
{
    struct run *run = argument;
    const struct kt_selector *selector = run->selector;
    const struct kt_select_tile *last = &selector->tiles[run->n_tiles - 1];
    uint32_t row;
    if (selector->ops->thread_enter)
        selector->ops->thread_enter(selector->instance);
    score_all(run, worker);
    if (selector->ops->thread_leave)
        selector->ops->thread_leave(selector->instance);
    kt_worker_barrier(worker);
    while (!kt_outcome_failed(&run->outcome) &&
           (row = kt_worker_claim_of(worker, 0, COUNTER_TOPS)) < last->row + last->n_tokens)
        take_top(run, row);
}

/* ---- what the caller's thread prepares ---- */

static enum kt_status check_stride(const struct kt_selector *selector, const char *what, uint64_t numbers,
                                   int64_t *stride, struct kt_error *error)
{
    const int64_t row = (int64_t)(numbers * sizeof(float));
    if (*stride == 0)
        *stride = row;
    if (*stride < row || *stride % (int64_t)sizeof(float) || *stride > INT64_MAX / UINT32_MAX)
        return kt_fail(error, KT_E_INVALID, "%s: %s_stride %lld does not fit rows of %lld bytes",
                       selector->name, what, (long long)*stride, (long long)row);
    return KT_OK;
}

static enum kt_status check_item(const struct kt_selector *selector, const struct kt_selector_item *item,
                                 uint32_t i, struct kt_error *error)
{
    const struct kt_kv_sequence *sequence = item->sequence;
    const struct kt_selected_rows *selection = &item->selection;
    if (item->n_tokens == 0)
        return KT_OK;
    if (!sequence || !item->queries || !item->weights || !selection->rows || !selection->n_rows)
        return kt_fail(error, KT_E_INVALID,
                       "%s: item %u: sequence, queries, weights and the selection's rows and n_rows must not "
                       "be NULL",
                       selector->name, i);
    if (sequence->kv != selector->kv)
        return kt_fail(error, KT_E_INVALID, "%s: item %u: the sequence is of another cache", selector->name,
                       i);
    if (selection->stride < selector->budget)
        return kt_fail(error, KT_E_INVALID, "%s: item %u: the selection's stride is %u, the budget %u",
                       selector->name, i, selection->stride, selector->budget);
    uint64_t written = sequence->tokens + sequence->reserved;
    if (item->position > written || item->n_tokens > written - item->position)
        return kt_fail(error, KT_E_STATE,
                       "%s: item %u: %u tokens from position %llu on; the sequence has %llu tokens, and %llu "
                       "more are reserved",
                       selector->name, i, item->n_tokens, (unsigned long long)item->position,
                       (unsigned long long)sequence->tokens, (unsigned long long)sequence->reserved);
    if (item->position + item->n_tokens > selector->max_tokens)
        return kt_fail(error, KT_E_RANGE, "%s: item %u: %u tokens from position %llu on; max_tokens is %llu",
                       selector->name, i, item->n_tokens, (unsigned long long)item->position,
                       (unsigned long long)selector->max_tokens);
    return KT_OK;
}

static enum kt_status check(struct run *run, struct kt_error *error)
{
    const struct kt_selector *selector = run->selector;
    const struct kt_selector_batch *batch = run->batch;
    if (batch->n_items > selector->max_sequences || (batch->n_items && !batch->items))
        return kt_fail(error, KT_E_INVALID, "%s: %u items%s; at most %u (max_sequences)", selector->name,
                       batch->n_items, batch->items ? "" : ", and items is NULL", selector->max_sequences);
    run->query_stride = batch->query_stride;
    run->weight_stride = batch->weight_stride;
    enum kt_status status =
        check_stride(selector, "query", (uint64_t)selector->n_heads * selector->keys.field.width,
                     &run->query_stride, error);
    if (status == KT_OK)
        status = check_stride(selector, "weight", selector->n_heads, &run->weight_stride, error);
    for (uint32_t i = 0; i < batch->n_items && status == KT_OK; i++)
        status = check_item(selector, &batch->items[i], i, error);
    return status;
}

/* Tiles of the next tokens, from *token of *item on, until there is no room for more. */
static void cut_round(struct run *run, uint32_t *item, uint32_t *token)
{
    const struct kt_selector *selector = run->selector;
    uint32_t row = 0;
    run->n_tiles = run->n_tasks = 0;
    for (; *item < run->batch->n_items; (*item)++, *token = 0) {
        const struct kt_selector_item *at = &run->batch->items[*item];
        for (; *token < at->n_tokens && at->position + *token < selector->budget; (*token)++)
            at->selection.n_rows[*token] = KT_SELECTION_ALL;
        for (uint32_t n; *token < at->n_tokens; *token += n, row += n) {
            const uint32_t left = at->n_tokens - *token, room = selector->n_rows - row;
            n = left < KT_SELECT_TOKENS ? left : KT_SELECT_TOKENS;
            n = n < room ? n : room;
            if (n == 0)
                return;
            const uint64_t seen = at->position + *token + n;
            struct kt_select_tile *tile = &selector->tiles[run->n_tiles++];
            *tile = (struct kt_select_tile){*item, *token, n, row,
                                            (uint32_t)((seen + KT_SCORE_ROWS - 1) / KT_SCORE_ROWS)};
            run->n_tasks += tile->n_parts;
        }
    }
}

enum kt_status kt_selector_forward(const struct kt_selector *selector, const struct kt_selector_batch *batch,
                                   struct kt_error *error)
{
    if (!selector || !batch)
        return kt_fail(error, KT_E_INVALID, "kt_selector_forward: selector and batch must not be NULL");
    if (batch->struct_size < sizeof *batch)
        return kt_fail(error, KT_E_INVALID,
                       "kt_selector_batch: struct_size %zu is too small; start with KT_SELECTOR_BATCH_INIT",
                       batch->struct_size);
    struct run run = {.selector = selector, .batch = batch};
    uint32_t item = 0, token = 0;
    enum kt_status status = check(&run, error);
    if (status == KT_OK)
        status = kt_pool_lock(selector->context->pool, error);
    if (status != KT_OK)
        return status;
    kt_outcome_start(&run.outcome);
    do {
        cut_round(&run, &item, &token);
        if (run.n_tiles > 0)
            kt_pool_run(selector->context->pool, run_round, &run);
    } while (item < batch->n_items && !kt_outcome_failed(&run.outcome));
    kt_pool_unlock(selector->context->pool);
    return kt_outcome_end(&run.outcome, error);
}

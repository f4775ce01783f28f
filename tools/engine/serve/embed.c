/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/serve/embed.h"
#include "tools/engine/serve/feed.h"
#include "tools/kt/base/cli.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK 0.2 /* seconds: how soon the end of the server is noticed */

/* ---- texts ---- */

uint64_t kt_embed_type(struct kt_checkpoint *checkpoint)
{
    struct kt_value value;
    const char *family;
    uint64_t at = 0, length, type = 0;
    char key[96];
    if (kt_checkpoint_value_find(checkpoint, "general.architecture", &value, NULL) == KT_OK &&
        kt_value_text(&value, &at, &family, &length, NULL) == KT_OK && length < 64) {
        (void)snprintf(key, sizeof(key), "%.*s.pooling_type", (int)length, family);
        if (kt_checkpoint_value_find(checkpoint, key, &value, NULL) == KT_OK &&
            kt_value_uint(&value, 0, &type, NULL) != KT_OK)
            type = UINT64_MAX;
    }
    return type;
}

/* A model that was not made for it says nothing: then the last token, which has seen all others. */
static bool choose_pooling(const struct kt_served *model, bool *is_mean, struct kt_problem *problem)
{
    enum { NONE, MEAN, CLS, LAST };
    uint64_t type = model->server->pooling == KT_POOLING_LAST   ? LAST
                    : model->server->pooling == KT_POOLING_MEAN ? MEAN
                                                                : model->pooling_type;
    *is_mean = type == MEAN;
    return type == NONE || type == MEAN || type == LAST ||
           kt_problem_set(problem, 400, "not_supported", NULL,
                          "the model's pooling_type is %" PRIu64
                          ", which is not computed here; --pooling chooses last or mean",
                          type);
}

/* What was encoded here ends as the tokenizer's own rules say. */
static bool end_text(const struct kt_served *model, struct kt_prompt *prompt, bool cuts,
                     struct kt_problem *problem)
{
    uint64_t most = model->info.max_tokens;
    struct kt_tokenizer_info info;
    kt_tokenizer_info(model->tokenizer, &info);
    bool adds = !prompt->is_given && info.adds_eos && info.eos_token_id >= 0 &&
                prompt->ids[prompt->n_ids - 1] != info.eos_token_id;
    if (cuts && prompt->n_ids + adds > most)
        prompt->n_ids = most - adds;
    if (!adds)
        return true;
    int32_t *ids = malloc((prompt->n_ids + 1) * sizeof(*ids));
    if (!ids)
        return kt_problem_memory(problem);
    memcpy(ids, prompt->ids, prompt->n_ids * sizeof(*ids));
    ids[prompt->n_ids] = info.eos_token_id;
    kt_ids_free(prompt->ids);
    *prompt = (struct kt_prompt){.ids = ids, .n_ids = prompt->n_ids + 1, .is_given = true};
    return true;
}

bool kt_embed_read(struct kt_served *model, json_t *body, const char *param, struct kt_embed *embed,
                   struct kt_problem *problem)
{
    struct kt_ask *ask = &embed->ask;
    *ask = (struct kt_ask){.body = body, .n = 1};
    embed->size = model->info.hidden_size;
    if (!choose_pooling(model, &embed->is_mean, problem) ||
        !kt_ask_read_texts(model, ask, param, KT_MOST_TEXTS, problem))
        return false;
    for (size_t i = 0; i < ask->n_prompts; i++) {
        if (!end_text(model, &ask->prompts[i], embed->cuts, problem))
            return false;
        embed->n_tokens += ask->prompts[i].n_ids;
    }
    embed->vectors = calloc(ask->n_prompts, sizeof(float *));
    return embed->vectors || kt_problem_memory(problem);
}

void kt_embed_free(struct kt_embed *embed)
{
    for (size_t i = 0; embed->vectors && i < embed->ask.n_prompts; i++)
        free(embed->vectors[i]);
    free(embed->vectors);
    embed->vectors = NULL;
    kt_ask_free(&embed->ask);
}

/* ---- computing ---- */

/* A request's texts on their way: some wait here, so that others find places in the queue and in steps. */
struct round {
    struct kt_exchange *exchange;
    struct kt_embed *embed;
    struct kt_feed *feed;
    struct kt_ticket **tickets; /* [n_prompts]; NULL: it waits here, or has ended */
    size_t n_open, n_sent, n_done;
};

/* *is_full: there is no place for it now. */
static bool submit(struct round *round, bool *is_full, struct kt_problem *problem)
{
    struct kt_exchange *exchange = round->exchange;
    const struct kt_prompt *prompt = &round->embed->ask.prompts[round->n_sent];
    struct kt_error error;
    char key[32];
    (void)snprintf(key, sizeof(key), "key %zu", exchange->key);
    struct kt_request request = {.ids = prompt->ids,
                                 .n_ids = prompt->n_ids,
                                 .client = exchange->key > 0 ? key : exchange->address,
                                 .owner = exchange->server->shares_prefixes ? 0 : exchange->key};
    if (!kt_feed_attach_text(round->feed, (uint32_t)round->n_sent, round->embed->size, round->embed->is_mean,
                             &request))
        return kt_problem_memory(problem);
    enum kt_status status =
        kt_scheduler_submit(exchange->model->scheduler, &request, &round->tickets[round->n_sent], &error);
    if (status == KT_OK) {
        round->n_sent++;
        round->n_open++;
        return true;
    }
    kt_feed_cancel(&request);
    *is_full = status == KT_E_BUSY && round->n_open > 0;
    return *is_full || kt_job_refuse(problem, &error);
}

/* As many as half of the places in a step. */
static bool submit_some(struct round *round, struct kt_problem *problem)
{
    uint64_t most = round->exchange->model->max_running / 2;
    bool is_full = false;
    while (!is_full && round->n_sent < round->embed->ask.n_prompts && round->n_open < (most > 0 ? most : 1)) {
        if (!submit(round, &is_full, problem))
            return false;
    }
    return true;
}

/* Makes a vector as long, and of as many dimensions, as is wanted. */
static void normalize(const struct kt_embed *embed, float *vector)
{
    uint64_t n = embed->dimensions > 0 ? (uint64_t)embed->dimensions : embed->size;
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        double value = fabs((double)vector[i]);
        if (embed->norm == 0)
            sum = value > sum ? value : sum;
        else
            sum += embed->norm == 2 ? value * value : pow(value, (double)embed->norm);
    }
    double length = embed->norm == 0   ? sum / 32760 /* so it fits 16 bits */
                    : embed->norm == 2 ? sqrt(sum)
                                       : pow(sum, 1 / (double)embed->norm);
    for (uint64_t i = 0; i < n && embed->norm >= 0; i++)
        vector[i] = length > 0 ? (float)((double)vector[i] / length) : 0;
}

static bool take_end(struct round *round, struct kt_feed_event *event, struct kt_problem *problem)
{
    round->n_open--;
    round->n_done++;
    kt_ticket_release(round->tickets[event->answer]);
    round->tickets[event->answer] = NULL;
    if (event->end.reason == KT_END_ERROR && event->error)
        return kt_problem_error(problem, 500, event->error);
    if (event->end.reason == KT_END_CANCELLED)
        return kt_problem_set(problem, 503, "shutting_down", NULL, "the server ends");
    if (!event->vector)
        return kt_problem_memory(problem);
    round->embed->n_cached += event->end.n_cached;
    round->embed->vectors[event->answer] = event->vector;
    event->vector = NULL;
    normalize(round->embed, round->embed->vectors[event->answer]);
    return true;
}

/* One event, or a tick. */
static bool go_on(struct round *round, struct kt_problem *problem)
{
    struct kt_exchange *exchange = round->exchange;
    struct kt_feed_event event;
    enum kt_feed_result result = kt_feed_next(round->feed, exchange->fd, kt_cli_now() + TICK, &event);
    bool done = true;
    if (result == KT_FEED_GONE) {
        exchange->hung_up = true;
        return false;
    }
    if (kt_server_state(exchange->server) == KT_SERVER_ABORTING)
        done = kt_problem_set(problem, 503, "shutting_down", NULL, "the server ends");
    if (result == KT_FEED_EVENT) {
        done = done && take_end(round, &event, problem);
        kt_feed_event_free(&event);
    }
    return done;
}

bool kt_embed_compute(struct kt_exchange *exchange, struct kt_embed *embed, struct kt_problem *problem)
{
    size_t n = embed->ask.n_prompts;
    if (!kt_models_hold(exchange, exchange->model, problem))
        return false;
    struct round round = {exchange, embed, kt_feed_create(), calloc(n, sizeof(struct kt_ticket *)), 0, 0, 0};
    bool done = (round.feed && round.tickets) || kt_problem_memory(problem);
    kt_exchange_wait(exchange, true);
    while (done && round.n_done < n)
        done = submit_some(&round, problem) && go_on(&round, problem);
    kt_exchange_wait(exchange, false);
    for (size_t i = 0; round.tickets && i < n; i++) {
        if (round.tickets[i])
            kt_scheduler_cancel(round.tickets[i]);
        kt_ticket_release(round.tickets[i]);
    }
    free(round.tickets);
    kt_feed_release(round.feed);
    kt_models_release(exchange->model);
    if (done || exchange->hung_up) /* else it says why */
        (void)snprintf(exchange->about, sizeof(exchange->about),
                       "texts %zu, tokens %" PRIu64 " (%" PRIu64 " cached)", n, embed->n_tokens,
                       embed->n_cached);
    return done;
}

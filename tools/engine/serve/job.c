/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/serve/dialect.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define KEEP_ALIVE 5.0 /* seconds: many proxies and clients give up after 30 to 60 */
#define TICK 0.2       /* seconds: how soon the end of the server is noticed */

static void free_job(struct kt_job *job)
{
    for (size_t i = 0; i < job->n_answers; i++)
        kt_answer_close(&job->answers[i]);
    kt_feed_release(job->feed);
    free(job->answers);
    kt_ask_free(&job->ask);
    kt_models_release(job->model);
    free(job);
}

/* ---- submitting ---- */

bool kt_job_refuse(struct kt_problem *problem, const struct kt_error *error)
{
    switch (error->status) {
    case KT_E_BUSY:
        kt_problem_set(problem, 429, "queue_full", NULL, "%s", error->message);
        problem->retry_after = 5;
        return false;
    case KT_E_STATE:
        kt_problem_set(problem, 503, "shutting_down", NULL, "the server is about to end");
        problem->retry_after = 5;
        return false;
    case KT_E_RANGE:
        return kt_problem_set(problem, 400, "context_length_exceeded", NULL, "%s", error->message);
    default:
        return kt_problem_error(problem, 400, error);
    }
}

static bool submit(struct kt_job *job, struct kt_answer *answer, struct kt_problem *problem)
{
    struct kt_sampling_params sampling = job->ask.sampling;
    char key[32];
    struct kt_error error;
    /* By the key's number: one key can be sent in many spellings, each with a turn of its own. */
    (void)snprintf(key, sizeof(key), "key %zu", job->exchange->key);
    sampling.seed += answer->number % (uint64_t)job->ask.n; /* answers to one prompt differ */
    struct kt_request request = {.ids = answer->prompt->ids,
                                 .n_ids = answer->prompt->n_ids,
                                 .max_tokens = (uint64_t)job->ask.max_tokens,
                                 .min_tokens = (uint64_t)job->ask.min_tokens,
                                 .sampling = &sampling,
                                 .stop_ids = job->ask.stop_ids,
                                 .n_stop_ids = job->ask.n_stop_ids,
                                 .ignore_eos = job->ask.ignores_eos,
                                 .client = job->exchange->key > 0 ? key : job->exchange->address,
                                 .owner = job->server->shares_prefixes ? 0 : job->exchange->key};
    if (!kt_answer_open(job, answer, problem))
        return false;
    struct kt_constraint *constraint = NULL;
    if (job->ask.grammar &&
        kt_constraint_create(job->ask.grammar, job->model->words, &constraint, &error) != KT_OK)
        return kt_problem_error(problem, 500, &error);
    bool scores = job->ask.echoes && job->ask.has_logprobs;
    if (!kt_feed_attach(job->feed, answer->number, constraint, scores, &request))
        return kt_problem_memory(problem);
    if (kt_scheduler_submit(job->model->scheduler, &request, &answer->ticket, &error) != KT_OK) {
        kt_feed_cancel(&request);
        return kt_job_refuse(problem, &error);
    }
    job->n_open++;
    return true;
}

/* Takes what `ask` holds, and the model, which is held. NULL after a problem. */
static struct kt_job *make_job(struct kt_exchange *exchange, struct kt_ask *ask, struct kt_problem *problem)
{
    struct kt_job *job = calloc(1, sizeof(*job));
    size_t n = ask->n_prompts * (size_t)ask->n;
    if (!job) {
        kt_models_release(exchange->model);
        kt_ask_free(ask);
        kt_problem_memory(problem);
        return NULL;
    }
    *job = (struct kt_job){.model = exchange->model,
                           .server = exchange->server,
                           .exchange = exchange,
                           .ask = *ask,
                           .created = (int64_t)time(NULL),
                           .start = exchange->start};
    *ask = (struct kt_ask){.body = NULL};
    kt_make_id(job->ask.dialect->id_prefix, job->id, sizeof(job->id));
    job->feed = kt_feed_create();
    job->answers = calloc(n, sizeof(*job->answers));
    bool done = (job->feed && job->answers) || kt_problem_memory(problem);
    for (size_t i = 0; done && i < n; i++) {
        struct kt_answer *answer = &job->answers[job->n_answers++];
        answer->number = (uint32_t)i;
        answer->prompt = &job->ask.prompts[i / (size_t)job->ask.n];
        done = submit(job, answer, problem);
    }
    if (done)
        return job;
    free_job(job);
    return NULL;
}

/* ---- answering ---- */

static void describe(struct kt_job *job)
{
    uint64_t n_prompt = 0, n_cached = 0, n_tokens = 0;
    for (size_t i = 0; i < job->n_answers; i++) {
        n_prompt += job->answers[i].prompt->n_ids;
        n_cached += job->answers[i].end.n_cached;
        n_tokens += job->answers[i].n_tokens;
    }
    (void)snprintf(job->exchange->about, sizeof(job->exchange->about),
                   "prompt %" PRIu64 " (%" PRIu64 " cached), answer %" PRIu64 " tokens, first after %.3f s",
                   n_prompt, n_cached, n_tokens, job->has_first ? job->first - job->start : 0.0);
}

/* One event, or a tick. False: the job is over; has_failed and problem say whether it went wrong. */
static bool go_on(struct kt_job *job)
{
    struct kt_feed_event event;
    enum kt_feed_result result = kt_feed_next(job->feed, job->exchange->fd, kt_cli_now() + TICK, &event);
    if (result == KT_FEED_GONE) {
        job->exchange->hung_up = job->has_failed = true;
        return false;
    }
    if (kt_server_state(job->server) == KT_SERVER_ABORTING) {
        if (result == KT_FEED_EVENT)
            kt_feed_event_free(&event);
        job->has_failed = true;
        return kt_problem_set(&job->problem, 503, "shutting_down", NULL, "the server ends");
    }
    if (result == KT_FEED_TIMEOUT)
        return true;
    struct kt_answer *answer = &job->answers[event.answer];
    bool done;
    if (event.id < 0) {
        job->n_open--;
        done = kt_answer_end(job, answer, &event);
    } else if (event.is_prompt) {
        done = kt_shape_logprob(job, answer, &event) || kt_problem_memory(&job->problem);
    } else {
        if (!job->has_first)
            job->first = kt_cli_now();
        job->has_first = true;
        done = kt_answer_token(job, answer, &event);
    }
    kt_feed_event_free(&event);
    job->has_failed = !done;
    return done && job->n_open > 0;
}

static bool echo(struct kt_job *job)
{
    for (size_t i = 0; job->ask.echoes && i < job->n_answers; i++)
        if (!kt_answer_echo(job, &job->answers[i]))
            return false;
    return true;
}

/* ---- streams ---- */

/* Until the next comment: often enough for a client that is as impatient as this server. */
static double next_comment(const struct kt_job *job)
{
    double quarter = job->server->timeout / 4.0;
    return kt_cli_now() + (quarter < KEEP_ALIVE ? quarter : KEEP_ALIVE);
}

static void keep_alive(struct kt_job *job)
{
    char comment[96];
    uint64_t done, total;
    if (job->out->length > 0) {
        job->keep_alive = next_comment(job);
    } else if (kt_cli_now() > job->keep_alive) {
        kt_feed_progress(job->feed, &done, &total);
        (void)snprintf(comment, sizeof(comment), ": keep-alive, prompt %" PRIu64 "/%" PRIu64 "\n\n", done,
                       total);
        (void)kt_buffer_add_text(job->out, job->ask.dialect->ping ? job->ask.dialect->ping : comment);
        job->keep_alive = next_comment(job);
    }
}

static bool stream_next(void *data, struct kt_buffer *out)
{
    struct kt_job *job = data;
    bool goes_on = true;
    job->out = out;
    if (job->keep_alive <= 0)
        job->keep_alive = next_comment(job);
    if (job->ask.echoes) {
        job->has_failed = !echo(job);
        goes_on = !job->has_failed;
        job->ask.echoes = false;
    }
    /* How long this takes is not the client's silence: libmicrohttpd would cut the stream when it comes back.
     * What it takes to send is. */
    kt_exchange_wait(job->exchange, true);
    while (goes_on && out->length == 0) {
        goes_on = go_on(job);
        keep_alive(job);
    }
    kt_exchange_wait(job->exchange, false);
    if (goes_on)
        return true;
    describe(job);
    if (!job->exchange->hung_up)
        (void)(job->has_failed ? job->ask.dialect->error(job) : job->ask.dialect->end(job));
    return false;
}

static void stream_end(void *data)
{
    free_job(data);
}

/* ---- whole replies ---- */

static bool reply_whole(struct kt_job *job)
{
    struct kt_exchange *exchange = job->exchange;
    bool done;
    kt_exchange_wait(exchange, true);
    job->has_failed = !echo(job);
    while (!job->has_failed && go_on(job))
        continue;
    kt_exchange_wait(exchange, false);
    describe(job);
    if (exchange->hung_up) {
        done = kt_reply_hung_up(exchange);
    } else if (job->has_failed) {
        done = kt_reply_problem(exchange, &job->problem);
    } else {
        done = kt_reply_json(exchange, 200, job->ask.dialect->reply(job));
    }
    free_job(job);
    return done;
}

static bool run(struct kt_exchange *exchange, struct kt_ask *ask)
{
    struct kt_problem problem;
    kt_ask_shrink(ask);
    kt_body_done(exchange);
    bool is_held = kt_models_hold(exchange, exchange->model, &problem);
    struct kt_job *job = is_held ? make_job(exchange, ask, &problem) : NULL;
    if (!job) {
        kt_ask_free(ask);
        return exchange->hung_up ? kt_reply_hung_up(exchange) : kt_reply_problem(exchange, &problem);
    }
    if (!job->ask.streams)
        return reply_whole(job);
    const struct kt_stream stream = {.next = stream_next,
                                     .end = stream_end,
                                     .data = job,
                                     .type = job->ask.dialect->type};
    return kt_reply_stream(exchange, &stream);
}

/* The whole of what is asked for, and its prompts; takes the reference to `body`, NULL after a problem. */
static bool read_ask(struct kt_exchange *exchange, const struct kt_dialect *dialect, json_t *body,
                     struct kt_ask *ask, struct kt_problem *problem)
{
    if (body && !kt_models_choose(exchange, body, problem)) {
        json_decref(body);
        return false;
    }
    struct kt_served *model = exchange->model;
    if (body && dialect->translate)
        body = dialect->translate(model, body, problem);
    return body && kt_ask_read(model, body, dialect, ask, problem) &&
           (dialect->is_chat ? kt_ask_read_chat(model, ask, problem)
                             : kt_ask_read_prompts(model, ask, problem));
}

static bool refuse_ask(struct kt_exchange *exchange, struct kt_ask *ask, const struct kt_problem *problem)
{
    kt_ask_free(ask);
    kt_body_done(exchange);
    return kt_reply_problem(exchange, problem);
}

bool kt_job_answer_body(struct kt_exchange *exchange, const struct kt_dialect *dialect, json_t *body,
                        struct kt_problem *problem)
{
    struct kt_ask ask = {.body = NULL};
    return read_ask(exchange, dialect, body, &ask, problem) ? run(exchange, &ask)
                                                            : refuse_ask(exchange, &ask, problem);
}

bool kt_job_answer(struct kt_exchange *exchange, const struct kt_dialect *dialect)
{
    struct kt_problem problem;
    return kt_job_answer_body(exchange, dialect, kt_body_parse(exchange, &problem), &problem);
}

bool kt_job_count(struct kt_exchange *exchange, const struct kt_dialect *dialect, const char *object)
{
    struct kt_problem problem;
    struct kt_ask ask = {.body = NULL};
    if (!read_ask(exchange, dialect, kt_body_parse(exchange, &problem), &ask, &problem))
        return refuse_ask(exchange, &ask, &problem);
    json_t *reply =
        json_pack("{s:s*, s:I}", "object", object, "input_tokens", (json_int_t)ask.prompts->n_ids);
    kt_ask_free(&ask);
    kt_body_done(exchange);
    return kt_reply_json(exchange, 200, reply);
}

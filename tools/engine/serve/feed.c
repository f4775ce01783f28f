/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE

#include "tools/engine/serve/feed.h"
#include "tools/engine/base/buffer.h"
#include "tools/engine/grammar/grammar.h"
#include "tools/kt/base/cli.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct kt_feed {
    pthread_mutex_t lock;
    struct kt_feed_event *events; /* [taken .. n) wait */
    size_t taken, n, capacity;
    int wake;     /* an eventfd: a thread can wait for it and for a socket at once */
    bool is_lost; /* an event found no memory */
    _Atomic bool stops;
    _Atomic unsigned n_holders;
    _Atomic uint64_t prompt_done, prompt_total;
};

/* What callbacks get: which answer of which feed. */
struct line {
    struct kt_feed *feed;
    uint32_t answer;
    uint64_t done;
    struct kt_constraint *constraint; /* NULL: any token may come */
    uint64_t size, n_states;          /* of hidden states; how many came */
    double sum[];
};

struct kt_feed *kt_feed_create(void)
{
    struct kt_feed *feed = calloc(1, sizeof(*feed));
    if (!feed)
        return NULL;
    feed->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (feed->wake < 0) {
        free(feed);
        return NULL;
    }
    pthread_mutex_init(&feed->lock, NULL);
    feed->n_holders = 1;
    return feed;
}

void kt_feed_release(struct kt_feed *feed)
{
    if (!feed || atomic_fetch_sub(&feed->n_holders, 1) > 1)
        return;
    for (size_t i = feed->taken; i < feed->n; i++)
        kt_feed_event_free(&feed->events[i]);
    free(feed->events);
    close(feed->wake);
    pthread_mutex_destroy(&feed->lock);
    free(feed);
}

void kt_feed_event_free(struct kt_feed_event *event)
{
    free(event->top);
    free(event->error);
    free(event->vector);
    event->top = NULL;
    event->error = NULL;
    event->vector = NULL;
}

/* ---- the scheduler's side ---- */

static void push(struct kt_feed *feed, const struct kt_feed_event *event)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&feed->lock);
    if (feed->taken == feed->n)
        feed->taken = feed->n = 0;
    struct kt_feed_event *grown = kt_array_grow(feed->events, &feed->capacity, feed->n + 1, sizeof(*grown));
    if (grown) {
        feed->events = grown;
        grown[feed->n++] = *event;
    } else {
        feed->is_lost = true;
        free(event->top);
        free(event->error);
        free(event->vector);
    }
    pthread_mutex_unlock(&feed->lock);
    if (write(feed->wake, &one, sizeof(one)) < 0)
        return; /* the counter is full: whoever waits is awake */
}

/* The answer cannot be told any more. */
static void lose(struct kt_feed *feed)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&feed->lock);
    feed->is_lost = true;
    pthread_mutex_unlock(&feed->lock);
    if (write(feed->wake, &one, sizeof(one)) < 0)
        return;
}

static const uint64_t *allow(void *data, int32_t id)
{
    struct line *line = data;
    const uint64_t *mask = NULL;
    uint32_t allowed = 0;
    enum kt_status status = kt_constraint_allows(line->constraint, id, &allowed, NULL);
    if (status == KT_OK && !allowed && kt_constraint_is_end(line->constraint, id))
        status = kt_constraint_closing(line->constraint, &mask, NULL); /* it has said what it had to say */
    else if (status == KT_OK && !allowed)
        status = kt_constraint_mask(line->constraint, &mask, NULL, NULL);
    if (status != KT_OK)
        lose(line->feed);
    return mask;
}

static void push_token(const struct line *line, const struct kt_choice *token, bool is_prompt)
{
    struct kt_feed_event event = {.answer = line->answer,
                                  .is_prompt = is_prompt,
                                  .id = token->id,
                                  .logprob = token->logprob};
    if (token->n_top > 0) {
        event.top = malloc(token->n_top * sizeof(*event.top));
        if (event.top) {
            memcpy(event.top, token->top, token->n_top * sizeof(*event.top));
            event.n_top = token->n_top;
        }
    }
    push(line->feed, &event);
}

static void take_score(void *data, uint64_t index, const struct kt_choice *token)
{
    (void)index;
    push_token(data, token, true);
}

static int take_token(void *data, const struct kt_choice *token)
{
    struct line *line = data;
    push_token(line, token, false);
    bool stops = atomic_load(&line->feed->stops);
    if (!line->constraint)
        return stops;
    if (kt_constraint_accept(line->constraint, token->id, NULL) != KT_OK)
        lose(line->feed);
    return stops || kt_constraint_place(line->constraint) == KT_CONSTRAINT_DONE;
}

static void take_progress(void *data, uint64_t done, uint64_t total)
{
    struct line *line = data;
    (void)total;
    atomic_fetch_add(&line->feed->prompt_done, done - line->done);
    line->done = done;
}

static void take_state(void *data, uint64_t index, const float *hidden)
{
    struct line *line = data;
    (void)index;
    line->n_states++;
    for (uint64_t i = 0; i < line->size; i++)
        line->sum[i] += (double)hidden[i];
}

static float *make_mean(const struct line *line)
{
    float *vector = malloc(line->size * sizeof(*vector));
    for (uint64_t i = 0; vector && i < line->size; i++)
        vector[i] = (float)(line->sum[i] / (double)line->n_states);
    return vector;
}

static void take_end(void *data, const struct kt_request_end *end)
{
    struct line *line = data;
    struct kt_feed_event event = {.answer = line->answer, .id = -1, .end = *end};
    if (end->error)
        event.error = malloc(sizeof(*event.error));
    if (event.error)
        *event.error = *end->error;
    event.end.error = NULL;
    if (line->n_states > 0 && end->reason == KT_END_STOP)
        event.vector = make_mean(line);
    push(line->feed, &event);
    kt_feed_release(line->feed);
    kt_constraint_destroy(line->constraint);
    free(line);
}

/* A line for hidden states of `size` values; NULL: out of memory. */
static struct line *attach(struct kt_feed *feed, uint32_t answer, uint64_t size, struct kt_request *request)
{
    struct line *line = calloc(1, sizeof(*line) + size * sizeof(*line->sum));
    if (!line)
        return NULL;
    line->feed = feed;
    line->answer = answer;
    line->size = size;
    atomic_fetch_add(&feed->n_holders, 1);
    atomic_fetch_add(&feed->prompt_total, request->n_ids);
    request->data = line;
    request->on_prompt = take_progress;
    request->on_end = take_end;
    return line;
}

bool kt_feed_attach(struct kt_feed *feed, uint32_t answer, struct kt_constraint *constraint, bool scores,
                    struct kt_request *request)
{
    struct line *line = attach(feed, answer, 0, request);
    if (!line) {
        kt_constraint_destroy(constraint);
        return false;
    }
    line->constraint = constraint;
    request->allow = constraint ? allow : NULL;
    request->on_score = scores ? take_score : NULL;
    request->on_token = take_token;
    return true;
}

bool kt_feed_attach_text(struct kt_feed *feed, uint32_t answer, uint64_t size, bool is_mean,
                         struct kt_request *request)
{
    if (!attach(feed, answer, size, request))
        return false;
    request->on_hidden = take_state;
    request->first_hidden = is_mean ? 0 : request->n_ids - 1;
    return true;
}

void kt_feed_cancel(struct kt_request *request)
{
    struct line *line = request->data;
    kt_feed_release(line->feed);
    kt_constraint_destroy(line->constraint);
    free(line);
}

/* ---- the side that answers ---- */

void kt_feed_stop(struct kt_feed *feed)
{
    atomic_store(&feed->stops, true);
}

static bool pop(struct kt_feed *feed, struct kt_feed_event *event, bool *is_lost)
{
    uint64_t count;
    pthread_mutex_lock(&feed->lock);
    bool found = feed->taken < feed->n;
    if (found)
        *event = feed->events[feed->taken++];
    else if (read(feed->wake, &count, sizeof(count)) < 0)
        count = 0; /* nothing was written: as it should be */
    *is_lost = feed->is_lost;
    pthread_mutex_unlock(&feed->lock);
    return found;
}

enum kt_feed_result kt_feed_next(struct kt_feed *feed, int fd, double deadline, struct kt_feed_event *event)
{
    for (;;) {
        struct pollfd both[2] = {{.fd = fd, .events = POLLRDHUP}, {.fd = feed->wake, .events = POLLIN}};
        double left = deadline - kt_cli_now();
        /* The socket is looked at before each token, too: whoever has gone gets no more of them. */
        bool is_lost, has_event = pop(feed, event, &is_lost);
        int milliseconds = has_event || left <= 0 ? 0 : (int)(left * 1e3) + 1;
        (void)poll(both, 2, milliseconds);
        if (both[0].revents || is_lost) {
            if (has_event)
                kt_feed_event_free(event);
            return KT_FEED_GONE;
        }
        if (has_event)
            return KT_FEED_EVENT;
        if (!both[1].revents && left <= 0)
            return KT_FEED_TIMEOUT;
    }
}

void kt_feed_progress(struct kt_feed *feed, uint64_t *done, uint64_t *total)
{
    *done = atomic_load(&feed->prompt_done);
    *total = atomic_load(&feed->prompt_total);
}

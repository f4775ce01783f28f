/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE

#include "tools/engine/serve/models.h"
#include "tools/engine/scheduler/scheduler.h"
#include "tools/engine/serve/server.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A request that waits for a model, in a list of them. */
struct kt_waiter {
    struct kt_waiter *next;
    int wake; /* an eventfd */
    bool is_over;
    enum kt_status status; /* KT_OK: the request holds the model now */
};

bool kt_models_open(struct kt_models *models)
{
    pthread_mutex_init(&models->lock, NULL);
    models->past = calloc(1, sizeof(*models->past));
    models->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return models->past && models->wake >= 0;
}

void kt_models_close(struct kt_models *models)
{
    if (models->wake >= 0)
        close(models->wake);
    free(models->past);
    pthread_mutex_destroy(&models->lock);
}

static void wake(int fd)
{
    const uint64_t one = 1;
    ssize_t written;
    do
        written = write(fd, &one, sizeof(one));
    while (written < 0 && errno == EINTR);
}

/* ---- names ---- */

const char *kt_models_find(const struct kt_models *models, const char *name, size_t length,
                           struct kt_served **model)
{
    for (size_t i = 0; i < models->n; i++)
        for (size_t j = 0; j < models->list[i].n_names; j++) {
            const char *own = models->list[i].names[j];
            if (strlen(own) != length || memcmp(own, name, length) != 0)
                continue;
            *model = &models->list[i];
            return own;
        }
    return NULL;
}

bool kt_models_choose(struct kt_exchange *exchange, const json_t *body, struct kt_problem *problem)
{
    const struct kt_models *models = &exchange->server->models;
    const char *name = json_string_value(json_object_get(body, "model")), *first = models->list->names[0];
    if (!name || kt_models_find(models, name, strlen(name), &exchange->model))
        return true; /* whoever reads the body says of what type it must be */
    if (models->n == 1)
        return kt_problem_set(problem, 404, "model_not_found", "model",
                              "the model '%.100s' is not served here; '%.100s' is", name, first);
    return kt_problem_set(problem, 404, "model_not_found", "model",
                          "the model '%.100s' is not served here; '%.100s' and others of /v1/models are",
                          name, first);
}

/* ---- requests ---- */

static bool may_hold(const struct kt_served *model)
{
    return model->is_here && !model->is_leaving;
}

static bool refuse_full(const struct kt_served *model, struct kt_problem *problem)
{
    kt_problem_set(problem, 429, "queue_full", NULL, "%u requests wait for the model '%.100s' to be loaded",
                   model->n_waiting, model->names[0]);
    problem->retry_after = 5;
    return false;
}

/* The reason is the log's, as it names files of this machine. */
static bool refuse_failed(enum kt_status status, const struct kt_served *model, struct kt_problem *problem)
{
    if (status == KT_E_STATE)
        kt_problem_set(problem, 503, "shutting_down", NULL, "the server is about to end");
    else if (status == KT_E_NOMEM)
        kt_problem_set(problem, 503, "model_not_loaded", "model",
                       "the model '%.100s' cannot be loaded: there is not enough memory for it now",
                       model->names[0]);
    else
        kt_problem_set(problem, 500, "model_not_loaded", "model",
                       "the model '%.100s' cannot be loaded; the server's log has the reason",
                       model->names[0]);
    problem->retry_after = 5;
    return false;
}

static void forget(struct kt_served *model, const struct kt_waiter *waiter)
{
    struct kt_waiter **at = &model->waiters;
    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
    model->n_waiting--;
}

/* Under the lock, but for the wait: until the main thread has made a holder of the request, or could not. */
static bool wait_for(struct kt_exchange *exchange, struct kt_served *model, struct kt_problem *problem)
{
    struct kt_models *models = &exchange->server->models;
    struct kt_waiter waiter = {.next = model->waiters, .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    struct pollfd both[2] = {{.fd = exchange->fd, .events = POLLRDHUP},
                             {.fd = waiter.wake, .events = POLLIN}};
    if (waiter.wake < 0)
        return kt_problem_memory(problem);
    if (model->n_waiting++ == 0)
        model->wish = ++models->clock;
    model->waiters = &waiter;
    wake(models->wake);
    pthread_mutex_unlock(&models->lock);
    while (poll(both, 2, -1) < 0 && errno == EINTR)
        continue;
    pthread_mutex_lock(&models->lock);
    close(waiter.wake);
    if (!waiter.is_over) {
        exchange->hung_up = true;
        forget(model, &waiter);
        wake(models->wake); /* others may no longer have to leave for it */
        return false;
    }
    return waiter.status == KT_OK || refuse_failed(waiter.status, model, problem);
}

bool kt_models_hold(struct kt_exchange *exchange, struct kt_served *model, struct kt_problem *problem)
{
    struct kt_models *models = &exchange->server->models;
    bool is_held = true;
    pthread_mutex_lock(&models->lock);
    if (may_hold(model)) {
        model->n_holders++;
    } else if (kt_server_state(exchange->server) >= KT_SERVER_DRAINING) {
        is_held = refuse_failed(KT_E_STATE, model, problem);
    } else if (model->n_waiting >= exchange->server->max_queue) {
        is_held = refuse_full(model, problem);
    } else {
        kt_exchange_wait(exchange, true);
        is_held = wait_for(exchange, model, problem);
        kt_exchange_wait(exchange, false);
    }
    model->used = ++models->clock;
    pthread_mutex_unlock(&models->lock);
    return is_held;
}

void kt_models_release(struct kt_served *model)
{
    struct kt_models *models = &model->server->models;
    pthread_mutex_lock(&models->lock);
    model->used = ++models->clock;
    if (--model->n_holders == 0 && model->is_leaving)
        wake(models->wake);
    pthread_mutex_unlock(&models->lock);
}

bool kt_models_wish(struct kt_exchange *exchange, struct kt_problem *problem)
{
    bool done = kt_models_hold(exchange, exchange->model, problem);
    if (done)
        kt_models_release(exchange->model);
    return done;
}

/* ---- figures ---- */

bool kt_models_is_here(struct kt_served *model)
{
    pthread_mutex_lock(&model->server->models.lock);
    bool is_here = model->is_here;
    pthread_mutex_unlock(&model->server->models.lock);
    return is_here;
}

static void add_stats(struct kt_scheduler_stats *sum, struct kt_scheduler *scheduler)
{
    struct kt_scheduler_stats stats;
    kt_scheduler_stats(scheduler, &stats);
    kt_scheduler_stats_add(sum, &stats, true);
}

void kt_models_stats(struct kt_models *models, struct kt_served *model, struct kt_scheduler_stats *stats)
{
    pthread_mutex_lock(&models->lock);
    *stats = model ? (struct kt_scheduler_stats){.queued = 0} : *models->past;
    for (size_t i = 0; i < models->n; i++)
        if (models->list[i].is_here && (!model || model == &models->list[i]))
            add_stats(stats, models->list[i].scheduler);
    pthread_mutex_unlock(&models->lock);
}

/* ---- the main thread ---- */

/* Tells those that wait. Without an error they hold it from now on: before they run again, others could have
 * its room. */
static void tell(struct kt_models *models, struct kt_served *model, enum kt_status status)
{
    for (struct kt_waiter *waiter = model->waiters; waiter; waiter = waiter->next) {
        waiter->is_over = true;
        waiter->status = status;
        wake(waiter->wake);
    }
    model->n_holders += status == KT_OK ? model->n_waiting : 0;
    model->n_waiting = 0;
    model->waiters = NULL;
    model->used = ++models->clock;
}

static void let_stay(struct kt_models *models)
{
    for (size_t i = 0; i < models->n; i++)
        models->list[i].is_leaving = false;
}

/* The model that requests have waited for since the earliest time; NULL: none. */
static struct kt_served *find_wish(const struct kt_models *models)
{
    struct kt_served *found = NULL;
    for (size_t i = 0; i < models->n; i++) {
        struct kt_served *model = &models->list[i];
        if (model->n_waiting > 0 && (!found || model->wish < found->wish))
            found = model;
    }
    return found;
}

/* Whether there is room for it without those that leave. */
static bool fits(const struct kt_models *models, const struct kt_served *model)
{
    uint64_t left = models->limit ? models->limit : kt_memory_available(), others = 0, leaving = 0;
    for (size_t i = 0; i < models->n; i++) {
        const struct kt_served *other = &models->list[i];
        others += other->is_here && !other->is_leaving ? other->size : 0;
        leaving += other->is_leaving ? other->size : 0;
    }
    if (model->is_tight && leaving == 0)
        return false;
    if (models->limit)
        return others + model->size <= left;
    return left == 0 || model->size <= left + leaving;
}

/* Of those that may stay, the one that nobody holds, or else everybody, whose last use is longest ago. */
static struct kt_served *find_least(const struct kt_models *models)
{
    struct kt_served *found = NULL;
    for (size_t i = 0; i < models->n; i++) {
        struct kt_served *other = &models->list[i];
        if (!may_hold(other))
            continue;
        bool is_idle = other->n_holders == 0, has_idle = found && found->n_holders == 0;
        if (!found || (is_idle && !has_idle) || (is_idle == has_idle && other->used < found->used))
            found = other;
    }
    return found;
}

/* Says who must leave for the model. False: it would not fit alone. */
static bool make_room(struct kt_models *models, const struct kt_served *model)
{
    while (!fits(models, model)) {
        struct kt_served *least = find_least(models);
        if (!least)
            return false;
        least->is_leaving = true;
    }
    return true;
}

/* Unloads those that leave and that nobody holds. True: none is left. */
static bool unload_leaving(struct kt_models *models)
{
    bool is_done = true;
    for (size_t i = 0; i < models->n; i++) {
        struct kt_served *model = &models->list[i];
        if (!model->is_leaving)
            continue;
        if (model->n_holders > 0) {
            is_done = false;
            continue;
        }
        struct kt_scheduler_stats stats = {.queued = 0};
        add_stats(&stats, model->scheduler);
        kt_scheduler_stats_add(models->past, &stats, false);
        model->is_here = false; /* and stays leaving until its memory is free */
        pthread_mutex_unlock(&models->lock);
        kt_served_unload(model);
        pthread_mutex_lock(&models->lock);
        model->is_leaving = false;
    }
    return is_done;
}

/* Opens its files, or loads it. */
static enum kt_status without_lock(struct kt_models *models, struct kt_served *model,
                                   enum kt_status (*function)(struct kt_served *model))
{
    pthread_mutex_unlock(&models->lock);
    enum kt_status status = function(model);
    pthread_mutex_lock(&models->lock);
    return status;
}

/* False: a signal came. */
static bool load(struct kt_models *models, struct kt_served *model)
{
    enum kt_status status = without_lock(models, model, kt_served_load);
    model->is_here = status == KT_OK;
    model->n_loads += model->is_here;
    /* Others on this machine may have taken what was free. */
    model->is_tight = status == KT_E_NOMEM && find_least(models) != NULL;
    if (!model->is_tight)
        tell(models, model, status);
    return status != KT_E_STATE;
}

/* The first one that is waited for. False: it must go on waiting. */
static bool settle(struct kt_models *models, struct kt_served *model, bool *goes_on)
{
    if (may_hold(model)) {
        tell(models, model, KT_OK);
        return true;
    }
    enum kt_status status = without_lock(models, model, kt_served_open);
    if (model->n_waiting == 0)
        return true;
    models->room_for = model->wish;
    if (status == KT_OK && !make_room(models, model))
        status = KT_E_NOMEM;
    if (status != KT_OK) {
        let_stay(models);
        tell(models, model, status);
        return true;
    }
    if (!unload_leaving(models))
        return false;
    *goes_on = load(models, model);
    return true;
}

/* Those that no longer have to leave. */
static void tell_staying(struct kt_models *models)
{
    for (size_t i = 0; i < models->n; i++)
        if (models->list[i].n_waiting > 0 && may_hold(&models->list[i]))
            tell(models, &models->list[i], KT_OK);
}

enum kt_status kt_models_load_first(struct kt_models *models)
{
    enum kt_status status = kt_served_load(models->list);
    pthread_mutex_lock(&models->lock);
    models->list->is_here = status == KT_OK;
    models->list->n_loads += status == KT_OK;
    pthread_mutex_unlock(&models->lock);
    return status;
}

bool kt_models_settle(struct kt_models *models)
{
    struct kt_served *model;
    uint64_t count;
    bool goes_on = true;
    while (read(models->wake, &count, sizeof(count)) < 0 && errno == EINTR)
        continue;
    pthread_mutex_lock(&models->lock);
    /* Whoever has to leave stays chosen: else two that are always held could take turns at that. */
    model = find_wish(models);
    if (!model || model->wish != models->room_for)
        let_stay(models);
    while (goes_on && (model = find_wish(models)) != NULL) {
        if (!settle(models, model, &goes_on)) {
            tell_staying(models);
            break; /* kt_models_release says when there is room */
        }
    }
    pthread_mutex_unlock(&models->lock);
    return goes_on;
}

void kt_models_refuse(struct kt_models *models)
{
    pthread_mutex_lock(&models->lock);
    for (size_t i = 0; i < models->n; i++) {
        if (models->list[i].is_here)
            kt_scheduler_refuse(models->list[i].scheduler);
        tell(models, &models->list[i], KT_E_STATE);
    }
    pthread_mutex_unlock(&models->lock);
}

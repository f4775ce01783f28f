/* SPDX-License-Identifier: Apache-2.0 */
/*
 * models.h - the models of a server, and which of them are in memory.
 *
 * What reads requests is there from the start and never changes: tokenizer, template, words. Weights come and
 * go: a request holds its model while it is answered (kt_models_hold), and the main thread loads what is
 * waited for, and unloads what nobody holds (kt_models_settle).
 */
#ifndef KT_ENGINE_SERVE_MODELS_H
#define KT_ENGINE_SERVE_MODELS_H

#include "tools/engine/serve/history.h"
#include "tools/engine/serve/problem.h"

#include <kt/constraint.h>
#include <kt/engine.h>
#include <kt/sampling.h>
#include <kt/text.h>
#include <pthread.h>
#include <stdatomic.h>

struct kt_exchange;
struct kt_run_model;
struct kt_scheduler;
struct kt_scheduler_stats;
struct kt_server;

/* A model. */
struct kt_served {
    struct kt_server *server;
    char **names; /* the first is the one that replies carry */
    size_t n_names;
    uint64_t max_running;
    const char *system;        /* of chats that have none; NULL: nothing */
    struct kt_run_model *from; /* run.h: what it is loaded from */
    uint64_t size;             /* bytes that it takes when it is loaded, as planned */
    int64_t created;           /* seconds since 1970 */
    /* ---- from KT_SERVER_READY on ---- */
    struct kt_tokenizer *tokenizer;
    struct kt_template *chat;
    const char *chat_file; /* where that stands; NULL: it is built in */
    struct kt_template_info chat_info;
    struct kt_needs chat_needs;
    struct kt_model_info info;          /* as planned */
    uint64_t pooling_type;              /* of embed.h */
    uint64_t n_vocabulary;              /* ids that the tokenizer knows */
    struct kt_vocabulary *words;        /* of the same */
    struct kt_sampling_params sampling; /* where a request says nothing */
    /* ---- by whoever holds it ---- */
    struct kt_scheduler *scheduler;
    /* ---- under kt_models.lock ---- */
    bool is_here;       /* loaded */
    bool is_leaving;    /* others wait for its room: nobody may hold it any more */
    bool is_tight;      /* there was less room than planned: another model must go first */
    unsigned n_holders; /* requests that are answered */
    unsigned n_waiting; /* requests that wait for it to be loaded: */
    struct kt_waiter *waiters;
    uint64_t wish, used; /* when the first of these came, and when it was held last, as numbers that grow */
    uint64_t n_loads;
};

/* All of them; the first is asked where a request names none. */
struct kt_models {
    struct kt_served *list;
    size_t n;
    uint64_t limit; /* bytes that they may take together; 0: what is free */
    int wake;       /* an eventfd: the main thread has something to settle */
    pthread_mutex_t lock;
    uint64_t clock;                  /* of wish and used */
    uint64_t room_for;               /* the wish of the model for which others leave; 0: none do */
    struct kt_scheduler_stats *past; /* what unloaded models have done */
};

/* `models->list` and `n` stay; false: no memory or file. */
bool kt_models_open(struct kt_models *models);
/* Frees all but the list. */
void kt_models_close(struct kt_models *models);

/* The name, and the model that has it; NULL: none is called so, and *model stays. */
const char *kt_models_find(const struct kt_models *models, const char *name, size_t length,
                           struct kt_served **model);
/* The same as exchange->model, for the field `model` of a body: 404 if there is none. Without a name it stays
 * as it is. */
bool kt_models_choose(struct kt_exchange *exchange, const json_t *body, struct kt_problem *problem);

/* Waits until the model is loaded, and keeps it so until kt_models_release. False after a problem, or with
 * exchange->hung_up. */
bool kt_models_hold(struct kt_exchange *exchange, struct kt_served *model, struct kt_problem *problem);
void kt_models_release(struct kt_served *model);
/* Waits until exchange->model is loaded, and no longer. */
bool kt_models_wish(struct kt_exchange *exchange, struct kt_problem *problem);
bool kt_models_is_here(struct kt_served *model);
/* Of one model, or of all (NULL) since the start. */
void kt_models_stats(struct kt_models *models, struct kt_served *model, struct kt_scheduler_stats *stats);

/* ---- the main thread's ---- */

/* Loads the first one. */
enum kt_status kt_models_load_first(struct kt_models *models);
/* Loads what is waited for, and unloads what must make room for it, as far as that can be done now. False: a
 * signal came meanwhile. */
bool kt_models_settle(struct kt_models *models);
/* Requests are refused from now on, and whoever waits for a model stops. */
void kt_models_refuse(struct kt_models *models);

/* ---- load.c: what kt_models_settle calls, without the lock ---- */

/* Opens the model's files; an error of these then costs no other model its place. */
enum kt_status kt_served_open(struct kt_served *model);
/* Loads the weights, and sets model->scheduler. KT_E_STATE: a signal ended it. Other errors are in the log.
 */
enum kt_status kt_served_load(struct kt_served *model);
void kt_served_unload(struct kt_served *model);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* asker.h - a request of a test, and what came of it. */
#ifndef KT_TESTS_ENGINE_SCHEDULER_ASKER_H
#define KT_TESTS_ENGINE_SCHEDULER_ASKER_H

#include "tools/engine/scheduler/scheduler.h"

#include <pthread.h>

enum { ASKER_IDS = 2048 };

struct asker {
    struct kt_request request;
    struct kt_scheduler *scheduler;
    struct kt_ticket *ticket;
    int32_t prompt[ASKER_IDS], got[ASKER_IDS];
    float scores[ASKER_IDS]; /* of the prompt's tokens from the second on, if on_score is asker_score */
    uint64_t n_prompt, n_got, n_calls, n_scored;
    uint64_t stop_after; /* on_token ends the answer behind so many; 0: never */
    uint64_t hold_after; /* hold() is called behind so many */
    void (*hold)(void);
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ended;
    struct kt_request_end end;
    struct kt_error error;
    struct kt_scheduler_stats stats; /* as on_end found them */
    uint64_t order;                  /* how many had ended before it, of all */
};

/* A prompt of n ids, which begins with `common` ids that all prompts of `seed / 1000` have. */
void asker_init(struct asker *asker, unsigned int seed, uint64_t n, uint64_t common, uint64_t max_tokens);
/* For request.on_score. */
void asker_score(void *data, uint64_t index, const struct kt_choice *token);
void asker_submit(struct asker *asker, struct kt_scheduler *scheduler);
enum kt_status asker_try(struct asker *asker, struct kt_scheduler *scheduler, struct kt_error *error);
/* Waits for its end, and releases its ticket. */
void asker_wait(struct asker *asker);
void asker_wait_for_tokens(struct asker *asker, uint64_t n);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stand_in.h - stands in for <kt/engine.h>: a model without weights, whose next token follows from all tokens
 * before it, and whose sessions take pages as those of the real one do. So thousands of requests cost
 * nothing, every answer is known, and what is called from a wrong thread, or with a full cache, is noticed.
 */
#ifndef KT_TESTS_ENGINE_SCHEDULER_STAND_IN_H
#define KT_TESTS_ENGINE_SCHEDULER_STAND_IN_H

#include <check.h>
#include <kt/engine.h>
#include <stdbool.h>

/* As ck_assert, which allocates also when all is well: allocations are made to fail here. */
#define must_say(condition, ...)       \
    do {                               \
        if (!(condition))              \
            ck_abort_msg(__VA_ARGS__); \
    } while (0)
#define must(condition) must_say(condition, "%s", #condition)

enum {
    STAND_IN_VOCABULARY = 256,
    STAND_IN_END = 255, /* ends answers */
    STAND_IN_NAN = 254, /* logits of sessions that have it are NaN */
    STAND_IN_IDS = 250, /* of prompts and answers, else */
    STAND_IN_PERIOD = 6,
    STAND_IN_SIZE = 3 /* of hidden states */
};

struct stand_in {
    uint32_t n_pages, max_sessions;
    uint64_t max_tokens;
    bool has_states;
    bool repeats; /* most tokens are the one STAND_IN_PERIOD before, so that drafts are right and wrong */
    uint64_t fails_at; /* the step of this number fails, counted from 1; 0: none */
    enum kt_status fails_with;
    uint32_t answer_length; /* the token behind so many others is STAND_IN_END; 0: never */
};

/* Before a scheduler is created. The model is static. */
struct kt_model *stand_in_open(const struct stand_in *how);
/* All sessions are closed, and all pages are free. */
bool stand_in_is_empty(void);
/* Steps wait while it is held. */
void stand_in_hold(void);
void stand_in_go_on(void);
/* A step waits now, because it is held. */
void stand_in_wait_for_step(void);

/* The token behind n ids. Its logit is STAND_IN_LIKELIEST, that of any other id i is i % 7. */
#define STAND_IN_LIKELIEST 20.0F
int32_t stand_in_next(const int32_t *ids, uint64_t n);
/* The hidden state of the last of n ids. */
void stand_in_state(const int32_t *ids, uint64_t n, float *state);
/* Tokens of all steps so far, and the largest number of sessions in a step. */
uint64_t stand_in_tokens(void);
uint32_t stand_in_width(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * draft.c - tokens that answers may have after the next one, looked up in their own texts, when a step has
 * few answers and nothing else. Sessions with states are left alone: they cannot go back.
 */
#include "tools/engine/scheduler/internal.h"

/* More answers share the weights that a step reads, so that drafts would only take from them. */
#define MOST_ANSWERS 4

/* What a request could take; it knows its own tokens from here on. False: no memory. */
static bool look(struct kt_ticket *t, struct kt_offer *offer)
{
    size_t known = t->drafter.text.n_ids;
    uint64_t most = t->limit - t->chain.n_ids - 1; /* behind the token that is chosen in any case */
    *offer = (struct kt_offer){.n = 0};
    if (!kt_drafter_add(&t->drafter, t->chain.ids + known, t->chain.n_ids - known))
        return false;
    if (!kt_drafter_look(&t->drafter))
        return true;
    offer->n = t->drafter.n_draft < most ? t->drafter.n_draft : (uint32_t)most;
    offer->hope = kt_drafter_hope(&t->drafter, t->drafter.source);
    return true;
}

void kt_draft_plan(struct kt_scheduler *s)
{
    struct kt_offer offers[MOST_ANSWERS];
    uint32_t n = s->n_running;
    /* Each answer may begin a page, and nobody is put back for a guess. */
    if (s->params.drafts == KT_DRAFTS_OFF || s->has_states || n == 0 || n > MOST_ANSWERS ||
        kt_room_free(s) < 2 * (uint64_t)n)
        return;
    for (uint32_t i = 0; i < n; i++)
        if (kt_pending(s->running[i]) != 1 || !look(s->running[i], &offers[i]))
            return;
    (void)kt_gain_plan(&s->gain, n, offers, n, 0, false);
    for (uint32_t i = 0; i < n; i++) {
        s->running[i]->n_drafts = offers[i].taken;
        s->running[i]->n_step += offers[i].taken;
    }
}

void kt_draft_learn(struct kt_scheduler *s, uint32_t n_answers, uint32_t n_rows, uint64_t n_tokens,
                    double seconds)
{
    if (n_rows > 0 && n_answers <= MOST_ANSWERS)
        kt_gain_learn(&s->gain, n_rows, n_answers, n_answers, (uint32_t)n_tokens, seconds, 0);
    else
        kt_gain_allow(&s->gain, seconds);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * draft.c - tokens that answers may have after the next one, when a step has few answers and nothing else:
 * looked up in their own texts, or by the model's own block. Sessions with states cannot go back, so they are
 * forked before; if a draft was wrong the fork is the session, and what was right is computed again with the
 * next step.
 */
#include "tools/engine/scheduler/internal.h"

/* More answers share the weights that a step reads, so that drafts would only take from them. */
#define MOST_ANSWERS 4
/* What the block takes of a step, before it is timed. */
#define MTP_SHARE 0.1

/* ---- going back ---- */

void kt_draft_settle(struct kt_ticket *t)
{
    if (!t->kept)
        return;
    uint64_t n = kt_session_tokens(t->kept);
    bool computed = t->n_done > n;
    if (kt_session_tokens(t->session) != t->n_done) {
        struct kt_session *wrong = t->session;
        t->session = t->kept;
        t->kept = wrong;
        t->n_again = t->n_done - n;
        t->n_done = n;
        computed = false;
    }
    if (!computed)
        t->copies = t->kept_copies;
    kt_session_close(t->kept);
    t->kept = NULL;
}

static double seconds_since(uint64_t begin)
{
    return (double)(kt_now() - begin) * 1e-9;
}

static double smooth(double before, double now)
{
    return before > 0 ? (3 * before + now) / 4 : now;
}

/* Forks the sessions of answers with drafts; without room there are none. */
static void fork_sessions(struct kt_scheduler *s)
{
    uint64_t begin = kt_now();
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct kt_ticket *t = s->running[i];
        if (t->n_drafts > 0 && kt_session_fork(t->session, t->n_done, &t->kept, NULL) != KT_OK) {
            t->kept = NULL;
            t->n_drafts = 0;
        }
        if (!t->kept)
            continue;
        t->kept_copies = t->copies;
        t->copies = t->n_done % KT_KV_PAGE != 0;
        n++;
    }
    double took = seconds_since(begin);
    if (n > 0)
        s->fork_seconds = smooth(s->fork_seconds, took / n);
    s->draft_seconds += took;
}

/* ---- what could come ---- */

/* Tokens that may stand behind the one that is chosen in any case. */
static uint64_t room_behind(const struct kt_ticket *t)
{
    return t->limit - t->chain.n_ids - 1;
}

/* A request knows its own tokens from here on. False: no memory. */
static bool look(struct kt_scheduler *s, struct kt_ticket *t, struct kt_offer *offer)
{
    size_t known = t->drafter.text.n_ids;
    uint64_t most = room_behind(t);
    *offer = (struct kt_offer){.n = 0};
    if (!kt_drafter_add(&t->drafter, t->chain.ids + known, t->chain.n_ids - known))
        return false;
    if (s->params.drafts == KT_DRAFTS_MTP || !kt_drafter_look(&t->drafter))
        return true;
    offer->n = t->drafter.n_draft < most ? t->drafter.n_draft : (uint32_t)most;
    offer->hope = kt_drafter_hope(&t->drafter, t->drafter.source);
    return true;
}

/* A token of the model's own block, which is not known yet. */
static struct kt_offer offer_own(const struct kt_scheduler *s, const struct kt_ticket *t)
{
    struct kt_offer offer = {.hope = kt_drafter_hope(&t->drafter, KT_SOURCE_MTP)};
    offer.n =
        s->params.drafts != KT_DRAFTS_LOOKUP && s->info.has_mtp && kt_pending(t) == 1 && room_behind(t) > 0;
    return offer;
}

/* The most likely token by the model's own block; -1: it has none to say. */
static int32_t draft_by_model(struct kt_scheduler *s, struct kt_ticket *t)
{
    uint64_t begin = kt_now();
    int32_t best = 0;
    if (kt_session_draft(t->session, t->chain.ids[t->chain.n_ids - 1], s->logits, NULL) != KT_OK)
        return -1;
    for (uint64_t i = 1; i < s->chosen_from; i++)
        if (s->logits[i] > s->logits[best])
            best = (int32_t)i;
    double took = seconds_since(begin);
    if (t->repeats_mtp) /* the first one takes in what came before */
        s->mtp_seconds = smooth(s->mtp_seconds, took);
    s->draft_seconds += took;
    return best;
}

/* ---- the plan ---- */

struct draft_plan {
    struct kt_offer looked_up[MOST_ANSWERS], own[MOST_ANSWERS];
    uint32_t n, n_rows, n_own;
};

/* Sessions that can be forked now. */
static uint32_t free_sessions(const struct kt_scheduler *s)
{
    struct kt_kv_info cache;
    if (!s->has_states)
        return MOST_ANSWERS;
    kt_model_cache(s->model, &cache);
    return cache.max_sequences - cache.n_sequences;
}

static bool collect(struct kt_scheduler *s, struct draft_plan *plan)
{
    uint32_t left = free_sessions(s);
    plan->n = s->n_running;
    for (uint32_t i = 0; i < plan->n; i++) {
        struct kt_ticket *t = s->running[i];
        if (!kt_is_answering(t) || !look(s, t, &plan->looked_up[i]))
            return false;
        plan->own[i] = offer_own(s, t);
        plan->n_rows += (uint32_t)kt_pending(t);
        if (left == 0)
            plan->looked_up[i].n = plan->own[i].n = 0;
        left -= plan->looked_up[i].n + plan->own[i].n > 0;
        plan->n_own += plan->own[i].n;
    }
    return true;
}

/* Is a token of the block for each answer better than what was looked up? */
static bool prefers_own(struct kt_scheduler *s, struct draft_plan *plan)
{
    const struct kt_gain *gain = &s->gain;
    double forks = gain->measures ? plan->n * s->fork_seconds : 0;
    double looked_up = kt_gain_plan(gain, plan->n_rows, plan->looked_up, plan->n, forks, s->has_states);
    if (plan->n_own == 0)
        return false;
    if (s->params.drafts == KT_DRAFTS_MTP) {
        for (uint32_t i = 0; i < plan->n; i++)
            plan->own[i].taken = plan->own[i].n;
        return true;
    }
    double each = s->mtp_seconds > 0 ? s->mtp_seconds : MTP_SHARE * kt_gain_seconds(gain, 1);
    double extra = forks + plan->n_own * each;
    return kt_gain_plan(gain, plan->n_rows, plan->own, plan->n, extra, s->has_states) > looked_up;
}

void kt_draft_plan(struct kt_scheduler *s)
{
    struct draft_plan plan = {.n = 0};
    uint32_t n = s->n_running;
    s->draft_seconds = 0;
    /* Each answer may begin a page, a fork copies one, and nobody is put back for a guess. */
    if (s->params.drafts == KT_DRAFTS_OFF || n == 0 || n > MOST_ANSWERS ||
        kt_room_free(s) < (s->has_states ? 3 : 2) * (uint64_t)n || !collect(s, &plan))
        return;
    bool own = prefers_own(s, &plan);
    for (uint32_t i = 0; i < n; i++) {
        struct kt_ticket *t = s->running[i];
        int32_t id = own && plan.own[i].taken > 0 ? draft_by_model(s, t) : -1;
        t->repeats_mtp = id >= 0;
        if (id >= 0)
            kt_drafter_set(&t->drafter, id);
        t->n_drafts = own ? id >= 0 : plan.looked_up[i].taken;
    }
    if (s->has_states)
        fork_sessions(s);
    for (uint32_t i = 0; i < n; i++)
        s->running[i]->n_step += s->running[i]->n_drafts;
}

void kt_draft_learn(struct kt_scheduler *s, const struct kt_drafted *step)
{
    if (step->n_rows > 0 && step->n_answers <= MOST_ANSWERS)
        kt_gain_learn(&s->gain, step->n_rows, step->n_plain, step->n_answers, (uint32_t)step->n_tokens,
                      step->seconds, s->draft_seconds);
    else
        kt_gain_allow(&s->gain, step->seconds);
}

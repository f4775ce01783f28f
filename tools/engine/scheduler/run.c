/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - a step: which tokens are in it, what comes of them, and the end of requests. */
#include "tools/engine/base/fail.h"
#include "tools/engine/sampling/sampler.h"
#include "tools/engine/scheduler/internal.h"

#include <math.h>
#include <string.h>

/* ---- the plan ---- */

/* Which of two prompts is read first: the client's that has had less, then the shorter one, so that short
 * ones do not wait for long ones; each fourth step the one that was started first, so that long ones end. */
static bool goes_before(const struct kt_scheduler *s, const struct kt_ticket *a, const struct kt_ticket *b)
{
    if (a->client != b->client && a->client->charge != b->client->charge)
        return a->client->charge < b->client->charge;
    uint64_t x = kt_pending(a), y = kt_pending(b);
    return s->stats.steps % 4 == 3 || x == y ? a->stamp < b->stamp : x < y;
}

/* Requests that read their prompts, in that order. */
static uint32_t order_prompts(struct kt_scheduler *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct kt_ticket *ticket = s->running[i];
        if (kt_is_answering(ticket))
            continue;
        uint32_t at = n++;
        for (; at > 0 && goes_before(s, ticket, s->ordered[at - 1]); at--)
            s->ordered[at] = s->ordered[at - 1];
        s->ordered[at] = ticket;
    }
    return n;
}

/* Sets n_step of all that run. */
static void plan(struct kt_scheduler *s, uint32_t *n_answers, uint32_t *n_tokens)
{
    uint32_t n_prompts = order_prompts(s);
    *n_answers = s->n_running - n_prompts;
    *n_tokens = 0;
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct kt_ticket *t = s->running[i];
        kt_draft_settle(t); /* of a plan that was given up */
        t->n_step = kt_is_answering(t) ? (uint32_t)kt_pending(t) : 0;
        t->n_drafts = 0;
    }
    if (n_prompts == 0)
        kt_draft_plan(s);
    uint64_t left = n_prompts ? kt_pace_tokens(&s->pace, *n_answers) : 0, rows = KT_SCORED_ROWS;
    for (uint32_t i = 0; i < n_prompts && left > 0; i++) {
        struct kt_ticket *ticket = s->ordered[i];
        uint64_t n = kt_pending(ticket), point = kt_prefix_point(s, ticket) - ticket->n_done;
        n = n < left ? n : left;
        n = kt_is_scored(ticket) && n > rows ? rows : n;
        ticket->n_step = (uint32_t)(n < point ? n : point);
        left -= ticket->n_step;
        rows -= kt_is_scored(ticket) ? ticket->n_step : 0;
        *n_tokens += ticket->n_step;
    }
}

/* What is chosen, then what is drafted. */
static const int32_t *join_drafts(const struct kt_ticket *t, int32_t *ids)
{
    uint32_t n = t->n_step - t->n_drafts;
    memcpy(ids, t->chain.ids + t->n_done, n * sizeof(*ids));
    memcpy(ids + n, t->drafter.draft, t->n_drafts * sizeof(*ids));
    return ids;
}

/* Returns how many there are; *n_rows: tokens of all of them, *n_plain: without drafts. */
static uint32_t list_steps(struct kt_scheduler *s, uint32_t *n_rows, uint32_t *n_plain)
{
    uint32_t n = 0, n_logits = 0, n_hidden = 0;
    *n_rows = *n_plain = 0;
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct kt_ticket *t = s->running[i];
        if (t->n_step == 0)
            continue;
        bool last = t->n_step - t->n_drafts == kt_pending(t), scores = kt_is_scored(t);
        uint32_t n_wanted = scores ? t->n_step : last && !t->request.on_hidden ? 1 + t->n_drafts : 0;
        s->steps[n] = (struct kt_step){.session = t->session,
                                       .ids = t->n_drafts > 0 ? join_drafts(t, s->draft_ids + *n_rows)
                                                              : t->chain.ids + t->n_done,
                                       .n_ids = t->n_step,
                                       .n_logits = n_wanted,
                                       .logits = n_wanted ? s->logits + n_logits * s->vocabulary : NULL};
        t->next_logits = NULL;
        if (last && n_wanted > 0)
            t->next_logits = s->steps[n].logits + (scores ? t->n_step - 1 : 0) * s->vocabulary;
        n_hidden = kt_hidden_list(s, t, n, n_hidden);
        *n_rows += t->n_step;
        *n_plain += t->n_step - t->n_drafts;
        n_logits += n_wanted;
        s->stepped[n++] = t;
    }
    return n;
}

/* ---- choosing ---- */

struct choices {
    struct kt_scheduler *scheduler;
    uint32_t n;
};

static void choose_some(struct kt_scheduler *s, uint32_t n, uint32_t first, uint32_t stride)
{
    for (uint32_t i = first; i < n; i += stride) {
        struct kt_ticket *t = s->stepped[i];
        if (t->next_logits && t->scored == KT_OK)
            t->chosen =
                kt_sampler_choose(t->sampler, t->next_logits, t->chain.n_ids, NULL, &t->choice, &t->error);
    }
}

static void choose_part(void *data, const struct kt_thread *thread)
{
    const struct choices *choices = data;
    choose_some(choices->scheduler, choices->n, thread->index, thread->n_threads);
}

/* Samplers depend on nothing but their sequence, so threads may take any of them. */
static void choose_all(struct kt_scheduler *s, uint32_t n)
{
    struct choices choices = {s, n};
    if (n < 2 || !s->context || kt_context_run_threads(s->context, choose_part, &choices, NULL) != KT_OK)
        choose_some(s, n, 0, 1);
}

static bool contains(const int32_t *ids, uint32_t n, int32_t id)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

static bool ends_answer(const struct kt_scheduler *s, const struct kt_ticket *t, int32_t id)
{
    return contains(t->stop_ids, t->request.n_stop_ids, id) ||
           (!t->request.ignore_eos && contains(s->end_ids, s->params.n_end_ids, id));
}

static void forbid(uint64_t *mask, const int32_t *ids, uint32_t n, uint64_t vocabulary)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] >= 0 && (uint64_t)ids[i] < vocabulary)
            mask[ids[i] / 64] &= ~(UINT64_C(1) << (ids[i] % 64));
}

/* What may come: `allowed`, or all, but no token that ends the answer. */
static const uint64_t *mask_ends(struct kt_scheduler *s, const struct kt_ticket *t, const uint64_t *allowed)
{
    size_t size = (s->vocabulary + 63) / 64 * sizeof(*s->mask);
    if (allowed)
        memcpy(s->mask, allowed, (s->chosen_from + 63) / 64 * sizeof(*s->mask));
    else
        memset(s->mask, 0xff, size);
    forbid(s->mask, t->stop_ids, t->request.n_stop_ids, s->chosen_from);
    if (!t->request.ignore_eos)
        forbid(s->mask, s->end_ids, s->params.n_end_ids, s->chosen_from);
    return s->mask;
}

/* Chooses again, with a mask, what was chosen without one and may not come. */
static enum kt_status check_choice(struct kt_scheduler *s, struct kt_ticket *t, const float *logits)
{
    bool bans = t->n_generated < t->request.min_tokens;
    const uint64_t *allowed = NULL;
    enum kt_status status = t->chosen;
    while (status == KT_OK) {
        if (t->request.allow)
            allowed = t->request.allow(t->request.data, t->choice.id);
        bool banned = bans && ends_answer(s, t, t->choice.id);
        if (!allowed && !banned)
            break;
        const uint64_t *mask = bans ? mask_ends(s, t, allowed) : allowed;
        status = kt_sampler_choose(t->sampler, logits, t->chain.n_ids, mask, &t->choice, &t->error);
        if (allowed || !t->request.allow)
            break;
    }
    return status;
}

/* ---- the end of requests ---- */

void kt_run_remove(struct kt_scheduler *s, struct kt_ticket *ticket)
{
    uint32_t i = 0;
    while (i < s->n_running && s->running[i] != ticket)
        i++;
    if (i == s->n_running)
        return;
    memmove(s->running + i, s->running + i + 1, (s->n_running - i - 1) * sizeof(struct kt_ticket *));
    s->n_running--;
}

static void give_session_back(struct kt_scheduler *s, struct kt_ticket *t, enum kt_end reason)
{
    kt_draft_settle(t);
    bool is_wrong = t->error.status == KT_E_BACKEND; /* also where its client has gone meanwhile */
    if (is_wrong)
        kt_prefix_forget(s, &t->chain);
    if (t->session && reason != KT_END_ERROR && !is_wrong && !t->request.on_hidden) {
        kt_chain_cut(&t->chain, t->n_done);
        kt_prefix_keep(s, t->session, &t->chain);
    } else {
        kt_session_close(t->session);
    }
    t->session = NULL;
}

void kt_run_end(struct kt_scheduler *s, struct kt_ticket *t, enum kt_end reason, int32_t end_id)
{
    uint64_t now = kt_now();
    uint64_t start = t->start_ns ? t->start_ns : now, first = t->first_ns ? t->first_ns : now;
    struct kt_request_end end = {.reason = reason,
                                 .end_id = end_id,
                                 .error = reason == KT_END_ERROR ? &t->error : NULL,
                                 .n_prompt = t->request.n_ids,
                                 .n_cached = t->n_cached,
                                 .n_generated = t->n_generated,
                                 .queue_ns = start - t->submit_ns,
                                 .prompt_ns = first - start,
                                 .decode_ns = t->last_ns ? t->last_ns - first : 0,
                                 .decode_bytes = t->last_bytes - t->first_bytes};
    kt_run_remove(s, t);
    give_session_back(s, t, reason);
    kt_clients_leave(s, t->client);
    t->client = NULL;
    s->stats.ended[reason]++;
    kt_scheduler_show(s);
    t->request.on_end(t->request.data, &end);
    kt_ticket_empty(t);
    kt_place_drop(s, t->place);
    kt_ticket_release(t);
}

/* ---- what comes of a step ---- */

static void note_time(struct kt_scheduler *s, struct kt_ticket *t)
{
    uint64_t now = kt_now();
    if (t->first_ns == 0) {
        t->first_ns = now;
        t->first_bytes = s->stats.step_bytes;
        kt_histogram_add(&s->stats.first_token, (double)(now - t->submit_ns) * 1e-9);
        if (now > t->start_ns)
            kt_histogram_add_rate(&s->stats.prompt_rate, (double)(t->request.n_ids - t->n_cached) * 1e9 /
                                                             (double)(now - t->start_ns));
    } else {
        kt_histogram_add(&s->stats.inter_token, (double)(now - t->last_ns) * 1e-9);
    }
    t->last_ns = now;
    t->last_bytes = s->stats.step_bytes;
}

/* The next token of a request, whose logits are there. False: it has ended. */
static bool deliver(struct kt_scheduler *s, struct kt_ticket *t, const float *logits)
{
    enum kt_status status = check_choice(s, t, logits);
    if (status != KT_OK) {
        kt_run_end(s, t, KT_END_ERROR, -1);
        return false;
    }
    int32_t id = t->choice.id;
    note_time(s, t);
    t->n_generated++;
    s->stats.generated_tokens++;
    if (ends_answer(s, t, id)) {
        kt_run_end(s, t, KT_END_STOP, id);
        return false;
    }
    int stop = t->request.on_token(t->request.data, &t->choice);
    status = kt_sampler_accept(t->sampler, &id, 1, KT_ORIGIN_GENERATED, &t->error);
    if (status == KT_OK && !kt_chain_add(&t->chain, &id, 1))
        status =
            kt_engine_fail(&t->error, KT_E_NOMEM, "no memory for token %zu of a request", t->chain.n_ids + 1);
    if (status != KT_OK)
        kt_run_end(s, t, KT_END_ERROR, -1);
    else if (stop)
        kt_run_end(s, t, KT_END_STOP, -1);
    else if (t->chain.n_ids >= t->limit)
        kt_run_end(s, t, KT_END_LENGTH, -1);
    else
        return true;
    return false;
}

/* The tokens after the next one, as long as what was drafted is what was chosen; the rest is dropped. */
static void deliver_drafts(struct kt_scheduler *s, struct kt_ticket *t, const float *logits)
{
    s->stats.drafted_tokens += t->n_drafts;
    for (uint32_t i = 0; i < t->n_drafts && t->choice.id == t->drafter.draft[i]; i++) {
        logits += s->vocabulary;
        t->n_done++;
        s->stats.accepted_tokens++;
        t->chosen = kt_sampler_choose(t->sampler, logits, t->chain.n_ids, NULL, &t->choice, &t->error);
        if (!deliver(s, t, logits))
            return;
    }
    if (t->kept)
        kt_draft_settle(t);
    else if (kt_session_truncate(t->session, t->n_done, &t->error) != KT_OK)
        kt_run_end(s, t, KT_END_ERROR, -1);
}

/* What was computed counts, before any callback can ask for it. */
static void count(struct kt_scheduler *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct kt_ticket *t = s->stepped[i];
        uint32_t n_sure = t->n_step - t->n_drafts;
        bool is_point = t->n_done + n_sure == kt_prefix_point(s, t);
        uint64_t left = t->n_done < t->request.n_ids ? t->request.n_ids - t->n_done : 0;
        s->stats.prompt_tokens += left < n_sure ? left : n_sure;
        t->n_done += n_sure;
        t->n_again = 0;
        t->copies = false;
        t->client->charge += t->n_step;
        if (is_point)
            kt_prefix_snapshot(s, t);
    }
}

/* How likely were the tokens of its prompt that follow those of this step? */
static void score(struct kt_scheduler *s, struct kt_ticket *t, const float *logits)
{
    const struct kt_request *r = &t->request;
    struct kt_choice found;
    t->scored = KT_OK;
    for (uint64_t next = t->n_done - t->n_step + 1; kt_is_scored(t) && next <= t->n_done; next++) {
        if (next == t->n_scored) {
            t->scored = kt_sampler_score(t->sampler, logits, next, t->chain.ids[next], &found, &t->error);
            if (t->scored != KT_OK)
                return;
            r->on_score(r->data, next, &found);
            t->n_scored++;
        }
        logits += s->vocabulary;
    }
}

static void finish_step(struct kt_scheduler *s, uint32_t n)
{
    count(s, n);
    for (uint32_t i = 0; i < n; i++) {
        struct kt_ticket *t = s->stepped[i];
        score(s, t, s->steps[i].logits);
        if (t->scored == KT_OK)
            t->scored = kt_hidden_deliver(s, t, &s->hidden[i]);
    }
    choose_all(s, n);
    for (uint32_t i = 0; i < n; i++) {
        struct kt_ticket *t = s->stepped[i];
        if (atomic_load(&t->cancelled)) {
            kt_run_end(s, t, KT_END_CANCELLED, -1);
            continue;
        }
        if (t->scored != KT_OK) {
            kt_run_end(s, t, KT_END_ERROR, -1);
            continue;
        }
        if (t->request.on_prompt && t->n_generated == 0)
            t->request.on_prompt(t->request.data, t->n_done, t->request.n_ids);
        if (t->request.on_hidden && t->n_done == t->request.n_ids)
            kt_run_end(s, t, KT_END_STOP, -1);
        else if (t->next_logits && deliver(s, t, t->next_logits) && t->n_drafts > 0)
            deliver_drafts(s, t, t->next_logits);
    }
}

/* A step failed. Without memory it changed nothing, and less may do; else nobody knows whose tokens did it.
 */
static void fail_step(struct kt_scheduler *s, uint32_t n, const struct kt_error *error)
{
    for (uint32_t i = 0; i < n; i++)
        kt_draft_settle(s->stepped[i]);
    if (error->status == KT_E_NOMEM && kt_room_relieve(s))
        return;
    for (uint32_t i = 0; i < n; i++) {
        s->stepped[i]->error = *error;
        kt_run_end(s, s->stepped[i], KT_END_ERROR, -1);
    }
}

/* Bytes that a step reads at least: weights, of experts those that independent routing chooses, and keys and
 * values. */
static double step_bytes(const struct kt_scheduler *s, uint32_t n)
{
    const struct kt_model_info *m = &s->info;
    struct kt_kv_info cache;
    double n_tokens = 0, n_kept = 0, dense = (double)m->dense_bytes, chosen = 0;
    kt_model_cache(s->model, &cache);
    for (uint32_t i = 0; i < n; i++) {
        n_tokens += s->steps[i].n_ids;
        n_kept += (double)s->stepped[i]->n_done + s->steps[i].n_ids;
    }
    if (m->n_experts > 0)
        chosen = 1 - pow(1 - (double)m->top_k / m->n_experts, n_tokens);
    return dense + chosen * (double)m->expert_bytes + n_kept * (double)cache.token_bytes;
}

static void note_stages(struct kt_scheduler *s, const struct kt_model_times *at, double took)
{
    struct kt_model_times to;
    kt_model_times(s->model, &to);
    const double parts[] = {[KT_PART_LINEARS] = to.linears - at->linears,
                            [KT_PART_EXPERTS] = to.experts - at->experts,
                            [KT_PART_ATTENTION] = to.attention - at->attention,
                            [KT_PART_HEAD] = to.head - at->head};
    for (unsigned i = 0; i < KT_PART_OTHER; i++) {
        kt_histogram_add(&s->stats.stages[i], parts[i]);
        took -= parts[i];
    }
    kt_histogram_add(&s->stats.stages[KT_PART_OTHER], took > 0 ? took : 0);
}

static enum kt_status compute(struct kt_scheduler *s, uint32_t n, double *took, struct kt_error *error)
{
    struct kt_model_times times;
    kt_model_times(s->model, &times);
    uint64_t begin = kt_now();
    enum kt_status status = kt_model_step_hidden(s->model, s->steps, s->hidden, n, error);
    *took = (double)(kt_now() - begin) * 1e-9;
    s->stats.steps++;
    s->stats.model_seconds += *took;
    s->stats.step_bytes += step_bytes(s, n);
    kt_histogram_add(&s->stats.step, *took);
    note_stages(s, &times, *took);
    return status;
}

void kt_run_step(struct kt_scheduler *s)
{
    uint32_t n_answers, n_tokens, n_rows, n_plain;
    struct kt_error error = {KT_OK, ""};
    do
        plan(s, &n_answers, &n_tokens);
    while (!kt_room_make(s));
    uint32_t n = list_steps(s, &n_rows, &n_plain);
    if (n == 0)
        return;
    double took;
    enum kt_status status = compute(s, n, &took, &error);
    if (status != KT_OK) {
        error.status = status;
        fail_step(s, n, &error);
        return;
    }
    bool only_answers = n_tokens == 0 && n_answers == n;
    uint64_t before = s->stats.generated_tokens;
    if (!only_answers || n_rows == n)
        kt_pace_learn(&s->pace, n_answers, n_tokens, took);
    finish_step(s, n);
    const struct kt_drafted step = {.n_answers = n_answers,
                                    .n_rows = only_answers ? n_rows : 0,
                                    .n_plain = n_plain,
                                    .n_tokens = s->stats.generated_tokens - before,
                                    .seconds = took};
    kt_draft_learn(s, &step);
}

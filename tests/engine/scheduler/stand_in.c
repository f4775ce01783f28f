/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/scheduler/stand_in.h"

#include "tools/engine/base/fail.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PAGES = 4096 };

struct page {
    uint32_t users;
};

struct kt_session {
    struct page *pages[MAX_PAGES];
    uint64_t n_pages, n_tokens;
    int32_t *ids; /* [max_tokens] */
};

struct kt_model {
    struct stand_in how;
    uint32_t used_pages, n_sessions, width;
    uint64_t n_steps, n_tokens;
    pthread_t thread; /* that steps it */
    bool has_thread;
};

static struct kt_model model;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool held, waits;

/* ---- the model ---- */

struct kt_model *stand_in_open(const struct stand_in *how)
{
    memset(&model, 0, sizeof(model));
    model.how = *how;
    must(how->n_pages <= MAX_PAGES);
    return &model;
}

bool stand_in_is_empty(void)
{
    return model.used_pages == 0 && model.n_sessions == 0;
}

uint64_t stand_in_tokens(void)
{
    return model.n_tokens;
}

uint32_t stand_in_width(void)
{
    return model.width;
}

void kt_model_times(const struct kt_model *m, struct kt_model_times *times)
{
    const double n = (double)m->n_steps; /* each step a millisecond of each */
    *times = (struct kt_model_times){.linears = n * 1e-3,
                                     .experts = n * 1e-3,
                                     .attention = n * 1e-3,
                                     .head = n * 1e-3};
}

void kt_model_info(const struct kt_model *m, struct kt_model_info *info)
{
    *info = (struct kt_model_info){.family = "stand-in",
                                   .hidden_size = STAND_IN_SIZE,
                                   .vocabulary = STAND_IN_VOCABULARY,
                                   .max_tokens = m->how.max_tokens,
                                   .context_length = m->how.max_tokens};
}

void kt_model_cache(const struct kt_model *m, struct kt_kv_info *info)
{
    *info = (struct kt_kv_info){.state_bytes = m->how.has_states ? 64 : 0,
                                .n_pages = m->how.n_pages,
                                .used_pages = m->used_pages,
                                .free_pages = m->how.n_pages - m->used_pages,
                                .max_sequences = m->how.max_sessions,
                                .n_sequences = m->n_sessions};
}

int32_t stand_in_next(const int32_t *ids, uint64_t n)
{
    uint64_t hash = 7;
    for (uint64_t i = 0; i < n; i++)
        hash = (hash ^ (uint32_t)ids[i]) * 0x100000001b3u + (hash >> 29);
    if (model.how.answer_length > 0 && n % model.how.answer_length == 0)
        return STAND_IN_END;
    if (model.how.repeats && n >= STAND_IN_PERIOD && hash % 8 != 0)
        return ids[n - STAND_IN_PERIOD];
    return (int32_t)((hash >> 17) % STAND_IN_IDS);
}

/* ---- the gate ---- */

void stand_in_hold(void)
{
    pthread_mutex_lock(&gate);
    held = true;
    pthread_mutex_unlock(&gate);
}

void stand_in_go_on(void)
{
    pthread_mutex_lock(&gate);
    held = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&gate);
}

void stand_in_wait_for_step(void)
{
    pthread_mutex_lock(&gate);
    while (!waits)
        pthread_cond_wait(&changed, &gate);
    pthread_mutex_unlock(&gate);
}

static void pass_gate(void)
{
    pthread_mutex_lock(&gate);
    while (held) {
        waits = true;
        pthread_cond_broadcast(&changed);
        pthread_cond_wait(&changed, &gate);
    }
    waits = false;
    pthread_mutex_unlock(&gate);
}

/* One thread at a time, and a scheduler has only one; its creator closes what is left. */
static void expect_thread(void)
{
    if (!model.has_thread) {
        model.thread = pthread_self();
        model.has_thread = true;
    }
    must_say(pthread_equal(model.thread, pthread_self()), "the model is used from two threads");
}

/* ---- sessions ---- */

static struct page *new_page(void)
{
    struct page *page = calloc(1, sizeof(*page));
    if (!page)
        return NULL;
    page->users = 1;
    model.used_pages++;
    return page;
}

static void leave_page(struct page *page)
{
    if (--page->users > 0)
        return;
    model.used_pages--;
    free(page);
}

static uint64_t pages_of(uint64_t n_tokens)
{
    return (n_tokens + KT_KV_PAGE - 1) / KT_KV_PAGE;
}

static bool shares_last(const struct kt_session *s)
{
    return s->n_tokens % KT_KV_PAGE != 0 && s->pages[s->n_pages - 1]->users > 1;
}

static uint64_t lacking(const struct kt_session *s, uint64_t n)
{
    return pages_of(s->n_tokens + n) - s->n_pages + (n > 0 && shares_last(s));
}

enum kt_status kt_session_open(struct kt_model *m, struct kt_session **session, struct kt_error *error)
{
    expect_thread();
    if (m->n_sessions == m->how.max_sessions)
        return kt_engine_fail(error, KT_E_NOMEM, "%u sessions are open", m->n_sessions);
    struct kt_session *s = calloc(1, sizeof(*s));
    int32_t *ids = s ? calloc(m->how.max_tokens, sizeof(*ids)) : NULL;
    if (!ids) {
        free(s);
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a session");
    }
    s->ids = ids;
    m->n_sessions++;
    *session = s;
    return KT_OK;
}

static void cut(struct kt_session *s, uint64_t n_tokens)
{
    for (; s->n_pages > pages_of(n_tokens); s->n_pages--)
        leave_page(s->pages[s->n_pages - 1]);
    s->n_tokens = n_tokens;
}

void kt_session_close(struct kt_session *session)
{
    if (!session)
        return;
    cut(session, 0);
    free(session->ids);
    free(session);
    model.n_sessions--;
}

uint64_t kt_session_tokens(const struct kt_session *session)
{
    return session->n_tokens;
}

enum kt_status kt_session_truncate(struct kt_session *session, uint64_t n_tokens, struct kt_error *error)
{
    expect_thread();
    must(n_tokens <= session->n_tokens);
    must_say(n_tokens % KT_KV_PAGE == 0, "the stand-in copies no page here");
    if (model.how.has_states && n_tokens != session->n_tokens && n_tokens != 0)
        return kt_engine_fail(error, KT_E_UNSUPPORTED, "a session with states has all of its tokens or none");
    cut(session, n_tokens);
    return KT_OK;
}

enum kt_status kt_session_fork(struct kt_session *session, uint64_t n_tokens, struct kt_session **fork,
                               struct kt_error *error)
{
    struct kt_session *s;
    must(n_tokens <= session->n_tokens);
    must_say(model.how.has_states || n_tokens % KT_KV_PAGE == 0, "the stand-in copies no page here");
    if (model.how.has_states && n_tokens != session->n_tokens && n_tokens != 0)
        return kt_engine_fail(error, KT_E_UNSUPPORTED, "a session with states has all of its tokens or none");
    enum kt_status status = kt_session_open(&model, &s, error);
    if (status != KT_OK)
        return status;
    for (; s->n_pages < pages_of(n_tokens); s->n_pages++) {
        s->pages[s->n_pages] = session->pages[s->n_pages];
        s->pages[s->n_pages]->users++;
    }
    memcpy(s->ids, session->ids, n_tokens * sizeof(*s->ids));
    s->n_tokens = n_tokens;
    *fork = s;
    return KT_OK;
}

/* It has no block that predicts. */
enum kt_status kt_session_draft(struct kt_session *session, int32_t next, float *logits,
                                struct kt_error *error)
{
    (void)session;
    (void)next;
    (void)logits;
    return kt_engine_fail(error, KT_E_UNSUPPORTED, "the stand-in drafts nothing");
}

/* ---- a step ---- */

static enum kt_status check_step(const struct kt_model *m, const struct kt_step *steps, uint32_t n,
                                 struct kt_error *error)
{
    uint64_t need = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct kt_session *s = steps[i].session;
        need += lacking(s, steps[i].n_ids);
        must(steps[i].n_ids > 0);
        must(s->n_tokens + steps[i].n_ids <= m->how.max_tokens);
        for (uint32_t j = 0; j < i; j++)
            must(steps[j].session != s);
    }
    if (need > m->how.n_pages - m->used_pages)
        return kt_engine_fail(error, KT_E_NOMEM, "%u pages are free", m->how.n_pages - m->used_pages);
    return KT_OK;
}

static bool grow(struct kt_session *s, const struct kt_step *step)
{
    if (shares_last(s)) {
        struct page *copy = new_page();
        if (!copy)
            return false;
        leave_page(s->pages[s->n_pages - 1]);
        s->pages[s->n_pages - 1] = copy;
    }
    for (; s->n_pages < pages_of(s->n_tokens + step->n_ids); s->n_pages++)
        if (!(s->pages[s->n_pages] = new_page()))
            return false;
    return true;
}

/* Behind n ids. */
static void write_logits(const int32_t *ids, uint64_t n, float *logits)
{
    bool broken = false;
    for (uint64_t i = 0; i < n; i++)
        broken = broken || ids[i] == STAND_IN_NAN;
    for (int i = 0; i < STAND_IN_VOCABULARY; i++)
        logits[i] = broken ? NAN : (float)(i % 7);
    if (!broken)
        logits[stand_in_next(ids, n)] = STAND_IN_LIKELIEST;
}

void stand_in_state(const int32_t *ids, uint64_t n, float *state)
{
    state[0] = ids[n - 1] == STAND_IN_NAN ? NAN : (float)stand_in_next(ids, n);
    for (int i = 1; i < STAND_IN_SIZE; i++)
        state[i] = (float)n + (float)i / STAND_IN_SIZE;
}

static void compute(struct kt_session *s, const struct kt_step *step, const struct kt_hidden *hidden)
{
    memcpy(s->ids + s->n_tokens, step->ids, step->n_ids * sizeof(*s->ids));
    s->n_tokens += step->n_ids;
    for (uint32_t i = 0; i < step->n_logits; i++)
        write_logits(s->ids, s->n_tokens - step->n_logits + i + 1, step->logits + i * STAND_IN_VOCABULARY);
    for (uint32_t i = 0; hidden && i < hidden->n_rows; i++)
        stand_in_state(s->ids, s->n_tokens - hidden->n_rows + i + 1, hidden->after + i * STAND_IN_SIZE);
}

enum kt_status kt_model_step_hidden(struct kt_model *m, const struct kt_step *steps,
                                    const struct kt_hidden *hidden, uint32_t n_steps, struct kt_error *error)
{
    expect_thread();
    pass_gate();
    enum kt_status status = check_step(m, steps, n_steps, error);
    if (status != KT_OK)
        return status;
    if (++m->n_steps == m->how.fails_at)
        return kt_engine_fail(error, m->how.fails_with, "the stand-in was told to fail");
    for (uint32_t i = 0; i < n_steps; i++)
        if (!grow(steps[i].session, &steps[i])) {
            for (uint32_t j = 0; j <= i; j++)
                cut(steps[j].session, steps[j].session->n_tokens);
            return kt_engine_fail(error, KT_E_NOMEM, "no memory for a page");
        }
    m->width = n_steps > m->width ? n_steps : m->width;
    for (uint32_t i = 0; i < n_steps; i++) {
        m->n_tokens += steps[i].n_ids;
        compute(steps[i].session, &steps[i], hidden ? &hidden[i] : NULL);
    }
    return KT_OK;
}

enum kt_status kt_model_step(struct kt_model *m, const struct kt_step *steps, uint32_t n_steps,
                             struct kt_error *error)
{
    return kt_model_step_hidden(m, steps, NULL, n_steps, error);
}

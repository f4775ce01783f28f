/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefix.c - what was computed is kept for requests that begin alike. A prefix is a session: forks share its
 * pages. Without recurrent states it is a number of whole pages, and any number of them can be forked. With
 * states it can be forked at its end only, so forks are kept at points at which other prompts may part.
 */
#include "tools/engine/scheduler/internal.h"

#include <stdlib.h>
#include <string.h>

static void remove_at(struct kt_scheduler *s, uint32_t i)
{
    struct kt_prefix *prefix = s->prefixes[i];
    s->prefixes[i] = s->prefixes[--s->n_prefixes];
    kt_session_close(prefix->session);
    kt_chain_free(&prefix->chain);
    free(prefix);
}

static uint64_t whole_pages(uint64_t n_tokens)
{
    return n_tokens - n_tokens % KT_KV_PAGE;
}

/* Are all of the prefix's tokens the first ones of `chain`? */
static bool begins_with(const struct kt_chain *chain, const struct kt_chain *prefix)
{
    size_t n = prefix->n_ids, pages = prefix->n_hashes;
    return n <= chain->n_ids && chain->owner == prefix->owner &&
           (pages == 0 || chain->hashes[pages - 1] == prefix->hashes[pages - 1]) &&
           memcmp(chain->ids, prefix->ids, n * sizeof(*chain->ids)) == 0;
}

/* ---- finding ---- */

static void consider(struct kt_source *best, struct kt_session *session, struct kt_prefix *prefix, uint64_t n)
{
    if (n > best->n_tokens)
        *best = (struct kt_source){session, prefix, n};
}

/* Tokens that a request can have from others: the last one's logits are wanted, and so are those of the last
 * one that was scored, or the states of the next one. */
static uint64_t most_shared(const struct kt_ticket *ticket)
{
    if (ticket->request.on_hidden)
        return ticket->n_hidden;
    return (kt_is_scored(ticket) ? ticket->n_scored : ticket->chain.n_ids) - 1;
}

struct kt_source kt_prefix_find(struct kt_scheduler *s, const struct kt_ticket *ticket)
{
    const struct kt_chain *chain = &ticket->chain;
    uint64_t most = most_shared(ticket);
    struct kt_source best = {.session = NULL};
    for (uint32_t i = 0; i < s->n_prefixes; i++) {
        struct kt_prefix *prefix = s->prefixes[i];
        uint64_t n = prefix->chain.n_ids;
        if (!s->has_states) {
            n = kt_chain_common(chain, &prefix->chain);
            consider(&best, prefix->session, prefix, n < most ? n : whole_pages(most));
        } else if (n <= most && n > best.n_tokens && begins_with(chain, &prefix->chain)) {
            consider(&best, prefix->session, prefix, n);
        }
    }
    for (uint32_t i = 0; i < s->n_running && !s->has_states && !s->params.no_prefixes; i++) {
        struct kt_ticket *other = s->running[i];
        uint64_t n = kt_chain_common(chain, &other->chain);
        n = n < other->n_done ? n : other->n_done;
        consider(&best, other->session, NULL, whole_pages(n < most ? n : most));
    }
    return best;
}

/* ---- keeping ---- */

/* Is there a prefix that serves as this one would? Others that this one makes needless are dropped. */
static bool replaces(struct kt_scheduler *s, const struct kt_chain *chain)
{
    for (uint32_t i = s->n_prefixes; i-- > 0;) {
        struct kt_chain *other = &s->prefixes[i]->chain;
        if (other->n_ids >= chain->n_ids && (!s->has_states || other->n_ids == chain->n_ids) &&
            begins_with(other, chain)) {
            s->prefixes[i]->used = ++s->uses;
            return false;
        }
        if (!s->has_states && begins_with(chain, other))
            remove_at(s, i);
    }
    return true;
}

/* With states a draft needs a session of its own; prefixes leave one where there are more than two. */
static void spare_session(struct kt_scheduler *s, const struct kt_prefix *newest)
{
    struct kt_kv_info cache;
    kt_model_cache(s->model, &cache);
    if (s->has_states && s->params.drafts != KT_DRAFTS_OFF && s->max_sessions > 2 &&
        cache.n_sequences == s->max_sessions)
        (void)kt_prefix_drop(s, newest);
}

void kt_prefix_keep(struct kt_scheduler *s, struct kt_session *session, struct kt_chain *chain)
{
    struct kt_prefix *prefix = NULL;
    uint64_t n = s->has_states ? chain->n_ids : whole_pages(chain->n_ids);
    kt_chain_cut(chain, n);
    if (n > 0 && !s->params.no_prefixes && replaces(s, chain) &&
        (s->has_states || kt_session_truncate(session, n, NULL) == KT_OK))
        prefix = calloc(1, sizeof(*prefix));
    if (prefix) {
        *prefix = (struct kt_prefix){session, *chain, ++s->uses};
        *chain = (struct kt_chain){.ids = NULL};
        s->prefixes[s->n_prefixes++] = prefix;
        spare_session(s, prefix);
    } else {
        kt_session_close(session);
        kt_chain_free(chain);
    }
}

/* ---- snapshots of states ---- */

/* The next point behind `from` of a request: multiples of snapshot_tokens, and the last whole page that can
 * be gone on from when the same prompt comes again. */
static uint64_t next_point(const struct kt_scheduler *s, const struct kt_ticket *t, uint64_t from)
{
    uint64_t last = whole_pages(t->chain.n_ids - 1), step = s->params.snapshot_tokens;
    uint64_t next = (from / step + 1) * step;
    if (!s->has_states || s->params.no_prefixes || t->request.on_hidden || last <= from)
        return UINT64_MAX;
    return next < last ? next : last;
}

uint64_t kt_prefix_point(const struct kt_scheduler *s, const struct kt_ticket *ticket)
{
    return next_point(s, ticket, ticket->n_done);
}

void kt_prefix_snapshot(struct kt_scheduler *s, struct kt_ticket *ticket)
{
    struct kt_kv_info cache;
    struct kt_session *fork;
    struct kt_chain chain;
    if (!kt_chain_copy(&ticket->chain, ticket->n_done, &chain))
        return;
    kt_model_cache(s->model, &cache);
    if (replaces(s, &chain) && (cache.n_sequences < s->max_sessions || kt_prefix_drop(s, NULL)) &&
        kt_session_fork(ticket->session, ticket->n_done, &fork, NULL) == KT_OK)
        kt_prefix_keep(s, fork, &chain);
    else
        kt_chain_free(&chain);
}

uint64_t kt_prefix_promise(const struct kt_scheduler *s, const struct kt_ticket *runner,
                           const struct kt_ticket *ticket)
{
    uint64_t common = kt_chain_common(&runner->chain, &ticket->chain), most = most_shared(ticket);
    uint64_t last = whole_pages(common < most ? common : most), promise = 0;
    if (s->params.no_prefixes || runner->request.on_hidden || last <= runner->n_done)
        return 0;
    if (!s->has_states)
        return last;
    for (uint64_t at = next_point(s, runner, runner->n_done); at <= last; at = next_point(s, runner, at))
        promise = at;
    return promise;
}

/* ---- dropping ---- */

bool kt_prefix_drop(struct kt_scheduler *s, const struct kt_prefix *spared)
{
    uint32_t oldest = s->n_prefixes;
    for (uint32_t i = 0; i < s->n_prefixes; i++)
        if (s->prefixes[i] != spared &&
            (oldest == s->n_prefixes || s->prefixes[i]->used < s->prefixes[oldest]->used))
            oldest = i;
    if (oldest == s->n_prefixes)
        return false;
    remove_at(s, oldest);
    s->stats.prefixes_dropped++;
    return true;
}

void kt_prefix_forget(struct kt_scheduler *s, const struct kt_chain *chain)
{
    for (uint32_t i = s->n_prefixes; i-- > 0;)
        if (kt_chain_common(chain, &s->prefixes[i]->chain) > 0 || begins_with(chain, &s->prefixes[i]->chain))
            remove_at(s, i);
}

struct kt_session *kt_prefix_take(struct kt_scheduler *s, struct kt_prefix *prefix, uint64_t n_tokens)
{
    struct kt_session *session = prefix->session;
    if (prefix->chain.n_ids != n_tokens && kt_session_truncate(session, n_tokens, NULL) != KT_OK)
        return NULL;
    prefix->session = NULL;
    for (uint32_t i = 0; i < s->n_prefixes; i++)
        if (s->prefixes[i] == prefix) {
            remove_at(s, i);
            break;
        }
    return session;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* sequence.c - sequences: which pages they have. */
#include "core/base/error.h"
#include "core/base/size.h"
#include "core/kv/cache.h"
#include "core/kv/free.h"
#include "core/kv/pages.h"
#include "core/kv/rows.h"

#include <inttypes.h>
#include <string.h>

static enum kt_status lock_cache(struct kt_kv *kv, struct kt_error *error)
{
    return kt_lock_take(&kv->lock) ? KT_OK : kt_lock_fail("the cache", error);
}

static enum kt_status unlock_cache(struct kt_kv *kv, enum kt_status status)
{
    kt_lock_give(&kv->lock);
    return status;
}

static enum kt_status fail_pages(const struct kt_kv *kv, uint64_t wanted, uint32_t free,
                                 struct kt_error *error)
{
    return kt_fail(error, KT_E_NOMEM,
                   "%" PRIu64 " pages of %d tokens are wanted, and %" PRIu32 " of %" PRIu32
                   " are free: close or truncate sequences, or bound the cache higher",
                   wanted, KT_KV_PAGE, free, kv->n_pages);
}

/* ---- opening and closing: the lock is held ---- */

static enum kt_status take_slot(struct kt_kv *kv, struct kt_kv_sequence **sequence, struct kt_error *error)
{
    if (kv->n_closed == 0)
        return kt_fail(error, KT_E_NOMEM,
                       "cannot open a sequence: all %" PRIu32
                       " are in use; close one, or raise max_sequences",
                       kv->max_sequences);
    *sequence = &kv->sequence[kv->closed[--kv->n_closed]];
    (*sequence)->n_pages = 0;
    (*sequence)->tokens = (*sequence)->reserved = 0;
    return KT_OK;
}

enum kt_status kt_kv_sequence_open(struct kt_kv *kv, struct kt_kv_sequence **sequence, struct kt_error *error)
{
    if (!kv || !sequence)
        return kt_fail(error, KT_E_INVALID, "kt_kv_sequence_open: kv and sequence must not be NULL");
    enum kt_status status = lock_cache(kv, error);
    if (status != KT_OK)
        return status;
    status = take_slot(kv, sequence, error);
    if (status == KT_OK)
        kt_kv_states_set(kv, (*sequence)->slot, (*sequence)->slot);
    return unlock_cache(kv, status);
}

void kt_kv_sequence_close(struct kt_kv_sequence *sequence)
{
    if (!sequence)
        return;
    struct kt_kv *kv = sequence->kv;
    if (lock_cache(kv, NULL) != KT_OK)
        return;
    kt_kv_pages_drop(kv, sequence->pages, sequence->n_pages);
    sequence->n_pages = 0;
    kv->closed[kv->n_closed++] = sequence->slot;
    bool last = kv->destroyed && kv->n_closed == kv->max_sequences;
    (void)unlock_cache(kv, KT_OK);
    if (last)
        kt_kv_free(kv);
}

void kt_kv_sequence_info(const struct kt_kv_sequence *sequence, struct kt_kv_sequence_info *info)
{
    struct kt_kv *kv = sequence->kv;
    bool locked = lock_cache(kv, NULL) == KT_OK; /* else no other thread changes anything any more */
    *info = (struct kt_kv_sequence_info){
        .tokens = sequence->tokens,
        .room = sequence->reserved,
        .pages = sequence->pages,
        .n_pages = sequence->n_pages,
        .shared_pages = sequence->n_pages - kt_kv_pages_unshared(kv, sequence->pages, sequence->n_pages),
    };
    if (locked)
        (void)unlock_cache(kv, KT_OK);
}

/* ---- growing ---- */

static bool is_shared(const struct kt_kv_sequence *sequence, uint64_t page)
{
    return sequence->kv->references[sequence->pages[page]] > 1;
}

/* Pages so that tokens up to `end` have room; the last page, if it is not full, is made the sequence's own.
 */
static enum kt_status grow(struct kt_kv_sequence *sequence, uint64_t end, struct kt_error *error)
{
    struct kt_kv *kv = sequence->kv;
    uint64_t last = sequence->tokens / KT_KV_PAGE;
    bool copy = sequence->tokens % KT_KV_PAGE != 0 && is_shared(sequence, last);
    uint64_t wanted = kt_kv_pages_for(end);
    uint64_t more = wanted > sequence->n_pages ? wanted - sequence->n_pages : 0;
    if (more + copy > kv->n_free)
        return fail_pages(kv, more + copy, kv->n_free, error);
    if (copy)
        kt_kv_page_copy(kv, &sequence->pages[last]);
    kt_kv_pages_take(kv, sequence->pages + sequence->n_pages, (uint32_t)more);
    sequence->n_pages += (uint32_t)more;
    return KT_OK;
}

enum kt_status kt_kv_sequence_reserve(struct kt_kv_sequence *sequence, uint64_t position, uint64_t n_tokens,
                                      struct kt_error *error)
{
    if (!sequence)
        return kt_fail(error, KT_E_INVALID, "kt_kv_sequence_reserve: sequence must not be NULL");
    struct kt_kv *kv = sequence->kv;
    uint64_t end;
    if (position != sequence->tokens)
        return kt_fail(error, KT_E_STATE,
                       "position is %" PRIu64 ", but must be %" PRIu64
                       ", the number of tokens in the sequence",
                       position, sequence->tokens);
    if (n_tokens <= sequence->reserved)
        return KT_OK;
    if (!kt_add(position, n_tokens, &end) || end > kv->max_tokens)
        return kt_fail(error, KT_E_RANGE,
                       "%" PRIu64 " tokens at position %" PRIu64 ": a sequence has at most %" PRIu64
                       " (max_tokens)",
                       n_tokens, position, kv->max_tokens);
    enum kt_status status = lock_cache(kv, error);
    if (status != KT_OK)
        return status;
    status = grow(sequence, end, error);
    if (status == KT_OK)
        sequence->reserved = n_tokens;
    return unlock_cache(kv, status);
}

enum kt_status kt_kv_sequence_commit(struct kt_kv_sequence *sequence, uint64_t n_tokens,
                                     struct kt_error *error)
{
    if (!sequence)
        return kt_fail(error, KT_E_INVALID, "kt_kv_sequence_commit: sequence must not be NULL");
    if (n_tokens > sequence->reserved)
        return kt_fail(error, KT_E_STATE,
                       "%" PRIu64 " tokens are to be committed at position %" PRIu64 ", and %" PRIu64
                       " are reserved",
                       n_tokens, sequence->tokens, sequence->reserved);
    sequence->tokens += n_tokens;
    sequence->reserved -= n_tokens;
    return KT_OK;
}

/* ---- shortening and forking ---- */

/* May this be made of the sequence, which may have states? */
static enum kt_status check_length(const struct kt_kv_sequence *sequence, uint64_t n_tokens,
                                   struct kt_error *error)
{
    if (n_tokens > sequence->tokens)
        return kt_fail(error, KT_E_RANGE, "the first %" PRIu64 " tokens: the sequence has %" PRIu64, n_tokens,
                       sequence->tokens);
    if (sequence->kv->declared.state_bytes && n_tokens && n_tokens != sequence->tokens)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "the first %" PRIu64 " of %" PRIu64
                       " tokens: states cannot be truncated; fork the sequence at positions to return to, or "
                       "keep 0 tokens",
                       n_tokens, sequence->tokens);
    return KT_OK;
}

static enum kt_status cut(struct kt_kv_sequence *sequence, uint64_t n_tokens, struct kt_error *error)
{
    struct kt_kv *kv = sequence->kv;
    uint32_t keep = (uint32_t)kt_kv_pages_for(n_tokens), n_rest = sequence->n_pages - keep;
    bool partial = n_tokens % KT_KV_PAGE != 0;
    bool later = n_tokens < sequence->tokens || sequence->reserved > 0;
    bool copy = partial && later && is_shared(sequence, keep - 1);
    const uint32_t *rest = sequence->pages + keep;
    if (copy && kv->n_free == 0 && kt_kv_pages_unshared(kv, rest, n_rest) == 0)
        return fail_pages(kv, 1, 0, error);
    kt_kv_pages_drop(kv, rest, n_rest);
    sequence->n_pages = keep;
    if (copy)
        kt_kv_page_copy(kv, &sequence->pages[keep - 1]);
    if (partial && later)
        kt_kv_rows_clear(sequence, n_tokens, keep);
    if (n_tokens == 0) /* the caller may have changed them before the first token, too */
        kt_kv_states_set(kv, sequence->slot, sequence->slot);
    sequence->tokens = n_tokens;
    sequence->reserved = 0;
    return KT_OK;
}

enum kt_status kt_kv_sequence_truncate(struct kt_kv_sequence *sequence, uint64_t n_tokens,
                                       struct kt_error *error)
{
    if (!sequence)
        return kt_fail(error, KT_E_INVALID, "kt_kv_sequence_truncate: sequence must not be NULL");
    enum kt_status status = check_length(sequence, n_tokens, error);
    if (status != KT_OK)
        return status;
    status = lock_cache(sequence->kv, error);
    if (status != KT_OK)
        return status;
    return unlock_cache(sequence->kv, cut(sequence, n_tokens, error));
}

static enum kt_status fork_locked(struct kt_kv_sequence *sequence, uint64_t n_tokens,
                                  struct kt_kv_sequence **fork, struct kt_error *error)
{
    struct kt_kv *kv = sequence->kv;
    struct kt_kv_sequence *made = NULL;
    uint32_t n_pages = (uint32_t)kt_kv_pages_for(n_tokens);
    bool later = n_tokens < sequence->tokens || sequence->reserved > 0;
    bool copy = n_tokens % KT_KV_PAGE != 0 && later;
    if (copy && kv->n_free == 0)
        return fail_pages(kv, 1, 0, error);
    enum kt_status status = take_slot(kv, &made, error);
    if (status != KT_OK)
        return status;
    memcpy(made->pages, sequence->pages, n_pages * sizeof *made->pages);
    made->n_pages = n_pages;
    made->tokens = n_tokens;
    kt_kv_pages_share(kv, made->pages, n_pages);
    if (copy) {
        kt_kv_page_copy(kv, &made->pages[n_pages - 1]);
        kt_kv_rows_clear(made, n_tokens, n_pages);
    }
    kt_kv_states_set(kv, made->slot, n_tokens == sequence->tokens ? sequence->slot : made->slot);
    *fork = made;
    return KT_OK;
}

enum kt_status kt_kv_sequence_fork(struct kt_kv_sequence *sequence, uint64_t n_tokens,
                                   struct kt_kv_sequence **fork, struct kt_error *error)
{
    if (!sequence || !fork)
        return kt_fail(error, KT_E_INVALID, "kt_kv_sequence_fork: sequence and fork must not be NULL");
    enum kt_status status = check_length(sequence, n_tokens, error);
    if (status != KT_OK)
        return status;
    status = lock_cache(sequence->kv, error);
    if (status != KT_OK)
        return status;
    return unlock_cache(sequence->kv, fork_locked(sequence, n_tokens, fork, error));
}

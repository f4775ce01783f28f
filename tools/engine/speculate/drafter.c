/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/speculate/drafter.h"

/* What is hoped for at first, by source, and how many tokens that counts for. */
static const double first[KT_SOURCES] = {0.35, 0.5, 0.65, 0.8, 0.7};
#define FIRST_TRIES 2
/* An older token counts less by this with each draft. */
#define FADES 0.9
/* What is only known where it is tried goes back by this to what is hoped for at first. */
#define REVIVES 0.01

void kt_drafter_init(struct kt_drafter *d)
{
    *d = (struct kt_drafter){.n_draft = 0};
    for (int i = 0; i < KT_SOURCES; i++) {
        d->hits[i] = FIRST_TRIES * first[i];
        d->tries[i] = FIRST_TRIES;
    }
}

void kt_drafter_free(struct kt_drafter *d)
{
    kt_lookup_free(&d->text);
}

static void judge(struct kt_drafter *d, const int32_t *ids, size_t n_ids)
{
    uint32_t right = 0;
    while (right < d->n_draft && right < n_ids && d->draft[right] == ids[right])
        right++;
    bool wrong = right < d->n_draft && right < n_ids;
    d->hits[d->source] = FADES * d->hits[d->source] + right;
    d->tries[d->source] = FADES * d->tries[d->source] + right + wrong;
    d->n_draft = 0;
}

bool kt_drafter_add(struct kt_drafter *d, const int32_t *ids, size_t n_ids)
{
    if (d->n_draft > 0 && n_ids > 0)
        judge(d, ids, n_ids);
    if (d->source != KT_SOURCE_MTP) { /* what was wrong long ago may be tried again */
        d->hits[KT_SOURCE_MTP] += REVIVES * (FIRST_TRIES * first[KT_SOURCE_MTP] - d->hits[KT_SOURCE_MTP]);
        d->tries[KT_SOURCE_MTP] += REVIVES * (FIRST_TRIES - d->tries[KT_SOURCE_MTP]);
    }
    return kt_lookup_add(&d->text, ids, n_ids);
}

bool kt_drafter_look(struct kt_drafter *d)
{
    d->n_draft = kt_lookup_find(&d->text, KT_MOST_DRAFTS, d->draft, &d->source);
    return d->n_draft > 0;
}

void kt_drafter_set(struct kt_drafter *d, int32_t id)
{
    d->draft[0] = id;
    d->n_draft = 1;
    d->source = KT_SOURCE_MTP;
}

double kt_drafter_hope(const struct kt_drafter *d, uint32_t source)
{
    return d->hits[source] / d->tries[source];
}

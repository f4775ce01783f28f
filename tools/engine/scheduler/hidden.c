/* SPDX-License-Identifier: Apache-2.0 */
/* hidden.c - hidden states of prompts, for requests that want these and no answer. */
#include "tools/engine/base/fail.h"
#include "tools/engine/scheduler/internal.h"

#include <math.h>
#include <stdlib.h>

enum kt_status kt_hidden_prepare(struct kt_scheduler *s, struct kt_error *error)
{
    uint64_t n_rows =
        s->params.slice_tokens > s->params.max_running ? s->params.slice_tokens : s->params.max_running;
    pthread_mutex_lock(&s->lock);
    if (!s->states)
        s->states = malloc(n_rows * s->info.hidden_size * sizeof(*s->states));
    bool done = s->states != NULL;
    pthread_mutex_unlock(&s->lock);
    return done ? KT_OK : kt_engine_fail(error, KT_E_NOMEM, "no memory for hidden states");
}

uint32_t kt_hidden_list(struct kt_scheduler *s, const struct kt_ticket *t, uint32_t at, uint32_t n_rows)
{
    uint64_t end = t->n_done + t->n_step, first = t->n_hidden > t->n_done ? t->n_hidden : t->n_done;
    uint32_t n = t->request.on_hidden && first < end ? (uint32_t)(end - first) : 0;
    s->hidden[at] = (struct kt_hidden){.n_rows = n};
    if (n > 0)
        s->hidden[at].after = s->states + n_rows * s->info.hidden_size;
    return n_rows + n;
}

static bool is_finite(const float *values, uint64_t n)
{
    bool finite = true;
    for (uint64_t i = 0; i < n; i++)
        finite = finite && isfinite(values[i]);
    return finite;
}

enum kt_status kt_hidden_deliver(struct kt_scheduler *s, struct kt_ticket *t, const struct kt_hidden *hidden)
{
    const struct kt_request *r = &t->request;
    uint64_t size = s->info.hidden_size, index = t->n_done - hidden->n_rows;
    for (uint32_t i = 0; i < hidden->n_rows; i++, index++) {
        const float *row = hidden->after + i * size;
        if (!is_finite(row, size))
            return kt_engine_fail(&t->error, KT_E_BACKEND,
                                  "the hidden state of token %llu of the prompt is not finite",
                                  (unsigned long long)index);
        r->on_hidden(r->data, index, row);
        t->n_hidden++;
    }
    return KT_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.c - the next tokens of sessions. They are computed in slices of at most max_batch tokens, in which
 * tokens of several sessions may stand; within a slice, layer after layer.
 */
#include "tools/engine/base/fail.h"
#include "tools/engine/model/model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- layers ---- */

static enum kt_status norm_mixer(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    return kt_slice_norm_tokens(s, &s->block->places[KT_HALF_MIXER].before, range, error);
}

enum kt_status kt_block_run(const struct kt_slice *s, struct kt_error *error)
{
    enum kt_status status = kt_slice_run_tokens(s, norm_mixer, error);
    if (status == KT_OK)
        status = s->block->mixer->run(s, error);
    if (status == KT_OK)
        status = kt_slice_settle(s, KT_HALF_MIXER, error);
    if (status == KT_OK)
        status = kt_ffn_run(s, error);
    if (status == KT_OK)
        status = kt_slice_settle(s, KT_HALF_FFN, error);
    if (status == KT_OK)
        status = kt_ffn_add_kept(s, error);
    return status == KT_OK && s->block->input ? kt_layer_input_run(s, error) : status;
}

/* ---- hidden states ---- */

/* Of a piece, those tokens that are among the last n_rows of the step: the first one, counted in the slice,
 * and how many. */
static uint32_t count_wanted(const struct kt_piece *piece, uint32_t n_rows, uint32_t *first)
{
    uint32_t begin = piece->step->n_ids - n_rows; /* of the step */
    uint32_t from = piece->first > begin ? piece->first : begin;
    *first = piece->begin + (from - piece->first);
    return from < piece->first + piece->n ? piece->first + piece->n - from : 0;
}

/* The place of a slice's token among the last n_rows of its step. */
static uint64_t place_of(const struct kt_piece *piece, uint32_t n_rows, uint32_t token)
{
    return token - piece->begin + piece->first + n_rows - piece->step->n_ids;
}

static enum kt_status copy_hidden(const struct kt_slice *s, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    uint64_t size = m->config.hidden_size;
    enum kt_status status = KT_OK;
    for (uint32_t i = 0; i < s->n_pieces && status == KT_OK; i++) {
        const struct kt_hidden *hidden = s->pieces[i].hidden;
        uint32_t first, n = hidden ? count_wanted(&s->pieces[i], hidden->n_rows, &first) : 0;
        if (n == 0)
            continue;
        const float *x = m->buffers[KT_BUFFER_X] + first * size;
        uint64_t at = place_of(&s->pieces[i], hidden->n_rows, first) * size;
        if (hidden->before)
            memcpy(hidden->before + at, x, n * size * sizeof(*x));
        if (hidden->after)
            status = kt_slice_norm_hidden(m, x, &m->final_norm, hidden->after + at, n, error);
    }
    return status;
}

/* ---- logits ---- */

/* Those that are wanted of a piece. */
static uint32_t count_logits(const struct kt_piece *piece, uint32_t *first)
{
    return count_wanted(piece, piece->step->n_logits, first);
}

/* Where a piece's wanted logits go. */
static float *logits_of(const struct kt_model *m, const struct kt_piece *piece, uint32_t first)
{
    return piece->step->logits + place_of(piece, piece->step->n_logits, first) * m->vocabulary;
}

/* Returns true if the logits of all steps are contiguous; those of each slice then are, too. */
static bool stand_together(const struct kt_model *m, const struct kt_step *steps, uint32_t n_steps)
{
    const float *next = NULL;
    for (uint32_t i = 0; i < n_steps; i++) {
        if (steps[i].n_logits == 0)
            continue;
        if (next && steps[i].logits != next)
            return false;
        next = steps[i].logits + steps[i].n_logits * m->vocabulary;
    }
    return true;
}

/* Room for the logits of n tokens that do not go to one place. */
static float *room_for(struct kt_model *m, uint64_t n)
{
    if (m->n_logits < n) {
        free(m->logits);
        m->logits = malloc(n * m->vocabulary * sizeof(float));
        m->n_logits = m->logits ? n : 0;
    }
    return m->logits;
}

/* The rows of all pieces go together through the head, whose weights are then read once. */
static enum kt_status run_head(const struct kt_slice *s, struct kt_error *error)
{
    struct kt_model *m = s->model;
    float *x = m->buffers[KT_BUFFER_X], *h = m->buffers[KT_BUFFER_H], *logits = NULL;
    uint64_t size = m->config.hidden_size, vocabulary = m->vocabulary;
    uint32_t n = 0, first, wanted;
    bool together = true; /* contiguous in the caller's memory */
    enum kt_status status = KT_OK;
    for (uint32_t i = 0; i < s->n_pieces && status == KT_OK; i++) {
        if ((wanted = count_logits(&s->pieces[i], &first)) == 0)
            continue;
        float *to = logits_of(m, &s->pieces[i], first);
        if (n == 0)
            logits = to;
        together = together && to == logits + n * vocabulary;
        status = kt_slice_norm_hidden(m, x + first * size, &m->final_norm, h + n * size, wanted, error);
        n += wanted;
    }
    if (status != KT_OK || n == 0)
        return status;
    if (!together)
        logits = m->logits; /* kt_model_step has made room for them */
    const struct kt_linear_output head = kt_slice_output(m->head, logits, false);
    struct kt_slice rows = *s;
    rows.n_tokens = n;
    double before = m->times.linears;
    status = kt_slice_multiply(&rows, h, &head, 1, error);
    if (status == KT_OK)
        status = kt_slice_cap(s, logits, n, error);
    m->times.head += m->times.linears - before;
    m->times.linears = before;
    for (uint32_t i = 0; i < s->n_pieces && !together; i++) {
        if ((wanted = count_logits(&s->pieces[i], &first)) == 0)
            continue;
        memcpy(logits_of(m, &s->pieces[i], first), logits, wanted * vocabulary * sizeof(*logits));
        logits += wanted * vocabulary;
    }
    return status;
}

/* ---- slices ---- */

static enum kt_status run_slice(struct kt_slice *s, struct kt_error *error)
{
    struct kt_model *m = s->model;
    for (uint32_t i = 0; i < s->n_pieces; i++) {
        const struct kt_piece *piece = &s->pieces[i];
        for (uint32_t t = 0; t < piece->n; t++) {
            m->ids[piece->begin + t] = piece->step->ids[piece->first + t];
            m->positions[piece->begin + t] = (uint32_t)(piece->position + t);
        }
    }
    enum kt_status status = kt_slice_run_tokens(s, kt_slice_embed, error);
    if (status == KT_OK && m->inputs)
        status = kt_inputs_prepare(s, error);
    for (uint32_t i = 0; i < m->config.n_layers && status == KT_OK; i++) {
        s->layer = i;
        s->block = &m->blocks[i];
        status = kt_block_run(s, error);
    }
    if (status == KT_OK)
        status = copy_hidden(s, error);
    if (status == KT_OK)
        status = run_head(s, error);
    if (status == KT_OK && m->mtp)
        kt_mtp_keep(s);
    for (uint32_t i = 0; i < s->n_pieces && status == KT_OK; i++)
        status = kt_kv_sequence_commit(s->pieces[i].step->session->sequence, s->pieces[i].n, error);
    m->times.n_tokens += s->n_tokens;
    return status;
}

static enum kt_status check_step(const struct kt_model *m, const struct kt_step *steps,
                                 const struct kt_hidden *hidden, uint32_t at, struct kt_error *error)
{
    const struct kt_step *step = &steps[at];
    if (!step->session || step->session->model != m || (!step->ids && step->n_ids > 0) ||
        step->n_logits > step->n_ids || (step->n_logits > 0 && !step->logits))
        return kt_engine_fail(
            error, KT_E_INVALID,
            "kt_model_step: step %u has no session of this model, no ids, or more logits than ids", at);
    if (hidden && hidden[at].n_rows > step->n_ids)
        return kt_engine_fail(error, KT_E_INVALID,
                              "kt_model_step_hidden: hidden states of %u tokens of the %u of step %u",
                              hidden[at].n_rows, step->n_ids, at);
    for (uint32_t i = 0; i < at; i++)
        if (steps[i].session == step->session)
            return kt_engine_fail(error, KT_E_INVALID, "kt_model_step: steps %u and %u are of one session", i,
                                  at);
    enum kt_status status = kt_session_check_states(step->session, "kt_model_step", error);
    if (status == KT_OK && m->mtp)
        status = kt_mtp_prepare(step->session, error);
    if (status != KT_OK)
        return status;
    for (uint32_t i = 0; i < step->n_ids; i++)
        if (step->ids[i] < 0 || (uint64_t)step->ids[i] >= m->vocabulary)
            return kt_engine_fail(error, KT_E_RANGE,
                                  "id %d, number %u of step %u, is not a token of the model, which has "
                                  "%" PRIu64,
                                  step->ids[i], i, at, m->vocabulary);
    uint64_t tokens = kt_session_tokens(step->session);
    if (step->n_ids > m->params.max_tokens - tokens)
        return kt_engine_fail(error, KT_E_RANGE,
                              "%u tokens after %" PRIu64 " are more than the %" PRIu64
                              " that a session may have",
                              step->n_ids, tokens, m->params.max_tokens);
    return KT_OK;
}

/* Drops the room of sessions whose tokens were not computed. */
static void drop_room(const struct kt_step *steps, uint32_t n_steps)
{
    for (uint32_t i = 0; i < n_steps; i++)
        (void)kt_kv_sequence_truncate(steps[i].session->sequence, kt_session_tokens(steps[i].session), NULL);
}

/* Layers that keep states may have taken in tokens of a slice that failed; without tokens drop_room zeroes
 * them. */
static void mark_spoilt(const struct kt_slice *s)
{
    struct kt_kv_info cache;
    kt_kv_info(s->model->kv, &cache);
    for (uint32_t i = 0; i < s->n_pieces && cache.state_bytes > 0; i++)
        s->pieces[i].step->session->spoilt = kt_session_tokens(s->pieces[i].step->session) > 0;
}

static enum kt_status run_slices(struct kt_model *m, const struct kt_step *steps,
                                 const struct kt_hidden *hidden, uint32_t n_steps, struct kt_piece *pieces,
                                 struct kt_error *error)
{
    struct kt_slice slice = {.model = m, .pieces = pieces};
    uint32_t at = 0, first = 0; /* of the steps, of that step's ids */
    enum kt_status status = KT_OK;
    while (at < n_steps && status == KT_OK) {
        slice.n_pieces = slice.n_tokens = 0;
        while (at < n_steps && slice.n_tokens < m->params.max_batch) {
            uint32_t left = steps[at].n_ids - first, room = m->params.max_batch - slice.n_tokens;
            uint32_t n = left < room ? left : room;
            if (n > 0)
                pieces[slice.n_pieces++] =
                    (struct kt_piece){&steps[at], hidden ? &hidden[at] : NULL,         first, slice.n_tokens,
                                      n,          kt_session_tokens(steps[at].session)};
            slice.n_tokens += n;
            first += n;
            if (first == steps[at].n_ids) {
                at++;
                first = 0;
            }
        }
        if (slice.n_tokens > 0)
            status = run_slice(&slice, error);
        if (status != KT_OK)
            mark_spoilt(&slice);
    }
    return status;
}

enum kt_status kt_model_step(struct kt_model *model, const struct kt_step *steps, uint32_t n_steps,
                             struct kt_error *error)
{
    return kt_model_step_hidden(model, steps, NULL, n_steps, error);
}

enum kt_status kt_model_step_hidden(struct kt_model *model, const struct kt_step *steps,
                                    const struct kt_hidden *hidden, uint32_t n_steps, struct kt_error *error)
{
    if (!model || (!steps && n_steps > 0))
        return kt_engine_fail(error, KT_E_INVALID, "kt_model_step: NULL");
    enum kt_status status = KT_OK;
    for (uint32_t i = 0; i < n_steps && status == KT_OK; i++)
        status = check_step(model, steps, hidden, i, error);
    struct kt_piece *pieces = status == KT_OK ? calloc((size_t)n_steps + 1, sizeof(*pieces)) : NULL;
    if (status == KT_OK && !pieces)
        status = kt_engine_fail(error, KT_E_NOMEM, "no memory for %u steps", n_steps);
    if (status != KT_OK)
        return status;
    uint64_t n_logits = 0;
    for (uint32_t i = 0; i < n_steps; i++)
        n_logits += steps[i].n_logits;
    n_logits = n_logits < model->params.max_batch ? n_logits : model->params.max_batch;
    if (!stand_together(model, steps, n_steps) && !room_for(model, n_logits)) {
        free(pieces);
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for the logits of %" PRIu64 " tokens", n_logits);
    }
    uint32_t n_reserved = 0;
    double start = kt_slice_now();
    for (; n_reserved < n_steps && status == KT_OK; n_reserved++)
        status = kt_kv_sequence_reserve(steps[n_reserved].session->sequence,
                                        kt_session_tokens(steps[n_reserved].session), steps[n_reserved].n_ids,
                                        error);
    if (status == KT_OK)
        status = run_slices(model, steps, hidden, n_steps, pieces, error);
    if (status != KT_OK)
        drop_room(steps, n_reserved);
    model->times.total += kt_slice_now() - start;
    free(pieces);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mtp.c - the model's own block for the token after the next: of the hidden state of a token and of the token
 * that follows it, both normed, a matrix makes the input of a layer, whose output the model's head makes
 * logits of. So it stands a token behind the session, and has a cache of its own.
 *
 * It runs when it is asked and not with every step: a session keeps the hidden states of its last tokens,
 * and the block takes in those that it has not seen yet. Where they are gone (a long prompt, a session that
 * was restored), it begins again with what is there. Its keys are rotated by their place in its own cache,
 * as only differences count.
 */
#include "tools/engine/base/fail.h"
#include "tools/engine/model/model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Tokens whose hidden states a session keeps: what the block sees of a prompt. */
#define KEPT 64

struct kt_mtp {
    struct kt_block block;
    struct kt_linear *joint; /* of [token | hidden state] */
    struct kt_linear *head;  /* NULL: the model's */
    float *token_norm, *hidden_norm, *norm;
};

/* Tokens begin .. end - 1 of a session, at place token % KEPT, and how far the block is: its sequence has
 * rows for the session's tokens from `base` on. */
struct kt_tail {
    struct kt_kv_sequence *sequence;
    uint64_t begin, end, base;
    int32_t next; /* what the last row was told to come next, if that was not in the session */
    int32_t ids[KEPT];
    float hidden[]; /* [KEPT][hidden_size] */
};

static uint64_t rows_of(const struct kt_tail *tail)
{
    struct kt_kv_sequence_info info;
    kt_kv_sequence_info(tail->sequence, &info);
    return info.tokens;
}

static void keep_rows(struct kt_tail *tail, uint64_t n)
{
    if (rows_of(tail) > n)
        (void)kt_kv_sequence_truncate(tail->sequence, n, NULL);
}

/* ---- loading ---- */

static void name_part(const struct kt_model *m, const char *gguf, const char *json, const char *mtp,
                      char *name)
{
    if (!m->config.is_gguf && m->config.family->names.json_mtp)
        (void)snprintf(name, KT_WEIGHT_NAME, "mtp.%s", mtp);
    else
        kt_weight_name(m, m->config.n_layers, gguf, json, name);
}

static enum kt_status load_head(struct kt_model *m, struct kt_error *error)
{
    const char *json = m->config.family->names.json_mtp_head;
    char name[KT_WEIGHT_NAME];
    struct kt_view view;
    if (!json)
        return KT_OK;
    name_part(m, "nextn.shared_head_head", json, NULL, name);
    enum kt_status status = kt_checkpoint_weight(m->checkpoint, name, &view, NULL, error);
    if (status == KT_E_NOT_FOUND)
        return KT_OK;
    return status == KT_OK
               ? kt_load_linear(m, name, m->vocabulary, m->config.hidden_size, &m->mtp->head, error)
               : status;
}

enum kt_status kt_mtp_load(struct kt_model *m, struct kt_error *error)
{
    const char *norm = m->config.family->names.json_mtp_norm;
    uint64_t size = m->config.hidden_size;
    struct kt_mtp *mtp = m->mtp = kt_model_alloc(m, 1, sizeof(*mtp));
    char name[KT_WEIGHT_NAME];
    if (!mtp)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a model");
    const struct {
        const char *gguf, *json, *mtp;
        float **out;
    } norms[] = {{"nextn.enorm", "enorm", "pre_fc_norm_embedding", &mtp->token_norm},
                 {"nextn.hnorm", "hnorm", "pre_fc_norm_hidden", &mtp->hidden_norm},
                 {"nextn.shared_head_norm", norm ? norm : "shared_head.norm", "norm", &mtp->norm}};
    enum kt_status status = KT_OK;
    for (size_t i = 0; i < sizeof(norms) / sizeof(norms[0]) && status == KT_OK; i++) {
        name_part(m, norms[i].gguf, norms[i].json, norms[i].mtp, name);
        status = kt_load_numbers(m, name, 1, size, norms[i].out, error);
    }
    name_part(m, "nextn.eh_proj", "eh_proj", "fc", name);
    if (status == KT_OK)
        status = kt_load_linear(m, name, size, 2 * size, &mtp->joint, error);
    if (status == KT_OK)
        status = load_head(m, error);
    kt_model_need(m, KT_BUFFER_JOINT, 2 * size);
    return status == KT_OK ? kt_block_load(m, m->config.n_layers, &mtp->block, error) : status;
}

/* ---- what sessions keep ---- */

uint64_t kt_mtp_session_size(const struct kt_model *m)
{
    return sizeof(struct kt_tail) + KEPT * m->config.hidden_size * sizeof(float);
}

static struct kt_tail *make_tail(const struct kt_model *m)
{
    struct kt_tail *tail = calloc(1, kt_mtp_session_size(m));
    if (tail && kt_kv_sequence_open(m->mtp_kv, &tail->sequence, NULL) != KT_OK) {
        free(tail);
        return NULL;
    }
    return tail;
}

enum kt_status kt_mtp_prepare(struct kt_session *session, struct kt_error *error)
{
    if (!session->tail)
        session->tail = make_tail(session->model);
    return session->tail ? KT_OK
                         : kt_engine_fail(error, KT_E_NOMEM, "no memory for the hidden states of a session");
}

void kt_mtp_close(struct kt_session *session)
{
    if (!session->tail)
        return;
    kt_kv_sequence_close(session->tail->sequence);
    free(session->tail);
    session->tail = NULL;
}

/* Blocks named mtp, of Qwen and Mellum, were trained on what the model's last norm gives, the others on what
 * it is given. */
static enum kt_status read_hidden(const struct kt_model *m, const float *x, float *out)
{
    uint64_t size = m->config.hidden_size;
    if (m->config.family->names.json_mtp)
        return kt_slice_norm_hidden(m, x, &m->final_norm, out, 1, NULL);
    memcpy(out, x, size * sizeof(*out));
    return KT_OK;
}

static void keep_piece(const struct kt_model *m, const struct kt_piece *piece)
{
    struct kt_tail *tail = piece->step->session->tail;
    uint64_t size = m->config.hidden_size, end = piece->position + piece->n;
    if (tail->end != piece->position)
        tail->begin = piece->position;
    /* The last row was told that another token comes. */
    if (tail->base + rows_of(tail) == piece->position && tail->next != piece->step->ids[piece->first])
        keep_rows(tail, rows_of(tail) > 0 ? rows_of(tail) - 1 : 0);
    for (uint32_t i = piece->n > KEPT ? piece->n - KEPT : 0; i < piece->n; i++) {
        uint64_t place = (piece->position + i) % KEPT;
        const float *x = m->buffers[KT_BUFFER_X] + (piece->begin + i) * size;
        tail->ids[place] = piece->step->ids[piece->first + i];
        if (read_hidden(m, x, tail->hidden + place * size) != KT_OK)
            tail->begin = piece->position + i + 1;
    }
    tail->end = end;
    if (end > KEPT && tail->begin < end - KEPT)
        tail->begin = end - KEPT;
}

void kt_mtp_keep(const struct kt_slice *slice)
{
    for (uint32_t i = 0; i < slice->n_pieces; i++)
        keep_piece(slice->model, &slice->pieces[i]);
}

/* A row needs the token behind its own. */
void kt_mtp_truncate(struct kt_session *session, uint64_t n_tokens)
{
    struct kt_tail *tail = session->tail;
    if (!tail || n_tokens >= tail->end)
        return;
    tail->end = n_tokens;
    if (tail->begin > n_tokens)
        tail->begin = n_tokens;
    keep_rows(tail, n_tokens > tail->base ? n_tokens - tail->base - 1 : 0);
}

void kt_mtp_fork(const struct kt_session *session, uint64_t n_tokens, struct kt_session *fork)
{
    const struct kt_model *m = session->model;
    const struct kt_tail *tail = session->tail;
    if (!tail || n_tokens < tail->begin || n_tokens > tail->end)
        return;
    size_t size = sizeof(*tail) + KEPT * m->config.hidden_size * sizeof(*tail->hidden);
    struct kt_tail *copy = malloc(size);
    if (!copy)
        return;
    memcpy(copy, tail, size);
    uint64_t rows = rows_of(tail);
    if (kt_kv_sequence_fork(tail->sequence, rows, &copy->sequence, NULL) != KT_OK) {
        free(copy);
        return;
    }
    fork->tail = copy;
    kt_mtp_truncate(fork, n_tokens);
}

/* ---- running ---- */

static enum kt_status join_rows(const struct kt_slice *s, const struct kt_tail *tail, uint64_t token,
                                struct kt_error *error)
{
    struct kt_model *m = s->model;
    uint64_t size = m->config.hidden_size;
    float *x = m->buffers[KT_BUFFER_X], *joint = m->buffers[KT_BUFFER_JOINT];
    enum kt_status status = kt_view_gather(&m->embedding, m->ids, s->n_tokens, KT_DTYPE_F32, x, 0, error);
    for (uint32_t i = 0; i < s->n_tokens && status == KT_OK; i++) {
        const float *hidden = tail->hidden + (token + i) % KEPT * size;
        status = kt_slice_norm(m, x + i * size, m->mtp->token_norm, joint + 2 * i * size, 1, 1, size, error);
        if (status == KT_OK)
            status =
                kt_slice_norm(m, hidden, m->mtp->hidden_norm, joint + (2 * i + 1) * size, 1, 1, size, error);
    }
    const struct kt_linear_output output = kt_slice_output(m->mtp->joint, x, false);
    return status == KT_OK ? kt_slice_multiply(s, joint, &output, 1, error) : status;
}

/* Rows of n tokens of the session, from `token` on; `next` follows its last token. */
static enum kt_status run_rows(struct kt_model *m, struct kt_session *behind, const struct kt_tail *tail,
                               uint64_t token, uint32_t n, int32_t next, struct kt_error *error)
{
    const struct kt_step step = {.session = behind, .n_ids = n};
    struct kt_piece piece = {.step = &step, .n = n, .position = token - tail->base};
    const struct kt_slice slice = {.model = m,
                                   .block = &m->mtp->block,
                                   .pieces = &piece,
                                   .n_pieces = 1,
                                   .n_tokens = n};
    for (uint32_t i = 0; i < n; i++) {
        m->ids[i] = token + i + 1 < tail->end ? tail->ids[(token + i + 1) % KEPT] : next;
        m->positions[i] = (uint32_t)(piece.position + i);
    }
    enum kt_status status = kt_kv_sequence_reserve(behind->sequence, piece.position, n, error);
    if (status == KT_OK)
        status = join_rows(&slice, tail, token, error);
    if (status == KT_OK)
        status = kt_block_run(&slice, error);
    if (status == KT_OK)
        status = kt_kv_sequence_commit(behind->sequence, n, error);
    if (status != KT_OK)
        (void)kt_kv_sequence_truncate(behind->sequence, piece.position, NULL);
    return status;
}

/* Logits of the slice's last row. */
static enum kt_status run_head(struct kt_model *m, uint32_t n, float *logits, struct kt_error *error)
{
    uint64_t size = m->config.hidden_size;
    const struct kt_slice slice = {.model = m, .n_tokens = 1};
    const struct kt_linear_output head =
        kt_slice_output(m->mtp->head ? m->mtp->head : m->head, logits, false);
    enum kt_status status = kt_slice_norm(m, m->buffers[KT_BUFFER_X] + (n - 1) * size, m->mtp->norm,
                                          m->buffers[KT_BUFFER_H], 1, 1, size, error);
    return status == KT_OK ? kt_slice_multiply(&slice, m->buffers[KT_BUFFER_H], &head, 1, error) : status;
}

static enum kt_status check(const struct kt_session *session, int32_t next, const float *logits,
                            struct kt_error *error)
{
    if (!session || !logits)
        return kt_engine_fail(error, KT_E_INVALID, "kt_session_draft: NULL");
    const struct kt_model *m = session->model;
    if (!m->mtp)
        return kt_engine_fail(error, KT_E_UNSUPPORTED,
                              "kt_session_draft: the model was opened without its next-token block, or has "
                              "none");
    if (next < 0 || (uint64_t)next >= m->vocabulary)
        return kt_engine_fail(error, KT_E_RANGE, "id %d is not a token of the model, which has %" PRIu64,
                              next, m->vocabulary);
    const struct kt_tail *tail = session->tail;
    if (!tail || tail->begin == tail->end || tail->end != kt_session_tokens(session))
        return kt_engine_fail(error, KT_E_STATE,
                              "kt_session_draft: no token of the session was computed yet");
    return kt_session_check_states(session, "kt_session_draft", error);
}

enum kt_status kt_session_draft(struct kt_session *session, int32_t next, float *logits,
                                struct kt_error *error)
{
    enum kt_status status = check(session, next, logits, error);
    if (status != KT_OK)
        return status;
    struct kt_model *m = session->model;
    struct kt_tail *tail = session->tail;
    struct kt_session behind = {.model = m, .sequence = tail->sequence};
    keep_rows(tail, tail->end - 1 > tail->base ? tail->end - 1 - tail->base : 0);
    uint64_t token = tail->base + rows_of(tail);
    if (token < tail->begin || rows_of(tail) == 0) {
        keep_rows(tail, 0);
        token = tail->base = tail->begin;
    }
    uint32_t n = 0;
    for (bool again = true; token < tail->end && status == KT_OK; token += n) {
        uint64_t left = tail->end - token;
        n = left < m->params.max_batch ? (uint32_t)left : m->params.max_batch;
        status = run_rows(m, &behind, tail, token, n, next, error);
        if (status == KT_E_NOMEM && again && rows_of(tail) > 0) { /* the cache is full: begin again */
            keep_rows(tail, 0);
            token = tail->base = tail->begin;
            again = false;
            n = 0;
            status = KT_OK;
        }
    }
    tail->next = next;
    return status == KT_OK ? run_head(m, n, logits, error) : status;
}

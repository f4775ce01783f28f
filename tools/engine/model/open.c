/* SPDX-License-Identifier: Apache-2.0 */
/* open.c - a model's life, and its sessions'. */
#include "tools/engine/base/fail.h"
#include "tools/engine/model/block/indexer.h"
#include "tools/engine/model/model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096 /* the smallest; larger ones are touched more than once */

struct bytes {
    uint64_t begin, end;
};

void kt_model_close(struct kt_model *model)
{
    if (!model)
        return;
    kt_model_free_owned(model);
    kt_kv_destroy(model->mtp_kv);
    kt_kv_destroy(model->kv);
    kt_assume_close(model);
    kt_engine_config_free(&model->config);
    free(model->logits);
    free(model);
}

/* ---- opening ---- */

/* Whole pages for each session. */
static uint64_t room_of_sessions(const struct kt_model_params *p)
{
    uint64_t pages = p->max_tokens / KT_KV_PAGE + (p->max_tokens % KT_KV_PAGE != 0), room;
    return __builtin_mul_overflow(pages * KT_KV_PAGE, p->max_sessions, &room) ? UINT64_MAX : room;
}

static enum kt_status take_params(struct kt_model *m, const struct kt_model_params *given,
                                  struct kt_error *error)
{
    const struct kt_model_params defaults = KT_MODEL_PARAMS_INIT;
    struct kt_model_params *p = &m->params;
    uint64_t longest = m->config.context_length;
    *p = defaults;
    if (given && given->struct_size < sizeof(given->struct_size))
        return kt_engine_fail(error, KT_E_INVALID, "kt_model_open: params->struct_size is %zu",
                              given->struct_size);
    if (given)
        memcpy(p, given, given->struct_size < sizeof(*p) ? given->struct_size : sizeof(*p));
    p->max_tokens = p->max_tokens ? p->max_tokens : longest < 4096 ? longest : 4096;
    p->max_sessions = p->max_sessions ? p->max_sessions : 1;
    p->cache_tokens = p->cache_tokens ? p->cache_tokens : room_of_sessions(p);
    p->max_batch = p->max_batch ? p->max_batch : 512;
    p->cache_dtype = p->cache_dtype ? p->cache_dtype : KT_DTYPE_BF16;
    if (p->max_batch > 1024 || p->max_sessions > 65536)
        return kt_engine_fail(error, KT_E_RANGE,
                              "max_batch is %u, at most 1024, and max_sessions %u, at most 65536",
                              p->max_batch, p->max_sessions);
    if (p->max_tokens > longest)
        return kt_engine_fail(error, KT_E_RANGE,
                              "%" PRIu64 " tokens requested, but the model supports %" PRIu64
                              "; request fewer",
                              p->max_tokens, longest);
    return KT_OK;
}

/* Plans the cache of n layers, or creates it, with this room. */
static enum kt_status make_layers(struct kt_model *m, uint32_t first, uint32_t n,
                                  const struct kt_model_params *room, const char *fingerprint,
                                  struct kt_kv **kv, struct kt_error *error)
{
    const struct kt_engine_config *c = &m->config;
    struct kt_kv_params params = KT_KV_PARAMS_INIT;
    struct kt_kv_layer *layers = calloc(n, sizeof(*layers));
    struct kt_kv_field *fields = calloc(n, KT_MIXER_FIELDS * sizeof(*fields));
    enum kt_status status =
        layers && fields ? KT_OK : kt_engine_fail(error, KT_E_NOMEM, "no memory for a model");
    for (uint32_t i = 0; i < n && status == KT_OK; i++) {
        struct kt_kv_field *own = fields + (size_t)i * KT_MIXER_FIELDS;
        layers[i].fields = own;
        layers[i].n_fields =
            kt_mixer_find(c->layers[first + i].mixer)->fields(c, first + i, m->params.cache_dtype, own);
    }
    params.layers = layers;
    params.n_layers = n;
    params.max_sequences = room->max_sessions;
    params.max_tokens = room->max_tokens;
    params.tokens = room->cache_tokens;
    params.model = fingerprint;
    struct kt_kv_info info;
    if (status == KT_OK && kv)
        status = kt_kv_create(m->context, &params, kv, error);
    else if (status == KT_OK && (status = kt_kv_plan(m->context, &params, &info, error)) == KT_OK) {
        m->plan.cache_size += info.bytes;
        m->plan.model.has_states |= info.state_bytes > 0;
    }
    free(fields);
    free(layers);
    return status;
}

/* Plans the cache, or (`creates`) creates it; that of the block that predicts is another one, as it has a
 * token less. */
static enum kt_status make_cache(struct kt_model *m, bool creates, struct kt_error *error)
{
    uint32_t n = m->config.n_layers;
    char fingerprint[34] = "";
    enum kt_status status =
        m->checkpoint ? kt_checkpoint_fingerprint(m->checkpoint, fingerprint, error) : KT_OK;
    if (status == KT_OK && m->expert_source != m->checkpoint) {
        fingerprint[16] = '+';
        status = kt_checkpoint_fingerprint(m->expert_source, fingerprint + 17, error);
    }
    if (status == KT_OK)
        status = make_layers(m, 0, n, &m->params, fingerprint, creates ? &m->kv : NULL, error);
    if (status == KT_OK && m->config.has_mtp)
        status = make_layers(m, n, 1, &m->params, fingerprint, creates ? &m->mtp_kv : NULL, error);
    return status;
}

/* Attention says what it works in once it stands on a cache: on one of a page, which is never touched. */
static enum kt_status plan_attention(struct kt_model *m, struct kt_error *error)
{
    struct kt_model_params small = m->params;
    struct kt_kv *kv = NULL, *mtp_kv = NULL;
    uint32_t n = m->config.n_layers;
    small.max_sessions = 1;
    small.max_tokens = small.cache_tokens = KT_KV_PAGE;
    enum kt_status status = make_layers(m, 0, n, &small, "", &kv, error);
    if (status == KT_OK && m->config.has_mtp)
        status = make_layers(m, n, 1, &small, "", &mtp_kv, error);
    if (status == KT_OK)
        status = kt_model_plan_attention(m, kv, mtp_kv, error);
    if (status == KT_OK)
        status = kt_indexer_plan(m, kv, error);
    kt_kv_destroy(mtp_kv);
    kt_kv_destroy(kv);
    return status;
}

/* Room for a slice, after every layer said how wide its rows are. */
static bool make_buffers(struct kt_model *m)
{
    size_t n = m->params.max_batch;
    kt_model_need(m, KT_BUFFER_X, m->config.hidden_size);
    kt_model_need(m, KT_BUFFER_H, m->config.hidden_size);
    for (int i = 0; i < KT_BUFFERS; i++)
        if (m->widths[i] > 0 && !(m->buffers[i] = kt_model_alloc(m, n, m->widths[i] * sizeof(float))))
            return false;
    m->experts = kt_model_alloc(m, n, m->config.top_k * sizeof(*m->experts) + 1);
    m->ids = kt_model_alloc(m, n, sizeof(*m->ids));
    m->positions = kt_model_alloc(m, n, sizeof(*m->positions));
    m->items = kt_model_alloc(m, kt_model_most_items(m), sizeof(*m->items));
    m->scratch = kt_model_alloc(m, m->n_threads * m->scratch_size + 64, 1);
    if (m->scratch)
        m->scratch += (64 - (uintptr_t)m->scratch % 64) % 64;
    return m->experts && m->ids && m->positions && m->items && m->scratch;
}

/* ---- what a model takes ---- */

/* What the model is, as far as it is known before weights are packed. */
static void describe(const struct kt_model *m, const struct kt_model_plan *plan, struct kt_model_info *info)
{
    *info = (struct kt_model_info){.family = m->config.family->name,
                                   .n_layers = m->config.n_layers,
                                   .n_experts = m->config.n_experts,
                                   .hidden_size = m->config.hidden_size,
                                   .vocabulary = m->vocabulary,
                                   .context_length = m->config.context_length,
                                   .max_tokens = m->params.max_tokens,
                                   .weight_size = plan->weight_size,
                                   .cache_size = plan->cache_size,
                                   .dense_bytes = m->dense_bytes,
                                   .expert_bytes = m->expert_bytes,
                                   .top_k = m->config.top_k,
                                   .n_weights = m->n_weights,
                                   .n_expert_weights = m->n_expert_weights,
                                   .has_states = info->has_states,
                                   .has_mtp = m->config.has_mtp};
}

/* Stores were made of layers, and need not have those of the block that predicts. */
static bool has_mtp_experts(const struct kt_model *m)
{
    struct kt_moe_info info;
    uint32_t n = m->config.n_layers;
    return m->config.layers[n].dense || m->assumed ||
           kt_checkpoint_moe(m->expert_source, n, &info, NULL) == KT_OK;
}

static void sum_up(struct kt_model *m)
{
    struct kt_model_plan *plan = &m->plan;
    plan->row_size = m->owned_size + m->params.n_logits * m->vocabulary * sizeof(float);
    if (m->config.has_mtp)
        plan->row_size += m->params.max_sessions * kt_mtp_session_size(m);
    for (uint32_t i = 0; i < plan->n_nodes; i++) {
        plan->buffer_size += plan->node[i].buffer_size;
        plan->row_size += kt_page_rest(plan->node[i].buffer_size);
    }
    plan->mapped_size += m->embedding.size + (m->inputs ? kt_inputs_size(m->inputs) : 0);
    plan->total =
        plan->weight_size + plan->cache_size + plan->buffer_size + plan->row_size + plan->mapped_size;
    plan->max_tokens = m->params.max_tokens;
}

/* Weights of a checkpoint, or, without one, those that config.json says. */
struct source {
    struct kt_checkpoint *checkpoint;
    const char *json;
    uint64_t size;
};

static enum kt_status read_config(const struct source *source, struct kt_model *m, struct kt_error *error)
{
    if (source->checkpoint)
        return kt_engine_config_read(source->checkpoint, &m->config, error);
    enum kt_status status = kt_engine_config_read_text(source->json, source->size, &m->config, error);
    if (status == KT_OK && m->config.vocabulary == 0)
        return kt_engine_fail(error, KT_E_FORMAT, "config.json has no vocab_size");
    return status;
}

/* Makes all parts but those that are large, and sums up what these will take. */
static enum kt_status prepare(struct kt_context *context, const struct source *source,
                              const struct kt_model_params *params, struct kt_model *m,
                              struct kt_error *error)
{
    struct kt_context_info info;
    struct kt_checkpoint *checkpoint = source->checkpoint;
    struct kt_model_plan *plan = &m->plan;
    kt_context_info(context, &info);
    m->n_threads = info.n_threads;
    m->context = context;
    m->checkpoint = checkpoint;
    plan->n_nodes = info.n_nodes;
    plan->available = kt_memory_available();
    enum kt_status status = read_config(source, m, error);
    if (status == KT_OK) {
        plan->model.family = m->config.family->name;
        plan->model.context_length = m->config.context_length;
        status = take_params(m, params, error);
    }
    if (status == KT_OK && !checkpoint)
        status = kt_assume_open(m, source->json, source->size, error);
    m->expert_source = m->params.experts ? m->params.experts : checkpoint;
    if (status == KT_OK) {
        m->config.has_mtp = m->config.has_mtp && m->params.mtp && has_mtp_experts(m);
        status = kt_rows_find(context, NULL, &m->rows, error);
    }
    if (status == KT_OK)
        status = make_cache(m, false, error);
    if (status == KT_OK)
        status = kt_model_load(m, error);
    if (status == KT_OK)
        status = plan_attention(m, error);
    if (status == KT_OK && !make_buffers(m))
        status = kt_engine_fail(error, KT_E_NOMEM, "no memory for %u tokens at once", m->params.max_batch);
    sum_up(m);
    if (status == KT_OK)
        describe(m, plan, &plan->model);
    return status;
}

static enum kt_status check_memory(const struct kt_model_plan *plan, struct kt_error *error)
{
    const double giga = 1e9;
    if (plan->available == 0 || plan->total <= plan->available)
        return KT_OK;
    return kt_engine_fail(
        error, KT_E_NOMEM,
        "not enough memory: %.2f GB required (weights %.2f, cache %.2f, buffers %.2f), %.2f GB "
        "free; fewer tokens require a smaller cache",
        (double)plan->total / giga, (double)(plan->weight_size + plan->mapped_size) / giga,
        (double)plan->cache_size / giga, (double)(plan->buffer_size + plan->row_size) / giga,
        (double)plan->available / giga);
}

static enum kt_status make_plan(struct kt_context *context, const struct source *source,
                                const struct kt_model_params *params, struct kt_model_plan *plan,
                                struct kt_error *error)
{
    struct kt_model *m = calloc(1, sizeof(*m));
    *plan = (struct kt_model_plan){.total = 0};
    if (!m)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a model");
    enum kt_status status = prepare(context, source, params, m, error);
    *plan = m->plan;
    kt_model_close(m);
    return status;
}

enum kt_status kt_model_plan(struct kt_context *context, struct kt_checkpoint *checkpoint,
                             const struct kt_model_params *params, struct kt_model_plan *plan,
                             struct kt_error *error)
{
    if (!context || !checkpoint || !plan)
        return kt_engine_fail(error, KT_E_INVALID,
                              "kt_model_plan: context, checkpoint and plan must not be NULL");
    return make_plan(context, &(struct source){.checkpoint = checkpoint}, params, plan, error);
}

enum kt_status kt_model_plan_config(struct kt_context *context, const char *json, uint64_t size,
                                    const struct kt_model_params *params, struct kt_model_plan *plan,
                                    struct kt_error *error)
{
    if (!context || !json || !plan)
        return kt_engine_fail(error, KT_E_INVALID,
                              "kt_model_plan_config: context, json and plan must not be NULL");
    if (params && params->struct_size == sizeof(*params) && params->experts)
        return kt_engine_fail(error, KT_E_INVALID, "kt_model_plan_config: params->experts must be NULL");
    return make_plan(context, &(struct source){.json = json, .size = size}, params, plan, error);
}

/* A thread's part of `size` bytes, in whole pages. */
static struct bytes part_of(uint64_t size, uint32_t thread, uint32_t n_threads)
{
    uint64_t n = (size + PAGE - 1) / PAGE, begin = n * thread / n_threads * PAGE;
    uint64_t end = n * (thread + 1) / n_threads * PAGE;
    return (struct bytes){begin, end < size ? end : size};
}

/* Rows are allocated and the embedding is mapped: without this the first tokens would wait for the pages. */
static void touch(void *data, uint32_t thread, uint32_t n_threads)
{
    const struct kt_model *m = data;
    const volatile uint8_t *embedding = m->embedding.data;
    struct bytes part = part_of(m->embedding.size, thread, n_threads);
    for (uint64_t at = part.begin; at < part.end; at += PAGE)
        (void)embedding[at];
    for (int i = 0; i < KT_BUFFERS; i++) {
        part = part_of(m->widths[i] * m->params.max_batch * sizeof(float), thread, n_threads);
        if (part.end > part.begin)
            memset((uint8_t *)m->buffers[i] + part.begin, 0, part.end - part.begin);
    }
}

enum kt_status kt_model_open(struct kt_context *context, struct kt_checkpoint *checkpoint,
                             const struct kt_model_params *params, struct kt_model **model,
                             struct kt_error *error)
{
    if (!context || !checkpoint || !model)
        return kt_engine_fail(error, KT_E_INVALID,
                              "kt_model_open: context, checkpoint and model must not be NULL");
    struct kt_model *m = calloc(1, sizeof(*m));
    if (!m)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a model");
    enum kt_status status = prepare(context, &(struct source){.checkpoint = checkpoint}, params, m, error);
    if (status == KT_OK)
        status = check_memory(&m->plan, error);
    if (status == KT_OK)
        status = make_cache(m, true, error);
    if (status == KT_OK)
        status = kt_model_tell(m, error); /* reading the embedding may take a while */
    if (status == KT_OK)
        status = kt_context_run(context, touch, m, error);
    if (status == KT_OK)
        status = kt_model_finish(m, error);
    if (status == KT_OK)
        *model = m;
    else
        kt_model_close(m);
    return status;
}

void kt_model_info(const struct kt_model *model, struct kt_model_info *info)
{
    struct kt_kv_info cache, mtp = {.bytes = 0};
    kt_kv_info(model->kv, &cache);
    if (model->mtp_kv)
        kt_kv_info(model->mtp_kv, &mtp);
    *info = model->plan.model;
    info->weight_size = model->weight_size;
    info->cache_size = cache.bytes + mtp.bytes;
    info->instruction = model->instruction;
    info->level = model->level;
}

void kt_model_times(const struct kt_model *model, struct kt_model_times *times)
{
    *times = model->times;
}

void kt_model_cache(const struct kt_model *model, struct kt_kv_info *info)
{
    kt_kv_info(model->kv, info);
}

/* ---- sessions ---- */

static struct kt_session *new_session(struct kt_model *model, struct kt_error *error)
{
    struct kt_session *session = calloc(1, sizeof(*session));
    if (session)
        session->model = model;
    else
        (void)kt_engine_fail(error, KT_E_NOMEM, "no memory for a session");
    return session;
}

enum kt_status kt_session_open(struct kt_model *model, struct kt_session **session, struct kt_error *error)
{
    if (!model || !session)
        return kt_engine_fail(error, KT_E_INVALID, "kt_session_open: NULL");
    struct kt_session *s = new_session(model, error);
    if (!s)
        return KT_E_NOMEM;
    enum kt_status status = kt_kv_sequence_open(model->kv, &s->sequence, error);
    if (status == KT_OK)
        *session = s;
    else
        free(s);
    return status;
}

void kt_session_close(struct kt_session *session)
{
    if (!session)
        return;
    kt_mtp_close(session);
    kt_kv_sequence_close(session->sequence);
    free(session);
}

uint64_t kt_session_tokens(const struct kt_session *session)
{
    struct kt_kv_sequence_info info;
    kt_kv_sequence_info(session->sequence, &info);
    return info.tokens;
}

enum kt_status kt_session_check_states(const struct kt_session *session, const char *function,
                                       struct kt_error *error)
{
    return session->spoilt
               ? kt_engine_fail(error, KT_E_STATE,
                                "%s: a step of the session failed, and its states hold tokens that it does "
                                "not have; truncate it to 0",
                                function)
               : KT_OK;
}

enum kt_status kt_session_truncate(struct kt_session *session, uint64_t n_tokens, struct kt_error *error)
{
    if (!session)
        return kt_engine_fail(error, KT_E_INVALID, "kt_session_truncate: NULL");
    enum kt_status status =
        n_tokens == 0 ? KT_OK : kt_session_check_states(session, "kt_session_truncate", error);
    if (status == KT_OK)
        status = kt_kv_sequence_truncate(session->sequence, n_tokens, error);
    if (status == KT_OK) {
        session->spoilt = false;
        kt_mtp_truncate(session, n_tokens);
    }
    return status;
}

enum kt_status kt_session_fork(struct kt_session *session, uint64_t n_tokens, struct kt_session **fork,
                               struct kt_error *error)
{
    if (!session || !fork)
        return kt_engine_fail(error, KT_E_INVALID, "kt_session_fork: NULL");
    enum kt_status status =
        n_tokens == 0 ? KT_OK : kt_session_check_states(session, "kt_session_fork", error);
    if (status != KT_OK)
        return status;
    struct kt_session *s = new_session(session->model, error);
    if (!s)
        return KT_E_NOMEM;
    status = kt_kv_sequence_fork(session->sequence, n_tokens, &s->sequence, error);
    if (status == KT_OK) {
        kt_mtp_fork(session, n_tokens, s);
        *fork = s;
    } else {
        free(s);
    }
    return status;
}

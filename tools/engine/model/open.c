/* SPDX-License-Identifier: Apache-2.0 */
/* open.c - a model's life, and its sessions'. */
#include "tools/engine/base/fail.h"
#include "tools/engine/model/model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

static void free_block(struct kt_block *b)
{
    kt_linear_destroy(b->q);
    kt_linear_destroy(b->k);
    kt_linear_destroy(b->v);
    kt_linear_destroy(b->o);
    kt_linear_destroy(b->gate);
    kt_linear_destroy(b->up);
    kt_linear_destroy(b->down);
    kt_layer_destroy(b->experts);
    kt_attention_destroy(b->attention);
    free(b->attention_norm);
    free(b->ffn_norm);
    free(b->query_norm);
    free(b->key_norm);
    free(b->router);
}

static void free_scratch(struct kt_scratch *s)
{
    void *const all[] = {s->x,  s->h,      s->q,       s->k,       s->v,   s->mix,       s->gate,
                         s->up, s->logits, s->weights, s->experts, s->ids, s->positions, s->items};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

void kt_model_close(struct kt_model *model)
{
    if (!model)
        return;
    for (uint32_t i = 0; model->blocks && i < model->config.n_layers; i++)
        free_block(&model->blocks[i]);
    free(model->blocks);
    kt_linear_destroy(model->head);
    kt_kv_destroy(model->kv);
    free_scratch(&model->scratch);
    free(model->final_norm);
    free(model->divisors);
    free(model->rope);
    free(model->used);
    free(model);
}

/* ---- opening ---- */

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
    p->cache_tokens = p->cache_tokens ? p->cache_tokens : p->max_tokens;
    p->max_sessions = p->max_sessions ? p->max_sessions : 1;
    p->max_batch = p->max_batch ? p->max_batch : 512;
    p->cache_dtype = p->cache_dtype ? p->cache_dtype : KT_DTYPE_BF16;
    if (p->max_batch > 1024 || p->max_sessions > 65536)
        return kt_engine_fail(error, KT_E_RANGE,
                              "max_batch is %u, at most 1024, and max_sessions %u, at most 65536",
                              p->max_batch, p->max_sessions);
    if (p->max_tokens > longest)
        return kt_engine_fail(error, KT_E_RANGE,
                              "%" PRIu64 " tokens are wished, the model was made for %" PRIu64, p->max_tokens,
                              longest);
    return KT_OK;
}

static enum kt_status create_cache(struct kt_model *m, struct kt_error *error)
{
    const struct kt_model_config *c = &m->config;
    struct kt_kv_field fields[2] = {{.kind = KT_KV_ROWS,
                                     .layout = KT_KV_KEY,
                                     .dtype = m->params.cache_dtype,
                                     .heads = c->n_kv_heads,
                                     .width = c->head_size},
                                    {.kind = KT_KV_ROWS,
                                     .layout = KT_KV_VALUE,
                                     .dtype = m->params.cache_dtype,
                                     .heads = c->n_kv_heads,
                                     .width = c->head_size}};
    struct kt_kv_params params = KT_KV_PARAMS_INIT;
    struct kt_kv_layer *layers = calloc(c->n_layers, sizeof(*layers));
    char fingerprint[17];
    if (!layers)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a model");
    for (uint32_t i = 0; i < c->n_layers; i++)
        layers[i] = (struct kt_kv_layer){.fields = fields, .n_fields = 2};
    enum kt_status status = kt_checkpoint_fingerprint(m->checkpoint, fingerprint, error);
    params.layers = layers;
    params.n_layers = c->n_layers;
    params.max_sequences = m->params.max_sessions;
    params.max_tokens = m->params.max_tokens;
    params.tokens = m->params.cache_tokens;
    params.model = fingerprint;
    if (status == KT_OK)
        status = kt_kv_create(m->context, &params, &m->kv, error);
    free(layers);
    return status;
}

static bool make_scratch(struct kt_model *m)
{
    const struct kt_model_config *c = &m->config;
    struct kt_scratch *s = &m->scratch;
    size_t n = m->params.max_batch;
    uint64_t width = 1;
    for (uint32_t i = 0; i < c->n_layers; i++)
        width = m->blocks[i].width > width ? m->blocks[i].width : width;
    uint64_t heads = (uint64_t)c->n_heads * c->head_size, keys = (uint64_t)c->n_kv_heads * c->head_size;
    const struct {
        float **rows;
        uint64_t size;
    } all[] = {{&s->x, c->hidden_size},
               {&s->h, c->hidden_size},
               {&s->q, heads},
               {&s->k, keys},
               {&s->v, keys},
               {&s->mix, heads},
               {&s->gate, width},
               {&s->up, width},
               {&s->logits, (uint64_t)c->n_experts + 1},
               {&s->weights, (uint64_t)c->top_k + 1}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (!(*all[i].rows = calloc(n, all[i].size * sizeof(float))))
            return false;
    s->experts = calloc(n, ((size_t)c->top_k + 1) * sizeof(*s->experts));
    s->ids = calloc(n, sizeof(*s->ids));
    s->positions = calloc(n, sizeof(*s->positions));
    s->items = calloc(m->params.max_sessions, sizeof(*s->items));
    return s->experts && s->ids && s->positions && s->items;
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
    m->context = context;
    m->checkpoint = checkpoint;
    enum kt_status status = kt_config_read(checkpoint, &m->config, error);
    if (status == KT_OK)
        status = take_params(m, params, error);
    if (status == KT_OK)
        status = kt_rows_find(context, NULL, &m->rows, error);
    if (status == KT_OK)
        status = create_cache(m, error);
    if (status == KT_OK)
        status = kt_model_load(m, error);
    if (status == KT_OK && !make_scratch(m))
        status = kt_engine_fail(error, KT_E_NOMEM, "no memory for %u tokens at once", m->params.max_batch);
    if (status == KT_OK)
        *model = m;
    else
        kt_model_close(m);
    return status;
}

void kt_model_info(const struct kt_model *model, struct kt_model_info *info)
{
    struct kt_kv_info cache;
    kt_kv_info(model->kv, &cache);
    *info = (struct kt_model_info){.family = model->config.family->name,
                                   .n_layers = model->config.n_layers,
                                   .n_experts = model->config.n_experts,
                                   .hidden_size = model->config.hidden_size,
                                   .vocabulary = model->vocabulary,
                                   .context_length = model->config.context_length,
                                   .max_tokens = model->params.max_tokens,
                                   .weight_size = model->weight_size,
                                   .cache_size = cache.bytes};
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
    kt_kv_sequence_close(session->sequence);
    free(session);
}

uint64_t kt_session_tokens(const struct kt_session *session)
{
    struct kt_kv_sequence_info info;
    kt_kv_sequence_info(session->sequence, &info);
    return info.tokens;
}

enum kt_status kt_session_truncate(struct kt_session *session, uint64_t n_tokens, struct kt_error *error)
{
    if (!session)
        return kt_engine_fail(error, KT_E_INVALID, "kt_session_truncate: NULL");
    return kt_kv_sequence_truncate(session->sequence, n_tokens, error);
}

enum kt_status kt_session_fork(struct kt_session *session, uint64_t n_tokens, struct kt_session **fork,
                               struct kt_error *error)
{
    if (!session || !fork)
        return kt_engine_fail(error, KT_E_INVALID, "kt_session_fork: NULL");
    struct kt_session *s = new_session(session->model, error);
    if (!s)
        return KT_E_NOMEM;
    enum kt_status status = kt_kv_sequence_fork(session->sequence, n_tokens, &s->sequence, error);
    if (status == KT_OK)
        *fork = s;
    else
        free(s);
    return status;
}

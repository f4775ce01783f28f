/* SPDX-License-Identifier: Apache-2.0 */
/* server.h - what all requests share. */
#ifndef KT_ENGINE_SERVE_SERVER_H
#define KT_ENGINE_SERVE_SERVER_H

#include "tools/engine/prompt/prompt.h"
#include "tools/engine/serve/body.h"
#include "tools/engine/serve/guard.h"
#include "tools/engine/serve/http.h"
#include "tools/engine/serve/metrics.h"
#include "tools/engine/serve/models.h"

#include <stdatomic.h>

enum kt_server_state { KT_SERVER_LOADING, KT_SERVER_READY, KT_SERVER_DRAINING, KT_SERVER_ABORTING };

enum kt_serve_log { KT_SERVE_LOG_ERROR, KT_SERVE_LOG_ACCESS, KT_SERVE_LOG_DEBUG };

struct kt_server {
    /* ---- what the options say ---- */
    const char *host, *origin;
    struct kt_keys keys;
    uint64_t max_body, max_queue;
    unsigned timeout;
    enum kt_serve_log log;
    bool shares_prefixes; /* between API keys */
    int pooling;          /* of embed.h */
    char *schema;         /* that chats fit which say nothing; NULL: none */
    double memory_rate;   /* bytes a second that this machine can read; 0: not measured */
    struct kt_models models;
    /* ---- what goes on ---- */
    _Atomic int state; /* enum kt_server_state */
    _Atomic uint64_t loaded_bytes, all_bytes;
    struct kt_metrics metrics;
    struct kt_body_turns turns;
    struct kt_http *http;
};

static inline int kt_server_state(struct kt_server *server)
{
    return atomic_load(&server->state);
}

/* ---- paths: each makes the reply; see struct kt_route ---- */
bool kt_answer_health(struct kt_exchange *exchange);
bool kt_answer_models(struct kt_exchange *exchange);
bool kt_answer_model(struct kt_exchange *exchange);
bool kt_answer_version(struct kt_exchange *exchange);
bool kt_answer_metrics(struct kt_exchange *exchange);
bool kt_answer_page(struct kt_exchange *exchange);
bool kt_answer_tokenize(struct kt_exchange *exchange);
bool kt_answer_detokenize(struct kt_exchange *exchange);
bool kt_answer_apply_template(struct kt_exchange *exchange);
bool kt_answer_chat(struct kt_exchange *exchange);
bool kt_answer_completion(struct kt_exchange *exchange);
bool kt_answer_message(struct kt_exchange *exchange);
bool kt_answer_count_tokens(struct kt_exchange *exchange);
bool kt_answer_response(struct kt_exchange *exchange);
bool kt_answer_input_tokens(struct kt_exchange *exchange);
bool kt_answer_openapi(struct kt_exchange *exchange);
bool kt_answer_embedding(struct kt_exchange *exchange); /* llama-server's, too */
/* ---- llama-server's and vLLM's: llama.c ---- */
bool kt_answer_llama_completion(struct kt_exchange *exchange);
bool kt_answer_infill(struct kt_exchange *exchange);
bool kt_answer_props(struct kt_exchange *exchange);
bool kt_answer_slots(struct kt_exchange *exchange);
bool kt_answer_tokenizer_info(struct kt_exchange *exchange);
/* ---- Ollama's: ollama.c ---- */
bool kt_answer_ollama_chat(struct kt_exchange *exchange);
bool kt_answer_ollama_generate(struct kt_exchange *exchange);
bool kt_answer_ollama_tags(struct kt_exchange *exchange);
bool kt_answer_ollama_ps(struct kt_exchange *exchange);
bool kt_answer_ollama_show(struct kt_exchange *exchange);
bool kt_answer_ollama_version(struct kt_exchange *exchange);
bool kt_answer_ollama_embed(struct kt_exchange *exchange);
bool kt_answer_ollama_embeddings(struct kt_exchange *exchange);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* info.c - the paths, and what the server says of itself. */
#include "tools/engine/scheduler/scheduler.h"
#include "tools/engine/serve/native.h"

#include <kt/version.h>
#include <string.h>

const struct kt_route kt_routes[] = {
    {"GET", "/", kt_answer_page, true, false, NULL},
    {"GET", "/page.css", kt_answer_page, true, false, NULL},
    {"GET", "/page.js", kt_answer_page, true, false, NULL},
    {"GET", "/health", kt_answer_health, true, false, NULL},
    {"GET", "/v1/health", kt_answer_health, true, false, NULL},
    {"GET", "/metrics", kt_answer_metrics, false, false, NULL},
    {"GET", "/version", kt_answer_version, false, false, NULL},
    {"GET", "/v1/models", kt_answer_models, false, true, NULL},
    {"GET", "/v1/models/*", kt_answer_model, false, true, NULL},
    {"POST", "/v1/chat/completions", kt_answer_chat, false, true, NULL},
    {"POST", "/v1/completions", kt_answer_completion, false, true, NULL},
    {"POST", "/v1/responses", kt_answer_response, false, true, NULL},
    {"POST", "/v1/messages", kt_answer_message, false, true, kt_messages_problem},
    {"POST", "/v1/messages/count_tokens", kt_answer_count_tokens, false, true, kt_messages_problem},
    {"POST", "/v1/responses/input_tokens", kt_answer_input_tokens, false, true, NULL},
    {"POST", "/v1/embeddings", kt_answer_embedding, false, true, NULL},
    {"GET", "/openapi.json", kt_answer_openapi, false, true, NULL},
    /* Where the base URL of a client lacks /v1. */
    {"GET", "/models", kt_answer_models, false, true, NULL},
    {"POST", "/chat/completions", kt_answer_chat, false, true, NULL},
    {"POST", "/completions", kt_answer_completion, false, true, NULL},
    {"POST", "/responses", kt_answer_response, false, true, NULL},
    {"POST", "/embeddings", kt_answer_embedding, false, true, NULL},
    {"POST", "/completion", kt_answer_llama_completion, false, true, NULL},
    {"POST", "/embedding", kt_answer_embedding, false, true, NULL},
    {"POST", "/infill", kt_answer_infill, false, true, NULL},
    {"GET", "/props", kt_answer_props, false, true, NULL},
    {"GET", "/slots", kt_answer_slots, false, true, NULL},
    {"GET", "/tokenizer_info", kt_answer_tokenizer_info, false, true, NULL},
    {"POST", "/api/chat", kt_answer_ollama_chat, false, true, kt_ollama_problem},
    {"POST", "/api/generate", kt_answer_ollama_generate, false, true, kt_ollama_problem},
    {"POST", "/api/embed", kt_answer_ollama_embed, false, true, kt_ollama_problem},
    {"POST", "/api/embeddings", kt_answer_ollama_embeddings, false, true, kt_ollama_problem},
    {"GET", "/api/tags", kt_answer_ollama_tags, false, true, kt_ollama_problem},
    {"GET", "/api/ps", kt_answer_ollama_ps, false, true, kt_ollama_problem},
    {"POST", "/api/show", kt_answer_ollama_show, false, true, kt_ollama_problem},
    {"GET", "/api/version", kt_answer_ollama_version, false, false, kt_ollama_problem},
    {"POST", "/tokenize", kt_answer_tokenize, false, true, NULL},
    {"POST", "/detokenize", kt_answer_detokenize, false, true, NULL},
    {"POST", "/apply-template", kt_answer_apply_template, false, true, NULL},
    {.path = NULL},
};

bool kt_answer_health(struct kt_exchange *exchange)
{
    struct kt_server *server = exchange->server;
    uint64_t all = atomic_load(&server->all_bytes), done = atomic_load(&server->loaded_bytes);
    switch (kt_server_state(server)) {
    case KT_SERVER_READY:
        return kt_reply_json(exchange, 200, json_pack("{s:s}", "status", "ok"));
    case KT_SERVER_LOADING:
        return kt_reply_json(exchange, 503,
                             json_pack("{s:s, s:f}", "status", "loading model", "progress",
                                       all ? (double)done / (double)all : 0.0));
    default:
        return kt_reply_json(exchange, 503, json_pack("{s:s}", "status", "shutting down"));
    }
}

/* As OpenAI has it, and as Anthropic has. */
static json_t *make_model(const struct kt_served *model, const char *name)
{
    char time[40];
    const char *root = model->names[0]; /* of which this is another name */
    return json_pack("{s:o, s:s, s:I, s:s, s:o, s:I, s:s, s:o, s:s}", "id", kt_json_text(name, strlen(name)),
                     "object", "model", "created", (json_int_t)model->created, "owned_by", "kt-kernel",
                     "root", kt_json_text(root, strlen(root)), "max_model_len",
                     (json_int_t)model->info.max_tokens, "type", "model", "display_name",
                     kt_json_text(name, strlen(name)), "created_at", kt_native_time(model->created, time));
}

bool kt_answer_models(struct kt_exchange *exchange)
{
    const struct kt_models *models = &exchange->server->models;
    const struct kt_served *end = &models->list[models->n], *model = models->list;
    json_t *list = json_array();
    for (; list && model < end; model++)
        for (size_t i = 0; list && i < model->n_names; i++)
            if (json_array_append_new(list, make_model(model, model->names[i])) != 0) {
                json_decref(list);
                list = NULL;
            }
    const char *first = models->list->names[0], *last = end[-1].names[end[-1].n_names - 1];
    return kt_reply_json(exchange, 200,
                         json_pack("{s:s, s:o, s:b, s:o, s:o}", "object", "list", "data", list, "has_more", 0,
                                   "first_id", kt_json_text(first, strlen(first)), "last_id",
                                   kt_json_text(last, strlen(last))));
}

bool kt_answer_model(struct kt_exchange *exchange)
{
    const char *rest = exchange->rest;
    const char *name = kt_models_find(&exchange->server->models, rest, strlen(rest), &exchange->model);
    struct kt_problem problem;
    if (name)
        return kt_reply_json(exchange, 200, make_model(exchange->model, name));
    kt_problem_set(&problem, 404, "model_not_found", "model", "the model '%.100s' is not served here", rest);
    return kt_reply_problem(exchange, &problem);
}

bool kt_answer_version(struct kt_exchange *exchange)
{
    return kt_reply_json(exchange, 200, json_pack("{s:s}", "version", KT_VERSION));
}

bool kt_answer_metrics(struct kt_exchange *exchange)
{
    struct kt_server *server = exchange->server;
    struct kt_scheduler_stats stats;
    struct kt_buffer text = {.data = NULL};
    bool is_ready = kt_server_state(server) == KT_SERVER_READY;
    if (is_ready)
        kt_models_stats(&server->models, NULL, &stats);
    bool done =
        kt_metrics_write(&server->metrics, is_ready ? &stats : NULL, kt_http_running(server->http),
                         server->memory_rate, &text) &&
        (server->models.n == 1 || kt_metrics_write_models(&server->models, &text)) &&
        kt_reply_bytes(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", text.data, text.length);
    kt_buffer_free(&text);
    return done;
}

bool kt_answer_chat(struct kt_exchange *exchange)
{
    return kt_job_answer(exchange, &kt_dialect_chat);
}

bool kt_answer_completion(struct kt_exchange *exchange)
{
    return kt_job_answer(exchange, &kt_dialect_completion);
}

bool kt_answer_message(struct kt_exchange *exchange)
{
    return kt_job_answer(exchange, &kt_dialect_messages);
}

bool kt_answer_response(struct kt_exchange *exchange)
{
    return kt_job_answer(exchange, &kt_dialect_responses);
}

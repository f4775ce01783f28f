/* SPDX-License-Identifier: Apache-2.0 */
/* embed_api.c - the APIs that ask for embeddings: OpenAI's, llama-server's, Ollama's. */
#include "tools/engine/serve/dialect.h"
#include "tools/engine/serve/embed.h"
#include "tools/engine/serve/native.h"
#include "tools/engine/base/dump.h"
#include "tools/kt/base/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct given {
    const char *model, *encoding_format;
    int64_t dimensions, embd_normalize;
    bool truncate;
};

static const struct kt_field fields[] =
    {{"model", KT_FIELD_TEXT, offsetof(struct given, model), 0, 0},
     {"encoding_format", KT_FIELD_TEXT, offsetof(struct given, encoding_format), 0, 0},
     {"dimensions", KT_FIELD_INT, offsetof(struct given, dimensions), 1, 1 << 20},
     {"embd_normalize", KT_FIELD_INT, offsetof(struct given, embd_normalize), -1, 1000},
     {.name = NULL}};
const struct kt_field *const kt_embed_table = fields;

static const struct kt_field ollama_fields[] = {{"model", KT_FIELD_TEXT, offsetof(struct given, model), 0, 0},
                                                {"dimensions", KT_FIELD_INT,
                                                 offsetof(struct given, dimensions), 0, 1 << 20},
                                                {"truncate", KT_FIELD_BOOL, offsetof(struct given, truncate),
                                                 0, 0},
                                                {.name = NULL}};

/* ---- replies: as text at once, for they have millions of numbers ---- */

static uint64_t count_numbers(const struct kt_embed *embed)
{
    return embed->dimensions > 0 ? (uint64_t)embed->dimensions : embed->size;
}

static bool add_numbers(struct kt_buffer *out, const struct kt_embed *embed, const float *vector)
{
    char number[32];
    bool done = true;
    for (uint64_t i = 0, n = count_numbers(embed); done && i < n; i++) {
        int length = snprintf(number, sizeof(number), "%c%.9g", i == 0 ? '[' : ',', (double)vector[i]);
        done = kt_buffer_add(out, number, (size_t)length);
    }
    return done && kt_buffer_add_text(out, "]");
}

/* The bytes of the floats, little-endian, in base64. */
static bool add_base64(struct kt_buffer *out, const struct kt_embed *embed, const float *vector)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bool done = kt_buffer_add_text(out, "\"");
    for (uint64_t i = 0, n = 4 * count_numbers(embed); done && i < n; i += 3) {
        uint32_t three = 0;
        char text[4];
        for (uint64_t at = i; at < i + 3; at++) {
            uint32_t bits = 0;
            if (at < n)
                memcpy(&bits, vector + at / 4, sizeof(bits));
            three = three << 8 | (bits >> at % 4 * 8 & 0xff);
        }
        for (unsigned k = 0; k < 4; k++)
            text[k] = i + k > n ? '=' : digits[three >> (18 - 6 * k) & 63];
        done = kt_buffer_add(out, text, sizeof(text));
    }
    return done && kt_buffer_add_text(out, "\"");
}

static bool add_word(struct kt_buffer *out, const char *word)
{
    json_t *json = kt_json_text(word, strlen(word));
    char *text = json ? kt_json_dump(json, JSON_ENCODE_ANY) : NULL;
    bool done = text && kt_buffer_add_text(out, text);
    json_decref(json);
    free(text);
    return done;
}

static bool add_openai(struct kt_buffer *out, const struct kt_embed *embed, const char *model, bool is_base64)
{
    char text[160];
    bool done = kt_buffer_add_text(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; done && i < embed->ask.n_prompts; i++) {
        (void)snprintf(text, sizeof(text),
                       "%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", i == 0 ? "" : ",", i);
        done = kt_buffer_add_text(out, text) &&
               (is_base64 ? add_base64 : add_numbers)(out, embed, embed->vectors[i]) &&
               kt_buffer_add_text(out, "}");
    }
    (void)snprintf(text, sizeof(text),
                   ",\"usage\":{\"prompt_tokens\":%" PRIu64 ",\"total_tokens\":%" PRIu64 "}}",
                   embed->n_tokens, embed->n_tokens);
    return done && kt_buffer_add_text(out, "],\"model\":") && add_word(out, model) &&
           kt_buffer_add_text(out, text);
}

/* In a list each, since there may be one for each token. */
static bool add_llama(struct kt_buffer *out, const struct kt_embed *embed)
{
    char text[64];
    bool done = true;
    for (size_t i = 0; done && i < embed->ask.n_prompts; i++) {
        (void)snprintf(text, sizeof(text), "%c{\"index\":%zu,\"embedding\":[", i == 0 ? '[' : ',', i);
        done = kt_buffer_add_text(out, text) && add_numbers(out, embed, embed->vectors[i]) &&
               kt_buffer_add_text(out, "]}");
    }
    return done && kt_buffer_add_text(out, "]");
}

static bool add_ollama(struct kt_buffer *out, const struct kt_embed *embed, const char *model, double seconds)
{
    char text[128];
    bool done = kt_buffer_add_text(out, "{\"model\":") && add_word(out, model) &&
                kt_buffer_add_text(out, ",\"embeddings\":[");
    for (size_t i = 0; done && i < embed->ask.n_prompts; i++)
        done = (i == 0 || kt_buffer_add_text(out, ",")) && add_numbers(out, embed, embed->vectors[i]);
    (void)snprintf(text, sizeof(text),
                   "],\"total_duration\":%.0f,\"load_duration\":0,\"prompt_eval_count\":%" PRIu64 "}",
                   seconds * 1e9, embed->n_tokens);
    return done && kt_buffer_add_text(out, text);
}

/* Takes what was made, or says what is wrong; frees what was read. */
static bool reply(struct kt_exchange *exchange, struct kt_embed *embed, struct kt_buffer *out, bool is_made,
                  const struct kt_problem *problem)
{
    kt_embed_free(embed);
    if (is_made)
        return kt_reply_buffer(exchange, 200, out);
    kt_buffer_free(out);
    return exchange->hung_up ? kt_reply_hung_up(exchange) : kt_reply_problem(exchange, problem);
}

/* ---- OpenAI's and llama-server's ---- */

/* Fields that stand in no table are noted, or refused. */
static bool check_unknown(const struct kt_served *model, const json_t *body, const char *param,
                          struct kt_problem *problem)
{
    json_t *others = json_copy((json_t *)(uintptr_t)body);
    for (const struct kt_field *field = fields; field->name; field++)
        (void)json_object_del(others, field->name);
    (void)json_object_del(others, param);
    bool done = others ? kt_ask_check_unknown(model, others, problem) : kt_problem_memory(problem);
    json_decref(others);
    return done;
}

static bool check_dimensions(const struct kt_served *model, const struct given *given,
                             struct kt_problem *problem)
{
    uint64_t size = model->info.hidden_size;
    return given->dimensions <= (int64_t)size ||
           kt_problem_field(problem, "dimensions", "'dimensions' is %" PRId64 "; the model has %" PRIu64,
                            given->dimensions, size);
}

static bool read_given(struct kt_exchange *exchange, const json_t *body, struct given *given,
                       struct kt_problem *problem)
{
    if (!kt_fields_read(body, fields, given, problem) || !kt_models_choose(exchange, body, problem) ||
        !check_dimensions(exchange->model, given, problem))
        return false;
    const char *format = given->encoding_format ? given->encoding_format : "float";
    return strcmp(format, "float") == 0 || strcmp(format, "base64") == 0 ||
           kt_problem_field(problem, "encoding_format", "'encoding_format' must be float or base64");
}

/* What was read lets go of the body. */
static bool read_texts(struct kt_served *model, json_t *body, const char *param, struct kt_embed *embed,
                       struct kt_problem *problem)
{
    bool done = kt_embed_read(model, body, param, embed, problem);
    json_decref(embed->ask.body);
    embed->ask.body = NULL;
    uint64_t n = embed->ask.n_prompts * count_numbers(embed);
    return done && (n <= KT_MOST_NUMBERS ||
                    kt_problem_field(problem, param,
                                     "'%s' asks for %" PRIu64 " numbers; %d is the most of one request",
                                     param, n, KT_MOST_NUMBERS));
}

static bool is_there(const json_t *body, const char *name)
{
    const json_t *value = json_object_get(body, name);
    return value && !json_is_null(value);
}

/* llama-server calls the texts content, and answers then in its own form. */
bool kt_answer_embedding(struct kt_exchange *exchange)
{
    struct given given = {.embd_normalize = 2};
    struct kt_embed embed = {.vectors = NULL};
    struct kt_buffer out = {.data = NULL};
    struct kt_problem problem;
    json_t *body = kt_body_parse(exchange, &problem);
    bool has_input = is_there(body, "input"), is_old = strcmp(exchange->path, "/embedding") == 0;
    bool is_llama = is_old || (!has_input && is_there(body, "content"));
    const char *param = is_llama && !has_input ? "content" : "input";
    bool done = body && read_given(exchange, body, &given, &problem) &&
                check_unknown(exchange->model, body, param, &problem);
    char *name = done ? strdup(given.model ? given.model : exchange->model->names[0]) : NULL;
    bool is_base64 = given.encoding_format && done && *given.encoding_format == 'b';
    embed.dimensions = given.dimensions;
    embed.norm = given.embd_normalize;
    if (done)
        done = read_texts(exchange->model, body, param, &embed, &problem);
    else
        json_decref(body);
    kt_body_done(exchange);
    done = done && kt_embed_compute(exchange, &embed, &problem) &&
           ((name && (is_llama ? add_llama(&out, &embed) : add_openai(&out, &embed, name, is_base64))) ||
            kt_problem_memory(&problem));
    free(name);
    return reply(exchange, &embed, &out, done, &problem);
}

/* ---- Ollama's ---- */

static bool read_ollama(struct kt_exchange *exchange, const json_t *body, struct given *given,
                        struct kt_problem *problem)
{
    if (!kt_fields_read(body, ollama_fields, given, problem))
        return false;
    given->model = kt_ollama_model(exchange, given->model, problem);
    return given->model && check_dimensions(exchange->model, given, problem);
}

/* Nothing, or an empty string: it wants the model to be loaded. */
static bool is_empty(const json_t *texts)
{
    return !texts || json_is_null(texts) || (json_is_string(texts) && json_string_length(texts) == 0) ||
           (json_is_array(texts) && json_array_size(texts) == 0);
}

static bool answer_ollama(struct kt_exchange *exchange, const char *param, bool is_old)
{
    struct given given = {.truncate = true};
    struct kt_embed embed = {.norm = is_old ? -1 : 2};
    struct kt_buffer out = {.data = NULL};
    struct kt_problem problem;
    json_t *body = kt_body_parse(exchange, &problem);
    bool done = body && read_ollama(exchange, body, &given, &problem);
    const json_t *texts = json_object_get(body, param);
    bool has_texts = done && !is_empty(texts);
    if (has_texts && is_old && !json_is_string(texts))
        done =
            kt_problem_field(&problem, param, "'%s' must be a string, not %s", param, kt_fields_type(texts));
    embed.dimensions = given.dimensions;
    embed.cuts = given.truncate;
    if (done && has_texts)
        done = read_texts(exchange->model, body, param, &embed, &problem);
    else
        json_decref(body);
    kt_body_done(exchange);
    done = done &&
           (has_texts ? kt_embed_compute(exchange, &embed, &problem) : kt_models_wish(exchange, &problem));
    if (done && is_old)
        done = (kt_buffer_add_text(&out, "{\"embedding\":") &&
                (has_texts ? add_numbers(&out, &embed, embed.vectors[0]) : kt_buffer_add_text(&out, "[]")) &&
                kt_buffer_add_text(&out, "}")) ||
               kt_problem_memory(&problem);
    else if (done)
        done = add_ollama(&out, &embed, given.model, kt_cli_now() - exchange->start) ||
               kt_problem_memory(&problem);
    return reply(exchange, &embed, &out, done, &problem);
}

bool kt_answer_ollama_embed(struct kt_exchange *exchange)
{
    return answer_ollama(exchange, "input", false);
}

/* As it was called before: one text, whose vector is as it comes. */
bool kt_answer_ollama_embeddings(struct kt_exchange *exchange)
{
    return answer_ollama(exchange, "prompt", true);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - /tokenize, /detokenize, /apply-template. */
#include "tools/engine/serve/dialect.h"

#include <stdlib.h>
#include <string.h>

struct text {
    const char *model;
    bool add_special, add_special_tokens, with_pieces, parse_special, return_token_strs;
    json_t *messages, *tokens;
};

static const struct kt_field fields[] =
    {{"model", KT_FIELD_TEXT, offsetof(struct text, model), 0, 0},
     {"add_special", KT_FIELD_BOOL, offsetof(struct text, add_special), 0, 0},
     {"add_special_tokens", KT_FIELD_BOOL, offsetof(struct text, add_special_tokens), 0, 0},
     {"with_pieces", KT_FIELD_BOOL, offsetof(struct text, with_pieces), 0, 0},
     {"parse_special", KT_FIELD_BOOL, offsetof(struct text, parse_special), 0, 0},
     {"return_token_strs", KT_FIELD_BOOL, offsetof(struct text, return_token_strs), 0, 0},
     {"messages", KT_FIELD_LIST, offsetof(struct text, messages), 0, 0},
     {"tokens", KT_FIELD_LIST, offsetof(struct text, tokens), 0, 0},
     {.name = NULL}};

static bool read(struct kt_exchange *exchange, const json_t *body, struct text *text,
                 struct kt_problem *problem)
{
    return body && kt_fields_read(body, fields, text, problem) && kt_models_choose(exchange, body, problem);
}

/* ---- ids of text ---- */

/* The text to encode: llama-server's clients call it content, vLLM's prompt. */
static bool find_text(const json_t *body, struct kt_text_part *part, struct kt_problem *problem)
{
    const json_t *text = json_object_get(body, "content");
    text = text ? text : json_object_get(body, "prompt");
    if (!text)
        return kt_problem_field(problem, "prompt",
                                "'prompt' is missing; 'content' and 'messages' will do, too");
    if (!json_is_string(text))
        return kt_problem_field(problem, "prompt", "'prompt' must be a string, not %s", kt_fields_type(text));
    *part = (struct kt_text_part){.text = json_string_value(text), .length = json_string_length(text)};
    return true;
}

static bool encode(struct kt_served *model, const json_t *body, const struct text *text, int32_t **ids,
                   uint64_t *n_ids, struct kt_problem *problem)
{
    struct kt_chat_prompt prompt = {.rendering = NULL};
    struct kt_text_part part;
    const struct kt_text_part *parts = &part;
    struct kt_error error;
    uint64_t n_parts = 1;
    uint32_t flags = KT_ENCODE_BOS;
    if (text->messages) {
        if (!kt_chat_render(model, body, &prompt, problem))
            return false;
        parts = prompt.parts;
        n_parts = prompt.n_parts;
    } else if (!find_text(body, &part, problem)) {
        return false;
    } else {
        bool is_native = json_object_get(body, "content") && !json_object_get(body, "add_special");
        if (is_native || !text->add_special || !text->add_special_tokens) /* as each of the two presets it */
            flags = 0;
        part.is_content = !text->parse_special;
    }
    bool done = kt_tokenizer_encode(model->tokenizer, parts, n_parts, flags, ids, n_ids, &error) == KT_OK ||
                kt_problem_error(problem, 400, &error);
    kt_chat_prompt_free(&prompt);
    return done;
}

/* The text of a token, or its bytes where they are a part of a character. */
static json_t *make_piece(const struct kt_token *token)
{
    json_t *text = json_stringn(token->text, token->length), *bytes;
    if (text)
        return text;
    bytes = json_array();
    for (uint64_t i = 0; bytes && i < token->length; i++)
        (void)json_array_append_new(bytes, json_integer((unsigned char)token->text[i]));
    return bytes;
}

/* Texts of tokens, as vLLM lists them. */
static json_t *list_texts(const struct kt_served *model, const int32_t *ids, uint64_t n_ids)
{
    json_t *list = json_array();
    for (uint64_t i = 0; list && i < n_ids; i++) {
        struct kt_token token;
        bool is_known = kt_tokenizer_token(model->tokenizer, ids[i], &token, NULL) == KT_OK;
        (void)json_array_append_new(list, is_known ? kt_json_text(token.text, token.length) : json_null());
    }
    return list;
}

static json_t *list_ids(const struct kt_served *model, const int32_t *ids, uint64_t n_ids, bool with_pieces)
{
    json_t *list = json_array();
    for (uint64_t i = 0; list && i < n_ids; i++) {
        struct kt_token token;
        json_t *item = json_integer(ids[i]);
        if (with_pieces && kt_tokenizer_token(model->tokenizer, ids[i], &token, NULL) == KT_OK)
            item = json_pack("{s:o, s:o}", "id", item, "piece", make_piece(&token));
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

bool kt_answer_tokenize(struct kt_exchange *exchange)
{
    struct text text = {.add_special = true, .add_special_tokens = true, .parse_special = true};
    struct kt_problem problem;
    int32_t *ids;
    uint64_t n_ids;
    json_t *body = kt_body_parse(exchange, &problem);
    bool done =
        read(exchange, body, &text, &problem) && encode(exchange->model, body, &text, &ids, &n_ids, &problem);
    json_decref(body);
    kt_body_done(exchange);
    if (!done)
        return kt_reply_problem(exchange, &problem);
    json_t *reply = json_pack("{s:I, s:I, s:o}", "count", (json_int_t)n_ids, "max_model_len",
                              (json_int_t)exchange->model->info.max_tokens, "tokens",
                              list_ids(exchange->model, ids, n_ids, text.with_pieces));
    if (text.return_token_strs)
        (void)json_object_set_new(reply, "token_strs", list_texts(exchange->model, ids, n_ids));
    kt_ids_free(ids);
    return kt_reply_json(exchange, 200, reply);
}

/* ---- text of ids ---- */

static bool decode(struct kt_served *model, const struct text *text, char **decoded, uint64_t *length,
                   struct kt_problem *problem)
{
    struct kt_error error;
    int32_t *ids;
    uint64_t n_ids;
    if (!text->tokens)
        return kt_problem_field(problem, "tokens", "'tokens' is missing");
    if (!kt_ask_read_ids(model, text->tokens, "tokens", &ids, &n_ids, problem))
        return false;
    bool done = kt_tokenizer_decode(model->tokenizer, ids, n_ids, 0, decoded, length, &error) == KT_OK ||
                kt_problem_error(problem, 400, &error);
    free(ids);
    return done;
}

bool kt_answer_detokenize(struct kt_exchange *exchange)
{
    struct text text = {.model = NULL};
    struct kt_problem problem;
    char *decoded;
    uint64_t length;
    json_t *body = kt_body_parse(exchange, &problem);
    bool done =
        read(exchange, body, &text, &problem) && decode(exchange->model, &text, &decoded, &length, &problem);
    json_decref(body);
    kt_body_done(exchange);
    if (!done)
        return kt_reply_problem(exchange, &problem);
    /* llama-server's name for it, and vLLM's. */
    json_t *reply = json_pack("{s:o, s:o}", "content", kt_json_text(decoded, length), "prompt",
                              kt_json_text(decoded, length));
    kt_text_free(decoded);
    return kt_reply_json(exchange, 200, reply);
}

/* ---- templates ---- */

bool kt_answer_apply_template(struct kt_exchange *exchange)
{
    struct kt_chat_prompt prompt;
    struct kt_problem problem;
    json_t *body = kt_body_parse(exchange, &problem);
    struct text text = {.model = NULL};
    bool done =
        read(exchange, body, &text, &problem) && kt_chat_render(exchange->model, body, &prompt, &problem);
    json_decref(body);
    kt_body_done(exchange);
    if (!done)
        return kt_reply_problem(exchange, &problem);
    json_t *reply = json_pack("{s:o}", "prompt", kt_json_text(prompt.text, prompt.length));
    kt_chat_prompt_free(&prompt);
    return kt_reply_json(exchange, 200, reply);
}

const struct kt_field *const kt_text_table = fields;

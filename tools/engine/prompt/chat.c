/* SPDX-License-Identifier: Apache-2.0 */
/* chat.c - templates as the verbs take them, and messages as a model reads them. */
#include "tools/engine/prompt/prompt.h"
#include "tools/engine/base/dump.h"
#include "tools/engine/base/fail.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int kt_chat_read(const struct kt_cli *cli, const char *path, struct kt_template **chat)
{
    struct kt_error error;
    struct kt_buffer source = {.data = NULL};
    const char *name;
    for (size_t i = 0; (name = kt_template_builtin_name(i)); i++)
        if (strcmp(name, path) == 0)
            return kt_template_builtin(name, chat, &error) == KT_OK ? KT_EXIT_OK : kt_cli_fail(cli, &error);
    int code = kt_input_read(cli, path, &source);
    if (code == KT_EXIT_OK && kt_template_create(source.data, source.length, path, chat, &error) != KT_OK)
        code = kt_cli_fail(cli, &error);
    free(source.data);
    return code;
}

/* Sets "bos_token" and the like where the request has none; false: out of memory. */
static bool add_token(json_t *request, const struct kt_tokenizer *tokenizer, const char *name, int32_t id)
{
    struct kt_token token;
    if (id < 0 || json_object_get(request, name) || kt_tokenizer_token(tokenizer, id, &token, NULL) != KT_OK)
        return true;
    json_t *text = json_stringn(token.text, token.length);
    return !text || json_object_set_new(request, name, text) == 0; /* NULL: it is not text */
}

bool kt_chat_add_tokens(const struct kt_tokenizer *tokenizer, json_t *request)
{
    struct kt_tokenizer_info info;
    kt_tokenizer_info(tokenizer, &info);
    return add_token(request, tokenizer, "bos_token", info.bos_token_id) &&
           add_token(request, tokenizer, "eos_token", info.eos_token_id) &&
           add_token(request, tokenizer, "unk_token", info.unk_token_id) &&
           add_token(request, tokenizer, "pad_token", info.pad_token_id);
}

/* {"messages": [{"role": .., "content": ..}, ...], "add_generation_prompt": true}; NULL: out of memory, or a
 * text is not UTF-8. */
static json_t *make_request(const struct kt_tokenizer *tokenizer, const char *system, const char *text,
                            size_t length)
{
    json_t *request = json_pack("{s:[{s:s, s:s%}], s:b}", "messages", "role", "user", "content", text, length,
                                "add_generation_prompt", 1);
    if (request && system &&
        json_array_insert_new(json_object_get(request, "messages"), 0,
                              json_pack("{s:s, s:s}", "role", "system", "content", system)) != 0) {
        json_decref(request);
        return NULL;
    }
    if (request && !kt_chat_add_tokens(tokenizer, request)) {
        json_decref(request);
        return NULL;
    }
    return request;
}

enum kt_thought kt_chat_thought(const char *text, uint64_t length)
{
    static const struct {
        const char *tag;
        enum kt_thought thought;
    } tags[] = {{"<think>", KT_THOUGHT_BEGUN},         {"[THINK]", KT_THOUGHT_BEGUN},
                {"<seed:think>", KT_THOUGHT_BEGUN},    {"</think>", KT_THOUGHT_OVER},
                {"[/THINK]", KT_THOUGHT_OVER},         {"</seed:think>", KT_THOUGHT_OVER},
                {"<longcat_think>", KT_THOUGHT_BEGUN}, {"</longcat_think>", KT_THOUGHT_OVER}};
    while (length > 0 && strchr(" \n\r\t", text[length - 1]))
        length--;
    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
        size_t n = strlen(tags[i].tag);
        if (length >= n && memcmp(text + length - n, tags[i].tag, n) == 0)
            return tags[i].thought;
    }
    return KT_THOUGHT_OPEN;
}

uint32_t kt_chat_format(uint32_t format, bool has_tools)
{
    /* Those that have other tags of reasoning than the plain one. */
    bool has_tags = format == KT_OUTPUT_HARMONY || format == KT_OUTPUT_MISTRAL ||
                    format == KT_OUTPUT_LONGCAT || format == KT_OUTPUT_LONGCAT_MARKUP;
    return has_tools || has_tags ? format : KT_OUTPUT_PLAIN;
}

enum kt_status kt_prompt_ids(const struct kt_tokenizer *tokenizer, const struct kt_template *chat,
                             const json_t *variables, const struct kt_render_params *params, int32_t **ids,
                             uint64_t *n_ids, enum kt_thought *thought, struct kt_error *error)
{
    struct kt_rendering *rendering = NULL;
    char *json = kt_json_dump(variables, JSON_COMPACT);
    if (!json)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for the prompt");
    enum kt_status status = kt_template_render(chat, json, strlen(json), params, &rendering, error);
    if (status == KT_OK) {
        uint64_t n_parts, length;
        const struct kt_text_part *parts = kt_rendering_parts(rendering, &n_parts);
        const char *text = kt_rendering_text(rendering, &length);
        *thought = kt_chat_thought(text, length);
        status = kt_tokenizer_encode(tokenizer, parts, n_parts, KT_ENCODE_BOS, ids, n_ids, error);
    }
    kt_rendering_destroy(rendering);
    free(json);
    return status;
}

int kt_chat_encode(const struct kt_cli *cli, const struct kt_tokenizer *tokenizer,
                   const struct kt_template *chat, const char *system, const char *text, size_t length,
                   int32_t **ids, uint64_t *n_ids, enum kt_thought *thought)
{
    struct kt_error error;
    json_t *request = make_request(tokenizer, system, text, length);
    if (!request)
        return kt_cli_error(cli, "the prompt is not UTF-8, or there is no memory for it");
    enum kt_status status = kt_prompt_ids(tokenizer, chat, request, NULL, ids, n_ids, thought, &error);
    json_decref(request);
    return status == KT_OK ? KT_EXIT_OK : kt_cli_fail(cli, &error);
}

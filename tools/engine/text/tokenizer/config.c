/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - the files beside a vocabulary: special tokens, chat templates, what ends a turn. */
#include "tools/engine/base/fail.h"
#include "tools/engine/text/tokenizer/load.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The object in a file; NULL if there is none. */
static enum kt_status read_optional(const struct kt_files *files, const char *name, json_t **value,
                                    struct kt_error *error)
{
    *value = NULL;
    enum kt_status status = kt_files_json(files, name, value, error);
    return status == KT_E_NOT_FOUND ? KT_OK : status;
}

/* ---- special tokens ---- */

/* "<s>" or {"content": "<s>"}, which is a control token from now on. */
static enum kt_status read_special(struct kt_tokenizer *t, const json_t *token, int32_t *id,
                                   struct kt_error *error)
{
    const json_t *text = json_is_object(token) ? json_object_get(token, "content") : token;
    if (!json_is_string(text))
        return KT_OK;
    int32_t found = kt_tokenizer_find(t, json_string_value(text), json_string_length(text));
    if (found < 0)
        return KT_OK;
    *id = found;
    return kt_tokenizer_make_control(t, found, error);
}

static enum kt_status read_specials(struct kt_tokenizer *t, const json_t *config, struct kt_error *error)
{
    int32_t other;
    const struct {
        const char *key;
        int32_t *id;
    } keys[] = {{"bos_token", &t->bos}, {"eos_token", &t->eos}, {"unk_token", &t->unk},
                {"pad_token", &t->pad}, {"sep_token", &other},  {"cls_token", &other},
                {"mask_token", &other}};
    enum kt_status status = KT_OK;
    size_t i;
    json_t *token;
    for (i = 0; i < sizeof(keys) / sizeof(keys[0]) && status == KT_OK; i++)
        status = read_special(t, json_object_get(config, keys[i].key), keys[i].id, error);
    json_array_foreach (json_object_get(config, "additional_special_tokens"), i, token) {
        status = status == KT_OK ? read_special(t, token, &other, error) : status;
    }
    return status;
}

static void read_truth(const json_t *config, const char *key, bool *truth)
{
    const json_t *value = json_object_get(config, key);
    if (json_is_boolean(value))
        *truth = json_is_true(value);
}

/* The added token with a text, which then has an id of its own; -1: there is none. */
static int32_t find_added(const struct kt_tokenizer *t, const json_t *text)
{
    int32_t id = -1;
    if (json_is_string(text))
        id = kt_tokenizer_find(t, json_string_value(text), json_string_length(text));
    return id >= 0 && t->vocab.tokens[id].type != KT_TOKEN_NORMAL ? id : -1;
}

/* Tokens that the vocabulary's own file does not have. */
static enum kt_status read_added(struct kt_tokenizer *t, json_t *list, struct kt_error *error)
{
    const char *key;
    json_t *token;
    enum kt_status status = KT_OK;
    json_object_foreach (list, key, token) {
        char *end;
        unsigned long long id = strtoull(key, &end, 10);
        if (*end || end == key || id >= KT_VOCAB_MAX)
            return kt_engine_fail(error, KT_E_FORMAT,
                                  "tokenizer_config.json: added_tokens_decoder: '%.40s' is not an id", key);
        int32_t known = id < t->vocab.n && t->vocab.tokens[id].type != 0
                            ? (int32_t)id
                            : find_added(t, json_object_get(token, "content"));
        if (status == KT_OK && known < 0)
            status = kt_load_added(t, id, token, error);
        else if (status == KT_OK && json_is_true(json_object_get(token, "special")))
            status = kt_tokenizer_make_control(t, known, error);
    }
    return status;
}

/* ---- chat templates ---- */

static enum kt_status read_chats(struct kt_tokenizer *t, const json_t *chats, const char *file,
                                 struct kt_error *error)
{
    enum kt_status status = KT_OK;
    size_t i;
    json_t *chat;
    if (json_is_string(chats))
        return kt_tokenizer_add_chat(t, "default", json_string_value(chats), json_string_length(chats), file,
                                     error);
    json_array_foreach (chats, i, chat) {
        const json_t *name = json_object_get(chat, "name"), *text = json_object_get(chat, "template");
        if (status == KT_OK && json_is_string(name) && json_is_string(text))
            status = kt_tokenizer_add_chat(t, json_string_value(name), json_string_value(text),
                                           json_string_length(text), file, error);
    }
    return status;
}

/* A file of its own goes before what the configuration says, as Hugging Face's transformers have it. */
static enum kt_status read_chat_file(struct kt_tokenizer *t, const struct kt_files *files,
                                     struct kt_error *error)
{
    struct kt_buffer text = {.data = NULL};
    enum kt_status status = kt_files_read(files, "chat_template.jinja", &text, error);
    if (status == KT_OK)
        status = kt_tokenizer_add_chat(t, "default", text.data, text.length, "chat_template.jinja", error);
    kt_buffer_free(&text);
    return status == KT_E_NOT_FOUND ? KT_OK : status;
}

/* ---- what ends a turn ---- */

static void mark_end(struct kt_tokenizer *t, const json_t *id)
{
    double number = json_is_number(id) ? json_number_value(id) : -1;
    if (number >= 0 && number < (double)t->vocab.n && t->vocab.tokens[(size_t)number].type != 0)
        t->vocab.tokens[(size_t)number].ends = 1;
}

static enum kt_status read_ends(struct kt_tokenizer *t, const struct kt_files *files, struct kt_error *error)
{
    json_t *config, *id;
    size_t i;
    enum kt_status status = read_optional(files, "generation_config.json", &config, error);
    if (status != KT_OK || !config)
        return status;
    json_t *ends = json_object_get(config, "eos_token_id");
    mark_end(t, ends);
    json_array_foreach (ends, i, id) {
        mark_end(t, id);
    }
    json_decref(config);
    return KT_OK;
}

enum kt_status kt_load_config(struct kt_tokenizer *t, const struct kt_files *files, struct kt_error *error)
{
    json_t *map = NULL, *config = NULL;
    enum kt_status status = read_optional(files, "special_tokens_map.json", &map, error);
    if (status == KT_OK)
        status = read_optional(files, "tokenizer_config.json", &config, error);
    if (status == KT_OK)
        status = read_added(t, json_object_get(config, "added_tokens_decoder"), error);
    if (status == KT_OK)
        status = read_specials(t, map, error);
    if (status == KT_OK)
        status = read_specials(t, config, error);
    read_truth(config, "add_bos_token", &t->adds_bos);
    read_truth(config, "add_eos_token", &t->adds_eos);
    if (status == KT_OK)
        status = read_chats(t, json_object_get(config, "chat_template"), "tokenizer_config.json", error);
    json_decref(map);
    json_decref(config);
    if (status == KT_OK)
        status = read_chat_file(t, files, error);
    return status == KT_OK ? read_ends(t, files, error) : status;
}

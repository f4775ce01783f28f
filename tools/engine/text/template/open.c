/* SPDX-License-Identifier: Apache-2.0 */
/* open.c - the template of a tokenizer's model. */
#include "tools/engine/base/fail.h"
#include "tools/engine/text/template/builtin.h"
#include "tools/engine/text/tokenizer/chat.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* "default, tool_use" */
static void list_names(const struct kt_tokenizer *tokenizer, char *text, size_t room)
{
    struct kt_chat_source source;
    size_t used = 0;
    for (size_t i = 0; kt_tokenizer_chat(tokenizer, i, &source) && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%.60s", i ? ", " : "", source.name);
}

static enum kt_status open_builtin(const struct kt_tokenizer *tokenizer, struct kt_template **chat,
                                   struct kt_error *error)
{
    const char *token;
    for (size_t i = 0; (token = jinja_builtin_token(i)); i++)
        if (kt_tokenizer_find(tokenizer, token, strlen(token)) >= 0)
            return kt_template_builtin(kt_template_builtin_name(i), chat, error);
    return kt_engine_fail(
        error, KT_E_NOT_FOUND,
        "the model has no chat template, and its vocabulary no control token of a built-in one "
        "(chatml, llama3, mistral, deepseek, gemma); name one, or a file");
}

enum kt_status kt_template_open(const struct kt_tokenizer *tokenizer, const char *name,
                                struct kt_template **chat, struct kt_error *error)
{
    struct kt_chat_source source;
    char names[512] = "none";
    if (!tokenizer || !chat)
        return kt_engine_fail(error, KT_E_INVALID, "kt_template_open: tokenizer and chat must not be NULL");
    for (size_t i = 0; kt_tokenizer_chat(tokenizer, i, &source); i++)
        if (!name || strcmp(name, source.name) == 0)
            return kt_template_create(source.text, source.length, source.file, chat, error);
    if (!name)
        return open_builtin(tokenizer, chat, error);
    list_names(tokenizer, names, sizeof names);
    return kt_engine_fail(error, KT_E_NOT_FOUND, "the model has no chat template '%.100s'; it has: %s", name,
                          names);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/template/arguments.h"

#include "tools/engine/text/template/write.h"

static struct jinja_value *get(struct jinja *j, struct jinja_value value, const char *name)
{
    return value.kind == JINJA_DICT ? jinja_dict_get(j, value.dict, jinja_text(jinja_words(j, name))) : NULL;
}

static void parse(struct jinja *j, struct jinja_value function)
{
    struct jinja_value *arguments = get(j, function, "arguments");
    if (!arguments || arguments->kind != JINJA_TEXT)
        return;
    json_t *json = json_loadb(arguments->text->bytes, arguments->text->length, JSON_ALLOW_NUL, NULL);
    bool object = json_is_object(json);
    json_decref(json);
    if (object)
        *arguments = jinja_read_json(j, arguments->text->bytes, arguments->text->length, true);
}

/* The conversation; empty where there is none. */
static struct jinja_list *find_messages(struct jinja *j)
{
    struct jinja_value *messages = jinja_dict_get(j, j->variables, jinja_text(jinja_words(j, "messages")));
    return messages && messages->kind == JINJA_LIST ? messages->list : jinja_list_new(j, JINJA_IS_LIST, 0);
}

/* The first name of a message's reasoning that has a value. */
static const struct jinja_value *find_reasoning(struct jinja *j, struct jinja_value message)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    for (int i = 0; i < 3; i++) {
        const struct jinja_value *value = get(j, message, names[i]);
        if (value && value->kind != JINJA_NONE)
            return value;
    }
    return NULL;
}

static void set(struct jinja *j, struct jinja_dict *dict, const char *name, struct jinja_value value)
{
    jinja_dict_set(j, dict, jinja_text(jinja_words(j, name)), value);
}

void jinja_tidy_messages(struct jinja *j)
{
    struct jinja_list *messages = find_messages(j);
    for (uint64_t i = 0; i < messages->n; i++) {
        struct jinja_value message = messages->items[i];
        if (message.kind != JINJA_DICT)
            continue;
        const struct jinja_value *reasoning = find_reasoning(j, message);
        struct jinja_dict *tidy = jinja_dict_new(j);
        if (reasoning)
            set(j, tidy, "thinking", *reasoning);
        for (uint64_t k = 0; k < message.dict->n; k++)
            if (message.dict->entries[k].value.kind != JINJA_NONE)
                jinja_dict_set(j, tidy, message.dict->entries[k].key, message.dict->entries[k].value);
        if (reasoning)
            set(j, tidy, "reasoning_content", *reasoning);
        messages->items[i] = jinja_dict(tidy);
    }
}

void jinja_parse_arguments(struct jinja *j)
{
    const struct jinja_list *messages = find_messages(j);
    for (uint64_t i = 0; i < messages->n; i++) {
        struct jinja_value message = messages->items[i];
        const struct jinja_value *calls = get(j, message, "tool_calls"),
                                 *old = get(j, message, "function_call");
        if (old)
            parse(j, *old);
        for (uint64_t k = 0; calls && calls->kind == JINJA_LIST && k < calls->list->n; k++) {
            const struct jinja_value *function = get(j, calls->list->items[k], "function");
            parse(j, function ? *function : calls->list->items[k]);
        }
    }
}

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

void jinja_parse_arguments(struct jinja *j)
{
    const struct jinja_value *messages =
        jinja_dict_get(j, j->variables, jinja_text(jinja_words(j, "messages")));
    if (!messages || messages->kind != JINJA_LIST)
        return;
    for (uint64_t i = 0; i < messages->list->n; i++) {
        struct jinja_value message = messages->list->items[i];
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

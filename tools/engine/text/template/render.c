/* SPDX-License-Identifier: Apache-2.0 */
/* render.c - templates and renderings, as <kt/text.h> has them. */
#include "tools/engine/text/template/render.h"

#include "tools/engine/base/fail.h"
#include "tools/engine/text/template/arguments.h"
#include "tools/engine/text/template/template.h"
#include "tools/engine/text/template/text.h"
#include "tools/engine/text/template/write.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { SOURCE_LIMIT = 4 << 20 };

struct kt_rendering {
    char *text;
    uint64_t length;
    struct kt_text_part *parts;
    uint64_t n_parts;
};

/* Lines end in \n, whatever the file has; the last one's end is not a part of the template. */
static uint32_t tidy_lines(const char *source, uint64_t length, char *out)
{
    uint32_t n = 0;
    for (uint64_t i = 0; i < length; i++) {
        if (source[i] == '\r' && i + 1 < length && source[i + 1] == '\n')
            continue;
        out[n++] = source[i] == '\r' ? '\n' : source[i];
    }
    n -= n > 0 && out[n - 1] == '\n';
    out[n] = 0;
    return n;
}

static bool is_utf8(const char *text, uint64_t length)
{
    for (uint64_t i = 0; i < length;) {
        utf8proc_int32_t character;
        utf8proc_ssize_t size =
            utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(length - i), &character);
        if (size <= 0)
            return false;
        i += (uint64_t)size;
    }
    return true;
}

static enum kt_status read_template(struct kt_template *chat, struct kt_error *error)
{
    jinja_begin(&chat->memory, chat, UINT64_C(1) << 32);
    if (setjmp(chat->memory.escape) == 0) {
        chat->root = jinja_parse(&chat->memory);
        return KT_OK;
    }
    if (error)
        *error = chat->memory.error;
    return chat->memory.error.status;
}

enum kt_status kt_template_create(const char *source, uint64_t length, const char *name,
                                  struct kt_template **chat, struct kt_error *error)
{
    if (!source || !name || !chat)
        return kt_engine_fail(error, KT_E_INVALID,
                              "kt_template_create: source, name and chat must not be NULL");
    if (length > SOURCE_LIMIT)
        return kt_engine_fail(error, KT_E_RANGE, "%s: a template of %llu bytes; at most %d are read", name,
                              (unsigned long long)length, SOURCE_LIMIT);
    if (!is_utf8(source, length))
        return kt_engine_fail(error, KT_E_FORMAT, "%s: is not UTF-8", name);
    struct kt_template *new = calloc(1, sizeof *new);
    char *copy = malloc(length + 1), *name_copy = strdup(name);
    if (!new || !copy || !name_copy) {
        free(new);
        free(copy);
        free(name_copy);
        return kt_engine_fail(error, KT_E_NOMEM, "%s: out of memory", name);
    }
    new->name = name_copy;
    new->source = copy;
    new->length = tidy_lines(source, length, copy);
    enum kt_status status = read_template(new, error);
    if (status != KT_OK)
        kt_template_destroy(new);
    else
        *chat = new;
    return status;
}

void kt_template_destroy(struct kt_template *chat)
{
    if (!chat)
        return;
    jinja_end(&chat->memory);
    free(chat->name);
    free(chat->source);
    free(chat);
}

/* The number of pieces with one mark; fills `parts` where it is not NULL. */
static uint64_t cut_parts(const struct jinja_text *text, const char *bytes, struct kt_text_part *parts)
{
    uint64_t n = 0;
    for (uint64_t at = 0, end; at < text->length; at = end, n++) {
        bool content = jinja_mark(text, at);
        end = text->length;
        if (text->marks) {
            const uint8_t *change = memchr(text->marks + at, !content, text->length - at);
            end = change ? (uint64_t)(change - text->marks) : end;
        }
        if (parts)
            parts[n] = (struct kt_text_part){.text = bytes + at, .length = end - at, .is_content = content};
    }
    return n;
}

static struct kt_rendering *make_rendering(const struct jinja_text *text)
{
    struct kt_rendering *rendering = calloc(1, sizeof *rendering);
    if (!rendering)
        return NULL;
    rendering->length = text->length;
    rendering->n_parts = cut_parts(text, text->bytes, NULL);
    rendering->text = malloc(text->length + 1);
    rendering->parts = calloc(rendering->n_parts + 1, sizeof *rendering->parts);
    if (!rendering->text || !rendering->parts) {
        kt_rendering_destroy(rendering);
        return NULL;
    }
    memcpy(rendering->text, text->bytes, text->length);
    rendering->text[text->length] = 0;
    (void)cut_parts(text, rendering->text, rendering->parts);
    return rendering;
}

/* What a template is given: text of JSON, or values of it. */
struct variables {
    const char *text;
    const json_t *values;
    uint64_t length; /* of the text, or about what these would have */
};

/* The names at the top that hold the tokenizer's own tokens, such as bos_token, are the template's. */
static void read_variables(struct jinja *j, const struct variables *variables)
{
    j->at = JINJA_NOWHERE;
    struct jinja_value value = variables->text
                                   ? jinja_read_json(j, variables->text, variables->length, true)
                                   : jinja_take_json(j, variables->values, variables->length, true);
    if (value.kind != JINJA_DICT)
        jinja_raise(j, KT_E_FORMAT, "the variables are not a JSON object");
    j->variables = value.dict;
    for (uint64_t i = 0; i < value.dict->n; i++) {
        struct jinja_entry *entry = &value.dict->entries[i];
        const struct jinja_text *name = entry->key.text;
        bool token = name->length >= 6 && memcmp(name->bytes + name->length - 6, "_token", 6) == 0;
        if (token && entry->value.kind == JINJA_TEXT)
            entry->value =
                jinja_text(jinja_text_of(j, entry->value.text->bytes, entry->value.text->length, false));
    }
}

static void set_limits(struct jinja *j, const struct kt_render_params *params)
{
    j->max_steps = j->steps_left = params->max_steps ? params->max_steps : 10000000;
    j->max_output = params->max_output ? params->max_output : UINT64_C(64) << 20;
    j->max_depth = params->max_depth ? params->max_depth : 100;
    j->params = params;
}

static enum kt_status render(const struct kt_template *chat, const struct variables *variables,
                             const struct kt_render_params *params, struct kt_rendering **rendering,
                             struct kt_error *error)
{
    struct kt_render_params all = KT_RENDER_PARAMS_INIT;
    struct jinja machine, *j = &machine;
    if (params && params->struct_size < sizeof params->struct_size)
        return kt_engine_fail(error, KT_E_INVALID, "kt_template_render: params->struct_size is %zu",
                              params->struct_size);
    if (params)
        memcpy(&all, params, params->struct_size < sizeof all ? params->struct_size : sizeof all);
    if (all.max_depth > 200)
        return kt_engine_fail(error, KT_E_RANGE, "kt_template_render: max_depth is %u, which may be 200",
                              all.max_depth);
    uint64_t output = all.max_output ? all.max_output : UINT64_C(64) << 20;
    if (output > UINT64_C(1) << 36)
        output = UINT64_C(1) << 36;
    jinja_begin(j, chat, 8 * output + 128 * variables->length + (16 << 20));
    set_limits(j, &all);
    enum kt_status status = KT_OK;
    if (setjmp(j->escape) == 0) {
        read_variables(j, variables);
        if (all.tidy_messages)
            jinja_tidy_messages(j);
        if (all.parse_arguments)
            jinja_parse_arguments(j);
        struct kt_rendering *made = make_rendering(jinja_run(j));
        if (!made)
            jinja_raise(j, KT_E_NOMEM, "out of memory for the rendering");
        *rendering = made;
    } else {
        status = j->error.status;
        if (error)
            *error = j->error;
    }
    jinja_end(j);
    return status;
}

enum kt_status kt_template_render(const struct kt_template *chat, const char *variables, uint64_t length,
                                  const struct kt_render_params *params, struct kt_rendering **rendering,
                                  struct kt_error *error)
{
    if (!chat || !variables || !rendering)
        return kt_engine_fail(error, KT_E_INVALID,
                              "kt_template_render: chat, variables and rendering must not be NULL");
    return render(chat, &(struct variables){.text = variables, .length = length}, params, rendering, error);
}

static uint64_t size_of(const json_t *json)
{
    uint64_t size = 8 + json_string_length(json);
    const char *name;
    json_t *item;
    size_t i;
    json_array_foreach (json, i, item)
        size += size_of(item);
    json_object_foreach ((json_t *)(uintptr_t)json, name, item)
        size += strlen(name) + size_of(item);
    return size;
}

enum kt_status kt_template_render_values(const struct kt_template *chat, const json_t *variables,
                                         const struct kt_render_params *params,
                                         struct kt_rendering **rendering, struct kt_error *error)
{
    return render(chat, &(struct variables){.values = variables, .length = size_of(variables)}, params,
                  rendering, error);
}

const char *kt_rendering_text(const struct kt_rendering *rendering, uint64_t *length)
{
    if (length)
        *length = rendering->length;
    return rendering->text;
}

const struct kt_text_part *kt_rendering_parts(const struct kt_rendering *rendering, uint64_t *n_parts)
{
    *n_parts = rendering->n_parts;
    return rendering->parts;
}

void kt_rendering_destroy(struct kt_rendering *rendering)
{
    if (!rendering)
        return;
    free(rendering->text);
    free(rendering->parts);
    free(rendering);
}

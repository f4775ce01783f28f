/* SPDX-License-Identifier: Apache-2.0 */
/* wish.c - the fields by which requests ask for a form. None of them is ignored: it is kept, or refused. */
#include "tools/engine/serve/wish.h"
#include "tools/engine/base/dump.h"
#include "tools/engine/serve/fields.h"

#include <kt/constraint.h>
#include <stdlib.h>
#include <string.h>

enum form {
    SCHEMA, /* an object, or its text */
    OBJECT, /* true: any object */
    REGEX,
    CHOICE,
    RULES,
    IGNORED, /* says how, not what */
    REFUSED
};

static const struct field {
    const char *name;
    enum form form;
} fields[] = {{"json_schema", SCHEMA},
              {"grammar", RULES},
              {"ebnf", RULES},
              {"regex", REGEX},
              {"guided_json", SCHEMA},
              {"guided_json_object", OBJECT},
              {"guided_regex", REGEX},
              {"guided_choice", CHOICE},
              {"guided_grammar", RULES},
              {"guided_decoding_backend", IGNORED},
              {"guided_whitespace_pattern", REFUSED},
              {"structural_tag", REFUSED},
              {"grammar_lazy", REFUSED},
              {NULL, IGNORED}},
  structured[] = {{"json", SCHEMA},   {"json_object", OBJECT},       {"regex", REGEX}, {"choice", CHOICE},
                  {"grammar", RULES}, {"disable_fallback", IGNORED}, {NULL, IGNORED}};

static const char outer[] = "structured_outputs";

bool kt_wish_knows(const char *name)
{
    bool found = strcmp(name, outer) == 0;
    for (const struct field *field = fields; field->name && !found; field++)
        found = strcmp(field->name, name) == 0;
    return found;
}

bool kt_wish_copy(const json_t *body, json_t *chat)
{
    const char *name;
    json_t *value;
    bool done = true;
    json_object_foreach ((json_t *)(uintptr_t)body, name, value) {
        bool is_wish = kt_wish_knows(name) || strcmp(name, "response_format") == 0;
        done = done && (!is_wish || json_object_set(chat, name, value) == 0);
    }
    return done;
}

void kt_wish_free(struct kt_wish *wish)
{
    free(wish->text);
    *wish = (struct kt_wish){.kind = KT_WISH_NONE};
}

/* ---- one of them ---- */

/* Takes `text`. */
static bool set(struct kt_wish *wish, enum kt_wish_kind kind, char *text, const char *param,
                struct kt_problem *problem)
{
    if (!text)
        return kt_problem_memory(problem);
    if (wish->kind != KT_WISH_NONE) {
        free(text);
        return kt_problem_field(problem, param, "'%s' and '%s' exclude each other", wish->param, param);
    }
    *wish = (struct kt_wish){kind, text, param};
    return true;
}

static bool refuse(const char *param, const char *wanted, const json_t *value, struct kt_problem *problem)
{
    return kt_problem_field(problem, param, "'%s' must be %s, not %s", param, wanted, kt_fields_type(value));
}

static bool set_schema(struct kt_wish *wish, const json_t *value, const char *param,
                       struct kt_problem *problem)
{
    if (json_is_string(value))
        return set(wish, KT_WISH_SCHEMA, strdup(json_string_value(value)), param, problem);
    if (!json_is_object(value) && !json_is_boolean(value))
        return refuse(param, "a JSON Schema", value, problem);
    return set(wish, KT_WISH_SCHEMA, kt_json_dump(value, JSON_COMPACT | JSON_ENCODE_ANY), param, problem);
}

static bool set_text(struct kt_wish *wish, uint32_t kind, const json_t *value, const char *param,
                     struct kt_problem *problem)
{
    bool is_list = kind == KT_GRAMMAR_CHOICE;
    if (is_list ? !json_is_array(value) : !json_is_string(value))
        return refuse(param, is_list ? "an array of strings" : "a string", value, problem);
    char *text = is_list ? kt_json_dump(value, JSON_COMPACT) : strdup(json_string_value(value));
    if (!is_list && strlen(json_string_value(value)) != json_string_length(value)) {
        free(text);
        return kt_problem_field(problem, param, "'%s' holds a zero byte", param);
    }
    return set(wish, (enum kt_wish_kind)(KT_WISH_TEXT + kind), text, param, problem);
}

static bool read_field(struct kt_wish *wish, const struct field *field, const json_t *value,
                       const char *param, struct kt_problem *problem)
{
    static const uint32_t kinds[] =
        {[REGEX] = KT_GRAMMAR_REGEX, [CHOICE] = KT_GRAMMAR_CHOICE, [RULES] = KT_GRAMMAR_RULES};
    bool is_empty = json_is_string(value) && json_string_length(value) == 0;
    if (!value || json_is_null(value) || json_is_false(value) ||
        is_empty) /* as clients send what is not set */
        return true;
    switch (field->form) {
    case SCHEMA:
        return set_schema(wish, value, param, problem);
    case OBJECT:
        if (!json_is_true(value))
            return refuse(param, "a boolean", value, problem);
        return set(wish, KT_WISH_SCHEMA, strdup("{\"type\": \"object\"}"), param, problem);
    case REGEX:
    case CHOICE:
    case RULES:
        return set_text(wish, kinds[field->form], value, param, problem);
    case REFUSED:
        return kt_problem_field(problem, param, "'%s' is not supported", param);
    default:
        return true;
    }
}

/* ---- where they stand ---- */

static bool read_structured(struct kt_wish *wish, json_t *object, struct kt_problem *problem)
{
    const char *name;
    json_t *value;
    if (!object || json_is_null(object))
        return true;
    if (!json_is_object(object))
        return refuse(outer, "an object", object, problem);
    json_object_foreach (object, name, value) {
        const struct field *field = structured;
        while (field->name && strcmp(field->name, name) != 0)
            field++;
        if (!field->name && *name != '_' && !json_is_null(value) && !json_is_false(value))
            return kt_problem_field(problem, outer, "'%s.%.60s' is not supported", outer, name);
        if (field->name && !read_field(wish, field, value, outer, problem))
            return false;
    }
    return true;
}

static bool read_format(struct kt_wish *wish, json_t *format, struct kt_problem *problem)
{
    static const char param[] = "response_format";
    const char *type = json_string_value(json_object_get(format, "type"));
    json_t *own = json_object_get(format, "schema"), *given = json_object_get(format, "json_schema");
    if (!format || json_is_null(format) || (type && strcmp(type, "text") == 0))
        return true;
    given = json_object_get(given, "schema") || !own ? json_object_get(given, "schema") : own;
    if (!json_is_object(format))
        return refuse(param, "an object", format, problem);
    if (type && strcmp(type, "json_object") == 0 && (!own || json_is_null(own)))
        return set(wish, KT_WISH_SCHEMA, strdup("{\"type\": \"object\"}"), param, problem);
    if (type && strcmp(type, "json_object") == 0)
        return json_is_object(own) ? set_schema(wish, own, param, problem)
                                   : kt_problem_field(problem, param, "'%s.schema' must be an object, not %s",
                                                      param, kt_fields_type(own));
    if (!type || strcmp(type, "json_schema") != 0)
        return kt_problem_field(problem, param, "'%s.type' must be text, json_object or json_schema", param);
    if (!json_is_object(given))
        return kt_problem_field(problem, param, "'%s.json_schema.schema' must be an object, not %s", param,
                                given ? kt_fields_type(given) : "missing");
    return set_schema(wish, given, param, problem);
}

bool kt_wish_read(const json_t *body, struct kt_wish *wish, struct kt_problem *problem)
{
    *wish = (struct kt_wish){.kind = KT_WISH_NONE};
    bool done = read_format(wish, json_object_get(body, "response_format"), problem) &&
                read_structured(wish, json_object_get(body, outer), problem);
    for (const struct field *field = fields; field->name && done; field++)
        done = read_field(wish, field, json_object_get(body, field->name), field->name, problem);
    if (!done)
        kt_wish_free(wish);
    return done;
}

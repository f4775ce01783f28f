/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/model/config/settings.h"

#include "tools/engine/base/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A setting where it stands: one of the two. */
struct place {
    struct kt_value value;
    const json_t *json; /* NULL: there is none */
    const char *name;
};

void kt_settings_fail(struct kt_settings *s, enum kt_status status, const char *format, ...)
{
    char text[256];
    va_list arguments;
    if (s->status != KT_OK)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    s->status = kt_engine_fail(s->error, status, "%s%s",
                               s->is_gguf ? "the model's metadata: " : "config.json: ", text);
}

/* ---- finding ---- */

/* Of later files, "rope_parameters" has what "rope_scaling" had; some have an object for each type of layers
 * in it. */
static const json_t *find_any(const struct kt_settings *s, const char *path)
{
    const json_t *object = s->model;
    char key[64];
    const char *slash;
    while (object && (slash = strchr(path, '/'))) {
        snprintf(key, sizeof(key), "%.*s", (int)(slash - path), path);
        const json_t *inner = json_object_get(object, key);
        if (json_object_size(inner) == 0 && strcmp(key, "rope_scaling") == 0)
            inner = json_object_get(object, "rope_parameters");
        if (s->rope_part && strcmp(key, "rope_scaling") == 0 && json_object_get(inner, s->rope_part))
            inner = json_object_get(inner, s->rope_part);
        object = inner;
        path = slash + 1;
    }
    return json_object_get(object, path);
}

static const json_t *find_json(const struct kt_settings *s, const char *path)
{
    const json_t *found = find_any(s, path);
    return json_is_null(found) ? NULL : found;
}

bool kt_settings_was_read(const struct kt_settings *s, const char *name)
{
    for (uint32_t i = 0; i < s->n_read; i++)
        if (strcmp(s->read[i], name) == 0)
            return true;
    return false;
}

/* The name that a class has of its own for a setting of config.json, or the usual one. */
static const char *own_name(const struct kt_settings *s, const char *json)
{
    for (const struct kt_own_name *name = s->own_names; json && name && name->usual; name++)
        if (strcmp(name->usual, json) == 0)
            return name->own;
    return json;
}

static bool find(struct kt_settings *s, const char *gguf, const char *json, struct place *place)
{
    char key[128];
    json = own_name(s, json);
    *place = (struct place){.name = s->is_gguf ? gguf : json};
    if (!place->name || s->status != KT_OK)
        return false;
    if (s->n_read < KT_SETTINGS_READ && !kt_settings_was_read(s, place->name))
        s->read[s->n_read++] = place->name;
    if (!s->is_gguf)
        return (place->json = find_json(s, json)) != NULL;
    snprintf(key, sizeof(key), "%s.%s", s->architecture, gguf);
    enum kt_status status = kt_checkpoint_value_find(s->checkpoint, key, &place->value, s->error);
    if (status != KT_OK && status != KT_E_NOT_FOUND)
        s->status = status;
    return status == KT_OK;
}

bool kt_settings_has(struct kt_settings *s, const char *gguf, const char *json)
{
    struct place place;
    return find(s, gguf, json, &place);
}

bool kt_settings_is_null(const struct kt_settings *s, const char *json)
{
    return !s->is_gguf && json_is_null(find_any(s, own_name(s, json)));
}

const json_t *kt_settings_json(const struct kt_settings *s, const char *json)
{
    return s->is_gguf ? NULL : find_json(s, json);
}

uint64_t kt_settings_count(struct kt_settings *s, const char *gguf, const char *json)
{
    struct place place;
    if (!find(s, gguf, json, &place))
        return 0;
    if (!s->is_gguf)
        return json_is_array(place.json) ? json_array_size(place.json) : 1;
    return place.value.is_array ? place.value.count : 1;
}

bool kt_settings_is_list(struct kt_settings *s, const char *gguf)
{
    struct place place;
    return s->is_gguf && find(s, gguf, NULL, &place) && place.value.is_array;
}

/* Element `index` of a list in config.json, or what is not a list. */
static const json_t *element(struct kt_settings *s, const struct place *place, uint64_t index)
{
    const json_t *found = json_is_array(place->json) ? json_array_get(place->json, index) : place->json;
    if (!found)
        kt_settings_fail(s, KT_E_FORMAT, "%s has no element %llu", place->name, (unsigned long long)index);
    return found;
}

/* ---- reading ---- */

static uint64_t json_uint(struct kt_settings *s, const struct place *place, uint64_t index)
{
    const json_t *found = element(s, place, index);
    double number = json_number_value(found);
    if (found &&
        (!json_is_number(found) || !(number >= 0 && number < 9e15) || number != (double)(uint64_t)number)) {
        kt_settings_fail(s, KT_E_FORMAT, "%s is not a whole number", place->name);
        return 0;
    }
    return (uint64_t)number;
}

uint64_t kt_settings_uint_at(struct kt_settings *s, const char *gguf, const char *json, uint64_t index,
                             uint64_t fallback)
{
    struct place place;
    uint64_t number = fallback;
    if (!find(s, gguf, json, &place))
        return fallback;
    if (!s->is_gguf)
        number = json_uint(s, &place, index);
    else
        s->status = kt_value_uint(&place.value, place.value.is_array ? index : 0, &number, s->error);
    return s->status == KT_OK ? number : fallback;
}

uint64_t kt_settings_uint(struct kt_settings *s, const char *gguf, const char *json, uint64_t fallback)
{
    return kt_settings_uint_at(s, gguf, json, 0, fallback);
}

uint64_t kt_settings_need(struct kt_settings *s, const char *gguf, const char *json)
{
    if (!kt_settings_has(s, gguf, json))
        kt_settings_fail(s, KT_E_FORMAT, "%s%s%s is missing", s->is_gguf ? s->architecture : "",
                         s->is_gguf ? "." : "", s->is_gguf ? gguf : own_name(s, json));
    return kt_settings_uint(s, gguf, json, 0);
}

double kt_settings_real_at(struct kt_settings *s, const char *gguf, const char *json, uint64_t index,
                           double fallback)
{
    struct place place;
    double number = fallback;
    if (!find(s, gguf, json, &place))
        return fallback;
    if (s->is_gguf) {
        s->status = kt_value_real(&place.value, place.value.is_array ? index : 0, &number, s->error);
        return s->status == KT_OK ? number : fallback;
    }
    const json_t *found = element(s, &place, index);
    if (found && !json_is_number(found) && !(json_is_array(place.json) && json_is_null(found)))
        kt_settings_fail(s, KT_E_FORMAT, "%s is not a number", json);
    return s->status == KT_OK ? json_number_value(found) : fallback;
}

double kt_settings_real(struct kt_settings *s, const char *gguf, const char *json, double fallback)
{
    struct place place;
    double number = fallback;
    if (!find(s, gguf, json, &place))
        return fallback;
    if (s->is_gguf)
        s->status = kt_value_real(&place.value, 0, &number, s->error);
    else if (json_is_number(place.json))
        number = json_number_value(place.json);
    else
        kt_settings_fail(s, KT_E_FORMAT, "%s is not a number", place.name);
    return s->status == KT_OK ? number : fallback;
}

bool kt_settings_flag(struct kt_settings *s, const char *gguf, const char *json, bool fallback)
{
    struct place place;
    int truth = fallback;
    if (!find(s, gguf, json,
              &place)) /* null is not what a key that is missing is: transformers takes it for false */
        return fallback && !(json && kt_settings_is_null(s, json));
    if (s->is_gguf)
        s->status = kt_value_bool(&place.value, 0, &truth, s->error);
    else if (json_is_boolean(place.json))
        truth = json_is_true(place.json);
    else
        kt_settings_fail(s, KT_E_FORMAT, "%s is neither true nor false", place.name);
    return s->status == KT_OK ? truth != 0 : fallback;
}

bool kt_settings_flag_at(struct kt_settings *s, const char *gguf, uint64_t index)
{
    struct place place;
    int truth = 0;
    uint64_t number = 0;
    if (!s->is_gguf || !find(s, gguf, NULL, &place))
        return false;
    index = place.value.is_array ? index : 0;
    if (place.value.type == KT_VALUE_BOOL)
        s->status = kt_value_bool(&place.value, index, &truth, s->error);
    else
        s->status = kt_value_uint(&place.value, index, &number, s->error);
    return truth != 0 || number != 0;
}

void kt_settings_text(struct kt_settings *s, const char *gguf, const char *json, uint64_t index, char *text,
                      size_t size)
{
    struct place place;
    const char *found = NULL;
    uint64_t at = 0, length = 0;
    text[0] = '\0';
    if (!find(s, gguf, json, &place))
        return;
    if (!s->is_gguf) {
        const json_t *item = element(s, &place, index);
        found = json_string_value(item);
        length = json_string_length(item);
        if (item && !found)
            kt_settings_fail(s, KT_E_FORMAT, "%s is not text", place.name);
    }
    for (uint64_t i = 0; s->is_gguf && i <= index && s->status == KT_OK; i++)
        s->status = kt_value_text(&place.value, &at, &found, &length, s->error);
    if (s->status == KT_OK)
        snprintf(text, size, "%.*s", (int)(length < size ? length : size), found);
}

/* ---- opening ---- */

static enum kt_status read_json(struct kt_settings *s, const void *data, uint64_t size)
{
    json_error_t place;
    s->root = json_loadb(data, size, JSON_ALLOW_NUL, &place);
    if (!s->root)
        return kt_engine_fail(s->error, KT_E_FORMAT, "config.json:%d: %s", place.line, place.text);
    const json_t *text = json_object_get(s->root, "text_config");
    s->model = json_is_object(text) ? text : s->root;
    const char *name = json_string_value(json_array_get(json_object_get(s->root, "architectures"), 0));
    s->architecture = name ? name : "?";
    return KT_OK;
}

enum kt_status kt_settings_open(struct kt_settings *s, struct kt_checkpoint *checkpoint,
                                struct kt_error *error)
{
    struct kt_checkpoint_info info;
    *s = (struct kt_settings){.checkpoint = checkpoint,
                              .is_gguf = kt_checkpoint_value_count(checkpoint) > 0,
                              .error = error};
    kt_checkpoint_info(checkpoint, &info);
    s->architecture = info.architecture;
    if (!s->is_gguf) {
        const void *data;
        uint64_t size;
        s->status = kt_checkpoint_file(s->checkpoint, "config.json", &data, &size, s->error);
        if (s->status == KT_OK)
            s->status = read_json(s, data, size);
    }
    return s->status;
}

enum kt_status kt_settings_open_text(struct kt_settings *s, const char *json, uint64_t size,
                                     struct kt_error *error)
{
    *s = (struct kt_settings){.architecture = "?", .error = error};
    s->status = read_json(s, json, size);
    return s->status;
}

void kt_settings_close(struct kt_settings *s)
{
    json_decref(s->root);
    s->root = NULL;
}

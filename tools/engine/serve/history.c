/* SPDX-License-Identifier: Apache-2.0 */
/* history.c - roles of a conversation, in the order that a template takes. */
#include "tools/engine/serve/history.h"
#include "tools/engine/base/buffer.h"

#include <string.h>

bool kt_history_is(const json_t *message, const char *role)
{
    const char *own = json_string_value(json_object_get(message, "role"));
    return own && strcmp(own, role) == 0;
}

/* The text of a message's content; that of parts is their texts, in lines. */
static bool add_content(struct kt_buffer *text, const json_t *content)
{
    const json_t *part;
    size_t i;
    bool done = true;
    if (json_is_string(content))
        return kt_buffer_add(text, json_string_value(content), json_string_length(content));
    json_array_foreach (content, i, part) {
        const json_t *words = json_object_get(part, "text");
        done = done && (i == 0 || kt_buffer_add(text, "\n", 1)) &&
               kt_buffer_add(text, json_string_value(words), json_string_length(words));
    }
    return done;
}

/* Behind an empty line, unless one of them is empty. */
static bool append_content(struct kt_buffer *text, const json_t *content)
{
    size_t length = text->length;
    bool done = (length == 0 || kt_buffer_add(text, "\n\n", 2)) && add_content(text, content);
    if (done && length > 0 && text->length == length + 2)
        text->length = length; /* nothing came behind it */
    return done;
}

static bool set_text(json_t *message, const struct kt_buffer *text)
{
    return json_object_set_new(message, "content",
                               json_stringn(text->data ? text->data : "", text->length)) == 0;
}

bool kt_history_join(json_t *into, const json_t *before, const json_t *behind)
{
    struct kt_buffer text = {.data = NULL};
    bool done = add_content(&text, before) && append_content(&text, behind) && set_text(into, &text);
    kt_buffer_free(&text);
    return done;
}

static json_t *content_of(const json_t *message)
{
    return json_object_get(message, "content");
}

static bool insert(json_t *messages, size_t at, const char *role)
{
    return json_array_insert_new(messages, at, json_pack("{s:s, s:s}", "role", role, "content", "")) == 0;
}

/* ---- system messages ---- */

/* Puts a list in the place of the other; takes the reference. */
static bool replace(json_t *messages, json_t *by, bool done)
{
    done = done && json_array_clear(messages) == 0 && json_array_extend(messages, by) == 0;
    json_decref(by);
    return done;
}

/* Where a template has a place for one only, later ones become a part of the first. Requests may have very
 * many messages, so each is moved once. */
static bool merge_systems(const struct kt_needs *needs, json_t *messages)
{
    struct kt_buffer text = {.data = NULL};
    json_t *out = json_array(), *message, *first = json_array_get(messages, 0);
    bool is_head = true, done = out != NULL, is_merged = false;
    size_t i;
    json_array_foreach (messages, i, message) {
        bool is_system = kt_history_is(message, "system");
        bool is_wrong = needs->no_system || (is_head ? needs->one_system : needs->first_system);
        is_wrong = is_wrong && is_system && i > 0;
        if (is_wrong && !is_merged && kt_history_is(first, "system"))
            done = done && add_content(&text, content_of(first));
        is_merged = is_merged || is_wrong;
        is_head = is_head && is_system;
        done = done &&
               (is_wrong ? append_content(&text, content_of(message)) : json_array_append(out, message) == 0);
    }
    if (done && is_merged && !kt_history_is(first, "system"))
        done = insert(out, 0, "system");
    done = done && (!is_merged || set_text(json_array_get(out, 0), &text));
    kt_buffer_free(&text);
    return replace(messages, out, done);
}

/* The system message, which is the only one now, as the beginning of the first user's. */
static bool dissolve_system(const struct kt_needs *needs, json_t *messages)
{
    json_t *system = json_array_get(messages, 0);
    if (!needs->no_system || !kt_history_is(system, "system"))
        return true;
    for (size_t i = 1; i < json_array_size(messages); i++) {
        json_t *message = json_array_get(messages, i);
        if (kt_history_is(message, "user"))
            return kt_history_join(message, content_of(system), content_of(message)) &&
                   json_array_remove(messages, 0) == 0;
    }
    return json_object_set_new(system, "role", json_string("user")) == 0;
}

static bool add_tools(const struct kt_needs *needs, json_t *messages, const json_t *tools)
{
    json_t *first = json_array_get(messages, 0), *about = tools ? kt_history_about_tools(needs, tools) : NULL;
    bool done = !tools || about;
    if (done && tools && !kt_history_is(first, "system")) {
        done = insert(messages, 0, "system");
        first = json_array_get(messages, 0);
    }
    if (done && tools)
        done = kt_history_join(first, content_of(first), about);
    json_decref(about);
    return done;
}

/* ---- others ---- */

static bool has_calls(const json_t *message)
{
    return json_array_size(json_object_get(message, "tool_calls")) > 0;
}

/* Is this one to be a part of the one before it? */
static bool continues(const struct kt_needs *needs, const json_t *before, const json_t *message)
{
    bool is_same = (kt_history_is(message, "user") && kt_history_is(before, "user")) ||
                   (kt_history_is(message, "assistant") && kt_history_is(before, "assistant"));
    return needs->alternation && is_same && !has_calls(before);
}

/* Two messages of one role become one; between results of tools and a user's message an assistant's is put.
 */
static bool alternate(const struct kt_needs *needs, json_t *messages)
{
    struct kt_buffer text = {.data = NULL};
    json_t *out = json_array(), *message, *last = NULL;
    bool done = out != NULL, is_open = false; /* the last one's content is in `text` */
    size_t i;
    json_array_foreach (messages, i, message) {
        if (continues(needs, last, message)) {
            done = done && (is_open || add_content(&text, content_of(last))) &&
                   append_content(&text, content_of(message)) && json_object_update(last, message) == 0;
            is_open = true;
            continue;
        }
        done = done && (!is_open || set_text(last, &text));
        text.length = 0;
        is_open = false;
        if (needs->answered_tools && kt_history_is(message, "user") && kt_history_is(last, "tool"))
            done = done && insert(out, json_array_size(out), "assistant");
        done = done && json_array_append(out, message) == 0;
        last = message;
    }
    done = done && (!is_open || set_text(last, &text));
    kt_buffer_free(&text);
    return replace(messages, out, done);
}

static bool add_users(const struct kt_needs *needs, json_t *messages)
{
    size_t n = json_array_size(messages), at = kt_history_is(json_array_get(messages, 0), "system");
    bool has_user = false, done = true;
    for (size_t i = 0; i < n; i++)
        has_user = has_user || kt_history_is(json_array_get(messages, i), "user");
    if (needs->user_first && at < n && !kt_history_is(json_array_get(messages, at), "user"))
        done = insert(messages, at, "user");
    else if (needs->user_somewhere && !has_user)
        done = insert(messages, at, "user");
    return done;
}

static bool set_parts(const struct kt_needs *needs, json_t *messages)
{
    static const char *const roles[KT_N_ROLES] = {[KT_ROLE_SYSTEM] = "system",
                                                  [KT_ROLE_USER] = "user",
                                                  [KT_ROLE_ASSISTANT] = "assistant",
                                                  [KT_ROLE_TOOL] = "tool"};
    json_t *message, *none = json_string("");
    bool done = none != NULL;
    size_t i;
    json_array_foreach (messages, i, message) {
        for (int role = 0; role < KT_N_ROLES && done; role++)
            if (needs->text_only[role] && kt_history_is(message, roles[role]) &&
                json_is_array(content_of(message)))
                done = kt_history_join(message, content_of(message), none);
    }
    json_decref(none);
    return done;
}

/* Clients have three names for it, and so have templates. */
static bool name_reasoning(const struct kt_needs *needs, json_t *messages)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    json_t *message;
    bool done = true;
    size_t i;
    json_array_foreach (messages, i, message) {
        json_t *reasoning = NULL;
        for (int name = 0; name < 3 && !reasoning; name++) {
            json_t *value = json_object_get(message, names[name]);
            reasoning = json_is_null(value) ? NULL : json_incref(value);
        }
        for (int name = 0; name < 3 && reasoning; name++)
            if (name < 2 || needs->other_reasoning)
                done = done && json_object_set(message, names[name], reasoning) == 0;
        json_decref(reasoning);
    }
    return done;
}

json_t *kt_history_fit(const struct kt_needs *needs, json_t *messages, const json_t *tools)
{
    json_t *fitted = name_reasoning(needs, messages) ? kt_history_calls(needs, messages) : NULL;
    json_decref(messages);
    if (fitted && set_parts(needs, fitted) && add_tools(needs, fitted, tools) &&
        merge_systems(needs, fitted) && dissolve_system(needs, fitted) && alternate(needs, fitted) &&
        add_users(needs, fitted))
        return fitted;
    json_decref(fitted);
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* calls.c - calls and results of a conversation, as a template takes them. */
#include "tools/engine/base/buffer.h"
#include "tools/engine/base/dump.h"
#include "tools/engine/serve/history.h"
#include "tools/engine/serve/mend.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a walk through a conversation knows. */
struct walk {
    const struct kt_needs *needs;
    json_t *out;
    json_t *ids;     /* by the id that came: what is shown for it */
    json_t *names;   /* by the id that came: the tool */
    json_t *pending; /* ids that came, of the last calls; those that have a result are also in `answered` */
    json_t *answered;
    size_t n_answered; /* of `pending`, from its beginning */
    size_t n_calls;
};

/* ---- ids ---- */

static bool is_short(const char *id)
{
    size_t n = strspn(id, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
    return n == 9 && !id[9];
}

/* Nine letters that any id has for itself, the same in each turn. */
static json_t *make_short(const char *id)
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    char text[10];
    for (; *id; id++)
        hash = (hash ^ (unsigned char)*id) * UINT64_C(0x100000001b3);
    for (int i = 0; i < 9; i++, hash /= 62)
        text[i] = letters[hash % 62];
    text[9] = '\0';
    return json_string(text);
}

/* Is this "functions.NAME:0"? */
static bool is_named(const char *id, const char *name)
{
    static const char prefix[] = "functions.";
    size_t n = strlen(name);
    if (strncmp(id, prefix, sizeof(prefix) - 1) != 0 || strncmp(id + sizeof(prefix) - 1, name, n) != 0)
        return false;
    id += sizeof(prefix) - 1 + n;
    return id[0] == ':' && id[1] && strspn(id + 1, "0123456789") == strlen(id + 1);
}

static json_t *show_id(const struct walk *walk, const char *id, const char *name)
{
    switch (walk->needs->ids) {
    case KT_ID_SHORT:
        return is_short(id) ? json_string(id) : make_short(id);
    case KT_ID_NAMED:
        return is_named(id, name) ? json_string(id) : json_sprintf("functions.%s:%zu", name, walk->n_calls);
    default:
        return json_string(id);
    }
}

/* ---- calls ---- */

static json_t *arguments_of(const struct walk *walk, json_t *given)
{
    json_t *object = kt_mend_arguments(given), *text = NULL;
    if (!walk->needs->text_arguments || !object)
        return object;
    char *words = kt_json_dump(object, 0);
    text = words ? json_string(words) : NULL;
    free(words);
    json_decref(object);
    return text;
}

/* A copy of a call; *came is its id. */
static json_t *fit_call(struct walk *walk, json_t *given, const char **came)
{
    json_t *custom = json_object_get(given, "custom"), *function = json_object_get(given, "function");
    json_t *copy = json_copy(given), *body = json_copy(custom ? custom : function);
    const char *name = json_string_value(json_object_get(body, "name"));
    const char *id = json_string_value(json_object_get(given, "id"));
    char made[32];
    (void)snprintf(made, sizeof(made), "call_%zu", walk->n_calls);
    id = id && *id ? id : made;
    json_t *input = json_object_get(custom, "input");
    json_t *arguments = custom ? json_pack("{s:O}", "input", input)
                               : arguments_of(walk, json_object_get(function, "arguments"));
    bool done = copy && body && arguments;
    done = done && json_object_set(body, "arguments", arguments) == 0;
    if (done && custom) {
        (void)json_object_del(body, "input");
        (void)json_object_del(copy, "custom");
        done = json_object_set_new(copy, "type", json_string("function")) == 0;
    }
    done = done && json_object_set(copy, "function", body) == 0 &&
           json_object_set_new(copy, "id", show_id(walk, id, name)) == 0 &&
           json_object_set(walk->ids, id, json_object_get(copy, "id")) == 0 &&
           json_object_set(walk->names, id, json_object_get(body, "name")) == 0 &&
           json_array_append_new(walk->pending, json_string(id)) == 0;
    *came =
        done ? json_string_value(json_array_get(walk->pending, json_array_size(walk->pending) - 1)) : NULL;
    walk->n_calls++;
    json_decref(arguments);
    json_decref(body);
    if (done)
        return copy;
    json_decref(copy);
    return NULL;
}

/* As the parser of output reads it back, in the format that has no tags but words. */
static bool add_text(struct kt_buffer *text, const json_t *call)
{
    const json_t *function = json_object_get(call, "function");
    json_t *object = json_pack("{s:O, s:O}", "name", json_object_get(function, "name"), "arguments",
                               json_object_get(function, "arguments"));
    char *words = kt_json_dump(object, 0);
    bool done = words && (text->length == 0 || kt_buffer_add(text, "\n", 1)) &&
                kt_buffer_add_text(text, "<tool_call>\n") && kt_buffer_add_text(text, words) &&
                kt_buffer_add_text(text, "\n</tool_call>");
    free(words);
    json_decref(object);
    return done;
}

static bool call_in_text(json_t *message, const json_t *calls)
{
    struct kt_buffer text = {.data = NULL};
    const json_t *call;
    bool done = true;
    size_t i;
    json_array_foreach (calls, i, call) {
        done = done && add_text(&text, call);
    }
    json_t *words = done ? json_stringn(text.data, text.length) : NULL;
    done = words && kt_history_join(message, json_object_get(message, "content"), words);
    json_decref(words);
    kt_buffer_free(&text);
    (void)json_object_del(message, "tool_calls");
    return done;
}

/* Parts as one text, where it matters whether there is any. */
static bool flatten(json_t *message)
{
    json_t *none = json_string("");
    bool done = none && kt_history_join(message, json_object_get(message, "content"), none);
    json_decref(none);
    return done;
}

/* Reasoning and content in one, where a template refuses both beside calls. */
static bool join_reasoning(json_t *message)
{
    static const char *const names[] = {"thinking", "reasoning_content"};
    json_t *content = json_object_get(message, "content");
    json_t *reasoning = json_object_get(message, names[0]), *both = json_object(), *none;
    bool done = true;
    if (!json_is_string(reasoning) || json_string_length(reasoning) == 0 || !json_is_string(content) ||
        json_string_length(content) == 0) {
        json_decref(both);
        return true;
    }
    done = both && kt_history_join(both, reasoning, content);
    for (size_t i = 0; done && i < 2; i++)
        done = json_object_set(message, names[i], json_object_get(both, "content")) == 0;
    none = done ? json_string("") : NULL;
    done = none && json_object_set_new(message, "content", none) == 0;
    json_decref(both);
    return done;
}

/* ---- results ---- */

/* The id that a result came with, or that of the first call that has none. */
static const char *id_of_result(struct walk *walk, const json_t *message)
{
    const char *id = json_string_value(json_object_get(message, "tool_call_id")), *next = NULL;
    while ((next = json_string_value(json_array_get(walk->pending, walk->n_answered))) != NULL &&
           json_object_get(walk->answered, next))
        walk->n_answered++;
    return id && *id ? id : next;
}

static bool is_result(const json_t *message)
{
    return kt_history_is(message, "tool") || kt_history_is(message, "function");
}

static bool add_result(struct walk *walk, const json_t *given)
{
    json_t *message = json_copy((json_t *)(uintptr_t)given), *text = NULL;
    const char *came = id_of_result(walk, given);
    json_t *id = came ? json_object_get(walk->ids, came) : NULL;
    json_t *name = came ? json_object_get(walk->names, came) : NULL;
    bool done = message && json_object_set_new(message, "role", json_string("tool")) == 0;
    if (done && id)
        done = json_object_set(message, "tool_call_id", id) == 0;
    else if (done && came && walk->needs->ids == KT_ID_SHORT) /* of a call that is not there */
        done = json_object_set_new(message, "tool_call_id", show_id(walk, came, "")) == 0;
    if (done && name && walk->needs->result_names && !json_object_get(message, "name"))
        done = json_object_set(message, "name", name) == 0;
    done = done && (!came || json_object_set_new(walk->answered, came, json_true()) == 0);
    if (done && walk->needs->no_results) {
        json_t *before = json_string("<tool_response>"), *behind = json_string("</tool_response>");
        text = json_copy(message);
        done = text && before && behind &&
               kt_history_join(text, before, json_object_get(message, "content")) &&
               kt_history_join(text, json_object_get(text, "content"), behind) &&
               json_object_set_new(text, "role", json_string("user")) == 0;
        (void)json_object_del(text, "tool_call_id");
        (void)json_object_del(text, "name");
        json_decref(before);
        json_decref(behind);
    }
    done = done && json_array_append(walk->out, text ? text : message) == 0;
    json_decref(text);
    json_decref(message);
    return done;
}

/* ---- messages ---- */

/* Results by the ids that they came with. NULL: no memory. */
static json_t *sort_results(struct walk *walk, json_t *results)
{
    json_t *sorted = json_object(), *result;
    bool done = sorted != NULL;
    size_t i;
    json_array_foreach (results, i, result) {
        const char *id = id_of_result(walk, result);
        id = id ? id : ""; /* there are more of them than calls */
        json_t *same = json_object_get(sorted, id);
        if (!same)
            done = done && json_object_set_new(sorted, id, same = json_array()) == 0;
        done = done && json_array_append(same, result) == 0 &&
               json_object_set_new(walk->answered, id, json_true()) == 0;
    }
    if (done)
        return sorted;
    json_decref(sorted);
    return NULL;
}

/* Each call in a message of its own, with its results behind it. */
static bool add_single(struct walk *walk, json_t *message, const json_t *calls, const json_t *came,
                       json_t *results)
{
    static const char *const names[] = {"thinking", "reasoning_content", "reasoning"};
    json_t *call, *result, *sorted = sort_results(walk, results);
    bool done = sorted != NULL;
    size_t i, k;
    json_array_foreach (calls, i, call) {
        json_t *one = json_copy(message);
        json_t *own = json_object_get(sorted, json_string_value(json_array_get(came, i)));
        done = done && one && json_object_set_new(one, "tool_calls", json_pack("[O]", call)) == 0;
        if (done && i > 0)
            done = json_object_set_new(one, "content", json_string("")) == 0;
        for (size_t name = 0; done && i > 0 && name < 3; name++)
            (void)json_object_del(one, names[name]);
        done = done && json_array_append(walk->out, one) == 0;
        json_decref(one);
        json_array_foreach (own, k, result) {
            done = done && add_result(walk, result);
        }
        json_array_clear(own);
    }
    const char *id;
    json_t *left;
    json_object_foreach (sorted, id, left) { /* of calls that are not there */
        json_array_foreach (left, k, result) {
            done = done && add_result(walk, result);
        }
    }
    json_decref(sorted);
    return done;
}

/* The calls of a message, as a list; its old form is a call without an id. */
static json_t *list_calls(const json_t *message)
{
    json_t *calls = json_object_get(message, "tool_calls"), *old = json_object_get(message, "function_call");
    if (json_array_size(calls) > 0)
        return json_incref(calls);
    return json_is_object(old) ? json_pack("[{s:s, s:O}]", "type", "function", "function", old)
                               : json_array();
}

/* Results behind the message at `at`. */
static json_t *list_results(const json_t *messages, size_t at)
{
    json_t *results = json_array(), *message;
    while (results && is_result(message = json_array_get(messages, ++at)))
        if (json_array_append(results, message) != 0) {
            json_decref(results);
            return NULL;
        }
    return results;
}

static bool place_calls(struct walk *walk, json_t *message, json_t *calls, const json_t *came,
                        const json_t *messages, size_t *at)
{
    if (!walk->needs->single_calls || json_array_size(calls) < 2)
        return json_object_set(message, "tool_calls", calls) == 0 &&
               json_array_append(walk->out, message) == 0;
    json_t *results = list_results(messages, *at);
    bool done = results && add_single(walk, message, calls, came, results);
    *at += json_array_size(results);
    json_decref(results);
    return done;
}

static bool add_assistant(struct walk *walk, const json_t *messages, size_t *at)
{
    json_t *message = json_copy(json_array_get(messages, *at)), *given = list_calls(message), *call;
    json_t *calls = json_array(), *came = json_array();
    bool done = message && given && calls && came;
    size_t i;
    (void)json_object_del(message, "tool_calls");
    (void)json_object_del(message, "function_call");
    if (done && json_array_size(given) > 0)
        done = json_array_clear(walk->pending) == 0 && json_object_clear(walk->answered) == 0;
    if (done && json_array_size(given) > 0)
        walk->n_answered = 0;
    json_array_foreach (given, i, call) {
        const char *id = NULL;
        done = done && json_array_append_new(calls, fit_call(walk, call, &id)) == 0 &&
               json_array_append_new(came, json_string(id)) == 0;
    }
    if (done && json_array_size(calls) == 0) {
        done = json_array_append(walk->out, message) == 0;
    } else if (done && walk->needs->no_calls) {
        done = call_in_text(message, calls) && json_array_append(walk->out, message) == 0;
    } else if (done) {
        const json_t *content = json_object_get(message, "content");
        if (json_is_array(content) && (walk->needs->joined_reasoning || walk->needs->null_content))
            done = flatten(message);
        if (done && walk->needs->joined_reasoning)
            done = join_reasoning(message);
        content = json_object_get(message, "content");
        if (done && walk->needs->null_content && json_is_string(content) && json_string_length(content) == 0)
            done = json_object_set_new(message, "content", json_null()) == 0;
        done = done && place_calls(walk, message, calls, came, messages, at);
    }
    json_decref(came);
    json_decref(calls);
    json_decref(given);
    json_decref(message);
    return done;
}

json_t *kt_history_calls(const struct kt_needs *needs, json_t *messages)
{
    struct walk walk = {.needs = needs,
                        .out = json_array(),
                        .ids = json_object(),
                        .names = json_object(),
                        .pending = json_array(),
                        .answered = json_object()};
    bool done = walk.out && walk.ids && walk.names && walk.pending && walk.answered;
    for (size_t i = 0; done && i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);
        if (kt_history_is(message, "assistant"))
            done = add_assistant(&walk, messages, &i);
        else if (is_result(message))
            done = add_result(&walk, message);
        else
            done = json_array_append(walk.out, json_array_get(messages, i)) == 0;
    }
    json_decref(walk.ids);
    json_decref(walk.names);
    json_decref(walk.pending);
    json_decref(walk.answered);
    if (done)
        return walk.out;
    json_decref(walk.out);
    return NULL;
}

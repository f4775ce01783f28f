/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE

#include "tools/engine/chat/conversation.h"
#include "tools/engine/base/buffer.h"
#include "tools/engine/base/dump.h"
#include "tools/engine/base/fail.h"
#include "tools/engine/base/rename.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_BYTES (UINT64_C(64) << 20) /* of a file */

bool kt_conversation_open(struct kt_conversation *conversation)
{
    conversation->messages = json_array();
    return conversation->messages != NULL;
}

void kt_conversation_close(struct kt_conversation *conversation)
{
    json_decref(conversation->messages);
    conversation->messages = NULL;
}

static bool has_role(const json_t *message, const char *role)
{
    const char *own = json_string_value(json_object_get(message, "role"));
    return own && strcmp(own, role) == 0;
}

static bool has_system(const struct kt_conversation *conversation)
{
    return has_role(json_array_get(conversation->messages, 0), "system");
}

bool kt_conversation_set_system(struct kt_conversation *conversation, const char *text)
{
    json_t *message = text && *text ? json_pack("{s:s, s:s}", "role", "system", "content", text) : NULL;
    if (text && *text && !message)
        return false;
    if (has_system(conversation))
        (void)json_array_remove(conversation->messages, 0);
    return !message || json_array_insert_new(conversation->messages, 0, message) == 0;
}

const char *kt_conversation_system(const struct kt_conversation *conversation)
{
    const char *text =
        has_system(conversation)
            ? json_string_value(json_object_get(json_array_get(conversation->messages, 0), "content"))
            : NULL;
    return text ? text : "";
}

bool kt_conversation_add(struct kt_conversation *conversation, const char *role, const char *content,
                         size_t length, const char *reasoning, size_t reasoning_length)
{
    json_t *message = json_pack("{s:s, s:s%}", "role", role, "content", length ? content : "", length);
    if (message && reasoning_length > 0 &&
        json_object_set_new(message, "reasoning_content", json_stringn(reasoning, reasoning_length)) != 0) {
        json_decref(message);
        return false;
    }
    return message && json_array_append_new(conversation->messages, message) == 0;
}

void kt_conversation_pop(struct kt_conversation *conversation)
{
    size_t n = json_array_size(conversation->messages);
    if (n > 0)
        (void)json_array_remove(conversation->messages, n - 1);
}

void kt_conversation_clear(struct kt_conversation *conversation)
{
    while (kt_conversation_count(conversation) > 0)
        kt_conversation_pop(conversation);
}

bool kt_conversation_ends_with(const struct kt_conversation *conversation, const char *role)
{
    size_t n = json_array_size(conversation->messages);
    return n > 0 && has_role(json_array_get(conversation->messages, n - 1), role);
}

size_t kt_conversation_count(const struct kt_conversation *conversation)
{
    return json_array_size(conversation->messages) - has_system(conversation);
}

/* ---- writing ---- */

static bool put_messages(FILE *file, const json_t *messages)
{
    bool done = fputs("{\"messages\": [", file) >= 0;
    const json_t *message;
    size_t i;
    json_array_foreach (messages, i, message) { /* json_dumpf would not look at whether keys were written */
        char *text = done ? kt_json_dump(message, 0) : NULL;
        done = text && fputs(i > 0 ? ",\n" : "\n", file) >= 0 && fputs(text, file) >= 0;
        free(text);
    }
    return done && fputs("\n]}\n", file) >= 0 && fflush(file) == 0 && fsync(fileno(file)) == 0;
}

enum kt_status kt_conversation_save(const struct kt_conversation *conversation, const char *path,
                                    struct kt_error *error)
{
    char *temporary;
    if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
        return kt_engine_fail(error, KT_E_NOMEM, "%s: out of memory", path);
    int fd = mkostemp(temporary, O_CLOEXEC); /* which its owner alone may read */
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    bool done = file && put_messages(file, conversation->messages);
    int reason = errno;
    if (file && fclose(file) != 0 && done) {
        done = false;
        reason = errno;
    } else if (!file && fd >= 0) {
        close(fd);
    }
    if (done && !kt_rename_synced(temporary, path)) {
        done = false;
        reason = errno;
    }
    if (!done && fd >= 0)
        unlink(temporary);
    free(temporary);
    return done ? KT_OK : kt_engine_fail(error, KT_E_IO, "%s: %s", path, strerror(reason));
}

/* ---- reading ---- */

static enum kt_status read_file(const char *path, struct kt_buffer *bytes, struct kt_error *error)
{
    FILE *file = fopen(path, "re");
    size_t n = 1;
    if (!file)
        return kt_engine_fail(error, KT_E_IO, "%s: %s", path, strerror(errno));
    enum kt_status status = KT_OK;
    while (status == KT_OK && n > 0) {
        if (!kt_buffer_reserve(bytes, 65536))
            status = kt_engine_fail(error, KT_E_NOMEM, "%s: no memory for it", path);
        n = status == KT_OK ? fread(bytes->data + bytes->length, 1, 65536, file) : 0;
        bytes->length += n;
        if (bytes->length > MOST_BYTES)
            status = kt_engine_fail(error, KT_E_RANGE, "%s: more than %d MiB", path, (int)(MOST_BYTES >> 20));
    }
    if (status == KT_OK && ferror(file))
        status = kt_engine_fail(error, KT_E_IO, "%s: %s", path, strerror(errno));
    (void)fclose(file);
    return status;
}

/* Where the text's message number `wanted` begins, as a line from 1 on. The text is valid JSON that holds it:
 * the list is the outermost one, or the value of "messages" in the outermost object. */
static unsigned find_line(const char *text, size_t length, size_t wanted)
{
    static const char key[] = "\"messages\"";
    unsigned line = 1, depth = 0, list = 0; /* the depth within the list */
    bool is_key = false, is_due = false;    /* a message begins with the next value */
    for (size_t i = 0, n = 0; i < length; i++) {
        char c = text[i];
        line += c == '\n';
        if (strchr(" \t\r\n:", c))
            continue;
        if (is_due && c != ']' && n++ == wanted)
            return line;
        is_due = false;
        if (c == '[' && list == 0 && (depth == 0 || (depth == 1 && is_key))) {
            list = depth + 1;
            is_due = true;
        }
        is_due |= c == ',' && depth == list && list > 0;
        is_key = length - i > sizeof(key) && memcmp(text + i, key, sizeof(key) - 1) == 0;
        if (c == '[' || c == '{')
            depth++;
        else if (c == ']' || c == '}')
            depth--;
        else if (c == '"')
            while (++i < length && text[i] != '"')
                i += text[i] == '\\';
    }
    return line;
}

/* What is wrong with a message; NULL: nothing. */
static const char *judge(const json_t *message, size_t at)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool", "developer"};
    const json_t *content = json_object_get(message, "content");
    bool is_known = false;
    if (!json_is_object(message))
        return "it is not an object";
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
        is_known |= has_role(message, roles[i]);
    if (!is_known)
        return "its role is none of system, user, assistant, tool and developer";
    if (at > 0 && has_role(message, "system"))
        return "only the first message can be the system's";
    if (!json_is_string(content) &&
        !(json_is_array(json_object_get(message, "tool_calls")) && (!content || json_is_null(content))))
        return "its content is not text";
    return NULL;
}

static enum kt_status check(const struct kt_buffer *bytes, json_t *messages, const char *path,
                            struct kt_error *error)
{
    const json_t *message;
    size_t i;
    if (!json_is_array(messages))
        return kt_engine_fail(error, KT_E_FORMAT, "%s: it has no list of messages", path);
    json_array_foreach (messages, i, message) {
        const char *wrong = judge(message, i);
        if (wrong)
            return kt_engine_fail(error, KT_E_FORMAT, "%s: line %u: message %zu: %s", path,
                                  find_line(bytes->data, bytes->length, i), i + 1, wrong);
    }
    return KT_OK;
}

enum kt_status kt_conversation_load(struct kt_conversation *conversation, const char *path,
                                    struct kt_error *error)
{
    struct kt_buffer bytes = {.data = NULL};
    json_error_t place;
    enum kt_status status = read_file(path, &bytes, error);
    json_t *root = status == KT_OK
                       ? json_loadb(bytes.data, bytes.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &place)
                       : NULL;
    if (status == KT_OK && !root)
        status = kt_engine_fail(error, KT_E_FORMAT, "%s: line %d, column %d: %s", path, place.line,
                                place.column, place.text);
    json_t *messages = json_is_object(root) ? json_object_get(root, "messages") : root;
    if (status == KT_OK)
        status = check(&bytes, messages, path, error);
    if (status == KT_OK) {
        json_decref(conversation->messages);
        conversation->messages = json_incref(messages);
    }
    json_decref(root);
    kt_buffer_free(&bytes);
    return status;
}

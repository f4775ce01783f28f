/* SPDX-License-Identifier: Apache-2.0 */
/* conversation.h - the messages of a conversation, as models and servers take them, and as a file. */
#ifndef KT_ENGINE_CHAT_CONVERSATION_H
#define KT_ENGINE_CHAT_CONVERSATION_H

#include <jansson.h>
#include <kt/types.h>
#include <stdbool.h>
#include <stddef.h>

/* A JSON array of {"role": .., "content": ..}; a system's message can only be the first. */
struct kt_conversation {
    json_t *messages;
};

/* False: out of memory, or a text is not UTF-8; so it is with all that return bool. */
bool kt_conversation_open(struct kt_conversation *conversation);
void kt_conversation_close(struct kt_conversation *conversation);
/* Sets the system's message; NULL or "": none. */
bool kt_conversation_set_system(struct kt_conversation *conversation, const char *text);
/* "" if there is none. */
const char *kt_conversation_system(const struct kt_conversation *conversation);
/* Adds a message; `reasoning` may be empty. */
bool kt_conversation_add(struct kt_conversation *conversation, const char *role, const char *content,
                         size_t length, const char *reasoning, size_t reasoning_length);
/* Takes the last message off. */
void kt_conversation_pop(struct kt_conversation *conversation);
/* All but the system's message goes. */
void kt_conversation_clear(struct kt_conversation *conversation);
/* Whether the last message is of this role. */
bool kt_conversation_ends_with(const struct kt_conversation *conversation, const char *role);
/* Messages, the system's not among them. */
size_t kt_conversation_count(const struct kt_conversation *conversation);

/* Writes {"messages": [..]}, a message a line, to a file that only its owner may read, whole or not at all.
 */
enum kt_status kt_conversation_save(const struct kt_conversation *conversation, const char *path,
                                    struct kt_error *error);
/* Reads such a file, or one that holds the list alone; on failure, which names the line, nothing changes. */
enum kt_status kt_conversation_load(struct kt_conversation *conversation, const char *path,
                                    struct kt_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* chat.h - a conversation at the terminal, or one question. */
#ifndef KT_ENGINE_CHAT_CHAT_H
#define KT_ENGINE_CHAT_CHAT_H

#include "tools/engine/chat/conversation.h"
#include "tools/engine/chat/line.h"
#include "tools/engine/chat/screen.h"
#include "tools/engine/chat/talk.h"

struct kt_chat {
    struct kt_cli *cli;
    const struct kt_chat_args *args;
    struct kt_talk *talk;
    struct kt_conversation conversation;
    struct kt_screen answers, notes; /* standard output, standard error */
    struct kt_line *line;            /* NULL: one question */
    char *history;                   /* the file of what was typed; NULL: it is not kept */
    char *question;                  /* the last one, if it has no answer */
    char *path;                      /* where the conversation was saved, or read from */
    bool is_over;
    /* ---- the answer that is being given ---- */
    struct kt_buffer content, reasoning;
    struct kt_talk_end end;
    enum kt_talk_kind kind;
    bool has_piece, is_large;
};

/* Asks, and shows the answer. `text` NULL: asks the last question again. Returns 0 or 1; on failure, which is
 * said, the conversation is as it was. */
int kt_chat_ask(struct kt_chat *chat, const char *text, size_t length);

/* Which model answers, and where. */
void kt_chat_name(const struct kt_chat *chat, char *text, size_t size);

/* ---- commands.c ---- */

/* Does what a line that begins with a slash says. */
void kt_chat_command_run(struct kt_chat *chat, const char *line);

/* ---- typed.c ---- */

/* The file of earlier lines, malloc'ed, in a folder that is made; NULL: there can be none. */
char *kt_typed_path(void);
/* Hands earlier lines to the editor. */
void kt_typed_read(const char *path, struct kt_line *line);
/* Adds a line to the file. */
void kt_typed_add(const char *path, const char *text);

#endif

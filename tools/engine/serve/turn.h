/* SPDX-License-Identifier: Apache-2.0 */
/* turn.h - what somebody says in a conversation, piece by piece, as one message of OpenAI's chats: other APIs
 * have texts, reasoning and calls of tools as parts of their own. */
#ifndef KT_ENGINE_SERVE_TURN_H
#define KT_ENGINE_SERVE_TURN_H

#include "tools/engine/base/buffer.h"
#include "tools/engine/serve/problem.h"

/* All zero but `messages`: nobody speaks. */
struct kt_turn {
    json_t *messages; /* where messages go; not its own */
    const char *role; /* NULL: nobody */
    bool has_text;
    struct kt_buffer text, reasoning;
    json_t *calls; /* NULL: none */
};

/* All of them: false after a problem. */
bool kt_turn_end(struct kt_turn *turn, struct kt_problem *problem);
/* `role` speaks from now on, or goes on; it must live until the turn ends. */
bool kt_turn_begin(struct kt_turn *turn, const char *role, struct kt_problem *problem);
/* Texts are put on lines of their own; NULL: an empty one. */
bool kt_turn_text(struct kt_turn *turn, const json_t *text, struct kt_problem *problem);
bool kt_turn_reasoning(struct kt_turn *turn, const json_t *text, struct kt_problem *problem);
/* `arguments` is JSON text; takes that reference, of which NULL is no memory. */
bool kt_turn_call(struct kt_turn *turn, json_t *id, json_t *name, json_t *arguments,
                  struct kt_problem *problem);
/* A message of a tool, behind what was said before. Takes the reference to `text`. */
bool kt_turn_result(struct kt_turn *turn, json_t *id, json_t *text, struct kt_problem *problem);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* wish.h - the form that an answer must have, by whichever of its names a request asks for it. */
#ifndef KT_ENGINE_SERVE_WISH_H
#define KT_ENGINE_SERVE_WISH_H

#include "tools/engine/serve/problem.h"

/* All kinds but the first two are enum kt_grammar_kind and KT_WISH_TEXT. */
enum kt_wish_kind { KT_WISH_NONE, KT_WISH_SCHEMA, KT_WISH_TEXT };

struct kt_wish {
    enum kt_wish_kind kind;
    char *text;        /* a JSON Schema, or what kt_grammar_text takes; for free() */
    const char *param; /* who asks for it */
};

/* Reads response_format, and what other servers have: llama-server's grammar and json_schema, vLLM's guided_*
 * and structured_outputs, SGLang's regex and ebnf. False: a problem, also where two of them are set. */
bool kt_wish_read(const json_t *body, struct kt_wish *wish, struct kt_problem *problem);
void kt_wish_free(struct kt_wish *wish);
/* Copies such fields into the body of a chat; false: no memory. */
bool kt_wish_copy(const json_t *body, json_t *chat);
/* Is it the name of such a field, but response_format? */
bool kt_wish_knows(const char *name);

#endif

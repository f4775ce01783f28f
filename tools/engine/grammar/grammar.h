/* SPDX-License-Identifier: Apache-2.0 */
/* grammar.h - what a grammar is made of. */
#ifndef KT_ENGINE_GRAMMAR_GRAMMAR_H
#define KT_ENGINE_GRAMMAR_GRAMMAR_H

#include "tools/engine/grammar/program.h"

#include <kt/constraint.h>
#include <kt/text.h>

struct kt_grammar {
    atomic_uint references;
    struct kt_program program;
};

struct kt_form_reader;

/** An empty grammar, after a look at the caller's settings. */
enum kt_status kt_grammar_open(const struct kt_grammar_params *params, const char *caller,
                               struct kt_grammar **grammar, struct kt_error *error);
/** The grammar that begins at `start`, or why there is none. */
enum kt_status kt_grammar_finish(struct kt_grammar *grammar, uint32_t start, struct kt_form_reader *reader);
/** What may stand before the body of an answer: blanks and reasoning. */
uint32_t kt_grammar_lead(struct kt_program *p, const struct kt_grammar_params *params, uint32_t body);
/** gpt-oss' channel of the answer itself. */
uint32_t kt_grammar_final(struct kt_program *p, uint32_t body);
/** The same of gpt-oss' channels, of which `start` is the one with the body. */
uint32_t kt_grammar_channels(struct kt_program *p, uint32_t reasoning, uint32_t start);
/** Any text up to the first `tag`, and that; `end` not 0: or it ends before. flags of kt_op_flag: of the
 * text. */
uint32_t kt_op_until(struct kt_program *p, const char *tag, uint32_t flags, uint32_t next, uint32_t end);

#endif

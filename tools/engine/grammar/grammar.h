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

/** Tags in free text at most: those that open a call in any spelling, and the end of reasoning. */
#define KT_UNTIL_MOST 16

/** A tag in free text. */
struct kt_until {
    const char *tag;
    uint32_t next; /**< what follows it; 0: it may not come */
};

/** An empty grammar, after a look at the caller's settings. */
enum kt_status kt_grammar_open(const struct kt_grammar_params *params, const char *caller,
                               struct kt_grammar **grammar, struct kt_error *error);
/** The grammar that begins at `start`, or why there is none. */
enum kt_status kt_grammar_finish(struct kt_grammar *grammar, uint32_t start, struct kt_form_reader *reader);
/** What may stand before the body of an answer: blanks and reasoning. A call ends reasoning, so no tag that
 * opens one may stand in that, but for `open` (NULL: none), behind which `call` comes. */
uint32_t kt_grammar_lead(struct kt_program *p, const struct kt_grammar_params *params, uint32_t body,
                         const char *open, uint32_t call);
/** The same without blanks and a call. */
uint32_t kt_grammar_exact(struct kt_program *p, const struct kt_grammar_params *params, uint32_t body);
/** gpt-oss' channel of the answer itself. */
uint32_t kt_grammar_final(struct kt_program *p, uint32_t body);
/** Tags that open calls in a format, of which `open` leads to `call`. Returns how many. */
size_t kt_grammar_opens(uint32_t format, const char *open, uint32_t call, struct kt_until *tags);
/** The same of gpt-oss' channels, of which `start` is the one with the body. */
uint32_t kt_grammar_channels(struct kt_program *p, uint32_t reasoning, uint32_t start);
/** Any text up to the first `tag`, and that; `end` not 0: or it ends before. flags of kt_op_flag: of the
 * text. */
uint32_t kt_op_until(struct kt_program *p, const char *tag, uint32_t flags, uint32_t next, uint32_t end);
/** Any text up to the first of these tags; `end`, unless it is 0, may follow anywhere. flags as of
 * kt_op_until. targets (may be NULL): gets where each first byte leads, [256]. */
uint32_t kt_op_until_any(struct kt_program *p, const struct kt_until *tags, size_t n, uint32_t flags,
                         uint32_t end, uint32_t *targets);

/**
 * The mask where a model wants to end its answer, and may not: of what it may write only what leads to the
 * end on the shortest way, as far as that is found in time; else kt_constraint_mask.
 */
enum kt_status kt_constraint_closing(struct kt_constraint *constraint, const uint64_t **mask,
                                     struct kt_error *error);
/** Is this a token that ends the model's turn? */
bool kt_constraint_is_end(const struct kt_constraint *constraint, int32_t id);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* calls.h - calls of tools, as a template's model writes them: JSON in tags (calls.c), or markup (markup.c).
 */
#ifndef KT_ENGINE_GRAMMAR_CALLS_H
#define KT_ENGINE_GRAMMAR_CALLS_H

#include "tools/engine/grammar/grammar.h"
#include "tools/engine/grammar/schema.h"

struct kt_tool {
    const char *name;
    json_t *parameters; /**< a schema of objects; owned */
    uint32_t arguments; /**< rule: the object as JSON; 0: not made yet */
};

struct kt_calls {
    struct kt_form_reader *reader;
    struct kt_program *program;
    struct kt_tool *tools;
    size_t n;
    uint32_t format;
    bool is_serial;
};

/** kt_grammar_calls with `tools` as a value in place of the text of `params`. */
enum kt_status kt_grammar_calls_of(const struct kt_calls_params *params, json_t *tools,
                                   struct kt_grammar **grammar, struct kt_error *error);

/** A part of the model's own language. */
uint32_t kt_op_tag(struct kt_program *p, const char *text, uint32_t next);
/** A newline, or none. */
uint32_t kt_op_line(struct kt_program *p, uint32_t next);
/** One call in markup, behind its opening tag: the tool's name, its arguments, the closing tag. */
uint32_t kt_calls_markup(struct kt_calls *calls, struct kt_tool *tool, uint32_t next);

#endif

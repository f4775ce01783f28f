/* SPDX-License-Identifier: Apache-2.0 */
/* call.h - calls of filters, tests, methods, functions and macros. */
#ifndef KT_ENGINE_TEXT_TEMPLATE_CALL_H
#define KT_ENGINE_TEXT_TEMPLATE_CALL_H

#include "tools/engine/text/template/node.h"
#include "tools/engine/text/template/text.h"

struct jinja_call {
    struct jinja_value self; /* what is filtered, tested, or has the method */
    struct jinja_value *arguments;
    uint32_t n;
    uint32_t n_keys;
    const struct jinja_text **keys;
    struct jinja_value *keyed;
};

/** What templates find by name. */
struct jinja_builtin {
    const char *name;
    struct jinja_value (*run)(struct jinja *j, struct jinja_call *call);
    /** Names of parameters: "a b [c d", those behind "[" optional. The function gets each, JINJA_ABSENT where
     * none was given. "*": any, as they are. */
    const char *parameters;
};

struct jinja_method {
    struct jinja_value self;
    const struct jinja_builtin *builtin;
};

struct jinja_macro {
    const struct jinja_node *node;
    struct jinja_scope *scope; /* where it was defined */
};

/** With the arguments put in order. */
struct jinja_value jinja_call_builtin(struct jinja *j, const struct jinja_builtin *builtin,
                                      struct jinja_call *call);
struct jinja_value jinja_call_value(struct jinja *j, struct jinja_value callee, struct jinja_call *call);
struct jinja_value jinja_call_macro(struct jinja *j, const struct jinja_macro *macro,
                                    struct jinja_call *call);

/** NULL: there is none. `name` need not end. */
const struct jinja_builtin *jinja_find_filter(const char *name, uint64_t length);
const struct jinja_builtin *jinja_find_test(const char *name, uint64_t length);
const struct jinja_builtin *jinja_find_function(const char *name, uint64_t length);
/** Of a value of this type. */
const struct jinja_builtin *jinja_find_method(struct jinja_value self, const struct jinja_text *name);
const struct jinja_builtin *jinja_find_in(const struct jinja_builtin *table, const char *name,
                                          uint64_t length);

extern const struct jinja_builtin jinja_text_filters[], jinja_list_filters[], jinja_choice_filters[],
    jinja_value_filters[];
extern const struct jinja_builtin jinja_text_methods[], jinja_shape_methods[], jinja_list_methods[],
    jinja_dict_methods[], jinja_loop_methods[];

/** Arguments, with what they are by default. */
int64_t jinja_argument_int(struct jinja *j, struct jinja_value value, int64_t absent);
const struct jinja_text *jinja_argument_text(struct jinja *j, struct jinja_value value, const char *absent);

/** x.name and x[key] as templates see them. */
struct jinja_value jinja_attribute(struct jinja *j, struct jinja_value value, const struct jinja_text *name);
struct jinja_value jinja_item(struct jinja *j, struct jinja_value value, struct jinja_value key);
struct jinja_value jinja_slice_value(struct jinja *j, struct jinja_value value, struct jinja_value from,
                                     struct jinja_value to, struct jinja_value step);

/** `operation`: '+', '-', JINJA_TOKEN_POWER .. */
struct jinja_value jinja_operate(struct jinja *j, uint32_t operation, struct jinja_value a,
                                 struct jinja_value b);
/** text % arguments */
struct jinja_value jinja_format(struct jinja *j, const struct jinja_text *text, struct jinja_value arguments);
/** text.format(..): {}, {0}, {name}, with !s or !r; no widths and no parts of arguments */
struct jinja_value jinja_format_fields(struct jinja *j, struct jinja_call *call);

struct jinja_value jinja_evaluate(struct jinja *j, const struct jinja_node *node);

/** A loop, as `loop` in its body. */
struct jinja_loop {
    struct jinja_list *list;
    uint64_t index;          /* from 0 */
    struct jinja_list *last; /* of changed(); NULL: not called yet */
};
struct jinja_value jinja_loop_attribute(struct jinja *j, struct jinja_loop *loop,
                                        const struct jinja_text *name);

#endif

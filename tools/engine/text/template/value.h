/* SPDX-License-Identifier: Apache-2.0 */
/* value.h - the values that templates compute with, as Python has them. */
#ifndef KT_ENGINE_TEXT_TEMPLATE_VALUE_H
#define KT_ENGINE_TEXT_TEMPLATE_VALUE_H

#include "tools/engine/text/template/machine.h"

enum jinja_kind {
    JINJA_ABSENT, /* an argument that was not given */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_BIG, /* a number that neither of these has, as its digits */
    JINJA_TEXT,
    JINJA_LIST,
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_LOOP,
    JINJA_MACRO,
    JINJA_FUNCTION, /* of the environment */
    JINJA_METHOD    /* of a value */
};

/** A text and where its bytes are from. It never changes; slices share the bytes. */
struct jinja_text {
    const char *bytes;          /* UTF-8, no zero behind it */
    const uint8_t *marks;       /* for each byte: is it content? NULL: all are as `content` says */
    struct jinja_buffer *owner; /* where it may be the end of what was written, so that more can follow */
    uint64_t length;
    int64_t n_chars; /* -1: not counted yet */
    bool content;
    bool markup; /* `safe` made it so: what is added to it is escaped, as markupsafe does */
};

struct jinja_value {
    enum jinja_kind kind;
    union {
        bool truth;
        int64_t number;
        double real;
        const struct jinja_text *text; /* of JINJA_BIG too */
        struct jinja_list *list;
        struct jinja_dict *dict; /* of namespaces too */
        const struct jinja_undefined *undefined;
        struct jinja_loop *loop;
        const struct jinja_macro *macro;
        const struct jinja_builtin *function;
        const struct jinja_method *method;
    };
};

/** Why a value is undefined. */
struct jinja_undefined {
    const struct jinja_text *name;
    const char *owner; /* "dict object"; NULL: a variable */
    const char *why;   /* in full; NULL: made of the two above */
};

enum jinja_form {
    JINJA_IS_LIST,
    JINJA_IS_TUPLE,
    JINJA_IS_ONCE,
    JINJA_IS_KEYS,
    JINJA_IS_VALUES,
    JINJA_IS_ITEMS,
    JINJA_IS_RANGE
};

struct jinja_list {
    enum jinja_form form;
    struct jinja_value *items;
    uint64_t n;
    uint64_t room;
    uint64_t begin;   /* JINJA_IS_ONCE: what was taken from it already */
    const char *what; /* of JINJA_IS_ONCE: "generator" */
};

struct jinja_entry {
    struct jinja_value key;
    struct jinja_value value;
    uint64_t hash;
};

struct jinja_dict {
    struct jinja_entry *entries; /* in order of insertion */
    uint64_t n;
    uint64_t room;
    uint32_t *index; /* hash table of entry + 1; NULL while there are few */
    uint64_t index_size;
};

static inline struct jinja_value jinja_none(void)
{
    return (struct jinja_value){.kind = JINJA_NONE};
}
static inline struct jinja_value jinja_bool(bool truth)
{
    return (struct jinja_value){.kind = JINJA_BOOL, .truth = truth};
}
static inline struct jinja_value jinja_int(int64_t number)
{
    return (struct jinja_value){.kind = JINJA_INT, .number = number};
}
static inline struct jinja_value jinja_float(double real)
{
    return (struct jinja_value){.kind = JINJA_FLOAT, .real = real};
}
static inline struct jinja_value jinja_text(const struct jinja_text *text)
{
    return (struct jinja_value){.kind = JINJA_TEXT, .text = text};
}
static inline struct jinja_value jinja_list(struct jinja_list *list)
{
    return (struct jinja_value){.kind = JINJA_LIST, .list = list};
}
static inline struct jinja_value jinja_dict(struct jinja_dict *dict)
{
    return (struct jinja_value){.kind = JINJA_DICT, .dict = dict};
}
static inline bool jinja_is_number(struct jinja_value value)
{
    return value.kind == JINJA_INT || value.kind == JINJA_BOOL;
}
static inline int64_t jinja_number(struct jinja_value value)
{
    return value.kind == JINJA_BOOL ? value.truth : value.number;
}

struct jinja_value jinja_undefined(struct jinja *j, const struct jinja_text *name, const char *owner);
struct jinja_value jinja_undefined_why(struct jinja *j, const char *why);
/** Raises what using `value` as if it were defined raises. */
_Noreturn void jinja_raise_undefined(struct jinja *j, struct jinja_value value);

/** Python's name of the type: "str", "NoneType". */
const char *jinja_type(struct jinja_value value);
bool jinja_truth(struct jinja_value value);
bool jinja_equal(struct jinja *j, struct jinja_value a, struct jinja_value b);
/** < 0, 0, > 0; 2: not ordered, a NaN. Raises where Python does not compare; `sign` is how it says so. */
int jinja_compare(struct jinja *j, struct jinja_value a, struct jinja_value b, const char *sign);
bool jinja_contains(struct jinja *j, struct jinja_value where, struct jinja_value what);
/** The items of whatever can be iterated; what can be taken once is used up. The list of a list is itself. */
struct jinja_list *jinja_iterate(struct jinja *j, struct jinja_value value);
/** len(); -1: it has none. */
int64_t jinja_length(struct jinja *j, struct jinja_value value);

struct jinja_list *jinja_list_new(struct jinja *j, enum jinja_form form, uint64_t room);
void jinja_list_add(struct jinja *j, struct jinja_list *list, struct jinja_value value);
struct jinja_value jinja_pair(struct jinja *j, struct jinja_value a, struct jinja_value b);

struct jinja_dict *jinja_dict_new(struct jinja *j);
/** Raises on keys that cannot be hashed. */
void jinja_dict_set(struct jinja *j, struct jinja_dict *dict, struct jinja_value key,
                    struct jinja_value value);
struct jinja_value *jinja_dict_get(struct jinja *j, const struct jinja_dict *dict, struct jinja_value key);
void jinja_dict_remove(struct jinja *j, struct jinja_dict *dict, struct jinja_value key);
bool jinja_can_hash(struct jinja_value key);
/** Keys, values or pairs, as `form` says. */
struct jinja_list *jinja_dict_list(struct jinja *j, const struct jinja_dict *dict, enum jinja_form form);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/constraint.h - constrained output: JSON that matches a schema, or tool calls. Determines which tokens
 * may come next, so that the output of a model matches. Part of libktengine (pkg-config kt-kernel-engine).
 *
 *     kt_vocabulary_create()     indexes a tokenizer's tokens by their bytes, once per model
 *     kt_grammar_json()          a JSON Schema -> a grammar; kt_grammar_calls(): tool calls;
 *                                kt_grammar_text(): a regular expression, a list of choices, GBNF rules
 *     kt_constraint_create()     the state of one output in the grammar
 *     kt_constraint_allows()     checks whether a token may come next; takes a microsecond
 *     kt_constraint_mask()       all allowed tokens, for kt_sampler_choose if the chosen one is not allowed
 *     kt_constraint_accept()     advances by the chosen token
 *
 * The grammar is based on bytes, so tokens may cross its boundaries ("},{") and characters may cross tokens.
 * Tokens that end the model's turn (kt_token.ends) are only allowed where the text may end.
 *
 * Thread-safety: vocabularies and grammars may be used by any number of threads at once; a constraint by one.
 */
#ifndef KT_CONSTRAINT_H
#define KT_CONSTRAINT_H

#include <kt/types.h>

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* as in <kt/kt.h> */
extern "C" {
#endif

struct kt_tokenizer;
struct kt_vocabulary;
struct kt_grammar;
struct kt_constraint;

/** The tokenizer may be destroyed afterwards. Uses about 12 bytes per byte of a token, and takes 0.1 s. */
enum kt_status kt_vocabulary_create(const struct kt_tokenizer *tokenizer, struct kt_vocabulary **vocabulary,
                                    struct kt_error *error);
/** Its constraints must be destroyed first. `vocabulary` may be NULL. */
void kt_vocabulary_destroy(struct kt_vocabulary *vocabulary);

/** Text before the constrained text. */
enum kt_grammar_reasoning {
    KT_REASONING_NONE = 0,
    KT_REASONING_MAY = 1, /**< the text may begin with <think> ... </think> */
    KT_REASONING_IN = 2   /**< the prompt ended within reasoning: anything up to </think> */
};

struct kt_grammar_params {
    size_t struct_size;
    uint32_t format;    /**< enum kt_output_format of <kt/text.h>: how reasoning and calls are written */
    uint32_t reasoning; /**< enum kt_grammar_reasoning */
};
#define KT_GRAMMAR_PARAMS_INIT KT_INIT(kt_grammar_params)

/**
 * JSON that matches a JSON Schema (2020-12); `schema` NULL: any JSON object. `params` may be NULL: no
 * reasoning.
 *
 * Enforced: type, enum, const, properties, required, additionalProperties, patternProperties (8 at most),
 * propertyNames, minProperties, maxProperties, dependentRequired, dependentSchemas, unevaluatedProperties,
 * items, prefixItems, minItems, maxItems, contains, minContains, maxContains, uniqueItems of items that are
 * enum, boolean or null, unevaluatedItems, minLength, maxLength, pattern, minimum, maximum and their
 * exclusive forms, multipleOf up to 1000 of integers, anyOf, oneOf, allOf, not, if, then, else, $ref and
 * $dynamicRef into the same document, nullable, and format if it is date, time, date-time, duration, uuid,
 * ipv4, ipv6, email, uri, uri-reference, json-pointer or relative-json-pointer. A combination that has no
 * form in a grammar (minProperties of two or more with members of any name, more than 256 alternatives) is
 * KT_E_UNSUPPORTED or KT_E_RANGE, with the keyword's name. Patterns are those of ECMA-262 with the flag u,
 * and match anywhere in a string. Lookahead except after the first ^, lookbehind, backreferences, flags, and
 * properties other than general categories are KT_E_UNSUPPORTED. Bounds are exact, also for integers above
 * 64 bits. Members of objects are in the order of `properties`, followed by others. A schema without `type`
 * allows all types. White space is limited, and so are digits (100) and nesting (about 60); integers and
 * constants are written as they are, not as 1.0 for 1; numbers with bounds have no exponent, and no fraction
 * from 10^15. Ignored: title, description, default, examples, deprecated, readOnly, writeOnly, $comment,
 * discriminator, and names that begin with "x-"; $schema must be one of json-schema.org.
 * KT_E_UNSUPPORTED: everything else; KT_E_FORMAT: not a schema; both with a pointer ("#/properties/a").
 * KT_E_RANGE: it is too large. KT_E_INVALID: no value can match.
 */
enum kt_status kt_grammar_json(const char *schema, uint64_t length, const struct kt_grammar_params *params,
                               struct kt_grammar **grammar, struct kt_error *error);

/** What describes a text that is not JSON. */
enum kt_grammar_kind {
    KT_GRAMMAR_REGEX = 0,  /**< a regular expression, which must match from the first to the last character */
    KT_GRAMMAR_CHOICE = 1, /**< JSON, a list of strings: one of them */
    KT_GRAMMAR_RULES = 2   /**< GBNF, as llama.cpp has it: rules, name ::= .., of which 'root' is the text */
};
/**
 * Such a text. Expressions are those of a schema's patterns. Rules have "texts", [classes], '.', (groups),
 * |, *, +, ?, {m,n} and #comments, escapes \n \r \t \\ \" \[ \] \^ \- \xHH \uHHHH \UHHHHHHHH, and may go on
 * in further lines; calls of rules inside each other nest some 60 deep. KT_E_UNSUPPORTED: a rule that begins
 * with itself; KT_E_FORMAT: no rules, with the line. Else as kt_grammar_json.
 */
enum kt_status kt_grammar_text(uint32_t kind, const char *text, uint64_t length,
                               const struct kt_grammar_params *params, struct kt_grammar **grammar,
                               struct kt_error *error);

struct kt_calls_params {
    size_t struct_size;
    uint32_t format;    /**< as in kt_grammar_params; not KT_OUTPUT_PLAIN */
    uint32_t reasoning; /**< likewise */
    const char *tools;  /**< the request's `tools`, JSON as in OpenAI's API */
    uint64_t tools_length;
    const char *name;     /**< only this tool; NULL: any of them */
    uint32_t is_required; /**< not 0: the output consists only of calls, and all schemas are enforced; 0:
                             there may be text before or instead of calls, and only the schemas of tools with
                             "strict": true are enforced */
    uint32_t is_serial;   /**< not 0: one call */
    const char *form; /**< a JSON Schema, unless calls are required: the output consists of calls, or of JSON
                         that matches it; NULL: any text */
    uint64_t form_length;
};
#define KT_CALLS_PARAMS_INIT KT_INIT(kt_calls_params)

/**
 * Tool calls in the model's own format, with arguments that match the schemas of the tools. In formats with
 * unquoted strings, a string cannot contain the tags of the format, and only arguments named in `properties`
 * are allowed. KT_E_NOT_FOUND: there is no such tool. Otherwise like kt_grammar_json.
 */
enum kt_status kt_grammar_calls(const struct kt_calls_params *params, struct kt_grammar **grammar,
                                struct kt_error *error);
/** Its constraints remain valid. `grammar` may be NULL. */
void kt_grammar_destroy(struct kt_grammar *grammar);

/** The constraint of a text that has not begun. The vocabulary must outlive it. */
enum kt_status kt_constraint_create(struct kt_grammar *grammar, const struct kt_vocabulary *vocabulary,
                                    struct kt_constraint **constraint, struct kt_error *error);
/** A copy with the same state, for another continuation. */
enum kt_status kt_constraint_fork(const struct kt_constraint *constraint, struct kt_constraint **fork,
                                  struct kt_error *error);
/** `constraint` may be NULL. */
void kt_constraint_destroy(struct kt_constraint *constraint);

/** *allowed: not 0 if the token may come next. KT_E_NOMEM. */
enum kt_status kt_constraint_allows(struct kt_constraint *constraint, int32_t id, uint32_t *allowed,
                                    struct kt_error *error);
/** *mask: a bit per token, as for kt_sampler_choose; valid until the next call. *n_words (may be NULL): its
 * size in words. No bit is set if no token of the vocabulary is allowed. */
enum kt_status kt_constraint_mask(struct kt_constraint *constraint, const uint64_t **mask, uint64_t *n_words,
                                  struct kt_error *error);
/** Advances by a token. KT_E_RANGE: it is not allowed, and nothing changes. */
enum kt_status kt_constraint_accept(struct kt_constraint *constraint, int32_t id, struct kt_error *error);

/** The state of a text. */
enum kt_constraint_place {
    KT_CONSTRAINT_OPEN = 0,    /**< it must continue */
    KT_CONSTRAINT_MAY_END = 1, /**< it may end or continue: "12" */
    KT_CONSTRAINT_DONE = 2     /**< it is complete, and nothing may follow */
};
enum kt_constraint_place kt_constraint_place(const struct kt_constraint *constraint);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
#endif

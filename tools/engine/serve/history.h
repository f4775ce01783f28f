/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.h - conversations as a model's template takes them. What OpenAI's form allows is more than any one
 * template does; what that lacks is found once, when it is loaded (needs.c), and made up for in each
 * conversation (history.c, calls.c, tools.c).
 */
#ifndef KT_ENGINE_SERVE_HISTORY_H
#define KT_ENGINE_SERVE_HISTORY_H

#include <kt/text.h>

#include <jansson.h>
#include <stdbool.h>

/* How ids of calls must look. */
enum kt_id_form {
    KT_ID_ANY,
    KT_ID_SHORT, /* nine letters and digits, as Mistral's templates want them */
    KT_ID_NAMED  /* "functions.NAME:0", where Kimi's have the name */
};

/* Roles whose content may be a list of parts. */
enum kt_role { KT_ROLE_SYSTEM, KT_ROLE_USER, KT_ROLE_ASSISTANT, KT_ROLE_TOOL, KT_N_ROLES };

/* What a template needs; all zero: nothing. */
struct kt_needs {
    bool no_calls;         /* it has no place for calls: they are text */
    bool no_results;       /* nor for results: they are a user's text */
    bool no_tools;         /* none for definitions of tools: they are a system message */
    bool own_calls;        /* but it has a form of calls of its own, which the definitions tell */
    bool no_system;        /* none for system messages: they stand before a user's */
    bool one_system;       /* only one, the first message */
    bool first_system;     /* only before all others */
    bool alternation;      /* user and assistant in turn */
    bool user_first;       /* an assistant's message cannot be the first */
    bool user_somewhere;   /* there must be a user's */
    bool answered_tools;   /* behind results of tools an assistant's message */
    bool single_calls;     /* one call a message */
    bool result_names;     /* results have the tool's name */
    bool null_content;     /* calls are shown only beside a content of null */
    bool text_arguments;   /* of calls, as JSON text */
    bool joined_reasoning; /* reasoning and content exclude each other beside calls */
    bool other_reasoning;  /* it is called `reasoning` */
    bool description, parameters, properties; /* of tools */
    bool types, single_types;                 /* of their properties: each has one; it is a word */
    bool text_defaults;                       /* of those, as text */
    bool text_only[KT_N_ROLES];               /* content is text */
    enum kt_id_form ids;
};

/* By rendering small conversations. KT_E_NOMEM. */
enum kt_status kt_needs_find(const struct kt_template *chat, const struct kt_template_info *info,
                             struct kt_needs *needs, struct kt_error *error);

/* Messages of OpenAI's form, checked, each a copy of its own -> the same as the template takes them. Takes
 * the reference; NULL: no memory. `tools`, which may be NULL, only where the template has no place for them.
 */
json_t *kt_history_fit(const struct kt_needs *needs, json_t *messages, const json_t *tools);

/* ---- calls.c: likewise, calls and results only ---- */

json_t *kt_history_calls(const struct kt_needs *needs, json_t *messages);

/* ---- tools.c ---- */

/* The tools as the template takes them, a new reference; NULL: no memory. */
json_t *kt_history_tools(const struct kt_needs *needs, json_t *tools);
/* What a system message says of tools; NULL: no memory. */
json_t *kt_history_about_tools(const struct kt_needs *needs, const json_t *tools);

/* ---- of messages ---- */

/* Is this its role? */
bool kt_history_is(const json_t *message, const char *role);
/* The content of a message: two contents, with an empty line between them. False: no memory. */
bool kt_history_join(json_t *into, const json_t *before, const json_t *behind);

#endif

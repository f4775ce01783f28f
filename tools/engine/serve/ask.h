/* SPDX-License-Identifier: Apache-2.0 */
/* ask.h - what a request for an answer asks for, in any dialect. */
#ifndef KT_ENGINE_SERVE_ASK_H
#define KT_ENGINE_SERVE_ASK_H

#include "tools/engine/serve/fields.h"
#include "tools/engine/serve/server.h"

#define KT_MOST_STOPS 16
#define KT_MOST_STOP_LENGTH 1024 /* bytes of each */
#define KT_MOST_STOP_IDS 128     /* each token is compared with all of them */
#define KT_MOST_BIASES 4096
#define KT_MOST_ANSWERS 64       /* of one request */
#define KT_MOST_ECHOED (1 << 18) /* logprobs of prompts in a reply, some 150 bytes each */

struct kt_prompt {
    int32_t *ids; /* of kt_tokenizer_encode, or malloc'ed: see is_given */
    uint64_t n_ids;
    bool is_given; /* the request had ids */
};

struct kt_dialect;

struct kt_ask {
    const struct kt_dialect *dialect;
    json_t *body; /* stops and model are its own */
    bool is_chat;
    struct kt_sampling_params sampling;
    struct kt_logit_bias *logit_bias;
    int32_t *stop_ids, *breakers;
    uint32_t n_stop_ids;
    struct kt_stop_text stops[KT_MOST_STOPS];
    uint64_t n_stops;
    const char *model; /* NULL: not said */
    int64_t max_tokens, min_tokens;
    int64_t n,
        n_shown; /* answers to each prompt; less are shown where 'best_of' asks for more: the likeliest */
    bool streams, includes_usage, has_usage_always, ignores_eos, echoes;
    bool echoes_only; /* max_tokens 0: a token is asked for, since a request has one, and dropped */
    bool has_logprobs, serial_calls; /* parallel_tool_calls: false */
    bool lists_tokens;
    bool must_call;                /* tool_choice admits nothing but calls */
    int64_t least_indent, most_ms; /* lines.c; 0: any */
    struct kt_prompt *prompts;
    size_t n_prompts;
    /* ---- of a chat ---- */
    struct kt_parser_params parser;
    enum kt_thought thought;    /* of the prompt */
    json_t *tools;              /* that may be called; NULL: none */
    struct kt_grammar *grammar; /* that each answer must fit; NULL: none */
};

/* Names the body's fields that nobody reads in the log, or refuses them where it has "strict": true. */
bool kt_ask_check_unknown(const struct kt_served *model, json_t *body, struct kt_problem *problem);
/* Says once in the log that requests have `what` 'name', which is left out. */
void kt_ask_note(const struct kt_served *model, const char *what, const char *name);
/* Reads all fields but the prompt. Takes the reference to `body`. False: `problem` says why; kt_ask_free
 * either way. */
bool kt_ask_read(struct kt_served *model, json_t *body, const struct kt_dialect *dialect, struct kt_ask *ask,
                 struct kt_problem *problem);
void kt_ask_free(struct kt_ask *ask);
/* Lets go of all of the body but what is used while the answer is computed, which can take long. */
void kt_ask_shrink(struct kt_ask *ask);
/* The prompt, or prompts, of a completion: text, texts, ids or lists of ids. */
bool kt_ask_read_prompts(struct kt_served *model, struct kt_ask *ask, struct kt_problem *problem);
/* The same of the field `param`, at most `most`. */
bool kt_ask_read_texts(struct kt_served *model, struct kt_ask *ask, const char *param, size_t most,
                       struct kt_problem *problem);
/* Ids of a list, malloc'ed; `param` names it. */
bool kt_ask_read_ids(const struct kt_served *model, const json_t *list, const char *param, int32_t **ids,
                     uint64_t *n_ids, struct kt_problem *problem);

/* ---- chat.c ---- */

/* A string, or the texts of a list of parts, joined by newlines; NULL after a problem. */
json_t *kt_chat_text(json_t *content, const char *param, struct kt_problem *problem);
/* The text of a prompt, and the parts that it is made of. */
struct kt_chat_prompt {
    struct kt_rendering *rendering; /* whose text it is */
    const char *text;
    uint64_t length;
    struct kt_text_part *parts;
    uint64_t n_parts;
};
/* Renders the messages of a body; kt_chat_prompt_free if that went well. */
bool kt_chat_render(struct kt_served *model, const json_t *body, struct kt_chat_prompt *prompt,
                    struct kt_problem *problem);
void kt_chat_prompt_free(struct kt_chat_prompt *prompt);
/* The same, encoded as the prompt of `ask`; and what its parser must know. */
bool kt_ask_read_chat(struct kt_served *model, struct kt_ask *ask, struct kt_problem *problem);

/* ---- form.c ---- */

/* What a chat says of its answer's form. */
struct kt_wished_form {
    const json_t *choice; /* tool_choice; NULL: not said */
    const json_t *tools;  /* that may be called; NULL: none */
    bool is_begun;        /* the prompt ends within the answer */
};
/* Sets ask->grammar, also by what the body wishes; the prompt and ask->parser are known already. */
bool kt_ask_read_form(const struct kt_served *model, struct kt_ask *ask, const struct kt_wished_form *form,
                      struct kt_problem *problem);

/* ---- job.c ---- */

/* Answers a request: all of it. */
bool kt_job_answer(struct kt_exchange *exchange, const struct kt_dialect *dialect);
/* The same of a body that is parsed already, whose reference it takes; NULL: `problem` is the answer. */
bool kt_job_answer_body(struct kt_exchange *exchange, const struct kt_dialect *dialect, json_t *body,
                        struct kt_problem *problem);
/* What the scheduler's errors mean to a client. */
bool kt_job_refuse(struct kt_problem *problem, const struct kt_error *error);
/* Replies with the number of tokens that its prompt has, as an object called so; NULL: without a name. */
bool kt_job_count(struct kt_exchange *exchange, const struct kt_dialect *dialect, const char *object);

#endif

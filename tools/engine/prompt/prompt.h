/* SPDX-License-Identifier: Apache-2.0 */
/* prompt.h - what the verbs on whole models share: loading a model, its prompts, and the options of sampling.
 */
#ifndef KT_ENGINE_PROMPT_PROMPT_H
#define KT_ENGINE_PROMPT_PROMPT_H

#include "tools/engine/base/buffer.h"
#include "tools/engine/sampling/reals.h"
#include "tools/kt/base/cli.h"

#include <jansson.h>
#include <kt/constraint.h>
#include <kt/engine.h>
#include <kt/sampling.h>
#include <kt/speculate.h>
#include <kt/text.h>

/* ---- chat.c ---- */

/* The template in a file, or a built-in one by its name. Returns 0, or an exit code after a message. */
int kt_chat_read(const struct kt_cli *cli, const char *path, struct kt_template **chat);
/* Sets "bos_token" and the like where a template's variables have none; false: out of memory. */
bool kt_chat_add_tokens(const struct kt_tokenizer *tokenizer, json_t *request);
/* What a prompt says of the answer's reasoning. */
enum kt_thought {
    KT_THOUGHT_OPEN,  /* nothing */
    KT_THOUGHT_BEGUN, /* it ends within it */
    KT_THOUGHT_OVER   /* it ends behind it, as where enable_thinking is false: there is none */
};
/* The ids of a user's message, and of a system's before it unless that is NULL, as the model reads them. */
int kt_chat_encode(const struct kt_cli *cli, const struct kt_tokenizer *tokenizer,
                   const struct kt_template *chat, const char *system, const char *text, size_t length,
                   int32_t **ids, uint64_t *n_ids, enum kt_thought *thought);

/* The ids of the prompt that `variables` of a template make, for kt generate and kt chat; the server's are
 * made by kt_ask_read_chat (serve/chat.c). */
enum kt_status kt_prompt_ids(const struct kt_tokenizer *tokenizer, const struct kt_template *chat,
                             const json_t *variables, const struct kt_render_params *params, int32_t **ids,
                             uint64_t *n_ids, enum kt_thought *thought, struct kt_error *error);
/* Of a prompt, by the end of its text. */
enum kt_thought kt_chat_thought(const char *text, uint64_t length);
/* The format that a parser of the answer looks for: without tools, what looks like a call is text; formats
 * that have reasoning of their own keep it. */
uint32_t kt_chat_format(uint32_t format, bool has_tools);

/* ---- model.c ---- */

/* --speculate, kept in an int: enum kt_speculation. */
#define KT_SPECULATE_OPTION(arguments, member)                                                          \
    {                                                                                                   \
        .name = "speculate", .type = KT_CLI_CHOICE, .offset = offsetof(arguments, member),              \
        .values = "auto|off|lookup|mtp", .argument = "HOW",                                             \
        .help = "compute drafted tokens with the next one: off (default); auto, while that is faster; " \
                "lookup, drafts from the text itself; mtp, by the model's own block"                    \
    }

/* The dtypes of KT_CLI_CACHES. */
extern const uint32_t kt_cache_dtypes[3];
/* The dtype of --cache; NULL: 0, the default. False after a message: there is no such form. */
bool kt_cache_form(const struct kt_cli *cli, const char *name, uint32_t *dtype);

/* A model with its tokenizer, and what they stand on. */
struct kt_loaded {
    struct kt_context *context;
    struct kt_checkpoint *checkpoint, *experts; /* experts NULL: they are in the checkpoint */
    struct kt_tokenizer *tokenizer;
    struct kt_model *model;
};
/* Loads MODEL, with progress. Returns 0, or an exit code after a message; kt_loaded_close either way. */
int kt_loaded_open(struct kt_cli *cli, const char *path, const char *experts,
                   const struct kt_model_params *params, struct kt_loaded *loaded);
/* The model alone, with progress. */
int kt_loaded_model(struct kt_cli *cli, struct kt_context *context, struct kt_checkpoint *checkpoint,
                    const struct kt_model_params *params, struct kt_model **model);
void kt_loaded_close(struct kt_loaded *loaded);
/* Ids that may come: those that the tokenizer knows. */
uint64_t kt_loaded_vocabulary(const struct kt_loaded *loaded);
/* The tokens that end the model's turn, malloc'ed; NULL: out of memory. */
int32_t *kt_loaded_ends(const struct kt_loaded *loaded, uint32_t *n);

/* ---- sampling.c ---- */

/* Options of sampling. Below 0, and KT_NOT_GIVEN: as the checkpoint advises. */
struct kt_sampling_args {
#define FIELD(name, ...) double name;
    KT_SAMPLING_REALS(FIELD)
#undef FIELD
    uint64_t top_k, penalty_last_n, dry_length, dry_last_n, seed;
    struct kt_cli_texts stop;
};
#define KT_NOT_GIVEN UINT64_MAX
#define KT_REAL_NOT_GIVEN(name, ...) .name = -1,
#define KT_SAMPLING_ARGS_INIT                                                                      \
    {                                                                                              \
        KT_SAMPLING_REALS(KT_REAL_NOT_GIVEN).top_k = KT_NOT_GIVEN, .penalty_last_n = KT_NOT_GIVEN, \
        .dry_length = KT_NOT_GIVEN, .dry_last_n = KT_NOT_GIVEN, .seed = KT_NOT_GIVEN               \
    }

/* Rows of a verb whose struct args has them in `sampling`. */
#define KT_SAMPLING_ROW(option, field, kind, word, most, text)                                           \
    {                                                                                                    \
        .name = option, .type = kind, .offset = offsetof(struct args, sampling.field), .argument = word, \
        .maximum = most, .help = text                                                                    \
    }
#define KT_SAMPLING_REAL(option, field, word, text) KT_SAMPLING_ROW(option, field, KT_CLI_REAL, word, 0, text)
#define KT_SAMPLING_UINT(option, field, text) \
    KT_SAMPLING_ROW(option, field, KT_CLI_UINT, "N", UINT32_MAX, text)
#define KT_SAMPLING_OPTIONS                                                                               \
    KT_SAMPLING_REAL("temperature", temperature, "T",                                                     \
                     "0: the likeliest token each time; 1: as the model has "                             \
                     "it (default of this and the following: the model's own advice)"),                   \
        KT_SAMPLING_UINT("top-k", top_k, "draw of the N likeliest tokens; 0: all"),                       \
        KT_SAMPLING_REAL("top-p", top_p, "P", "draw of the fewest tokens that have this probability"),    \
        KT_SAMPLING_REAL("min-p", min_p, "P",                                                             \
                         "draw of tokens with P times the likeliest one's probability"),                  \
        KT_SAMPLING_REAL("typical", typical_p, "P",                                                       \
                         "draw of the most typical tokens that have this probability"),                   \
        KT_SAMPLING_REAL("top-n-sigma", top_n_sigma, "S",                                                 \
                         "draw of logits within S standard deviations of the highest"),                   \
        KT_SAMPLING_REAL("xtc-probability", xtc_probability, "P",                                         \
                         "how often the likeliest tokens are taken out"),                                 \
        KT_SAMPLING_REAL("xtc-threshold", xtc_threshold, "P",                                             \
                         "the probability from which on they are (default: 0.1)"),                        \
        KT_SAMPLING_REAL("repetition-penalty", repetition_penalty, "R",                                   \
                         "divide logits of tokens that the text has by R"),                               \
        KT_SAMPLING_REAL("presence-penalty", presence_penalty, "R",                                       \
                         "take R off logits of tokens that were written"),                                \
        KT_SAMPLING_REAL("frequency-penalty", frequency_penalty, "R", "the same, as often as they were"), \
        KT_SAMPLING_UINT("penalty-last-n", penalty_last_n, "penalties look back N tokens; 0: at all"),    \
        KT_SAMPLING_REAL("dry-multiplier", dry_multiplier, "M",                                           \
                         "DRY: M * base^(n - length) off a token that would continue "                    \
                         "a repetition of n tokens"),                                                     \
        KT_SAMPLING_REAL("dry-base", dry_base, "B", "its base (default: 1.75)"),                          \
        KT_SAMPLING_UINT("dry-length", dry_length, "its length (default: 2)"),                            \
        KT_SAMPLING_UINT("dry-last-n", dry_last_n, "DRY looks back N tokens; 0: at all"),                 \
        KT_SAMPLING_ROW("seed", seed, KT_CLI_UINT, "N", INT64_MAX,                                        \
                        "the same seed gives the same text again (default: a random one)"),               \
        KT_SAMPLING_ROW("stop", stop, KT_CLI_TEXTS, "TEXT", 0,                                            \
                        "the text ends before TEXT; may be given more than once")

/* Are the options' numbers and stop strings right? 0, or an exit code after a message. */
int kt_sampling_check(const struct kt_cli *cli, const struct kt_sampling_args *args);
/* Parameters by the model's advice and the options. Free params->dry_breakers by kt_ids_free(). Returns 0, or
 * an exit code after a message. */
int kt_sampling_choose(const struct kt_cli *cli, const struct kt_sampling_args *args,
                       const struct kt_loaded *loaded, struct kt_sampling_params *params);
/* What draws, as text, such as "temperature 0.6, top_k 20, "; "": the likeliest token comes each time. */
void kt_sampling_text(const struct kt_sampling_params *params, char *text, size_t size);
/* The options that were given as fields of a request to a server; 0, or an exit code after a message. */
int kt_sampling_fields(const struct kt_cli *cli, const struct kt_sampling_args *args, json_t *request);
/* A sampler by the model's advice and the options, which it shows. Returns 0, or an exit code after a
 * message. */
int kt_sampling_start(const struct kt_cli *cli, const struct kt_sampling_args *args,
                      const struct kt_loaded *loaded, struct kt_sampler **sampler);
/* A matcher of --stop. */
int kt_sampling_stop(const struct kt_cli *cli, const struct kt_sampling_args *args, struct kt_stop **stop);

/* ---- form.c ---- */

/* Reads a JSON Schema, whose text stays in `schema`; NULL: any JSON object. Returns 0, or an exit code after
 * a message. */
int kt_form_read(const struct kt_cli *cli, const char *path, const struct kt_grammar_params *params,
                 struct kt_buffer *schema, struct kt_grammar **grammar);
/* enum kt_grammar_reasoning of an answer to a chat. */
uint32_t kt_form_reasoning(const struct kt_template_info *info, enum kt_thought thought);
/* Continues with ids by up to `most` tokens in a form: on_token gets each of them, until it returns another
 * number than 0 or the form is whole. *is_whole: whether it is. */
enum kt_status kt_form_write(const struct kt_loaded *loaded, struct kt_session *session,
                             struct kt_sampler *sampler, struct kt_grammar *grammar, const int32_t *ids,
                             uint64_t n_ids, uint64_t most, kt_token_fn on_token, void *data, bool *is_whole,
                             struct kt_error *error);

/* ---- input.c ---- */

/* Opens the tokenizer of MODEL. Returns 0, or an exit code after a message. */
int kt_input_tokenizer(const struct kt_cli *cli, const char *model, struct kt_tokenizer **tokenizer);
/* Reads a file, or standard input ("-"), with a zero byte behind it. */
int kt_input_read(const struct kt_cli *cli, const char *path, struct kt_buffer *bytes);

/* A file, or standard input, line by line. */
struct kt_input_lines {
    const struct kt_cli *cli;
    const char *path;
    void *file; /* FILE */
    char *line;
    size_t capacity, length; /* without the newline */
    uint64_t number;         /* from 1 */
};
int kt_input_open(const struct kt_cli *cli, const char *path, struct kt_input_lines *lines);
/* False: there is no further line; *code says whether reading failed. */
bool kt_input_next(struct kt_input_lines *lines, int *code);
void kt_input_close(struct kt_input_lines *lines);

#endif

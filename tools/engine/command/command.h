/* SPDX-License-Identifier: Apache-2.0 */
/* command.h - the verbs of kt-engine, the program that `kt` runs for whatever needs text or whole models. */
#ifndef KT_ENGINE_COMMAND_COMMAND_H
#define KT_ENGINE_COMMAND_COMMAND_H

#include "tools/engine/base/buffer.h"
#include "tools/kt/cli.h"

#include <jansson.h>
#include <kt/engine.h>
#include <kt/text.h>

int kt_cmd_bench_model(struct kt_cli *cli, int argc, char **argv);
int kt_cmd_bench_text(struct kt_cli *cli, int argc, char **argv);
int kt_cmd_detokenize(struct kt_cli *cli, int argc, char **argv);
int kt_cmd_generate(struct kt_cli *cli, int argc, char **argv);
int kt_cmd_perplexity(struct kt_cli *cli, int argc, char **argv);
int kt_cmd_template(struct kt_cli *cli, int argc, char **argv);
int kt_cmd_tokenize(struct kt_cli *cli, int argc, char **argv);

/* ---- chat.c ---- */

/* The template in a file, or a built-in one by its name. Returns 0, or an exit code after a message. */
int kt_chat_read(const struct kt_cli *cli, const char *path, struct kt_template **chat);
/* Sets "bos_token" and the like where a template's variables have none; false: out of memory. */
bool kt_chat_add_tokens(const struct kt_tokenizer *tokenizer, json_t *request);
/* The ids of a user's message, and of a system's before it unless that is NULL, as the model reads them. */
int kt_chat_encode(const struct kt_cli *cli, const struct kt_tokenizer *tokenizer,
                   const struct kt_template *chat, const char *system, const char *text, size_t length,
                   int32_t **ids, uint64_t *n_ids);

/* ---- model.c ---- */

/* A model with its tokenizer, and what they stand on. */
struct kt_loaded {
    struct kt_context *context;
    struct kt_checkpoint *checkpoint;
    struct kt_tokenizer *tokenizer;
    struct kt_model *model;
};
/* Loads MODEL, with progress. Returns 0, or an exit code after a message; kt_loaded_close either way. */
int kt_loaded_open(struct kt_cli *cli, const char *path, const struct kt_model_params *params,
                   struct kt_loaded *loaded);
/* The model alone, with progress. */
int kt_loaded_model(struct kt_cli *cli, struct kt_context *context, struct kt_checkpoint *checkpoint,
                    const struct kt_model_params *params, struct kt_model **model);
void kt_loaded_close(struct kt_loaded *loaded);

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

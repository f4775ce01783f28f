/* SPDX-License-Identifier: Apache-2.0 */
/* command.h - the verbs of kt-engine, the program that `kt` runs for whatever needs text or whole models. */
#ifndef KT_ENGINE_COMMAND_COMMAND_H
#define KT_ENGINE_COMMAND_COMMAND_H

#include "tools/engine/base/buffer.h"
#include "tools/kt/cli.h"

#include <kt/text.h>

int kt_cmd_bench_text(struct kt_cli *cli, int argc, char **argv);
int kt_cmd_detokenize(struct kt_cli *cli, int argc, char **argv);
int kt_cmd_template(struct kt_cli *cli, int argc, char **argv);
int kt_cmd_tokenize(struct kt_cli *cli, int argc, char **argv);

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

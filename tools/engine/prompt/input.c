/* SPDX-License-Identifier: Apache-2.0 */
/* input.c - what the verbs read. */
#define _GNU_SOURCE

#include "tools/engine/prompt/prompt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES (UINT64_C(1) << 31)

int kt_input_tokenizer(const struct kt_cli *cli, const char *model, struct kt_tokenizer **tokenizer)
{
    struct kt_error error;
    double start = kt_cli_now();
    kt_signals_mapped(model);
    if (kt_tokenizer_open(model, tokenizer, &error) != KT_OK)
        return kt_cli_fail_model(cli, model, &error);
    kt_verbose_time(cli, "tokenizer", start, "%s", model);
    return KT_EXIT_OK;
}

static FILE *open_file(const struct kt_cli *cli, const char *path)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (!file)
        kt_cli_error(cli, "%s: %s", path, strerror(errno));
    return file;
}

static void close_file(FILE *file)
{
    if (file && file != stdin)
        (void)fclose(file);
}

int kt_input_read(const struct kt_cli *cli, const char *path, struct kt_buffer *bytes)
{
    FILE *file = open_file(cli, path);
    if (!file)
        return KT_EXIT_PROBLEM;
    size_t n;
    do {
        if (bytes->length > MOST_BYTES) {
            close_file(file);
            return kt_cli_error(cli, "%s: more than 2 GiB", path);
        }
        if (!kt_buffer_reserve(bytes, 65536)) {
            close_file(file);
            return kt_cli_error(cli, "%s: no memory for it", path);
        }
        n = fread(bytes->data + bytes->length, 1, 65535, file);
        bytes->length += n;
        bytes->data[bytes->length] = '\0';
    } while (n > 0);
    int code = ferror(file) ? kt_cli_error(cli, "%s: %s", path, strerror(errno)) : KT_EXIT_OK;
    close_file(file);
    return code;
}

int kt_input_open(const struct kt_cli *cli, const char *path, struct kt_input_lines *lines)
{
    *lines = (struct kt_input_lines){.cli = cli, .path = path, .file = open_file(cli, path)};
    return lines->file ? KT_EXIT_OK : KT_EXIT_PROBLEM;
}

bool kt_input_next(struct kt_input_lines *lines, int *code)
{
    errno = 0;
    ssize_t length = getline(&lines->line, &lines->capacity, lines->file);
    if (length < 0) {
        if (ferror((FILE *)lines->file) || errno == ENOMEM)
            *code = kt_cli_error(lines->cli, "%s: %s", lines->path, strerror(errno));
        return false;
    }
    lines->length = (size_t)length - (length > 0 && lines->line[length - 1] == '\n');
    lines->line[lines->length] = '\0';
    lines->number++;
    return true;
}

void kt_input_close(struct kt_input_lines *lines)
{
    close_file(lines->file);
    free(lines->line);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* detokenize.c - kt detokenize: ids to text. */
#include "tools/engine/prompt/prompt.h"
#include "tools/engine/base/dump.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct args {
    const char *file;
    bool jsonl, no_specials;
};

static const struct kt_cli_option options[] =
    {OPTION_TEXT("file", 'f', file, "FILE", "read the IDs from FILE (-: standard input)"),
     OPTION_FLAG("jsonl", 0, jsonl, "read one array of IDs per line, write one JSON string per line"),
     OPTION_FLAG("no-specials", 0, no_specials, "omit control tokens"),
     {.name = NULL}};
const struct kt_cli_command kt_detokenize_command =
    {.usage = "MODEL [ID]... [OPTION]...",
     .about =
         "Converts token IDs to text: the arguments, or the contents of --file or standard input. Invalid "
         "UTF-8 is shown as U+FFFD.",
     .options = options,
     .arguments = "MODEL",
     .min_arguments = 1,
     .max_arguments = INT32_MAX};

/* Ids that grow. */
struct ids {
    int32_t *id;
    size_t n, capacity;
};

static void add_id(const struct kt_cli *cli, struct ids *ids, int32_t id)
{
    int32_t *grown = kt_array_grow(ids->id, &ids->capacity, ids->n + 1, sizeof(*grown));
    if (!grown)
        exit(kt_cli_error(cli, "out of memory"));
    ids->id = grown;
    grown[ids->n++] = id;
}

/* Reads a word as an id: of the command line, or of a file. */
static int add_word(const struct kt_cli *cli, const char *path, const char *word, struct ids *ids)
{
    char *end;
    bool from_line = !path;
    errno = 0;
    long long number = strtoll(word, &end, 10);
    if (end == word || *end || errno || number < INT32_MIN || number > INT32_MAX)
        return from_line ? kt_cli_usage(cli, "'%s' is not a token id", word)
                         : kt_cli_error(cli, "%s: '%s' is not a token id", path, word);
    add_id(cli, ids, (int32_t)number);
    return KT_EXIT_OK;
}

static int decode(const struct kt_cli *cli, const struct args *args, const struct kt_tokenizer *tokenizer,
                  const struct ids *ids, char **text, uint64_t *length)
{
    struct kt_error error;
    if (kt_tokenizer_decode(tokenizer, ids->id, ids->n, args->no_specials ? KT_DECODE_NO_CONTROL : 0, text,
                            length, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    return KT_EXIT_OK;
}

static int read_line(const struct kt_cli *cli, const struct kt_input_lines *lines, struct ids *ids)
{
    json_error_t place;
    size_t i;
    json_t *id, *array = json_loadb(lines->line, lines->length, 0, &place);
    int code = KT_EXIT_OK;
    if (!json_is_array(array))
        code = kt_cli_error(cli, "%s:%" PRIu64 ": %s", lines->path, lines->number,
                            array ? "not an array of IDs" : place.text);
    json_array_foreach (array, i, id) {
        json_int_t number = json_is_integer(id) ? json_integer_value(id) : -1;
        if (code == KT_EXIT_OK && (number < 0 || number > INT32_MAX))
            code =
                kt_cli_error(cli, "%s:%" PRIu64 ": element %zu is not an id", lines->path, lines->number, i);
        add_id(cli, ids, (int32_t)number);
    }
    json_decref(array);
    return code;
}

static int write_line(const struct kt_cli *cli, const char *text, uint64_t length)
{
    json_t *string = json_stringn(text, length);
    char *line = string ? kt_json_dump(string, JSON_ENCODE_ANY) : NULL;
    json_decref(string);
    if (!line)
        return kt_cli_error(cli, "out of memory");
    puts(line);
    free(line);
    return KT_EXIT_OK;
}

static int detokenize_lines(struct kt_cli *cli, const struct args *args, const struct kt_tokenizer *tokenizer)
{
    struct kt_input_lines lines;
    struct ids ids = {.id = NULL};
    int code = kt_input_open(cli, args->file ? args->file : "-", &lines);
    if (code != KT_EXIT_OK)
        return code;
    while (code == KT_EXIT_OK && !ferror(stdout) && kt_input_next(&lines, &code)) {
        char *text;
        uint64_t length;
        ids.n = 0;
        if (lines.length == 0)
            continue;
        code = read_line(cli, &lines, &ids);
        if (code == KT_EXIT_OK)
            code = decode(cli, args, tokenizer, &ids, &text, &length);
        if (code != KT_EXIT_OK)
            break;
        code = write_line(cli, text, length);
        kt_text_free(text);
    }
    free(ids.id);
    kt_input_close(&lines);
    return code;
}

static int read_ids(struct kt_cli *cli, const struct args *args, struct ids *ids)
{
    struct kt_buffer bytes = {.data = NULL};
    int code = KT_EXIT_OK;
    for (int i = 1; i < cli->n_arguments && code == KT_EXIT_OK; i++)
        code = add_word(cli, NULL, cli->arguments[i], ids);
    if (code != KT_EXIT_OK || cli->n_arguments > 1)
        return code;
    code = kt_input_read(cli, args->file ? args->file : "-", &bytes);
    char *rest = NULL;
    for (char *word = code == KT_EXIT_OK ? strtok_r(bytes.data, " \t\r\n,[]", &rest) : NULL;
         word && code == KT_EXIT_OK; word = strtok_r(NULL, " \t\r\n,[]", &rest))
        code = add_word(cli, args->file ? args->file : "standard input", word, ids);
    kt_buffer_free(&bytes);
    return code;
}

static int detokenize_ids(struct kt_cli *cli, const struct args *args, const struct kt_tokenizer *tokenizer)
{
    struct ids ids = {.id = NULL};
    char *text;
    uint64_t length;
    int code = read_ids(cli, args, &ids);
    if (code == KT_EXIT_OK)
        code = decode(cli, args, tokenizer, &ids, &text, &length);
    free(ids.id);
    if (code != KT_EXIT_OK)
        return code;
    fwrite(text, 1, length, stdout);
    if (isatty(STDOUT_FILENO) && (length == 0 || text[length - 1] != '\n'))
        putchar('\n');
    kt_text_free(text);
    return KT_EXIT_OK;
}

int kt_cmd_detokenize(struct kt_cli *cli, int argc, char **argv)
{
    struct args args = {.file = NULL};
    struct kt_tokenizer *tokenizer;
    if (!kt_cli_parse(cli, &kt_detokenize_command, argc, argv, &args))
        return cli->exit_code;
    if (cli->n_arguments > 1 && (args.file || args.jsonl))
        return kt_cli_usage(cli, "ID %s together with --%s", cli->arguments[1], args.file ? "file" : "jsonl");
    if (cli->format != KT_FORMAT_TABLE)
        return kt_cli_usage(cli, "the output is text; --jsonl writes JSON strings");
    int code = kt_input_tokenizer(cli, cli->arguments[0], &tokenizer);
    if (code != KT_EXIT_OK)
        return code;
    code = (args.jsonl ? detokenize_lines : detokenize_ids)(cli, &args, tokenizer);
    kt_tokenizer_destroy(tokenizer);
    return code;
}

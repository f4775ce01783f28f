/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize.c - kt tokenize: text to ids. */
#include "tools/engine/prompt/prompt.h"
#include "tools/engine/text/utf8.h"
#include "tools/kt/base/table.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct args {
    const char *file;
    bool pieces, jsonl, no_specials, bos;
};

static const struct kt_cli_option options[] =
    {OPTION_TEXT("file", 'f', file, "FILE", "read the text from FILE (-: standard input)"),
     OPTION_FLAG("pieces", 0, pieces, "show each token; also with --format json or csv"),
     OPTION_FLAG("jsonl", 0, jsonl, "read one JSON string per line, write one array of IDs per line"),
     OPTION_FLAG("no-specials", 0, no_specials,
                 "treat control tokens in the text, such as <|im_end|>, as plain text"),
     OPTION_FLAG("bos", 0, bos, "begin with BOS if the model uses it"),
     {.name = NULL}};
const struct kt_cli_command kt_tokenize_command =
    {.usage = "MODEL [TEXT] [OPTION]...",
     .about = "Converts text to token IDs: TEXT, or the contents of --file or standard input. MODEL is "
              "a GGUF file, a model's folder, a tokenizer.json or a tiktoken file.",
     .options = options,
     .arguments = "MODEL",
     .min_arguments = 1,
     .max_arguments = 2};

static const struct kt_column columns[] = {
    {"id", "ID", KT_COLUMN_UINT, 0, 0},
    {"type", "TYPE", KT_COLUMN_TEXT, 0, 0},
    {"piece", "PIECE", KT_COLUMN_TEXT, 0, 0},
    {"bytes", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
};

static int encode(const struct kt_cli *cli, const struct args *args, const struct kt_tokenizer *tokenizer,
                  const char *text, size_t length, int32_t **ids, uint64_t *n_ids)
{
    struct kt_text_part part = {.text = text, .length = length, .is_content = args->no_specials};
    struct kt_error error;
    if (kt_tokenizer_encode(tokenizer, &part, 1, args->bos ? KT_ENCODE_BOS : 0, ids, n_ids, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    return KT_EXIT_OK;
}

/* ---- pieces ---- */

/* Every byte of a token can be seen: white space but ' ' as \n, \t or \xAB, as what is not a character. */
static char *show_piece(const struct kt_cli *cli, const struct kt_token *token)
{
    struct kt_buffer shown = {.data = NULL};
    bool taken = kt_buffer_add_text(&shown, "");
    for (uint64_t at = 0; at < token->length && taken;) {
        uint32_t code;
        char escape[8];
        unsigned char byte = (unsigned char)token->text[at];
        size_t size = kt_utf8_read(token->text + at, token->length - at, &code);
        if (size > 0 && code >= ' ' && code != 0x7F && (code < 0x80 || code >= 0xA0)) {
            taken = kt_buffer_add(&shown, token->text + at, size) && kt_buffer_add_text(&shown, "");
            at += size;
            continue;
        }
        const char *place = byte ? strchr("\nn\tt\rr", byte) : NULL;
        if (place)
            snprintf(escape, sizeof(escape), "\\%c", place[1]);
        else
            snprintf(escape, sizeof(escape), "\\x%02X", byte);
        taken = kt_buffer_add_text(&shown, escape);
        at++;
    }
    if (!taken)
        exit(kt_cli_error(cli, "out of memory"));
    return shown.data;
}

static char *show_bytes(const struct kt_cli *cli, const struct kt_token *token)
{
    char *hex = kt_cli_alloc(cli, 2 * token->length + 1, 1);
    for (uint64_t i = 0; i < token->length; i++)
        snprintf(hex + 2 * i, 3, "%02x", (unsigned char)token->text[i]);
    return hex;
}

static const char *name_type(uint32_t type)
{
    static const char *const names[] = {"", "normal", "unknown", "control", "user", "unused", "byte"};
    return type < sizeof(names) / sizeof(names[0]) ? names[type] : "?";
}

static int show_pieces(struct kt_cli *cli, const struct kt_tokenizer *tokenizer, const int32_t *ids,
                       uint64_t n_ids)
{
    struct kt_output *output = kt_output_create(cli, "kt.tokenize", 1);
    struct kt_table *table = kt_output_table(output, "rows", columns, sizeof(columns) / sizeof(columns[0]));
    kt_output_fact_uint(output, "n_tokens", "tokens", n_ids);
    for (uint64_t i = 0; i < n_ids; i++) {
        struct kt_token token;
        if (kt_tokenizer_token(tokenizer, ids[i], &token, NULL) != KT_OK)
            continue;
        char *piece = show_piece(cli, &token), *bytes = show_bytes(cli, &token);
        kt_table_row(table);
        kt_table_uint(table, "id", (uint64_t)ids[i]);
        kt_table_text(table, "type", name_type(token.type));
        kt_table_text(table, "piece", piece);
        kt_table_text(table, "bytes", bytes);
        free(piece);
        free(bytes);
    }
    return kt_output_finish(output, KT_EXIT_OK);
}

/* ---- lines ---- */

static void print_ids(const int32_t *ids, uint64_t n_ids, const char *between)
{
    for (uint64_t i = 0; i < n_ids; i++)
        printf("%s%" PRId32, i ? between : "", ids[i]);
}

static int tokenize_line(const struct kt_cli *cli, const struct args *args,
                         const struct kt_tokenizer *tokenizer, const struct kt_input_lines *lines)
{
    json_error_t place;
    int32_t *ids;
    uint64_t n_ids;
    json_t *text = json_loadb(lines->line, lines->length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &place);
    if (!json_is_string(text)) {
        const char *what = text ? "not a JSON string" : place.text;
        int code = kt_cli_error(cli, "%s:%" PRIu64 ": %s", lines->path, lines->number, what);
        json_decref(text);
        return code;
    }
    int code = encode(cli, args, tokenizer, json_string_value(text), json_string_length(text), &ids, &n_ids);
    json_decref(text);
    if (code != KT_EXIT_OK)
        return code;
    putchar('[');
    print_ids(ids, n_ids, ", ");
    puts("]");
    kt_ids_free(ids);
    return KT_EXIT_OK;
}

static int tokenize_lines(struct kt_cli *cli, const struct args *args, const struct kt_tokenizer *tokenizer)
{
    struct kt_input_lines lines;
    int code = kt_input_open(cli, args->file ? args->file : "-", &lines);
    if (code != KT_EXIT_OK)
        return code;
    while (code == KT_EXIT_OK && !ferror(stdout) && kt_input_next(&lines, &code))
        if (lines.length > 0)
            code = tokenize_line(cli, args, tokenizer, &lines);
    kt_input_close(&lines);
    return code;
}

/* ---- one text ---- */

static int tokenize_text(struct kt_cli *cli, const struct args *args, const struct kt_tokenizer *tokenizer)
{
    struct kt_buffer bytes = {.data = NULL};
    const char *text = cli->n_arguments > 1 ? cli->arguments[1] : NULL;
    int32_t *ids;
    uint64_t n_ids;
    int code = text ? KT_EXIT_OK : kt_input_read(cli, args->file ? args->file : "-", &bytes);
    if (code == KT_EXIT_OK)
        code = encode(cli, args, tokenizer, text ? text : bytes.data, text ? strlen(text) : bytes.length,
                      &ids, &n_ids);
    kt_buffer_free(&bytes);
    if (code != KT_EXIT_OK)
        return code;
    if (args->pieces || cli->format != KT_FORMAT_TABLE) {
        code = show_pieces(cli, tokenizer, ids, n_ids);
    } else {
        print_ids(ids, n_ids, " ");
        putchar('\n');
    }
    kt_ids_free(ids);
    return code;
}

int kt_cmd_tokenize(struct kt_cli *cli, int argc, char **argv)
{
    struct args args = {.file = NULL};
    struct kt_tokenizer *tokenizer;
    if (!kt_cli_parse(cli, &kt_tokenize_command, argc, argv, &args))
        return cli->exit_code;
    if (cli->n_arguments > 1 && (args.file || args.jsonl))
        return kt_cli_usage(cli, "TEXT '%s' together with --%s", cli->arguments[1],
                            args.file ? "file" : "jsonl");
    if (args.jsonl && (args.pieces || cli->format != KT_FORMAT_TABLE))
        return kt_cli_usage(cli, "--jsonl writes arrays of ids, so --pieces and --format do not go with it");
    int code = kt_input_tokenizer(cli, cli->arguments[0], &tokenizer);
    if (code != KT_EXIT_OK)
        return code;
    code = (args.jsonl ? tokenize_lines : tokenize_text)(cli, &args, tokenizer);
    kt_tokenizer_destroy(tokenizer);
    return code;
}

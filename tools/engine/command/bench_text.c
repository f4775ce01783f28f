/* SPDX-License-Identifier: Apache-2.0 */
/* bench_text.c - kt bench --tokenize: how fast text becomes ids, and ids text. */
#include "tools/engine/command/bench.h"
#include "tools/engine/prompt/prompt.h"
#include "tools/kt/base/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct kt_column columns[] = {
    {"file", "FILE", KT_COLUMN_TEXT, 0, 0},
    {"bytes", "TEXT", KT_COLUMN_BYTES, 0, 0},
    {"n_tokens", "TOKENS", KT_COLUMN_UINT, 0, 0},
    {"bytes_per_token", "B/TOKEN", KT_COLUMN_REAL, 2, 0},
    {"encode_first_mbps", "FIRST MB/S", KT_COLUMN_REAL, 1, 0},
    {"encode_mbps", "ENCODE MB/S", KT_COLUMN_REAL, 1, 0},
    {"decode_mbps", "DECODE MB/S", KT_COLUMN_REAL, 1, 0},
};

/* What was measured of one text. */
struct result {
    double first, encode, decode; /* seconds; the first run has empty caches */
    uint64_t n_tokens;
};

static enum kt_status measure(const struct kt_tokenizer *tokenizer, const struct kt_buffer *bytes,
                              uint64_t runs, struct result *result, struct kt_error *error)
{
    const struct kt_text_part part = {.text = bytes->data, .length = bytes->length};
    *result = (struct result){.encode = 1e30, .decode = 1e30};
    for (uint64_t i = 0; i < runs; i++) {
        int32_t *ids;
        char *text;
        uint64_t length;
        double start = kt_cli_now();
        enum kt_status status = kt_tokenizer_encode(tokenizer, &part, 1, 0, &ids, &result->n_tokens, error);
        double middle = kt_cli_now();
        if (status != KT_OK)
            return status;
        status = kt_tokenizer_decode(tokenizer, ids, result->n_tokens, 0, &text, &length, error);
        double end = kt_cli_now();
        kt_ids_free(ids);
        if (status != KT_OK)
            return status;
        kt_text_free(text);
        result->first = i ? result->first : middle - start;
        result->encode = middle - start < result->encode ? middle - start : result->encode;
        result->decode = end - middle < result->decode ? end - middle : result->decode;
    }
    return KT_OK;
}

static int bench_file(struct kt_cli *cli, const struct bench_args *args, const struct kt_tokenizer *tokenizer,
                      const char *path, struct kt_table *table)
{
    struct kt_buffer bytes = {.data = NULL};
    struct result result;
    struct kt_error error;
    int code = kt_input_read(cli, path, &bytes);
    if (code == KT_EXIT_OK && bytes.length == 0)
        code = kt_cli_error(cli, "%s: it is empty", path);
    if (code == KT_EXIT_OK && measure(tokenizer, &bytes, args->runs, &result, &error) != KT_OK)
        code = kt_cli_fail(cli, &error);
    if (code == KT_EXIT_OK) {
        double megabytes = (double)bytes.length / 1e6;
        kt_table_row(table);
        kt_table_text(table, "file", path);
        kt_table_uint(table, "bytes", bytes.length);
        kt_table_uint(table, "n_tokens", result.n_tokens);
        kt_table_real(table, "bytes_per_token", (double)bytes.length / (double)result.n_tokens);
        kt_table_real(table, "encode_first_mbps", megabytes / result.first);
        kt_table_real(table, "encode_mbps", megabytes / result.encode);
        kt_table_real(table, "decode_mbps", megabytes / result.decode);
    }
    kt_buffer_free(&bytes);
    return code;
}

static int bench_text(struct kt_cli *cli, const struct bench_args *args)
{
    struct kt_tokenizer *tokenizer;
    double start = kt_cli_now();
    int code = kt_input_tokenizer(cli, args->tokenizer, &tokenizer);
    if (code != KT_EXIT_OK)
        return code;
    double loaded = kt_cli_now() - start;
    struct kt_tokenizer_info info;
    kt_tokenizer_info(tokenizer, &info);
    struct kt_output *output = kt_output_create(cli, "kt.bench.tokenize", 1);
    struct kt_table *table = kt_output_table(output, "rows", columns, sizeof(columns) / sizeof(columns[0]));
    kt_output_fact_text(output, "model", "model", info.source);
    kt_output_fact_uint(output, "n_vocabulary", "tokens it knows", info.n_tokens);
    kt_output_fact_real(output, "load_ms", "loading, ms", 1e3 * loaded);
    for (int i = 0; i < cli->n_arguments && code == KT_EXIT_OK; i++)
        code = bench_file(cli, args, tokenizer, cli->arguments[i], table);
    kt_tokenizer_destroy(tokenizer);
    if (code == KT_EXIT_OK)
        return kt_output_finish(output, code);
    kt_output_free(output);
    return code;
}

int kt_cmd_bench(struct kt_cli *cli, int argc, char **argv)
{
    struct bench_args args;
    int kind = bench_parse(cli, argc, argv, &args);
    if (kind == BENCH_LAYER)
        return kt_cli_error(cli, "layers are measured by kt, not by kt-engine");
    if (kind < 0)
        return cli->exit_code;
    return kind == BENCH_TEXT ? bench_text(cli, &args) : kt_bench_model(cli, &args);
}

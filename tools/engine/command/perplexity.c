/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perplexity.c - kt perplexity: how well a model foretells a text. The text is cut into windows; of each, the
 * second half is counted, as llama.cpp's perplexity does, so that every token has at least half a window
 * before it.
 */
#include "tools/engine/command/command.h"
#include "tools/kt/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_WINDOWS 64 /* side by side */

struct args {
    uint64_t context;
};

static const struct kt_cli_option options[] = {{.name = "context",
                                                .type = KT_CLI_UINT,
                                                .offset = offsetof(struct args, context),
                                                .argument = "N",
                                                .minimum = 4,
                                                .maximum = 1 << 20,
                                                .help = "tokens of a window (default: 512)"},
                                               KT_CLI_BACKEND,
                                               KT_CLI_THREADS,
                                               KT_CLI_NUMA_NODES,
                                               {.name = NULL}};
static const struct kt_cli_command command = {
    .usage = "MODEL FILE",
    .about =
        "Measures how well a language model foretells the text of FILE: exp of the mean of -ln p over the "
        "second half of each window. Lower is better; the same text and windows compare backends and formats.",
    .options = options,
    .arguments = "MODEL and FILE",
    .min_arguments = 2,
    .max_arguments = 2,
    .opens_checkpoint = true};

static const struct kt_column columns[] = {
    {"perplexity", "PERPLEXITY", KT_COLUMN_REAL, 4, 0}, {"deviation", "+-", KT_COLUMN_REAL, 4, 0},
    {"n_windows", "WINDOWS", KT_COLUMN_UINT, 0, 0},     {"context", "CONTEXT", KT_COLUMN_UINT, 0, 0},
    {"n_counted", "TOKENS", KT_COLUMN_UINT, 0, 0},      {"tokens_per_s", "TOKENS/S", KT_COLUMN_REAL, 1, 0},
};

/* -ln p of tokens, summed up. */
struct sums {
    double sum, squares;
    uint64_t n;
};

static double surprise(const float *logits, uint64_t n, int32_t id)
{
    double most = logits[0], sum = 0;
    for (uint64_t i = 1; i < n; i++)
        most = logits[i] > most ? logits[i] : most;
    for (uint64_t i = 0; i < n; i++)
        sum += exp(logits[i] - most);
    return log(sum) + most - logits[id];
}

/* Windows first .. first + n - 1 at once. */
static enum kt_status run_windows(struct kt_model *model, struct kt_session *const *sessions,
                                  const int32_t *ids, uint64_t context, uint32_t n, float *logits,
                                  struct sums *sums, struct kt_error *error)
{
    struct kt_step steps[MOST_WINDOWS];
    struct kt_model_info info;
    uint32_t half = (uint32_t)(context - context / 2);
    kt_model_info(model, &info);
    for (uint32_t i = 0; i < n; i++)
        steps[i] = (struct kt_step){sessions[i], ids + i * context, (uint32_t)context, half,
                                    logits + i * half * info.vocabulary};
    enum kt_status status = kt_model_step(model, steps, n, error);
    for (uint32_t i = 0; i < n && status == KT_OK; i++) {
        const int32_t *next = ids + i * context + context / 2 + 1;
        for (uint32_t t = 0; t + 1 < half; t++) {
            double one = surprise(steps[i].logits + t * info.vocabulary, info.vocabulary, next[t]);
            sums->sum += one;
            sums->squares += one * one;
            sums->n++;
        }
        status = kt_session_truncate(sessions[i], 0, error);
    }
    return status;
}

static int measure(const struct kt_cli *cli, const struct kt_loaded *loaded, const int32_t *ids,
                   uint64_t context, uint64_t n_windows, uint32_t n_at_once, struct sums *sums)
{
    struct kt_session *sessions[MOST_WINDOWS] = {NULL};
    struct kt_model_info info;
    struct kt_error error;
    enum kt_status status = KT_OK;
    kt_model_info(loaded->model, &info);
    float *logits = kt_cli_alloc(cli, n_at_once * (context - context / 2) * info.vocabulary, sizeof(*logits));
    for (uint32_t i = 0; i < n_at_once && status == KT_OK; i++)
        status = kt_session_open(loaded->model, &sessions[i], &error);
    kt_progress_start(cli, "measuring");
    for (uint64_t at = 0; at < n_windows && status == KT_OK;) {
        uint32_t n = n_windows - at < n_at_once ? (uint32_t)(n_windows - at) : n_at_once;
        status = run_windows(loaded->model, sessions, ids + at * context, context, n, logits, sums, &error);
        at += n;
        kt_progress_update(at, n_windows);
    }
    kt_progress_stop();
    for (uint32_t i = 0; i < n_at_once; i++)
        kt_session_close(sessions[i]);
    free(logits);
    return status == KT_OK ? KT_EXIT_OK : kt_cli_fail(cli, &error);
}

static int show(struct kt_cli *cli, const struct sums *sums, uint64_t context, uint64_t n_windows,
                double seconds)
{
    struct kt_output *output = kt_output_create(cli, "kt.perplexity", 1);
    struct kt_table *table = kt_output_table(output, "rows", columns, sizeof(columns) / sizeof(columns[0]));
    double mean = sums->sum / (double)sums->n, variance = sums->squares / (double)sums->n - mean * mean;
    kt_table_row(table);
    kt_table_real(table, "perplexity", exp(mean));
    kt_table_real(table, "deviation", exp(mean) * sqrt(variance / (double)sums->n));
    kt_table_uint(table, "n_windows", n_windows);
    kt_table_uint(table, "context", context);
    kt_table_uint(table, "n_counted", sums->n);
    kt_table_real(table, "tokens_per_s", (double)(n_windows * context) / seconds);
    return kt_output_finish(output, KT_EXIT_OK);
}

static int read_ids(const struct kt_cli *cli, const struct kt_loaded *loaded, const char *path, int32_t **ids,
                    uint64_t *n_ids)
{
    struct kt_buffer bytes = {.data = NULL};
    struct kt_error error;
    int code = kt_input_read(cli, path, &bytes);
    struct kt_text_part part = {.text = bytes.data, .length = bytes.length, .is_content = 1};
    if (code == KT_EXIT_OK &&
        kt_tokenizer_encode(loaded->tokenizer, &part, 1, KT_ENCODE_BOS, ids, n_ids, &error) != KT_OK)
        code = kt_cli_fail(cli, &error);
    kt_buffer_free(&bytes);
    return code;
}

static int run(struct kt_cli *cli, const struct kt_loaded *loaded, uint64_t context, uint32_t n_at_once)
{
    struct kt_tokenizer_info info;
    struct sums sums = {.n = 0};
    int32_t *ids;
    uint64_t n_ids;
    int code = read_ids(cli, loaded, cli->arguments[1], &ids, &n_ids);
    if (code != KT_EXIT_OK)
        return code;
    uint64_t n_windows = n_ids / context;
    if (n_windows == 0)
        code = kt_cli_error(cli, "%s has %" PRIu64 " tokens, a window %" PRIu64, cli->arguments[1], n_ids,
                            context);
    kt_tokenizer_info(loaded->tokenizer, &info);
    for (uint64_t i = 0; i < n_windows && info.adds_bos && info.bos_token_id >= 0; i++)
        ids[i * context] = info.bos_token_id;
    double start = kt_cli_now();
    if (code == KT_EXIT_OK)
        code = measure(cli, loaded, ids, context, n_windows, n_at_once, &sums);
    kt_ids_free(ids);
    return code == KT_EXIT_OK ? show(cli, &sums, context, n_windows, kt_cli_now() - start) : code;
}

int kt_cmd_perplexity(struct kt_cli *cli, int argc, char **argv)
{
    struct args args = {.context = 512};
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    struct kt_loaded loaded;
    if (!kt_cli_parse(cli, &command, argc, argv, &args))
        return cli->exit_code;
    uint32_t n_at_once = (uint32_t)(1024 / args.context);
    n_at_once = n_at_once < 1 ? 1 : n_at_once > MOST_WINDOWS ? MOST_WINDOWS : n_at_once;
    params.max_tokens = args.context;
    params.max_sessions = n_at_once;
    params.cache_tokens = n_at_once * ((args.context + KT_KV_PAGE - 1) / KT_KV_PAGE * KT_KV_PAGE);
    int code = kt_loaded_open(cli, cli->arguments[0], &params, &loaded);
    if (code == KT_EXIT_OK)
        code = run(cli, &loaded, args.context, n_at_once);
    kt_loaded_close(&loaded);
    return code;
}

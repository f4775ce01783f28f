/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perplexity.c - kt perplexity: the perplexity of a model on a text. The text is split into windows; only the
 * second half of each counts, as in llama.cpp, so that every counted token has at least half a window before
 * it.
 */
#include "tools/engine/prompt/prompt.h"
#include "tools/engine/command/logits_file.h"
#include "tools/kt/base/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_WINDOWS 64 /* side by side */

struct args {
    const char *save, *compare, *cache, *experts;
    uint64_t context;
};

static const struct kt_cli_option options[] =
    {OPTION_UINT("context", 0, context, 4, 1 << 20, "N", "window size in tokens (default: 512)"),
     OPTION_TEXT("save-logits", 0, save, "OUT", "save the logits of all counted tokens, 4 bytes each"),
     OPTION_TEXT("kl-divergence", 0, compare, "RECORDED", "compare with logits saved by --save-logits"),
     OPTION_TEXT("cache", 0, cache, "FORM", "data type of the KV cache: bf16 (default), q8_0 or f32"),
     KT_CLI_EXPERTS(struct args),
     KT_CLI_BACKEND,
     KT_CLI_THREADS,
     KT_CLI_NUMA_NODES,
     {.name = NULL}};
const struct kt_cli_command kt_perplexity_command =
    {.usage = "MODEL FILE [OPTION]...",
     .about =
         "Prints the perplexity of a language model on the text of FILE: exp of the mean of -ln p over the "
         "second half of each window. Lower is better; the same text and windows compare backends and "
         "formats.",
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
static const struct kt_column divergence_columns[] = {
    {"kl_divergence", "KL DIVERGENCE", KT_COLUMN_REAL, -1, 0},
    {"kl_deviation", "+-", KT_COLUMN_REAL, -1, 0},
    {"same_top", "SAME TOP", KT_COLUMN_REAL, 4, 0},
};

/* A mean and its deviation. */
struct sums {
    double sum, squares;
    uint64_t n;
};

struct measurement {
    struct sums surprise;   /* -ln p of tokens */
    struct sums divergence; /* sum over i of p_i ln(p_i / q_i), p what was recorded */
    uint64_t n_same;        /* tokens whose likeliest one is the same */
    struct kt_logits_file saved, recorded;
    float *other; /* [vocabulary] of what was recorded */
};

static void add(struct sums *sums, double value)
{
    sums->sum += value;
    sums->squares += value * value;
    sums->n++;
}

static uint64_t find_top(const float *logits, uint64_t n)
{
    uint64_t top = 0;
    for (uint64_t i = 1; i < n; i++)
        top = logits[i] > logits[top] ? i : top;
    return top;
}

/* What logits must be lowered by to be logarithms of probabilities. */
static double log_sum(const float *logits, uint64_t n)
{
    double most = logits[find_top(logits, n)], sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += exp(logits[i] - most);
    return log(sum) + most;
}

static double diverge(const float *p, const float *q, uint64_t n)
{
    double all_p = log_sum(p, n), all_q = log_sum(q, n), sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += exp(p[i] - all_p) * ((p[i] - all_p) - (q[i] - all_q));
    return sum;
}

/* Returns 0, or an exit code after a message. */
static int count(struct measurement *m, const float *logits, uint64_t n, int32_t id)
{
    int code = KT_EXIT_OK;
    add(&m->surprise, log_sum(logits, n) - logits[id]);
    if (m->saved.file)
        code = kt_logits_write(&m->saved, logits, n);
    if (code != KT_EXIT_OK || !m->recorded.file)
        return code;
    code = kt_logits_read(&m->recorded, m->other, n);
    add(&m->divergence, diverge(m->other, logits, n));
    m->n_same += find_top(m->other, n) == find_top(logits, n);
    return code;
}

/* Windows first .. first + n - 1 at once. */
static int run_windows(const struct kt_cli *cli, struct kt_model *model, struct kt_session *const *sessions,
                       const int32_t *ids, uint64_t context, uint32_t n, float *logits, struct measurement *m)
{
    struct kt_step steps[MOST_WINDOWS];
    struct kt_model_info info;
    struct kt_error error;
    uint32_t half = (uint32_t)(context - context / 2);
    int code = KT_EXIT_OK;
    kt_model_info(model, &info);
    for (uint32_t i = 0; i < n; i++)
        steps[i] = (struct kt_step){sessions[i], ids + i * context, (uint32_t)context, half,
                                    logits + i * half * info.vocabulary};
    if (kt_model_step(model, steps, n, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    for (uint32_t i = 0; i < n && code == KT_EXIT_OK; i++) {
        const int32_t *next = ids + i * context + context / 2 + 1;
        for (uint32_t t = 0; t + 1 < half && code == KT_EXIT_OK; t++)
            code = count(m, steps[i].logits + t * info.vocabulary, info.vocabulary, next[t]);
        if (code == KT_EXIT_OK && kt_session_truncate(sessions[i], 0, &error) != KT_OK)
            code = kt_cli_fail(cli, &error);
    }
    return code;
}

static int measure(const struct kt_cli *cli, const struct kt_loaded *loaded, const int32_t *ids,
                   uint64_t context, uint64_t n_windows, uint32_t n_at_once, struct measurement *m)
{
    struct kt_session *sessions[MOST_WINDOWS] = {NULL};
    struct kt_model_info info;
    struct kt_error error;
    int code = KT_EXIT_OK;
    kt_model_info(loaded->model, &info);
    float *logits = kt_cli_alloc(cli, n_at_once * (context - context / 2) * info.vocabulary, sizeof(*logits));
    m->other = kt_cli_alloc(cli, info.vocabulary, sizeof(*m->other));
    for (uint32_t i = 0; i < n_at_once && code == KT_EXIT_OK; i++)
        if (kt_session_open(loaded->model, &sessions[i], &error) != KT_OK)
            code = kt_cli_fail(cli, &error);
    kt_progress_start(cli, "measuring");
    for (uint64_t at = 0; at < n_windows && code == KT_EXIT_OK;) {
        uint32_t n = n_windows - at < n_at_once ? (uint32_t)(n_windows - at) : n_at_once;
        code = run_windows(cli, loaded->model, sessions, ids + at * context, context, n, logits, m);
        at += n;
        kt_progress_update(at, n_windows);
    }
    kt_progress_stop();
    for (uint32_t i = 0; i < n_at_once; i++)
        kt_session_close(sessions[i]);
    free(m->other);
    free(logits);
    return code;
}

/* The files that options name, of this shape. */
static int open_files(const struct kt_cli *cli, const struct args *args, const struct kt_logits_shape *shape,
                      struct measurement *m)
{
    int code = args->compare ? kt_logits_open(cli, args->compare, shape, &m->recorded) : KT_EXIT_OK;
    return code == KT_EXIT_OK && args->save ? kt_logits_create(cli, args->save, shape, &m->saved) : code;
}

static double deviation(const struct sums *sums)
{
    double mean = sums->sum / (double)sums->n;
    return sqrt(fmax(0, sums->squares / (double)sums->n - mean * mean) / (double)sums->n);
}

static int show(struct kt_cli *cli, const struct measurement *m, uint64_t context, uint64_t n_windows,
                double seconds)
{
    const struct sums *sums = &m->surprise, *other = &m->divergence;
    struct kt_column all[sizeof(columns) / sizeof(*columns) + 3];
    size_t n = sizeof(columns) / sizeof(*columns);
    memcpy(all, columns, sizeof(columns));
    memcpy(all + n, divergence_columns, sizeof(divergence_columns));
    struct kt_output *output = kt_output_create(cli, "kt.perplexity", 1);
    struct kt_table *table = kt_output_table(output, "rows", all, other->n > 0 ? n + 3 : n);
    double perplexity = exp(sums->sum / (double)sums->n);
    kt_table_row(table);
    kt_table_real(table, "perplexity", perplexity);
    kt_table_real(table, "deviation", perplexity * deviation(sums));
    kt_table_uint(table, "n_windows", n_windows);
    kt_table_uint(table, "context", context);
    kt_table_uint(table, "n_counted", sums->n);
    kt_table_real(table, "tokens_per_s", (double)(n_windows * context) / seconds);
    if (other->n > 0) {
        kt_table_real(table, "kl_divergence", other->sum / (double)other->n);
        kt_table_real(table, "kl_deviation", deviation(other));
        kt_table_real(table, "same_top", (double)m->n_same / (double)other->n);
    }
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

static int run(struct kt_cli *cli, const struct args *args, const struct kt_loaded *loaded,
               uint32_t n_at_once)
{
    struct measurement m = {.n_same = 0};
    struct kt_model_info model;
    uint64_t context = args->context;
    struct kt_tokenizer_info info;
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
    kt_model_info(loaded->model, &model);
    const struct kt_logits_shape shape = {model.vocabulary, context, n_windows,
                                          kt_logits_hash(ids, n_windows * context)};
    if (code == KT_EXIT_OK)
        code = open_files(cli, args, &shape, &m);
    double start = kt_cli_now();
    if (code == KT_EXIT_OK)
        code = measure(cli, loaded, ids, context, n_windows, n_at_once, &m);
    if (code == KT_EXIT_OK && args->save)
        code = kt_logits_finish(&m.saved);
    kt_logits_close(&m.saved);
    kt_logits_close(&m.recorded);
    kt_ids_free(ids);
    return code == KT_EXIT_OK ? show(cli, &m, context, n_windows, kt_cli_now() - start) : code;
}

int kt_cmd_perplexity(struct kt_cli *cli, int argc, char **argv)
{
    struct args args = {.context = 512};
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    struct kt_loaded loaded;
    if (!kt_cli_parse(cli, &kt_perplexity_command, argc, argv, &args))
        return cli->exit_code;
    if (!kt_cache_form(cli, args.cache, &params.cache_dtype))
        return KT_EXIT_USAGE;
    uint32_t n_at_once = (uint32_t)(1024 / args.context);
    n_at_once = n_at_once < 1 ? 1 : n_at_once > MOST_WINDOWS ? MOST_WINDOWS : n_at_once;
    params.max_tokens = args.context;
    params.max_sessions = n_at_once;
    params.n_logits = n_at_once * (uint32_t)(args.context - args.context / 2);
    params.cache_tokens = n_at_once * ((args.context + KT_KV_PAGE - 1) / KT_KV_PAGE * KT_KV_PAGE);
    int code = kt_loaded_open(cli, cli->arguments[0], args.experts, &params, &loaded);
    if (code == KT_EXIT_OK)
        code = run(cli, &args, &loaded, n_at_once);
    kt_loaded_close(&loaded);
    return code;
}

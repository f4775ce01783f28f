/* SPDX-License-Identifier: Apache-2.0 */
/* bench_model.c - kt bench MODEL with -p, -n or -d: a whole model, beside what this machine's memory and
 * multiply instructions allow. */
#include "tools/engine/command/bench.h"
#include "tools/engine/prompt/prompt.h"
#include "tools/kt/bench/bench.h"
#include "tools/kt/base/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 16 /* numbers of a list */
#define READ_SIZE (UINT64_C(1) << 30)

static const struct kt_column columns[] = {
    {"test", "TEST", KT_COLUMN_TEXT, 0, 0},
    {"n_sequences", "SEQUENCES", KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"n_depth", "DEPTH", KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"tokens_per_s", "TOKENS/S", KT_COLUMN_REAL, 2, 0},
    {"deviation", "+-", KT_COLUMN_REAL, 2, 0},
    {"gb_per_s", "GB/S", KT_COLUMN_REAL, 1, 0},
    {"limit_fraction", "LIMIT", KT_COLUMN_REAL, 2, 0},
    {"experts_share", "EXPERTS", KT_COLUMN_REAL, 3, 0},
    {"linears_share", "LINEARS", KT_COLUMN_REAL, 3, 0},
    {"attention_share", "ATTENTION", KT_COLUMN_REAL, 3, 0},
    {"head_share", "HEAD", KT_COLUMN_REAL, 3, 0},
    {"rest_share", "REST", KT_COLUMN_REAL, 3, 0},
};

struct list {
    uint64_t numbers[MOST];
    size_t n;
};

struct bench {
    struct kt_cli *cli;
    const struct bench_args *args;
    struct list prompts, answers, depths, sequences;
    struct kt_context *context;
    struct kt_checkpoint *checkpoint, *experts;
    struct kt_model *model;
    struct kt_model_info info;
    uint32_t cache_dtype;
    uint64_t token_size; /* bytes of the cache */
    double read, peak;   /* bytes and operations a second; 0: unknown */
    struct kt_session **sessions;
    struct kt_step *steps;
    int32_t *ids;
    float *logits;
    struct kt_table *table;
};

/* One kind of measurement. */
struct test {
    uint64_t depth, n, sequences;
    bool is_prompt;
};

/* ---- limits ---- */

static enum kt_status measure_limits(struct bench *b, struct kt_error *error)
{
    const struct bench_peak *peaks[BENCH_MAX_WAYS];
    struct bench_limit reads[BENCH_MAX_WAYS] = {{.rate = 0}}, peak = {.rate = 0};
    struct bench_buffer buffer;
    struct kt_context_info info;
    size_t n_reads = 0;
    uint64_t size = 3 * bench_cache_size() > READ_SIZE ? 3 * bench_cache_size() : READ_SIZE;
    kt_context_info(b->context, &info);
    size_t n_peaks = bench_find_peaks(info.cpu, b->info.level, b->info.instruction, peaks, BENCH_MAX_WAYS);
    enum kt_status status = bench_buffer_create(&buffer, size, error);
    if (status != KT_OK)
        return status;
    status = bench_measure_reads(b->context, &buffer, 3, reads, &n_reads, error);
    for (size_t i = 0; i < n_peaks && status == KT_OK; i++)
        status = bench_measure_peak(b->context, peaks[i], BENCH_SLICE_NS, &peak, error);
    bench_buffer_destroy(&buffer);
    for (size_t i = 0; i < n_reads; i++)
        b->read = 1e9 * reads[i].rate > b->read ? 1e9 * reads[i].rate : b->read;
    b->peak = 1e9 * peak.rate > b->peak ? 1e9 * peak.rate : b->peak;
    return status;
}

/* Bytes of weights that a slice of n tokens reads: of experts those that independent routing chooses. */
static double weight_bytes(const struct bench *b, double n)
{
    const struct kt_model_info *m = &b->info;
    double dense = (double)m->dense_bytes;
    if (m->n_experts == 0)
        return dense;
    double chosen = 1 - pow(1 - (double)m->top_k / m->n_experts, n);
    return dense + chosen * (double)m->expert_bytes;
}

static double operations(const struct bench *b, double n, double n_logits)
{
    const struct kt_model_info *m = &b->info;
    double head = (double)(m->vocabulary * m->hidden_size);
    double share = m->n_experts > 0 ? (double)m->top_k / m->n_experts : 0;
    double body = (double)(m->n_weights - m->n_expert_weights) - head + share * (double)m->n_expert_weights;
    return 2 * (n * body + n_logits * head);
}

/* Seconds that the limits allow, and the bytes that are read. */
static double limit_of(const struct bench *b, const struct test *test, double *bytes)
{
    double seconds = 0, done = 0, cache = (double)b->token_size;
    *bytes = 0;
    while (done < (double)test->n) {
        double n = test->is_prompt ? fmin(512, (double)test->n - done) : 1;
        double size = weight_bytes(b, n * (double)test->sequences) +
                      (double)test->sequences * cache * ((double)test->depth + done + n);
        double product = operations(b, n * (double)test->sequences,
                                    test->is_prompt ? done + n >= (double)test->n : (double)test->sequences);
        seconds += fmax(size / b->read, b->peak > 0 ? product / b->peak : 0);
        *bytes += size;
        done += n;
    }
    return seconds;
}

/* ---- measuring ---- */

static void draw_ids(struct bench *b, uint64_t n)
{
    struct bench_random random;
    bench_random_seed(&random, 42);
    for (uint64_t i = 0; i < n; i++)
        b->ids[i] = (int32_t)bench_random_below(&random, (uint32_t)b->info.vocabulary);
}

static enum kt_status write_tokens(struct bench *b, const struct test *test, struct kt_error *error)
{
    enum kt_status status = KT_OK;
    uint32_t n = (uint32_t)test->sequences;
    for (uint64_t t = 0; t < test->n && status == KT_OK; t++) {
        for (uint32_t i = 0; i < n; i++)
            b->steps[i] = (struct kt_step){b->sessions[i], b->ids + test->depth + t * n + i, 1, 1,
                                           b->logits + i * b->info.vocabulary};
        status = kt_model_step(b->model, b->steps, n, error);
    }
    return status;
}

static enum kt_status read_prompt(struct bench *b, const struct test *test, struct kt_error *error)
{
    b->steps[0] = (struct kt_step){b->sessions[0], b->ids + test->depth, (uint32_t)test->n, 1, b->logits};
    return kt_model_step(b->model, b->steps, 1, error);
}

/* Runs a test in sessions that go on behind `base`, and takes its time. */
static enum kt_status run_once(struct bench *b, const struct test *test, struct kt_session *base,
                               double *seconds, struct kt_error *error)
{
    enum kt_status status = KT_OK;
    uint64_t n = 0;
    for (; n < test->sequences && status == KT_OK; n++)
        status = kt_session_fork(base, test->depth, &b->sessions[n], error);
    double start = kt_cli_now();
    if (status == KT_OK)
        status = (test->is_prompt ? read_prompt : write_tokens)(b, test, error);
    *seconds = kt_cli_now() - start;
    for (uint64_t i = 0; i < n; i++) {
        kt_session_close(b->sessions[i]);
        b->sessions[i] = NULL;
    }
    return status;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void add_row(struct bench *b, const struct test *test, double *seconds,
                    const struct kt_model_times *at, const struct kt_model_times *to)
{
    char name[128], depth[32] = "", many[32] = "";
    double bytes, limit = limit_of(b, test, &bytes), mean = 0, squares = 0, total = to->total - at->total;
    double tokens = (double)(test->n * test->sequences);
    size_t n = (size_t)b->args->runs;
    for (size_t i = 0; i < n; i++) {
        mean += tokens / seconds[i] / (double)n;
        squares += tokens / seconds[i] * tokens / seconds[i] / (double)n;
    }
    qsort(seconds, n, sizeof(*seconds), compare);
    double median = seconds[n / 2];
    double rest = total - (to->experts - at->experts) - (to->linears - at->linears) -
                  (to->attention - at->attention) - (to->head - at->head);
    if (test->depth > 0)
        snprintf(depth, sizeof(depth), " @ d%" PRIu64, test->depth);
    if (test->sequences > 1)
        snprintf(many, sizeof(many), " x %" PRIu64, test->sequences);
    snprintf(name, sizeof(name), "%s%" PRIu64 "%s%s", test->is_prompt ? "pp" : "tg", test->n, many, depth);
    kt_table_row(b->table);
    kt_table_text(b->table, "test", name);
    kt_table_uint(b->table, "n_sequences", test->sequences);
    kt_table_uint(b->table, "n_depth", test->depth);
    kt_table_real(b->table, "tokens_per_s", tokens / median);
    kt_table_real(b->table, "deviation", sqrt(fmax(0, squares - mean * mean)));
    kt_table_real(b->table, "gb_per_s", bytes / median / 1e9);
    kt_table_real(b->table, "limit_fraction", limit / median);
    kt_table_real(b->table, "experts_share", (to->experts - at->experts) / total);
    kt_table_real(b->table, "linears_share", (to->linears - at->linears) / total);
    kt_table_real(b->table, "attention_share", (to->attention - at->attention) / total);
    kt_table_real(b->table, "head_share", (to->head - at->head) / total);
    kt_table_real(b->table, "rest_share", rest / total);
}

static enum kt_status run_test(struct bench *b, const struct test *test, struct kt_session *base,
                               struct kt_error *error)
{
    struct kt_model_times at, to;
    double *seconds = kt_cli_alloc(b->cli, b->args->runs, sizeof(*seconds)), unused;
    const struct test first = {test->depth, test->n < 8 ? test->n : 8, test->sequences, test->is_prompt};
    enum kt_status status = run_once(b, &first, base, &unused, error); /* nothing is cold afterwards */
    kt_model_times(b->model, &at);
    for (uint64_t i = 0; i < b->args->runs && status == KT_OK; i++)
        status = run_once(b, test, base, &seconds[i], error);
    kt_model_times(b->model, &to);
    if (status == KT_OK)
        status = measure_limits(b, error);
    if (status == KT_OK)
        add_row(b, test, seconds, &at, &to);
    free(seconds);
    return status;
}

static enum kt_status run_depth(struct bench *b, uint64_t depth, struct kt_error *error)
{
    struct kt_session *base;
    enum kt_status status = kt_session_open(b->model, &base, error);
    if (status != KT_OK)
        return status;
    for (uint64_t done = 0; done < depth && status == KT_OK;) {
        uint32_t n = (uint32_t)(depth - done < 512 ? depth - done : 512);
        const struct kt_step step = {base, b->ids + done, n, 0, NULL};
        status = kt_model_step(b->model, &step, 1, error);
        done += n;
        kt_progress_update(done, depth);
    }
    for (size_t i = 0; i < b->prompts.n && status == KT_OK; i++) {
        const struct test test = {depth, b->prompts.numbers[i], 1, true};
        status = run_test(b, &test, base, error);
    }
    for (size_t i = 0; i < b->answers.n && status == KT_OK; i++)
        for (size_t s = 0; s < b->sequences.n && status == KT_OK; s++) {
            const struct test test = {depth, b->answers.numbers[i], b->sequences.numbers[s], false};
            status = run_test(b, &test, base, error);
        }
    kt_session_close(base);
    return status;
}

/* ---- the command ---- */

static uint64_t largest(const struct list *list)
{
    uint64_t most = 0;
    for (size_t i = 0; i < list->n; i++)
        most = list->numbers[i] > most ? list->numbers[i] : most;
    return most;
}

static bool read_list(const struct kt_cli *cli, const char *name, const char *text, struct list *list)
{
    list->n = text ? kt_cli_list(cli, name, text, list->numbers, MOST) : 0;
    for (size_t i = 0; i < list->n; i++)
        if (list->numbers[i] > 1 << 20 || (list->numbers[i] == 0 && strcmp(name, "n-depth") != 0)) {
            (void)kt_cli_usage(cli, "--%s: %" PRIu64 " must be 1 to %d", name, list->numbers[i], 1 << 20);
            return false;
        }
    return !text || list->n > 0;
}

static int load(struct bench *b)
{
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    struct kt_kv_info cache;
    struct kt_error error;
    uint64_t n_answer = largest(&b->answers), n_prompt = largest(&b->prompts), depth = largest(&b->depths);
    uint64_t longest = n_answer > n_prompt ? n_answer : n_prompt, many = largest(&b->sequences);
    params.max_tokens = depth + longest;
    /* Sessions share the pages of what stands before. */
    params.cache_tokens = depth + 2 * KT_KV_PAGE + n_prompt + many * (n_answer + 2 * KT_KV_PAGE);
    params.max_sessions = (uint32_t)many + 1;
    params.n_logits = (uint32_t)many;
    params.cache_dtype = b->cache_dtype;
    int code = kt_cli_context(b->cli, &b->context);
    if (code == KT_EXIT_OK)
        code = kt_cli_checkpoint(b->cli, b->args->model, &b->checkpoint);
    if (code == KT_EXIT_OK && b->args->experts)
        code = kt_cli_checkpoint(b->cli, b->args->experts, &b->experts);
    params.experts = b->experts;
    if (code == KT_EXIT_OK)
        code = kt_loaded_model(b->cli, b->context, b->checkpoint, &params, &b->model);
    if (code != KT_EXIT_OK)
        return code;
    kt_model_info(b->model, &b->info);
    kt_model_cache(b->model, &cache);
    b->token_size = cache.token_bytes;
    b->sessions = kt_cli_alloc(b->cli, many, sizeof(*b->sessions));
    b->steps = kt_cli_alloc(b->cli, many, sizeof(*b->steps));
    b->logits = kt_cli_alloc(b->cli, many * b->info.vocabulary, sizeof(*b->logits));
    b->ids = kt_cli_alloc(b->cli, depth + longest * many, sizeof(*b->ids));
    draw_ids(b, depth + longest * many);
    if (measure_limits(b, &error) != KT_OK)
        return kt_cli_fail(b->cli, &error);
    return KT_EXIT_OK;
}

static int run(struct bench *b)
{
    struct kt_error error;
    struct kt_context_info info;
    enum kt_status status = KT_OK;
    kt_context_info(b->context, &info);
    struct kt_output *output = kt_output_create(b->cli, "kt.bench.model", 1);
    b->table = kt_output_table(output, "rows", columns, sizeof(columns) / sizeof(columns[0]));
    kt_progress_start(b->cli, "reading");
    for (size_t i = 0; i < b->depths.n && status == KT_OK; i++)
        status = run_depth(b, b->depths.numbers[i], &error);
    kt_progress_stop();
    kt_output_fact_text(output, "model", "model", b->args->model);
    kt_output_fact_text(output, "family", "family", b->info.family);
    kt_output_fact_uint(output, "n_threads", "threads", info.n_threads);
    kt_output_fact_uint(output, "weight_size", NULL, b->info.weight_size);
    kt_output_fact_real(output, "weight_gb", "weights, GB", (double)b->info.weight_size / 1e9);
    kt_output_fact_real(output, "token_gb", "read for a token, GB", weight_bytes(b, 1) / 1e9);
    kt_output_fact_real(output, "read_gbps", "memory is read at, GB/s", b->read / 1e9);
    kt_output_fact_real(output, "peak_tops", "products at most, Tops/s", b->peak / 1e12);
    if (status == KT_OK)
        return kt_output_finish(output, KT_EXIT_OK);
    kt_output_free(output);
    return kt_cli_fail(b->cli, &error);
}

int kt_bench_model(struct kt_cli *cli, const struct bench_args *args)
{
    struct bench b = {.cli = cli, .args = args};
    bool both = !args->prompts && !args->answers;
    if (args->backend) {
        const char *backend = kt_cli_backend(cli, "backend", args->backend);
        if (!backend)
            return KT_EXIT_USAGE;
        kt_cli_set(cli, "core.backend=%s", backend);
    }
    if (!kt_cache_form(cli, args->cache, &b.cache_dtype))
        return KT_EXIT_USAGE;
    if (!read_list(cli, "n-prompt", both ? "512" : args->prompts, &b.prompts) ||
        !read_list(cli, "n-gen", both ? "128" : args->answers, &b.answers) ||
        !read_list(cli, "n-depth", args->depths ? args->depths : "0", &b.depths) ||
        !read_list(cli, "sequences", args->sequences ? args->sequences : "1", &b.sequences))
        return KT_EXIT_USAGE;
    int code = load(&b);
    if (code == KT_EXIT_OK)
        code = run(&b);
    free(b.sessions);
    free(b.steps);
    free(b.logits);
    free(b.ids);
    kt_model_close(b.model);
    kt_checkpoint_close(b.experts);
    kt_checkpoint_close(b.checkpoint);
    kt_context_destroy(b.context);
    return code;
}

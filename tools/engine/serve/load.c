/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/scheduler/scheduler.h"
#include "tools/engine/serve/notify.h"
#include "tools/engine/serve/run.h"
#include "tools/engine/text/tokenizer/chat.h"

#include "tools/kt/bench/bench.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Whether SIGTERM or SIGINT wait, which are blocked; they stay so for whoever waits for them. */
static bool is_ended(void)
{
    sigset_t waiting;
    return sigpending(&waiting) == 0 &&
           (sigismember(&waiting, SIGTERM) == 1 || sigismember(&waiting, SIGINT) == 1);
}

/* Tells systemd, at most a hundred times. */
static void notify_progress(uint64_t before, uint64_t done, uint64_t total)
{
    char status[48];
    if (total == 0 || (done < total && done / (total / 100 + 1) == before / (total / 100 + 1)))
        return;
    (void)snprintf(status, sizeof(status), "STATUS=loading, %.0f %%", 100.0 * (double)done / (double)total);
    kt_notify(status);
}

static int show_progress(void *data, uint64_t done, uint64_t total)
{
    struct kt_server *server = data;
    uint64_t before = atomic_exchange(&server->loaded_bytes, done);
    atomic_store(&server->all_bytes, total);
    kt_progress_bytes(done, total);
    notify_progress(before, done, total);
    return is_ended();
}

static int open_model(struct kt_cli *cli, const struct kt_run_plan *plan, struct kt_server *server)
{
    struct kt_model_params params;
    struct kt_loaded *loaded = &server->loaded;
    struct kt_error error;
    kt_run_model_params(plan, &params);
    params.progress = show_progress;
    params.data = server;
    double start = kt_cli_now();
    kt_progress_start(cli, "loading");
    enum kt_status status =
        kt_model_open(loaded->context, loaded->checkpoint, &params, &loaded->model, &error);
    kt_progress_stop();
    if (status == KT_E_STATE && is_ended())
        return -1;
    if (status != KT_OK)
        return kt_cli_fail(cli, &error);
    kt_verbose_time(cli, "load", start, "%s", cli->arguments[0]);
    kt_model_info(loaded->model, &server->model_info);
    return KT_EXIT_OK;
}

/* The chat's template. A model without one serves completions only. */
static int open_chat(const struct kt_cli *cli, const struct kt_run_args *args, struct kt_server *server)
{
    struct kt_chat_source source;
    struct kt_error error;
    int code = KT_EXIT_OK;
    if (args->chat_template)
        server->chat_file = args->chat_template;
    else if (kt_tokenizer_chat(server->loaded.tokenizer, 0, &source))
        server->chat_file = source.file;
    if (args->chat_template)
        code = kt_chat_read(cli, args->chat_template, &server->chat);
    else if (kt_template_open(server->loaded.tokenizer, NULL, &server->chat, &error) != KT_OK)
        kt_cli_warn(cli, "no chats, only completions: %s; --chat-template gives it one", error.message);
    if (code == KT_EXIT_OK && server->chat &&
        (kt_template_info(server->chat, &server->chat_info, &error) != KT_OK ||
         kt_needs_find(server->chat, &server->chat_info, &server->chat_needs, &error) != KT_OK))
        code = kt_cli_fail(cli, &error);
    return code;
}

static void set_real(double *value, double wished)
{
    if (wished >= 0)
        *value = wished;
}

/* OpenAI's defaults, then the model's advice, then the options. */
static int choose_sampling(const struct kt_cli *cli, const struct kt_run_args *args, struct kt_server *server)
{
    struct kt_sampling_params *sampling = &server->sampling;
    struct kt_error error;
    *sampling = (struct kt_sampling_params)KT_SAMPLING_PARAMS_INIT;
    sampling->temperature = 1;
    if (kt_sampling_defaults(server->loaded.checkpoint, sampling, &error) != KT_OK)
        kt_cli_warn(cli, "the model's advice on sampling is not followed: %s", error.message);
    set_real(&sampling->temperature, args->temperature);
    set_real(&sampling->top_p, args->top_p);
    set_real(&sampling->min_p, args->min_p);
    set_real(&sampling->repetition_penalty, args->repetition_penalty);
    set_real(&sampling->presence_penalty, args->presence_penalty);
    set_real(&sampling->frequency_penalty, args->frequency_penalty);
    if (args->top_k != UINT64_MAX)
        sampling->top_k = (uint32_t)args->top_k;
    return KT_EXIT_OK;
}

static int open_scheduler(const struct kt_cli *cli, const struct kt_run_args *args, struct kt_server *server)
{
    static const uint32_t drafts[] = {KT_DRAFTS_AUTO, KT_DRAFTS_OFF, KT_DRAFTS_LOOKUP,
                                      KT_DRAFTS_MTP}; /* by --speculate */
    struct kt_scheduler_params params = {.drafts = drafts[args->speculate],
                                         .max_running = (uint32_t)args->max_running,
                                         .max_queued = (uint32_t)args->max_queue,
                                         .vocabulary = server->n_vocabulary};
    struct kt_error error;
    int32_t *ends = kt_loaded_ends(&server->loaded, &params.n_end_ids);
    if (!ends)
        return kt_cli_error(cli, "out of memory");
    params.end_ids = ends;
    enum kt_status status = kt_scheduler_create(server->loaded.context, server->loaded.model, &params,
                                                &server->scheduler, &error);
    free(ends);
    return status == KT_OK ? KT_EXIT_OK : kt_cli_fail(cli, &error);
}

/* As kt bench --model does, but once. */
static int measure_memory(const struct kt_cli *cli, struct kt_server *server)
{
    struct bench_limit reads[BENCH_MAX_WAYS] = {{.rate = 0}};
    struct bench_buffer buffer;
    struct kt_error error;
    size_t n = 0;
    uint64_t least = UINT64_C(1) << 28, size = 3 * bench_cache_size();
    if (bench_buffer_create(&buffer, size > least ? size : least, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    enum kt_status status = bench_measure_reads(server->loaded.context, &buffer, 1, reads, &n, &error);
    bench_buffer_destroy(&buffer);
    for (size_t i = 0; i < n; i++)
        if (1e9 * reads[i].rate > server->memory_rate)
            server->memory_rate = 1e9 * reads[i].rate;
    return status == KT_OK ? KT_EXIT_OK : kt_cli_fail(cli, &error);
}

int kt_run_load(struct kt_cli *cli, const struct kt_run_args *args, const struct kt_run_plan *plan,
                struct kt_server *server)
{
    struct kt_error error;
    if (kt_tokenizer_create(server->loaded.checkpoint, &server->loaded.tokenizer, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    int code = args->measure_memory ? measure_memory(cli, server) : KT_EXIT_OK;
    if (code == KT_EXIT_OK)
        code = open_chat(cli, args, server);
    if (code == KT_EXIT_OK)
        code = choose_sampling(cli, args, server);
    if (code == KT_EXIT_OK)
        code = open_model(cli, plan, server);
    if (code != KT_EXIT_OK)
        return code;
    server->n_vocabulary = kt_loaded_vocabulary(&server->loaded);
    if (kt_vocabulary_create(server->loaded.tokenizer, &server->words, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    server->created = (int64_t)time(NULL);
    return open_scheduler(cli, args, server);
}

void kt_run_unload(struct kt_server *server)
{
    kt_scheduler_destroy(server->scheduler);
    kt_template_destroy(server->chat);
    kt_vocabulary_destroy(server->words);
    kt_loaded_close(&server->loaded);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - what is opened for a model at the start, and its weights, which come and go. */
#include "tools/engine/scheduler/scheduler.h"
#include "tools/engine/serve/embed.h"
#include "tools/engine/serve/notify.h"
#include "tools/engine/serve/run.h"
#include "tools/engine/text/tokenizer/chat.h"
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

bool kt_run_is_ended(void)
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
    return kt_run_is_ended();
}

/* ---- what reads requests ---- */

/* The chat's template. A model without one serves completions only. */
static int open_chat(struct kt_served *model)
{
    const struct kt_run_args *args = model->from->args;
    const struct kt_cli *cli = model->from->cli;
    struct kt_chat_source source;
    struct kt_error error;
    int code = KT_EXIT_OK;
    if (args->chat_template)
        model->chat_file = args->chat_template;
    else if (kt_tokenizer_chat(model->tokenizer, 0, &source))
        model->chat_file = source.file;
    if (args->chat_template)
        code = kt_chat_read(cli, args->chat_template, &model->chat);
    else if (kt_template_open(model->tokenizer, NULL, &model->chat, &error) != KT_OK)
        kt_cli_warn(cli, "no chats, only completions: %s; --chat-template gives it one", error.message);
    if (code == KT_EXIT_OK && model->chat &&
        (kt_template_info(model->chat, &model->chat_info, &error) != KT_OK ||
         kt_needs_find(model->chat, &model->chat_info, &model->chat_needs, &error) != KT_OK))
        code = kt_cli_fail(cli, &error);
    return code;
}

static void set_real(double *value, double wished)
{
    if (wished >= 0)
        *value = wished;
}

/* OpenAI's defaults, then the model's advice, then the options. */
static void choose_sampling(struct kt_served *model)
{
    const struct kt_run_args *args = model->from->args;
    struct kt_sampling_params *sampling = &model->sampling;
    struct kt_error error;
    *sampling = (struct kt_sampling_params)KT_SAMPLING_PARAMS_INIT;
    sampling->temperature = 1;
    if (kt_sampling_defaults(model->from->loaded.checkpoint, sampling, &error) != KT_OK)
        kt_cli_warn(model->from->cli, "the model's advice on sampling is not followed: %s", error.message);
    set_real(&sampling->temperature, args->temperature);
    set_real(&sampling->top_p, args->top_p);
    set_real(&sampling->min_p, args->min_p);
    set_real(&sampling->repetition_penalty, args->repetition_penalty);
    set_real(&sampling->presence_penalty, args->presence_penalty);
    set_real(&sampling->frequency_penalty, args->frequency_penalty);
    if (args->top_k != UINT64_MAX)
        sampling->top_k = (uint32_t)args->top_k;
}

int kt_run_open(struct kt_served *model)
{
    struct kt_run_model *from = model->from;
    struct kt_tokenizer_info tokens;
    struct kt_error error;
    if (kt_tokenizer_create(from->loaded.checkpoint, &model->tokenizer, &error) != KT_OK)
        return kt_cli_fail(from->cli, &error);
    from->loaded.tokenizer = model->tokenizer;
    int code = open_chat(model);
    if (code != KT_EXIT_OK)
        return code;
    choose_sampling(model);
    model->pooling_type = kt_embed_type(from->loaded.checkpoint);
    kt_tokenizer_info(model->tokenizer, &tokens);
    model->n_vocabulary = tokens.n_tokens < model->info.vocabulary ? tokens.n_tokens : model->info.vocabulary;
    return kt_vocabulary_create(model->tokenizer, &model->words, &error) == KT_OK
               ? KT_EXIT_OK
               : kt_cli_fail(from->cli, &error);
}

/* ---- weights ---- */

static void close_files(struct kt_loaded *loaded)
{
    kt_checkpoint_close(loaded->experts);
    kt_checkpoint_close(loaded->checkpoint);
    loaded->experts = loaded->checkpoint = NULL;
}

enum kt_status kt_served_open(struct kt_served *model)
{
    struct kt_run_model *from = model->from;
    struct kt_loaded *loaded = &from->loaded;
    int code = KT_EXIT_OK;
    if (!loaded->checkpoint)
        code = kt_cli_checkpoint(from->cli, from->cli->arguments[0], &loaded->checkpoint);
    if (code == KT_EXIT_OK && from->args->experts && !loaded->experts)
        code = kt_cli_checkpoint(from->cli, from->args->experts, &loaded->experts);
    return code == KT_EXIT_OK ? KT_OK : KT_E_IO;
}

/* The tokenizer and the plan are of the files as they were. */
static enum kt_status check_same(const struct kt_served *model)
{
    const struct kt_model_info *planned = &model->info;
    struct kt_model_info info;
    kt_model_info(model->from->loaded.model, &info);
    if (info.family == planned->family && info.n_layers == planned->n_layers &&
        info.hidden_size == planned->hidden_size && info.vocabulary == planned->vocabulary &&
        info.n_weights == planned->n_weights && info.max_tokens == planned->max_tokens &&
        info.context_length == planned->context_length)
        return KT_OK;
    kt_cli_error(model->from->cli, "%s: its files are of another model than at startup; restart kt run",
                 model->names[0]);
    return KT_E_FORMAT;
}

static enum kt_status open_model(struct kt_served *model)
{
    struct kt_run_model *from = model->from;
    struct kt_loaded *loaded = &from->loaded;
    struct kt_model_params params;
    struct kt_error error;
    kt_run_model_params(from, &params);
    params.progress = show_progress;
    params.data = model->server;
    double start = kt_cli_now();
    kt_progress_start(from->cli, "loading");
    enum kt_status status =
        kt_model_open(loaded->context, loaded->checkpoint, &params, &loaded->model, &error);
    kt_progress_stop();
    if (status == KT_E_STATE && kt_run_is_ended())
        return KT_E_STATE;
    if (status != KT_OK) {
        (void)kt_cli_fail(from->cli, &error);
        return status == KT_E_STATE ? KT_E_BACKEND : status; /* that one is of signals */
    }
    kt_verbose_time(from->cli, "load", start, "%s", from->cli->arguments[0]);
    return check_same(model);
}

static enum kt_status open_scheduler(struct kt_served *model)
{
    static const uint32_t drafts[] = {KT_DRAFTS_AUTO, KT_DRAFTS_OFF, KT_DRAFTS_LOOKUP,
                                      KT_DRAFTS_MTP}; /* by --speculate */
    const struct kt_run_args *args = model->from->args;
    const struct kt_loaded *loaded = &model->from->loaded;
    struct kt_scheduler_params params = {.drafts = drafts[args->speculate],
                                         .max_running = (uint32_t)args->max_running,
                                         .max_queued = (uint32_t)args->max_queue,
                                         .vocabulary = model->n_vocabulary};
    struct kt_error error = {.status = KT_E_NOMEM, .message = "out of memory"};
    enum kt_status status = KT_E_NOMEM;
    int32_t *ends = kt_loaded_ends(loaded, &params.n_end_ids);
    params.end_ids = ends;
    if (ends)
        status = kt_scheduler_create(loaded->context, loaded->model, &params, &model->scheduler, &error);
    free(ends);
    if (status != KT_OK)
        (void)kt_cli_fail(model->from->cli, &error);
    return status;
}

enum kt_status kt_served_load(struct kt_served *model)
{
    enum kt_status status = open_model(model);
    if (status == KT_OK)
        status = open_scheduler(model);
    if (status != KT_OK)
        kt_served_unload(model);
    if (kt_server_state(model->server) == KT_SERVER_READY) {
        if (status == KT_OK)
            kt_cli_note(model->from->cli, "loaded the model %s", model->names[0]);
        kt_notify("STATUS=ready");
    }
    return status;
}

void kt_served_unload(struct kt_served *model)
{
    struct kt_loaded *loaded = &model->from->loaded;
    bool is_loaded = model->scheduler != NULL;
    kt_scheduler_destroy(model->scheduler);
    model->scheduler = NULL;
    kt_model_close(loaded->model);
    loaded->model = NULL;
    close_files(loaded);
    malloc_trim(0);
    if (is_loaded && kt_server_state(model->server) == KT_SERVER_READY)
        kt_cli_note(model->from->cli, "unloaded the model %s", model->names[0]);
}

void kt_run_close(struct kt_served *model)
{
    struct kt_loaded *loaded = &model->from->loaded;
    kt_served_unload(model);
    kt_template_destroy(model->chat);
    kt_vocabulary_destroy(model->words);
    kt_tokenizer_destroy(model->tokenizer);
    if (!model->from->shares_context)
        kt_context_destroy(loaded->context);
}

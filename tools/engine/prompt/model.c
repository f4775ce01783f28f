/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - loads what the verbs on whole models need. */
#include "tools/engine/prompt/prompt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const uint32_t kt_cache_dtypes[3] = {KT_DTYPE_BF16, KT_DTYPE_Q8_0, KT_DTYPE_F32};

bool kt_cache_form(const struct kt_cli *cli, const char *name, uint32_t *dtype)
{
    *dtype = 0;
    for (size_t i = 0; i < sizeof(kt_cache_dtypes) / sizeof(kt_cache_dtypes[0]) && name; i++)
        if (strcmp(kt_dtype_name(kt_cache_dtypes[i]), name) == 0)
            *dtype = kt_cache_dtypes[i];
    if (name && *dtype == 0)
        (void)kt_cli_usage(cli, "--cache %s is none of bf16, q8_0, f32%s", name,
                           kt_cli_hint_of(name, KT_CLI_CACHES).text);
    return !name || *dtype != 0;
}

static int show_progress(void *data, uint64_t done, uint64_t total)
{
    (void)data;
    kt_progress_bytes(done, total);
    return 0;
}

/* What loading will take, for those who want to know. */
static void show_plan(const struct kt_cli *cli, struct kt_context *context, struct kt_checkpoint *checkpoint,
                      const struct kt_model_params *params)
{
    struct kt_model_plan plan;
    double start = kt_cli_now();
    if (!cli->verbose || kt_model_plan(context, checkpoint, params, &plan, NULL) != KT_OK)
        return;
    kt_verbose_time(cli, "plan", start,
                    " %.3f GB: weights %.3f, cache of %" PRIu64
                    " tokens a sequence %.3f, buffers %.3f, rows %.3f, in files %.3f; %.3f GB are free",
                    (double)plan.total / 1e9, (double)plan.weight_size / 1e9, plan.max_tokens,
                    (double)plan.cache_size / 1e9, (double)plan.buffer_size / 1e9,
                    (double)plan.row_size / 1e9, (double)plan.mapped_size / 1e9,
                    (double)plan.available / 1e9);
}

int kt_loaded_model(struct kt_cli *cli, struct kt_context *context, struct kt_checkpoint *checkpoint,
                    const struct kt_model_params *params, struct kt_model **model)
{
    struct kt_model_params own = *params;
    struct kt_error error;
    double start = kt_cli_now();
    show_plan(cli, context, checkpoint, params);
    own.progress = show_progress;
    kt_progress_start(cli, "loading");
    enum kt_status status = kt_model_open(context, checkpoint, &own, model, &error);
    kt_progress_stop();
    if (status != KT_OK)
        return kt_cli_fail(cli, &error);
    kt_verbose_time(cli, "load", start, "%s", cli->arguments[0]);
    return KT_EXIT_OK;
}

int kt_loaded_open(struct kt_cli *cli, const char *path, const char *experts,
                   const struct kt_model_params *params, struct kt_loaded *loaded)
{
    struct kt_model_params own = *params;
    struct kt_error error;
    *loaded = (struct kt_loaded){.context = NULL};
    int code = kt_cli_context(cli, &loaded->context);
    if (code == KT_EXIT_OK)
        code = kt_cli_checkpoint(cli, path, &loaded->checkpoint);
    if (code == KT_EXIT_OK && kt_tokenizer_create(loaded->checkpoint, &loaded->tokenizer, &error) != KT_OK)
        code = kt_cli_fail(cli, &error);
    if (code == KT_EXIT_OK && experts)
        code = kt_cli_checkpoint(cli, experts, &loaded->experts);
    own.experts = loaded->experts;
    return code == KT_EXIT_OK
               ? kt_loaded_model(cli, loaded->context, loaded->checkpoint, &own, &loaded->model)
               : code;
}

void kt_loaded_close(struct kt_loaded *loaded)
{
    kt_model_close(loaded->model);
    kt_tokenizer_destroy(loaded->tokenizer);
    kt_checkpoint_close(loaded->experts);
    kt_checkpoint_close(loaded->checkpoint);
    kt_context_destroy(loaded->context);
}

uint64_t kt_loaded_vocabulary(const struct kt_loaded *loaded)
{
    struct kt_tokenizer_info tokens;
    struct kt_model_info info;
    kt_tokenizer_info(loaded->tokenizer, &tokens);
    kt_model_info(loaded->model, &info);
    return tokens.n_tokens < info.vocabulary ? tokens.n_tokens : info.vocabulary;
}

int32_t *kt_loaded_ends(const struct kt_loaded *loaded, uint32_t *n)
{
    uint64_t n_ids = kt_loaded_vocabulary(loaded);
    int32_t *ids = calloc(n_ids + 1, sizeof(*ids));
    *n = 0;
    for (uint64_t id = 0; ids && id < n_ids; id++) {
        struct kt_token token;
        if (kt_tokenizer_token(loaded->tokenizer, (int64_t)id, &token, NULL) == KT_OK && token.ends)
            ids[(*n)++] = (int32_t)id;
    }
    return ids;
}

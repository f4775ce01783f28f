/* SPDX-License-Identifier: Apache-2.0 */
/* command.c - SGLang's command line. */
#include "tools/engine/launch/plan.h"
#include "tools/engine/serve/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files of statistics and masks ---- */

/* The tensor of counts or masks, and the numbers of its layers, which may be NULL. */
static int open_counts(const struct kt_cli *cli, struct kt_checkpoint *file, const char *path,
                       struct kt_tensor_info *info, const void **data, const int64_t **layers)
{
    uint64_t index;
    struct kt_tensor_info numbers;
    struct kt_error error;
    if (kt_checkpoint_find(file, "counts", &index, NULL) != KT_OK &&
        kt_checkpoint_find(file, "masks", &index, NULL) != KT_OK)
        return kt_cli_error(cli, "%s: neither counts of kt stats nor masks of kt place are in it", path);
    if (kt_checkpoint_tensor(file, index, info, &error) != KT_OK ||
        kt_checkpoint_data(file, index, data, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    if (info->n_dims != 2 || (info->dtype != KT_DTYPE_I64 && info->dtype != KT_DTYPE_U8))
        return kt_cli_error(cli, "%s: \"%s\" is no table of I64 or U8, layers by experts", path, info->name);
    *layers = NULL;
    if (kt_checkpoint_find(file, "layers", &index, NULL) != KT_OK)
        return KT_EXIT_OK;
    if (kt_checkpoint_tensor(file, index, &numbers, &error) != KT_OK ||
        kt_checkpoint_data(file, index, (const void **)layers, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    return numbers.dtype == KT_DTYPE_I64 && numbers.n_dims == 1 && numbers.dims[0] == info->dims[0]
               ? KT_EXIT_OK
               : kt_cli_error(cli, "%s: \"layers\" are not %" PRIu64 " numbers I64", path, info->dims[0]);
}

/* Spreads the rows over all layers of the model; those without experts have zeros. *n_chosen: experts that
 * masks choose, 0: these are counts. */
static int spread(const struct kt_cli *cli, const char *path, const struct kt_launch_facts *facts,
                  struct kt_checkpoint *file, uint64_t *counts, uint64_t *n_chosen)
{
    struct kt_tensor_info info;
    const void *data = NULL;
    const int64_t *layers;
    int code = open_counts(cli, file, path, &info, &data, &layers);
    *n_chosen = 0;
    if (code == KT_EXIT_OK && info.dims[1] != facts->n_experts)
        return kt_cli_error(cli, "%s is of %" PRIu64 " experts a layer, and the model has %" PRIu64, path,
                            info.dims[1], facts->n_experts);
    for (uint64_t l = 0; code == KT_EXIT_OK && l < info.dims[0]; l++) {
        uint64_t layer = layers ? (uint64_t)layers[l] : l;
        if (layer >= facts->n_layers)
            return kt_cli_error(cli, "%s has layer %" PRIu64 ", and the model has %" PRIu64 " layers", path,
                                layer, facts->n_layers);
        for (uint64_t e = 0; e < facts->n_experts; e++) {
            uint64_t i = l * facts->n_experts + e;
            uint64_t n = info.dtype == KT_DTYPE_U8 ? ((const uint8_t *)data)[i] : ((const uint64_t *)data)[i];
            counts[layer * facts->n_experts + e] = n;
            *n_chosen += info.dtype == KT_DTYPE_U8 && n != 0;
        }
    }
    return code;
}

/* PATH/kt-kernel in the user's cache, made where it is not there; free() */
static char *find_cache(const struct kt_cli *cli)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *base = cache && *cache == '/' ? kt_cli_format(cli, "%s", cache)
                                        : kt_cli_format(cli, "%s/.cache", home && *home ? home : "/tmp");
    char *folder = kt_cli_format(cli, "%s/kt-kernel", base);
    (void)mkdir(base, 0700);
    (void)mkdir(folder, 0700);
    free(base);
    return folder;
}

/* SGLang reads torch's files only; the same counts go to the same file. */
static int convert_counts(const struct kt_cli *cli, const char *path, const struct kt_launch_facts *facts,
                          const struct kt_python *python, char **written, uint64_t *n_chosen)
{
    struct kt_checkpoint *file;
    uint64_t n = facts->n_layers * facts->n_experts, hash = UINT64_C(14695981039346656037);
    uint64_t *counts = kt_cli_alloc(cli, n, sizeof(*counts));
    int code = kt_cli_checkpoint((struct kt_cli *)(uintptr_t)cli, path, &file);
    if (code == KT_EXIT_OK) {
        code = spread(cli, path, facts, file, counts, n_chosen);
        kt_checkpoint_close(file);
    }
    for (uint64_t i = 0; i < n; i++)
        hash = (hash ^ counts[i]) * UINT64_C(1099511628211);
    if (code == KT_EXIT_OK) {
        char *folder = find_cache(cli);
        *written = kt_cli_format(cli, "%s/placement-%016" PRIx64 ".pt", folder, hash);
        free(folder);
        code = kt_python_place(cli, python, *written, counts, facts->n_layers, facts->n_experts);
    }
    free(counts);
    return code;
}

static int add_placement(const struct kt_cli *cli, const struct kt_run_args *args,
                         const struct kt_launch_plan *plan, const struct kt_python *python,
                         struct kt_words *words)
{
    const struct kt_launch_facts *facts = &plan->facts;
    const char *path = args->launch.counts, *strategy = args->launch.placement;
    size_t length = path ? strlen(path) : 0;
    char *written = NULL;
    uint64_t n_chosen = 0;
    int code = KT_EXIT_OK;
    if (length > 12 && strcmp(path + length - 12, ".safetensors") == 0)
        code = convert_counts(cli, path, facts, python, &written, &n_chosen);
    if (code == KT_EXIT_OK && path) {
        kt_words_option(words, "--init-expert-location", "%s", written ? written : path);
        strategy = strategy ? strategy : "frequency"; /* no other reads it */
    }
    if (code == KT_EXIT_OK && strategy)
        kt_words_option(words, "--kt-expert-placement-strategy", "%s", strategy);
    if (n_chosen > 0) /* as many as the masks have, which need not be a multiple of the layers */
        kt_words_option(words, "--kt-gpu-experts-ratio", "%.9g",
                        ((double)n_chosen + 0.5) / (double)(facts->n_moe_layers * facts->n_experts));
    else if (code == KT_EXIT_OK)
        kt_words_option(words, "--kt-num-gpu-experts", "%" PRIu64, plan->fit.gpu_experts);
    free(written);
    return code;
}

/* ---- options ---- */

static int add_server(const struct kt_cli *cli, const struct kt_run_args *args,
                      const struct kt_launch_plan *plan, struct kt_words *words)
{
    static const char *const levels[] = {"error", "info", "debug"};
    const char *name = strrchr(plan->model_path, '/');
    if (args->port == 0 && !kt_words_users(words, "--port"))
        return kt_cli_usage(cli, "--port 0: SGLang needs the number of one that is free");
    if (args->names && strchr(args->names, ','))
        return kt_cli_usage(cli, "--served-model-name '%s': SGLang has one name for a model", args->names);
    if (args->chat_template && access(args->chat_template, R_OK) != 0)
        return kt_cli_error(cli, "--chat-template %s: %s; built-in templates of SGLang are named after --",
                            args->chat_template, strerror(errno));
    if (kt_cli_given(cli, "kv") && args->kv != 0)
        return kt_cli_usage(cli, "--kv: SGLang has bf16, and FP8 by -- --kv-cache-dtype fp8_e4m3");
    kt_words_option(words, "--model-path --model", "%s", plan->model_path);
    kt_words_option(words, "--served-model-name", "%s",
                    args->names ? args->names
                    : name      ? name + 1
                                : "model");
    kt_words_option(words, "--host", "%s", args->host);
    kt_words_option(words, "--port", "%" PRIu64, args->port);
    if (args->key)
        kt_words_option(words, "--api-key", "%s", args->key);
    if (args->chat_template)
        kt_words_option(words, "--chat-template", "%s", args->chat_template);
    if (kt_cli_given(cli, "log-level"))
        kt_words_option(words, "--log-level", "%s", levels[args->log]);
    if (args->launch.trusts)
        kt_words_option(words, "--trust-remote-code", NULL);
    return KT_EXIT_OK;
}

static void add_gpu(const struct kt_cli *cli, const struct kt_run_args *args,
                    const struct kt_launch_plan *plan, struct kt_words *words)
{
    const struct kt_launch_args *launch = &args->launch;
    const struct kt_fit *fit = &plan->fit;
    kt_words_option(words, "--context-length", "%" PRIu64, fit->context);
    kt_words_option(words, "--tensor-parallel-size --tp-size --tp", "%" PRIu64, fit->n_gpus);
    kt_words_option(words, "--mem-fraction-static", "%.4g", fit->fraction);
    kt_words_option(words, "--chunked-prefill-size", "%" PRIu64, fit->chunk);
    if (args->max_tokens || args->kv_size)
        kt_words_option(words, "--max-total-tokens", "%" PRIu64, fit->cache_tokens);
    if (kt_cli_given(cli, "max-running"))
        kt_words_option(words, "--max-running-requests", "%" PRIu64, args->max_running);
    if (kt_cli_given(cli, "max-queue"))
        kt_words_option(words, "--max-queued-requests", "%" PRIu64, args->max_queue);
    if (kt_cli_given(cli, "watchdog-timeout"))
        kt_words_option(words, "--watchdog-timeout", "%" PRIu64, launch->watchdog);
    if (launch->fuses_not && !launch->fuses) /* SGLang fuses them where it can unless it is told not to */
        kt_words_option(words, "--disable-shared-experts-fusion", NULL);
    if (launch->attention)
        kt_words_option(words, "--attention-backend", "%s", launch->attention);
    if (launch->n_machines > 1) {
        kt_words_option(words, "--nnodes", "%" PRIu64, launch->n_machines);
        kt_words_option(words, "--node-rank", "%" PRIu64, launch->rank);
    }
    if (launch->dist_address)
        kt_words_option(words, "--dist-init-addr", "%s", launch->dist_address);
}

/* Each number is a word of its own. */
static void add_nodes(const char *nodes, struct kt_words *words)
{
    if (kt_words_users(words, "--kt-numa-nodes"))
        return;
    kt_words_add(words, "--kt-numa-nodes");
    for (; *nodes; nodes += strcspn(nodes, " "), nodes += *nodes == ' ')
        kt_words_add(words, "%.*s", (int)strcspn(nodes, " "), nodes);
}

static void add_cpu(const struct kt_cli *cli, const struct kt_run_args *args,
                    const struct kt_launch_plan *plan, struct kt_words *words)
{
    kt_words_option(words, "--kt-weight-path", "%s", plan->experts_path);
    kt_words_option(words, "--kt-method", "%s", plan->method);
    kt_words_option(words, "--kt-cpuinfer", "%" PRIu64, plan->n_threads);
    kt_words_option(words, "--kt-threadpool-count", "%" PRIu64, plan->n_nodes);
    add_nodes(plan->nodes, words);
    if (plan->fit.threshold)
        kt_words_option(words, "--kt-gpu-prefill-token-threshold", "%" PRIu64, plan->fit.threshold);
    if (args->launch.updates)
        kt_words_option(words, "--kt-enable-dynamic-expert-update", NULL);
    if (kt_cli_given(cli, "kt-max-deferred-experts-per-token"))
        kt_words_option(words, "--kt-max-deferred-experts-per-token", "%" PRIu64, args->launch.deferred);
}

int kt_launch_make_words(const struct kt_cli *cli, const struct kt_run_args *args,
                         const struct kt_launch_plan *plan, const struct kt_python *python,
                         struct kt_words *words)
{
    kt_words_add(words, "%s", python->program);
    kt_words_add(words, "-m");
    kt_words_add(words, "sglang.launch_server");
    int code = add_server(cli, args, plan, words);
    if (code != KT_EXIT_OK)
        return code;
    add_gpu(cli, args, plan, words);
    add_cpu(cli, args, plan, words);
    code = add_placement(cli, args, plan, python, words);
    kt_words_finish(words);
    return code;
}

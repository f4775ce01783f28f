/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/launch/plan.h"

#include "tools/engine/serve/run.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* ---- the method ---- */

/* The preferred backend of the command line, the environment or a configuration file; NULL: none. */
static int find_wish(struct kt_cli *cli, char **wish)
{
    struct kt_config *config;
    struct kt_setting setting;
    int code = kt_cli_config(cli, &config);
    *wish = NULL;
    if (code != KT_EXIT_OK)
        return code;
    for (size_t i = 0; i < kt_config_setting_count(config); i++)
        if (kt_config_setting(config, i, &setting, NULL) == KT_OK && strcmp(setting.section, "core") == 0 &&
            strcmp(setting.key, "backend") == 0 && strcmp(setting.value, "auto") != 0 && !*wish)
            *wish = kt_cli_format(cli, "%s", setting.value);
    kt_config_destroy(config);
    return KT_EXIT_OK;
}

/* A name that stands for the backend: the format's own where that is it. */
static const char *name_method(const char *backend, const char *format)
{
    const char *name;
    if (strcmp(kt_method_backend(format), backend) == 0)
        return format;
    for (size_t i = 0; (name = kt_method_name(i)); i++)
        if (strcmp(kt_method_backend(name), backend) == 0)
            return name;
    return backend;
}

static int choose_method(struct kt_cli *cli, const struct kt_words *words, struct kt_launch_plan *plan)
{
    const char *named = kt_words_users(words, "--kt-method");
    char *wish;
    int code = find_wish(cli, &wish);
    const char *backend = named ? kt_method_backend(named) : wish ? kt_method_backend(wish) : NULL;
    if (code == KT_EXIT_OK && named && !backend && !kt_cli_backend(cli, "kt-method", named))
        code = KT_EXIT_USAGE;
    plan->method = backend ? name_method(backend, plan->facts.format) : plan->facts.format;
    if (named)
        plan->method = named;
    free(wish);
    return code;
}

/* ---- the CPU ---- */

static void find_nodes(const struct kt_cli *cli, const struct kt_context *context, uint64_t n_wished,
                       struct kt_launch_plan *plan)
{
    struct kt_context_info info;
    struct kt_node_info node;
    uint64_t n_threads = 0;
    kt_context_info(context, &info);
    plan->n_nodes = n_wished && n_wished < info.n_nodes ? n_wished : info.n_nodes;
    for (uint32_t i = 0; i < plan->n_nodes; i++) {
        char *before = plan->nodes;
        if (kt_context_node(context, i, &node, NULL) != KT_OK)
            continue;
        n_threads += node.n_threads;
        plan->nodes = kt_cli_format(cli, "%s%s%u", before ? before : "", before ? " " : "", node.os_index);
        free(before);
    }
    plan->n_threads = n_threads;
}

/* For each GPU SGLang has a process that never sleeps, and CUDA a thread that hands batches over: where cores
   have no second thread, each takes a core. */
static void leave_cores(const struct kt_cli *cli, const char *idle, struct kt_launch_plan *plan)
{
    uint64_t wanted = 2 * (uint64_t)plan->gpus.n, half = plan->n_threads / 2;
    if (!*idle && !kt_cli_given(cli, "threads"))
        plan->n_threads -= wanted < half ? wanted : half;
}

/* What a layer's experts take, if the method can have them at all. */
static int plan_layer(const struct kt_cli *cli, struct kt_context *context, struct kt_checkpoint *experts,
                      struct kt_launch_plan *plan)
{
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_layer *layer;
    struct kt_plan found;
    struct kt_error error;
    uint64_t index = plan->facts.first_moe_layer, available = kt_memory_available();
    enum kt_status status = kt_checkpoint_layer_params(experts, index, &params, &error);
    params.max_tokens = 1; /* buffers are not asked for */
    if (status == KT_OK)
        status = kt_layer_create(context, &params, &layer, &error);
    if (status != KT_OK)
        return kt_cli_fail(cli, &error);
    status = kt_layer_plan_checkpoint(layer, experts, index, &found, &error);
    kt_layer_destroy(layer);
    if (status != KT_OK)
        return kt_cli_error(cli, "method %s: %s", plan->method, error.message);
    plan->cpu_size = found.weight_size * plan->facts.n_moe_layers;
    if (available && plan->cpu_size > available)
        kt_cli_warn(cli, "the experts take %.1f GB, and %.1f GB of memory are free",
                    (double)plan->cpu_size / 1e9, (double)available / 1e9);
    return KT_EXIT_OK;
}

static int look_at_cpu(struct kt_cli *cli, const struct kt_run_args *args, struct kt_checkpoint *experts,
                       struct kt_launch_plan *plan, struct kt_fit_input *in, char variant[16])
{
    struct kt_context *context;
    struct kt_context_info info;
    const char *setting = kt_method_setting(plan->method);
    kt_cli_set(cli, "core.backend=%s", kt_method_backend(plan->method));
    kt_cli_set(cli, "core.strict=yes");
    if (setting)
        kt_cli_set(cli, "%s", setting);
    int code = kt_cli_context(cli, &context);
    if (code != KT_EXIT_OK)
        return code;
    code = plan_layer(cli, context, experts, plan);
    kt_context_info(context, &info);
    if (code == KT_EXIT_OK && args->launch.n_pools > info.n_nodes)
        code = kt_cli_usage(cli,
                            "--kt-threadpool-count %" PRIu64
                            ": a pool is for a NUMA node, of which there are %u",
                            args->launch.n_pools, info.n_nodes);
    find_nodes(cli, context, args->launch.n_pools, plan);
    leave_cores(cli, info.idle_cpus, plan);
    (void)snprintf(variant, 16, "%s", info.cpu_variant);
    in->cpu_variant = variant;
    in->n_threads = plan->n_threads;
    kt_context_destroy(context);
    return code;
}

/* ---- what the user says ---- */

/* A number among SGLang's own words, else the option's, else `fallback`. */
static uint64_t find_number(const struct kt_cli *cli, const struct kt_words *words, const char *names,
                            const char *option, uint64_t value, uint64_t fallback)
{
    const char *text = kt_words_users(words, names);
    char *end;
    unsigned long long number = text ? strtoull(text, &end, 10) : 0;
    if (text && end > text && *end == '\0' && *text != '-')
        return number;
    return kt_cli_given(cli, option) ? value : fallback;
}

static int read_wishes(const struct kt_cli *cli, const struct kt_run_args *args, const struct kt_words *words,
                       struct kt_fit_input *in)
{
    const struct kt_launch_args *launch = &args->launch;
    const char *fraction = kt_words_users(words, "--mem-fraction-static");
    in->n_gpus = find_number(cli, words, "--tensor-parallel-size --tp-size --tp", "tensor-parallel-size",
                             launch->n_gpus, KT_FIT_FREE);
    in->n_machines = find_number(cli, words, "--nnodes", "nnodes", launch->n_machines, 1);
    in->n_stages = find_number(cli, words, "--pipeline-parallel-size --pp-size", "", 1, 1);
    in->n_copies = find_number(cli, words, "--data-parallel-size --dp-size", "", 1, 1);
    if (kt_words_users(words, "--enable-dp-attention")) /* then they are the same GPUs */
        in->n_copies = 1;
    in->gpu_experts =
        find_number(cli, words, "--kt-num-gpu-experts", "gpu-experts", launch->gpu_experts, KT_FIT_FREE);
    in->threshold = find_number(cli, words, "--kt-gpu-prefill-token-threshold", "gpu-prefill-threshold",
                                launch->threshold, KT_FIT_FREE);
    in->chunk =
        find_number(cli, words, "--chunked-prefill-size", "chunked-prefill-size", launch->chunk, KT_FIT_FREE);
    in->context = find_number(cli, words, "--context-length", "context", args->context, KT_FIT_FREE);
    in->cache_tokens =
        find_number(cli, words, "--max-total-tokens", "max-total-tokens", args->max_tokens, KT_FIT_FREE);
    in->cache_bytes = KT_FIT_FREE;
    in->fraction = kt_cli_given(cli, "mem-fraction-static") ? launch->fraction : -1;
    if (fraction)
        in->fraction = strtod(fraction, NULL);
    if (in->fraction >= 1 || in->fraction == 0)
        return kt_cli_usage(cli, "--mem-fraction-static %g: a part of a GPU's memory is needed, below 1",
                            in->fraction);
    if (in->n_gpus == 0 || in->n_machines == 0 || in->n_stages == 0 || in->n_copies == 0)
        return kt_cli_usage(cli, "0 GPUs, machines, stages or copies are too few");
    if (in->n_machines > 1 && !launch->dist_address && !kt_words_users(words, "--dist-init-addr"))
        return kt_cli_usage(cli, "--nnodes %" PRIu64 " needs --dist-init-addr HOST:PORT, where they meet",
                            in->n_machines);
    if (args->kv_size && !kt_cli_size(args->kv_size, &in->cache_bytes))
        return kt_cli_usage(cli, "--kv-size '%s' is not a size; 8G or 500M are", args->kv_size);
    return KT_EXIT_OK;
}

/* ---- all ---- */

/* What a GPU computes with stands in the same files, in a format that the CPU's copies have, too. */
static bool can_unpack(const struct kt_launch_plan *plan)
{
    static const char *const formats[] = {"BF16", "FP8", "FP8_PERCHANNEL", "RAWINT4", "MXFP4", "MXFP8"};
    size_t i = 0;
    while (i < sizeof(formats) / sizeof(formats[0]) && strcasecmp(formats[i], plan->facts.format) != 0)
        i++;
    return i < sizeof(formats) / sizeof(formats[0]) && strcasecmp(plan->method, plan->facts.format) == 0 &&
           strcmp(plan->model_path, plan->experts_path) == 0;
}

static int find_path(const struct kt_cli *cli, const char *path, char **found)
{
    *found = realpath(path, NULL);
    return *found ? KT_EXIT_OK : kt_cli_error(cli, "%s: %s", path, strerror(errno));
}

static int fit(const struct kt_cli *cli, const struct kt_fit_input *in, struct kt_launch_plan *plan)
{
    if (plan->gpus.n == 0)
        return kt_cli_error(cli,
                            "SGLang computes attention on GPUs: %s; kt run without --engine needs none, and "
                            "--gpu-memory says what another machine has",
                            plan->gpus.missing);
    return kt_fit(cli, in, &plan->fit);
}

static int make_plan(struct kt_cli *cli, const struct kt_run_args *args, const struct kt_words *words,
                     struct kt_checkpoint *model, struct kt_checkpoint *experts, struct kt_launch_plan *plan)
{
    char variant[16];
    struct kt_fit_input in = {.facts = &plan->facts, .gpus = &plan->gpus};
    int code = read_wishes(cli, args, words, &in);
    if (code == KT_EXIT_OK)
        code = kt_launch_facts(cli, model, experts, &plan->facts);
    if (code == KT_EXIT_OK)
        code = choose_method(cli, words, plan);
    if (code == KT_EXIT_OK)
        code = kt_gpus_find(cli, args->launch.gpu_memory, &plan->gpus);
    if (code == KT_EXIT_OK)
        code = look_at_cpu(cli, args, experts, plan, &in, variant);
    in.is_unpacked = code == KT_EXIT_OK && can_unpack(plan);
    return code == KT_EXIT_OK ? fit(cli, &in, plan) : code;
}

int kt_launch_make_plan(struct kt_cli *cli, const struct kt_run_args *args, const struct kt_words *words,
                        struct kt_launch_plan *plan)
{
    const char *beside = kt_words_users(words, "--kt-weight-path");
    struct kt_checkpoint *model = NULL, *experts = NULL;
    struct stat info;
    beside = beside ? beside : args->experts ? args->experts : cli->arguments[0];
    int code = find_path(cli, cli->arguments[0], &plan->model_path);
    if (code == KT_EXIT_OK)
        code = find_path(cli, beside, &plan->experts_path);
    if (code == KT_EXIT_OK)
        code = kt_cli_checkpoint(cli, plan->model_path, &model);
    if (code == KT_EXIT_OK)
        code = kt_cli_checkpoint(cli, plan->experts_path, &experts);
    if (code == KT_EXIT_OK)
        code = make_plan(cli, args, words, model, experts, plan);
    if (code == KT_EXIT_OK && (stat(plan->model_path, &info) != 0 || !S_ISDIR(info.st_mode)))
        code = kt_cli_error(cli, "%s: SGLang requires the folder that contains this file", plan->model_path);
    kt_checkpoint_close(experts);
    kt_checkpoint_close(model);
    return code;
}

void kt_launch_free_plan(struct kt_launch_plan *plan)
{
    free(plan->model_path);
    free(plan->experts_path);
    free(plan->nodes);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/serve/launch.h"

#include "tools/engine/launch/fit.h"
#include "tools/engine/launch/plan.h"
#include "tools/engine/launch/process.h"
#include "tools/engine/launch/python.h"
#include "tools/engine/launch/watch.h"
#include "tools/engine/serve/run.h"
#include "tools/kt/base/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- options that one engine has and the other has not ---- */

/* Words of a line, with a blank behind each. */
static bool is_listed(const char *names, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = names; (at = strstr(at, name)); at += n)
        if ((at == names || at[-1] == ' ') && at[n] == ' ')
            return true;
    return false;
}

static bool is_sglangs(const struct kt_cli_option *row)
{
    size_t first = offsetof(struct kt_run_args, launch);
    return row->type != KT_CLI_SETTING && row->offset >= first &&
           row->offset < first + sizeof(struct kt_launch_args);
}

int kt_launch_refuse(const struct kt_cli *cli)
{
    for (const struct kt_cli_option *row = kt_run_command.options; row->name; row++)
        if (is_sglangs(row) && kt_cli_given(cli, row->name))
            return kt_cli_usage(cli, "--%s is for --engine sglang only", row->name);
    return KT_EXIT_OK;
}

/* SGLang has these, by whatever name, or they are this program's own. */
static const char shared[] =
    "host port context kv-size max-total-tokens kv max-running max-queue served-model-name chat-template "
    "api-key "
    "log-level dry-run experts backend threads numa-nodes engine ";

static int refuse_ours(const struct kt_cli *cli)
{
    static const struct {
        const char *names, *why;
    } reasons[] =
        {{"api-key-file ",
          "SGLang takes its key by --api-key, or from a file: -- --config FILE, with 'api-key: KEY'"},
         {"temperature top-p top-k min-p repetition-penalty presence-penalty frequency-penalty ",
          "SGLang takes the model's own advice where a request says nothing"},
         {"cors ", "SGLang answers pages of all origins"}};
    for (const struct kt_cli_option *row = kt_run_command.options; row->name; row++) {
        const char *why = "SGLang has nothing like it";
        if (row->hidden || is_sglangs(row) || !kt_cli_given(cli, row->name) || is_listed(shared, row->name))
            continue;
        for (size_t i = 0; i < COUNT(reasons); i++)
            if (is_listed(reasons[i].names, row->name))
                why = reasons[i].why;
        return kt_cli_usage(cli, "--%s is not for --engine sglang: %s", row->name, why);
    }
    return KT_EXIT_OK;
}

/* ---- what is done ---- */

static void show(struct kt_cli *cli, const struct kt_launch_plan *plan, const char *command)
{
    struct kt_output *output = kt_output_create(cli, "kt.launch", 1);
    const struct kt_fit *fit = &plan->fit;
    kt_output_fact_text(output, "model", "model", plan->model_path);
    kt_output_fact_text(output, "experts", "experts for the CPU", plan->experts_path);
    kt_output_fact_text(output, "method", "method", plan->method);
    kt_output_fact_uint(output, "layers", "layers with experts", plan->facts.n_moe_layers);
    kt_output_fact_uint(output, "experts_of_layer", "experts of a layer", plan->facts.n_experts);
    kt_output_fact_uint(output, "gpu_experts", "of them on the GPU", fit->gpu_experts);
    kt_output_fact_uint(output, "threads", "threads", plan->n_threads);
    kt_output_fact_text(output, "numa_nodes", "NUMA nodes", plan->nodes);
    kt_output_fact_bytes(output, "cpu_bytes", "memory for experts", plan->cpu_size);
    kt_output_fact_uint(output, "gpus", "GPUs", fit->n_gpus);
    kt_output_fact_text(output, "gpu", "the first of them", plan->gpus.gpu[0].name);
    kt_output_fact_bytes(output, "gpu_bytes", "memory of each", fit->memory);
    kt_output_fact_bytes(output, "gpu_expert_bytes", "of it for experts", fit->expert_size);
    kt_output_fact_bytes(output, "gpu_rest_bytes", "for other weights", fit->rest_size);
    kt_output_fact_bytes(output, "kv_bytes", "for keys and values", fit->cache_size);
    kt_output_fact_uint(output, "kv_tokens", "that is, tokens, at least", fit->cache_tokens);
    kt_output_fact_uint(output, "context", "context, tokens", fit->context);
    kt_output_fact_text(output, "command", "command", command);
    (void)kt_output_finish(output, KT_EXIT_OK);
}

static int serve(const struct kt_cli *cli, const struct kt_run_args *args, const struct kt_words *words)
{
    const char *level = kt_words_users(words, "--log-level");
    bool is_quiet =
        level ? strcmp(level, "info") != 0 && strcmp(level, "debug") != 0 : args->log == KT_SERVE_LOG_ERROR;
    struct kt_watch watch = {.cli = cli, .expects = !is_quiet && args->launch.rank == 0};
    setenv("PYTHONUNBUFFERED", "1", 0); /* its lines shall come when they are written */
    if (is_quiet)
        kt_cli_warn(cli, "a log of errors only does not say whether kt_kernel is active");
    int status = kt_process_run(cli, words->word, kt_watch_line, &watch);
    kt_watch_end(&watch);
    return status == KT_PROCESS_MISSING ? KT_EXIT_PROBLEM : status;
}

/* Options that SGLang can do without, where nobody has asked for them. */
static const char *find_spare(const struct kt_cli *cli)
{
    return kt_cli_given(cli, "numa-nodes") ? "--kt-gpu-prefill-token-threshold"
                                           : "--kt-numa-nodes --kt-gpu-prefill-token-threshold";
}

static int launch(struct kt_cli *cli, const struct kt_run_args *args, struct kt_words *words,
                  struct kt_launch_plan *plan, struct kt_python *python)
{
    int code = kt_launch_make_plan(cli, args, words, plan);
    if (code == KT_EXIT_OK)
        code = kt_python_find(cli, args->launch.python, python);
    if (code == KT_EXIT_OK)
        code = kt_launch_make_words(cli, args, plan, python, words);
    if (code != KT_EXIT_OK)
        return code;
    code = kt_python_complain(cli, python);
    if (code == KT_EXIT_OK)
        code = kt_python_check(cli, python, words, KT_LAUNCH_FIRST_WORDS, find_spare(cli));
    else if (args->dry_run)
        kt_cli_warn(cli, "so the following options have not been checked");
    if (code != KT_EXIT_OK && !args->dry_run)
        return code;
    char *command = kt_words_quote(words, !args->dry_run);
    if (args->dry_run && cli->format == KT_FORMAT_TABLE)
        printf("%s\n", command);
    else
        show(cli, plan, command);
    free(command);
    if (args->dry_run || kt_cli_flush(cli) != KT_EXIT_OK)
        return code;
    return serve(cli, args, words);
}

int kt_launch(struct kt_cli *cli, const struct kt_run_args *args, char *const *rest, int n_rest)
{
    struct kt_words words = {.cli = cli, .users = rest, .n_users = (size_t)n_rest};
    struct kt_launch_plan plan = {.method = NULL};
    struct kt_python python = {.program = NULL};
    int code = refuse_ours(cli);
    if (code == KT_EXIT_OK)
        code = launch(cli, args, &words, &plan, &python);
    kt_launch_free_plan(&plan);
    kt_python_free(&python);
    kt_words_free(&words);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/launch/fit.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define GB 1e9
#define BUFFERS 1.5e9      /* activations and graphs that SGLang counts among the weights */
#define MOST_FRACTION 0.85 /* the rest is for activations: 0.98 runs out of memory in long prompts */
#define MOST_CONTEXT 32768 /* where nobody says more, as without --engine */
#define LEAST_CHUNK 4096
#define MOST_CHUNK 16384
#define BUS_BANDWIDTH 25e9 /* bytes a second, of 16 lanes of PCIe 4 */

/* ---- GPUs ---- */

static bool divides(const struct kt_launch_facts *facts, uint64_t n)
{
    return facts->n_heads % n == 0 && facts->intermediate_size % n == 0;
}

static int choose_gpus(const struct kt_cli *cli, const struct kt_fit_input *in, struct kt_fit *fit)
{
    uint64_t all = in->gpus->n * in->n_machines, others = in->n_stages * in->n_copies;
    fit->n_gpus = in->n_gpus;
    if (in->n_gpus == KT_FIT_FREE)
        for (fit->n_gpus = all / others; fit->n_gpus > 1; fit->n_gpus--)
            if (fit->n_gpus * others % in->n_machines == 0 && divides(in->facts, fit->n_gpus))
                break;
    uint64_t needed = fit->n_gpus * others;
    if (needed == 0 || needed > all || needed % in->n_machines != 0)
        return kt_cli_usage(cli,
                            "--tensor-parallel-size %" PRIu64 " with %" PRIu64 " stages, %" PRIu64
                            " copies and %" PRIu64 " machines needs other GPUs than the %zu of each machine",
                            fit->n_gpus, in->n_stages, in->n_copies, in->n_machines, in->gpus->n);
    if (!divides(in->facts, fit->n_gpus))
        return kt_cli_usage(cli,
                            "--tensor-parallel-size %" PRIu64 " does not divide %" PRIu64
                            " heads and the %" PRIu64 " rows of an expert",
                            fit->n_gpus, in->facts->n_heads, in->facts->intermediate_size);
    return KT_EXIT_OK;
}

/* What the fullest of them has free, and what the smallest one has. */
static void find_memory(const struct kt_fit_input *in, const struct kt_fit *fit, uint64_t *memory,
                        uint64_t *used)
{
    *memory = UINT64_MAX;
    *used = 0;
    uint64_t n = fit->n_gpus * in->n_stages * in->n_copies / in->n_machines;
    for (uint64_t i = 0; i < n && i < in->gpus->n; i++) {
        const struct kt_gpu *gpu = &in->gpus->gpu[i];
        *memory = gpu->memory < *memory ? gpu->memory : *memory;
        *used = gpu->used > *used ? gpu->used : *used;
    }
}

/* ---- prompts ---- */

/* What cores reach in batches of 2048 tokens, operations a second: about what tests/bench/peers.csv has of
 * two. */
static double core_speed(const char *variant)
{
    static const struct {
        const char *variant;
        double speed;
    } cores[] = {{"amx", 0.5e12}, {"avx512", 0.2e12}, {"avx", 0.05e12}};
    for (size_t i = 0; i < COUNT(cores); i++)
        if (strncmp(variant, cores[i].variant, strlen(cores[i].variant)) == 0)
            return cores[i].speed;
    return 0.05e12;
}

/* Tokens that the CPU computes while a layer's experts are copied to the GPUs: from there on copying is
 * faster. */
static uint64_t balance(const struct kt_fit_input *in, const struct kt_fit *fit)
{
    const struct kt_launch_facts *facts = in->facts;
    double bus = in->gpus->gpu[0].bus_bandwidth > 0 ? in->gpus->gpu[0].bus_bandwidth : BUS_BANDWIDTH;
    double copying = (double)facts->moe_size / (double)fit->n_gpus / bus;
    double work = 6.0 * (double)facts->hidden_size * (double)facts->intermediate_size * (double)facts->top_k;
    double token = work / (core_speed(in->cpu_variant) * (double)in->n_threads);
    double tokens = ceil(copying / token / 128) * 128;
    return tokens < (double)UINT32_MAX ? (uint64_t)tokens : UINT32_MAX;
}

/* A prompt's slice is long enough for two balances, so that copying pays. */
static void choose_prompts(const struct kt_fit_input *in, bool copies, struct kt_fit *fit)
{
    fit->chunk = in->chunk != KT_FIT_FREE ? in->chunk : LEAST_CHUNK;
    fit->threshold = in->threshold != KT_FIT_FREE ? in->threshold : 0;
    if (in->threshold != KT_FIT_FREE || !copies || !in->is_unpacked || in->facts->moe_size == 0)
        return;
    uint64_t threshold = balance(in, fit);
    while (in->chunk == KT_FIT_FREE && fit->chunk < MOST_CHUNK && fit->chunk < 2 * threshold)
        fit->chunk *= 2;
    if (2 * threshold <= fit->chunk)
        fit->threshold = threshold;
    else if (in->chunk == KT_FIT_FREE)
        fit->chunk = LEAST_CHUNK;
}

/* ---- memory ---- */

/* Bytes of a GPU for its experts; below 0: what must be there does not fit. */
static double find_budget(const struct kt_fit_input *in, uint64_t n_contexts, uint64_t used,
                          struct kt_fit *fit)
{
    const struct kt_launch_facts *facts = in->facts;
    uint64_t token = kt_launch_token_bytes(facts, fit->n_gpus) / in->n_stages;
    double n_layers =
        strcmp(facts->format, "MXFP4") == 0 ? 2 : 1; /* SGLang fills one while it computes another */
    double layer = fit->threshold ? n_layers * (double)facts->moe_size / (double)fit->n_gpus : 0;
    fit->spare = (uint64_t)(BUFFERS + layer);
    fit->fraction = in->fraction;
    if (in->fraction < 0)
        fit->fraction = floor((MOST_FRACTION - layer / (double)fit->memory) * 100) / 100;
    fit->cache_tokens = n_contexts * fit->context;
    if (in->cache_tokens != KT_FIT_FREE)
        fit->cache_tokens = in->cache_tokens;
    else if (in->cache_bytes != KT_FIT_FREE)
        fit->cache_tokens = in->cache_bytes / (token ? token : 1);
    fit->cache_size = fit->cache_tokens * token;
    fit->rest_size = facts->rest_size / fit->n_gpus / in->n_stages;
    return (double)fit->memory * fit->fraction - (double)used - (double)fit->rest_size -
           (double)fit->cache_size - BUFFERS;
}

static int refuse(const struct kt_cli *cli, const struct kt_fit *fit, uint64_t used)
{
    return kt_cli_error(
        cli,
        "a GPU of %.1f GB does not have enough memory: SGLang may use %.2f of it, less %.1f GB for "
        "buffers and %.1f GB used by others; weights other than experts require %.1f GB, keys and "
        "values %.1f GB for %" PRIu64
        " tokens; use a smaller --context or --kv-size, or more GPUs, or try --gpu-experts 0",
        (double)fit->memory / GB, fit->fraction, BUFFERS / GB, (double)used / GB, (double)fit->rest_size / GB,
        (double)fit->cache_size / GB, fit->cache_tokens);
}

static int choose_experts(const struct kt_cli *cli, const struct kt_fit_input *in, double budget,
                          struct kt_fit *fit)
{
    const struct kt_launch_facts *facts = in->facts;
    /* One of each layer of a stage. */
    double expert = (double)facts->moe_size * (double)facts->n_moe_layers / (double)facts->n_experts /
                    (double)(fit->n_gpus * in->n_stages);
    double most = facts->moe_size ? floor(budget / expert) : 0;
    most = most < 0 ? 0 : most > (double)facts->n_experts ? (double)facts->n_experts : most;
    fit->gpu_experts = in->gpu_experts != KT_FIT_FREE ? in->gpu_experts : (uint64_t)most;
    fit->expert_size = (uint64_t)((double)fit->gpu_experts * expert);
    if (fit->gpu_experts > facts->n_experts)
        return kt_cli_usage(cli, "--gpu-experts %" PRIu64 ": a layer has %" PRIu64, fit->gpu_experts,
                            facts->n_experts);
    if (fit->gpu_experts > 0 && facts->moe_size == 0)
        return kt_cli_error(cli, "--gpu-experts %" PRIu64 ": %s has no experts that SGLang could load",
                            fit->gpu_experts, cli->arguments[0]);
    if (fit->gpu_experts > (uint64_t)most)
        kt_cli_warn(cli, "--gpu-experts %" PRIu64 ": there seems to be memory for %.0f", fit->gpu_experts,
                    most);
    return KT_EXIT_OK;
}

int kt_fit(const struct kt_cli *cli, const struct kt_fit_input *in, struct kt_fit *fit)
{
    /* What is wished, and what goes first where it does not fit: copies of whole layers, then a second
     * context. */
    static const struct {
        bool copies;
        uint64_t n_contexts;
    } wishes[] = {{true, 2}, {false, 2}, {false, 1}};
    uint64_t used;
    double budget = -1;
    *fit = (struct kt_fit){.context = in->context};
    if (in->context == KT_FIT_FREE)
        fit->context =
            in->facts->context && in->facts->context < MOST_CONTEXT ? in->facts->context : MOST_CONTEXT;
    int code = choose_gpus(cli, in, fit);
    if (code != KT_EXIT_OK)
        return code;
    find_memory(in, fit, &fit->memory, &used);
    for (size_t i = 0; i < COUNT(wishes) && budget < 0; i++) {
        choose_prompts(in, wishes[i].copies, fit);
        budget = find_budget(in, wishes[i].n_contexts, used, fit);
    }
    if (budget < 0 && in->gpu_experts == KT_FIT_FREE)
        return refuse(cli, fit, used);
    code = choose_experts(cli, in, budget, fit);
    if (fit->gpu_experts == in->facts->n_experts && in->threshold == KT_FIT_FREE)
        fit->threshold = 0; /* all are there */
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* speed.c - times one token through a layer whose weights come from memory, like a short kt bench. */
#include "tools/kt/bench/bench.h"
#include "tools/kt/plugin/plugin.h"

#include <stdio.h>
#include <string.h>

#define CYCLE_SIZE (UINT64_C(384) << 20)

static const struct bench_shape shape = {"qwen3-30b-a3b", 2048, 768, 16, 8, 16, false};

/* Does the backend take such weights? Asks with a small layer, without messages. */
static bool takes(struct kt_context *context, const char *backend, const struct bench_source_type *type)
{
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct bench_source source;
    struct kt_layer *layer = NULL;
    struct kt_plan plan;
    struct kt_error error;
    if (!type || bench_source_create(type, 256, 256, 2, KT_ACTIVATION_SILU, &source, &error) != KT_OK)
        return false;
    params.n_experts = 2;
    params.top_k = 1;
    params.hidden_size = params.intermediate_size = 256;
    params.max_tokens = 1;
    params.activation = KT_ACTIVATION_SILU;
    params.backend = backend;
    bool taken = kt_layer_create(context, &params, &layer, &error) == KT_OK &&
                 kt_layer_plan(layer, source.experts, &plan, &error) == KT_OK && !plan.fallback;
    kt_layer_destroy(layer);
    bench_source_destroy(&source);
    return taken;
}

/* The format that the backend is meant for, else the first that it takes. */
static const struct bench_source_type *find_type(struct kt_context *context, const char *backend,
                                                 const char *formats)
{
    const struct bench_source_type *type = bench_source_usual(formats);
    char names[512];
    if (takes(context, backend, type))
        return type;
    snprintf(names, sizeof(names), "%s", bench_source_names());
    for (char *word = strtok(names, " "); word; word = strtok(NULL, " "))
        if (takes(context, backend, bench_source_find(word)))
            return bench_source_find(word);
    return NULL;
}

static bool measure(struct plugin_run *run, struct kt_context *context, const struct bench_source_type *type,
                    const struct bench_set *set, struct kt_error *error)
{
    const struct bench_schedule schedule = {.repeats = 0, .runs = 1, .min_time = 0.5};
    struct kt_context_info info;
    struct bench_roofline roofline;
    struct bench_result result = {.median = 0};
    kt_context_info(context, &info);
    enum kt_status status = bench_roofline_create(run->cli, info.cpu, set, &schedule, &roofline, error);
    if (status == KT_OK)
        status = bench_roofline_measure(context, &roofline, error);
    if (status == KT_OK &&
        bench_set_time(run->cli, set, NULL, info.n_threads, &schedule, 1, &result) != KT_EXIT_OK)
        status = KT_E_STATE;
    if (status == KT_OK)
        status = bench_roofline_measure(context, &roofline, error);
    if (status == KT_OK) {
        double bytes = result.experts * (double)set->nominal_size;
        double operations = 6.0 * (double)shape.hidden_size * (double)shape.intermediate_size * result.rows;
        double fraction = bench_roofline_time(&roofline, bytes, operations) / result.median;
        plugin_say(&run->child->verdict, PLUGIN_OK,
                   "%s at %s: %.1f GB/s of the machine's %.1f, %.2f of its limit (1 token, %u threads)",
                   type->name, set->level, bytes / result.median, roofline.read.rate, fraction,
                   info.n_threads);
        memcpy(run->child->payload.bytes, &fraction, sizeof(fraction));
    }
    bench_buffer_destroy(&roofline.buffer);
    return status == KT_OK;
}

void plugin_job_speed(void *data, struct plugin_child *child)
{
    struct plugin_run *run = data;
    struct kt_context *context;
    struct bench_source source;
    struct bench_set set;
    struct kt_error error = {.message = "kt bench says why"};
    run->child = child;
    child->speaks = true; /* kt bench's warnings */
    plugin_where(run, "kt bench --backend %s", run->file->name);
    if (plugin_context(run->cli, &context, &error) != KT_OK) {
        plugin_fail(run, "%s", error.message);
        return;
    }
    const struct bench_source_type *type = find_type(context, run->file->name, run->facts->formats);
    struct bench_want want = {.backend = run->file->name,
                              .shape = &shape,
                              .source = &source,
                              .max_tokens = 1,
                              .cycle_size =
                                  3 * bench_cache_size() > CYCLE_SIZE ? 3 * bench_cache_size() : CYCLE_SIZE};
    if (!type) {
        plugin_say(&child->verdict, PLUGIN_SKIPPED, "it takes no weights that kt bench makes");
    } else if (bench_source_create(type, shape.hidden_size, shape.intermediate_size, shape.n_experts,
                                   KT_ACTIVATION_SILU, &source, &error) != KT_OK) {
        plugin_fail(run, "%s", error.message);
    } else {
        if (bench_set_create(run->cli, context, &want, &set) != KT_EXIT_OK) {
            plugin_fail(run, "the layer cannot be made; %s", error.message);
        } else {
            if (!measure(run, context, type, &set, &error))
                plugin_fail(run, "%s", error.message);
            bench_set_destroy(&set);
        }
        bench_source_destroy(&source);
    }
    kt_context_destroy(context);
}

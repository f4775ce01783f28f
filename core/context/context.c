/* SPDX-License-Identifier: Apache-2.0 */
#include "core/context/context.h"

#include "core/backend/registry.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/config/config.h"
#include "core/machine/clock.h"
#include "core/machine/cpu.h"
#include "core/machine/cpu_model.h"
#include "core/machine/pool.h"
#include "core/machine/queue.h"
#include "core/machine/topology.h"

#include <stdlib.h>
#include <string.h>

struct kt_context *kt_context_retain(struct kt_context *context)
{
    atomic_fetch_add(&context->references, 1);
    return context;
}

/* Each part needs the ones before it; kt_context_destroy frees them in reverse order. */
static enum kt_status build(struct kt_context *context, struct kt_error *error)
{
    const struct kt_config *config = context->config;
    struct kt_caps caps;
    enum kt_status status = kt_cpu_detect(kt_config_text(config, "core", "cpu_variant"), &caps, error);
    if (status == KT_OK)
        status = kt_topology_create(kt_config_text(config, "core", "numa_nodes"), &context->topology, error);
    if (status == KT_OK)
        status = kt_registry_create(config, &caps, &context->registry, error);
    if (status == KT_OK)
        status = kt_pool_create(context->topology, (uint32_t)kt_config_int(config, "core", "threads"),
                                (uint32_t)kt_config_int(config, "core", "spin_us"), &context->pool, error);
    if (status == KT_OK)
        status = kt_queue_create(context->pool, (uint32_t)kt_config_int(config, "core", "queue_depth"),
                                 &context->queue, error);
    if (status != KT_OK)
        return status;
    kt_pool_idle_cpus(context->pool, context->idle_cpus, sizeof context->idle_cpus);
    kt_cpu_model(context->cpu_model);
    kt_cpu_microcode(context->microcode);
    context->huge_pages = kt_config_bool(config, "core", "huge_pages");
    (void)kt_cpu_names(caps.cpu, context->cpu_features, sizeof context->cpu_features);
    kt_log_write(context->log, KT_LOG_DEBUG, "%u threads on %u NUMA nodes, CPU level %s (%s)",
                 context->pool->n_threads, context->pool->n_nodes, kt_cpu_variant(caps.cpu),
                 context->cpu_features);
    if (context->pool->bind_failures)
        kt_log_write(context->log, KT_LOG_WARNING, "%u of %u threads could not be bound to a core",
                     context->pool->bind_failures, context->pool->n_threads);
    if (context->topology->idle[0])
        kt_log_write(context->log, KT_LOG_WARNING,
                     "CPUs %s stay idle: the NUMA node near to them has no memory that this process may use",
                     context->topology->idle);
    return KT_OK;
}

enum kt_status kt_context_create(const struct kt_config *config, struct kt_context **out,
                                 struct kt_error *error)
{
    if (!out)
        return kt_fail(error, KT_E_INVALID, "kt_context_create: context must not be NULL");
    struct kt_context *context = calloc(1, sizeof *context);
    if (!context)
        return kt_fail(error, KT_E_NOMEM, "no memory for a context");
    atomic_init(&context->references, 1);
    kt_stagings_init(&context->stagings);
    enum kt_status status = KT_OK;
    if (config)
        context->config = kt_config_retain(config);
    else
        status = kt_config_create(NULL, &context->config, error);
    if (status == KT_OK) {
        context->log = kt_config_log(context->config);
        status = build(context, error);
    }
    if (status != KT_OK) {
        kt_context_destroy(context);
        return status;
    }
    *out = context;
    return KT_OK;
}

void kt_context_destroy(struct kt_context *context)
{
    if (!context || atomic_fetch_sub(&context->references, 1) > 1)
        return;
    kt_queue_destroy(context->queue);
    kt_pool_destroy(context->pool);
    kt_arena_destroy(&context->arena);
    kt_stagings_destroy(&context->stagings);
    kt_registry_destroy(context->registry);
    kt_topology_destroy(context->topology);
    kt_config_destroy(context->config);
    free(context);
}

void kt_context_info(const struct kt_context *context, struct kt_context_info *info)
{
    uint64_t cpu = context->registry->caps.cpu;
    unsigned failures = atomic_load(&context->topology->membind_failures);
    *info = (struct kt_context_info){
        .n_nodes = context->pool->n_nodes,
        .n_threads = context->pool->n_threads,
        .bind_failures = context->pool->bind_failures,
        .membind_failures = failures,
        .cpu_features = context->cpu_features,
        .cpu_variant = kt_cpu_variant(cpu),
        .cpu = cpu,
        .membind_message = failures ? context->topology->membind_message : "",
        .idle_cpus = context->idle_cpus,
        .cpu_model = context->cpu_model,
        .microcode = context->microcode,
    };
}

enum kt_status kt_context_node(const struct kt_context *context, uint32_t index, struct kt_node_info *info,
                               struct kt_error *error)
{
    if (!context || !info)
        return kt_fail(error, KT_E_INVALID, "kt_context_node: context and info must not be NULL");
    if (index >= context->pool->n_nodes)
        return kt_fail(error, KT_E_RANGE, "node %u: the context has %u nodes", index, context->pool->n_nodes);
    *info = (struct kt_node_info){.os_index = context->topology->node[index].os_index,
                                  .n_threads = context->pool->subpool[index].n_threads,
                                  .memory = context->topology->node[index].memory};
    return KT_OK;
}

size_t kt_context_backend_count(const struct kt_context *context)
{
    return context->registry->n_backends;
}

static enum kt_status find_backend(const struct kt_context *context, size_t index,
                                   const struct kt_backend **backend, struct kt_error *error)
{
    if (!context)
        return kt_fail(error, KT_E_INVALID, "the context must not be NULL");
    if (index >= context->registry->n_backends)
        return kt_fail(error, KT_E_RANGE, "backend %zu: the context has %zu", index,
                       context->registry->n_backends);
    *backend = &context->registry->backend[index];
    return KT_OK;
}

enum kt_status kt_context_backend(const struct kt_context *context, size_t index,
                                  struct kt_backend_info *info, struct kt_error *error)
{
    const struct kt_backend *backend = NULL;
    enum kt_status status = find_backend(context, index, &backend, error);
    if (status != KT_OK)
        return status;
    if (!info)
        return kt_fail(error, KT_E_INVALID, "kt_context_backend: info must not be NULL");
    const struct kt_plugin *plugin = backend->plugin;
    const struct kt_level *level = backend->level;
    *info = (struct kt_backend_info){
        .name = backend->name,
        .state = backend->state,
        .reason = backend->reason ? backend->reason : "",
        .file = backend->file ? backend->file : "",
        .origin = backend->origin ? backend->origin : "",
        .version = plugin && plugin->version ? plugin->version : "",
        .description = plugin && plugin->description ? plugin->description : "",
        .formats = plugin && plugin->formats ? plugin->formats : "",
        .level = level ? level->name : "",
        .levels = backend->levels ? backend->levels : "",
        .instruction = level && level->instruction ? level->instruction : "",
        .priority = backend->priority,
        .n_options = plugin && backend->values ? plugin->n_options : 0,
        .takes_linears = plugin && plugin->abi_minor >= KT_LINEAR_MINOR && plugin->levels[0]->ops,
        .takes_attention = plugin && KT_LEVEL_TABLE(plugin->levels[0], attention),
    };
    return KT_OK;
}

enum kt_status kt_context_backend_option(const struct kt_context *context, size_t index, size_t option,
                                         struct kt_setting *setting, struct kt_error *error)
{
    const struct kt_backend *backend = NULL;
    enum kt_status status = find_backend(context, index, &backend, error);
    if (status != KT_OK)
        return status;
    if (!setting)
        return kt_fail(error, KT_E_INVALID, "kt_context_backend_option: setting must not be NULL");
    size_t n = backend->plugin && backend->values ? backend->plugin->n_options : 0;
    if (option >= n)
        return kt_fail(error, KT_E_RANGE, "option %zu: backend %s has %zu", option, backend->name, n);
    const struct kt_option *row = &backend->plugin->options[option];
    *setting = (struct kt_setting){.section = backend->name,
                                   .key = row->key,
                                   .value = backend->values[option].text,
                                   .origin = backend->value_origins[option],
                                   .help = row->help ? row->help : ""};
    return KT_OK;
}

static void empty_stage(struct kt_worker *worker, void *argument)
{
    (void)argument;
    kt_worker_barrier(worker);
}

enum kt_status kt_context_dispatch_time(struct kt_context *context, uint32_t count, int asleep,
                                        double *nanoseconds, struct kt_error *error)
{
    if (!context || !nanoseconds || !count)
        return kt_fail(error, KT_E_INVALID,
                       "kt_context_dispatch_time: context, nanoseconds and count must not be NULL or 0");
    struct kt_pool *pool = context->pool;
    enum kt_status status = kt_pool_lock(pool, error);
    if (status != KT_OK)
        return status;
    double total = 0;
    for (uint32_t i = 0; i < count; i++) {
        while (asleep && atomic_load(&pool->start.sleepers) < pool->n_started)
            (void)sched_yield();
        uint64_t begin = kt_now_ns();
        kt_pool_run(pool, empty_stage, NULL);
        total += (double)(kt_now_ns() - begin);
    }
    kt_pool_unlock(pool);
    *nanoseconds = total / count;
    return KT_OK;
}

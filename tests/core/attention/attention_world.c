/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/core/attention/attention_world.h"

#include "tests/support/sandbox.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct shape shapes[WORLD_SHAPES] = {
    {32, 4, 128, 128, KT_DTYPE_BF16, false, 0, 0, false}, /* Qwen3-30B-A3B */
    {16, 2, 64, 64, KT_DTYPE_BF16, false, 128, 0, true},  /* gpt-oss */
    {8, 1, 256, 256, KT_DTYPE_Q8_0, false, 0, 30, false}, /* Qwen3-Next; Gemma's cap */
    {3, 3, 192, 128, KT_DTYPE_BF16, false, 0, 0, false},  /* MLA, plain */
    {24, 1, 576, 512, KT_DTYPE_BF16, true, 0, 0, false},  /* MLA, absorbed */
    {70, 1, 576, 512, KT_DTYPE_Q8_0, true, 0, 0, true},   {20, 1, 96, 80, KT_DTYPE_F32, true, 70, 0, false},
    {6, 2, 80, 72, KT_DTYPE_F32, false, 300, 5, true},    {5, 1, 33, 17, KT_DTYPE_BF16, false, 0, 0, false},
    {14, 2, 1, 1, KT_DTYPE_BF16, false, 1, 0, true},      {10, 2, 47, 49, KT_DTYPE_Q8_0, false, 257, 0, true},
    {140, 2, 64, 48, KT_DTYPE_Q8_0, false, 0, 0, false},  {3, 1, 96, 112, KT_DTYPE_Q8_0, false, 90, 0, true},
};

bool world_has_plugin(void)
{
    const char *plugins = getenv("KT_TEST_PLUGINS");
    return plugins && strstr(plugins, "kt_attention.la");
}

static float number(uint64_t seed)
{
    seed = (seed ^ seed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    seed = (seed ^ seed >> 27) * UINT64_C(0x94d049bb133111eb);
    return (float)((double)((seed ^ seed >> 31) >> 40) / 0x1p23 - 1);
}

static uint32_t key_fields(const struct shape *shape)
{
    return shape->latent ? 1 : 2;
}

struct kt_attention_params world_params(const struct world *world)
{
    const struct shape *shape = world->shape;
    struct kt_attention_params params = KT_ATTENTION_PARAMS_INIT;
    params.value_field = shape->latent ? 0 : 1;
    params.n_heads = shape->n_heads;
    params.value_size = shape->value_size;
    params.window = shape->window;
    params.softcap = shape->softcap;
    params.sinks = world->sinks;
    params.max_sequences = 16;
    params.name = "blk.0.attn";
    return params;
}

/* With n more settings. */
static bool open_level(struct world *world, const struct shape *shape, const char *level, int threads,
                       int nodes, const char *const *more, size_t n)
{
    char module[512], wish[64], count[32];
    const char *settings[4 + WORLD_SETTINGS] = {module, wish, count, "core.spin_us=0"};
    const char *file = sandbox_backend("attention");
    memset(world, 0, sizeof *world);
    if (!file)
        return false;
    (void)snprintf(module, sizeof module, "plugin.attention.module=%s", file);
    (void)snprintf(wish, sizeof wish, "plugin.attention.level=%s", level);
    (void)snprintf(count, sizeof count, "core.threads=%d", threads);
    if (nodes > 0) {
        char text[64];
        (void)snprintf(text, sizeof text, "numa:%d core:%d pu:1", nodes, (threads + nodes - 1) / nodes);
        ck_assert_int_eq(setenv("HWLOC_SYNTHETIC", text, 1), 0);
    }
    world->shape = shape;
    for (size_t i = 0; i < n; i++)
        settings[4 + i] = more[i];
    world->context = fixture_context_with(settings, 4 + n);
    ck_assert_int_eq(unsetenv("HWLOC_SYNTHETIC"), 0);
    struct kt_kv_field fields[2] = {
        {.kind = KT_KV_ROWS,
         .layout = KT_KV_KEY,
         .dtype = shape->dtype,
         .heads = shape->kv_heads,
         .width = shape->key_size},
        {.kind = KT_KV_ROWS,
         .layout = KT_KV_VALUE,
         .dtype = shape->dtype,
         .heads = shape->kv_heads,
         .width = shape->value_size},
    };
    const struct kt_kv_layer layer = {fields, key_fields(shape), 0};
    struct kt_kv_params params = KT_KV_PARAMS_INIT;
    params.layers = &layer;
    params.n_layers = 1;
    params.tokens = 8000;
    ck_ok(kt_kv_create(world->context, &params, &world->kv, &ck_error));
    if (shape->sinks) {
        world->sinks = malloc(shape->n_heads * sizeof *world->sinks);
        for (uint32_t h = 0; h < shape->n_heads; h++)
            world->sinks[h] = h == 1 ? -INFINITY : 2 * number(h);
    }
    struct kt_attention_params wanted = world_params(world);
    struct kt_error error;
    enum kt_status status = kt_attention_create(world->kv, &wanted, &world->attention, &error);
    if (status == KT_E_NOT_FOUND && strcmp(level, "auto") != 0 && strcmp(level, "scalar") != 0)
        return false; /* the plugin has no such level, or this CPU cannot run it */
    ck_assert_msg(status == KT_OK, "%s", error.message);
    kt_attention_info(world->attention, &world->info);
    return true;
}

bool world_open(struct world *world, const struct shape *shape, const char *level, int threads, int nodes)
{
    return open_level(world, shape, level, threads, nodes, NULL, 0);
}

bool world_open_with(struct world *world, const struct shape *shape, const char *level,
                     const char *const *settings, size_t n)
{
    return open_level(world, shape, level, 1, 0, settings, n);
}

void world_close(struct world *world)
{
    kt_attention_destroy(world->attention);
    kt_kv_destroy(world->kv);
    kt_context_destroy(world->context);
    free(world->sinks);
}

struct kt_kv_sequence *world_fill(const struct world *world, uint32_t n, uint64_t seed)
{
    const struct shape *shape = world->shape;
    struct kt_kv_sequence *sequence;
    ck_ok(kt_kv_sequence_open(world->kv, &sequence, &ck_error));
    ck_ok(kt_kv_sequence_reserve(sequence, 0, n, &ck_error));
    for (uint32_t field = 0; field < key_fields(shape); field++) {
        uint64_t width = (uint64_t)(field ? shape->value_size : shape->key_size) * shape->kv_heads;
        float *data = malloc(n * width * sizeof *data);
        for (uint64_t i = 0; i < n * width; i++)
            data[i] = 2 * number(seed + (field + 1) * UINT64_C(0x9e3779b97f4a7c15) + i * 977);
        struct kt_kv_rows rows = KT_KV_ROWS_INIT;
        rows.field = field;
        rows.n_heads = shape->kv_heads;
        rows.n_rows = n;
        rows.dtype = KT_DTYPE_F32;
        ck_ok(kt_kv_sequence_write(sequence, &rows, data, &ck_error));
        free(data);
    }
    ck_ok(kt_kv_sequence_commit(sequence, n - n / 3, &ck_error));
    return sequence;
}

float *world_read(const struct world *world, const struct kt_kv_sequence *sequence, uint32_t field,
                  uint32_t n)
{
    const struct shape *shape = world->shape;
    uint64_t width = (uint64_t)(field ? shape->value_size : shape->key_size) * shape->kv_heads;
    float *data = malloc(n * width * sizeof *data);
    struct kt_kv_rows rows = KT_KV_ROWS_INIT;
    rows.field = field;
    rows.n_heads = shape->kv_heads;
    rows.n_rows = n;
    rows.dtype = KT_DTYPE_F32;
    ck_ok(kt_kv_sequence_read(sequence, &rows, data, &ck_error));
    return data;
}

struct request world_ask(const struct world *world, const struct kt_kv_sequence *sequence, uint64_t position,
                         uint32_t n_tokens)
{
    const struct shape *shape = world->shape;
    struct request request = {.item = {.sequence = sequence, .position = position, .n_tokens = n_tokens}};
    uint64_t width = (uint64_t)shape->n_heads * shape->key_size;
    request.queries = malloc(n_tokens * width * sizeof(float));
    request.output = malloc((uint64_t)n_tokens * shape->n_heads * shape->value_size * sizeof(float));
    for (uint32_t t = 0; t < n_tokens; t++)
        for (uint64_t i = 0; i < width; i++)
            request.queries[t * width + i] = 2 * number((position + t) * 1000003 + i * 31 + 5);
    request.item.queries = request.queries;
    request.item.output = request.output;
    return request;
}

void world_free_request(struct request *request)
{
    free(request->queries);
    free(request->output);
}

void world_run(const struct world *world, const struct request *requests, uint32_t n)
{
    struct kt_attention_item items[16];
    struct kt_attention_batch batch = KT_ATTENTION_BATCH_INIT;
    for (uint32_t i = 0; i < n; i++)
        items[i] = requests[i].item;
    batch.items = items;
    batch.n_items = n;
    batch.query_dtype = batch.output_dtype = KT_DTYPE_F32;
    ck_ok(kt_attention_forward(world->attention, &batch, &ck_error));
}

uint64_t world_output_size(const struct world *world, uint32_t n_tokens)
{
    return (uint64_t)n_tokens * world->shape->n_heads * world->shape->value_size * sizeof(float);
}

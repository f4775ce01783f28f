/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_attention.c - attention of all shapes and forms at the levels that this CPU has, against its
 * definition in float64 over the numbers that the cache holds; the same bits whatever else runs; wrong calls.
 */
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shape {
    uint32_t n_heads, kv_heads, key_size,
        value_size; /* value_size 0: a tenth of the keys' numbers is left out */
    uint32_t dtype;
    bool latent;
    uint32_t window;
    float softcap;
    bool sinks;
};

static const struct shape shapes[] = {
    {32, 4, 128, 128, KT_DTYPE_BF16, false, 0, 0, false}, /* Qwen3-30B-A3B */
    {16, 2, 64, 64, KT_DTYPE_BF16, false, 128, 0, true},  /* gpt-oss */
    {8, 1, 256, 256, KT_DTYPE_Q8_0, false, 0, 30, false}, /* Qwen3-Next; Gemma's cap */
    {3, 3, 192, 128, KT_DTYPE_BF16, false, 0, 0, false},  /* MLA, plain */
    {24, 1, 576, 512, KT_DTYPE_BF16, true, 0, 0, false},  /* MLA, absorbed */
    {70, 1, 576, 512, KT_DTYPE_Q8_0, true, 0, 0, true},   {20, 1, 96, 80, KT_DTYPE_F32, true, 70, 0, false},
    {6, 2, 80, 72, KT_DTYPE_F32, false, 300, 5, true},    {5, 1, 33, 17, KT_DTYPE_BF16, false, 0, 0, false},
    {14, 2, 1, 1, KT_DTYPE_BF16, false, 1, 0, true},      {10, 2, 47, 49, KT_DTYPE_Q8_0, false, 257, 0, true},
    {140, 2, 64, 40, KT_DTYPE_Q8_0, false, 0, 0, false},
};

static const char *const levels[] = {"auto", "scalar", "avx2", "avx512", "avx512_bf16", "neon"};
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- a cache with numbers ---- */

struct world {
    const struct shape *shape;
    struct kt_context *context;
    struct kt_kv *kv;
    struct kt_attention *attention;
    struct kt_attention_info info;
    float *sinks;
};

static struct kt_error error;

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

static struct kt_attention_params attention_params(const struct world *world)
{
    const struct shape *shape = world->shape;
    struct kt_attention_params params = KT_ATTENTION_PARAMS_INIT;
    params.value_field = shape->latent ? 0 : 1;
    params.n_heads = shape->n_heads;
    params.value_size = shape->value_size;
    params.window = shape->window;
    params.softcap = shape->softcap;
    params.sinks = world->sinks;
    params.max_sequences = 9;
    params.name = "blk.0.attn";
    return params;
}

/* false: the level does not run here. */
static bool open_world(struct world *world, const struct shape *shape, const char *level, int threads,
                       int nodes)
{
    char module[512], wish[64], count[32];
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
    world->context = fixture_context_with((const char *const[]){module, wish, count, "core.spin_us=0"}, 4);
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
    struct kt_attention_params wanted = attention_params(world);
    enum kt_status status = kt_attention_create(world->kv, &wanted, &world->attention, &error);
    if (status == KT_E_NOT_FOUND && strcmp(level, "auto") != 0 && strcmp(level, "scalar") != 0)
        return false; /* the plugin has no such level, or this CPU cannot run it */
    ck_assert_msg(status == KT_OK, "%s", error.message);
    kt_attention_info(world->attention, &world->info);
    return true;
}

static void close_world(struct world *world)
{
    kt_attention_destroy(world->attention);
    kt_kv_destroy(world->kv);
    kt_context_destroy(world->context);
    free(world->sinks);
}

/* A sequence of n tokens, of which the last ones are reserved only. */
static struct kt_kv_sequence *fill(const struct world *world, uint32_t n, uint64_t seed)
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

static float *read_rows(const struct world *world, const struct kt_kv_sequence *sequence, uint32_t field,
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

/* ---- queries and outputs ---- */

struct request {
    struct kt_attention_item item;
    float *queries;
    float *output;
};

static struct request ask(const struct world *world, const struct kt_kv_sequence *sequence, uint64_t position,
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

static void free_request(struct request *request)
{
    free(request->queries);
    free(request->output);
}

static void run(const struct world *world, const struct request *requests, uint32_t n)
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

/* ---- the definition ---- */

/* Levels with products of bfloat16 pairs round queries and weights to 9 bits. */
static double rounding_unit(const struct world *world)
{
    return strstr(world->info.instruction, "bf") ? 0x1p-8 : 0x1p-23;
}

/* Output of head h of a query at `position` in float64, and how far a level may be off: a score by the
 * rounding of its queries and of its sum, a weight by that, its exp and its rounding, an output by those. */
static void define(const struct world *world, const float *query, uint32_t h, uint64_t position,
                   const float *keys, const float *values, double *out, double *bound)
{
    const struct shape *shape = world->shape;
    uint32_t kv_head = h / (shape->n_heads / shape->kv_heads);
    uint64_t key_width = (uint64_t)shape->kv_heads * shape->key_size;
    uint64_t value_width = shape->latent ? key_width : (uint64_t)shape->kv_heads * shape->value_size;
    uint64_t value_head = shape->latent ? kv_head * shape->key_size : kv_head * shape->value_size;
    const float *v = shape->latent ? keys : values;
    uint64_t first = shape->window && position >= shape->window ? position - shape->window + 1 : 0;
    uint64_t n = position + 1 - first;
    double *score = malloc(n * sizeof *score), max = -INFINITY, off = 0, unit = rounding_unit(world);
    double scale = 1 / sqrt((double)shape->key_size), cap = (double)shape->softcap;
    for (uint64_t j = 0; j < n; j++) {
        const float *key = keys + (first + j) * key_width + kv_head * shape->key_size;
        double s = 0, all = 0;
        for (uint32_t i = 0; i < shape->key_size; i++) {
            s += (double)query[i] * (double)key[i];
            all += fabs((double)query[i] * (double)key[i]);
        }
        s *= scale;
        off = fmax(off, all * scale * (unit + (shape->key_size + 2) * 0x1p-23));
        score[j] = cap > 0 ? cap * tanh(s / cap) : s;
        max = fmax(max, score[j]);
    }
    double sink = world->sinks ? (double)world->sinks[h] : -INFINITY,
           sum = sink > -INFINITY ? exp(sink - max) : 0;
    off += cap * 0x1p-21;
    for (uint64_t j = 0; j < n; j++)
        sum += score[j] = exp(score[j] - max);
    double relative = 2 * (expm1(off) + unit + (double)(n + 16) * 0x1p-23);
    for (uint32_t c = 0; c < shape->value_size; c++) {
        double o = 0, all = 0;
        for (uint64_t j = 0; j < n; j++) {
            o += score[j] * (double)v[(first + j) * value_width + value_head + c];
            all += fabs(score[j] * (double)v[(first + j) * value_width + value_head + c]);
        }
        out[c] = o / sum;
        bound[c] = relative * all / sum + 0x1p-140;
    }
    free(score);
}

static void check(const struct world *world, const struct request *request, uint32_t n_sequence)
{
    const struct shape *shape = world->shape;
    const struct kt_attention_item *item = &request->item;
    float *keys = read_rows(world, item->sequence, 0, n_sequence);
    float *values = shape->latent ? NULL : read_rows(world, item->sequence, 1, n_sequence);
    double expected[1024], bound[1024];
    for (uint32_t t = 0; t < item->n_tokens; t += t + 40 < item->n_tokens ? 37 : 1)
        for (uint32_t h = 0; h<shape->n_heads; h += shape->n_heads> 20 ? 7 : 1) {
            uint64_t at = (uint64_t)t * shape->n_heads + h;
            define(world, request->queries + at * shape->key_size, h, item->position + t, keys, values,
                   expected, bound);
            for (uint32_t c = 0; c < shape->value_size; c++) {
                double got = (double)request->output[at * shape->value_size + c];
                ck_assert_msg(
                    fabs(got - expected[c]) <= bound[c],
                    "level %s, position %llu, head %u, number %u: %.9g, float64 gives %.9g, bound %.3g",
                    world->info.level, (unsigned long long)item->position + t, h, c, got, expected[c],
                    bound[c]);
            }
        }
    free(keys);
    free(values);
}

/* ---- tests ---- */

#define SEQUENCE 2700

/* One batch with decodes at the ends of blocks, pages, chunks and spans, and prompts across them. */
static const struct {
    uint64_t position;
    uint32_t n_tokens;
} pieces[] = {{0, 1}, {15, 1}, {63, 2}, {255, 1}, {256, 1}, {2047, 2}, {2690, 1}, {100, 70}, {240, 0}};

START_TEST(every_shape)
{
    struct world world;
    const struct shape *shape = &shapes[_i % (int)COUNT(shapes)];
    if (open_world(&world, shape, levels[_i / (int)COUNT(shapes)], 2, 0)) {
        struct kt_kv_sequence *sequence = fill(&world, SEQUENCE, (uint64_t)_i);
        struct request request[COUNT(pieces)];
        for (size_t i = 0; i < COUNT(pieces); i++)
            request[i] = ask(&world, sequence, pieces[i].position, pieces[i].n_tokens);
        run(&world, request, COUNT(pieces));
        for (size_t i = 0; i < COUNT(pieces); i++) {
            check(&world, &request[i], SEQUENCE);
            free_request(&request[i]);
        }
        kt_kv_sequence_close(sequence);
    }
    close_world(&world);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attention");
    TCase *tests = tcase_create("attention");
    tcase_set_timeout(tests, 300);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, every_shape, 0, (int)(COUNT(shapes) * COUNT(levels)));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

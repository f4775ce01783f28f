/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_attention.c - attention of all shapes and forms at the levels that this CPU has, against its
 * definition in float64 over the numbers that the cache holds; the same bits whatever else runs.
 */
#include "tools/check/lanes.h"
#include "tests/core/attention/attention_world.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <kt/tune.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const levels[] = {"scalar", "avx2", "avx512", "avx512_bf16", "amx", "arm_bf16", "neon"};
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- the definition ---- */

/* What a level rounds: queries for keys in Q8_0, which stay codes, to 16 bits of a group's largest number. */
struct rounding {
    double query, weight; /* relative */
    double group;         /* of the largest number of KT_KV_GROUP of a query, for each of them */
};

/* Levels with products of bfloat16 pairs round queries and weights to 9 bits, and keys and values of Q8_0,
 * but where they multiply codes. */
static struct rounding find_rounding(const struct world *world)
{
    if (!strstr(world->info.instruction, "bf"))
        return (struct rounding){0x1p-23, 0x1p-23, 0};
    if (strcmp(world->info.level, "avx512_bf16") == 0 && world->shape->dtype == KT_DTYPE_Q8_0 &&
        !world->shape->latent)
        return (struct rounding){0, 0x1p-9 + 0x1p-17, 0.5 / 32767};
    return (struct rounding){0x1p-8, 0x1p-8, 0};
}

#define MOST_NUMBERS 1024 /* of a head */

/* Of a query: its numbers, and for each the largest of its KT_KV_GROUP. */
struct query {
    double number[MOST_NUMBERS], most[MOST_NUMBERS];
};

static void read_query(const float *numbers, uint32_t n, struct query *query)
{
    for (uint32_t i = 0, end; i < n; i = end) {
        double most = 0;
        for (end = i; end < n && end < i + KT_KV_GROUP; end++) {
            query->number[end] = (double)numbers[end];
            most = fmax(most, fabs(query->number[end]));
        }
        for (uint32_t g = i; g < end; g++)
            query->most[g] = most;
    }
}

/* The sums of products of a query with a key, of their sizes, and of the key's with the groups' largest. */
struct score {
    double sum, sizes, groups;
};

LANES_CLONES static struct score multiply_key(const struct query *query, const float *key, uint32_t n)
{
    lanes sum = {0}, sizes = {0}, groups = {0}, at, number;
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        lanes_load_floats(key + i, &at);
        lanes_load(query->most + i, &number);
        number *= at;
        lanes_add_size(&groups, &number);
        lanes_load(query->number + i, &number);
        number *= at;
        sum += number;
        lanes_add_size(&sizes, &number);
    }
    struct score score = {lanes_sum(&sum), lanes_sum(&sizes), lanes_sum(&groups)};
    for (; i < n; i++) {
        score.sum += query->number[i] * (double)key[i];
        score.sizes += fabs(query->number[i] * (double)key[i]);
        score.groups += query->most[i] * fabs((double)key[i]);
    }
    return score;
}

/* Adds a value times its weight, and the sizes of that. */
LANES_CLONES static void add_value(const float *value, double weight, uint32_t n, double *out, double *bound)
{
    uint32_t c = 0;
    for (; c + LANES <= n; c += LANES) {
        lanes part, sum;
        lanes_load_floats(value + c, &part);
        part *= weight;
        lanes_load(out + c, &sum);
        sum += part;
        memcpy(out + c, &sum, sizeof sum);
        lanes_load(bound + c, &sum);
        lanes_add_size(&sum, &part);
        memcpy(bound + c, &sum, sizeof sum);
    }
    for (; c < n; c++) {
        out[c] += weight * (double)value[c];
        bound[c] += fabs(weight * (double)value[c]);
    }
}

/* Output of head h of a query at `position` in float64, and how far a level may be off: a score by what the
 * rounding of its query makes of each product and float32 of the sum, a weight by that, its exp and its
 * rounding, an output by those. */
static void define(const struct world *world, const float *numbers, uint32_t h, uint64_t position,
                   uint64_t first_key, const float *keys, const float *values, double *out, double *bound)
{
    const struct shape *shape = world->shape;
    uint32_t kv_head = h / (shape->n_heads / shape->kv_heads);
    uint64_t key_width = (uint64_t)shape->kv_heads * shape->key_size;
    uint64_t value_width = shape->latent ? key_width : (uint64_t)shape->kv_heads * shape->value_size;
    uint64_t value_head = shape->latent ? kv_head * shape->key_size : kv_head * shape->value_size;
    const float *v = shape->latent ? keys : values;
    uint64_t first = shape->window && position >= shape->window ? position - shape->window + 1 : 0;
    first = first > first_key ? first : first_key;
    uint64_t n = position + 1 - first;
    double *score = malloc(n * sizeof *score), max = -INFINITY, off = 0;
    const struct rounding rounding = find_rounding(world);
    double scale = 1 / sqrt((double)shape->key_size), cap = (double)shape->softcap;
    struct query query;
    read_query(numbers, shape->key_size, &query);
    for (uint64_t j = 0; j < n; j++) {
        const float *key = keys + (first + j) * key_width + kv_head * shape->key_size;
        struct score product = multiply_key(&query, key, shape->key_size);
        double s = product.sum * scale;
        off = fmax(off, scale * (product.sizes * (rounding.query + (shape->key_size + 2) * 0x1p-23) +
                                 product.groups * rounding.group));
        score[j] = cap > 0 ? cap * tanh(s / cap) : s;
        max = fmax(max, score[j]);
    }
    double sink = world->sinks ? (double)world->sinks[h] : -INFINITY,
           sum = sink > -INFINITY ? exp(sink - max) : 0;
    off += cap * 0x1p-21;
    for (uint64_t j = 0; j < n; j++)
        sum += score[j] = exp(score[j] - max);
    double relative = 2 * (expm1(off) + rounding.weight + (double)(n + 16) * 0x1p-23);
    memset(out, 0, shape->value_size * sizeof *out);
    memset(bound, 0, shape->value_size * sizeof *bound);
    for (uint64_t j = 0; j < n; j++)
        add_value(v + (first + j) * value_width + value_head, score[j], shape->value_size, out, bound);
    for (uint32_t c = 0; c < shape->value_size; c++) {
        out[c] /= sum;
        bound[c] = relative * bound[c] / sum + 0x1p-140;
    }
    free(score);
}

/* Keys and values are those of the sequence, as world_read gives them. An assertion for each number, which
 * check writes to a file, would take longer than a small shape. */
static void check(const struct world *world, const struct request *request, const float *keys,
                  const float *values)
{
    const struct shape *shape = world->shape;
    const struct kt_attention_item *item = &request->item;
    double expected[MOST_NUMBERS], bound[MOST_NUMBERS];
    for (uint32_t t = 0; t < item->n_tokens; t += t + 40 < item->n_tokens ? 37 : 1)
        for (uint32_t h = 0; h<shape->n_heads; h += shape->n_heads> 20 ? 7 : 1) {
            uint64_t at = (uint64_t)t * shape->n_heads + h;
            define(world, request->queries + at * shape->key_size, h, item->position + t, item->first_key,
                   keys, values, expected, bound);
            for (uint32_t c = 0; c < shape->value_size; c++) {
                double got = (double)request->output[at * shape->value_size + c];
                if (fabs(got - expected[c]) <= bound[c])
                    continue;
                ck_abort_msg(
                    "level %s, position %llu, head %u, number %u: %.9g, float64 gives %.9g, bound %.3g",
                    world->info.level, (unsigned long long)item->position + t, h, c, got, expected[c],
                    bound[c]);
            }
        }
}

/* ---- tests ---- */

/* KT_TEST_QUICK leaves two of three cases out, other ones at each level. */
static bool is_left_out(int i)
{
    return getenv("KT_TEST_QUICK") && i % 3 != 0;
}

#define SEQUENCE 2700

/* One batch with decodes at the ends of blocks, pages, chunks and spans, prompts across them, and queries
 * that see no keys before a page, a chunk or a span. */
static const struct {
    uint64_t position;
    uint32_t n_tokens, first_key;
} pieces[] = {{0, 1, 0},       {15, 1, 0},     {63, 2, 0},   {255, 1, 0},   {256, 1, 0},
              {2047, 2, 0},    {2690, 1, 0},   {100, 70, 0}, {240, 0, 0},   {128, 1, 128},
              {2400, 1, 2048}, {2600, 3, 192}, {70, 60, 64}, {500, 20, 448}};

START_TEST(every_shape)
{
    if (is_left_out(_i % WORLD_SHAPES + _i / WORLD_SHAPES) || sandbox_skips(levels[_i / WORLD_SHAPES]))
        return;
    struct world world;
    const struct shape *shape = &shapes[_i % WORLD_SHAPES];
    if (world_open(&world, shape, levels[_i / WORLD_SHAPES], 2, 0)) {
        struct kt_kv_sequence *sequence = world_fill(&world, SEQUENCE, (uint64_t)_i);
        struct request request[COUNT(pieces)];
        for (size_t i = 0; i < COUNT(pieces); i++)
            request[i] = world_ask(&world, sequence, pieces[i].position, pieces[i].n_tokens);
        for (size_t i = 0; i < COUNT(pieces); i++)
            request[i].item.first_key = pieces[i].first_key;
        world_run(&world, request, COUNT(pieces));
        float *keys = world_read(&world, sequence, 0, SEQUENCE);
        float *values = shape->latent ? NULL : world_read(&world, sequence, 1, SEQUENCE);
        for (size_t i = 0; i < COUNT(pieces); i++) {
            check(&world, &request[i], keys, values);
            world_free_request(&request[i]);
        }
        free(keys);
        free(values);
        kt_kv_sequence_close(sequence);
    }
    world_close(&world);
}
END_TEST

/* In the middle of a chunk stands a key whose score is so large that its value is all that is left: what was
 * weighed before it must not have spoilt that. */
START_TEST(late_maximum)
{
    if (is_left_out(_i % WORLD_SHAPES + _i / WORLD_SHAPES) || sandbox_skips(levels[_i / WORLD_SHAPES]))
        return;
    enum { LARGE = 2100, POSITION = 2100, TOKENS = 3 };
    struct world world;
    const struct shape *shape = &shapes[_i % WORLD_SHAPES];
    bool sees = (!shape->window || shape->window > TOKENS) && shape->softcap <= 0;
    if (world_open(&world, shape, levels[_i / WORLD_SHAPES], 1, 0) && sees) {
        struct kt_kv_sequence *sequence = world_fill(&world, SEQUENCE, (uint64_t)_i);
        struct request request = world_ask(&world, sequence, POSITION, TOKENS);
        struct kt_kv_rows rows = KT_KV_ROWS_INIT;
        float key[1024] = {1000};
        rows.n_heads = 1;
        rows.n_rows = 1;
        rows.row = LARGE;
        rows.dtype = KT_DTYPE_F32;
        for (rows.head = 0; rows.head < shape->kv_heads; rows.head++)
            ck_ok(kt_kv_sequence_write(sequence, &rows, key, &ck_error));
        for (uint64_t i = 0; i < (uint64_t)TOKENS * shape->n_heads * shape->key_size; i++)
            request.queries[i] = i % shape->key_size == 0 ? 16 : 0;
        world_run(&world, &request, 1);
        float *values = world_read(&world, sequence, shape->latent ? 0 : 1, SEQUENCE);
        uint32_t width = shape->latent ? shape->key_size : shape->value_size;
        for (uint32_t i = 0; i < TOKENS * shape->n_heads * shape->value_size; i++) {
            uint32_t head = i / shape->value_size % shape->n_heads / (shape->n_heads / shape->kv_heads);
            double want =
                (double)values[((uint64_t)LARGE * shape->kv_heads + head) * width + i % shape->value_size];
            ck_assert_msg(fabs((double)request.output[i] - want) <= fabs(want) * 0x1p-8 + 0x1p-20,
                          "level %s, number %u: %.9g instead of %.9g", world.info.level, i,
                          (double)request.output[i], want);
        }
        free(values);
        world_free_request(&request);
        kt_kv_sequence_close(sequence);
    }
    world_close(&world);
}
END_TEST

/* ---- bits ---- */

/* Outputs of tokens position .. position + n - 1, in calls of `step` tokens, alone or beside a prompt. */
static float *run_steps(const struct world *world, const struct kt_kv_sequence *sequence, uint64_t position,
                        uint32_t n, uint32_t step, bool beside)
{
    char *all = malloc(world_output_size(world, n));
    for (uint32_t t = 0; t < n; t += step) {
        uint32_t tokens = n - t < step ? n - t : step, requests = beside ? 2 : 1;
        struct request request[2] = {world_ask(world, sequence, position + t, tokens)};
        if (beside)
            request[1] = world_ask(world, sequence, 7, 90);
        world_run(world, request, requests);
        memcpy(all + world_output_size(world, t), request[0].output, world_output_size(world, tokens));
        for (uint32_t i = 0; i < requests; i++)
            world_free_request(&request[i]);
    }
    return (float *)(void *)all;
}

/* Sets all tunables to an end of their ranges. */
static void tune(const struct world *world, bool most)
{
    struct kt_tunable_info info;
    for (uint32_t i = 0; kt_attention_tunable(world->attention, i, &info, NULL) == KT_OK; i++)
        ck_ok(kt_attention_tune(world->attention, info.name, most ? info.maximum : info.minimum, &ck_error));
}

/* Tokens of a prompt, of slices of it and of decodes, on one thread and many, on several nodes; across the
 * end of a chunk, the first one or the third of the second span. */
START_TEST(same_bits)
{
    if (is_left_out(_i))
        return;
    enum { STANDARD, LEAST, MOST };
    static const struct {
        int threads, nodes;
        uint32_t step;
        bool beside;
        int tuned;
    } ways[] = {{1, 0, 20, false, STANDARD}, {1, 0, 1, false, STANDARD}, {3, 0, 7, true, STANDARD},
                {2, 2, 20, false, STANDARD}, {3, 3, 3, true, STANDARD},  {5, 0, 1, false, STANDARD},
                {2, 0, 20, true, LEAST},     {1, 0, 7, false, LEAST},    {2, 0, 20, true, MOST}};
    const uint64_t position = _i % 2 ? 2550 : 250;
    const uint32_t n = 20;
    float *first = NULL;
    for (size_t w = 0; w < COUNT(ways); w++) {
        struct world world;
        ck_assert(world_open(&world, &shapes[_i], "auto", ways[w].threads, ways[w].nodes));
        struct kt_kv_sequence *sequence = world_fill(&world, SEQUENCE, 3);
        if (ways[w].tuned != STANDARD)
            tune(&world, ways[w].tuned == MOST);
        float *output = run_steps(&world, sequence, position, n, ways[w].step, ways[w].beside);
        if (first)
            ck_assert_msg(memcmp(first, output, world_output_size(&world, n)) == 0,
                          "%d threads, %d nodes, steps of %u, tuned %d differ", ways[w].threads,
                          ways[w].nodes, ways[w].step, ways[w].tuned);
        if (first)
            free(output);
        else
            first = output;
        kt_kv_sequence_close(sequence);
        world_close(&world);
    }
    free(first);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("attention");
    tcase_set_timeout(tests, 300);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, every_shape, 0, (int)(WORLD_SHAPES * COUNT(levels)));
    tcase_add_loop_test(tests, late_maximum, 0, (int)(WORLD_SHAPES * COUNT(levels)));
    if (world_has_plugin())
        tcase_add_loop_test(tests, same_bits, 0, WORLD_SHAPES);
    return run_tests("attention", tests);
}

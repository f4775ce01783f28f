/* SPDX-License-Identifier: Apache-2.0 */
/* attention_score.c - checks of scores, by which rows are selected: beside float64, a token alone and others.
 */
#include "tools/kt/plugin/attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS 3
#define MOST_HEADS 41
#define ROW (KT_SCORE_ROWS + KT_KV_BLOCK) /* numbers between the scores of tokens: some must stay */

struct scores {
    uint32_t n_heads, size;
    struct guarded queries, weights, scores;
};

static bool has_scores(const struct attention_case *item)
{
    const size_t size = offsetof(struct kt_attention_ops, score) + sizeof(item->ops->score);
    const struct kt_kv_field *field = &item->keys.place.field;
    return item->ops->struct_size >= size && item->ops->score && field->width % 2 == 0 &&
           (field->dtype == KT_DTYPE_F32 || field->dtype == KT_DTYPE_BF16);
}

static void draw(struct attention_case *item, struct guarded *memory)
{
    for (uint64_t i = 0; i < memory->size / sizeof(float); i++)
        ((float *)(void *)memory->data)[i] = (float)random_below(&item->random, 4001) / 1000 - 2;
    guard_seal(memory);
}

/* Scores of n tokens from `token` on for rows [begin, end). */
static void run(struct attention_case *item, const struct scores *s, uint32_t token, uint32_t n,
                uint64_t begin, uint64_t end, float *scores)
{
    struct kt_error error = {.message = ""};
    const int64_t width = (int64_t)(s->n_heads * s->size * sizeof(float));
    const struct kt_score job = {
        .scoring = KT_SCORING_RELU,
        .n_tokens = n,
        .n_heads = s->n_heads,
        .size = s->size,
        .queries = (const float *)(const void *)(s->queries.data + token * width),
        .weights = (const float *)(const void *)s->weights.data + (uint64_t)token * s->n_heads,
        .query_stride = width,
        .weight_stride = (int64_t)(s->n_heads * sizeof(float)),
        .keys = &item->keys.place,
        .pages = (const uint32_t *)(const void *)item->pages.data,
        .begin = begin,
        .end = end,
        .scores = scores,
        .score_stride = (int64_t)(ROW * sizeof(float)),
        .error = &error,
    };
    attention_enter(item, NULL, "score");
    plugin_host_forbid("score");
    item->ops->score(item->run->instance, &job);
    plugin_host_forbid(NULL);
    plugin_check_modes(item->run);
    error.message[sizeof(error.message) - 1] = '\0';
    if (error.message[0])
        plugin_fail(item->run, "it failed: %s", error.message);
}

/* The score of a row, and how far float32 may be off. */
static double define(const struct attention_case *item, const struct scores *s, uint32_t token, uint64_t row,
                     double *bound)
{
    const float *key = item->keys.numbers + row * s->size;
    const float *query =
        (const float *)(const void *)s->queries.data + (uint64_t)token * s->n_heads * s->size;
    const float *weights = (const float *)(const void *)s->weights.data + (uint64_t)token * s->n_heads;
    double score = 0;
    *bound = 0x1p-140;
    for (uint32_t h = 0; h < s->n_heads; h++, query += s->size) {
        double sum = 0, sizes = 0;
        for (uint32_t i = 0; i < s->size; i++) {
            sum += (double)query[i] * (double)key[i];
            sizes += fabs((double)query[i] * (double)key[i]);
        }
        score += (double)weights[h] * fmax(sum, 0);
        *bound += fabs((double)weights[h]) * sizes * (s->size + s->n_heads + 4) * 0x1p-23;
    }
    return score;
}

static void compare(struct attention_case *item, const struct scores *s, uint64_t begin, uint64_t end)
{
    const uint64_t blocks = (end - begin + KT_KV_BLOCK - 1) / KT_KV_BLOCK * KT_KV_BLOCK;
    const float *all = (const float *)(const void *)s->scores.data;
    static _Alignas(64) float alone[ROW];
    for (uint32_t t = 0; t < TOKENS && !plugin_failed(item->run); t++) {
        const float *scores = all + (uint64_t)t * ROW;
        for (uint64_t r = 0; r < end - begin && !plugin_failed(item->run); r += r < 40 ? 1 : 13) {
            double bound, expected = define(item, s, t, begin + r, &bound);
            if (!(fabs((double)scores[r] - expected) <= bound))
                plugin_fail(item->run, "token %u, row %llu of %u heads: %.9g, float64 gives %.9g, bound %.3g",
                            t, (unsigned long long)(begin + r), s->n_heads, (double)scores[r], expected,
                            bound);
        }
        for (uint64_t i = blocks * sizeof(float); i < ROW * sizeof(float); i++)
            if (((const uint8_t *)scores)[i] != 0x5a)
                plugin_fail(item->run, "it wrote behind the scores of token %u", t);
        run(item, s, t, 1, begin, end, alone);
        if (!plugin_failed(item->run) && memcmp(alone, scores, (end - begin) * sizeof(float)) != 0)
            plugin_fail(item->run, "token %u has other scores alone", t);
    }
}

void attention_scores(struct attention_case *item)
{
    static const uint64_t ranges[][2] = {{0, 1}, {0, KT_SCORE_ROWS}, {64, 64 + 17}, {512, ATTENTION_TOKENS}};
    struct scores s = {.n_heads = 1 + random_below(&item->random, MOST_HEADS),
                       .size = item->keys.place.field.width};
    if (!has_scores(item))
        return;
    check_guard("queries", (uint64_t)TOKENS * s.n_heads * s.size * sizeof(float), sizeof(float), true,
                &s.queries);
    check_guard("weights of heads", (uint64_t)TOKENS * s.n_heads * sizeof(float), sizeof(float), true,
                &s.weights);
    check_guard("scores", (uint64_t)TOKENS * ROW * sizeof(float), 64, true, &s.scores);
    draw(item, &s.queries);
    draw(item, &s.weights);
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]) && !plugin_failed(item->run); i++) {
        memset(s.scores.data, 0x5a, s.scores.size);
        run(item, &s, 0, TOKENS, ranges[i][0], ranges[i][1], (float *)(void *)s.scores.data);
        if (!plugin_failed(item->run) && !guard_intact(&s.scores))
            plugin_fail(item->run, "it wrote around the scores");
        compare(item, &s, ranges[i][0], ranges[i][1]);
    }
    guard_free(&s.queries);
    guard_free(&s.weights);
    guard_free(&s.scores);
}

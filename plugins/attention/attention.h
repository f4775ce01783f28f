/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.h - what the levels of this plugin share.
 *
 * Partial     a query's result for some keys, struct partial: the largest score, the sum of weights, and from
 *             PARTIAL_OUTPUT on value_size float32, filled up to whole lines of 16.
 * Weight      of a key: exp(score - largest score). Of keys that a query does not see it is 0.
 */
#ifndef KT_PLUGINS_ATTENTION_H
#define KT_PLUGINS_ATTENTION_H

#include <kt/plugin_attention.h>
#include <kt/plugin_rows.h>

#define BACKEND "attention"
#define CHUNK KT_ATTENTION_CHUNK
#define LINE 16 /* numbers of a line: keys of a block, columns of values that are multiplied at once */
#define PARTIAL_OUTPUT 64

struct partial {
    float max; /* -INFINITY: the query saw no key */
    float sum;
};

static inline uint64_t round_up(uint64_t n, uint64_t step)
{
    return (n + step - 1) / step * step;
}

static inline uint32_t divide_up(uint32_t n, uint32_t by)
{
    return (n + by - 1) / by;
}

static inline float *partial_output(void *partial)
{
    return (float *)(void *)((char *)partial + PARTIAL_OUTPUT);
}

/* What `kt tune` may set, by the order of a level's list; neither changes a bit of a result. */
enum { TUNED_QUERIES, TUNED_STRIPS };
#define TUNABLE_QUERIES                                                                               \
    {                                                                                                 \
        .name = "tile_queries", .what = "queries at once that share what is read of keys and values", \
        .minimum = 16, .maximum = 1024, .standard = 0, .flags = KT_TUNABLE_DOUBLING                   \
    }
#define TUNABLE_STRIPS(most)                                                                        \
    {                                                                                               \
        .name = "fetch_strips",                                                                     \
        .what = "strips of keys or values that are prefetched line by line in turns", .minimum = 1, \
        .maximum = (most), .standard = (most), .flags = KT_TUNABLE_DOUBLING                         \
    }

/* Which keys of a chunk a query sees: from first to below end, counted from the beginning of the chunk. */
struct visible {
    uint32_t first, end;
};

static inline struct visible find_visible(const struct kt_attend *job, uint32_t token)
{
    uint64_t start = job->begin / CHUNK * CHUNK, position = job->position + token;
    uint64_t window = job->layout->shape.window;
    uint64_t first = position >= window ? position - window + 1 : 0;
    uint64_t end = position + 1 < job->end ? position + 1 : job->end;
    first = first > job->begin ? first : job->begin;
    if (first >= end)
        return (struct visible){0, 0};
    return (struct visible){(uint32_t)(first - start), (uint32_t)(end - start)};
}

/* Where a head's rows of a page lie. */
static inline const uint8_t *find_page(const struct kt_kv_place *place, const uint32_t *pages, uint64_t token)
{
    return (const uint8_t *)place->base + pages[token / KT_KV_PAGE] * place->page_stride;
}

/* What all levels refuse, and what does not depend on them; the level sets its queries (attention_tile) and
 * adds its scratch_size. */
enum kt_status attention_check(struct kt_attention_layout *layout, struct kt_error *error);

/* Queries of an attend: what `kt tune` found, `tuned`, or the level's. */
static inline void attention_tile(struct kt_attention_layout *layout, uint64_t tuned, uint32_t standard)
{
    layout->max_queries = tuned ? (uint32_t)tuned : standard;
    layout->tuned[TUNED_QUERIES] = layout->max_queries;
}

/* In kernel_LEVEL.c. */
extern const struct kt_attention_ops attention_ops_scalar;
extern const struct kt_attention_ops attention_ops_avx2;
extern const struct kt_attention_ops attention_ops_avx512;
extern const struct kt_attention_ops attention_ops_avx512_bf16;
extern const struct kt_attention_ops attention_ops_amx;
extern const struct kt_attention_ops attention_ops_arm_bf16;
extern const struct kt_attention_ops attention_ops_neon;
extern const struct kt_rows_ops attention_rows_scalar;
extern const struct kt_rows_ops attention_rows_avx2;
extern const struct kt_rows_ops attention_rows_avx512;
extern const struct kt_rows_ops attention_rows_avx512_bf16;
extern const struct kt_rows_ops attention_rows_amx;
extern const struct kt_rows_ops attention_rows_arm_bf16;
extern const struct kt_rows_ops attention_rows_neon;

#endif

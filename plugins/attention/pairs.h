/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention/pairs.h - a thread's work on products of pairs of bfloat16. Parameters: those of simd/simd.h,
 * with AVX-512.
 */
#ifndef KT_PLUGINS_ATTENTION_PAIRS_H
#define KT_PLUGINS_ATTENTION_PAIRS_H

#include "plugins/attention/pairs_weights.h"
#include "plugins/attention/tiles.h"

#define GROUPS 2
#define MOST (GROUPS * LINE) /* queries at a time */

/* How results of 16 queries are added up: the first times own, the second times other. A lane of only_first
 * or only_second is one result to the bit, as the other one saw no key. */
struct join {
    vf own, other;
    __mmask16 only_first, only_second;
};

/* A thread's work on one job; the arrays stand in its scratch in this order. */
struct pairs {
    const struct kt_attend *job; /* of one chunk */
    uint32_t n;                  /* queries */
    uint32_t steps;              /* of a key */
    uint64_t start;              /* first token of the chunk */
    bool add;                    /* there are results of chunks before it */
    float *logs;                 /* [MOST], see struct strip */
    float *sums;                 /* [MOST][LINE] */
    float *scores[2]; /* [MOST][STEP] of the strip that is multiplied, and of the one that is weighed */
    uint8_t *weights; /* [MOST] rows of weights */
    uint8_t *block;   /* four tiles of sums: outputs that go elsewhere from here */
    uint8_t *queries; /* [n / MOST][GROUPS][steps] tiles */
    uint8_t *turned;  /* latents: [GROUPS][STEPS] tiles of turned weights */
    uint8_t *values;  /* latents: [STEPS][value_size / 16] tiles of turned keys */
    uint8_t *wide_keys, *wide_values; /* the chunk's, widened; NULL: as the cache has them */
    float *query_scales; /* [n / MOST][steps][MOST] of queries for keys in codes; NULL: keys are pairs */
    float *floats;       /* [MOST] rows of weights in float32 for values in codes; NULL: values are pairs */
    struct row rows[MOST];
    struct join join[GROUPS]; /* with add */
    struct fetcher fetcher;
};

/* Some of a job's queries. */
struct some {
    uint32_t first, n;
    uint32_t begin, end;       /* keys of the chunk that one of them sees, in whole strips */
    uint32_t inner, inner_end; /* keys that all of them see */
};

/* Bytes of a block of keys, and of a line of values. */
static uint64_t block_bytes(const struct pairs *work)
{
    return (uint64_t)work->steps * (work->query_scales ? TILE / 2 : TILE);
}

static uint64_t line_bytes(const struct pairs *work)
{
    const struct kt_attend *job = work->job;
    return 4 * (work->wide_values ? job->layout->shape.value_size : job->values->field.width);
}

static const uint8_t *find_keys(const struct pairs *work, uint64_t token)
{
    if (work->wide_keys)
        return work->wide_keys + (token - work->start) / LINE * block_bytes(work);
    return find_page(work->job->keys, work->job->pages, token) +
           token % KT_KV_PAGE / LINE * block_bytes(work);
}

static const uint8_t *find_values(const struct pairs *work, uint64_t token)
{
    if (work->wide_values)
        return work->wide_values + (token - work->start) / 2 * line_bytes(work);
    return find_page(work->job->values, work->job->pages, token) +
           token % KT_KV_PAGE / (work->floats ? 4 : 2) * line_bytes(work);
}

#endif

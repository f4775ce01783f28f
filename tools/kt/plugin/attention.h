/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.h - a case of attention for kt plugin check: a shape, a sequence of a cache, and tiles of
 * queries.
 */
#ifndef KT_TOOL_PLUGIN_ATTENTION_H
#define KT_TOOL_PLUGIN_ATTENTION_H

#include "tools/kt/plugin/plugin.h"

/* Tokens of the sequence: two whole chunks and a part of a third one, whose last page has some rows left. */
#define ATTENTION_TOKENS 587

/* Rows of one head of the cache, in guarded memory that can only be read. */
struct attention_rows {
    struct kt_kv_place place;
    struct guarded memory;
    float *numbers; /* [ATTENTION_TOKENS][width], as the cache keeps them */
};

struct attention_case {
    struct plugin_run *run;
    const struct kt_attention_ops *ops;
    struct kt_attention_layout layout;
    uint64_t random;
    uint32_t query_dtype, output_dtype;
    float *sinks; /* [n_heads] or NULL */
    struct attention_rows keys, values;
    struct guarded pages; /* the page table */
    char text[160];       /* "8 heads, keys 128 bf16, values 128 bf16, window 300" */
};

/* Queries of one attend, what is computed for them, and memory of a thread. */
struct attention_tile {
    uint64_t position;
    uint32_t n_tokens, n_heads;
    int64_t query_stride, output_stride;
    float *numbers; /* [n_tokens][n_heads][key_size], as the queries have them */
    struct guarded queries, partial[2], scratch, output;
};

/* ---- attention_cache.c ---- */

/* Makes the sequence of a case: pages in a random order, with NaN wherever no kernel may look. */
void attention_cache_create(struct attention_case *item);
void attention_cache_free(struct attention_case *item);

/* ---- attention_tile.c ---- */

/* Random queries of tokens position ... of the sequence; some have no number but one, or none. */
void attention_tile_create(struct attention_case *item, uint64_t position, uint32_t n_tokens,
                           uint32_t n_heads, struct attention_tile *tile);
/* Query `query` of `whole`, alone: with the same bits. */
void attention_tile_single(struct attention_case *item, const struct attention_tile *whole, uint32_t query,
                           struct attention_tile *tile);
/* The same queries in other memory. */
void attention_tile_copy(struct attention_case *item, const struct attention_tile *whole,
                         struct attention_tile *tile);
void attention_tile_free(struct attention_tile *tile);
/* Replaces number i of a query. */
void attention_tile_set(struct attention_case *item, struct attention_tile *tile, uint32_t query, uint32_t i,
                        float value);

/* Notes what runs now. */
void attention_enter(struct attention_case *item, const struct attention_tile *tile, const char *function);
/* The keys that a tile is to see, as the core cuts them: from the page of the first one on. */
uint64_t attention_first_key(const struct attention_case *item, const struct attention_tile *tile);

/* The jobs of a tile. */
struct kt_attend attention_attend_job(const struct attention_case *item, const struct attention_tile *tile,
                                      uint64_t begin, uint64_t end, int which, struct kt_error *error);
struct kt_attention_merge attention_merge_job(const struct attention_case *item,
                                              const struct attention_tile *tile);
struct kt_attention_finish attention_finish_job(const struct attention_case *item,
                                                const struct attention_tile *tile);
/* One call of each function, with the memory around everything checked. `which` partial results are written.
 */
void attention_attend(struct attention_case *item, struct attention_tile *tile, uint64_t begin, uint64_t end,
                      int which);
/* With struct kt_attend.add, to the first partial results. */
void attention_add(struct attention_case *item, struct attention_tile *tile, uint64_t begin, uint64_t end);
void attention_merge(struct attention_case *item, struct attention_tile *tile);
void attention_finish(struct attention_case *item, struct attention_tile *tile);
/* All keys from `begin` on, at most `step` of them in an attend, and the outputs. */
void attention_run(struct attention_case *item, struct attention_tile *tile, uint64_t begin, uint64_t step);
/* Number i of the output of a query. */
float attention_output(const struct attention_case *item, const struct attention_tile *tile, uint32_t query,
                       uint32_t i);

/* ---- attention_score.c ---- */

/* Scores of random queries for the case's keys, if the level has scores and the keys are of a kind for them.
 */
void attention_scores(struct attention_case *item);

/* ---- attention_model.c ---- */

/* Compares outputs with float64. */
void attention_compare(struct attention_case *item, const struct attention_tile *tile);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cut.h - how the queries of an item are cut into pieces of work.
 *
 * A tile is some heads of some tokens, as many queries as a plugin multiplies at once. Its keys are cut into
 * chunks of KT_ATTENTION_CHUNK tokens, and spans of KT_ATTENTION_SPAN chunks, both at multiples of their
 * size. Results of chunks are added up within a span in their order, and those of spans in theirs: whichever
 * of them threads share, the sums are the same.
 */
#ifndef KT_CORE_ATTENTION_CUT_H
#define KT_CORE_ATTENTION_CUT_H

#include <kt/attention.h>
#include <kt/plugin_attention.h>
#include <stdbool.h>

#define KT_ATTENTION_SPAN 8

/* What one task computes of a tile's keys: a chunk, a span, or all. */
enum kt_attention_part { KT_PART_CHUNK = 1, KT_PART_SPAN = KT_ATTENTION_SPAN, KT_PART_ALL = 0 };

/* An item of a forward, of one head of keys. */
struct kt_attention_cut {
    uint64_t position;
    uint64_t window, first_key;
    const uint32_t *n_rows; /* selections of the tokens, which then have tiles of their own; NULL: there are
                               none */
    uint32_t n_tokens, n_heads;
    uint32_t tile_tokens, tile_heads;
    uint32_t n_tiles;
    uint32_t n_parts; /* of a tile, at most */
};

/* A tile, and the chunks that hold what it sees; of a selection, keys count its rows. */
struct kt_attention_tile {
    uint32_t token, n_tokens;
    uint32_t head, n_heads;
    uint64_t first_key, end_key; /* first_key is the beginning of a page */
    uint64_t chunk, end_chunk;
};

/* `singly`: each token has tiles of its own. */
void kt_attention_cut_make(const struct kt_attention_shape *shape, uint32_t max_queries,
                           const struct kt_attention_item *item, bool singly, struct kt_attention_cut *cut);

void kt_attention_cut_tile(const struct kt_attention_cut *cut, uint32_t tile, struct kt_attention_tile *out);

/* Parts of a tile: part p stands for chunks (first / part + p) * part to below (first / part + p + 1) * part,
 * as far as the tile has them. */
uint32_t kt_attention_tile_parts(const struct kt_attention_tile *tile, enum kt_attention_part part);

/* Sets n_parts. */
void kt_attention_cut_parts(struct kt_attention_cut *cut, enum kt_attention_part part);

#endif

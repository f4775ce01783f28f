/* SPDX-License-Identifier: Apache-2.0 */
#include "core/attention/cut.h"

static uint32_t divide_up(uint32_t a, uint32_t b)
{
    return a / b + (a % b != 0);
}

void kt_attention_cut_make(const struct kt_attention_shape *shape, uint32_t max_queries,
                           const struct kt_attention_item *item, bool singly, struct kt_attention_cut *cut)
{
    uint32_t heads = shape->n_heads < max_queries ? shape->n_heads : max_queries;
    *cut = (struct kt_attention_cut){
        .position = item->position,
        .window = shape->window,
        .first_key = item->first_key,
        .n_tokens = item->n_tokens,
        .n_heads = shape->n_heads,
        .tile_heads = divide_up(shape->n_heads, divide_up(shape->n_heads, heads)),
    };
    cut->tile_tokens = singly ? 1 : max_queries / cut->tile_heads;
    cut->n_tiles = divide_up(item->n_tokens, cut->tile_tokens) * divide_up(cut->n_heads, cut->tile_heads);
}

void kt_attention_cut_tile(const struct kt_attention_cut *cut, uint32_t tile, struct kt_attention_tile *out)
{
    uint32_t groups = divide_up(cut->n_heads, cut->tile_heads);
    uint32_t token = tile / groups * cut->tile_tokens, head = tile % groups * cut->tile_heads;
    uint32_t tokens = cut->n_tokens - token, heads = cut->n_heads - head;
    uint64_t position = cut->position + token;
    tokens = tokens < cut->tile_tokens ? tokens : cut->tile_tokens;
    heads = heads < cut->tile_heads ? heads : cut->tile_heads;
    uint64_t first = position >= cut->window ? position - cut->window + 1 : 0;
    uint64_t end = position + tokens;
    first = first > cut->first_key ? first : cut->first_key;
    if (cut->n_rows && cut->n_rows[token] != KT_SELECTION_ALL)
        end = cut->n_rows[token];
    *out = (struct kt_attention_tile){
        .token = token,
        .n_tokens = tokens,
        .head = head,
        .n_heads = heads,
        .first_key = first / KT_KV_PAGE * KT_KV_PAGE,
        .end_key = end,
        .chunk = first / KT_ATTENTION_CHUNK,
        .end_chunk = (end - 1) / KT_ATTENTION_CHUNK + 1,
    };
}

uint32_t kt_attention_tile_parts(const struct kt_attention_tile *tile, enum kt_attention_part part)
{
    if (part == KT_PART_ALL)
        return 1;
    return (uint32_t)((tile->end_chunk - 1) / part - tile->chunk / part + 1);
}

void kt_attention_cut_parts(struct kt_attention_cut *cut, enum kt_attention_part part)
{
    cut->n_parts = cut->n_tiles > 0;
    for (uint32_t t = 0; part != KT_PART_ALL && t < cut->n_tiles; t++) {
        struct kt_attention_tile tile;
        kt_attention_cut_tile(cut, t, &tile);
        uint32_t parts = kt_attention_tile_parts(&tile, part);
        cut->n_parts = parts > cut->n_parts ? parts : cut->n_parts;
    }
}

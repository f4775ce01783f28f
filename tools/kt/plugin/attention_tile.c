/* SPDX-License-Identifier: Apache-2.0 */
/* attention_tile.c - queries of one attend, and calls of a plugin's functions with guarded memory. */
#include "tools/kt/plugin/attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t count(const struct attention_tile *tile)
{
    return tile->n_tokens * tile->n_heads;
}

/* ---- memory ---- */

static uint8_t *query_at(const struct attention_case *item, const struct attention_tile *tile, uint32_t query,
                         uint32_t i)
{
    uint64_t at = (uint64_t)(query % tile->n_heads) * item->layout.shape.key_size + i;
    return tile->queries.data + (int64_t)(query / tile->n_heads) * tile->query_stride +
           at * number_size(item->query_dtype);
}

static void allocate(struct attention_case *item, struct attention_tile *tile)
{
    const struct kt_attention_layout *layout = &item->layout;
    bool at_end = random_below(&item->random, 4) > 0;
    uint64_t query = (uint64_t)tile->n_heads * layout->shape.key_size * number_size(item->query_dtype);
    uint64_t output = (uint64_t)tile->n_heads * layout->shape.value_size * number_size(item->output_dtype);
    if (!tile->query_stride) {
        tile->query_stride =
            (int64_t)(query + random_below(&item->random, 3) * number_size(item->query_dtype));
        tile->output_stride =
            (int64_t)(output + random_below(&item->random, 3) * number_size(item->output_dtype));
    }
    tile->numbers = check_need(calloc((size_t)count(tile) * layout->shape.key_size, sizeof(float)));
    check_guard("queries", (uint64_t)(tile->n_tokens - 1) * (uint64_t)tile->query_stride + query,
                number_size(item->query_dtype), at_end, &tile->queries);
    check_guard("outputs", (uint64_t)(tile->n_tokens - 1) * (uint64_t)tile->output_stride + output,
                number_size(item->output_dtype), at_end, &tile->output);
    for (int i = 0; i < 2; i++)
        check_guard("partial results", count(tile) * layout->partial_stride, 64, at_end, &tile->partial[i]);
    check_guard("scratch", layout->scratch_size, 64, at_end, &tile->scratch);
}

void attention_tile_set(struct attention_case *item, struct attention_tile *tile, uint32_t query, uint32_t i,
                        float value)
{
    uint8_t *to = query_at(item, tile, query, i);
    guard_unseal(&tile->queries);
    write_number(to, item->query_dtype, value);
    tile->numbers[(uint64_t)query * item->layout.shape.key_size + i] = read_number(to, item->query_dtype);
    guard_seal(&tile->queries);
}

/* Of each five queries one is 0, so that its output is the mean of what it sees; two have one number, the
 * last one or any. There nothing is lost in sums, and a key or a number that is left out stands alone. */
void attention_tile_create(struct attention_case *item, uint64_t position, uint32_t n_tokens,
                           uint32_t n_heads, struct attention_tile *tile)
{
    uint32_t size = item->layout.shape.key_size;
    *tile = (struct attention_tile){.position = position, .n_tokens = n_tokens, .n_heads = n_heads};
    allocate(item, tile);
    memset(tile->queries.data, 0, tile->queries.size);
    for (uint32_t q = 0; q < count(tile); q++) {
        uint32_t only = q % 5 == 1 ? size - 1 : random_below(&item->random, size);
        for (uint32_t i = 0; i < size; i++) {
            float value = (float)((double)(random_next(&item->random) >> 40) * 0x1p-22 - 2);
            if (q % 5 == 0 || (q % 5 < 3 && i != only))
                value = 0;
            write_number(query_at(item, tile, q, i), item->query_dtype, q % 5 < 3 ? 4 * value : value);
            tile->numbers[(uint64_t)q * size + i] =
                read_number(query_at(item, tile, q, i), item->query_dtype);
        }
    }
    guard_seal(&tile->queries);
}

void attention_tile_single(struct attention_case *item, const struct attention_tile *whole, uint32_t query,
                           struct attention_tile *tile)
{
    uint32_t size = item->layout.shape.key_size;
    *tile = (struct attention_tile){.position = whole->position + query / whole->n_heads,
                                    .n_tokens = 1,
                                    .n_heads = 1};
    allocate(item, tile);
    memcpy(tile->queries.data, query_at(item, whole, query, 0), size * number_size(item->query_dtype));
    memcpy(tile->numbers, whole->numbers + (uint64_t)query * size, size * sizeof(float));
    guard_seal(&tile->queries);
}

void attention_tile_copy(struct attention_case *item, const struct attention_tile *whole,
                         struct attention_tile *tile)
{
    *tile = *whole;
    allocate(item, tile);
    memcpy(tile->queries.data, whole->queries.data, whole->queries.size);
    memcpy(tile->numbers, whole->numbers, (size_t)count(tile) * item->layout.shape.key_size * sizeof(float));
    guard_seal(&tile->queries);
}

void attention_tile_free(struct attention_tile *tile)
{
    free(tile->numbers);
    guard_free(&tile->queries);
    guard_free(&tile->partial[0]);
    guard_free(&tile->partial[1]);
    guard_free(&tile->scratch);
    guard_free(&tile->output);
}

/* ---- calls ---- */

void attention_enter(struct attention_case *item, const struct attention_tile *tile, const char *function)
{
    plugin_check_modes(item->run);
    plugin_host_forbid(tile ? function : NULL);
    if (tile)
        plugin_where(item->run, "%s, level %s%s, %s, %u x %u queries at %llu, --seed %llu", function,
                     item->run->level->name, item->run->of, item->text, tile->n_tokens, tile->n_heads,
                     (unsigned long long)tile->position, (unsigned long long)item->run->seed);
    else
        plugin_where(item->run, "%s, level %s%s, %s, --seed %llu", function, item->run->level->name,
                     item->run->of, item->text, (unsigned long long)item->run->seed);
}

uint64_t attention_first_key(const struct attention_case *item, const struct attention_tile *tile)
{
    uint64_t window = item->layout.shape.window;
    uint64_t first = tile->position >= window ? tile->position - window + 1 : 0;
    return first / KT_KV_PAGE * KT_KV_PAGE;
}

static void check_memory(struct attention_case *item, const struct attention_tile *tile)
{
    const struct guarded *all[] = {&tile->partial[0], &tile->partial[1], &tile->scratch, &tile->output};
    static const char *const names[] = {"partial results", "partial results", "scratch", "outputs"};
    plugin_check_modes(item->run);
    plugin_host_forbid(NULL);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (!guard_intact(all[i]))
            plugin_fail(item->run, "it wrote beyond its %s", names[i]);
}

struct kt_attend attention_attend_job(const struct attention_case *item, const struct attention_tile *tile,
                                      uint64_t begin, uint64_t end, int which, struct kt_error *error)
{
    const struct kt_kv_place *keys = &item->keys.place;
    uint64_t last = tile->position + tile->n_tokens;
    return (struct kt_attend){
        .layout = &item->layout,
        .queries = tile->queries.data,
        .query_stride = tile->query_stride,
        .query_dtype = item->query_dtype,
        .n_tokens = tile->n_tokens,
        .n_heads = tile->n_heads,
        .position = tile->position,
        .keys = keys,
        .values = item->layout.shape.latent ? keys : &item->values.place,
        .pages = (const uint32_t *)(const void *)item->pages.data,
        .begin = begin,
        .end = end,
        .next = last > end ? last : end,
        .partial = tile->partial[which].data,
        .scratch = tile->scratch.data,
        .error = error,
    };
}

struct kt_attention_merge attention_merge_job(const struct attention_case *item,
                                              const struct attention_tile *tile)
{
    return (struct kt_attention_merge){
        .layout = &item->layout,
        .n_queries = count(tile),
        .first = tile->partial[0].data,
        .second = tile->partial[1].data,
    };
}

struct kt_attention_finish attention_finish_job(const struct attention_case *item,
                                                const struct attention_tile *tile)
{
    return (struct kt_attention_finish){
        .layout = &item->layout,
        .n_tokens = tile->n_tokens,
        .n_heads = tile->n_heads,
        .partial = tile->partial[0].data,
        .sinks = item->sinks,
        .output = tile->output.data,
        .output_stride = tile->output_stride,
        .output_dtype = item->output_dtype,
    };
}

/* Nothing in memory that it writes may be relied on: read as numbers it is NaN. */
static void attend(struct attention_case *item, struct attention_tile *tile, const struct kt_attend *job)
{
    memset(tile->scratch.data, 0xff, tile->scratch.size);
    attention_enter(item, tile, "attend");
    item->ops->attend(item->run->instance, job);
    check_memory(item, tile);
    job->error->message[sizeof(job->error->message) - 1] = '\0';
    if (job->error->message[0])
        plugin_fail(item->run, "it failed: %s", job->error->message);
}

void attention_attend(struct attention_case *item, struct attention_tile *tile, uint64_t begin, uint64_t end,
                      int which)
{
    struct kt_error error = {.message = ""};
    const struct kt_attend job = attention_attend_job(item, tile, begin, end, which, &error);
    memset(tile->partial[which].data, 0xff, tile->partial[which].size);
    attend(item, tile, &job);
}

void attention_add(struct attention_case *item, struct attention_tile *tile, uint64_t begin, uint64_t end)
{
    struct kt_error error = {.message = ""};
    struct kt_attend job = attention_attend_job(item, tile, begin, end, 0, &error);
    job.add = 1;
    attend(item, tile, &job);
}

void attention_merge(struct attention_case *item, struct attention_tile *tile)
{
    const struct kt_attention_merge job = attention_merge_job(item, tile);
    attention_enter(item, tile, "merge");
    guard_seal(&tile->partial[1]);
    item->ops->merge(item->run->instance, &job);
    guard_unseal(&tile->partial[1]);
    check_memory(item, tile);
}

void attention_finish(struct attention_case *item, struct attention_tile *tile)
{
    const struct kt_attention_finish job = attention_finish_job(item, tile);
    uint64_t row = (uint64_t)tile->n_heads * item->layout.shape.value_size * number_size(item->output_dtype);
    memset(tile->output.data, 0x5a, tile->output.size);
    attention_enter(item, tile, "finish");
    guard_seal(&tile->partial[0]);
    item->ops->finish(item->run->instance, &job);
    guard_unseal(&tile->partial[0]);
    check_memory(item, tile);
    for (uint32_t t = 0; t + 1 < tile->n_tokens; t++)
        for (uint64_t i = row; i < (uint64_t)tile->output_stride; i++)
            if (tile->output.data[t * (uint64_t)tile->output_stride + i] != 0x5a)
                plugin_fail(item->run, "it wrote between the outputs of token %u and %u", t, t + 1);
}

void attention_run(struct attention_case *item, struct attention_tile *tile, uint64_t begin, uint64_t step)
{
    uint64_t last = tile->position + tile->n_tokens, first = begin;
    while (begin < last && !plugin_failed(item->run)) {
        uint64_t end = (begin / step + 1) * step;
        end = end < last ? end : last;
        attention_attend(item, tile, begin, end, begin != first);
        if (begin != first)
            attention_merge(item, tile);
        begin = end;
    }
    if (!plugin_failed(item->run))
        attention_finish(item, tile);
}

float attention_output(const struct attention_case *item, const struct attention_tile *tile, uint32_t query,
                       uint32_t i)
{
    uint64_t at = (uint64_t)(query % tile->n_heads) * item->layout.shape.value_size + i;
    return read_number(tile->output.data + (int64_t)(query / tile->n_heads) * tile->output_stride +
                           at * number_size(item->output_dtype),
                       item->output_dtype);
}

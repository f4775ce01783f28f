/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention/pairs_tmpl.h - attention whose products are of pairs of bfloat16: scaled queries and weights are
 * rounded to it. Shapes and caches that have no whole tiles of it take attention/attend_tmpl.h.
 *
 * 32 queries at a time, all of the chunk's keys: scores, weights in their place, outputs. Only these are in
 * L1; keys and values come from L2, where the first 32 queries have brought them.
 *
 * Parameters  TILES_H  the header with multiply_tiles(), MOST_ACROSS(groups), tiles of b that it takes, and
 *                      TILES_ROWS: it writes rows up to a multiple of that
 *             TILES_CODES  also in TILES_H: 1 if codes of Q8_0 are multiplied as they are, but of latents
 *             MOST_PAIR_QUERIES, MOST_LATENT_QUERIES  of an attend, where kt tune has found nothing else: in
 *                      general, and of latents
 * Wanted      THREAD_FUNCTIONS  thread_enter and thread_leave of struct kt_attention_ops, if there are any
 * and those of attention/attend_tmpl.h.
 */
#ifndef KT_PLUGINS_ATTENTION_PAIRS_TMPL_H
#define KT_PLUGINS_ATTENTION_PAIRS_TMPL_H

#ifndef TILES_H
#error "attention/pairs_tmpl.h: define TILES_H"
#endif
#ifndef MOST_PAIR_QUERIES
#error "attention/pairs_tmpl.h: define MOST_PAIR_QUERIES"
#endif
#ifndef MOST_LATENT_QUERIES
#error "attention/pairs_tmpl.h: define MOST_LATENT_QUERIES"
#endif

#include TILES_H
#include "plugins/attention/attend_tmpl.h"
#include "plugins/attention/pairs.h"
#include "plugins/attention/pairs_codes.h"
#include "plugins/attention/pairs_join.h"
#include "plugins/attention/pairs_latent.h"
#include "plugins/attention/pairs_widen.h"

enum { WORD_PAIRS }; /* of layout->words: 1 where products are of pairs */

/* What of a shape's rows are codes that are multiplied as they are, or are widened for each chunk. */
static bool has_codes(const struct kt_attention_shape *shape, uint32_t dtype)
{
    return TILES_CODES && dtype == KT_DTYPE_Q8_0 && !shape->latent;
}

static bool has_wide(const struct kt_attention_shape *shape, uint32_t dtype)
{
    return dtype == KT_DTYPE_Q8_0 && !has_codes(shape, dtype);
}

/* Bytes of a job's queries, and their scales. */
static uint64_t queries_size(const struct kt_attention_shape *shape, uint32_t n)
{
    return (uint64_t)divide_up(n, MOST) * GROUPS * (shape->key_size / STEP) * TILE;
}

static uint64_t query_scales_size(const struct kt_attention_shape *shape, uint32_t n)
{
    return (uint64_t)divide_up(n, MOST) * (shape->key_size / STEP) * MOST * sizeof(float);
}

static struct pairs begin_pairs(const struct kt_attend *job)
{
    const struct kt_attention_shape *shape = &job->layout->shape;
    struct pairs work = {
        .job = job,
        .n = job->n_tokens * job->n_heads,
        .add = job->add,
        .steps = shape->key_size / STEP,
        .logs = job->scratch,
    };
    work.sums = work.logs + MOST;
    work.scores[0] = work.sums + MOST * LINE;
    work.scores[1] = work.scores[0] + MOST * STEP;
    work.weights = (uint8_t *)(work.scores[1] + MOST * STEP);
    work.block = work.weights + MOST * WEIGHTS_ROW;
    work.queries = work.block + 4 * TILE;
    work.turned = work.queries + queries_size(shape, job->layout->max_queries);
    work.values = work.turned + GROUPS * STEPS * TILE;
    uint8_t *end =
        shape->latent ? work.values + (uint64_t)STEPS * (shape->value_size / LINE) * TILE : work.turned;
    if (has_wide(shape, shape->key.dtype)) {
        work.wide_keys = end;
        end += (uint64_t)CHUNK * shape->key_size * 2;
    }
    if (has_wide(shape, shape->value.dtype) && !shape->latent)
        work.wide_values = end;
    if (has_codes(shape, shape->key.dtype)) {
        work.query_scales = (float *)(void *)end;
        end += query_scales_size(shape, job->layout->max_queries);
    }
    if (has_codes(shape, shape->value.dtype))
        work.floats = (float *)(void *)end;
    return work;
}

static uint64_t pairs_size(const struct kt_attention_layout *layout)
{
    const struct kt_attention_shape *shape = &layout->shape;
    uint64_t size = sizeof(float) * MOST * (1 + LINE + 2 * STEP) + MOST * WEIGHTS_ROW + 4 * TILE +
                    queries_size(shape, layout->max_queries);
    size += shape->latent ? TILE * STEPS * (GROUPS + shape->value_size / LINE) : 0;
    size += has_wide(shape, shape->key.dtype) ? CHUNK * shape->key_size * 2 : 0;
    size += has_wide(shape, shape->value.dtype) && !shape->latent ? CHUNK * shape->value_size * 2 : 0;
    size += has_codes(shape, shape->key.dtype) ? query_scales_size(shape, layout->max_queries) : 0;
    return size + (has_codes(shape, shape->value.dtype) ? sizeof(float) * MOST * FLOATS_ROW : 0);
}

static void widen(const struct pairs *work)
{
    const struct kt_attend *job = work->job;
    const uint32_t columns = job->layout->shape.value_size;
    for (uint64_t token = job->begin; work->wide_keys && token < job->end; token += STEP) {
        const uint8_t *page = find_page(job->keys, job->pages, token);
        uint8_t *to = work->wide_keys + (token - work->start) / LINE * block_bytes(work);
        uint32_t block = (uint32_t)(token % KT_KV_PAGE / LINE);
        widen_keys(job->keys, page, block, to);
        widen_keys(job->keys, page, block + 1, to + block_bytes(work));
    }
    for (uint64_t token = job->begin; work->wide_values && token < job->end; token += STEP)
        widen_values(job->values, find_page(job->values, job->pages, token), (uint32_t)(token % KT_KV_PAGE),
                     columns, work->wide_values + (token - work->start) / 2 * line_bytes(work));
}

/* Where some queries are. */
static uint8_t *find_queries(const struct pairs *work, uint32_t first)
{
    return work->queries + (uint64_t)first / LINE * work->steps * TILE;
}

static float *find_query_scales(const struct pairs *work, uint32_t first)
{
    return work->query_scales ? work->query_scales + (uint64_t)first * work->steps : NULL;
}

/* n queries as tiles; rows behind the last, up to whole fours, are 0. */
static void load_queries(const struct pairs *work, uint32_t first, uint32_t n)
{
    const struct kt_attend *job = work->job;
    const uint32_t size = work->steps * STEP, element = job->query_dtype == KT_DTYPE_F32 ? 4 : 2;
    const vf scale = vf_set(job->layout->shape.scale);
    uint8_t *const tiles = find_queries(work, first);
    float *scales = find_query_scales(work, first);
    for (uint32_t r = n; r % 4 != 0; r++)
        for (uint32_t s = 0; s < work->steps; s++)
            memset(tiles + ((uint64_t)(r / LINE) * work->steps + s) * TILE + r % LINE * 64, 0, 64);
    uint32_t token = first / job->n_heads, head = first % job->n_heads;
    for (uint32_t r = 0; r < n; r++, head++) {
        if (head == job->n_heads) {
            head = 0;
            token++;
        }
        const uint8_t *from =
            (const uint8_t *)job->queries + token * job->query_stride + (uint64_t)head * size * element;
        uint8_t *to = tiles + ((uint64_t)r / LINE * work->steps * TILE) + r % LINE * 64;
        for (uint32_t s = 0; s < work->steps; s++, from += STEP * element, to += TILE) {
            vf low = vf_mul(load_query_part(from, job->query_dtype), scale);
            vf high = vf_mul(load_query_part(from + LINE * element, job->query_dtype), scale);
            if (scales)
                scales[s * MOST + r] = quantize_query(low, high, to);
            else
                _mm512_storeu_si512(to, (vi)_mm512_cvtne2ps_pbh(high, low));
        }
    }
}

/* ---- scores ---- */

/* Strips of so many bytes, none yet. */
static struct fetcher *start_fetcher(struct pairs *work, uint64_t bytes)
{
    work->fetcher = (struct fetcher){.lines = (uint32_t)(bytes / 64),
                                     .across = (uint32_t)work->job->layout->tuned[TUNED_STRIPS]};
    return &work->fetcher;
}

/* Pages of codes, with their scales, of tokens `token` to below end. */
static void fetch_codes(struct pairs *work, const struct kt_kv_place *place, uint64_t token, uint64_t end)
{
    const uint64_t scales = (uint64_t)divide_up(place->field.width, KT_KV_GROUP) * KT_KV_PAGE * 2;
    struct fetcher *f = start_fetcher(work, place->scales + scales);
    for (token -= token % KT_KV_PAGE; token < end && f->n < MOST_STRIPS; token += KT_KV_PAGE)
        f->strip[f->n++] = find_page(place, work->job->pages, token);
}

/* The values of the chunk's tokens, or of latents the keys of the next chunk. */
static void fetch_values(struct pairs *work, const struct some *some)
{
    const struct kt_attend *job = work->job;
    bool latent = job->layout->shape.latent;
    struct fetcher *f = start_fetcher(work, latent ? 2 * block_bytes(work) : LINE * line_bytes(work));
    uint64_t token = latent ? job->end : work->start + some->begin;
    uint64_t end = latent ? job->next : work->start + some->end;
    if (latent ? work->wide_keys : work->wide_values) {
        fetch_codes(work, job->values, job->end, job->next);
        return;
    }
    if (work->floats) {
        fetch_codes(work, job->values, token, end);
        return;
    }
    for (; token < end && f->n < MOST_STRIPS; token += STEP)
        f->strip[f->n++] = latent ? find_keys(work, token) : find_values(work, token);
}

/* Strip by strip; each is weighed, or only its largest scores are found, `largest`. */
static void score_pairs(struct pairs *work, const struct some *some, float *largest)
{
    const struct kt_attend *job = work->job;
    struct tiles tiles = {
        .a = find_queries(work, some->first),
        .a_stride = 64,
        .a_step = TILE,
        .a_next = work->steps * TILE,
        .b_stride = 64,
        .b_step = block_bytes(work) / work->steps,
        .b_next = block_bytes(work),
        .c_stride = STEP * sizeof(float),
        .c_down = LINE * STEP * sizeof(float),
        .c_right = 64,
        .steps = work->steps,
        .groups = some->n > LINE ? 2 : 1,
        .rows = some->n,
        .fetcher = &work->fetcher,
        .weighed = (some->n + work->steps - 1) / work->steps,
    };
    struct strip strip = {
        .shape = &job->layout->shape,
        .rows = work->rows,
        .sums = work->sums,
        .logs = work->logs,
        .n = some->n,
    };
    uint32_t n_strips = (some->end - some->begin) / STEP;
    tiles.share = divide_up(work->fetcher.lines * work->fetcher.n, work->steps * n_strips);
    for (uint32_t at = some->begin, i = 0; at < some->end; at += STEP, i++) {
        tiles.b = find_keys(work, work->start + at);
        tiles.c = (uint8_t *)work->scores[i % 2];
        if (TILES_CODES && work->query_scales)
            score_codes(work, &tiles, find_query_scales(work, some->first), work->start + at);
        else
            score_tiles(&tiles);
        if (tiles.strip)
            weigh_rows(&strip, MOST);
        strip.from = work->scores[i % 2];
        strip.weights = work->weights + at * 2;
        strip.floats = work->floats ? work->floats + at : NULL;
        strip.first = at;
        strip.done = 0;
        /* Behind the key that all see, each row has its base; in a first strip that all see, they are found.
         */
        strip.inner = job->layout->shape.softcap <= 0 && at + STEP <= some->inner_end &&
                      (i > 0 ? at > some->inner : at >= some->inner);
        if (strip.inner && i == 0 && !largest && !work->rows[0].fixed)
            find_bases(&strip);
        tiles.strip = largest ? NULL : &strip;
        if (largest)
            find_largest_scores(&strip, largest);
    }
    if (!largest)
        weigh_rows(&strip, MOST);
}

/* False: a row's base does not suit it. Its largest score does. */
static bool finish_rows(struct pairs *work, const struct some *some)
{
    bool all = true;
    for (uint32_t r = 0; r < some->n; r++) {
        struct row *row = &work->rows[r];
        row->sum = _mm512_reduce_add_ps(vf_load(work->sums + r * LINE));
        all &= row->sum >= SMALLEST_SUM && row->sum <= LARGEST_SUM;
    }
    return all;
}

static NOINLINE void weigh_again(struct pairs *work, const struct some *some)
{
    float largest[MOST];
    for (uint32_t r = 0; r < some->n; r++)
        largest[r] = -INFINITY;
    score_pairs(work, some, largest);
    for (uint32_t r = 0; r < some->n; r++) {
        struct row *row = &work->rows[r];
        if (row->sum >= SMALLEST_SUM && row->sum <= LARGEST_SUM)
            continue;
        row->base = largest[r] > -INFINITY ? largest[r] : 0;
        work->logs[r] = -LOG2_E * row->base;
    }
    memset(work->sums, 0, round_up(some->n, 4) * LINE * sizeof(float));
    score_pairs(work, some, NULL);
    (void)finish_rows(work, some);
}

static void weigh_pairs(struct pairs *work, const struct some *some)
{
    uint32_t token = some->first / work->job->n_heads, left = (token + 1) * work->job->n_heads - some->first;
    struct visible seen = find_visible(work->job, token);
    for (uint32_t r = 0; r < some->n; r++, left--) {
        if (left == 0) {
            left = work->job->n_heads;
            seen = find_visible(work->job, ++token);
        }
        work->rows[r] = (struct row){.seen = seen};
        work->logs[r] = 0;
    }
    memset(work->sums, 0, round_up(some->n, 4) * LINE * sizeof(float));
    score_pairs(work, some, NULL);
    if (!finish_rows(work, some))
        weigh_again(work, some);
}

/* ---- outputs ---- */

/* The keys of the next chunk. */
static void fetch_keys(struct pairs *work)
{
    const struct kt_attend *job = work->job;
    struct fetcher *f = start_fetcher(work, 2 * block_bytes(work));
    if (work->wide_keys || work->query_scales) {
        fetch_codes(work, job->keys, job->end, job->next);
        return;
    }
    for (uint64_t token = job->end; token < job->next && f->n < MOST_STRIPS; token += STEP)
        f->strip[f->n++] = find_keys(work, token);
}

/* Rows of outputs in `block` become results of as many queries, or are added to these. */
static void put_rows(const struct pairs *work, const struct some *some, uint64_t row, uint32_t column,
                     uint32_t tiles)
{
    const uint64_t next = work->job->layout->partial_stride;
    char *to = (char *)work->job->partial + some->first * next;
    if (work->add) {
        join_rows(work, some, row, column, tiles);
        return;
    }
    for (uint32_t r = 0; r < some->n; r++, to += next)
        memcpy(partial_output(to) + column, work->block + r * row, tiles * 64);
}

static void add_pair_values(struct pairs *work, const struct some *some)
{
    const struct kt_attend *job = work->job;
    const struct kt_attention_layout *layout = job->layout;
    const uint8_t *strips[STEPS];
    const bool whole = some->n % TILES_ROWS == 0 && !work->add;
    const uint32_t groups = some->n > LINE ? 2 : 1, across = work->floats ? 2 : MOST_ACROSS(groups);
    struct tiles tiles = {
        .a = work->weights + some->begin * 2,
        .a_stride = WEIGHTS_ROW,
        .a_step = 64,
        .a_next = LINE * WEIGHTS_ROW,
        .b_at = strips,
        .b_stride = line_bytes(work),
        .b_next = 64,
        .c_stride = whole ? layout->partial_stride : across * 64,
        .c_right = 64,
        .steps = (some->end - some->begin) / STEP,
        .groups = groups,
        .rows = some->n,
        .fetcher = &work->fetcher,
    };
    uint32_t columns = layout->shape.value_size / LINE, n;
    tiles.c_down = LINE * tiles.c_stride;
    for (uint32_t s = 0; s < tiles.steps; s++)
        strips[s] = find_values(work, work->start + some->begin + s * STEP);
    tiles.share = divide_up(work->fetcher.lines * work->fetcher.n, tiles.steps * divide_up(columns, across));
    for (uint32_t column = 0; column < columns; column += n) {
        n = columns - column < across ? columns - column : across;
        tiles.b_first = column * 64;
        tiles.c =
            whole ? (uint8_t *)partial_output((char *)job->partial + some->first * layout->partial_stride) +
                        column * 64
                  : work->block;
        if (TILES_CODES && work->floats)
            add_codes(work, some, &tiles, column / 2, n);
        else
            multiply_tiles(&tiles, n);
        if (!whole)
            put_rows(work, some, tiles.c_stride, column * LINE, n);
    }
}

/* ---- all of them ---- */

/* Of 16 queries, or the last ones, n. */
static struct tops load_row_tops(const struct row *row, uint32_t n)
{
    float max[LINE] = {0}, sum[LINE] = {0};
    for (uint32_t r = 0; r < n; r++) {
        max[r] = row[r].sum == 0 ? -INFINITY : row[r].base;
        sum[r] = row[r].sum;
    }
    return (struct tops){vf_load(max), vf_load(sum)};
}

/* The same of partial results. */
static struct tops load_partial_tops(const char *partial, uint64_t stride, uint32_t n)
{
    float max[LINE] = {0}, sum[LINE] = {0};
    for (uint32_t r = 0; r < n; r++, partial += stride) {
        max[r] = ((const struct partial *)(const void *)partial)->max;
        sum[r] = ((const struct partial *)(const void *)partial)->sum;
    }
    return (struct tops){vf_load(max), vf_load(sum)};
}

static void store_partial_tops(struct tops tops, char *partial, uint64_t stride, uint32_t n)
{
    float max[LINE], sum[LINE];
    vf_store(max, tops.max);
    vf_store(sum, tops.sum);
    for (uint32_t r = 0; r < n; r++, partial += stride)
        *(struct partial *)(void *)partial = (struct partial){max[r], sum[r]};
}

/* Largest scores and sums of some queries; how their outputs are added up, if there are some already. */
static void store_tops_of(struct pairs *work, const struct some *some)
{
    const struct kt_attention_layout *layout = work->job->layout;
    const uint64_t stride = layout->partial_stride;
    for (uint32_t r = 0; r < some->n; r += LINE) {
        const uint32_t n = some->n - r < LINE ? some->n - r : LINE;
        char *partial = (char *)work->job->partial + (some->first + r) * stride;
        const struct turned turned = find_turned(layout, work->job->partial, some->first + r, work->n);
        struct tops tops = load_row_tops(&work->rows[r], n);
        if (work->add)
            work->join[r / LINE] =
                join_tops(layout->shape.latent ? load_tops(&turned) : load_partial_tops(partial, stride, n),
                          tops, &tops);
        if (layout->shape.latent)
            store_tops(&turned, tops);
        else
            store_partial_tops(tops, partial, stride, n);
    }
}

/* The first query sees the first keys, unless it stands before all of them, the last one the last, unless its
 * window is behind them. */
static struct some find_some(const struct pairs *work, uint32_t first)
{
    const struct kt_attend *job = work->job;
    struct some some = {.first = first, .n = work->n - first < MOST ? work->n - first : MOST};
    struct visible low = find_visible(job, first / job->n_heads);
    struct visible high = find_visible(job, (first + some.n - 1) / job->n_heads);
    some.inner = low.end && high.end ? high.first : 0;
    some.inner_end = low.end && high.end ? low.end : 0;
    some.begin = (low.end ? low.first : (uint32_t)(job->begin - work->start)) / STEP * STEP;
    some.end = (uint32_t)round_up(high.end ? high.end : job->end - work->start, STEP);
    return some;
}

/* All queries against one chunk. */
static void attend_chunk(struct pairs *work)
{
    const bool latent = work->job->layout->shape.latent;
    widen(work);
    if (latent)
        turn_keys(work);
    for (uint32_t q = 0; q < work->n; q += MOST) {
        struct some some = find_some(work, q);
        work->fetcher = (struct fetcher){.n = 0};
        if (q == 0)
            fetch_values(work, &some);
        weigh_pairs(work, &some);
        store_tops_of(work, &some);
        if (latent) {
            add_turned_keys(work, &some);
            continue;
        }
        if (q == 0)
            fetch_keys(work);
        add_pair_values(work, &some);
    }
}

static void attend_pairs(void *instance, const struct kt_attend *job)
{
    if (!job->layout->words[WORD_PAIRS]) {
        attend_floats(instance, job);
        return;
    }
    struct kt_attend part = *job; /* of a chunk */
    struct pairs work = begin_pairs(job);
    work.job = &part;
    for (uint32_t q = 0; q < work.n; q += MOST)
        load_queries(&work, q, work.n - q < MOST ? work.n - q : MOST);
    for (; part.begin < job->end; part.begin = part.end, work.add = true) {
        work.start = part.begin / CHUNK * CHUNK;
        part.end = work.start + CHUNK < job->end ? work.start + CHUNK : job->end;
        attend_chunk(&work);
    }
}

static void merge_pairs(void *instance, const struct kt_attention_merge *job)
{
    if (job->layout->words[WORD_PAIRS] && job->layout->shape.latent)
        merge_turned(job);
    else
        merge(instance, job);
}

static void finish_pairs(void *instance, const struct kt_attention_finish *job)
{
    const struct kt_attention_layout *layout = job->layout;
    _Alignas(64) uint8_t partial[PARTIAL_OUTPUT + 1024 * sizeof(float)];
    if (!layout->words[WORD_PAIRS] || !layout->shape.latent) {
        finish(instance, job);
        return;
    }
    uint32_t n = job->n_tokens * job->n_heads;
    for (uint32_t q = 0; q < n; q++) {
        struct turned from = find_turned(layout, job->partial, q / LINE * LINE, n);
        copy_query(layout, &from, q % LINE, partial);
        finish_query(job, q, (const void *)partial);
    }
}

static bool has_pairs(const struct kt_attention_shape *shape)
{
    uint32_t unit = shape->latent ? STEP : LINE;
    return shape->key.dtype != KT_DTYPE_F32 && shape->value.dtype != KT_DTYPE_F32 &&
           shape->key_size % STEP == 0 && shape->value_size % unit == 0;
}

static enum kt_status lay_out_pairs(void *instance, struct kt_attention_layout *layout,
                                    struct kt_error *error)
{
    const struct kt_attention_shape *shape = &layout->shape;
    const uint64_t queries = layout->tuned[TUNED_QUERIES];
    enum kt_status status = lay_out_floats(instance, layout, error);
    if (status != KT_OK)
        return status;
    if (!has_pairs(shape)) {
        layout->instruction = VEC_FLOAT_FMA;
        return KT_OK;
    }
    layout->words[WORD_PAIRS] = 1;
    layout->adds = 1;
    attention_tile(layout, queries, shape->latent ? MOST_LATENT_QUERIES : MOST_PAIR_QUERIES);
    layout->scratch_size = pairs_size(layout);
    return KT_OK;
}

#ifndef THREAD_FUNCTIONS
#define THREAD_FUNCTIONS
#endif

#define PAIRS_OPS(level)                                                                                   \
    const struct kt_attention_ops attention_ops_##level = {.struct_size = sizeof(struct kt_attention_ops), \
                                                           .layout = lay_out_pairs,                        \
                                                           .attend = attend_pairs,                         \
                                                           .merge = merge_pairs,                           \
                                                           .finish = finish_pairs,                         \
                                                           .score = score_rows,                            \
                                                           TUNABLES,                                       \
                                                           THREAD_FUNCTIONS}

#endif

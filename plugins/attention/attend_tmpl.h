/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention/attend_tmpl.h - attention in float32: queries and weights as they are, keys and values widened.
 *
 *     scores     of all keys of the chunk, block of 16 keys by block: what is unpacked stays in L1
 *     weights    row by row, in place of the scores
 *     outputs    page by page, 16 columns of values at once
 *
 * Parameters  MOST_QUERIES  queries of an attend, where kt tune has found nothing else
 * and those of attention/product_tmpl.h and simd/simd.h.
 *
 * Latents: a page of keys is unpacked once, as its columns are the values' columns. Lines of 16 queries'
 * weights are multiplied with the keys' columns, so nothing is transposed but weights and outputs.
 *
 * Levels with ROUNDED_PAIRS round queries and weights where keys and values are whole pairs of bfloat16.
 */
#ifndef KT_PLUGINS_ATTENTION_ATTEND_TMPL_H
#define KT_PLUGINS_ATTENTION_ATTEND_TMPL_H

#ifndef MOST_QUERIES
#error "attention/attend_tmpl.h: define MOST_QUERIES"
#endif

#include "plugins/attention/product_tmpl.h"
#include "plugins/attention/score_tmpl.h"
#include "plugins/attention/unpack_tmpl.h"
#include "plugins/attention/weights_tmpl.h"

/* A thread's work on one job; the arrays stand in its scratch in this order. */
struct attend {
    const struct kt_attend *job;
    uint32_t n;            /* queries */
    uint32_t n_padded;     /* rounded up to lines */
    uint64_t query_stride; /* numbers */
    uint64_t start;        /* first token of the chunk */
    float *queries;        /* [n][query_stride], scaled */
    float *weights;        /* [n][CHUNK] scores, then weights */
    float *block;          /* unpacked keys of a block, or 16 columns of values of a page */
    float *turned;         /* latents: [CHUNK][n_padded] weights */
    float *columns;        /* latents: [value_size][n_padded] outputs */
    bool rounded;          /* queries and weights are bfloat16 at the beginnings of their rows */
};

static uint64_t query_stride(const struct kt_attention_shape *shape)
{
    return round_up(shape->key_size, LINE);
}

/* Numbers of `block`: of latents a page of keys. */
static uint64_t block_size(const struct kt_attention_shape *shape)
{
    uint64_t blocks = shape->latent ? KT_KV_PAGE / LINE : 1;
    uint64_t keys = query_stride(shape) * LINE * blocks, values = KT_KV_PAGE * LINE;
    return keys > values ? keys : values;
}

enum { WORD_ROUNDED = 1 }; /* of layout->words: 1 where queries and weights are rounded */

static bool has_rounded(const struct kt_attention_shape *shape)
{
    return ROUNDED_PAIRS && !shape->latent && shape->key.dtype == KT_DTYPE_BF16 &&
           shape->value.dtype == KT_DTYPE_BF16 && shape->key_size % 2 == 0 && shape->value_size % LINE == 0;
}

static enum kt_status lay_out_floats(void *instance, struct kt_attention_layout *layout,
                                     struct kt_error *error)
{
    const struct kt_attention_shape *shape = &layout->shape;
    (void)instance;
    enum kt_status status = attention_check(layout, error);
    if (status != KT_OK)
        return status;
    attention_tile(layout, layout->tuned[TUNED_QUERIES], MOST_QUERIES);
    const uint64_t n = layout->max_queries;
    uint64_t latent = shape->latent ? (CHUNK + round_up(shape->value_size, LINE)) * round_up(n, LINE) : 0;
    layout->scratch_size = sizeof(float) * (n * (query_stride(shape) + CHUNK) + block_size(shape) + latent);
    layout->words[WORD_ROUNDED] = has_rounded(shape);
    if (ROUNDED_PAIRS && !has_rounded(shape))
        layout->instruction = VEC_FLOAT_FMA;
    return KT_OK;
}

/* n numbers, a multiple of 16, become bfloat16 where they are. */
static void round_row(float *row, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += VEC_ROWS)
        vf_store_bf16((uint8_t *)row + 2 * i, vf_load(row + i));
}

static struct attend begin_job(const struct kt_attend *job)
{
    const struct kt_attention_shape *shape = &job->layout->shape;
    struct attend work = {
        .job = job,
        .n = job->n_tokens * job->n_heads,
        .query_stride = query_stride(shape),
        .start = job->begin / CHUNK * CHUNK,
        .queries = job->scratch,
    };
    work.n_padded = (uint32_t)round_up(work.n, LINE);
    work.weights = work.queries + job->layout->max_queries * work.query_stride;
    work.block = work.weights + (uint64_t)job->layout->max_queries * CHUNK;
    work.turned = work.block + block_size(shape);
    work.columns = work.turned + CHUNK * work.n_padded;
    work.rounded = job->layout->words[WORD_ROUNDED];
    for (uint32_t r = 0; r < work.n; r++) {
        float *query = work.queries + r * work.query_stride;
        load_query(job, r, work.query_stride, query);
        if (work.rounded)
            round_row(query, work.query_stride);
    }
    return work;
}

/* ---- scores ---- */

/* The block of keys that will be read after that of token `token`, and at the end the first values. */
static struct ahead after_keys(const struct kt_attend *job, uint64_t token)
{
    uint64_t next = token + LINE;
    const uint8_t *page;
    if (next < job->end) {
        page = find_page(job->keys, job->pages, next);
        return (struct ahead){page + next % KT_KV_PAGE / LINE * key_block_size(&job->keys->field), 64};
    }
    page = find_page(job->layout->shape.latent ? job->keys : job->values, job->pages, job->begin);
    return (struct ahead){page, 64};
}

/* Q8_0 is unpacked; the other forms are multiplied as the cache has them. */
static void score(const struct attend *work)
{
    const struct kt_attend *job = work->job;
    const struct kt_kv_field *field = &job->keys->field;
    const uint64_t size = key_block_size(field);
    struct product product = {
        .a = work->queries,
        .a_stride = work->query_stride,
        .b_stride = 64,
        .c_stride = CHUNK,
        .n = field->width,
        .segment = field->width,
        .pairs = field->dtype == KT_DTYPE_BF16,
        .rounded = work->rounded,
    };
    for (uint64_t token = job->begin; token < job->end; token += LINE) {
        const uint8_t *page = find_page(job->keys, job->pages, token);
        uint32_t block = (uint32_t)(token % KT_KV_PAGE / LINE);
        struct ahead ahead = after_keys(job, token);
        if (field->dtype == KT_DTYPE_Q8_0) {
            unpack_keys(job->keys, page, block, work->block, &ahead);
            product.b = (const uint8_t *)work->block;
        } else {
            product.b = page + block * size;
            product.ahead = ahead.at;
            product.ahead_step = ahead.step;
            if (!product.pairs)
                fetch_lines(ahead, (uint32_t)(size / 64));
        }
        product.c = work->weights + (token - work->start);
        multiply(&product, work->n);
    }
}

/* ---- outputs ---- */

/* The same columns of the page of values that will be read next, or the first keys of the next chunk. */
static struct ahead after_values(const struct kt_attend *job, uint64_t token, uint32_t column)
{
    uint64_t next = token + KT_KV_PAGE;
    if (next < job->end)
        return (struct ahead){find_page(job->values, job->pages, next) + (uint64_t)column * 4,
                              (uint64_t)job->values->field.width * 4};
    if (job->end < job->next)
        return (struct ahead){find_page(job->keys, job->pages, job->end) + (uint64_t)column * 128, 64};
    return (struct ahead){find_page(job->values, job->pages, token) + (uint64_t)column * 4, 0};
}

/* Whole lines of bfloat16 are multiplied as the cache has them. */
static void add_values(const struct attend *work)
{
    const struct kt_attend *job = work->job;
    const struct kt_attention_layout *layout = job->layout;
    const struct kt_kv_field *field = &job->values->field;
    for (uint64_t token = job->begin; token < job->end; token += KT_KV_PAGE) {
        uint32_t n = (uint32_t)(job->end - token < KT_KV_PAGE ? job->end - token : KT_KV_PAGE);
        const uint8_t *page = find_page(job->values, job->pages, token);
        for (uint32_t column = 0; column < layout->shape.value_size; column += LINE) {
            struct ahead ahead = after_values(job, token, column);
            bool pairs = field->dtype == KT_DTYPE_BF16 && column + LINE <= field->width;
            struct product product = {
                .a = work->weights + (token - work->start) / (work->rounded ? 2 : 1),
                .a_stride = CHUNK,
                .b = pairs ? page + column * 4 : (const uint8_t *)work->block,
                .b_stride = pairs ? field->width * 4 : 64,
                .c = partial_output(job->partial) + column,
                .c_stride = layout->partial_stride / sizeof(float),
                .n = n,
                .segment = n,
                .add = token != job->begin,
                .pairs = pairs,
                .rounded = work->rounded,
                .ahead = ahead.at,
                .ahead_step = ahead.step,
            };
            if (!pairs)
                unpack_values(job->values, page, column, n, work->block, &ahead);
            multiply(&product, work->n);
        }
    }
}

/* Latents: rows of a product are columns of keys, its lines 16 queries. */
static void add_latents(const struct attend *work)
{
    const struct kt_attend *job = work->job;
    const struct kt_attention_shape *shape = &job->layout->shape;
    uint64_t size = work->query_stride * LINE;
    for (uint64_t token = job->begin; token < job->end; token += KT_KV_PAGE) {
        uint32_t n = (uint32_t)(job->end - token < KT_KV_PAGE ? job->end - token : KT_KV_PAGE);
        const uint8_t *page = find_page(job->keys, job->pages, token);
        for (uint32_t b = 0; b * LINE < n; b++) {
            struct ahead ahead = after_keys(job, token + b * LINE);
            unpack_keys(job->keys, page, b, work->block + b * size, &ahead);
        }
        for (uint32_t row = 0; row < shape->value_size; row += MOST_ROWS)
            for (uint32_t query = 0; query < work->n_padded; query += LINE) {
                struct product product = {
                    .a = work->block + row * LINE,
                    .a_stride = LINE,
                    .a_next = size,
                    .b = (const uint8_t *)(work->turned + (token - work->start) * work->n_padded + query),
                    .b_stride = work->n_padded * sizeof(float),
                    .c = work->columns + row * work->n_padded + query,
                    .c_stride = work->n_padded,
                    .n = n,
                    .segment = LINE,
                    .add = token != job->begin,
                };
                multiply(&product, shape->value_size - row < MOST_ROWS ? shape->value_size - row : MOST_ROWS);
            }
    }
}

/* to[c][r] = from[r][c] for n rows of `columns` numbers; the rest of to's lines is 0. */
static void turn(const float *from, uint64_t from_stride, uint32_t n, uint32_t columns, float *to,
                 uint32_t to_stride)
{
    for (uint32_t c = 0; c < columns; c++)
        for (uint32_t r = 0; r < to_stride; r++)
            to[(uint64_t)c * to_stride + r] = r < n ? from[r * from_stride + c] : 0;
}

static void turn_back(const struct attend *work)
{
    const struct kt_attention_layout *layout = work->job->layout;
    for (uint32_t r = 0; r < work->n; r++) {
        float *out = partial_output((char *)work->job->partial + r * layout->partial_stride);
        for (uint32_t c = 0; c < layout->shape.value_size; c++)
            out[c] = work->columns[(uint64_t)c * work->n_padded + r];
    }
}

static void attend_floats(void *instance, const struct kt_attend *job)
{
    const struct attend work = begin_job(job);
    (void)instance;
    score(&work);
    for (uint32_t r = 0; r < work.n; r++) {
        float *weights = work.weights + (uint64_t)r * CHUNK;
        make_weights(job, r, weights);
        if (work.rounded)
            round_row(weights, round_up(job->end - work.start, LINE));
    }
    if (!job->layout->shape.latent) {
        add_values(&work);
        return;
    }
    uint64_t from = job->begin - work.start, n = job->end - job->begin;
    turn(work.weights + from, CHUNK, work.n, (uint32_t)n, work.turned + from * work.n_padded, work.n_padded);
    add_latents(&work);
    turn_back(&work);
}

#include "plugins/attention/level_tmpl.h"

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wrong_attention.c - plain attention, with one fault in what it does: the one that KT_TEST_FAULT names in
 * the environment. tests/kt/kt_plugin_attention.sh says which check must find it. SLOW is not a fault: all is
 * computed as often as a tunable says, for tests/kt/kt_tune_attention.sh.
 */
#define _GNU_SOURCE
#include "tests/plugins/fault.h"
#include "tools/check/number.h"

#include <kt/plugin.h>
#include <kt/plugin_attention.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST 1024 /* numbers of a row */

/* A query's result for some keys; sum 0: it saw none. */
struct partial {
    float max, sum, pad[14];
    float out[];
};

static unsigned n_layouts;

/* ---- numbers ---- */

/* The first n numbers of a token's row, by the words of <kt/kv.h>. */
static void read_row(const struct kt_kv_place *place, const uint32_t *pages, uint64_t token, uint32_t n,
                     float *row)
{
    const struct kt_kv_field *field = &place->field;
    const char *page = (const char *)place->base + pages[token / KT_KV_PAGE] * place->page_stride;
    uint32_t t = token % KT_KV_PAGE, w = field->width, groups = (w + KT_KV_GROUP - 1) / KT_KV_GROUP;
    uint32_t p = field->dtype == KT_DTYPE_F32 ? 1 : field->dtype == KT_DTYPE_BF16 ? 2 : 4;
    bool keys = field->layout == KT_KV_KEY, q8 = field->dtype == KT_DTYPE_Q8_0;
    float scale = 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = keys ? ((t / 16 * ((w + p - 1) / p) + i / p) * 16 + t % 16) * p + i % p
                           : (t / p * w + i) * p + t % p;
        uint32_t g = i / KT_KV_GROUP, s = keys ? (t / 16 * groups + g) * 16 + t % 16 : g * KT_KV_PAGE + t;
        if (q8 && i % KT_KV_GROUP == 0 && !(i > 0 && IS(ATTEND_SCALES)))
            scale = read_number(page + place->scales + 2 * s, KT_DTYPE_F16);
        row[i] =
            q8 ? (float)*(const int8_t *)(page + at) * scale : read_number(page + at * (4 / p), field->dtype);
    }
}

/* ---- functions ---- */

static enum kt_status layout(void *instance, struct kt_attention_layout *own, struct kt_error *error)
{
    struct kt_attention_shape *shape = &own->shape;
    (void)instance;
    if (shape->key_size > MOST || shape->value_size > MOST)
        return IS(LAYOUT_MUTE) ? KT_E_UNSUPPORTED
                               : kt_plugin_fail(error, KT_E_UNSUPPORTED, "1024 numbers are the most");
    if (IS(LAYOUT_REFUSES) && shape->key.dtype == KT_DTYPE_Q8_0)
        return kt_plugin_fail(error, KT_E_UNSUPPORTED, "q8_0 keys are not taken");
    if (IS(LAYOUT_ALL))
        return kt_plugin_fail(error, KT_E_UNSUPPORTED, "nothing is taken");
    own->max_queries = IS(LAYOUT_QUERIES) ? 0 : 12;
    own->partial_stride = sizeof(struct partial) + (shape->value_size * sizeof(float) + 63) / 64 * 64;
    own->scratch_size = KT_ATTENTION_CHUNK * sizeof(float);
    if (IS(ADDS_CHUNKS) || IS(ADDS_NOTHING)) {
        own->adds = 1;
        own->scratch_size *= 3;
    }
    if (IS(LAYOUT_STRIDE))
        own->partial_stride -= 4;
    if (IS(LAYOUT_SCRATCH))
        own->scratch_size = UINT64_C(1) << 40;
    if (IS(LAYOUT_PARTIAL))
        own->partial_stride = 64;
    if (IS(LAYOUT_LEAK))
        (void)host->allocate(host, 64);
    if (IS(LAYOUT_AGAIN) && n_layouts++ % 2 != 0)
        return kt_plugin_fail(error, KT_E_UNSUPPORTED, "not twice");
    if (IS(LAYOUT_COUNTS))
        own->scratch_size += 64 * (uint64_t)n_layouts++;
    if (IS(LAYOUT_SHAPE))
        shape->scale *= 2;
    if (IS(LAYOUT_BF16))
        own->instruction = "bfdot";
    return KT_OK;
}

static float score(const struct kt_attend *job, const float *query, uint64_t token)
{
    const struct kt_attention_shape *shape = &job->layout->shape;
    uint32_t n = shape->key_size - (IS(ATTEND_COLUMN) ? 1 : 0);
    float s = 0, key[MOST];
    read_row(job->keys, job->pages, token, n, key);
    for (uint32_t i = 0; i < n; i++)
        s += query[i] * key[i];
    return shape->softcap > 0 && !IS(ATTEND_SOFTCAP) ? shape->softcap * tanhf(s / shape->softcap) : s;
}

static void read_query(const struct kt_attend *job, uint32_t q, float *query)
{
    const struct kt_attention_shape *shape = &job->layout->shape;
    uint32_t dtype = job->query_dtype;
    const char *from = (const char *)job->queries + q / job->n_heads * job->query_stride +
                       (int64_t)(q % job->n_heads) * shape->key_size * number_size(dtype);
    if (IS(ATTEND_STRIDE))
        from = (const char *)job->queries + (int64_t)q * shape->key_size * number_size(dtype);
    if (IS(ATTEND_F16) && dtype == KT_DTYPE_F16)
        dtype = KT_DTYPE_BF16;
    for (uint32_t i = 0; i < shape->key_size; i++) {
        query[i] = read_number(from + i * number_size(dtype), dtype) * shape->scale;
        if (IS(ATTEND_ROUNDS) || IS(LAYOUT_BF16))
            query[i] = from_bf16(to_bf16(query[i]));
    }
}

static void add_value(const struct kt_attend *job, struct partial *to, uint64_t token, float weight)
{
    uint32_t n = job->layout->shape.value_size;
    float value[MOST];
    read_row(job->values, job->pages, token, n, value);
    for (uint32_t c = 0; c < n; c++)
        to->out[c] += weight * value[c];
}

static void attend_one(const struct kt_attend *job, uint32_t q, struct partial *to)
{
    const struct kt_attention_shape *shape = &job->layout->shape;
    uint64_t position = job->position + q / job->n_heads, first = 0, end = position + 1;
    float *scores = job->scratch, query[MOST];
    if (IS(ATTEND_FIRST_TOKEN))
        end = job->position + 1;
    if (IS(ATTEND_MASK))
        end++;
    if (position >= shape->window)
        first = position - shape->window + (IS(ATTEND_WINDOW) ? 0 : 1);
    first = first > job->begin ? first : job->begin;
    end = end < job->end ? end : job->end;
    if (IS(ATTEND_CHUNK) && end % KT_ATTENTION_CHUNK == 0)
        end--;
    if (IS(ATTEND_BEGIN))
        first = job->begin / KT_ATTENTION_CHUNK * KT_ATTENTION_CHUNK;
    memset(to, 0, IS(ATTEND_BEYOND) ? job->layout->partial_stride + 1 : job->layout->partial_stride);
    if (first >= end)
        return;
    read_query(job, q, query);
    to->max = -INFINITY;
    for (uint64_t j = first; j < end; j++) {
        float s = scores[j - job->begin] = score(job, query, j);
        to->max = s > to->max || isnan(s) ? s : to->max;
    }
    for (uint64_t j = first; j < end; j++) {
        float weight = expf(scores[j - job->begin] - to->max);
        if (IS(NAN_HIDDEN) && isnan(weight))
            weight = 1, to->max = 0;
        to->sum += weight;
        add_value(job, to, j, weight);
    }
}

static void merge_one(const struct kt_attention_layout *own, struct partial *to, const struct partial *from)
{
    if (IS(MERGE_SECOND))
        ((volatile struct partial *)(uintptr_t)from)->pad[0] = 0;
    if (from->sum == 0) {
        to->sum *= IS(MERGE_EMPTY) ? 1.000001f : 1;
        return;
    }
    if (to->sum == 0) {
        memcpy(to, from, own->partial_stride);
        return;
    }
    float max = fmaxf(to->max, from->max), a = expf(to->max - max), b = expf(from->max - max);
    if (IS(MERGE_MAX))
        a = b = 1;
    to->max = max;
    to->sum = to->sum * a + from->sum * b;
    for (uint32_t c = 0; c < own->shape.value_size; c++)
        to->out[c] = to->out[c] * a + from->out[c] * b;
}

/* Of several chunks the sum, but nothing is added to what was there. */
static void attend_chunks(const struct kt_attend *job, uint32_t q, struct partial *to)
{
    _Alignas(struct partial) char memory[sizeof(struct partial) + (MOST + 16) * sizeof(float)];
    struct partial *next = (void *)memory;
    struct kt_attend part = *job;
    for (; part.begin < job->end; part.begin = part.end) {
        uint64_t end = (part.begin / KT_ATTENTION_CHUNK + 1) * KT_ATTENTION_CHUNK;
        part.end = end < job->end ? end : job->end;
        attend_one(&part, q, part.begin == job->begin ? to : next);
        if (part.begin > job->begin)
            merge_one(job->layout, to, next);
    }
}

static void attend(void *instance, const struct kt_attend *job)
{
    struct partial *first = job->partial;
    (void)instance;
    if (IS(ATTEND_FAILS))
        (void)kt_plugin_fail(job->error, KT_E_IO, "no reason at all");
    if (IS(ATTEND_ALLOCATES))
        host->release(host, host->allocate(host, 64), 64);
    if (IS(ATTEND_SCRATCH))
        ((volatile char *)job->scratch)[job->layout->scratch_size] = 1;
    if (IS(ATTEND_CACHE))
        *((volatile char *)job->keys->base + job->pages[0] * job->keys->page_stride) = 0;
    if (IS(ATTEND_PAGES) && ((const volatile uint32_t *)job->pages)[job->end / KT_KV_PAGE + 1] == 99)
        return;
    for (uint64_t i = IS(SLOW) ? job->layout->tuned[0] : 1; i > 0; i--)
        for (uint32_t q = 0; q < job->n_tokens * job->n_heads; q++)
            (IS(ADDS_NOTHING)
                 ? attend_chunks
                 : attend_one)(job, q, (void *)((char *)job->partial + q * job->layout->partial_stride));
    if (IS(ATTEND_TUNED) && job->layout->tuned[0] == 16)
        first->out[0] *= 2;
    if (IS(TILE) && job->n_tokens > 1)
        first->out[0] *= 1.000001f;
    for (uint32_t q = 1; IS(NAN_LEAKS) && q < job->n_tokens * job->n_heads; q++)
        ((struct partial *)(void *)((char *)first + q * job->layout->partial_stride))->out[0] +=
            0 * first->sum;
    if (IS(THREADS) && syscall(SYS_gettid) != getpid())
        first->out[0] *= 1.000001f;
}

static void merge(void *instance, const struct kt_attention_merge *job)
{
    const uint64_t stride = job->layout->partial_stride;
    (void)instance;
    for (uint32_t q = 0; q < job->n_queries; q++)
        merge_one(job->layout, (void *)((char *)job->first + q * stride),
                  (const void *)((const char *)job->second + q * stride));
}

static void finish(void *instance, const struct kt_attention_finish *job)
{
    uint32_t size = job->layout->shape.value_size;
    (void)instance;
    for (uint32_t q = 0; q < job->n_tokens * job->n_heads; q++) {
        const struct partial *from =
            (const void *)((const char *)job->partial + q * job->layout->partial_stride);
        char *to = (char *)job->output + q / job->n_heads * job->output_stride +
                   (int64_t)(q % job->n_heads) * size * number_size(job->output_dtype);
        float sink = job->sinks && !IS(FINISH_SINKS) ? job->sinks[q % job->n_heads] : -INFINITY;
        if (IS(FINISH_SINK_HEAD) && job->sinks)
            sink = job->sinks[0];
        float max = fmaxf(from->max, sink), own = isnan(from->max) ? NAN : expf(from->max - max);
        float sum = from->sum * own + (sink > -INFINITY ? expf(sink - max) : 0);
        for (uint32_t c = 0; c < size; c++)
            write_number(to + c * number_size(job->output_dtype), job->output_dtype,
                         from->sum == 0 && !IS(FINISH_ZEROS) ? 0 : from->out[c] * own / sum);
        if (IS(FINISH_GAP) && (q + 1) % job->n_heads == 0)
            to[size * number_size(job->output_dtype)] = 0;
    }
    if (IS(FINISH_PARTIAL))
        *(volatile char *)(uintptr_t)job->partial = 0;
}

static void score_rows(void *instance, const struct kt_score *job)
{
    (void)instance;
    for (uint64_t j = job->begin; j < job->end; j++) {
        float key[MOST];
        read_row(job->keys, job->pages, j, job->size, key);
        for (uint32_t t = 0; t < job->n_tokens; t++) {
            const char *queries = (const char *)job->queries + t * job->query_stride;
            const char *weights = (const char *)job->weights + t * job->weight_stride;
            char *scores = (char *)job->scores + t * job->score_stride;
            float sum = IS(SCORE_OTHERS) ? (float)job->n_tokens * 1e-5f : 0;
            for (uint32_t h = 0; h < job->n_heads; h++) {
                float product = 0;
                for (uint32_t i = 0; i < job->size; i++)
                    product += ((const float *)(const void *)queries)[h * job->size + i] * key[i];
                if (product > 0 || IS(SCORE_NEGATIVE))
                    sum += ((const float *)(const void *)weights)[h] * product;
            }
            ((float *)(void *)scores)[j - job->begin] = sum;
            if (IS(SCORE_BEHIND) && j + 1 == job->end)
                ((float *)(void *)scores)[(j - job->begin) / KT_KV_BLOCK * KT_KV_BLOCK + KT_KV_BLOCK] = 0;
        }
    }
    if (IS(SCORE_FAILS))
        (void)kt_plugin_fail(job->error, KT_E_BACKEND, "the scores are lost");
}

static const struct kt_tunable tunables[] = {{.name = "work",
                                              .what = "times that all is computed",
                                              .minimum = 1,
                                              .maximum = 16,
                                              .standard = 8,
                                              .flags = KT_TUNABLE_DOUBLING}};

static const struct kt_attention_ops attention = {
    .struct_size = sizeof attention,
    .layout = layout,
    .attend = attend,
    .merge = merge,
    .finish = finish,
    .tunables = tunables,
    .n_tunables = 1,
    .score = score_rows,
};
static const struct kt_level level = {.struct_size = sizeof level,
                                      .name = "scalar",
                                      .instruction = "mulss",
                                      .attention = &attention};
static const struct kt_level *const levels[] = {&level};

KT_PLUGIN_DEFINE(wrong_attention) = {
    KT_PLUGIN_HEADER(wrong_attention),
    .version = "1.0",
    .description = "wrong, for tests",
    .formats = "f32 bf16 q8_0",
    .levels = levels,
    .n_levels = 1,
    .open = open_plugin,
};

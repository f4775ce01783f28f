/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention/pairs_latent.h - latents for attention/pairs_tmpl.h: values are columns of the keys. Keys lie as
 * lines of a pair of columns and 16 keys, so columns are rows of A, turned weights are B, and outputs have a
 * row for a column of values and a column for a query. Partial results stay so until all are added up:
 *
 *     struct turned  of 16 queries, or of the last ones, m: m largest scores, m sums, and 64 m bytes from its
 *                    beginning value_size lines of m outputs
 */
#ifndef KT_PLUGINS_ATTENTION_PAIRS_LATENT_H
#define KT_PLUGINS_ATTENTION_PAIRS_LATENT_H

#include "plugins/attention/pairs_join.h"

struct turned {
    float *max, *sum, *output;
    uint32_t m;
    __mmask16 lanes;
};

/* Of query `first`, a multiple of 16, and those after it, of n queries. */
static struct turned find_turned(const struct kt_attention_layout *layout, const void *partial,
                                 uint32_t first, uint32_t n)
{
    char *at = (char *)(uintptr_t)partial + first * layout->partial_stride;
    uint32_t m = n - first < LINE ? n - first : LINE;
    return (struct turned){
        .max = (float *)(void *)at,
        .sum = (float *)(void *)at + m,
        .output = (float *)(void *)(at + (uint64_t)m * PARTIAL_OUTPUT),
        .m = m,
        .lanes = (__mmask16)((1u << m) - 1),
    };
}

INLINE vf load_lanes(const struct turned *t, const float *from)
{
    return _mm512_maskz_loadu_ps(t->lanes, from);
}

INLINE struct tops load_tops(const struct turned *t)
{
    return (struct tops){load_lanes(t, t->max), load_lanes(t, t->sum)};
}

static void store_tops(const struct turned *t, struct tops tops)
{
    _mm512_mask_storeu_ps(t->max, t->lanes, tops.max);
    _mm512_mask_storeu_ps(t->sum, t->lanes, tops.sum);
}

/* 16 lines of 16 numbers of 4 bytes, `stride` bytes apart, become columns: of `to`, 64 bytes apart. */
static NOINLINE void turn_tile(const void *from, uint64_t stride, void *to)
{
    __m512i r[16], t[16];
    UNROLL_FOR (int i = 0; i < 16; i++)
        r[i] = _mm512_loadu_si512((const char *)from + (uint64_t)i * stride);
    UNROLL_FOR (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    UNROLL_FOR (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    UNROLL_FOR (int i = 0; i < 16; i += 8)
        UNROLL_FOR (int k = 0; k < 4; k++) {
            t[i + k] = _mm512_shuffle_i32x4(r[i + k], r[i + 4 + k], 0x88);
            t[i + 4 + k] = _mm512_shuffle_i32x4(r[i + k], r[i + 4 + k], 0xdd);
        }
    UNROLL_FOR (int k = 0; k < 8; k++) {
        _mm512_storeu_si512((char *)to + 64 * k, _mm512_shuffle_i32x4(t[k], t[8 + k], 0x88));
        _mm512_storeu_si512((char *)to + 64 * (8 + k), _mm512_shuffle_i32x4(t[k], t[8 + k], 0xdd));
    }
}

/* ---- attend ---- */

/* Columns of the chunk's keys as rows, key t of 32 beside key t + 16. */
static void turn_keys(const struct pairs *work)
{
    const struct kt_attend *job = work->job;
    const uint32_t columns = job->layout->shape.value_size;
    const uint64_t size = block_bytes(work);
    uint64_t token = job->begin / STEP * STEP;
    for (; token < job->end; token += STEP) {
        const uint8_t *keys = find_keys(work, token);
        uint8_t *to = work->values + (token - work->start) / STEP * (columns / LINE) * TILE;
        for (uint32_t c = 0; c < columns; c += 2, keys += 64, to += 128) {
            vi low = vi_load(keys), high = vi_load(keys + size);
            _mm512_storeu_si512(to, _mm512_mask_blend_epi16(0xaaaaaaaa, low, _mm512_slli_epi32(high, 16)));
            _mm512_storeu_si512(to + 64,
                                _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(low, 16), high));
        }
    }
}

static void turn_weights(const struct pairs *work, const struct some *some)
{
    for (uint32_t g = 0; g * LINE < some->n; g++)
        for (uint32_t s = some->begin / STEP; s < some->end / STEP; s++)
            turn_tile(work->weights + g * LINE * WEIGHTS_ROW + s * 64, WEIGHTS_ROW,
                      work->turned + (g * STEPS + s) * TILE);
}

/* Sums of columns column .. column + 31 and fewer than 16 queries. */
static void copy_lines(const struct turned *to, const uint8_t *from, uint32_t column)
{
    for (uint32_t c = 0; c < STEP; c++)
        _mm512_mask_storeu_ps(to->output + (uint64_t)(column + c) * to->m, to->lanes, vf_load(from + c * 64));
}

/* The same, added to what is there. */
static void join_columns(const struct turned *to, const struct join *join, const uint8_t *from,
                         uint32_t column)
{
    for (uint32_t c = 0; c < STEP; c++) {
        float *at = to->output + (uint64_t)(column + c) * to->m;
        const vf both = join_lines(join, load_lanes(to, at), vf_load(from + c * 64));
        _mm512_mask_storeu_ps(at, to->lanes, both);
    }
}

/* Columns column .. column + 31 of n results, from the block where they are to these. */
static void put_columns(const struct pairs *work, const struct turned *to, uint32_t n, uint32_t column)
{
    const uint8_t *from = work->block;
    for (uint32_t g = 0; g < n; g++, from += 2 * TILE)
        if (work->add)
            join_columns(&to[g], &work->join[g], from, column);
        else
            copy_lines(&to[g], from, column);
}

static void add_turned_keys(struct pairs *work, const struct some *some)
{
    const struct kt_attention_layout *layout = work->job->layout;
    const uint32_t columns = layout->shape.value_size, first = some->begin / STEP;
    struct tiles tiles = {
        .a_stride = 64,
        .a_step = columns / LINE * TILE,
        .a_next = TILE,
        .b_stride = 64,
        .b_step = TILE,
        .b_next = STEPS * TILE,
        .c_stride = 64,
        .c_down = TILE,
        .once_a = true,
        .steps = (some->end - some->begin) / STEP,
        .groups = 2,
        .rows = MOST,
        .fetcher = &work->fetcher,
    };
    uint32_t n = some->n > LINE ? 2 : 1;
    struct turned to[GROUPS];
    turn_weights(work, some);
    for (uint32_t g = 0; g < n; g++)
        to[g] = find_turned(layout, work->job->partial, some->first + g * LINE, work->n);
    const bool whole = to[n - 1].m == LINE && !work->add;
    tiles.c_right = whole ? LINE * layout->partial_stride : 2 * TILE;
    for (uint32_t column = 0; column < columns; column += STEP) {
        tiles.a = work->values + ((uint64_t)first * columns + column) * 64;
        tiles.b = work->turned + first * TILE;
        tiles.c = whole ? (uint8_t *)(to[0].output + column * LINE) : work->block;
        multiply_tiles(&tiles, n);
        if (!whole)
            put_columns(work, to, n, column);
    }
}

/* ---- sums and outputs ---- */

static void merge_turned(const struct kt_attention_merge *job)
{
    for (uint32_t q = 0; q < job->n_queries; q += LINE) {
        struct turned a = find_turned(job->layout, job->first, q, job->n_queries);
        struct turned b = find_turned(job->layout, job->second, q, job->n_queries);
        struct tops both;
        const struct join join = join_tops(load_tops(&a), load_tops(&b), &both);
        for (uint32_t c = 0; c < job->layout->shape.value_size; c++) {
            float *at = a.output + (uint64_t)c * a.m;
            const vf second = load_lanes(&b, b.output + (uint64_t)c * a.m);
            _mm512_mask_storeu_ps(at, a.lanes, join_lines(&join, load_lanes(&a, at), second));
        }
        store_tops(&a, both);
    }
}

/* Query r of `t` as a partial result of its own. */
static void copy_query(const struct kt_attention_layout *layout, const struct turned *t, uint32_t r, void *to)
{
    float *output = partial_output(to);
    *(struct partial *)to = (struct partial){t->max[r], t->sum[r]};
    for (uint32_t c = 0; c < layout->shape.value_size; c++)
        output[c] = t->output[(uint64_t)c * t->m + r];
}

#endif

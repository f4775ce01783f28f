/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention/pairs_weights.h - scores become weights in bfloat16, on AVX-512: 32 keys (a strip) of some
 * queries, while tiles multiply the next strip.
 *
 * The exact maximum of a row is known only after its last strip. Weights are exp(score - base), and the base
 * is the largest score of the first strip that the query sees: float32 and bfloat16 have room for weights up
 * to LARGEST_SUM. A row whose sum is larger, or none, is computed again with its largest score as the base.
 * Both depend on the row alone.
 */
#ifndef KT_PLUGINS_ATTENTION_PAIRS_WEIGHTS_H
#define KT_PLUGINS_ATTENTION_PAIRS_WEIGHTS_H

#include "plugins/attention/tiles.h"
#include "plugins/attention/weights_tmpl.h"

#include <stdbool.h>

#define LARGEST_SUM 0x1p64f
#define SMALLEST_SUM 0x1p-1f /* of a base that is a row's score, the sum is about 1 at least */
#define LOG2_E 0x1.715476p+0f

struct row {
    struct visible seen;
    bool fixed; /* the base stands already */
    float base; /* the score that becomes a weight of 1 */
    float sum;
};

/* Scores of a strip, and what becomes of them. */
struct strip {
    const struct kt_attention_shape *shape;
    struct row *rows;
    float *sums;       /* [n][LINE], which add up to those of rows */
    float *logs;       /* [n] -base * LOG2_E */
    const float *from; /* [n][STEP] scores; n and more rows, whole fours, in this and the other arrays */
    uint8_t *weights;  /* [n], WEIGHTS_ROW bytes apart */
    float *floats;     /* not NULL: these instead, FLOATS_ROW apart */
    uint32_t first;    /* key of the chunk */
    uint32_t n, done;  /* rows */
    bool inner;        /* each row sees all of it */
};

/* 2^y of n vectors, up to 2^-18 of it off: nothing beside bfloat16's 2^-9. NaN is kept. Step by step for all
 * of them, as one after the other would fill the scheduler with what has to wait. */
INLINE void exp2_rough(vf *y, unsigned n)
{
    vf f[8], sum[8];
    UNROLL_FOR (unsigned i = 0; i < n; i++)
        f[i] = _mm512_reduce_ps(y[i], 1); /* y - floor(y) */
    UNROLL_FOR (unsigned i = 0; i < n; i++)
        sum[i] = vf_fma(vf_set(0x1.bb7ccep-7f), f[i], vf_set(0x1.aa13f4p-5f));
    UNROLL_FOR (unsigned i = 0; i < n; i++)
        sum[i] = vf_fma(sum[i], f[i], vf_set(0x1.ee798ap-3f));
    UNROLL_FOR (unsigned i = 0; i < n; i++)
        sum[i] = vf_fma(sum[i], f[i], vf_set(0x1.62d166p-1f));
    UNROLL_FOR (unsigned i = 0; i < n; i++)
        sum[i] = vf_fma(sum[i], f[i], vf_set(0x1.00002cp+0f));
    UNROLL_FOR (unsigned i = 0; i < n; i++)
        y[i] = _mm512_scalef_ps(sum[i], y[i]);
}

/* Which of keys first .. first + 15 are seen. */
INLINE __mmask16 seen_mask(struct visible seen, uint32_t first)
{
    uint32_t begin = seen.first > first ? seen.first - first : 0,
             end = seen.end > first ? seen.end - first : 0;
    begin = begin < LINE ? begin : LINE;
    end = end < LINE ? end : LINE;
    return (__mmask16)(end > begin ? (1u << end) - (1u << begin) : 0);
}

INLINE void load_scores(const struct strip *strip, uint32_t r, vf s[2], __mmask16 seen[2])
{
    UNROLL_FOR (uint32_t v = 0; v < 2; v++) {
        s[v] = vf_load(strip->from + r * STEP + v * LINE);
        if (strip->shape->softcap > 0)
            s[v] = cap_score(s[v], strip->shape->softcap);
        seen[v] = seen_mask(strip->rows[r].seen, strip->first + v * LINE);
    }
}

/* The largest score that a row sees; NaN counts as none. */
INLINE float find_largest(const vf s[2], const __mmask16 seen[2])
{
    const vf none = vf_set(-INFINITY);
    vf max = vf_max(_mm512_mask_mov_ps(none, seen[0], s[0]), none);
    return _mm512_reduce_max_ps(vf_max(_mm512_mask_mov_ps(none, seen[1], s[1]), max));
}

static void find_largest_scores(const struct strip *strip, float *largest)
{
    for (uint32_t r = 0; r < strip->n; r++) {
        vf s[2];
        __mmask16 seen[2];
        load_scores(strip, r, s, seen);
        float most = find_largest(s, seen);
        largest[r] = most > largest[r] ? most : largest[r];
    }
}

INLINE void set_base(struct strip *strip, uint32_t r, float base)
{
    base = base > -INFINITY ? base : 0;
    strip->rows[r].base = base;
    strip->rows[r].fixed = true;
    strip->logs[r] = -LOG2_E * base;
}

/* How weights are stored: as bfloat16 in order, key t beside key t + 16, or as float32. */
enum weights_form { WEIGHTS_PAIRS, WEIGHTS_TURNED, WEIGHTS_FLOATS };

INLINE enum weights_form weights_form(const struct strip *strip)
{
    return strip->floats ? WEIGHTS_FLOATS : strip->shape->latent ? WEIGHTS_TURNED : WEIGHTS_PAIRS;
}

INLINE void store_weights(const struct strip *strip, uint32_t r, vf low, vf high, enum weights_form form)
{
    float *sum = strip->sums + r * LINE;
    vf_store(sum, vf_add(vf_load(sum), vf_add(low, high)));
    if (form == WEIGHTS_FLOATS) {
        vf_store(strip->floats + (uint64_t)r * FLOATS_ROW, low);
        vf_store(strip->floats + (uint64_t)r * FLOATS_ROW + LINE, high);
        return;
    }
    _mm512_storeu_si512(strip->weights + (uint64_t)r * WEIGHTS_ROW, form == WEIGHTS_TURNED
                                                                        ? vf_make_pairs(low, high)
                                                                        : (vi)_mm512_cvtne2ps_pbh(high, low));
}

/* Rows r .. r + 3, of which all keys are seen; there is room for rows behind the last. */
INLINE void weigh_inner(const struct strip *strip, uint32_t r, enum weights_form form)
{
    const float *from = strip->from + r * STEP;
    vf y[8];
    UNROLL_FOR (unsigned i = 0; i < 8; i++)
        y[i] = vf_fma(vf_load(from + i * LINE), vf_set(LOG2_E), vf_splat(strip->logs + r + i / 2));
    exp2_rough(y, 8);
    UNROLL_FOR (unsigned i = 0; i < 4; i++)
        store_weights(strip, r + i, y[2 * i], y[2 * i + 1], form);
}

/* The first strip that each row sees, and it sees all of it. */
static NOINLINE void find_bases(struct strip *strip)
{
    for (uint32_t r = 0; r < strip->n; r++) {
        const vf none = vf_set(-INFINITY);
        vf max = vf_max(vf_load(strip->from + r * STEP), none);
        set_base(strip, r, _mm512_reduce_max_ps(vf_max(vf_load(strip->from + r * STEP + LINE), max)));
    }
}

static NOINLINE void weigh_part(struct strip *strip, uint32_t r)
{
    const vf scale = vf_set(LOG2_E);
    vf s[2];
    __mmask16 seen[2];
    load_scores(strip, r, s, seen);
    if (!strip->rows[r].fixed && (seen[0] | seen[1]))
        set_base(strip, r, find_largest(s, seen));
    const vf log = vf_splat(strip->logs + r);
    s[0] = vf_fma(s[0], scale, log);
    s[1] = vf_fma(s[1], scale, log);
    exp2_rough(s, 2);
    store_weights(strip, r, _mm512_maskz_mov_ps(seen[0], s[0]), _mm512_maskz_mov_ps(seen[1], s[1]),
                  weights_form(strip));
}

/* The next n rows, or some more. Keys that are not seen weigh 0. */
static NOINLINE void weigh_rows(struct strip *strip, uint32_t n)
{
    uint32_t r = strip->done, end = strip->n - r < n ? strip->n : r + n;
    const enum weights_form form = weights_form(strip);
    if (!strip->inner)
        for (; r < end; r++)
            weigh_part(strip, r);
    else if (form == WEIGHTS_FLOATS)
        for (; r < end; r += 4)
            weigh_inner(strip, r, WEIGHTS_FLOATS);
    else if (form == WEIGHTS_TURNED)
        for (; r < end; r += 4)
            weigh_inner(strip, r, WEIGHTS_TURNED);
    else
        for (; r < end; r += 4)
            weigh_inner(strip, r, WEIGHTS_PAIRS);
    strip->done = r < strip->n ? r : strip->n;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention/pairs_join.h - a chunk's results are added to those of the chunks before it, block by block while
 * they are in L1. The bits are those of merge(). Parameters: those of simd/simd.h, with AVX-512.
 */
#ifndef KT_PLUGINS_ATTENTION_PAIRS_JOIN_H
#define KT_PLUGINS_ATTENTION_PAIRS_JOIN_H

#include "plugins/attention/pairs.h"

/* Largest scores and sums of 16 queries. */
struct tops {
    vf max, sum;
};

INLINE struct join join_tops(struct tops first, struct tops second, struct tops *both)
{
    const vf zero = vf_set(0.0f), one = vf_set(1.0f);
    const __mmask16 larger = _mm512_cmp_ps_mask(second.max, first.max, _CMP_GT_OQ);
    const vf max = _mm512_mask_mov_ps(first.max, larger, second.max);
    const vf less = vf_exp(vf_min(vf_sub(first.max, second.max), vf_sub(second.max, first.max)));
    const struct join join = {
        .own = _mm512_mask_mov_ps(one, larger, less),
        .other = _mm512_mask_mov_ps(less, larger, one),
        .only_first = _mm512_cmp_ps_mask(second.sum, zero, _CMP_EQ_OQ),
        .only_second = (__mmask16)(_mm512_cmp_ps_mask(first.sum, zero, _CMP_EQ_OQ) &
                                   _mm512_cmp_ps_mask(second.sum, zero, _CMP_NEQ_UQ)),
    };
    const vf sum = vf_add(vf_mul(first.sum, join.own), vf_mul(second.sum, join.other));
    both->max =
        _mm512_mask_mov_ps(_mm512_mask_mov_ps(max, join.only_first, first.max), join.only_second, second.max);
    both->sum =
        _mm512_mask_mov_ps(_mm512_mask_mov_ps(sum, join.only_first, first.sum), join.only_second, second.sum);
    return join;
}

/* A line of both results, a lane for a query. */
INLINE vf join_lines(const struct join *join, vf first, vf second)
{
    vf both = vf_fma(second, join->other, vf_mul(first, join->own));
    both = _mm512_mask_mov_ps(both, join->only_first, first);
    return _mm512_mask_mov_ps(both, join->only_second, second);
}

/* n tiles of a row. */
INLINE void join_row(const struct join *join, uint32_t r, const uint8_t *from, uint32_t n, float *to)
{
    const vf own = vf_splat((const float *)(const void *)&join->own + r);
    const vf other = vf_splat((const float *)(const void *)&join->other + r);
    for (uint32_t i = 0; i < n * LINE; i += LINE)
        vf_store(to + i, vf_fma(vf_load(from + i * sizeof(float)), other, vf_mul(vf_load(to + i), own)));
}

/* Rows of n tiles in `block`, `row` bytes each, are added to columns of as many queries' results. */
static NOINLINE void join_rows(const struct pairs *work, const struct some *some, uint64_t row,
                               uint32_t column, uint32_t n)
{
    const uint8_t *from = work->block;
    const uint64_t next = work->job->layout->partial_stride;
    char *to = (char *)work->job->partial + some->first * next;
    for (uint32_t r = 0; r < some->n; r++, to += next, from += row) {
        const struct join *join = &work->join[r / LINE];
        float *output = partial_output(to) + column;
        if (!((join->only_first | join->only_second) >> r % LINE & 1))
            join_row(join, r % LINE, from, n, output);
        else if (join->only_second >> r % LINE & 1)
            memcpy(output, from, n * 64);
    }
}

#endif

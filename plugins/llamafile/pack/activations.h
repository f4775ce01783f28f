/* SPDX-License-Identifier: Apache-2.0 */
/*
 * activations.h - packing of activation rows, on vectors.
 *
 * A group of 32 values x becomes int8 q and one scale d = max|x| / 127, q = x * (127 / max|x|) to the
 * nearest integer: |x - d q| <= d/2 but for rounding. A group with an infinity or NaN gets q = 0 and a
 * scale of NaN, which makes the outputs of its row, and of no other, NaN. Below 2^-118, where 127 / max|x|
 * would overflow, a group is zero.
 */
#ifndef KT_PLUGINS_LLAMAFILE_PACK_ACTIVATIONS_H
#define KT_PLUGINS_LLAMAFILE_PACK_ACTIVATIONS_H

#include "plugins/llamafile/llamafile.h"

#include "plugins/common/simd/simd.h"
#ifdef ROWS_SHARE_SCALE
#include "plugins/llamafile/pack/shared_scale.h"
#endif
#ifdef ROWS_BOUNDED
#include "plugins/llamafile/pack/bounded_sums.h"
#endif

#include <float.h>
#include <string.h>

INLINE void quantize_group(const float *x, uint8_t *block, unsigned g)
{
    int8_t *q = (int8_t *)block + ACT_Q + GROUP * g;
    uint32_t max_bits = vec_absmax32(x);
    float max = bits_to_float(max_bits), scale = 0.0f;
    int16_t pair[4] = {0, 0, 0, 0};
    if (max_bits > 0x7f7fffff) {
        scale = bits_to_float(0x7fc00000);
        memset(q, 0, GROUP);
    } else if (max < 0x1p-118f) {
        memset(q, 0, GROUP);
    } else {
        scale = max / 127.0f;
        vec_quantize32(x, 127.0f / max, q);
        vec_pair_sums32(q, pair);
    }
    int16_t pair32[2] = {(int16_t)(pair[0] + pair[2]), (int16_t)(pair[1] + pair[3])};
    float sums[3] = {scale * (float)(pair[0] + pair[1]), scale * (float)(pair[2] + pair[3]),
                     scale * (float)(pair32[0] + pair32[1])};
    memcpy(block + ACT_SCALE + 4 * g, &scale, 4);
    memcpy(block + ACT_SUM16 + 8 * g, sums, 8);
    memcpy(block + ACT_SUM32 + 4 * g, sums + 2, 4);
    for (int i = 0; i < 4; i++)
        pair[i] = (int16_t)-pair[i];
    pair32[0] = (int16_t)-pair32[0];
    pair32[1] = (int16_t)-pair32[1];
    memcpy(block + ACT_PAIR16 + 8 * g, pair, 8);
    memcpy(block + ACT_PAIR32 + 4 * g, pair32, 4);
}

/* n <= 256 numbers of a source row, from column c on, as float32; the rest of x is zeroed. */
INLINE void read_source(const uint8_t *from, uint32_t dtype, uint64_t c, unsigned n, float *x)
{
    if (dtype == KT_DTYPE_F32) {
        memcpy(x, from + 4 * c, n * sizeof(float));
    } else {
        from += 2 * c;
        for (unsigned i = 0; i < n; i++)
            x[i] = dtype == KT_DTYPE_F16 ? half_to_float(load_u16(from + 2 * i))
                                         : bf16_to_float(load_u16(from + 2 * i));
    }
    memset(x + n, 0, (SUPERBLOCK - n) * sizeof(float));
}

#ifdef VEC_GROUPS
/* As quantize_group, all groups at once; false: one has an infinity or NaN. */
INLINE bool quantize_finite(const float *x, uint8_t *block)
{
    int8_t *q = (int8_t *)block + ACT_Q;
    vf sums, largest;
    vf_measure_halves(x, 1.0f, &sums, &largest);
    if (vf_at_least(vf_set(FLT_MAX), largest) != 0xffff)
        return false;
    largest = vf_max(largest, vf_swap(largest));
    const uint32_t tiny = ~vf_at_least(largest, vf_set(0x1p-118f));
    const vf scales = vf_clear(tiny, vf_div(largest, vf_set(127.0f)));
    vec_quantize_halves(x, vf_clear(tiny, vf_div(vf_set(127.0f), largest)), q);
    const vi pairs = vi_pair_sums_halves(q), pairs32 = vi_add16(pairs, vi_swap(pairs));
    vf_store_even(block + ACT_SCALE, scales);
    vf_store_even(block + ACT_SUM32, vf_mul(scales, vf_from_int(vi_add_pairs16(pairs32))));
    vf_store((float *)(void *)(block + ACT_SUM16), vf_mul(scales, vf_from_int(vi_add_pairs16(pairs))));
    vi_store(block + ACT_PAIR16, vi_minus16(pairs));
    vi_store_even(block + ACT_PAIR32, vi_minus16(pairs32));
    return true;
}
#endif

INLINE void quantize_groups(const float *x, uint8_t *block)
{
#ifdef VEC_GROUPS
    if (quantize_finite(x, block)) {
        memset(block + ACT_PAIR32 + 32, 0, ACT_SIZE - ACT_PAIR32 - 32);
        return;
    }
#endif
    for (unsigned g = 0; g < SUPERBLOCK / GROUP; g++)
        quantize_group(x + GROUP * g, block, g);
    memset(block + ACT_PAIR32 + 32, 0, ACT_SIZE - ACT_PAIR32 - 32);
}

/* How a row is quantized: each group with a scale; superblocks share one, with halves of groups as pairs or
 * with groups (shared_scale.h); groups whose sums are bounded. */
enum row_rule { RULE_GROUPS, RULE_HALVES_SHARED, RULE_GROUPS_SHARED, RULE_BOUNDED };

INLINE enum row_rule find_row_rule(const struct kt_layout *layout, enum kt_stage stage)
{
    if (has_bounded_sums(layout, stage))
        return RULE_BOUNDED;
    if (!has_shared_scales(layout, stage))
        return RULE_GROUPS;
    return has_half_pairs(layout, stage) ? RULE_HALVES_SHARED : RULE_GROUPS_SHARED;
}

/* `offset` of the weights' codes, where scales are shared. */
INLINE void pack_row(const uint8_t *from, uint32_t dtype, uint64_t k, enum row_rule rule, int offset,
                     uint8_t *quants, uint8_t *floats)
{
    _Alignas(64) float x[SUPERBLOCK];

    for (uint64_t c = 0; c < k; c += SUPERBLOCK) {
        unsigned n = k - c < SUPERBLOCK ? (unsigned)(k - c) : SUPERBLOCK;
        read_source(from, dtype, c, n, x);
#ifdef ROWS_SHARE_SCALE
        if (quants && (rule == RULE_HALVES_SHARED || rule == RULE_GROUPS_SHARED))
            quantize_superblock(x, rule == RULE_HALVES_SHARED, offset, quants + c / SUPERBLOCK * ACT_SIZE);
#endif
        (void)offset;
#ifdef ROWS_BOUNDED
        if (quants && rule == RULE_BOUNDED)
            quantize_bounded(x, quants + c / SUPERBLOCK * ACT_SIZE);
#endif
        if (quants && rule == RULE_GROUPS)
            quantize_groups(x, quants + c / SUPERBLOCK * ACT_SIZE);
        if (floats) /* up to the 64 bytes at which rows are aligned */
            memcpy(floats + 4 * c, x, round_up(n * sizeof(float), 64));
    }
}

static void pack_activations(void *instance, const struct kt_act_pack *job)
{
    (void)instance;
    const struct kt_layout *layout = job->layout;
    bool quants = has_part(layout, job->stage, false), floats = has_part(layout, job->stage, true);
    uint64_t at = floats_offset(layout, job->stage);
    const enum row_rule rule = find_row_rule(layout, job->stage);
    const uint32_t weights = tile_format(layout, job->stage, 0)->dtype;
    const int offset = layout_format(layout, weights)->offset;
    const struct act_source source = find_act_source(job);

    for (uint32_t row = job->row_begin; row < job->row_end; row++) {
        uint8_t *to = (uint8_t *)job->packed + row * layout->act_row_size[job->stage];
        pack_row(source.first + (int64_t)row * source.stride, source.dtype, stage_k(layout, job->stage), rule,
                 offset, quants ? to : NULL, floats ? to + at : NULL);
    }
}

#endif

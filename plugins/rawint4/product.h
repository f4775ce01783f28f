/* SPDX-License-Identifier: Apache-2.0 */
/* product.h - what 4 bits are made to on vectors. See plugins/common/coded/kernel_tmpl.h for what a level
 * sets.
 */
#ifndef KT_PLUGINS_RAWINT4_PRODUCT_H
#define KT_PLUGINS_RAWINT4_PRODUCT_H

#include "plugins/rawint4/fixed_rows.h"

#include "plugins/common/bf16/activations.h"
#include "plugins/common/gemm/prefetch.h"
#if !TILED
#include "plugins/rawint4/int8_rows.h"
#endif
#include "plugins/rawint4/pack.h"

#include "plugins/common/bf16/epilogue.h"

#include "plugins/common/gemm/microkernel.h"

#include "plugins/common/bf16/microkernel.h"

/* Kinds of codes for rows of whole numbers (fixed.h): of 15 bits, or of 8. KIND_FEW: what few rows are
 * multiplied as. */
#define KIND_FIXED 2
#define KIND_INT8 6
#define KIND_FEW(kind) ((kind) | (FIXED ? KIND_FIXED : 0))

struct decoder {
    lookup16 e2m1;
    vi fixed_e2m1;
};

INLINE struct decoder make_decoder(int kind)
{
    static const uint16_t table[16] = E2M1_TABLE;
    /* doubled, and 12 more */
    static const uint8_t fixed[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
    (void)kind;
    return (struct decoder){make_lookup16(table), vi_table(fixed)};
}

/* int4 as 128 + code, which is exact: 0x4300 is 128, and the lowest bit of its fraction is 1. */
INLINE void decode(vi codes, const struct decoder *decoder, int kind, vi *w)
{
    const vi low = vi_splat32(0x000f000f), one28 = vi_splat32(0x43004300);
    UNROLL_FOR (int i = 0; i < 4; i++) {
        vi shifted = i ? vi_shr32(codes, 4 * i) : codes;
        w[i] = (kind & 1) == KIND_INT4 ? vi_and_or(shifted, low, one28) : vi_lookup16(decoder->e2m1, shifted);
    }
}

#define OFFSETS(kind) ((kind) != KIND_E2M1)
#define IS_FINE(kind) ((kind)&KIND_FINE)
#define IS_FIXED(kind) ((kind)&KIND_FIXED)
#define IS_INT8(kind) (((kind)&KIND_INT8) == KIND_INT8)
#define DOUBLED(kind) (((kind)&1) == KIND_E2M1 && IS_FIXED(kind))
#define CODE_ZERO(kind) (((kind) & ~KIND_FINE) == KIND_INT4 ? 128.0f : DOUBLED(kind) ? 12.0f : 0.0f)
#define FIND_SUMS(kind, x, r, filled) (IS_INT8(kind) ? INT8_SUMS((x)->x[r], filled) : (x)->sums[r])

#include "plugins/rawint4/fixed.h"

#include "plugins/common/coded/gemv_tmpl.h"

#include "plugins/common/coded/dequantize.h"

/* Passes of few rows with codes of a kind, and a list of them. */
#if FEW_ROWS >= 8
#define DEFINE_PASSES(name, kind)                \
    DEFINE_FEW(name##_1, 1, kind)                \
    DEFINE_FEW(name##_2, 2, kind)                \
    DEFINE_FEW(name##_4, 4, kind)                \
    DEFINE_FEW(name##_8, 8, kind)                \
    static const struct pass name##_passes[] = { \
        {8, 1, {name##_8, name##_8}},            \
        {4, 1, {name##_4, name##_4}},            \
        {2, 1, {name##_2, name##_2}},            \
        {1, 1, {name##_1, name##_1}},            \
    };
#elif FEW_ROWS >= 4
#define DEFINE_PASSES(name, kind)                \
    DEFINE_FEW(name##_1, 1, kind)                \
    DEFINE_FEW(name##_2, 2, kind)                \
    DEFINE_FEW(name##_4, 4, kind)                \
    static const struct pass name##_passes[] = { \
        {4, 1, {name##_4, name##_4}},            \
        {2, 1, {name##_2, name##_2}},            \
        {1, 1, {name##_1, name##_1}},            \
    };
#else
#define DEFINE_PASSES(name, kind)                \
    DEFINE_FEW(name##_1, 1, kind)                \
    DEFINE_FEW(name##_2, 2, kind)                \
    static const struct pass name##_passes[] = { \
        {2, 1, {name##_2, name##_2}},            \
        {1, 1, {name##_1, name##_1}},            \
    };
#endif

DEFINE_PASSES(int4, KIND_FEW(KIND_INT4))
DEFINE_PASSES(fine, KIND_FEW(KIND_INT4 | KIND_FINE))
DEFINE_PASSES(e2m1, KIND_FEW(KIND_E2M1))
#if !TILED
DEFINE_PASSES(int4_int8, KIND_INT4 | KIND_INT8)
DEFINE_PASSES(fine_int8, KIND_INT4 | KIND_INT8 | KIND_FINE)
DEFINE_PASSES(e2m1_int8, KIND_E2M1 | KIND_INT8)
#endif

static int find_stage_kind(const struct kt_product *job, enum kt_stage stage)
{
    int kind = find_kind(job->layout->shape.format[stage == KT_STAGE_DOWN ? KT_DOWN : KT_GATE].dtype);
    return kind | (find_coded(job->layout, stage).fine ? KIND_FINE : 0);
}

static const struct pass *list_few(const struct kt_product *job, enum kt_stage stage)
{
    int kind = find_stage_kind(job, stage);
#if !TILED
    if (job->layout->words[WORD_INT8_ROWS])
        return kind == KIND_INT4 ? int4_int8_passes : kind == KIND_FINE ? fine_int8_passes : e2m1_int8_passes;
#endif
    return kind == KIND_INT4 ? int4_passes : kind == KIND_FINE ? fine_passes : e2m1_passes;
}

static void expand_panel(const struct kt_product *job, enum kt_stage stage, const struct coded_panel *panel,
                         uint64_t t, uint64_t stop, bool near, uint8_t *to)
{
    int kind = find_stage_kind(job, stage);
    if (kind == KIND_INT4)
        expand_tiles(panel, t, stop, KIND_INT4, near, to);
    else if (kind == KIND_FINE)
        expand_tiles(panel, t, stop, KIND_FINE, near, to);
    else
        expand_tiles(panel, t, stop, KIND_E2M1, near, to);
}

#endif

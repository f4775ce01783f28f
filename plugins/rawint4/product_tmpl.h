/* SPDX-License-Identifier: Apache-2.0 */
/*
 * product_tmpl.h - products of few rows with codes of each kind, and panels made bfloat16.
 * Parameters  GEMV_MAX_ROWS  rows that share one pass over a panel of codes, at most
 *             FIXED     1: they are multiplied as whole numbers (fixed_tmpl.h); default 0
 * and those of coded/gemv_tmpl.h.
 */
#ifndef KT_PLUGINS_RAWINT4_PRODUCT_TMPL_H
#define KT_PLUGINS_RAWINT4_PRODUCT_TMPL_H

#ifndef GEMV_MAX_ROWS
#error "rawint4/product_tmpl.h: define GEMV_MAX_ROWS"
#endif
#ifndef FIXED
#define FIXED 0
#endif

#include "plugins/rawint4/encoding.h"
#include "plugins/rawint4/fixed_rows.h"
#if !TILED
#include "plugins/rawint4/int8_rows_tmpl.h"
#endif
#include "plugins/rawint4/fixed_tmpl.h"
#include "plugins/rawint4/pack.h"

#define DECODER_H "plugins/rawint4/encoding.h"
#include "plugins/common/coded/dequantize_tmpl.h"

/* What few rows are multiplied as. */
#define KIND_FEW(kind) ((kind) | (FIXED ? KIND_FIXED : 0))

/* Passes of few rows with codes of a kind, and a list of them. */
#if GEMV_MAX_ROWS >= 8
#define DEFINE_GEMV_LIST(name, kind)                  \
    DEFINE_GEMV(name##_1, 1, kind)                    \
    DEFINE_GEMV(name##_2, 2, kind)                    \
    DEFINE_GEMV(name##_4, 4, kind)                    \
    DEFINE_GEMV(name##_8, 8, kind)                    \
    static const struct microkernel name##_gemv[] = { \
        {8, 1, {name##_8, name##_8}},                 \
        {4, 1, {name##_4, name##_4}},                 \
        {2, 1, {name##_2, name##_2}},                 \
        {1, 1, {name##_1, name##_1}},                 \
    };
#elif GEMV_MAX_ROWS >= 4
#define DEFINE_GEMV_LIST(name, kind)                  \
    DEFINE_GEMV(name##_1, 1, kind)                    \
    DEFINE_GEMV(name##_2, 2, kind)                    \
    DEFINE_GEMV(name##_4, 4, kind)                    \
    static const struct microkernel name##_gemv[] = { \
        {4, 1, {name##_4, name##_4}},                 \
        {2, 1, {name##_2, name##_2}},                 \
        {1, 1, {name##_1, name##_1}},                 \
    };
#else
#define DEFINE_GEMV_LIST(name, kind)                  \
    DEFINE_GEMV(name##_1, 1, kind)                    \
    DEFINE_GEMV(name##_2, 2, kind)                    \
    static const struct microkernel name##_gemv[] = { \
        {2, 1, {name##_2, name##_2}},                 \
        {1, 1, {name##_1, name##_1}},                 \
    };
#endif

DEFINE_GEMV_LIST(int4, KIND_FEW(KIND_INT4))
DEFINE_GEMV_LIST(fine, KIND_FEW(KIND_INT4 | KIND_FINE))
DEFINE_GEMV_LIST(e2m1, KIND_FEW(KIND_E2M1))
#if !TILED
DEFINE_GEMV_LIST(int4_int8, KIND_INT4 | KIND_INT8)
DEFINE_GEMV_LIST(fine_int8, KIND_INT4 | KIND_INT8 | KIND_FINE)
DEFINE_GEMV_LIST(e2m1_int8, KIND_E2M1 | KIND_INT8)
#endif

static int find_stage_kind(const struct kt_product *job, enum kt_stage stage)
{
    int kind = find_kind(job->layout->shape.format[stage == KT_STAGE_DOWN ? KT_DOWN : KT_GATE].dtype);
    return kind | (find_coded(job->layout, stage).fine ? KIND_FINE : 0);
}

static const struct microkernel *list_gemv(const struct kt_product *job, enum kt_stage stage)
{
    int kind = find_stage_kind(job, stage);
#if !TILED
    if (job->layout->words[WORD_INT8_ROWS])
        return kind == KIND_INT4 ? int4_int8_gemv : kind == KIND_FINE ? fine_int8_gemv : e2m1_int8_gemv;
#endif
    return kind == KIND_INT4 ? int4_gemv : kind == KIND_FINE ? fine_gemv : e2m1_gemv;
}

static void dequantize_panel(const struct kt_product *job, enum kt_stage stage,
                             const struct coded_panel *panel, uint64_t t, uint64_t stop, bool streamed,
                             uint8_t *to)
{
    int kind = find_stage_kind(job, stage);
    if (kind == KIND_INT4)
        dequantize_tiles(panel, t, stop, KIND_INT4, streamed, to);
    else if (kind == KIND_FINE)
        dequantize_tiles(panel, t, stop, KIND_FINE, streamed, to);
    else
        dequantize_tiles(panel, t, stop, KIND_E2M1, streamed, to);
}

#endif

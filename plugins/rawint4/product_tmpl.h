/* SPDX-License-Identifier: Apache-2.0 */
/*
 * product_tmpl.h - GEMV with codes of each encoding, and panels dequantized to bfloat16.
 *
 * Parameters  GEMV_MAX_ROWS  MR of the largest microkernel
 *             ROW_EXTRA      1: activations are fixed-point numbers (fixed_point_tmpl.h); default 0
 *             BY_VECTOR      1: they are multiplied one vector of codes after the other (by_vector_tmpl.h);
 *                            default 0
 * and those of coded/gemv_tmpl.h.
 */
#ifndef KT_PLUGINS_RAWINT4_PRODUCT_TMPL_H
#define KT_PLUGINS_RAWINT4_PRODUCT_TMPL_H

#ifndef GEMV_MAX_ROWS
#error "rawint4/product_tmpl.h: define GEMV_MAX_ROWS"
#endif
#ifndef ROW_EXTRA
#define ROW_EXTRA 0
#endif
#ifndef BY_VECTOR
#define BY_VECTOR 0
#endif

#include "plugins/rawint4/encoding.h"
#include "plugins/rawint4/fixed_point_rows.h"
#if !TILED
#include "plugins/rawint4/int8_rows_tmpl.h"
#endif
#include "plugins/rawint4/fixed_point_tmpl.h"
#include "plugins/rawint4/pack.h"

#define DECODER_H "plugins/rawint4/encoding.h"
#if TILED
#include "plugins/rawint4/expand.h"
#endif
#include "plugins/common/coded/dequantize_tmpl.h"
#if BY_VECTOR
#include "plugins/rawint4/by_vector_tmpl.h"
#endif

/* The encoding for few rows. */
#define GEMV_ENCODING(encoding) ((encoding) | (ROW_EXTRA ? ENCODING_FIXED_POINT : 0))

#if BY_VECTOR
#undef DEFINE_GEMV
#define DEFINE_GEMV(name, rows, encoding)                                                                \
    static void name(const struct panel *panel, const struct act_rows *x, struct prefetcher *prefetcher, \
                     float out[MAX_ROWS][PANEL_ROWS])                                                    \
    {                                                                                                    \
        (void)prefetcher;                                                                                \
        multiply_by_vector(&panel->own, x, rows, encoding, out);                                         \
    }
#endif

/* Microkernels for few rows with codes of an encoding, and a list of them. */
#if BY_VECTOR
#define DEFINE_GEMV_LIST(name, encoding)              \
    DEFINE_GEMV(name##_1, 1, encoding)                \
    DEFINE_GEMV(name##_2, 2, encoding)                \
    DEFINE_GEMV(name##_3, 3, encoding)                \
    DEFINE_GEMV(name##_4, 4, encoding)                \
    static const struct microkernel name##_gemv[] = { \
        {4, 1, {name##_4, name##_4}},                 \
        {3, 1, {name##_3, name##_3}},                 \
        {2, 1, {name##_2, name##_2}},                 \
        {1, 1, {name##_1, name##_1}},                 \
    };
#elif GEMV_MAX_ROWS >= 8
#define DEFINE_GEMV_LIST(name, encoding)              \
    DEFINE_GEMV(name##_1, 1, encoding)                \
    DEFINE_GEMV(name##_2, 2, encoding)                \
    DEFINE_GEMV(name##_4, 4, encoding)                \
    DEFINE_GEMV(name##_8, 8, encoding)                \
    static const struct microkernel name##_gemv[] = { \
        {8, 1, {name##_8, name##_8}},                 \
        {4, 1, {name##_4, name##_4}},                 \
        {2, 1, {name##_2, name##_2}},                 \
        {1, 1, {name##_1, name##_1}},                 \
    };
#elif GEMV_MAX_ROWS >= 4
#define DEFINE_GEMV_LIST(name, encoding)              \
    DEFINE_GEMV(name##_1, 1, encoding)                \
    DEFINE_GEMV(name##_2, 2, encoding)                \
    DEFINE_GEMV(name##_4, 4, encoding)                \
    static const struct microkernel name##_gemv[] = { \
        {4, 1, {name##_4, name##_4}},                 \
        {2, 1, {name##_2, name##_2}},                 \
        {1, 1, {name##_1, name##_1}},                 \
    };
#else
#define DEFINE_GEMV_LIST(name, encoding)              \
    DEFINE_GEMV(name##_1, 1, encoding)                \
    DEFINE_GEMV(name##_2, 2, encoding)                \
    static const struct microkernel name##_gemv[] = { \
        {2, 1, {name##_2, name##_2}},                 \
        {1, 1, {name##_1, name##_1}},                 \
    };
#endif

DEFINE_GEMV_LIST(int4, GEMV_ENCODING(ENCODING_INT4))
DEFINE_GEMV_LIST(subtile, GEMV_ENCODING(ENCODING_INT4 | SUBTILE_GROUPS))
DEFINE_GEMV_LIST(e2m1, GEMV_ENCODING(ENCODING_E2M1))
#if !TILED
DEFINE_GEMV_LIST(int4_int8, ENCODING_INT4 | ENCODING_INT8)
DEFINE_GEMV_LIST(subtile_int8, ENCODING_INT4 | ENCODING_INT8 | SUBTILE_GROUPS)
DEFINE_GEMV_LIST(e2m1_int8, ENCODING_E2M1 | ENCODING_INT8)
#endif

static int find_stage_encoding(const struct kt_product *job, enum kt_stage stage)
{
    int encoding = find_encoding(job->layout->shape.format[stage == KT_STAGE_DOWN ? KT_DOWN : KT_UP].dtype);
    return encoding | (find_coded(job->layout, stage).subtile ? SUBTILE_GROUPS : 0);
}

static const struct microkernel *list_gemv(const struct kt_product *job, enum kt_stage stage)
{
    int encoding = find_stage_encoding(job, stage);
#if !TILED
    if (job->layout->words[WORD_INT8_ROWS])
        return encoding == ENCODING_INT4    ? int4_int8_gemv
               : encoding == SUBTILE_GROUPS ? subtile_int8_gemv
                                            : e2m1_int8_gemv;
#endif
    return encoding == ENCODING_INT4 ? int4_gemv : encoding == SUBTILE_GROUPS ? subtile_gemv : e2m1_gemv;
}

static void dequantize_panel(const struct kt_product *job, enum kt_stage stage,
                             const struct coded_panel *panel, uint64_t t, uint64_t stop, bool streamed,
                             uint8_t *to)
{
    int encoding = find_stage_encoding(job, stage);
#if TILED
    bool exact = panel->coded.form == SCALE_F16 || panel->coded.form == SCALE_BF16;
    if (encoding == ENCODING_INT4 && exact)
        dequantize_tiles(panel, t, stop, ENCODING_EXPANDED, streamed, to);
    else if (encoding == SUBTILE_GROUPS && exact)
        dequantize_tiles(panel, t, stop, ENCODING_EXPANDED | SUBTILE_GROUPS, streamed, to);
    else
#endif
        if (encoding == ENCODING_INT4)
        dequantize_tiles(panel, t, stop, ENCODING_INT4, streamed, to);
    else if (encoding == SUBTILE_GROUPS)
        dequantize_tiles(panel, t, stop, SUBTILE_GROUPS, streamed, to);
    else
        dequantize_tiles(panel, t, stop, ENCODING_E2M1, streamed, to);
}

#endif

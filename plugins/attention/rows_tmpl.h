/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_tmpl.h - all functions of rows (<kt/plugin_rows.h>) of a level. A kernel of a level defines SIMD,
 * includes this, and has a line ROWS_LEVEL(level); attention.h declares attention_rows_LEVEL. Parameters:
 * those of simd/simd.h.
 * Optional    ROWS_MULTIPLY   the function of products, where a level has one of its own
 */
#ifndef KT_PLUGINS_ATTENTION_ROWS_TMPL_H
#define KT_PLUGINS_ATTENTION_ROWS_TMPL_H

#include "plugins/attention/attention.h"
#include "plugins/attention/rows_chunk.h"
#include "plugins/attention/rows_convolve.h"
#include "plugins/attention/rows_multiply.h"
#include "plugins/attention/rows_norm.h"
#include "plugins/attention/rows_rotate.h"
#include "plugins/attention/rows_route.h"

#ifndef ROWS_MULTIPLY
#define ROWS_MULTIPLY rows_multiply
#endif

#define ROWS_LEVEL(level)                               \
    const struct kt_rows_ops attention_rows_##level = { \
        .struct_size = sizeof(struct kt_rows_ops),      \
        .norm = rows_norm,                              \
        .gate = rows_gate,                              \
        .rotate = rows_rotate,                          \
        .multiply = ROWS_MULTIPLY,                      \
        .route = rows_route,                            \
        .convolve = rows_convolve,                      \
        .decay = rows_decay,                            \
        .delta = rows_delta,                            \
        .delta_scratch = rows_delta_scratch,            \
    }

#endif

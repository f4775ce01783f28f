/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/microkernels_tmpl.h - the passes that a level asks for, made of the function MULTIPLY.
 *
 * Parameters  MULTIPLY     multiply(panel, x, rows, first, n, near, stream, out): the sums of `rows` rows and
 * of vectors first..first+n-1 of a panel; all but the pointers are constants ROWS_WIDE    rows of the largest
 * pass over a whole panel (8), 0: two rows are ROWS_TILE    rows of a pass over one tile of each pair of a
 * panel, 0: no such pass. With 16 registers, 4 rows of 16 columns cost fewer loads and less making ready of
 * codes than 2 rows of 32, but read a panel twice: for L2, not for memory ROWS_EACH    12: each number of
 * rows up to it has a near pass of its own (list each8); default 0 ROWS_PAIRED  1: passes of many rows are
 * those of gemm/mmla_tmpl.h; default 0 and those of gemm/microkernel_tmpl.h.
 */
#ifndef KT_PLUGINS_COMMON_GEMM_MICROKERNELS_TMPL_H
#define KT_PLUGINS_COMMON_GEMM_MICROKERNELS_TMPL_H

#ifndef MULTIPLY
#error "gemm/microkernels_tmpl.h: define MULTIPLY"
#endif
#ifndef ROWS_WIDE
#error "gemm/microkernels_tmpl.h: define ROWS_WIDE"
#endif
#ifndef ROWS_TILE
#error "gemm/microkernels_tmpl.h: define ROWS_TILE"
#endif
#ifndef ROWS_EACH
#define ROWS_EACH 0
#endif
#ifndef ROWS_PAIRED
#define ROWS_PAIRED 0
#endif

#include "plugins/common/gemm/microkernel_tmpl.h"

DEFINE_PASS(pass8_1_near, MULTIPLY, 1, true)
DEFINE_PASS(pass8_2_near, MULTIPLY, 2, true)
#if ROWS_PAIRED
#include "plugins/common/gemm/mmla_tmpl.h"
#else
DEFINE_PASS(pass8_1, MULTIPLY, 1, false)
DEFINE_PASS(pass8_2, MULTIPLY, 2, false)
#endif
#if ROWS_WIDE
DEFINE_PASS(pass8_4_near, MULTIPLY, 4, true)
DEFINE_PASS(pass8_8_near, MULTIPLY, 8, true)
DEFINE_PASS(pass8_4, MULTIPLY, 4, false)
DEFINE_PASS(pass8_8, MULTIPLY, 8, false)
#endif
#if ROWS_EACH == 12
DEFINE_PASS(pass8_3_near, MULTIPLY, 3, true)
DEFINE_PASS(pass8_5_near, MULTIPLY, 5, true)
DEFINE_PASS(pass8_6_near, MULTIPLY, 6, true)
DEFINE_PASS(pass8_7_near, MULTIPLY, 7, true)
DEFINE_PASS(pass8_9_near, MULTIPLY, 9, true)
DEFINE_PASS(pass8_10_near, MULTIPLY, 10, true)
DEFINE_PASS(pass8_11_near, MULTIPLY, 11, true)
DEFINE_PASS(pass8_12_near, MULTIPLY, 12, true)
/* One pass for each number of rows up to ROWS_EACH. */
static const struct pass each8[] = {
    {12, 1, {NULL, pass8_12_near}}, {11, 1, {NULL, pass8_11_near}}, {10, 1, {NULL, pass8_10_near}},
    {9, 1, {NULL, pass8_9_near}},   {8, 1, {NULL, pass8_8_near}},   {7, 1, {NULL, pass8_7_near}},
    {6, 1, {NULL, pass8_6_near}},   {5, 1, {NULL, pass8_5_near}},   {4, 1, {NULL, pass8_4_near}},
    {3, 1, {NULL, pass8_3_near}},   {2, 1, {NULL, pass8_2_near}},   {1, 1, {NULL, pass8_1_near}},
};
#endif
#if ROWS_TILE && !ROWS_PAIRED
DEFINE_TILE_PASS(pass8_tile, MULTIPLY, ROWS_TILE)
#endif

static const struct pass passes8[] = {
#if ROWS_PAIRED
    {8, 4, {pass_pairs_8, NULL}},
    {4, 2, {pass_pairs_4, NULL}},
    {2, 1, {pass_pairs_2, pass8_2_near}},
    {1, 1, {pass_pairs_1, pass8_1_near}},
#else
#if ROWS_WIDE
    {8, 1, {pass8_8, pass8_8_near}},    {4, 1, {pass8_4, pass8_4_near}},
#endif
#if ROWS_TILE
    {ROWS_TILE, 2, {pass8_tile, NULL}},
#endif
    {2, 1, {pass8_2, pass8_2_near}},    {1, 1, {pass8_1, pass8_1_near}},
#endif
};

#endif

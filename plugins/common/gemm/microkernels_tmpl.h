/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/microkernels_tmpl.h - the microkernels that a level asks for, made of the function MULTIPLY.
 *
 * Parameters  MULTIPLY     multiply(panel, x, rows, first, n, streamed, prefetcher, out): the sums of
 *                          `rows` rows and vectors first..first+n-1 of a panel; rows, first, n and streamed
 *                          are constants
 *             MR_PANEL     not 0: there are those that read both tiles of a panel with each number of rows
 *                          up to 8; 0: with up to 2
 *             MR_TILE      MR of one that reads one tile after the other; 0: there is none. With 16
 *                          registers, 4 rows of 16 columns need fewer loads than 2 rows of 32, but read a
 *                          panel twice: for panels in L2, not in memory. From 4 on there is one of 3, too,
 *                          and where it is 6 there are those of 5 and 4
 *             MR_EXACT     12: there is also one for each number of rows up to it (microkernels_exact);
 *                          default 0
 *             MICROKERNEL_MMLA   1: those of many rows are gemm/mmla_tmpl.h's; default 0
 * and those of gemm/microkernel_tmpl.h.
 */
#ifndef KT_PLUGINS_COMMON_GEMM_MICROKERNELS_TMPL_H
#define KT_PLUGINS_COMMON_GEMM_MICROKERNELS_TMPL_H

#ifndef MULTIPLY
#error "gemm/microkernels_tmpl.h: define MULTIPLY"
#endif
#ifndef MR_PANEL
#error "gemm/microkernels_tmpl.h: define MR_PANEL"
#endif
#ifndef MR_TILE
#error "gemm/microkernels_tmpl.h: define MR_TILE"
#endif
#ifndef MR_EXACT
#define MR_EXACT 0
#endif
#ifndef MICROKERNEL_MMLA
#define MICROKERNEL_MMLA 0
#endif

#include "plugins/common/gemm/microkernel_tmpl.h"

DEFINE_MICROKERNEL(microkernel_1_streamed, MULTIPLY, 1, true)
DEFINE_MICROKERNEL(microkernel_2_streamed, MULTIPLY, 2, true)
#if MICROKERNEL_MMLA
#include "plugins/common/gemm/mmla_tmpl.h"
#else
DEFINE_MICROKERNEL(microkernel_1, MULTIPLY, 1, false)
DEFINE_MICROKERNEL(microkernel_2, MULTIPLY, 2, false)
#endif
#if MR_PANEL
DEFINE_MICROKERNEL(microkernel_3_streamed, MULTIPLY, 3, true)
DEFINE_MICROKERNEL(microkernel_4_streamed, MULTIPLY, 4, true)
DEFINE_MICROKERNEL(microkernel_5_streamed, MULTIPLY, 5, true)
DEFINE_MICROKERNEL(microkernel_6_streamed, MULTIPLY, 6, true)
DEFINE_MICROKERNEL(microkernel_7_streamed, MULTIPLY, 7, true)
DEFINE_MICROKERNEL(microkernel_8_streamed, MULTIPLY, 8, true)
DEFINE_MICROKERNEL(microkernel_3, MULTIPLY, 3, false)
DEFINE_MICROKERNEL(microkernel_4, MULTIPLY, 4, false)
DEFINE_MICROKERNEL(microkernel_5, MULTIPLY, 5, false)
DEFINE_MICROKERNEL(microkernel_6, MULTIPLY, 6, false)
DEFINE_MICROKERNEL(microkernel_7, MULTIPLY, 7, false)
DEFINE_MICROKERNEL(microkernel_8, MULTIPLY, 8, false)
#endif
#if MR_EXACT == 12
DEFINE_MICROKERNEL(microkernel_9_streamed, MULTIPLY, 9, true)
DEFINE_MICROKERNEL(microkernel_10_streamed, MULTIPLY, 10, true)
DEFINE_MICROKERNEL(microkernel_11_streamed, MULTIPLY, 11, true)
DEFINE_MICROKERNEL(microkernel_12_streamed, MULTIPLY, 12, true)
/* For exactly as many rows as there are. */
static const struct microkernel microkernels_exact[] = {
    {12, 1, {NULL, microkernel_12_streamed}}, {11, 1, {NULL, microkernel_11_streamed}},
    {10, 1, {NULL, microkernel_10_streamed}}, {9, 1, {NULL, microkernel_9_streamed}},
    {8, 1, {NULL, microkernel_8_streamed}},   {7, 1, {NULL, microkernel_7_streamed}},
    {6, 1, {NULL, microkernel_6_streamed}},   {5, 1, {NULL, microkernel_5_streamed}},
    {4, 1, {NULL, microkernel_4_streamed}},   {3, 1, {NULL, microkernel_3_streamed}},
    {2, 1, {NULL, microkernel_2_streamed}},   {1, 1, {NULL, microkernel_1_streamed}},
};
#endif
#if MR_TILE && !MICROKERNEL_MMLA
DEFINE_TILE_MICROKERNEL(microkernel_tile, MULTIPLY, MR_TILE)
#if MR_TILE == 6
DEFINE_TILE_MICROKERNEL(microkernel_tile_5, MULTIPLY, 5)
DEFINE_TILE_MICROKERNEL(microkernel_tile_4, MULTIPLY, 4)
#endif
#if MR_TILE >= 4
DEFINE_TILE_MICROKERNEL(microkernel_tile_3, MULTIPLY, 3)
#endif
#endif

static const struct microkernel microkernels[] = {
#if MICROKERNEL_MMLA
    {8, 4, {mmla_8, NULL}},
    {4, 2, {mmla_4, NULL}},
    {2, 1, {mmla_2, microkernel_2_streamed}},
    {1, 1, {mmla_1, microkernel_1_streamed}},
#else
#if MR_PANEL
    {8, 1, {microkernel_8, microkernel_8_streamed}},
    {7, 1, {microkernel_7, microkernel_7_streamed}},
    {6, 1, {microkernel_6, microkernel_6_streamed}},
    {5, 1, {microkernel_5, microkernel_5_streamed}},
    {4, 1, {microkernel_4, microkernel_4_streamed}},
    {3, 1, {microkernel_3, microkernel_3_streamed}},
#endif
#if MR_TILE
    {MR_TILE, 2, {microkernel_tile, NULL}},
#if MR_TILE == 6
    {5, 2, {microkernel_tile_5, NULL}},
    {4, 2, {microkernel_tile_4, NULL}},
#endif
#if MR_TILE >= 4
    {3, 2, {microkernel_tile_3, NULL}},
#endif
#endif
    {2, 1, {microkernel_2, microkernel_2_streamed}},
    {1, 1, {microkernel_1, microkernel_1_streamed}},
#endif
};

#endif

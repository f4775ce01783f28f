/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512_vbmi.c - AVX-512 F, BW, VL and DQ, with VNNI and VBMI. */
#define VEC_VNNI 1
#define VEC_VBMI 1
#include "plugins/common/int8_avx512.h"

#define BLOCK_QUANTS 4
#define BLOCK_FLOATS 4
#define EXPANDS 0

/*
 * Measured on two cores of a Zen 4 (one row, weights from memory, reading alone 66 GB/s): 512 bytes ahead q4_k
 * 46 GB/s, q6_k 48, iq4_xs 44, iq2_xxs 46, q8_0 55; 1 KB costs the light ones 5 to 10 %, 2 KB a third. On a
 * Xeon, prototypes with this layout were best at 512 to 1024.
 */
#define AHEAD 512

#include "plugins/llamafile/strips.h"

#include "plugins/llamafile/stages.h"

LEVEL_OPS(avx512_vbmi);

/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512_vbmi.c - AVX-512 F, BW, VL and DQ, with VNNI and VBMI. */
#define VEC_VNNI 1
#define VEC_VBMI 1
#include "plugins/common/int8_avx512.h"

#define BLOCK_QUANTS 4
#define BLOCK_FLOATS 4
#define EXPANDS 0

/*
 * Not tuned on such a machine yet. From measurements of prototypes with this layout on a Xeon: into L2,
 * 512 to 1024 bytes ahead in the same stream, is best where the kernel is light; heavier ones want 2 KB.
 */
#define AHEAD_Q2 far
#define AHEAD_Q4 far
#define AHEAD_Q5 far
#define AHEAD_Q6 far
#define AHEAD_Q8 far
#define AHEAD_IQ4 far
#define AHEAD_FLOATS far

#include "plugins/llamafile/strips.h"

#include "plugins/llamafile/stages.h"

LEVEL_OPS(avx512_vbmi);

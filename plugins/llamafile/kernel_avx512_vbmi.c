/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512_vbmi.c - AVX-512 F, BW, VL and DQ, with VNNI and VBMI. */
#define VEC_VNNI 1
#define VEC_VBMI 1
#include "plugins/common/int8_avx512.h"

#define BLOCK_QUANTS 4
#define BLOCK_FLOATS 4
#define EXPANDS 0

/*
 * As far as the core says of the machine, on a Zen 4 8 KB: 2 KB cost a third there, but for q8_0, which two cores
 * then read with 0.97 of a limit of 36 GB/s and 0.78 of one of 68, instead of 0.83 and 0.46.
 */
#define AHEAD_Q2 far
#define AHEAD_Q4 far
#define AHEAD_Q5 far
#define AHEAD_Q6 far
#define AHEAD_Q8 2048
#define AHEAD_IQ4 far
#define AHEAD_FLOATS far

#include "plugins/llamafile/strips.h"

#include "plugins/llamafile/stages.h"

LEVEL_OPS(avx512_vbmi);

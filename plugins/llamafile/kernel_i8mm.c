/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_i8mm.c - ARM with FEAT_I8MM: sdot for one row, smmla for more. */
#define VEC_DOTPROD 1
#define VEC_I8MM 1
#include "plugins/common/simd/neon_int8.h"

#define BLOCK_QUANTS 4
#define BLOCK_FLOATS 2
#define EXPANDS 0
#define DOTS_PAIRED
#define AHEAD 0

#include "plugins/llamafile/strips.h"

#include "plugins/llamafile/stages.h"

LEVEL_OPS(i8mm);

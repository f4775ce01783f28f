/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx2.c - AVX2, FMA and F16C. */
#include "plugins/common/vec_avx2.h"

#define BLOCK_QUANTS 4
#define BLOCK_FLOATS 2
#define AHEAD_Q2 0
#define AHEAD_Q4 0
#define AHEAD_Q5 0
#define AHEAD_Q6 0
#define AHEAD_Q8 0
#define AHEAD_IQ4 0
#define AHEAD_FLOATS 0

#include "plugins/llamafile/product.h"
#include "plugins/llamafile/stages.h"

LEVEL_OPS(avx2);

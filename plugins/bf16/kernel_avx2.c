/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx2.c - AVX2, FMA and F16C: bfloat16 is widened to float32. */
#define VEC_VNNI 0
#include "plugins/common/simd/avx2_int8.h"

#define PAIRS 0
#define ROWS_WIDE 0
#define ROWS_TILE 4
#define NEAR_ROWS 2
#define AHEAD 0

#include "plugins/bf16/product.h"

LEVEL_OPS(avx2);

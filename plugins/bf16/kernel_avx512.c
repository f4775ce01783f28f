/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512.c - AVX-512 without BF16: bfloat16 is widened to float32. */
#define VEC_VNNI 0
#include "plugins/common/simd/avx512_int8.h"

#define PAIRS 0
#define ROWS_WIDE 8
#define ROWS_TILE 0
#define NEAR_ROWS UINT32_MAX
#define AHEAD 1024

#include "plugins/bf16/product.h"

LEVEL_OPS(avx512);

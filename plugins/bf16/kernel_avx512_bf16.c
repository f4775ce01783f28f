/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512_bf16.c - AVX-512 with vdpbf16ps. */
#define VEC_VNNI 1
#include "plugins/common/simd/avx512_int8.h"

#define PAIRS 1
#define ROWS_WIDE 8
#define ROWS_TILE 0
#define NEAR_ROWS UINT32_MAX
#define AHEAD 1024

#include "plugins/bf16/product.h"

LEVEL_OPS(avx512_bf16);

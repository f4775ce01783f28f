/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx2.c - AVX2, FMA and F16C. */
#define VEC_VNNI 0
#include "plugins/common/int8_avx2.h"

#define ROWS_WIDE 0
#define ROWS_TILE 4
#define NEAR_ROWS 3
#define EXPAND_ROWS 0

#include "plugins/amx_int4/product.h"

LEVEL_OPS(avx2);

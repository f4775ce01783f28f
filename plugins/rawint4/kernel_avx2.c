/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx2.c - AVX2, FMA and F16C. */
#define VEC_VNNI 0
#define PAIRS 0
#define TILED 0
#define AHEAD 1024
#include "plugins/common/int8_avx2.h"

#include "plugins/common/codes_avx2.h"

#define FEW_ROWS 2
#define EXPAND_ROWS 4
#define ROWS_WIDE 0
#define ROWS_TILE 4

#include "plugins/rawint4/rawint4.h"

#include "plugins/rawint4/product.h"

#include "plugins/common/coded_product.h"

CODED_LEVEL(rawint4, avx2);

/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512.c - AVX-512 without BF16. */
#define VEC_VNNI 0
#define PAIRS 0
#define TILED 0
#define AHEAD 0
#include "plugins/common/int8_avx512.h"

#include "plugins/common/codes_avx512.h"

#define FEW_ROWS 8
#define EXPAND_ROWS 24
#define ROWS_WIDE 8
#define ROWS_TILE 0

#include "plugins/rawint4/rawint4.h"

#include "plugins/rawint4/product.h"

#include "plugins/common/coded_product.h"

CODED_LEVEL(rawint4, avx512);

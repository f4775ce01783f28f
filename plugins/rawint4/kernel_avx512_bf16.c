/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512_bf16.c - AVX-512 with vdpbf16ps. */
#define VEC_VNNI 1
#define PAIRS 1
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

CODED_LEVEL(rawint4, avx512_bf16);

/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_scalar.c - plain C: any CPU, and what the other levels are checked against. */
#define PAIRS 0
#define TILED 0
#define AHEAD 0
#include "plugins/common/simd/scalar_int8.h"

#include "plugins/common/simd/scalar_lookup.h"

#define FEW_ROWS 2
#define EXPAND_ROWS 8
#define ROWS_WIDE 0
#define ROWS_TILE 0

#include "plugins/avx512_fp8/avx512_fp8.h"

#include "plugins/avx512_fp8/decode_scalar.h"

#include "plugins/avx512_fp8/product.h"

#include "plugins/common/coded/kernel_tmpl.h"

CODED_LEVEL(avx512_fp8, scalar);

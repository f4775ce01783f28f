/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512.c - AVX-512 without VBMI and BF16. */
#define VEC_VNNI 0
#define PAIRS 0
#define TILED 0
#define AHEAD 0
#define FIXED 1
#include "plugins/common/simd/avx512_int8.h"

#include "plugins/common/simd/avx512_lookup.h"

#define FEW_ROWS 4
#define EXPAND_ROWS 6
#define ROWS_WIDE 8
#define ROWS_TILE 0
#define MOVED_VECS 2

#include "plugins/avx512_fp8/avx512_fp8.h"

#include "plugins/avx512_fp8/decode_avx512.h"

#include "plugins/avx512_fp8/product.h"

#include "plugins/common/coded/kernel_tmpl.h"

CODED_LEVEL(avx512_fp8, avx512);

/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx2.c - AVX2, FMA and F16C. */
#define VEC_VNNI 0
#define PAIRS 0
#define TILED 0
#define AHEAD 0
#define FIXED 1
#define PREFETCH_FAR 1
#include "plugins/common/simd/avx2_int8.h"

#include "plugins/common/simd/avx2_lookup.h"

#define FEW_ROWS 4
#define EXPAND_ROWS 20
#define ROWS_WIDE 0
#define ROWS_TILE 4
#define MOVED_VECS 1

#include "plugins/avx512_fp8/avx512_fp8.h"

#include "plugins/avx512_fp8/decode_avx2.h"

#include "plugins/avx512_fp8/product.h"

#include "plugins/common/coded/kernel_tmpl.h"

CODED_LEVEL(avx512_fp8, avx2);

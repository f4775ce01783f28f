/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_amx.c - AMX tiles, with AVX-512 for all that is not the product, and for few rows. */
#define VEC_VNNI 1
#define PAIRS 1
#define TILED 1
#define AHEAD 0
#include "plugins/common/simd/avx512_int8.h"

#include "plugins/common/simd/avx512_lookup.h"

#define FEW_ROWS 2
#define FEW_TILE_ROWS 2

#include "plugins/avx512_fp8/avx512_fp8.h"

#include "plugins/avx512_fp8/decode_vbmi.h"

#include "plugins/avx512_fp8/product.h"

#define AMX_DOT AMX_DOT_BF16
#include "plugins/common/simd/amx.h"

#include "plugins/common/gemm/driver_amx_tmpl.h"

#include "plugins/common/coded/kernel_amx_tmpl.h"

CODED_AMX_LEVEL(avx512_fp8);
